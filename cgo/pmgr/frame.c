#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void pmgr_put(struct frame *f, const void *bytes, size_t n)
{
	if (f->lost || n > most_frame || f->used > most_frame) {
		f->lost = true;
		return;
	}
	if (f->used + n > f->room) {
		size_t room = 2 * (f->used + n) + 64;
		uint8_t *at = realloc(f->at, room);
		if (!at) {
			f->lost = true;
			return;
		}
		f->at = at;
		f->room = room;
	}
	if (n)
		memcpy(f->at + f->used, bytes, n);
	f->used += n;
}

void pmgr_put_number(struct frame *f, uint64_t n)
{
	do {
		uint8_t b = (uint8_t)(n & 0x7f) | (n > 0x7f ? 0x80 : 0);
		pmgr_put(f, &b, 1);
	} while (n >>= 7);
}

void pmgr_put_string(struct frame *f, const void *bytes, size_t n)
{
	pmgr_put_number(f, n);
	pmgr_put(f, bytes, n);
}

const uint8_t *pmgr_take(struct view *v, uint64_t n)
{
	if (v->bad || n > v->left) {
		v->bad = true;
		v->left = 0;
		return NULL;
	}
	const uint8_t *at = v->at;
	v->at += n;
	v->left -= (size_t)n;
	return at;
}

uint64_t pmgr_take_number(struct view *v, uint64_t most)
{
	uint64_t n = 0;
	for (unsigned shift = 0; shift < 63; shift += 7) {
		const uint8_t *b = pmgr_take(v, 1);
		if (!b)
			return 0;
		n |= (uint64_t)(*b & 0x7f) << shift;
		if (*b & 0x80)
			continue;
		if (n <= most && (*b || !shift))
			return n;
		break;
	}
	v->bad = true;
	v->left = 0;
	return 0;
}

uint32_t pmgr_take_u32(struct view *v)
{
	return (uint32_t)pmgr_take_number(v, UINT32_MAX);
}

const uint8_t *pmgr_take_string(struct view *v, size_t *n)
{
	*n = (size_t)pmgr_take_number(v, most_frame);
	return pmgr_take(v, *n);
}

void pmgr_begin(struct frame *f, uint8_t kind)
{
	const uint8_t first[head] = {0, 0, 0, 0, kind};
	pmgr_put(f, first, head);
}

int pmgr_deliver(int fd, struct frame *f, pmgr_fail *fail)
{
	size_t length = f->used - 4;
	int err = 0;
	if (f->lost || length > most_frame)
		err = fail("no memory for a message of this size");
	else
		for (int i = 0; i < 4; i++)
			f->at[i] = (uint8_t)(length >> (24 - 8 * i));
	for (size_t done = 0; !err && done < f->used;) {
		ssize_t n = send(fd, f->at + done, f->used - done, MSG_NOSIGNAL);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = fail("the agent of this node is gone: %s", strerror(errno));
	}
	free(f->at);
	return err;
}

int pmgr_read(int fd, uint8_t *to, size_t n, pmgr_fail *fail)
{
	while (n) {
		ssize_t got = read(fd, to, n);
		if (got == 0)
			return fail("the agent of this node is gone");
		if (got < 0 && errno != EINTR)
			return fail("the agent of this node is gone: %s", strerror(errno));
		if (got > 0) {
			to += got;
			n -= (size_t)got;
		}
	}
	return 0;
}
