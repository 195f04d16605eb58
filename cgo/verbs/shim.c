//go:build cgo && !noib

/* See shim.h. The functions of verbs.h that are not inline come from the table
 * below, which dlopen fills; the inline ones go through the context. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "shim.h"
#if IBRUN_VERBS
#include <infiniband/verbs.h>

#include "result.h"

#undef ibv_reg_mr
#undef ibv_query_port

/* name, version of the symbol. Version 1.0 of most is another ABI, so a library
 * is asked for 1.1 by name, and for its default where it has no versions. */
#define SYMBOLS(S) \
	S(ibv_get_device_list, "IBVERBS_1.1") S(ibv_free_device_list, "IBVERBS_1.1") \
	S(ibv_get_device_name, "IBVERBS_1.1") S(ibv_get_device_guid, "IBVERBS_1.1") \
	S(ibv_open_device, "IBVERBS_1.1") S(ibv_close_device, "IBVERBS_1.1") \
	S(ibv_query_device, "IBVERBS_1.1") S(ibv_query_port, "IBVERBS_1.1") \
	S(ibv_query_gid, "IBVERBS_1.1") S(ibv_query_pkey, "IBVERBS_1.1") \
	S(ibv_alloc_pd, "IBVERBS_1.1") S(ibv_dealloc_pd, "IBVERBS_1.1") \
	S(ibv_reg_mr, "IBVERBS_1.1") S(ibv_dereg_mr, "IBVERBS_1.1") \
	S(ibv_create_comp_channel, "IBVERBS_1.0") S(ibv_destroy_comp_channel, "IBVERBS_1.0") \
	S(ibv_create_cq, "IBVERBS_1.1") S(ibv_destroy_cq, "IBVERBS_1.1") \
	S(ibv_get_cq_event, "IBVERBS_1.1") S(ibv_ack_cq_events, "IBVERBS_1.1") \
	S(ibv_create_srq, "IBVERBS_1.1") S(ibv_destroy_srq, "IBVERBS_1.1") \
	S(ibv_create_qp, "IBVERBS_1.1") S(ibv_modify_qp, "IBVERBS_1.1") \
	S(ibv_query_qp, "IBVERBS_1.1") S(ibv_destroy_qp, "IBVERBS_1.1") \
	S(ibv_create_ah, "IBVERBS_1.1") S(ibv_destroy_ah, "IBVERBS_1.1") \
	S(ibv_get_async_event, "IBVERBS_1.1") S(ibv_ack_async_event, "IBVERBS_1.1")

static struct {
#define FIELD(name, version) __typeof__(&name) name;
	SYMBOLS(FIELD)
#undef FIELD
	__typeof__(&_ibv_query_gid_ex) query_gid_ex; /* NULL before rdma-core 32 */
} lib;

static void *symbol(void *handle, const char *name, const char *version)
{
	void *found = dlvsym(handle, name, version);
	return found ? found : dlsym(handle, name);
}

int ibrun_load(const char *path, char *why, size_t why_len)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(why, why_len, "%s", dlerror());
		return -ENOENT;
	}
#define FIND(name, version) \
	if (!(lib.name = (__typeof__(lib.name))symbol(handle, #name, version))) { \
		snprintf(why, why_len, "%s has no %s@%s", path, #name, version); \
		dlclose(handle); \
		return -ENOSYS; \
	}
	SYMBOLS(FIND)
#undef FIND
	lib.query_gid_ex = (__typeof__(lib.query_gid_ex))symbol(handle, "_ibv_query_gid_ex", "IBVERBS_1.11");
	return 0;
}

int ibrun_devices(struct ibrun_device *out, int max)
{
	int n = 0;
	errno = 0;
	struct ibv_device **list = lib.ibv_get_device_list(&n);
	if (!list)
		return failure();
	for (int i = 0; i < n && i < max; i++) {
		memset(&out[i], 0, sizeof out[i]);
		snprintf(out[i].name, sizeof out[i].name, "%s", lib.ibv_get_device_name(list[i]));
		out[i].guid = be64toh(lib.ibv_get_device_guid(list[i]));
		out[i].transport = list[i]->transport_type;
	}
	lib.ibv_free_device_list(list);
	return n;
}

int ibrun_open(const char *name, void **context, int *async_fd)
{
	int n = 0, rc = -ENODEV;
	errno = 0;
	struct ibv_device **list = lib.ibv_get_device_list(&n);
	if (!list)
		return failure();
	for (int i = 0; i < n; i++) {
		if (strcmp(lib.ibv_get_device_name(list[i]), name) != 0)
			continue;
		errno = 0;
		struct ibv_context *opened = lib.ibv_open_device(list[i]);
		rc = opened ? 0 : failure();
		if (opened) {
			*context = opened;
			*async_fd = opened->async_fd;
			rc = fcntl(opened->async_fd, F_SETFL, fcntl(opened->async_fd, F_GETFL) | O_NONBLOCK) < 0 ? failure() : 0;
		}
		break;
	}
	lib.ibv_free_device_list(list);
	return rc;
}

int ibrun_close(void *context)
{
	return result(lib.ibv_close_device(context));
}

int ibrun_query_device(void *context, struct ibrun_limits *out)
{
	struct ibv_device_attr attr;
	int rc = result(lib.ibv_query_device(context, &attr));
	if (rc)
		return rc;
	*out = (struct ibrun_limits){
		.max_qp = attr.max_qp, .max_srq_wr = attr.max_srq_wr, .max_qp_rd_atom = attr.max_qp_rd_atom,
		.max_qp_init_rd_atom = attr.max_qp_init_rd_atom, .ports = attr.phys_port_cnt,
	};
	return 0;
}

int ibrun_query_port(void *context, int port, struct ibrun_port *out)
{
	struct ibv_port_attr attr;
	memset(&attr, 0, sizeof attr);
	struct verbs_context *extended = verbs_get_ctx_op((struct ibv_context *)context, query_port);
	int rc = extended ? extended->query_port(context, port, &attr, sizeof attr)
			  : lib.ibv_query_port(context, port, (struct _compat_ibv_port_attr *)&attr);
	if (rc)
		return result(rc);
	*out = (struct ibrun_port){
		.state = attr.state, .active_mtu = attr.active_mtu, .gids = attr.gid_tbl_len, .pkeys = attr.pkey_tbl_len,
		.lid = attr.lid, .lmc = attr.lmc, .link_layer = attr.link_layer,
	};
	return 0;
}

int ibrun_query_gid(void *context, int port, int index, uint8_t gid[16], int *type)
{
	if (lib.query_gid_ex) {
		struct ibv_gid_entry entry;
		int rc = lib.query_gid_ex(context, port, index, &entry, 0, sizeof entry);
		if (rc == 0) {
			memcpy(gid, entry.gid.raw, 16);
			*type = entry.gid_type;
			return 0;
		}
		if (rc != EOPNOTSUPP && rc != ENOSYS)
			return result(rc);
	}
	union ibv_gid plain;
	*type = -1;
	errno = 0;
	if (lib.ibv_query_gid(context, port, index, &plain))
		return failure();
	memcpy(gid, plain.raw, 16);
	return 0;
}

int ibrun_query_pkey(void *context, int port, int index, uint16_t *pkey)
{
	__be16 got;
	errno = 0;
	if (lib.ibv_query_pkey(context, port, index, &got))
		return failure();
	*pkey = be16toh(got);
	return 0;
}

/* made stores what a constructor returned. */
static int made(void *object, void **out)
{
	*out = object;
	return object ? 0 : failure();
}

int ibrun_alloc_pd(void *context, void **pd)
{
	errno = 0;
	return made(lib.ibv_alloc_pd(context), pd);
}

int ibrun_dealloc_pd(void *pd)
{
	return result(lib.ibv_dealloc_pd(pd));
}

int ibrun_reg_mr(void *pd, void *addr, size_t length, int access, void **out, uint32_t *lkey, uint32_t *rkey)
{
	errno = 0;
	struct ibv_mr *mr = lib.ibv_reg_mr(pd, addr, length, access);
	if (mr) {
		*lkey = mr->lkey;
		*rkey = mr->rkey;
	}
	return made(mr, out);
}

int ibrun_dereg_mr(void *mr)
{
	return result(lib.ibv_dereg_mr(mr));
}

int ibrun_create_channel(void *context, void **out, int *fd)
{
	errno = 0;
	struct ibv_comp_channel *channel = lib.ibv_create_comp_channel(context);
	if (!channel)
		return failure();
	if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0) {
		int rc = failure();
		lib.ibv_destroy_comp_channel(channel);
		return rc;
	}
	*fd = channel->fd;
	return made(channel, out);
}

int ibrun_destroy_channel(void *channel)
{
	return result(lib.ibv_destroy_comp_channel(channel));
}

int ibrun_take_events(void *channel, uint64_t *out, int max)
{
	int n = 0;
	while (n < max) {
		struct ibv_cq *cq;
		void *cookie;
		errno = 0;
		if (lib.ibv_get_cq_event(channel, &cq, &cookie)) {
			int rc = failure();
			return n > 0 || rc == -EAGAIN ? n : rc;
		}
		out[n++] = (uintptr_t)cookie;
		lib.ibv_ack_cq_events(cq, 1);
	}
	return n;
}

int ibrun_next(void *channel, uint64_t *cookie, struct ibrun_completion *out, int max, int *got)
{
	struct ibv_cq *cq;
	void *of;
	errno = 0;
	if (lib.ibv_get_cq_event(channel, &cq, &of))
		return failure();
	*cookie = (uintptr_t)of;
	*got = ibrun_arm_poll_cq(cq, out, max);
	lib.ibv_ack_cq_events(cq, 1); /* last: no queue is destroyed before its events are acknowledged */
	return 1;
}

int ibrun_create_cq(void *context, int entries, uint64_t cookie, void *channel, int vector, void **out, int *got)
{
	errno = 0;
	struct ibv_cq *cq = lib.ibv_create_cq(context, entries, (void *)(uintptr_t)cookie, channel, vector);
	if (cq)
		*got = cq->cqe;
	return made(cq, out);
}

int ibrun_destroy_cq(void *cq)
{
	return result(lib.ibv_destroy_cq(cq));
}

int ibrun_create_srq(void *pd, uint32_t entries, void **out, uint32_t *got)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = entries, .max_sge = 1}};
	errno = 0;
	struct ibv_srq *srq = lib.ibv_create_srq(pd, &attr);
	*got = attr.attr.max_wr;
	return made(srq, out);
}

int ibrun_destroy_srq(void *srq)
{
	return result(lib.ibv_destroy_srq(srq));
}

static struct ibv_ah_attr route_in(const struct ibrun_route *r)
{
	struct ibv_ah_attr attr = {
		.grh = {.flow_label = r->flow_label, .sgid_index = r->sgid_index,
			.hop_limit = r->hop_limit, .traffic_class = r->traffic_class},
		.dlid = r->dlid, .sl = r->sl, .src_path_bits = r->path_bits,
		.static_rate = r->rate, .is_global = r->global, .port_num = r->port,
	};
	memcpy(attr.grh.dgid.raw, r->dgid, 16);
	return attr;
}

int ibrun_create_ah(void *pd, const struct ibrun_route *route, void **ah)
{
	struct ibv_ah_attr attr = route_in(route);
	errno = 0;
	return made(lib.ibv_create_ah(pd, &attr), ah);
}

int ibrun_destroy_ah(void *ah)
{
	return result(lib.ibv_destroy_ah(ah));
}

int ibrun_create_qp(void *pd, struct ibrun_queues *q, void **out)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = q->send_cq, .recv_cq = q->recv_cq, .srq = q->srq,
		.cap = {.max_send_wr = q->max_send, .max_recv_wr = q->max_receive,
			.max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = q->max_inline},
		.qp_type = q->type,
	};
	errno = 0;
	struct ibv_qp *qp = lib.ibv_create_qp(pd, &attr);
	if (qp) {
		q->max_send = attr.cap.max_send_wr;
		q->max_receive = attr.cap.max_recv_wr;
		q->max_inline = attr.cap.max_inline_data;
		q->qpn = qp->qp_num;
	}
	return made(qp, out);
}

int ibrun_destroy_qp(void *qp)
{
	return result(lib.ibv_destroy_qp(qp));
}

/* What must be given on the way to a state; the kernel refuses more and less. */
static int fields(enum ibv_qp_type type, enum ibv_qp_state to)
{
	int connected = type == IBV_QPT_RC;
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
	case IBV_QPS_RTR:
		return IBV_QP_STATE | (connected ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
						 : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (connected ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
	default:
		return IBV_QP_STATE;
	}
}

int ibrun_modify_qp(void *object, const struct ibrun_qp_state *in)
{
	struct ibv_qp *qp = object;
	struct ibv_qp_attr attr = {
		.qp_state = in->state, .path_mtu = in->path_mtu, .qkey = in->qkey,
		.rq_psn = in->rq_psn, .sq_psn = in->sq_psn, .dest_qp_num = in->dest_qpn,
		.qp_access_flags = in->access, .ah_attr = route_in(&in->route), .pkey_index = in->pkey_index,
		.max_rd_atomic = in->rd_atomic, .max_dest_rd_atomic = in->dest_rd_atomic,
		.min_rnr_timer = in->min_rnr_timer, .port_num = in->port, .timeout = in->timeout,
		.retry_cnt = in->retry, .rnr_retry = in->rnr_retry,
	};
	return result(lib.ibv_modify_qp(qp, &attr, fields(qp->qp_type, in->state)));
}

int ibrun_query_qp(void *qp, struct ibrun_qp_state *out)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	memset(&attr, 0, sizeof attr);
	int rc = result(lib.ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init));
	if (rc)
		return rc;
	*out = (struct ibrun_qp_state){.state = attr.qp_state, .dest_qpn = attr.dest_qp_num};
	return 0;
}

int ibrun_async_event(void *context, struct ibrun_async *out)
{
	struct ibv_async_event event;
	errno = 0;
	if (lib.ibv_get_async_event(context, &event))
		return failure();
	*out = (struct ibrun_async){.type = event.event_type};
	switch (event.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->qpn = event.element.qp->qp_num;
		break;
	case IBV_EVENT_CQ_ERR:
		out->cookie = (uintptr_t)event.element.cq->cq_context;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		out->port = event.element.port_num;
		break;
	default: /* of the device or of a shared queue */
		break;
	}
	/* At once, while the event still keeps its object alive. */
	lib.ibv_ack_async_event(&event);
	return 0;
}

#endif
