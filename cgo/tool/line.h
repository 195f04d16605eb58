/* Lines of JSON over a socket. */
#ifndef IBRUN_TOOL_LINE_H
#define IBRUN_TOOL_LINE_H

#include "tool.h"

/* A connection: what has come and is not taken yet lies from taken to used. A line is good until the next call. */
struct lines {
	int fd;
	bool over;
	char *at;
	size_t taken, seen, used, room;
};

int64_t line_now(void); /* in milliseconds, from any moment on */

/* line_send sends a request and frees it. */
int line_send(struct lines *l, struct text *t);

/* line_next waits for a line; timeout as in poll(2). */
int line_next(struct lines *l, struct json *line, int timeout);

/* line_have takes a line that has come already. */
bool line_have(struct lines *l, struct json *line);

/* line_read takes in what has come; it does not wait. */
int line_read(struct lines *l);

void line_close(struct lines *l);

#endif
