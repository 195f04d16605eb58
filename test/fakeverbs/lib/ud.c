/* Datagrams. */
#include "fake.h"

enum { GRH = 40 };

void ud_send(struct qp *qp, struct work *w, const struct ibv_send_wr *wr)
{
	struct context *c = qp->context;
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;
	struct port *port = port_of(c, qp->attr.port_num);
	struct packet p = {
		.kind = UD_SEND,
		.flags = w->op == IBV_WR_SEND_WITH_IMM ? WITH_IMM : 0,
		.pkey = port->pkey[qp->attr.pkey_index], .to = wr->wr.ud.remote_qpn & 0xffffff, .from = qp->ibv.qp_num,
		.qkey = wr->wr.ud.remote_qkey, .imm = w->imm, .length = w->length, .size = w->length,
	};
	if ((int)w->length > mtu_bytes(port->mtu)) /* as rxe: it is said to be sent, and is not */
		return;
	c->counts.sent++;
	if (c->hollow)
		return;
	net_send(c, &ah->attr, &p, w->addr);
}

void ud_arrived(struct context *c, struct qp *qp, struct incoming *in)
{
	struct packet *p = &in->packet;
	struct recv r;
	if (qp->ibv.state != IBV_QPS_RTR && qp->ibv.state != IBV_QPS_RTS) {
		c->counts.dropped++;
		return;
	}
	struct port *port = port_of(c, qp->attr.port_num);
	uint16_t mine = port->pkey[qp->attr.pkey_index];
	if (p->qkey != qp->attr.qkey || (mine & 0x7fff) != (p->pkey & 0x7fff) || !((mine | p->pkey) & 0x8000) || !next_recv(qp, &r)) {
		c->counts.dropped++;
		return;
	}
	struct ibv_wc wc = {
		.wr_id = r.id, .opcode = IBV_WC_RECV, .byte_len = p->size + GRH, .imm_data = p->imm, .qp_num = qp->ibv.qp_num,
		.src_qp = p->from, .wc_flags = (p->flags & GLOBAL ? IBV_WC_GRH : 0) | (p->flags & WITH_IMM ? IBV_WC_WITH_IMM : 0),
		.slid = p->slid, .sl = p->sl, .dlid_path_bits = port->lmc ? p->dlid & ((1 << port->lmc) - 1) : 0,
		.pkey_index = qp->attr.pkey_index,
	};
	if (r.length < p->size + GRH)
		wc.status = IBV_WC_LOC_QP_OP_ERR; /* as rxe; hardware says length */
	else if (!mapped(c, r.lkey, r.addr, p->size + GRH, IBV_ACCESS_LOCAL_WRITE))
		wc.status = IBV_WC_LOC_PROT_ERR;
	if (wc.status != IBV_WC_SUCCESS) {
		struct ibv_wc failed = {.wr_id = r.id, .status = wc.status, .qp_num = qp->ibv.qp_num};
		cq_push((struct cq *)qp->ibv.recv_cq, failed, NULL, 0);
		qp_fail(qp);
		return;
	}
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28), .paylen = htobe16(p->size), .next_hdr = 27, .hop_limit = 255, .sgid = p->sgid, .dgid = p->dgid};
	if (p->flags & GLOBAL && p->gid_type == IBV_GID_TYPE_ROCE_V2 && p->dgid.global.subnet_prefix == 0) {
		/* RoCE v2 over IPv4: 20 bytes that say nothing, then the IPv4 header. */
		uint8_t ip[GRH] = {[20] = 0x45, [28] = 64, [29] = 17};
		memcpy(ip + 32, p->sgid.raw + 12, 4);
		memcpy(ip + 36, p->dgid.raw + 12, 4);
		memcpy(r.addr, ip, GRH);
	} else if (p->flags & GLOBAL) {
		memcpy(r.addr, &grh, GRH);
	} else {
		memset(r.addr, 0xa5, GRH); /* not valid: whoever reads it sees that */
	}
	memcpy(r.addr + GRH, in->payload, p->size);
	c->counts.received++;
	cq_push((struct cq *)qp->ibv.recv_cq, wc, NULL, 0);
}

void ud_hollow(struct qp *qp)
{
	static struct incoming in; /* world guards it */
	struct context *c = qp->context;
	struct port *port = port_of(c, qp->attr.port_num);
	in.packet = (struct packet){
		.kind = UD_SEND, .pkey = port->pkey[qp->attr.pkey_index], .to = qp->ibv.qp_num, .from = 1,
		.qkey = qp->attr.qkey, .dlid = port->lid, .slid = port->lid, .length = c->hollow, .size = c->hollow,
	};
	ud_arrived(c, qp, &in);
}
