/* Queue pairs and shared queues: their making, their states, what is posted to them. */
#include "fake.h"

struct qp *find_qp(struct context *c, uint32_t number)
{
	struct qp *qp = c->qps;
	while (qp && qp->ibv.qp_num != number)
		qp = qp->next;
	return qp;
}

int more_recvs(struct recvs *q, struct ibv_recv_wr *wr)
{
	if (q->count == q->size)
		return ENOMEM;
	if (wr->num_sge > 1)
		return EINVAL;
	q->ring[(q->head + q->count++) % q->size] = (struct recv){
		.id = wr->wr_id,
		.addr = wr->num_sge ? (uint8_t *)(uintptr_t)wr->sg_list->addr : NULL,
		.length = wr->num_sge ? wr->sg_list->length : 0,
		.lkey = wr->num_sge ? wr->sg_list->lkey : 0,
	};
	return 0;
}

bool next_recv(struct qp *qp, struct recv *out)
{
	struct recvs *q = qp->ibv.srq ? &((struct srq *)qp->ibv.srq)->queue : &qp->queue;
	if (!q->count)
		return false;
	*out = q->ring[q->head];
	q->head = (q->head + 1) % q->size;
	q->count--;
	return true;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	if (init->attr.max_wr < 1 || init->attr.max_wr > 1 << 15) {
		errno = EINVAL;
		return NULL;
	}
	struct srq *srq = calloc(1, sizeof *srq);
	srq->ibv.context = pd->context;
	srq->ibv.pd = pd;
	srq->queue.size = init->attr.max_wr;
	srq->queue.ring = calloc(srq->queue.size, sizeof *srq->queue.ring);
	pthread_mutex_lock(&world);
	pd->handle++;
	context_of(pd->context)->counts.srq++;
	pthread_mutex_unlock(&world);
	return &srq->ibv;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *srq = (struct srq *)ibv;
	pthread_mutex_lock(&world);
	if (srq->users) {
		pthread_mutex_unlock(&world);
		return EBUSY;
	}
	ibv->pd->handle--;
	context_of(ibv->context)->counts.srq--;
	pthread_mutex_unlock(&world);
	free(srq->queue.ring);
	free(srq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct context *c = context_of(pd->context);
	uint32_t number;
	int rc = 0;
	if ((init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UD) || !init->send_cq || !init->recv_cq ||
	    init->cap.max_inline_data > MOST_INLINE || init->cap.max_send_wr > 16384 || init->cap.max_recv_wr > 16384)
		rc = EINVAL;
	pthread_mutex_lock(&world);
	if (!rc && c->dead)
		rc = EIO;
	if (!rc && c->counts.qp >= settings.max_qp)
		rc = ENOMEM;
	if (!rc)
		rc = net_claim(c, &number);
	if (rc) {
		pthread_mutex_unlock(&world);
		errno = rc;
		return NULL;
	}
	struct qp *qp = calloc(1, sizeof *qp);
	if (init->srq)
		init->cap.max_recv_wr = 0;
	qp->context = c;
	qp->cap = init->cap;
	qp->ring = calloc(qp->cap.max_send_wr + 1, sizeof *qp->ring);
	qp->queue.size = qp->cap.max_recv_wr;
	qp->queue.ring = calloc(qp->cap.max_recv_wr + 1, sizeof *qp->queue.ring);
	qp->ibv.context = pd->context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = init->send_cq;
	qp->ibv.recv_cq = init->recv_cq;
	qp->ibv.srq = init->srq;
	qp->ibv.qp_num = number;
	qp->ibv.qp_type = init->qp_type;
	qp->next = c->qps;
	c->qps = qp;
	c->counts.qp++;
	pd->handle++;
	((struct cq *)init->send_cq)->users++;
	((struct cq *)init->recv_cq)->users++;
	if (init->srq)
		((struct srq *)init->srq)->users++;
	pthread_mutex_unlock(&world);
	return &qp->ibv;
}

static void drop_work(struct qp *qp)
{
	for (; qp->count; qp->count--, qp->head = (qp->head + 1) % qp->cap.max_send_wr)
		free(qp->ring[qp->head].copy);
}

/* Completions that are still to be polled must not name the queue pair. */
static void disown(struct cq *cq, struct qp *qp)
{
	for (int i = 0; i < cq->count; i++) {
		struct cqe *e = &cq->ring[(cq->head + i) % cq->size];
		if (e->sender == qp)
			e->sender = NULL;
	}
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *qp = (struct qp *)ibv;
	struct context *c = qp->context;
	pthread_mutex_lock(&world);
	net_release(c, ibv->qp_num);
	for (struct qp **at = &c->qps; *at; at = &(*at)->next)
		if (*at == qp) {
			*at = qp->next;
			break;
		}
	mailbox_forget(&c->box, ibv);
	while (ibv->events_completed != qp->taken)
		pthread_cond_wait(&acked, &world);
	drop_work(qp);
	disown((struct cq *)ibv->send_cq, qp);
	c->counts.qp--;
	ibv->pd->handle--;
	((struct cq *)ibv->send_cq)->users--;
	((struct cq *)ibv->recv_cq)->users--;
	if (ibv->srq)
		((struct srq *)ibv->srq)->users--;
	pthread_mutex_unlock(&world);
	free(qp->queue.ring);
	free(qp->ring);
	free(qp);
	return 0;
}

void async_qp(struct qp *qp, enum ibv_event_type type)
{
	mailbox_put(&qp->context->box, (struct ibv_async_event){.element.qp = &qp->ibv, .event_type = type});
}

void complete_send(struct qp *qp, struct work *w, enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode op[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND, [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND, [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	};
	struct ibv_wc wc = {.wr_id = w->id, .status = status, .opcode = op[w->op], .byte_len = w->length, .qp_num = qp->ibv.qp_num};
	qp->unsignaled++;
	if (status != IBV_WC_SUCCESS || w->flags & IBV_SEND_SIGNALED) {
		cq_push((struct cq *)qp->ibv.send_cq, wc, qp, qp->unsignaled);
		qp->unsignaled = 0;
	}
	free(w->copy);
	w->copy = NULL;
}

/* Completes all that is posted as flushed. */
static void flush(struct qp *qp)
{
	for (; qp->count; qp->count--, qp->head = (qp->head + 1) % qp->cap.max_send_wr)
		complete_send(qp, &qp->ring[qp->head], IBV_WC_WR_FLUSH_ERR);
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->ibv.qp_num}; /* as rxe: no opcode */
	if (qp->receiving) {
		wc.wr_id = qp->into.id;
		cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
		qp->receiving = false;
	}
	struct recv r;
	while (!qp->ibv.srq && next_recv(qp, &r)) {
		wc.wr_id = r.id;
		cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
	}
}

void qp_fail(struct qp *qp)
{
	if (qp->ibv.state == IBV_QPS_ERR)
		return;
	qp->ibv.state = IBV_QPS_ERR;
	qp->deadline = qp->rnr_until = 0;
	flush(qp);
}

static void reset(struct qp *qp)
{
	drop_work(qp);
	disown((struct cq *)qp->ibv.send_cq, qp);
	qp->head = qp->used = qp->unsignaled = 0;
	qp->una = qp->nxt = qp->end = 0;
	qp->deadline = qp->rnr_until = 0;
	qp->receiving = qp->complained = qp->has_path = false;
	qp->queue.head = qp->queue.count = 0;
	qp->attr = (struct ibv_qp_attr){0};
}

/* Reports whether a step of the QP state has all attributes that the kernel requires. ibrun sets no optional ones. */
static bool step_allowed(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	bool rc = type == IBV_QPT_RC;
	int need = IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return mask == need;
	if ((from == IBV_QPS_RESET || from == IBV_QPS_INIT) && to == IBV_QPS_INIT) {
		need |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
	} else if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
		need |= rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER
			   : 0;
	} else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
		need |= IBV_QP_SQ_PSN |
			(rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
	} else {
		return false;
	}
	return mask == need;
}

static int modify(struct qp *qp, struct ibv_qp_attr *a, int mask)
{
	struct context *c = qp->context;
	enum ibv_qp_state to = a->qp_state;
	if (c->dead && to != IBV_QPS_RESET && to != IBV_QPS_ERR)
		return EIO;
	if (!step_allowed(qp->ibv.qp_type, qp->ibv.state, to, mask))
		return EINVAL;
	if (mask & IBV_QP_PORT && !port_of(c, a->port_num))
		return EINVAL;
	/* All required attributes of a step are set together, so a test for one of them covers all. */
	struct port *p = port_of(c, mask & IBV_QP_PORT ? a->port_num : qp->attr.port_num);
	if (mask & IBV_QP_PKEY_INDEX && (a->pkey_index >= p->pkeys || !(p->pkey[a->pkey_index] & 0x7fff)))
		return EINVAL;
	if (mask & IBV_QP_QKEY && a->qkey & 0x80000000)
		return EPERM;
	if (mask & IBV_QP_AV && !path_ok(c, &a->ah_attr))
		return EINVAL;
	if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || (int)a->path_mtu > p->mtu))
		return EINVAL;
	if (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31)
		return EINVAL;
	if (mask & IBV_QP_TIMEOUT && a->timeout > 31)
		return EINVAL;
	if ((mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) || (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7))
		return EINVAL;
	if (to == IBV_QPS_RESET)
		reset(qp);
	if (to == IBV_QPS_ERR) {
		qp_fail(qp);
		return 0;
	}
	if (mask & IBV_QP_PKEY_INDEX) {
		qp->attr.pkey_index = a->pkey_index;
		qp->attr.port_num = a->port_num;
		note("init dev=%s qpn=%u pkey_index=%d pkey=%#x", c->device->ibv.name, qp->ibv.qp_num, a->pkey_index,
		     p->pkey[a->pkey_index]);
	}
	if (mask & IBV_QP_QKEY)
		qp->attr.qkey = a->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_AV) {
		qp->attr.ah_attr = a->ah_attr;
		qp->attr.path_mtu = a->path_mtu;
		qp->attr.dest_qp_num = a->dest_qp_num & 0xffffff;
		qp->attr.min_rnr_timer = a->min_rnr_timer;
		qp->expected = a->rq_psn & 0xffffff;
		qp->has_path = true;
		note("rtr dev=%s qpn=%u dest_qpn=%u dlid=%d sl=%d src_path_bits=%d port=%d is_global=%d sgid_index=%d hop_limit=%d path_mtu=%d",
		     c->device->ibv.name, qp->ibv.qp_num, a->dest_qp_num, a->ah_attr.dlid, a->ah_attr.sl, a->ah_attr.src_path_bits,
		     a->ah_attr.port_num, a->ah_attr.is_global, a->ah_attr.grh.sgid_index, a->ah_attr.grh.hop_limit, a->path_mtu);
	}
	if (mask & IBV_QP_SQ_PSN)
		qp->una = qp->nxt = qp->end = a->sq_psn & 0xffffff;
	if (mask & IBV_QP_TIMEOUT) {
		qp->attr.timeout = a->timeout;
		qp->attr.retry_cnt = qp->retries = a->retry_cnt;
		qp->attr.rnr_retry = qp->rnr_retries = a->rnr_retry;
	}
	qp->ibv.state = to;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	pthread_mutex_lock(&world);
	int rc = modify((struct qp *)qp, attr, mask);
	pthread_mutex_unlock(&world);
	return rc;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp = (struct qp *)ibv;
	(void)mask;
	(void)init;
	pthread_mutex_lock(&world);
	*attr = qp->attr;
	attr->qp_state = ibv->state;
	pthread_mutex_unlock(&world);
	return 0;
}
