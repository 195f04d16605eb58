#include "line.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t line_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int line_send(struct lines *l, struct text *t)
{
	int err = t->lost ? ib_fail("no memory for a request") : 0;
	for (size_t done = 0; !err && done < t->used;) {
		ssize_t n = send(l->fd, t->at + done, t->used - done, MSG_NOSIGNAL);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = ib_fail("the job is over: %s", strerror(errno));
	}
	free(t->at);
	*t = (struct text){0};
	return err;
}

/* cut takes a line that is complete. */
static bool cut(struct lines *l, struct json *line)
{
	char *end = l->used > l->seen ? memchr(l->at + l->seen, '\n', l->used - l->seen) : NULL;
	if (!end) {
		l->seen = l->used;
		return false;
	}
	*line = (struct json){l->at + l->taken, end};
	l->taken = l->seen = (size_t)(end - l->at) + 1;
	return true;
}

int line_read(struct lines *l)
{
	if (l->taken) {
		memmove(l->at, l->at + l->taken, l->used - l->taken);
		l->used -= l->taken;
		l->seen -= l->taken;
		l->taken = 0;
	}
	if (l->used == l->room) {
		size_t room = 2 * l->room + 65536;
		char *at = room > message_most ? NULL : realloc(l->at, room);
		if (!at)
			return ib_fail("no memory for an answer of more than %zu bytes", l->used);
		l->at = at;
		l->room = room;
	}
	ssize_t n = recv(l->fd, l->at + l->used, l->room - l->used, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		l->over = true;
		return ib_fail("the job is over");
	}
	l->used += (size_t)n;
	return 0;
}

int line_next(struct lines *l, struct json *line, int timeout)
{
	int64_t until = line_now() + timeout;
	while (!cut(l, line)) {
		struct pollfd p = {.fd = l->fd, .events = POLLIN};
		int64_t left = until - line_now();
		int got = poll(&p, 1, timeout < 0 ? -1 : left > 0 ? (int)left : 0);
		if (!got)
			return ib_fail("no answer within %d ms", timeout);
		if (got > 0 && line_read(l))
			return -1;
	}
	return 0;
}

bool line_have(struct lines *l, struct json *line)
{
	return cut(l, line);
}

void line_close(struct lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->at);
	*l = (struct lines){.fd = -1};
}
