/* What a test may order while the program runs. */
#include "fake.h"

static void port_order(struct context *c, int number, const char *state)
{
	struct port *p = port_of(c, number);
	bool up = !strcmp(state, "active");
	if (!p)
		return;
	p->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	mailbox_put(&c->box, (struct ibv_async_event){
				     .element.port_num = number, .event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR});
}

/* Changes an entry of a port's table. */
static void table_order(struct context *c, const char *order, int number, int index, const char *value)
{
	struct port *p = port_of(c, number);
	enum ibv_event_type type = IBV_EVENT_LID_CHANGE;
	if (!p)
		return;
	if (!strcmp(order, "lid"))
		p->lid = index;
	if (!strcmp(order, "gid") && index < p->gids) {
		hex_gid(&p->gid[index], value);
		type = IBV_EVENT_GID_CHANGE;
	}
	if (!strcmp(order, "pkey") && index < p->pkeys) {
		p->pkey[index] = strtol(value, NULL, 0);
		type = IBV_EVENT_PKEY_CHANGE;
	}
	mailbox_put(&c->box, (struct ibv_async_event){.element.port_num = number, .event_type = type});
}

void control(struct context *c, const char *words, char *answer, size_t most)
{
	char order[32] = "", device[64] = "", state[32] = "", value[48] = "";
	unsigned number = 0;
	struct counts *n = &c->counts;
	sscanf(words, "%31s %63s %u %31s %47s", order, device, &number, state, value);
	if (*device && strcmp(device, c->device->ibv.name)) {
		snprintf(answer, most, "another");
		return;
	}
	if (!strcmp(order, "port"))
		port_order(c, number, state);
	if (!strcmp(order, "lid") || !strcmp(order, "gid") || !strcmp(order, "pkey"))
		table_order(c, order, number, atoi(state), value);
	if (!strcmp(order, "hollow"))
		c->hollow = number;
	if (!strcmp(order, "fatal")) {
		c->dead = true;
		for (struct qp *qp = c->qps; qp; qp = qp->next)
			qp_fail(qp);
		mailbox_put(&c->box, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
	}
	struct qp *qp = !strcmp(order, "qp") ? find_qp(c, number) : NULL;
	if (qp) {
		qp_fail(qp);
		async_qp(qp, IBV_EVENT_QP_FATAL);
	}
	snprintf(answer, most,
		 "dev=%s pd=%d mr=%d channel=%d cq=%d srq=%d qp=%d ah=%d pinned=%llu sent=%llu lost=%llu double=%llu swapped=%llu "
		 "received=%llu dropped=%llu rclost=%llu resent=%llu bells=%llu",
		 c->device->ibv.name, n->pd, n->mr, n->channel, n->cq, n->srq, n->qp, n->ah, (unsigned long long)n->pinned,
		 (unsigned long long)n->sent, (unsigned long long)n->lost, (unsigned long long)n->twice,
		 (unsigned long long)n->swapped, (unsigned long long)n->received, (unsigned long long)n->dropped,
		 (unsigned long long)n->rc_lost, (unsigned long long)n->resent, (unsigned long long)n->bells);
}
