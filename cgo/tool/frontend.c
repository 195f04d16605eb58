/* The front end: the verbs of the control socket (docs/control.md, "Tools"). */
#include "line.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct ib_tool {
	struct lines control;
	char *id;
	pid_t child; /* 0: it was not launched by us */
	struct ib_session *sessions;
	struct ib_process *table;
	unsigned count;
};

struct ib_session {
	struct ib_session *next;
	ib_tool *tool;
	struct lines lines;
	long id;
	char **hosts;
	unsigned size;
	struct inbox inbox;
	bool ended;
	int code;
};

static int end_and_send(struct lines *l, struct text *t)
{
	text_put(t, "}\n");
	return line_send(l, t);
}

/* refused reports whether a line is an error, and says which. */
static bool refused(struct json line)
{
	struct json v;
	if (!json_get(line, "error", &v))
		return false;
	char *why = json_string(v);
	ib_fail("%s", why ? why : "the job refuses it");
	free(why);
	return true;
}

/* request asks the job, and gives each line of the answer to take. */
static int request(ib_tool *t, struct text *text, int (*take)(ib_tool *, struct json))
{
	struct json line;
	if (end_and_send(&t->control, text))
		return -1;
	for (;;) {
		if (line_next(&t->control, &line, -1) || refused(line) || (take && take(t, line)))
			return -1;
		if (json_true(line, "done"))
			return 0;
	}
}

static int simple(ib_tool *t, const char *verb)
{
	struct text text = {0};
	request_verb(&text, verb);
	return request(t, &text, NULL);
}

static int take_id(ib_tool *t, struct json line)
{
	struct json job, id;
	if (json_get(line, "job", &job) && json_get(job, "id", &id)) {
		free(t->id);
		t->id = json_string(id);
	}
	return 0;
}

static int learn_id(ib_tool *t)
{
	struct text text = {0};
	request_verb(&text, "job");
	if (request(t, &text, take_id))
		return -1;
	return t->id ? 0 : ib_fail("the job does not say who it is");
}

static ib_tool *new_tool(int fd)
{
	ib_tool *t = calloc(1, sizeof *t);
	if (t)
		t->control.fd = fd;
	else
		ib_fail("no memory for a job");
	return t;
}

API int ib_open(ib_tool **to, const char *job)
{
	int fd = folder_find(job);
	if (fd < 0)
		return -1;
	ib_tool *t = new_tool(fd);
	if (!t || learn_id(t)) {
		if (t)
			ib_close(t);
		return -1;
	}
	*to = t;
	return 0;
}

/* variables is the environment with some more; the list is the caller's, what is in it not. */
static char **variables(char *fd, char *ends)
{
	size_t n = 0, k = 0;
	while (environ[n])
		n++;
	char **env = calloc(n + 3, sizeof *env);
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], "IBRUN_TOOL=", 11) && strncmp(environ[i], "IBRUN_TOOL_ENDS=", 16))
			env[k++] = environ[i];
	if (env) {
		env[k++] = fd;
		env[k] = ends;
	}
	return env;
}

static int run(ib_tool *t, char *const argv[], int then, int theirs)
{
	char fd[32], ends[] = "IBRUN_TOOL_ENDS=1";
	const char *program = getenv("IBRUN");
	size_t n = 0;
	snprintf(fd, sizeof fd, "IBRUN_TOOL=%d", theirs);
	while (argv[n])
		n++;
	char **env = variables(fd, then == ib_then_end ? ends : NULL);
	char **args = calloc(n + 2, sizeof *args);
	posix_spawn_file_actions_t files;
	int err = env && args ? posix_spawn_file_actions_init(&files) : ENOMEM;
	if (!err) {
		args[0] = (char *)"ibrun";
		memcpy(args + 1, argv, n * sizeof *args);
		err = posix_spawn_file_actions_adddup2(&files, theirs, theirs); /* it stays open */
		if (!err)
			err = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
		if (!err)
			err = posix_spawnp(&t->child, program ? program : "ibrun", &files, NULL, args, env);
		posix_spawn_file_actions_destroy(&files);
	}
	free(env);
	free(args);
	if (err)
		t->child = 0;
	return err ? ib_fail("cannot start %s: %s", program ? program : "ibrun", strerror(err)) : 0;
}

API int ib_launch(ib_tool **to, char *const argv[], int then)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return ib_fail("no socket for ibrun: %s", strerror(errno));
	ib_tool *t = new_tool(ends[0]);
	int err = t ? run(t, argv, then, ends[1]) : -1;
	close(ends[1]);
	if (!t) {
		close(ends[0]);
		return -1;
	}
	if (err || simple(t, "ready") || learn_id(t)) {
		bool over = t->control.over;
		ib_close(t);
		return over ? ib_fail("the job was not started: ibrun has said why") : -1;
	}
	*to = t;
	return 0;
}

static int begun(ib_session *s, struct json session)
{
	struct json v, on, one;
	if (!json_get(session, "id", &v) || !json_get(session, "on", &on))
		return ib_fail("the job says nothing of the session");
	s->id = json_number(v, 0);
	while (json_next(&on, &one)) {
		struct json name, count;
		if (!json_get(one, "host", &name) || !json_get(one, "count", &count))
			continue;
		for (long k = json_number(count, 0); k > 0; k--) {
			char **more = realloc(s->hosts, (s->size + 1) * sizeof *more);
			if (!more)
				return ib_fail("no memory for the list of hosts");
			s->hosts = more;
			if (!(s->hosts[s->size] = json_string(name)))
				return ib_fail("no memory for the list of hosts");
			s->size++;
		}
	}
	return 0;
}

/* print writes what a member has written. */
static void print(struct json output)
{
	struct json v;
	size_t n;
	int to = json_get(output, "stream", &v) && json_number(v, 1) == 2 ? STDERR_FILENO : STDOUT_FILENO;
	uint8_t *bytes = json_get(output, "data", &v) ? json_bytes(v, &n) : NULL;
	for (size_t done = 0; bytes && done < n;) {
		ssize_t got = write(to, bytes + done, n - done);
		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR && errno != EAGAIN)
			break;
	}
	free(bytes);
}

/* take does what a line of a session says. */
static int take(ib_session *s, struct json line)
{
	struct json v, data;
	if (refused(line)) {
		s->ended = true;
		return -1;
	}
	if (json_get(line, "session", &v))
		return begun(s, v);
	if (json_get(line, "output", &v))
		print(v);
	if (json_get(line, "message", &v)) {
		size_t n = 0;
		uint8_t *bytes = json_get(v, "data", &data) ? json_bytes(data, &n) : NULL;
		int err = inbox_add(&s->inbox, bytes, bytes ? n : 0, json_true(v, "last"));
		free(bytes);
		return err;
	}
	if (json_get(line, "ends", &v)) {
		s->ended = true;
		s->code = json_get(v, "code", &data) ? (int)json_number(data, 125) : 125;
	}
	return 0;
}

/* pump takes one line of a session; timeout as in poll(2). */
static int pump(ib_session *s, int timeout)
{
	struct json line;
	if (line_next(&s->lines, &line, timeout)) {
		s->ended = s->ended || s->lines.over;
		return -1;
	}
	return take(s, line);
}

static void drop(ib_session *s)
{
	line_close(&s->lines);
	inbox_free(&s->inbox);
	for (unsigned i = 0; i < s->size; i++)
		free(s->hosts[i]);
	free(s->hosts);
	free(s);
}

static int spawn(ib_tool *t, ib_session **to, const struct ib_on *on, unsigned n, char *const argv[], char *const env[],
		 bool per_rank)
{
	struct text text = {0};
	if (!argv || !argv[0])
		return ib_fail("ib_spawn without a command");
	ib_session *s = calloc(1, sizeof *s);
	if (!s)
		return ib_fail("no memory for a session");
	s->tool = t;
	if ((s->lines.fd = folder_dial(t->id)) < 0) {
		drop(s);
		return -1;
	}
	request_verb(&text, "session");
	request_list(&text, "command", argv);
	if (env && env[0])
		request_list(&text, "env", env);
	if (per_rank)
		text_put(&text, ",\"per_rank\":true");
	if (n) {
		request_field(&text, "on");
		for (unsigned i = 0; i < n; i++) {
			text_put(&text, i ? ",{\"host\":" : "[{\"host\":");
			text_string(&text, on[i].host);
			request_number(&text, "count", (long)on[i].members);
			text_put(&text, "}");
		}
		text_put(&text, "]");
	}
	int err = end_and_send(&s->lines, &text);
	while (!err && !s->hosts)
		err = pump(s, -1);
	if (err) {
		drop(s);
		return -1;
	}
	s->next = t->sessions;
	t->sessions = s;
	*to = s;
	return 0;
}

API int ib_spawn(ib_tool *t, ib_session **to, const struct ib_on *on, unsigned n, char *const argv[], char *const env[])
{
	return spawn(t, to, on, n, argv, env, false);
}

API int ib_spawn_per_rank(ib_tool *t, ib_session **to, const struct ib_on *on, unsigned n, char *const argv[],
			  char *const env[])
{
	return spawn(t, to, on, n, argv, env, true);
}

API int ib_hosts(ib_session *s, char ***list, unsigned *n)
{
	*list = s->hosts;
	*n = s->size;
	return 0;
}

static void free_table(ib_tool *t)
{
	for (unsigned i = 0; i < t->count; i++) {
		free((char *)t->table[i].host);
		free((char *)t->table[i].program);
	}
	free(t->table);
	t->table = NULL;
	t->count = 0;
}

static int take_processes(ib_tool *t, struct json line)
{
	struct json list, one, v;
	if (!json_get(line, "processes", &list))
		return 0;
	while (json_next(&list, &one)) {
		struct ib_process *more = realloc(t->table, (t->count + 1) * sizeof *more);
		if (!more)
			return ib_fail("no memory for the table of processes");
		t->table = more;
		struct ib_process *p = &more[t->count++];
		*p = (struct ib_process){0};
		p->host = json_get(one, "host", &v) ? json_string(v) : NULL;
		p->program = json_get(one, "program", &v) ? json_string(v) : NULL;
		p->rank = json_get(one, "rank", &v) ? (int)json_number(v, -1) : -1;
		p->local_rank = json_get(one, "local", &v) ? (int)json_number(v, -1) : -1;
		p->pid = json_get(one, "pid", &v) ? (int)json_number(v, 0) : 0;
		if (!p->host || !p->program)
			return ib_fail("no memory for the table of processes");
	}
	return 0;
}

API int ib_proctable(ib_tool *t, const struct ib_process **table, unsigned *n)
{
	struct text text = {0};
	free_table(t);
	request_verb(&text, "processes");
	if (request(t, &text, take_processes))
		return -1;
	*table = t->table;
	*n = t->count;
	return 0;
}

/* await waits for the answer to a piece. Meanwhile it takes what the session sends: member 0 may wait for that. */
static int await(ib_session *s)
{
	struct lines *c = &s->tool->control;
	struct json line;
	for (;;) {
		if (line_have(c, &line))
			return refused(line) ? -1 : 0;
		struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = s->ended ? -1 : s->lines.fd, .events = POLLIN}};
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return ib_fail("poll: %s", strerror(errno));
		if (p[0].revents && line_read(c))
			return -1;
		if (p[1].revents && line_read(&s->lines))
			s->ended = true;
		while (!s->ended && line_have(&s->lines, &line))
			if (take(s, line))
				return -1;
	}
}

API int ib_send(ib_session *s, const void *buf, size_t n)
{
	const uint8_t *at = buf;
	if (!s)
		return member_send(buf, n);
	do {
		struct text text = {0};
		size_t piece = n < piece_most ? n : piece_most;
		request_verb(&text, "send");
		request_number(&text, "session", s->id);
		request_field(&text, "data");
		text_base64(&text, at, piece);
		if (piece == n)
			text_put(&text, ",\"last\":true");
		if (end_and_send(&s->tool->control, &text) || await(s))
			return -1;
		at += piece;
		n -= piece;
	} while (n);
	return 0;
}

API int ib_recv(ib_session *s, void **buf, size_t *n, int timeout)
{
	int64_t until = line_now() + timeout;
	if (!s)
		return member_recv(buf, n, timeout);
	while (!inbox_take(&s->inbox, buf, n)) {
		int64_t left = until - line_now();
		if (s->ended)
			return ib_fail("the members have ended, the largest exit code is %d", s->code);
		if (pump(s, timeout < 0 ? -1 : left > 0 ? (int)left : 0))
			return -1;
	}
	return 0;
}

API int ib_wait(ib_session *s, int *code)
{
	while (!s->ended)
		if (pump(s, -1))
			return -1;
	if (code)
		*code = s->code;
	return 0;
}

API int ib_release(ib_tool *t)
{
	return simple(t, "release");
}

API int ib_kill(ib_tool *t, int sig)
{
	struct text text = {0};
	request_verb(&text, "signal");
	request_number(&text, "signal", sig);
	return request(t, &text, NULL);
}

API int ib_end(ib_tool *t)
{
	return simple(t, "end");
}

API int ib_detach(ib_tool *t)
{
	int err = 0;
	for (ib_session *s = t->sessions; s; s = s->next) {
		struct text text = {0};
		if (s->ended)
			continue;
		request_verb(&text, "keep");
		request_number(&text, "session", s->id);
		if (request(t, &text, NULL))
			err = t->control.over ? -1 : err; /* its members may have ended just now */
	}
	ib_close(t);
	return err;
}

API void ib_close(ib_tool *t)
{
	while (t->sessions) {
		ib_session *s = t->sessions;
		t->sessions = s->next;
		drop(s);
	}
	line_close(&t->control);
	if (t->child)
		waitpid(t->child, NULL, WNOHANG);
	free_table(t);
	free(t->id);
	free(t);
}
