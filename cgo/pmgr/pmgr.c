/* A rank's side of docs/dev/protocol.md, as far as collectives need it: frames over the descriptor that the agent left in
 * IBRUN_FD. A frame is a length of four bytes, a kind, and a payload of numbers (LEB128) and strings (a number, so many
 * bytes). On the wire ranks are slots, numbered node by node; users' numbers differ when ranks were dealt to nodes
 * like cards, and are converted here. What the agent sends is parsed strictly. */
#define _GNU_SOURCE
#include "pmgr.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

/* Kinds of frames, and of collectives. */
enum { kind_collect = 15, kind_release = 16, kind_hello = 64, kind_welcome = 65, kind_abort = 70, kind_finalize = 71, kind_refused = 74 };
enum { barrier, broadcast, gather, allgather, scatter, alltoall };

enum {
	parcel_head = 15,	/* the most that a parcel takes in addition to its value */
	most_text = 1000,	/* of an abort */
	most_ranks = 1 << 24,
};

static enum { fresh, joined, over } state;
static int fd = -1;
static uint32_t my_slot, job_size, op;
static uint32_t *slot_of, *rank_of;	/* NULL: ranks were not dealt, and are slots */
static char reason[1200] = "nothing failed";

/* fail says why, and is -1. */
__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(reason, sizeof reason, format, args);
	va_end(args);
	return -1;
}

/* refused says why the agent takes no program any more: its own words. */
static void refused(const uint8_t *payload, size_t length)
{
	struct view v = {payload, length, false};
	size_t n;
	const uint8_t *text = pmgr_take_string(&v, &n);
	fail("%.*s", text && n < sizeof reason ? (int)n : 0, (const char *)text);
}

/* await reads frames up to one of a kind; others are for programs that ask for them. The payload is the caller's. */
static int await(uint8_t kind, uint8_t **payload, size_t *length)
{
	for (;;) {
		uint8_t first[head];
		if (pmgr_read(fd, first, head, fail))
			return -1;
		size_t n = (size_t)first[0] << 24 | (size_t)first[1] << 16 | (size_t)first[2] << 8 | first[3];
		if (n < 1 || n > most_frame)
			return fail("the agent sent a frame of %zu bytes", n);
		*length = n - 1;
		*payload = malloc(n);
		if (!*payload)
			return fail("no memory for an answer of %zu bytes", n);
		if (pmgr_read(fd, *payload, *length, fail)) {
			free(*payload);
			return -1;
		}
		if (first[4] == kind)
			return 0;
		if (first[4] == kind_refused)
			refused(*payload, *length);
		free(*payload);
		if (first[4] == kind_refused)
			return -1;
	}
}

/* The slots of a node that have no rank yet. */
struct room {
	uint32_t next, end;
};

/* rooms has one for each node, and there is room for a number for each rank; null and told if there is no memory. */
static struct room *rooms(struct view shares, uint64_t n, uint32_t nodes)
{
	uint32_t node = 0, slot = 0;
	struct room *of = calloc(nodes, sizeof *of);
	slot_of = calloc(job_size, sizeof *slot_of);
	rank_of = calloc(job_size, sizeof *rank_of);
	if (!of || !slot_of || !rank_of) {
		free(of);
		fail("no memory for %u ranks", job_size);
		return NULL;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint32_t end = node + pmgr_take_u32(&shares), each = pmgr_take_u32(&shares);
		for (; node < end; node++) {
			of[node].next = slot;
			of[node].end = slot += each;
		}
	}
	return of;
}

/* place gives the next ranks, so many, to a node, or as many as it has room for. */
static uint32_t place(struct room *of, uint32_t rank, uint32_t many)
{
	for (; many && of->next < of->end; many--) {
		slot_of[rank] = of->next;
		rank_of[of->next++] = rank++;
	}
	return rank;
}

/* number gives out ranks as the launcher did: nodes take turns by plane, or by stretches (first node, nodes, ranks of each). */
static bool number(struct view *v, struct room *of, uint32_t nodes, uint32_t plane, uint64_t stretches)
{
	uint32_t rank = 0;
	while (plane && rank < job_size)
		for (uint32_t node = 0; node < nodes; node++)
			rank = place(of + node, rank, plane);
	for (uint64_t i = 0; i < stretches; i++) {
		uint32_t node = pmgr_take_u32(v), many = pmgr_take_u32(v), each = pmgr_take_u32(v);
		if (v->bad || plane || node >= nodes || many > nodes - node)
			return false;
		for (uint32_t end = node + many, was = rank; node < end; node++, was = rank)
			if ((rank = place(of + node, rank, each)) - was != each)
				return false;
	}
	return rank == job_size;
}

/* arrange reads the layout: plane, the shares in the order of nodes, and the stretches in the order of ranks, if there are some. */
static int arrange(struct view *v)
{
	uint32_t plane = pmgr_take_u32(v);
	uint64_t count = pmgr_take_number(v, v->left / 2), nodes = 0, ranks = 0;
	struct view shares = *v;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t of = pmgr_take_u32(v), each = pmgr_take_u32(v);
		nodes += of;
		ranks += of * each;
		if (ranks > most_ranks || nodes > most_ranks)
			v->bad = true;
	}
	uint64_t stretches = pmgr_take_number(v, v->left / 3);
	bool right = !v->bad && ranks && my_slot < ranks;
	job_size = right ? (uint32_t)ranks : 0;
	if (right && (plane || stretches)) {
		struct room *all = rooms(shares, count, (uint32_t)nodes);
		if (!all)
			return -1;
		right = number(v, all, (uint32_t)nodes, plane, stretches);
		free(all);
	}
	return right ? 0 : fail("the agent's welcome makes no sense");
}

/* hello gives the agent one end of a new socket, by the rank's descriptor, which others may have too; fd becomes the
 * other end, which is this program's alone. */
static int hello(void)
{
	uint8_t frame[head] = {0, 0, 0, 1, kind_hello};
	struct iovec bytes = {frame, sizeof frame};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} rights = {0};
	struct msghdr m = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = rights.room, .msg_controllen = sizeof rights.room};
	int ends[2];
	ssize_t sent;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return fail("no socket for the agent: %s", strerror(errno));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[1], sizeof(int));
	do
		sent = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	int err = sent < 0 ? fail("the agent of this node is gone: %s", strerror(errno)) : 0;
	close(ends[1]);
	close(fd);
	fd = ends[0];
	return err;
}

/* greet says hello and reads the welcome as far as the layout: job's name, slot, epoch, collectives of the rank's
 * programs before this one, layout. */
static int greet(void)
{
	uint8_t *payload;
	size_t n;
	if (hello() || await(kind_welcome, &payload, &n))
		return -1;
	struct view v = {payload, n, false};
	pmgr_take_string(&v, &n);
	my_slot = pmgr_take_u32(&v);
	pmgr_take_number(&v, UINT16_MAX);
	op = pmgr_take_u32(&v);
	int err = arrange(&v);
	free(payload);
	return err;
}

API int pmgr_open(int *rank, int *size)
{
	const char *text = getenv("IBRUN_FD");
	char *end;
	int domain;
	socklen_t n = sizeof domain;
	if (!rank || !size)
		return fail("pmgr_open without a place for rank and size");
	if (state != fresh)
		return fail("pmgr_open was called before");
	if (!text)
		return fail("not started by ibrun: there is no IBRUN_FD; try ibrun -n 2 and the program");
	errno = 0;
	long number = strtol(text, &end, 10);
	if (errno || !*text || *end || number < 0 || number > INT_MAX)
		return fail("IBRUN_FD=%.40s is not a descriptor", text);
	fd = (int)number;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_UNIX || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return fail("descriptor %d of IBRUN_FD is not an agent's; was it closed by a program in between?", fd);
	/* Programs that this one starts must not speak in its place. */
	unsetenv("IBRUN_FD");
	unsetenv("PMI_FD");
	state = over;
	if (greet())
		return -1;
	state = joined;
	*rank = (int)(rank_of ? rank_of[my_slot] : my_slot);
	*size = (int)job_size;
	return 0;
}

/* A collective: what this rank gives, and where it puts what it gets. */
struct call {
	int what, root;		/* root: a rank, 0 where there is none */
	const uint8_t *give;	/* parcels of count bytes */
	uint32_t gives;		/* how many: 0, 1, or one for each rank */
	bool to_all, to_root;	/* whom the one parcel is for */
	uint8_t *get;
	uint32_t gets;		/* how many: 0, 1, or one from each rank */
	size_t count;
};

static int join(const struct call *c)
{
	struct frame f = {0};
	if (c->gives && (c->count > PMGR_MOST || (c->count + parcel_head) * (uint64_t)c->gives > PMGR_MOST))
		return fail("%zu bytes for each of %u ranks: at most %u in all go through the launch tree", c->count, c->gives, PMGR_MOST);
	pmgr_begin(&f, kind_collect);
	pmgr_put_number(&f, op + 1);
	pmgr_put_number(&f, (uint64_t)c->what);
	pmgr_put_number(&f, (uint64_t)c->root);
	pmgr_put_number(&f, 0);	/* no trouble */
	pmgr_put_number(&f, c->gives);
	for (uint32_t i = 0; i < c->gives; i++) {
		uint32_t to = c->to_root ? (uint32_t)c->root : i;
		pmgr_put_number(&f, my_slot);
		pmgr_put_number(&f, c->to_all ? 0 : (uint64_t)(slot_of ? slot_of[to] : to) + 1);
		pmgr_put_string(&f, c->count ? c->give + i * c->count : NULL, c->count);
	}
	if (pmgr_deliver(fd, &f, fail))
		return -1;
	op++;
	return 0;
}

/* unpack puts the parcels where they belong. */
static int unpack(const struct call *c, struct view *v)
{
	size_t n;
	uint64_t parcels, left = c->gets;
	const uint8_t *trouble = pmgr_take_string(v, &n);
	if (n && trouble)
		return fail("collective failed: %.*s", (int)(n < sizeof reason ? n : sizeof reason), (const char *)trouble);
	uint8_t *have = calloc((size_t)c->gets + 1, 1);
	if (!have)
		return fail("no memory for %u parcels", c->gets);
	for (parcels = pmgr_take_number(v, v->left); parcels && !v->bad; parcels--) {
		uint32_t from = pmgr_take_u32(v);
		pmgr_take_u32(v);	/* it is for us */
		const uint8_t *value = pmgr_take_string(v, &n);
		uint32_t place = c->gets == 1 || from >= job_size ? 0 : rank_of ? rank_of[from] : from;
		if (v->bad || place >= c->gets || from >= job_size || have[place]) {
			v->bad = true;
		} else if (n != c->count) {
			free(have);
			return fail("rank %u gave %zu bytes, not %zu", rank_of ? rank_of[from] : from, n, c->count);
		} else {
			have[place] = 1;
			left--;
			if (n)
				memcpy(c->get + place * n, value, n);
		}
	}
	free(have);
	return v->bad || v->left || left ? fail("the agent's answer makes no sense") : 0;
}

static int collective(const struct call *c)
{
	uint8_t *payload;
	size_t n;
	if (state != joined)
		return fail(state == fresh ? "pmgr_open was not called" : "the job was left, or never joined");
	if (c->root < 0 || (uint32_t)c->root >= job_size)
		return fail("rank %d as root: there are ranks 0 to %u", c->root, job_size - 1);
	if (c->count && ((c->gives && !c->give) || (c->gets && !c->get)))
		return fail("no buffer for %zu bytes", c->count);
	if (join(c) || await(kind_release, &payload, &n))
		return -1;
	struct view v = {payload, n, false};
	bool ours = pmgr_take_u32(&v) == op;
	ours = pmgr_take_number(&v, alltoall) == (uint64_t)c->what && ours;
	pmgr_take_u32(&v);	/* the root */
	int err = ours && !v.bad ? unpack(c, &v) : fail("the agent's answer makes no sense");
	free(payload);
	return err;
}

static bool is_me(int root)
{
	return root >= 0 && (uint32_t)root == (rank_of ? rank_of[my_slot] : my_slot);
}

API int pmgr_barrier(void)
{
	return collective(&(struct call){.what = barrier});
}

API int pmgr_bcast(void *buf, size_t count, int root)
{
	uint32_t mine = is_me(root) ? 1 : 0;
	return collective(&(struct call){.what = broadcast, .root = root, .give = buf, .gives = mine, .to_all = true, .get = buf, .gets = 1, .count = count});
}

API int pmgr_gather(const void *sendbuf, size_t count, void *recvbuf, int root)
{
	uint32_t all = is_me(root) ? job_size : 0;
	return collective(&(struct call){.what = gather, .root = root, .give = sendbuf, .gives = 1, .to_root = true, .get = recvbuf, .gets = all, .count = count});
}

API int pmgr_scatter(const void *sendbuf, size_t count, void *recvbuf, int root)
{
	uint32_t all = is_me(root) ? job_size : 0;
	return collective(&(struct call){.what = scatter, .root = root, .give = sendbuf, .gives = all, .get = recvbuf, .gets = 1, .count = count});
}

API int pmgr_allgather(const void *sendbuf, size_t count, void *recvbuf)
{
	return collective(&(struct call){.what = allgather, .give = sendbuf, .gives = 1, .to_all = true, .get = recvbuf, .gets = job_size, .count = count});
}

API int pmgr_alltoall(const void *sendbuf, size_t count, void *recvbuf)
{
	return collective(&(struct call){.what = alltoall, .give = sendbuf, .gives = job_size, .get = recvbuf, .gets = job_size, .count = count});
}

API int pmgr_close(void)
{
	struct frame f = {0};
	if (state != joined)
		return fail(state == fresh ? "pmgr_open was not called" : "the job was left, or never joined");
	pmgr_begin(&f, kind_finalize);
	int err = pmgr_deliver(fd, &f, fail);
	close(fd);
	free(slot_of);
	free(rank_of);
	slot_of = rank_of = NULL;
	state = over;
	return err;
}

API void pmgr_abort(int code, const char *text)
{
	struct frame f = {0};
	uint8_t c = code & 0xff ? (uint8_t)code : 1, end[1];	/* an aborted job has failed */
	size_t n = text ? strnlen(text, most_text) : 0;
	if (state == joined) {
		pmgr_begin(&f, kind_abort);
		pmgr_put(&f, &c, 1);
		pmgr_put_string(&f, text, n);
		ssize_t got = pmgr_deliver(fd, &f, fail);
		while (!got || (got < 0 && errno == EINTR))
			got = read(fd, end, 1) > 0 ? 0 : -1;	/* the agent ends this process */
	} else if (text) {
		fprintf(stderr, "%s\n", text);
	}
	exit(c);
}

API const char *pmgr_error(void)
{
	return reason;
}
