#include "tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char reason[1200] = "nothing failed";

int ib_fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(reason, sizeof reason, format, args);
	va_end(args);
	return -1;
}

API const char *ib_error(void)
{
	return reason;
}

int inbox_add(struct inbox *in, const void *at, size_t n, bool last)
{
	struct pieces *p = &in->now;
	if (n > message_most - p->used)
		return ib_fail("a message of more than %d bytes", message_most);
	if (p->used + n > p->room || !p->at) {
		size_t room = 2 * (p->used + n) + 64;
		uint8_t *more = realloc(p->at, room);
		if (!more)
			return ib_fail("no memory for a message of %zu bytes", p->used + n);
		p->at = more;
		p->room = room;
	}
	if (n)
		memcpy(p->at + p->used, at, n);
	p->used += n;
	if (!last)
		return 0;
	struct message *m = malloc(sizeof *m);
	if (!m)
		return ib_fail("no memory for a message");
	*m = (struct message){NULL, p->at, p->used};
	*p = (struct pieces){0};
	if (!in->first)
		in->last = &in->first;
	*in->last = m;
	in->last = &m->next;
	return 0;
}

bool inbox_take(struct inbox *in, void **buf, size_t *n)
{
	struct message *m = in->first;
	if (!m)
		return false;
	*buf = m->at;
	*n = m->n;
	in->first = m->next;
	free(m);
	return true;
}

void inbox_free(struct inbox *in)
{
	void *buf;
	size_t n;
	while (inbox_take(in, &buf, &n))
		free(buf);
	free(in->now.at);
	in->now = (struct pieces){0};
}
