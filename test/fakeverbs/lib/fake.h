/*
 * A libibverbs of our own for tests: devices and ports as the environment
 * describes them, a network of Unix sockets in a folder that several processes
 * share, and faults that no real device makes when asked. See ../fakeverbs.go
 * for the words of its configuration, and docs/dev/verbs.md.
 *
 * One mutex, world, guards all state. Each open device has two threads: one
 * only empties its socket, so that a blocking send by somebody who holds the
 * mutex always ends; the other acts on what came, and on timers.
 */
#ifndef FAKE_H
#define FAKE_H

#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr
#undef ibv_query_port

enum { MOST_DEVICES = 8, MOST_PORTS = 2, MOST_GIDS = 8, MOST_PKEYS = 8, MOST_INLINE = 512, WINDOW = 64 };

struct gid {
	union ibv_gid addr;
	int type; /* enum ibv_gid_type; -1: an empty entry */
};

struct port {
	uint16_t lid, sm_lid;
	uint8_t lmc, link;
	int state, mtu, gids, pkeys;
	struct gid gid[MOST_GIDS];
	uint16_t pkey[MOST_PKEYS];
};

struct device {
	struct ibv_device ibv; /* first: what the library's callers hold */
	uint64_t guid;
	int ports;
	struct port port[MOST_PORTS];
};

/* What the environment says. Percentages are of datagrams or packets. */
struct settings {
	char net[256], log[256];
	int devices, max_qp, open_errno, qpn, lose, twice, swap, rc_lose;
	uint64_t seed, memlock;
	struct device device[MOST_DEVICES];
};
extern struct settings settings;
void read_settings(void);
void hex_gid(struct gid *g, const char *text); /* "-" or TYPE:32 hexadecimal digits */

extern pthread_mutex_t world;
extern pthread_cond_t acked; /* an event was acknowledged */

/* A list of events behind an eventfd, which is readable while it is not empty. */
struct notice {
	struct notice *next;
	struct ibv_async_event event; /* of a completion channel: element.cq alone */
};
struct mailbox {
	int fd;
	struct notice *first, **last;
};
int mailbox_open(struct mailbox *box);
void mailbox_put(struct mailbox *box, struct ibv_async_event event);
int mailbox_take(struct mailbox *box, struct ibv_async_event *event); /* waits unless the descriptor is non-blocking */
void mailbox_forget(struct mailbox *box, const void *object);
void mailbox_close(struct mailbox *box);

struct channel {
	struct ibv_comp_channel ibv;
	struct mailbox box;
};

struct qp;

struct cqe {
	struct ibv_wc wc;
	struct qp *sender; /* whose send queue has room again once this is polled */
	int room;
};
struct cq {
	struct ibv_cq ibv;
	struct cqe *ring;
	int size, head, count, users;
	bool armed, overrun;
	uint32_t taken; /* events that were read; ibv.comp_events_completed were acknowledged */
};
void cq_push(struct cq *cq, struct ibv_wc wc, struct qp *sender, int room);

struct mr {
	struct ibv_mr ibv;
	int access;
	struct mr *next;
};
struct ah {
	struct ibv_ah ibv;
	struct ibv_ah_attr attr;
};

struct recv {
	uint64_t id;
	uint8_t *addr;
	uint32_t length, lkey;
};
struct recvs {
	struct recv *ring;
	int size, head, count;
};
struct srq {
	struct ibv_srq ibv;
	struct recvs queue;
	int users;
};

struct work {
	uint64_t id, remote_addr;
	enum ibv_wr_opcode op;
	unsigned flags;
	__be32 imm;
	uint8_t *addr, *copy; /* copy: of an inline send */
	uint32_t length, lkey, rkey, first, packets, got, asked;
};

struct qp {
	struct ibv_qp ibv;
	struct context *context;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	bool has_path;
	struct qp *next;
	uint32_t taken;

	struct recvs queue;

	/* Requester. PSNs: una is the oldest not acknowledged, nxt the next to send, end the first not used. */
	struct work *ring;
	int head, count;     /* requests that are not complete */
	int used, unsignaled; /* room taken in the queue; completed without a completion to poll */
	uint32_t una, nxt, end;
	int retries, rnr_retries;
	uint64_t deadline, rnr_until; /* ns; 0: none */

	/* Responder. */
	uint32_t expected;
	bool receiving, complained;
	struct recv into;
	uint32_t at;
};

enum kind { UD_SEND, RC_SEND, RC_WRITE, RC_READ, RC_DATA, RC_ACK, RC_NAK };
enum { LAST = 1, FIRST = 2, WITH_IMM = 4, ASK = 8, GLOBAL = 16 };
enum { MAGIC = 0x69627266, NAK_SEQUENCE = 0, NAK_INVALID = 1, NAK_ACCESS = 2, NAK_OPERATION = 3, NAK_NOT_READY = 4 };

struct packet {
	uint32_t magic;
	uint8_t kind, flags, sl, gid_type;
	uint16_t dlid, slid, pkey, reason; /* reason of a NAK, with the code of the pause in sl */
	union ibv_gid sgid, dgid;
	uint32_t to, from, psn, qkey;
	__be32 imm;
	uint32_t rkey, length, size; /* of the whole message; of what follows */
	uint64_t remote_addr;
};
enum { MOST_PAYLOAD = 4096 };

struct incoming {
	struct incoming *next;
	bool words; /* a command for control(), as text in payload */
	struct packet packet;
	uint8_t payload[MOST_PAYLOAD];
};

struct counts {
	int pd, mr, channel, cq, srq, qp, ah;
	uint64_t pinned, sent, lost, twice, swapped, received, dropped, rc_lost, resent;
	uint64_t bells; /* calls that post sends */
};

struct context {
	struct verbs_context v;
	struct device *device;
	struct port ports[MOST_PORTS]; /* this process's view: states change */
	struct mailbox box;
	int net, folder, socket; /* descriptors: the network's folder, the device's, our socket */
	char name[16];           /* of the socket in the network's folder */
	pthread_t reader, worker;
	bool ending, dead;
	struct qp *qps;
	struct mr *mrs;
	uint32_t next_qpn, next_key;
	uint64_t random;
	struct counts counts;
	uint32_t hollow; /* if not 0, datagrams go nowhere, and a posted receive has one of so many bytes at once */
	struct incoming *held; /* a datagram that the next one overtakes */
	char held_path[96];
	uint64_t held_until;

	pthread_mutex_t arrival_lock; /* guards knocked and arrived */
	pthread_cond_t knock;
	bool knocked;
	struct incoming *arrived, **arrived_last;
};
struct context *context_of(struct ibv_context *ibv);
struct port *port_of(struct context *c, int number); /* NULL: no such port */
bool path_ok(struct context *c, const struct ibv_ah_attr *a);

uint64_t now(void);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* net.c */
int net_open(struct context *c);
void net_close(struct context *c);
int net_claim(struct context *c, uint32_t *qpn);
void net_release(struct context *c, uint32_t qpn);
/* Fills the addresses of a packet from the way it goes, and sends it. */
void net_send(struct context *c, const struct ibv_ah_attr *way, struct packet *p, const void *payload);
bool chance(struct context *c, int percent);
void hex(char *out, const union ibv_gid *gid);
void net_knock(struct context *c); /* the worker has something to do */

/* qp.c */
struct qp *find_qp(struct context *c, uint32_t number);
void qp_fail(struct qp *qp);
void async_qp(struct qp *qp, enum ibv_event_type type);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
bool next_recv(struct qp *qp, struct recv *out); /* takes one */
void complete_send(struct qp *qp, struct work *w, enum ibv_wc_status status);
bool mapped(struct context *c, uint32_t key, const void *addr, uint64_t length, int access);
int more_recvs(struct recvs *q, struct ibv_recv_wr *wr);

/* cq.c */
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ud.c, rc.c */
void ud_send(struct qp *qp, struct work *w, const struct ibv_send_wr *wr);
void ud_arrived(struct context *c, struct qp *qp, struct incoming *in);
void ud_hollow(struct qp *qp); /* one arrives out of nothing */
void rc_arrived(struct context *c, struct qp *qp, struct incoming *in);
void rc_pump(struct qp *qp);
uint64_t rc_timers(struct qp *qp, uint64_t t); /* acts; the next deadline or 0 */
int mtu_bytes(int code);

/* control.c */
void control(struct context *c, const char *words, char *answer, size_t most);

#endif
