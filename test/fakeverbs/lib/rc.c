/* The reliable service: go back N, as both sides of it. */
#include "fake.h"

int mtu_bytes(int code)
{
	return 128 << code;
}

/* Distance on the circle of 24-bit numbers. */
static int32_t ahead(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static uint32_t step(uint32_t psn, uint32_t n)
{
	return (psn + n) & 0xffffff;
}

/* Pauses of a peer without receives, in units of 10 us, by code. */
static uint64_t pause_ns(int code)
{
	static const uint32_t units[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
					   1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
	return units[code & 31] * 10000ull;
}

static void transmit(struct qp *qp, struct packet *p, const void *payload)
{
	struct context *c = qp->context;
	struct port *port = port_of(c, qp->attr.port_num);
	p->to = qp->attr.dest_qp_num;
	p->from = qp->ibv.qp_num;
	p->pkey = port->pkey[qp->attr.pkey_index];
	if (chance(c, settings.rc_lose)) {
		c->counts.rc_lost++;
		return;
	}
	net_send(c, &qp->attr.ah_attr, p, payload);
}

static void arm(struct qp *qp)
{
	qp->deadline = qp->count && qp->attr.timeout ? now() + (4096ull << qp->attr.timeout) : 0;
}

/* Sends what the window allows. */
void rc_pump(struct qp *qp)
{
	uint32_t mtu = mtu_bytes(qp->attr.path_mtu);
	if (qp->rnr_until || qp->ibv.state != IBV_QPS_RTS)
		return;
	bool idle = !qp->deadline;
	for (int i = 0; i < qp->count; i++) {
		struct work *w = &qp->ring[(qp->head + i) % qp->cap.max_send_wr];
		uint32_t last = step(w->first, w->packets - 1);
		while (ahead(qp->nxt, last) <= 0) {
			if (ahead(qp->nxt, qp->una) >= WINDOW)
				goto out;
			uint32_t at = ahead(qp->nxt, w->first) * mtu;
			struct packet p = {.psn = qp->nxt, .imm = w->imm, .rkey = w->rkey, .length = w->length};
			if (w->op == IBV_WR_RDMA_READ) {
				p.kind = RC_READ;
				p.psn = step(w->first, w->got / mtu); /* what has not come yet */
				p.remote_addr = w->remote_addr + w->got;
				p.length = w->length - w->got;
				transmit(qp, &p, NULL);
				qp->nxt = step(last, 1);
				continue;
			}
			bool write = w->op == IBV_WR_RDMA_WRITE || w->op == IBV_WR_RDMA_WRITE_WITH_IMM;
			p.kind = write ? RC_WRITE : RC_SEND;
			p.remote_addr = w->remote_addr + at;
			p.size = w->length - at < mtu ? w->length - at : mtu;
			p.flags = (at == 0 ? FIRST : 0) | (qp->nxt == last ? LAST | ASK : 0) | (qp->nxt % 16 == 0 ? ASK : 0);
			if (qp->nxt == last && (w->op == IBV_WR_SEND_WITH_IMM || w->op == IBV_WR_RDMA_WRITE_WITH_IMM))
				p.flags |= WITH_IMM;
			transmit(qp, &p, w->addr + at);
			qp->nxt = step(qp->nxt, 1);
		}
	}
out:
	if (idle)
		arm(qp);
}

static void progress(struct qp *qp)
{
	qp->retries = qp->attr.retry_cnt;
	qp->rnr_retries = qp->attr.rnr_retry;
	arm(qp);
}

static void complete_head(struct qp *qp, enum ibv_wc_status status)
{
	struct work *w = &qp->ring[qp->head];
	qp->una = step(w->first, w->packets);
	if (ahead(qp->nxt, qp->una) < 0)
		qp->nxt = qp->una;
	complete_send(qp, w, status);
	qp->head = (qp->head + 1) % qp->cap.max_send_wr;
	qp->count--;
}

/* All up to psn has arrived, as far as it is not a read. */
static void acknowledged(struct qp *qp, uint32_t psn)
{
	bool moved = false;
	if (!qp->count || ahead(psn, qp->nxt) >= 0)
		return; /* of nothing that was sent */
	while (qp->count) {
		struct work *w = &qp->ring[qp->head];
		if (w->op == IBV_WR_RDMA_READ || ahead(psn, qp->una) < 0)
			break;
		moved = true;
		if (ahead(psn, step(w->first, w->packets - 1)) < 0) {
			qp->una = step(psn, 1);
			break;
		}
		complete_head(qp, IBV_WC_SUCCESS);
	}
	if (moved)
		progress(qp);
}

static void again(struct qp *qp)
{
	qp->nxt = qp->una;
	qp->context->counts.resent++;
	rc_pump(qp);
}

static void broken(struct qp *qp, enum ibv_wc_status status)
{
	if (qp->count)
		complete_head(qp, status);
	qp_fail(qp);
}

static void refused(struct qp *qp, struct packet *p)
{
	static const enum ibv_wc_status status[] = {
		[NAK_INVALID] = IBV_WC_REM_INV_REQ_ERR, [NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR, [NAK_OPERATION] = IBV_WC_REM_OP_ERR};
	if (!qp->count || ahead(p->psn, qp->una) < 0 || ahead(p->psn, qp->nxt) >= 0)
		return; /* an answer to nothing that is under way */
	acknowledged(qp, step(p->psn, -1));
	switch (p->reason) {
	case NAK_SEQUENCE:
		if (!qp->rnr_until)
			again(qp);
		break;
	case NAK_NOT_READY:
		if (qp->attr.rnr_retry != 7 && qp->rnr_retries-- == 0) {
			broken(qp, IBV_WC_RNR_RETRY_EXC_ERR);
			break;
		}
		qp->nxt = qp->una;
		qp->deadline = 0;
		qp->rnr_until = now() + pause_ns(p->sl);
		break;
	default:
		broken(qp, status[p->reason]);
	}
}

static void answer(struct qp *qp, enum kind kind, uint32_t psn, int reason)
{
	struct packet p = {.kind = kind, .psn = psn, .reason = reason, .sl = qp->attr.min_rnr_timer};
	transmit(qp, &p, NULL);
}

/* The responder gives up: the requester is told, this side's program by an event. */
static void refuse(struct qp *qp, uint32_t psn, int reason, enum ibv_event_type event)
{
	answer(qp, RC_NAK, psn, reason);
	qp_fail(qp);
	async_qp(qp, event);
}

static void receive_failed(struct qp *qp, enum ibv_wc_status status, uint32_t psn, int reason)
{
	struct ibv_wc wc = {.wr_id = qp->into.id, .status = status, .qp_num = qp->ibv.qp_num};
	qp->receiving = false;
	answer(qp, RC_NAK, psn, reason);
	cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
	qp_fail(qp);
}

/* One packet of a send, in order. False: it is not taken. */
static bool take_send(struct qp *qp, struct incoming *in)
{
	struct packet *p = &in->packet;
	if (p->flags & FIRST) {
		if (!next_recv(qp, &qp->into)) {
			answer(qp, RC_NAK, p->psn, NAK_NOT_READY);
			return false;
		}
		qp->receiving = true;
		qp->at = 0;
	}
	if (qp->at + p->size > qp->into.length) {
		receive_failed(qp, IBV_WC_LOC_QP_OP_ERR, p->psn, NAK_OPERATION); /* as rxe; hardware says length, and invalid */
		return false;
	}
	if (p->size && !mapped(qp->context, qp->into.lkey, qp->into.addr + qp->at, p->size, IBV_ACCESS_LOCAL_WRITE)) {
		receive_failed(qp, IBV_WC_LOC_PROT_ERR, p->psn, NAK_OPERATION);
		return false;
	}
	memcpy(qp->into.addr + qp->at, in->payload, p->size);
	qp->at += p->size;
	if (p->flags & LAST) {
		struct ibv_wc wc = {
			.wr_id = qp->into.id, .opcode = IBV_WC_RECV, .byte_len = qp->at, .imm_data = p->imm,
			.qp_num = qp->ibv.qp_num, .wc_flags = p->flags & WITH_IMM ? IBV_WC_WITH_IMM : 0,
		};
		qp->receiving = false;
		cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
	}
	return true;
}

static bool take_write(struct qp *qp, struct incoming *in)
{
	struct packet *p = &in->packet;
	struct recv r;
	uint8_t *to = (uint8_t *)(uintptr_t)p->remote_addr;
	if (p->size && (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) ||
			!mapped(qp->context, p->rkey, to, p->size, IBV_ACCESS_REMOTE_WRITE))) {
		refuse(qp, p->psn, NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return false;
	}
	if (p->flags & WITH_IMM) {
		if (!next_recv(qp, &r)) {
			answer(qp, RC_NAK, p->psn, NAK_NOT_READY);
			return false;
		}
		struct ibv_wc wc = {.wr_id = r.id, .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = p->length, .imm_data = p->imm,
				    .qp_num = qp->ibv.qp_num, .wc_flags = IBV_WC_WITH_IMM};
		cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
	}
	memcpy(to, in->payload, p->size);
	return true;
}

static uint32_t answer_read(struct qp *qp, struct packet *ask)
{
	uint32_t mtu = mtu_bytes(qp->attr.path_mtu), psn = ask->psn, at = 0;
	uint8_t *from = (uint8_t *)(uintptr_t)ask->remote_addr;
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
	    (ask->length && !mapped(qp->context, ask->rkey, from, ask->length, IBV_ACCESS_REMOTE_READ))) {
		refuse(qp, ask->psn, NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return 0;
	}
	do {
		struct packet p = {.kind = RC_DATA, .psn = psn, .size = ask->length - at < mtu ? ask->length - at : mtu};
		transmit(qp, &p, from + at);
		at += p.size;
		psn = step(psn, 1);
	} while (at < ask->length);
	return psn;
}

static void requested(struct qp *qp, struct incoming *in)
{
	struct packet *p = &in->packet;
	int32_t off = ahead(p->psn, qp->expected);
	if (off > 0) {
		if (!qp->complained) /* once, or each packet under way would make all be sent again */
			answer(qp, RC_NAK, qp->expected, NAK_SEQUENCE);
		qp->complained = true;
		return;
	}
	if (off < 0) { /* again, since an answer was lost */
		if (p->kind == RC_READ)
			answer_read(qp, p);
		else
			answer(qp, RC_ACK, step(qp->expected, -1), 0);
		return;
	}
	qp->complained = false;
	if ((int)p->size > mtu_bytes(qp->attr.path_mtu)) {
		refuse(qp, p->psn, NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (p->kind == RC_READ) {
		uint32_t next = answer_read(qp, p);
		if (qp->ibv.state != IBV_QPS_ERR)
			qp->expected = next;
		return;
	}
	if (!(p->kind == RC_SEND ? take_send(qp, in) : take_write(qp, in)))
		return;
	qp->expected = step(p->psn, 1);
	if (p->flags & ASK)
		answer(qp, RC_ACK, p->psn, 0);
}

static void data_arrived(struct qp *qp, struct incoming *in)
{
	/* Sends before the read have arrived, or it had not been answered. */
	acknowledged(qp, step(in->packet.psn, -1));
	if (!qp->count)
		return;
	struct work *w = &qp->ring[qp->head];
	uint32_t mtu = mtu_bytes(qp->attr.path_mtu);
	int32_t off = ahead(in->packet.psn, step(w->first, w->got / mtu));
	if (w->op == IBV_WR_RDMA_READ && off > 0 && w->asked <= w->got) {
		w->asked = w->got + 1; /* once for each gap */
		again(qp);
	}
	if (w->op != IBV_WR_RDMA_READ || off != 0 || w->got + in->packet.size > w->length)
		return;
	memcpy(w->addr + w->got, in->payload, in->packet.size);
	w->got += in->packet.size;
	if (w->got == w->length)
		complete_head(qp, IBV_WC_SUCCESS);
	progress(qp);
}

void rc_arrived(struct context *c, struct qp *qp, struct incoming *in)
{
	struct packet *p = &in->packet;
	enum ibv_qp_state s = qp->ibv.state;
	struct port *port = port_of(c, qp->attr.port_num ? qp->attr.port_num : 1);
	bool from_peer = qp->has_path && (qp->attr.ah_attr.is_global
			? !memcmp(p->sgid.raw, qp->attr.ah_attr.grh.dgid.raw, 16)
			: p->slid == qp->attr.ah_attr.dlid);
	uint16_t mine = port->pkey[qp->attr.pkey_index];
	if ((s != IBV_QPS_RTR && s != IBV_QPS_RTS) || !from_peer || (mine & 0x7fff) != (p->pkey & 0x7fff) || !((mine | p->pkey) & 0x8000)) {
		c->counts.dropped++;
		return;
	}
	switch (p->kind) {
	case RC_ACK:
		acknowledged(qp, p->psn);
		break;
	case RC_NAK:
		refused(qp, p);
		break;
	case RC_DATA:
		data_arrived(qp, in);
		break;
	default:
		requested(qp, in);
	}
	rc_pump(qp);
}

uint64_t rc_timers(struct qp *qp, uint64_t t)
{
	if (qp->rnr_until && t >= qp->rnr_until) {
		qp->rnr_until = 0;
		rc_pump(qp);
	}
	if (qp->deadline && t >= qp->deadline) {
		qp->deadline = 0;
		if (qp->attr.retry_cnt != 7 && qp->retries-- == 0) /* 7 is for ever on rxe, against the specification */
			broken(qp, IBV_WC_RETRY_EXC_ERR);
		else
			again(qp);
	}
	if (qp->rnr_until && (!qp->deadline || qp->rnr_until < qp->deadline))
		return qp->rnr_until;
	return qp->deadline;
}
