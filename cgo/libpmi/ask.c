/* Lines to the launcher and back. Answers are not trusted: what is not the answer is PMI_FAIL. */
#include "client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	most_line = 1 << 20,	/* bytes of an answer: a longer one is no launcher's */
	first_pause = 10000,	/* ns to wait for an answer before progress is made; each is an eighth longer, up to */
	last_pause = 10000000,	/* this after 0.1 s: peers wait no longer, and an idle wait takes under 1 % of a CPU */
	most_nested = 32,	/* calls within progress within calls: the innermost makes none, which bounds the stack */
};

/* Open MPI's, bound when this library is loaded; NULL in a program without it. A weak reference works on each glibc,
 * where dlsym would tie the library to the one that it was built with. */
extern void opal_progress(void) __attribute__((weak));
extern int MPI_Initialized(int *flag) __attribute__((weak));

/* A string that grows. Memory that was not to be had is remembered until somebody looks. */
struct text {
	char *at;	/* NULL, or ends with a NUL */
	size_t used, room;
	bool lost;
};

static struct text said, received;

/* Calls that wait for the answer to their line, the outermost first. Progress may call this library again while one waits,
 * so that they nest. ibrun answers in the order of the questions; other launchers need not. */
static struct call {
	const char *reply;	/* cmd= of its answer */
	bool answered;
	struct text answer;	/* with its NUL; the memory is the next call's, too */
} calls[most_nested];
static int depth;		/* how many wait */

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

/* answers reports whether a line has the name that a call waits for. */
static bool answers(char *line, const char *reply)
{
	size_t length;
	char *name = field(line, "cmd", &length);
	return name && name == line + 4 && length == strlen(reply) && !memcmp(name, reply, length);
}

/* deliver takes the first line out of what was received, if it is complete, and gives it to the outermost call that waits
 * for one of its name. What answers nobody fails the innermost. */
static bool deliver(void)
{
	char *line = received.at, *end = received.used ? memchr(line, '\n', received.used) : NULL;
	struct call *to = calls;
	if (!end)
		return false;
	*end = 0;
	if (strlen(line) != (size_t)(end - line))
		*line = 0;	/* a NUL is no text, and no answer */
	while (to < &calls[depth - 1] && (to->answered || !answers(line, to->reply)))
		to++;
	to->answered = true;
	to->answer.used = 0;
	if (room(&to->answer, strlen(line)))
		strcpy(to->answer.at, line);
	received.used -= (size_t)(end + 1 - line);
	memmove(line, end + 1, received.used);
	return true;
}

/* receive adds what the launcher has sent, and waits for it. */
static int receive(void)
{
	if (received.used > most_line)
		return PMI_FAIL;
	if (!room(&received, 4096)) {
		received.lost = false;
		return PMI_ERR_NOMEM;
	}
	ssize_t n = read(client.fd, received.at + received.used, 4096);
	if (n > 0)
		received.used += (size_t)n;
	return n > 0 || (n < 0 && errno == EINTR) ? PMI_SUCCESS : PMI_FAIL;
}

/* quiet waits for so many nanoseconds, and reports whether the launcher has sent nothing. */
static bool quiet(long pause)
{
	struct pollfd from = {.fd = client.fd, .events = POLLIN};
	int n = ppoll(&from, 1, &(struct timespec){.tv_nsec = pause}, NULL);
	return n == 0 || (n < 0 && errno == EINTR);
}

/* needed reports whether peers may need messages that only this rank can take or send before they come to the barrier
 * in which it waits, as those do that are in MPI_Finalize. Before MPI_Init is over there is no such message, and Open
 * MPI closes connections of peers of which it does not know yet. Nor is there when it asks for a value: it may be in
 * the middle of making a connection. */
static bool needed(const struct call *c)
{
	int begun = 0;
	return opal_progress && MPI_Initialized && !strcmp(c->reply, "barrier_out") && !MPI_Initialized(&begun) && begun;
}

/* await waits for the innermost call's answer. It takes those of outer calls, too, and its own may come within progress. */
static int await(struct call *c)
{
	int err = PMI_SUCCESS;
	bool progress = depth < most_nested && needed(c);
	for (long pause = first_pause; !err && !c->answered;) {
		if (deliver())
			continue;
		if (progress && quiet(pause)) {
			opal_progress();
			pause = pause + pause / 8 < last_pause ? pause + pause / 8 : last_pause;
		} else {
			err = receive();
		}
	}
	return err;
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
	if (err)
		return err;
	struct call *c = &calls[depth++];
	c->reply = reply;
	c->answered = c->answer.lost = false;
	err = await(c);
	depth--;
	if (err || c->answer.lost)
		return err ? err : PMI_ERR_NOMEM;
	*line = c->answer.at;
	if (!answers(*line, reply) || (field(*line, "rc", &length) && (!whole(*line, "rc", &rc) || rc != 0)))
		return PMI_FAIL;
	return PMI_SUCCESS;
}

void hang_up(void)
{
	close(client.fd);
	client.fd = -1;
	free(said.at);
	free(received.at);
	said = received = (struct text){0};
	for (struct call *c = calls; c < calls + most_nested; c++) {
		free(c->answer.at);
		c->answer = (struct text){0};
	}
}
