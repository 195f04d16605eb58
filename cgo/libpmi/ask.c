/* Lines to the launcher and back. Answers are not trusted: what is not the answer is PMI_FAIL. */
#include "client.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { most_line = 1 << 20 };	/* of an answer: a longer one is no launcher's */

/* A string that grows. Memory that was not to be had is remembered until somebody looks. */
struct text {
	char *at;	/* NULL, or ends with a NUL */
	size_t used, room;
	bool lost;
};

static struct text said, heard;
static size_t used_up;		/* bytes of heard that belong to the last answer */

/* room makes place for more bytes and a NUL. */
static bool room(struct text *t, size_t more)
{
	if (!t->lost && t->used + more < t->room)
		return true;
	size_t want = 2 * (t->used + more) + 1024;
	char *at = t->lost || more > INT_MAX ? NULL : realloc(t->at, want);
	if (!at) {
		t->lost = true;
		return false;
	}
	t->at = at;
	t->room = want;
	return true;
}

void say_list(const char *format, va_list args)
{
	struct text *t = &said;
	va_list again;
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0)
		t->lost = true;
	else if (room(t, (size_t)n))
		t->used += (size_t)vsnprintf(t->at + t->used, (size_t)n + 1, format, args);
}

void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say_list(format, args);
	va_end(args);
}

void unsay(void)
{
	said.used = 0;
	said.lost = false;
}

int send_said(void)
{
	int err = said.lost ? PMI_ERR_NOMEM : PMI_SUCCESS;
	for (size_t done = 0; !err && done < said.used;) {
		ssize_t n = send(client.fd, said.at + done, said.used - done, MSG_NOSIGNAL);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = PMI_FAIL;
	}
	unsay();
	return err;
}

/* hear reads the next line; it is good until the next call. */
static int hear(char **line)
{
	if (used_up)
		memmove(heard.at, heard.at + used_up, heard.used -= used_up);
	used_up = 0;
	for (size_t searched = 0;;) {
		char *end = heard.used > searched ? memchr(heard.at + searched, '\n', heard.used - searched) : NULL;
		if (end) {
			*end = 0;
			*line = heard.at;
			used_up = (size_t)(end - heard.at) + 1;
			return strlen(heard.at) + 1 == used_up ? PMI_SUCCESS : PMI_FAIL;	/* a NUL is no text */
		}
		searched = heard.used;
		if (heard.used > most_line)
			return PMI_FAIL;
		if (!room(&heard, 4096)) {
			heard.lost = false;
			return PMI_ERR_NOMEM;
		}
		ssize_t n = read(client.fd, heard.at + heard.used, 4096);
		if (n > 0)
			heard.used += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return PMI_FAIL;
	}
}

/* The field value= runs to the end, others to a space. */
char *field(char *line, const char *name, size_t *length)
{
	size_t n = strlen(name);
	*length = 0;
	while (*line) {
		char *end = strncmp(line, "value=", 6) ? strchrnul(line, ' ') : line + strlen(line);
		if (!strncmp(line, name, n) && line[n] == '=') {
			*length = (size_t)(end - line) - n - 1;
			return line + n + 1;
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

bool whole(char *line, const char *name, int *to)
{
	size_t length;
	char *end, *text = field(line, name, &length);
	if (!text || !length)
		return false;
	errno = 0;
	long n = strtol(text, &end, 10);
	if (errno || end != text + length || n < INT_MIN || n > INT_MAX)
		return false;
	*to = (int)n;
	return true;
}

int ask(const char *reply, char **line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say_list(format, args);
	va_end(args);
	int rc = 0, err = send_said();
	size_t length;
	if (!err)
		err = hear(line);
	if (err)
		return err;
	char *name = field(*line, "cmd", &length);
	if (!name || name != *line + 4 || length != strlen(reply) || memcmp(name, reply, length))
		return PMI_FAIL;
	if (field(*line, "rc", &length) && (!whole(*line, "rc", &rc) || rc != 0))
		return PMI_FAIL;
	return PMI_SUCCESS;
}

void hang_up(void)
{
	close(client.fd);
	free(said.at);
	free(heard.at);
	said = heard = (struct text){0};
	used_up = 0;
}
