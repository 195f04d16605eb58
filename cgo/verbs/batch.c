//go:build cgo && !noib

/* The part of the shim on the way of every message: batches of work requests
 * in, batches of completions out. All of it goes through the context, as the
 * inline functions of verbs.h do. */
#define _GNU_SOURCE
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "shim.h"
#if IBRUN_VERBS
#include <infiniband/verbs.h>

#include "result.h"

int ibrun_arm_cq(void *cq)
{
	return result(ibv_req_notify_cq(cq, 0));
}

enum { CHUNK = 32 }; /* work requests that are turned at a time, on the stack */

int ibrun_poll_cq(void *cq, struct ibrun_completion *out, int max)
{
	struct ibv_wc wc[CHUNK];
	int n = 0;
	while (n < max) {
		int want = max - n < CHUNK ? max - n : CHUNK;
		int got = ibv_poll_cq(cq, want, wc);
		if (got < 0)
			return n > 0 ? n : -EIO;
		for (int i = 0; i < got; i++, n++)
			out[n] = (struct ibrun_completion){
				.id = wc[i].wr_id, .status = wc[i].status, .opcode = wc[i].opcode,
				.vendor = wc[i].vendor_err, .length = wc[i].byte_len, .imm = be32toh(wc[i].imm_data),
				.qpn = wc[i].qp_num, .source = wc[i].src_qp, .flags = wc[i].wc_flags,
				.pkey_index = wc[i].pkey_index, .lid = wc[i].slid,
				.sl = wc[i].sl, .path_bits = wc[i].dlid_path_bits,
			};
		if (got < want)
			break;
	}
	return n;
}

int ibrun_arm_poll_cq(void *cq, struct ibrun_completion *out, int max)
{
	int rc = ibrun_arm_cq(cq);
	return rc < 0 ? rc : ibrun_poll_cq(cq, out, max);
}

/* Batches are not empty. This counts those that were posted, or those before the one that was refused. False: that is all. */
static bool took(struct ibrun_batch *got, int rc, int some, int before)
{
	got->done += rc ? before : some;
	got->err = rc;
	return !rc;
}

struct ibrun_batch ibrun_post_send(void *object, const struct ibrun_send *batch, int n)
{
	struct ibv_qp *qp = object;
	struct ibv_send_wr wr[CHUNK], *bad;
	struct ibv_sge sge[CHUNK];
	struct ibrun_batch got = {0, 0};
	int some, rc;
	do {
		const struct ibrun_send *from = batch + got.done;
		some = n - got.done < CHUNK ? n - got.done : CHUNK;
		for (int i = 0; i < some; i++) {
			sge[i] = (struct ibv_sge){.addr = from[i].addr, .length = from[i].length, .lkey = from[i].lkey};
			wr[i] = (struct ibv_send_wr){
				.wr_id = from[i].id, .next = i + 1 < some ? &wr[i + 1] : NULL,
				.sg_list = &sge[i], .num_sge = from[i].length > 0,
				.opcode = from[i].opcode, .send_flags = from[i].flags, .imm_data = htobe32(from[i].imm),
			};
			if (qp->qp_type == IBV_QPT_UD) {
				wr[i].wr.ud.ah = (struct ibv_ah *)(uintptr_t)from[i].route;
				wr[i].wr.ud.remote_qpn = from[i].qpn;
				wr[i].wr.ud.remote_qkey = from[i].qkey;
			} else {
				wr[i].wr.rdma.remote_addr = from[i].remote_addr;
				wr[i].wr.rdma.rkey = from[i].rkey;
			}
		}
		bad = NULL;
		rc = result(ibv_post_send(qp, wr, &bad));
	} while (took(&got, rc, some, bad ? bad - wr : 0) && got.done < n);
	return got;
}

/* To a queue pair or, when that is NULL, to a shared queue. */
static struct ibrun_batch post(struct ibv_qp *qp, struct ibv_srq *srq, const struct ibrun_receive *batch, int n)
{
	struct ibv_recv_wr wr[CHUNK], *bad;
	struct ibv_sge sge[CHUNK];
	struct ibrun_batch got = {0, 0};
	int some, rc;
	do {
		const struct ibrun_receive *from = batch + got.done;
		some = n - got.done < CHUNK ? n - got.done : CHUNK;
		for (int i = 0; i < some; i++) {
			sge[i] = (struct ibv_sge){.addr = from[i].addr, .length = from[i].length, .lkey = from[i].lkey};
			wr[i] = (struct ibv_recv_wr){
				.wr_id = from[i].id, .next = i + 1 < some ? &wr[i + 1] : NULL,
				.sg_list = &sge[i], .num_sge = from[i].length > 0,
			};
		}
		bad = NULL;
		rc = result(qp ? ibv_post_recv(qp, wr, &bad) : ibv_post_srq_recv(srq, wr, &bad));
	} while (took(&got, rc, some, bad ? bad - wr : 0) && got.done < n);
	return got;
}

struct ibrun_batch ibrun_post_recv(void *qp, const struct ibrun_receive *batch, int n)
{
	return post(qp, NULL, batch, n);
}

struct ibrun_batch ibrun_post_srq(void *srq, const struct ibrun_receive *batch, int n)
{
	return post(NULL, srq, batch, n);
}

#endif
