/* A member's side of docs/dev/protocol.md: frames over the descriptor that the agent left in IBRUN_MEMBER_FD. What the agent
 * sends is parsed strictly. */
#include "../pmgr/frame.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Kinds of frames, and of collectives. */
enum { kind_collect = 15, kind_release = 16, kind_finalize = 71, kind_member = 105, kind_data = 106, kind_room = 107 };
enum { barrier, broadcast, gather, allgather, scatter };

enum { parcel_head = 15, give_back = 64 << 10, ranks_most = 1 << 20 };

static enum { fresh, joined, over } state;
static int fd = -1;
static uint32_t number, size, op, credit, owed;
static char *host;
static struct ib_process *ranks;
static unsigned rank_count;
static struct inbox inbox;
static uint8_t *released; /* the payload of a release that nobody has taken */
static size_t released_length;

static int nonsense(void)
{
	return ib_fail("what the agent sent makes no sense");
}

static int read_data(struct view v)
{
	size_t n;
	const uint8_t *last = pmgr_take(&v, 1), *at = pmgr_take_string(&v, &n);
	if (v.bad || v.left)
		return nonsense();
	owed += (uint32_t)n + piece_head;
	return inbox_add(&inbox, at, n, *last);
}

static int read_member(struct view v)
{
	size_t n;
	number = pmgr_take_u32(&v);
	size = pmgr_take_u32(&v);
	const uint8_t *name = pmgr_take_string(&v, &n);
	host = name ? strndup((const char *)name, n) : NULL;
	credit = pmgr_take_u32(&v);
	uint64_t count = pmgr_take_number(&v, ranks_most);
	ranks = calloc(count + 1, sizeof *ranks);
	if (!host || !ranks)
		return ib_fail("no memory for the table of ranks");
	for (uint64_t i = 0; i < count && !v.bad; i++) {
		ranks[i].host = host;
		ranks[i].rank = (int)pmgr_take_u32(&v);
		ranks[i].local_rank = (int)pmgr_take_u32(&v);
		ranks[i].pid = (int)pmgr_take_u32(&v);
	}
	rank_count = (unsigned)count;
	return v.bad || v.left || number >= size ? nonsense() : 0;
}

/* read_frame takes the next frame to where it belongs, and says its kind; -1: it failed. */
static int read_frame(void)
{
	uint8_t first[head];
	if (pmgr_read(fd, first, head, ib_fail))
		return -1;
	size_t n = (size_t)first[0] << 24 | (size_t)first[1] << 16 | (size_t)first[2] << 8 | first[3];
	if (n < 1 || n > most_frame)
		return ib_fail("the agent sent a frame of %zu bytes", n);
	uint8_t *payload = malloc(n);
	if (!payload)
		return ib_fail("no memory for an answer of %zu bytes", n);
	struct view v = {payload, n - 1, false};
	int err = pmgr_read(fd, payload, n - 1, ib_fail);
	if (!err && first[4] == kind_release && !released) {
		released = payload;
		released_length = n - 1;
		return kind_release;
	}
	if (!err && first[4] == kind_data)
		err = read_data(v);
	else if (!err && first[4] == kind_member)
		err = read_member(v);
	else if (!err && first[4] == kind_room)
		credit += pmgr_take_u32(&v);
	free(payload);
	return err ? -1 : first[4];
}

static int in_session(void)
{
	if (state == joined)
		return 0;
	return ib_fail(state == fresh ? "ib_init was not called" : "the session was left, or never joined");
}

API int ib_init(int *argc, char ***argv)
{
	const char *text = getenv("IBRUN_MEMBER_FD");
	char *end;
	int domain, kind;
	socklen_t n = sizeof domain;
	(void)argc, (void)argv; /* it takes none of them away */
	if (state != fresh)
		return ib_fail("ib_init was called before");
	if (!text)
		return ib_fail("not a member of a session: there is no IBRUN_MEMBER_FD; start it by ib_spawn");
	errno = 0;
	long at = strtol(text, &end, 10);
	if (errno || !*text || *end || at < 0 || at > INT_MAX)
		return ib_fail("IBRUN_MEMBER_FD=%.40s is not a descriptor", text);
	fd = (int)at;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_UNIX || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return ib_fail("descriptor %d of IBRUN_MEMBER_FD is not an agent's; was it closed by a program in between?", fd);
	unsetenv("IBRUN_MEMBER_FD"); /* programs that this one starts must not speak in its place */
	state = over;
	while ((kind = read_frame()) != kind_member)
		if (kind < 0)
			return -1;
	state = joined;
	return 0;
}

API int ib_rank(void)
{
	return in_session() ? -1 : (int)number;
}

API int ib_size(void)
{
	return in_session() ? -1 : (int)size;
}

API int ib_local_proctable(const struct ib_process **table, unsigned *n)
{
	if (in_session())
		return -1;
	*table = ranks;
	*n = rank_count;
	return 0;
}

/* A collective: what this member gives, and where it puts what it gets. */
struct call {
	int what;
	const uint8_t *give;
	uint32_t gives;		/* values: 0, 1, or one for each member */
	bool to_all, to_root;	/* whom the one value is for */
	uint8_t *get;
	uint32_t gets;
	size_t n;
};

static int join(const struct call *c)
{
	struct frame f = {0};
	if (c->gives && (c->n > IB_MOST || (c->n + parcel_head) * (uint64_t)c->gives > IB_MOST))
		return ib_fail("%zu bytes for each of %u members: at most %u in all go through the tree", c->n, c->gives, IB_MOST);
	pmgr_begin(&f, kind_collect);
	pmgr_put_number(&f, op + 1);
	pmgr_put_number(&f, (uint64_t)c->what);
	pmgr_put_number(&f, 0); /* the root */
	pmgr_put_number(&f, 0); /* no trouble */
	pmgr_put_number(&f, c->gives);
	for (uint32_t i = 0; i < c->gives; i++) {
		pmgr_put_number(&f, number);
		pmgr_put_number(&f, c->to_all ? 0 : (uint64_t)(c->to_root ? 0 : i) + 1);
		pmgr_put_string(&f, c->n ? c->give + i * c->n : NULL, c->n);
	}
	if (pmgr_deliver(fd, &f, ib_fail))
		return -1;
	op++;
	return 0;
}

/* unpack puts the values where they belong. */
static int unpack(const struct call *c, struct view v)
{
	size_t n;
	bool ours = pmgr_take_u32(&v) == op;
	ours = pmgr_take_number(&v, UINT8_MAX) == (uint64_t)c->what && ours;
	pmgr_take_u32(&v); /* the root */
	const uint8_t *trouble = pmgr_take_string(&v, &n);
	if (!ours || v.bad)
		return nonsense();
	if (n)
		return ib_fail("collective failed: %.*s", n < 1000 ? (int)n : 1000, (const char *)trouble);
	uint32_t left = c->gets;
	uint8_t *have = calloc((size_t)c->gets + 1, 1);
	if (!have)
		return ib_fail("no memory for %u values", c->gets);
	int err = 0;
	for (uint64_t values = pmgr_take_number(&v, v.left); !err && values && !v.bad; values--) {
		uint32_t from = pmgr_take_u32(&v);
		pmgr_take_u32(&v); /* it is for us */
		const uint8_t *value = pmgr_take_string(&v, &n);
		uint32_t place = c->gets == 1 ? 0 : from;
		if (v.bad || place >= c->gets || have[place])
			err = nonsense();
		else if (n != c->n)
			err = ib_fail("member %u gave %zu bytes, not %zu", from, n, c->n);
		else if (n)
			memcpy(c->get + place * n, value, n);
		if (!err)
			left--, have[place] = 1;
	}
	free(have);
	return err ? err : v.bad || v.left || left ? nonsense() : 0;
}

static int collective(struct call c)
{
	if (in_session())
		return -1;
	if (c.n && ((c.gives && !c.give) || (c.gets && !c.get)))
		return ib_fail("no buffer for %zu bytes", c.n);
	if (join(&c))
		return -1;
	while (!released)
		if (read_frame() < 0)
			return -1;
	int err = unpack(&c, (struct view){released, released_length, false});
	free(released);
	released = NULL;
	return err;
}

API int ib_barrier(void)
{
	return collective((struct call){.what = barrier});
}

API int ib_bcast(void *buf, size_t n)
{
	return collective((struct call){.what = broadcast, .give = buf, .gives = number == 0, .to_all = true, .get = buf, .gets = 1, .n = n});
}

API int ib_gather(const void *send, size_t n, void *recv)
{
	return collective((struct call){.what = gather, .give = send, .gives = 1, .to_root = true, .get = recv, .gets = number ? 0 : size, .n = n});
}

API int ib_scatter(const void *send, size_t n, void *recv)
{
	return collective((struct call){.what = scatter, .give = send, .gives = number ? 0 : size, .get = recv, .gets = 1, .n = n});
}

API int ib_allgather(const void *send, size_t n, void *recv)
{
	return collective((struct call){.what = allgather, .give = send, .gives = 1, .to_all = true, .get = recv, .gets = size, .n = n});
}

API int ib_finalize(void)
{
	struct frame f = {0};
	if (in_session())
		return -1;
	pmgr_begin(&f, kind_finalize);
	int err = pmgr_deliver(fd, &f, ib_fail);
	close(fd);
	inbox_free(&inbox);
	free(ranks);
	free(host);
	ranks = NULL;
	host = NULL;
	state = over;
	return err;
}

static int may_talk(void)
{
	if (in_session())
		return -1;
	return number ? ib_fail("member %u: member 0 talks to the front end", number) : 0;
}

int member_send(const void *buf, size_t n)
{
	const uint8_t *at = buf;
	if (may_talk())
		return -1;
	do {
		size_t piece = n < piece_most ? n : piece_most;
		uint8_t last = piece == n;
		struct frame f = {0};
		while (credit < piece + piece_head)
			if (read_frame() < 0)
				return -1;
		credit -= (uint32_t)piece + piece_head;
		pmgr_begin(&f, kind_data);
		pmgr_put(&f, &last, 1);
		pmgr_put_string(&f, at, piece);
		if (pmgr_deliver(fd, &f, ib_fail))
			return -1;
		at += piece;
		n -= piece;
	} while (n);
	return 0;
}

/* return_credit lets the front end send as much again as has come. */
static int return_credit(void)
{
	struct frame f = {0};
	pmgr_begin(&f, kind_room);
	pmgr_put_number(&f, owed);
	owed = 0;
	return pmgr_deliver(fd, &f, ib_fail);
}

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int member_recv(void **buf, size_t *n, int timeout)
{
	int64_t until = now_ms() + timeout;
	if (may_talk())
		return -1;
	for (;;) {
		bool have = inbox_take(&inbox, buf, n);
		if (owed && (have || owed >= give_back) && return_credit()) {
			if (have)
				free(*buf);
			return -1;
		}
		if (have)
			return 0;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = until - now_ms();
		int got = poll(&p, 1, timeout < 0 ? -1 : left > 0 ? (int)left : 0);
		if (!got)
			return ib_fail("the front end has sent nothing for %d ms", timeout);
		if (got > 0 && read_frame() < 0)
			return -1;
	}
}
