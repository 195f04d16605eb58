/*
 * The flat face of libibverbs that Go sees. It needs no header of rdma-core, so
 * that the Go side cannot come to depend on one. Every call returns 0 or a
 * count, or a negative errno; nothing calls back, waits, prints or decides.
 * Objects are pointers that Go carries and never looks into.
 */
#ifndef IBRUN_SHIM_H
#define IBRUN_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* IBRUN_VERBS is 0 if this is compiled without verbs.h. Then shim.c and batch.c
 * are empty, all functions below are weak and undefined, and verbs.Open fails
 * before any of them is called. */
#if !defined(__has_include) || defined(IBRUN_REQUIRE_VERBS)
#define IBRUN_VERBS 1
#elif __has_include(<infiniband/verbs.h>)
#define IBRUN_VERBS 1
#else
#define IBRUN_VERBS 0
#endif
#if IBRUN_VERBS
#define IBRUN_SHIM
#else
#define IBRUN_SHIM __attribute__((weak))
#endif

/* Loads the library once per process and keeps it. On failure why gets the
 * cause as the loader or the symbol's name tells it. */
IBRUN_SHIM int ibrun_load(const char *path, char *why, size_t why_len);

struct ibrun_device {
	char name[64];
	uint64_t guid; /* host order */
	int32_t transport;
	int32_t pad;
};
IBRUN_SHIM int ibrun_devices(struct ibrun_device *out, int max);
IBRUN_SHIM int ibrun_open(const char *name, void **context, int *async_fd);
IBRUN_SHIM int ibrun_close(void *context);

struct ibrun_limits {
	int32_t max_qp, max_srq_wr, max_qp_rd_atom, max_qp_init_rd_atom, ports;
};
IBRUN_SHIM int ibrun_query_device(void *context, struct ibrun_limits *out);

struct ibrun_port {
	int32_t state, active_mtu, gids, pkeys;
	uint16_t lid;
	uint8_t lmc, link_layer;
};
IBRUN_SHIM int ibrun_query_port(void *context, int port, struct ibrun_port *out);

/* type is -1 where the library is too old to tell it; -ENODATA is an empty entry. */
IBRUN_SHIM int ibrun_query_gid(void *context, int port, int index, uint8_t gid[16], int *type);
IBRUN_SHIM int ibrun_query_pkey(void *context, int port, int index, uint16_t *pkey);

IBRUN_SHIM int ibrun_alloc_pd(void *context, void **pd);
IBRUN_SHIM int ibrun_dealloc_pd(void *pd);
IBRUN_SHIM int ibrun_reg_mr(void *pd, void *addr, size_t length, int access, void **mr, uint32_t *lkey, uint32_t *rkey);
IBRUN_SHIM int ibrun_dereg_mr(void *mr);

/* The channel's descriptor is made non-blocking. */
IBRUN_SHIM int ibrun_create_channel(void *context, void **channel, int *fd);
IBRUN_SHIM int ibrun_destroy_channel(void *channel);
/* Takes and acknowledges the events that are there; out gets each queue's cookie. */
IBRUN_SHIM int ibrun_take_events(void *channel, uint64_t *out, int max);

IBRUN_SHIM int ibrun_create_cq(void *context, int entries, uint64_t cookie, void *channel, int vector, void **cq, int *got);
IBRUN_SHIM int ibrun_destroy_cq(void *cq);
IBRUN_SHIM int ibrun_arm_cq(void *cq);

struct ibrun_completion {
	uint64_t id;
	uint32_t status, opcode, vendor, length, imm, qpn, source, flags;
	uint16_t pkey_index, lid;
	uint8_t sl, path_bits;
	uint8_t pad[2];
};
IBRUN_SHIM int ibrun_poll_cq(void *cq, struct ibrun_completion *out, int max);
/* Arms, then polls: what came before the arming is found by the poll. */
IBRUN_SHIM int ibrun_arm_poll_cq(void *cq, struct ibrun_completion *out, int max);
/* Takes one event and does that for its queue. Returns 1 and the queue's cookie, and in got what the
 * poll found or a negative errno; -EAGAIN if there is no event. */
IBRUN_SHIM int ibrun_next(void *channel, uint64_t *cookie, struct ibrun_completion *out, int max, int *got);

IBRUN_SHIM int ibrun_create_srq(void *pd, uint32_t entries, void **srq, uint32_t *got);
IBRUN_SHIM int ibrun_destroy_srq(void *srq);

struct ibrun_route {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sl, path_bits, rate, port;
	uint8_t global, sgid_index, hop_limit, traffic_class;
	uint8_t pad[2];
};
IBRUN_SHIM int ibrun_create_ah(void *pd, const struct ibrun_route *route, void **ah);
IBRUN_SHIM int ibrun_destroy_ah(void *ah);

struct ibrun_queues {
	void *send_cq, *recv_cq, *srq;
	uint32_t type, max_send, max_receive, max_inline; /* the last three: asked for, then granted */
	uint32_t qpn;
};
IBRUN_SHIM int ibrun_create_qp(void *pd, struct ibrun_queues *queues, void **qp);
IBRUN_SHIM int ibrun_destroy_qp(void *qp);

struct ibrun_qp_state {
	struct ibrun_route route;
	uint32_t state, path_mtu, qkey, rq_psn, sq_psn, dest_qpn, access;
	uint16_t pkey_index;
	uint8_t port, rd_atomic, dest_rd_atomic, min_rnr_timer, timeout, retry, rnr_retry;
	uint8_t pad[3];
};
/* Moves to in->state; which other fields count follows from it and the type of queue pair. */
IBRUN_SHIM int ibrun_modify_qp(void *qp, const struct ibrun_qp_state *in);
/* Sets the fields state and dest_qpn of out, and all others to 0. */
IBRUN_SHIM int ibrun_query_qp(void *qp, struct ibrun_qp_state *out);

struct ibrun_send {
	uint64_t id, addr, remote_addr, route; /* route: an address handle's pointer, for UD */
	uint32_t length, lkey, rkey, opcode, flags, imm, qpn, qkey;
};
struct ibrun_receive {
	uint64_t id, addr;
	uint32_t length, lkey;
};
/* done of the batch were taken; err says why the next was not. */
struct ibrun_batch {
	int32_t done, err;
};
IBRUN_SHIM struct ibrun_batch ibrun_post_send(void *qp, const struct ibrun_send *batch, int n);
IBRUN_SHIM struct ibrun_batch ibrun_post_recv(void *qp, const struct ibrun_receive *batch, int n);
IBRUN_SHIM struct ibrun_batch ibrun_post_srq(void *srq, const struct ibrun_receive *batch, int n);

struct ibrun_async {
	uint64_t cookie; /* of a completion queue's event */
	uint32_t type, port, qpn;
	uint32_t pad;
};
/* Takes and acknowledges one event; -EAGAIN when there is none. */
IBRUN_SHIM int ibrun_async_event(void *context, struct ibrun_async *out);

#endif
