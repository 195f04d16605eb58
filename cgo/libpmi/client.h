/* What the parts of this library share. Nothing of it is seen outside. */
#pragma once
#define _GNU_SOURCE
#include "pmi.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))
#define LIKE_PRINTF(text, first) __attribute__((format(printf, text, first)))

enum {
	want_value = 16384,	/* what we ask of ibrun, in bytes without the NUL */
	stock_value = 1024,	/* what other launchers offer, */
	short_line = 1023,	/* and what a line of theirs may have, with its end */
	name_room = 1024,	/* of a key-value space's name, with its NUL */
};

extern struct client {
	enum { fresh, joined, alone, over } state;	/* alone: no launcher */
	int fd, rank, size;
	int key_max, value_max;	/* without the NUL */
	char space[name_room];
} client;

/* is_open says whether calls other than PMI_Init make sense. */
static inline bool is_open(void)
{
	return client.state == joined || client.state == alone;
}

/* give hands out a number, and copy a text, whose buffer may be too short. */
int give(int *to, int value);
int copy(char *to, int length, const char *from, size_t n);

/* ask.c: say adds to what is sent next, unsay forgets it, send_said sends it. */
void say_list(const char *format, va_list args);
LIKE_PRINTF(1, 2) void say(const char *format, ...);
void unsay(void);
int send_said(void);

/* ask adds to what is sent, sends it, and takes the answer, which must be of the right name and say rc=0 unless it says
 * nothing. The line is good until the next answer. */
LIKE_PRINTF(3, 4) int ask(const char *reply, char **line, const char *format, ...);

/* field finds name=text in a line: what is text, and how long. whole reads a number there; false: it is missing, or none. */
char *field(char *line, const char *name, size_t *length);
bool whole(char *line, const char *name, int *to);

/* hang_up ends the talk with the launcher, and forget_pairs frees what a job of one rank has put. */
void hang_up(void);
void forget_pairs(void);
