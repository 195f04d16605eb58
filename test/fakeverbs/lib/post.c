/* What is posted to queues. */
#include "fake.h"

int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)ibv;
	int rc = 0;
	pthread_mutex_lock(&world);
	for (; wr; wr = wr->next) {
		if (ibv->state == IBV_QPS_RESET || ibv->srq)
			rc = EINVAL;
		else if (ibv->state == IBV_QPS_ERR)
			cq_push((struct cq *)ibv->recv_cq,
				(struct ibv_wc){.wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = ibv->qp_num},
				NULL, 0);
		else if (!(rc = more_recvs(&qp->queue, wr)) && qp->context->hollow && ibv->qp_type == IBV_QPT_UD)
			ud_hollow(qp);
		if (rc) {
			*bad = wr;
			break;
		}
	}
	pthread_mutex_unlock(&world);
	return rc;
}

int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int rc = 0;
	pthread_mutex_lock(&world);
	for (; wr && !rc; wr = wr->next) {
		rc = more_recvs(&((struct srq *)srq)->queue, wr);
		if (rc)
			*bad = wr;
	}
	pthread_mutex_unlock(&world);
	return rc;
}

static uint32_t packets_of(struct qp *qp, uint32_t length)
{
	uint32_t mtu = mtu_bytes(qp->attr.path_mtu);
	return length == 0 || qp->ibv.qp_type == IBV_QPT_UD ? 1 : (length + mtu - 1) / mtu;
}

static int post_one(struct qp *qp, struct ibv_send_wr *wr)
{
	bool ud = qp->ibv.qp_type == IBV_QPT_UD;
	struct ibv_sge none = {0}, *sge = wr->num_sge ? wr->sg_list : &none;
	if (qp->ibv.state < IBV_QPS_RTS || wr->num_sge > 1 || wr->opcode > IBV_WR_RDMA_READ)
		return EINVAL;
	if (ud && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE && (sge->length > qp->cap.max_inline_data || wr->opcode == IBV_WR_RDMA_READ))
		return EINVAL;
	if ((uint32_t)qp->used >= qp->cap.max_send_wr)
		return ENOMEM;
	struct work w = {
		.id = wr->wr_id, .op = wr->opcode, .flags = wr->send_flags, .imm = wr->imm_data,
		.addr = (uint8_t *)(uintptr_t)sge->addr, .length = sge->length, .lkey = sge->lkey,
		.remote_addr = wr->wr.rdma.remote_addr, .rkey = wr->wr.rdma.rkey,
		.first = qp->end, .packets = packets_of(qp, sge->length),
	};
	qp->used++;
	if (qp->ibv.state == IBV_QPS_ERR) {
		complete_send(qp, &w, IBV_WC_WR_FLUSH_ERR);
		return 0;
	}
	if (wr->send_flags & IBV_SEND_INLINE && sge->length) {
		w.copy = malloc(sge->length);
		memcpy(w.copy, w.addr, sge->length);
		w.addr = w.copy;
	} else if (sge->length && !mapped(qp->context, sge->lkey, w.addr, sge->length, w.op == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0)) {
		complete_send(qp, &w, IBV_WC_LOC_QP_OP_ERR); /* as rxe; hardware says protection */
		qp_fail(qp);
		return 0;
	}
	if (ud) {
		ud_send(qp, &w, wr);
		complete_send(qp, &w, IBV_WC_SUCCESS);
		return 0;
	}
	qp->ring[(qp->head + qp->count++) % qp->cap.max_send_wr] = w;
	qp->end = (qp->end + w.packets) & 0xffffff;
	return 0;
}

int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)ibv;
	int rc = 0;
	pthread_mutex_lock(&world);
	qp->context->counts.bells++;
	for (; wr && !rc; wr = wr->next) {
		rc = post_one(qp, wr);
		if (rc)
			*bad = wr;
	}
	if (ibv->qp_type == IBV_QPT_RC && ibv->state == IBV_QPS_RTS) {
		rc_pump(qp);
		net_knock(qp->context); /* there may be a deadline more */
	}
	pthread_mutex_unlock(&world);
	return rc;
}
