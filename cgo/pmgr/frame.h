/* Payloads of frames (docs/dev/protocol.md): numbers (LEB128) and strings (a number, so many bytes). */
#ifndef PMGR_FRAME_H
#define PMGR_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { most_frame = 64 << 20 };	/* bytes of kind and payload */
enum { head = 5 };		/* bytes before a payload */

/* A frame in the making. Memory that was not to be had is remembered. */
struct frame {
	uint8_t *at;
	size_t used, room;
	bool lost;
};

/* What is left of a payload to read. After the first mistake everything is empty. */
struct view {
	const uint8_t *at;
	size_t left;
	bool bad;
};

/* What is put goes to the end of a frame. */
void pmgr_put(struct frame *f, const void *bytes, size_t n);
void pmgr_put_number(struct frame *f, uint64_t n);
void pmgr_put_string(struct frame *f, const void *bytes, size_t n);

/* What is taken comes from the front of a view: null or 0 if it is not there, or a number is above the most. */
const uint8_t *pmgr_take(struct view *v, uint64_t n);
uint64_t pmgr_take_number(struct view *v, uint64_t most);
uint32_t pmgr_take_u32(struct view *v);
const uint8_t *pmgr_take_string(struct view *v, size_t *n);

/* A pmgr_fail keeps why something has failed, and is -1. */
typedef int pmgr_fail(const char *format, ...);

/* A frame begins with its kind. It is sent, and freed, whole; n bytes are read from the agent. 0, or what fail returns. */
void pmgr_begin(struct frame *f, uint8_t kind);
int pmgr_deliver(int fd, struct frame *f, pmgr_fail *fail);
int pmgr_read(int fd, uint8_t *to, size_t n, pmgr_fail *fail);

#endif
