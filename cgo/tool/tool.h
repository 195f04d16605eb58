/* What the parts of the library share. */
#ifndef IBRUN_TOOL_PARTS_H
#define IBRUN_TOOL_PARTS_H

#include "ibrun_tool.h"

#include <stdbool.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* ib_fail says why, and is -1. */
__attribute__((format(printf, 1, 2))) int ib_fail(const char *format, ...);

/* A message that comes in pieces. */
struct pieces {
	uint8_t *at;
	size_t used, room;
};

/* A list of messages that are complete, and one that is not. */
struct inbox {
	struct message {
		struct message *next;
		uint8_t *at;
		size_t n;
	} *first, **last;
	struct pieces now;
};

enum {
	piece_most = 32 << 10,	/* bytes of a piece */
	piece_head = 16,	/* credit that it costs besides */
	message_most = 1 << 30,
};

/* inbox_add takes a piece; last: it ends its message. */
int inbox_add(struct inbox *in, const void *at, size_t n, bool last);

/* inbox_take gives the oldest message, and reports whether there was one. */
bool inbox_take(struct inbox *in, void **buf, size_t *n);

void inbox_free(struct inbox *in);

/* What a member does for ib_send and ib_recv. */
int member_send(const void *buf, size_t n);
int member_recv(void **buf, size_t *n, int timeout);

/* JSON (json.c): a value is a stretch of text. */
struct json {
	const char *at, *end;
};

bool json_get(struct json object, const char *name, struct json *value);
bool json_next(struct json *array, struct json *element);	/* array: what is left of it */
char *json_string(struct json value);				/* the caller's; NULL: it is none, or no memory */
long json_number(struct json value, long otherwise);
bool json_true(struct json object, const char *name);
uint8_t *json_bytes(struct json value, size_t *n);		/* of base64; the caller's */

/* Text in the making. */
struct text {
	char *at;
	size_t used, room;
	bool lost;
};

void text_put(struct text *t, const char *s);
void text_string(struct text *t, const char *s);		/* in quotes */
void text_base64(struct text *t, const uint8_t *at, size_t n);

/* A request (request.c) begins with its verb, and fields follow; list ends with NULL. */
void request_verb(struct text *t, const char *verb);
void request_field(struct text *t, const char *name);
void request_number(struct text *t, const char *name, long n);
void request_list(struct text *t, const char *name, char *const list[]);

#endif
