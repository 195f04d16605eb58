/* The client's side of PMI-1: one line asked over the descriptor that the launcher left in PMI_FD, one line answered.
 * The grammar is in pmi/grammar.go and docs/protocol.md. Under another launcher this is a client like any other; to
 * ibrun it says that its lines may be long, and gets values of 16 KiB.
 *
 * The library keeps a line asked, what came of answers, and the job's name; it starts no thread, catches no signal and
 * prints nothing but what PMI_Abort was given. Answers are not trusted: what is not the answer is PMI_FAIL. */
#define _GNU_SOURCE
#include "pmi.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define LIKE_PRINTF(text, first) __attribute__((format(printf, text, first)))

enum {
	want_value = 16384,	/* what we ask of ibrun, in bytes without the NUL */
	stock_value = 1024,	/* what other launchers offer, */
	short_line = 1023,	/* and what a line of theirs may have, with its end */
	most_line = 1 << 20,	/* of an answer: a longer one is no launcher's */
	most_ranks = 1 << 24,	/* of one node */
	name_room = 1024,	/* of a key-value space's name, with its NUL */
	port_room = 1024,	/* of what PMI_Lookup_name fills */
};

/* A string that grows. Memory that was not to be had is remembered until somebody looks. */
struct text {
	char *at;	/* NULL, or ends with a NUL */
	size_t used, room;
	bool lost;
};

/* A job of one rank keeps what it puts: of each key, the last. */
struct pair {
	struct pair *next;
	char *key, *value;
};

static enum { fresh, joined, alone, over } state;
static int fd = -1, my_rank, job_size = 1;
static int key_max, value_max;	/* without the NUL */
static char space[name_room];
static struct text asked, heard;
static size_t used_up;		/* bytes of heard that belong to the last answer */
static struct pair *own;

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

static void add_list(struct text *t, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0)
		t->lost = true;
	else if (room(t, (size_t)n))
		t->used += (size_t)vsnprintf(t->at + t->used, (size_t)n + 1, format, args);
}

LIKE_PRINTF(2, 3) static void add(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	add_list(t, format, args);
	va_end(args);
}

/* send_asked sends what was put together, and forgets it. */
static int send_asked(void)
{
	int err = asked.lost ? PMI_ERR_NOMEM : PMI_SUCCESS;
	for (size_t done = 0; !err && done < asked.used;) {
		ssize_t n = send(fd, asked.at + done, asked.used - done, MSG_NOSIGNAL);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			err = PMI_FAIL;
	}
	asked.used = 0;
	asked.lost = false;
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
		ssize_t n = read(fd, heard.at + heard.used, 4096);
		if (n > 0)
			heard.used += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return PMI_FAIL;
	}
}

/* field finds name=text in a line: what is text, and how long. The field value= runs to the end, others to a space. */
static char *field(char *line, const char *name, size_t *length)
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

/* whole reads a number that a line's field holds; false: it is missing, or something else. */
static bool whole(char *line, const char *name, int *to)
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

/* ask sends a request and takes the answer, which must be of the right name and say rc=0 unless it says nothing. */
LIKE_PRINTF(3, 4) static int ask(const char *reply, char **line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	add_list(&asked, format, args);
	va_end(args);
	int rc = 0, err = send_asked();
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

/* copy gives a caller a text; its buffer may be too short. */
static int copy(char *to, int length, const char *from, size_t n)
{
	if (!to)
		return PMI_ERR_INVALID_ARG;
	if (length <= 0 || n >= (size_t)length)
		return PMI_ERR_INVALID_LENGTH;
	memcpy(to, from, n);
	to[n] = 0;
	return PMI_SUCCESS;
}

static int give(int *to, int value)
{
	if (!to)
		return PMI_ERR_INVALID_ARG;
	if (state != joined && state != alone)
		return PMI_ERR_INIT;
	*to = value;
	return PMI_SUCCESS;
}

/* begin greets the launcher and learns the sizes and the name. */
static int begin(void)
{
	char *line, *name;
	size_t length;
	int err = ask("response_to_init", &line, "cmd=init pmi_version=1 pmi_subversion=1 ibrun_values=%d\n", want_value);
	if (!err)
		err = ask("maxes", &line, "cmd=get_maxes\n");
	if (!err && (!whole(line, "keylen_max", &key_max) || !whole(line, "vallen_max", &value_max) || key_max < 1 || key_max > stock_value || value_max < 1))
		err = PMI_FAIL;
	if (!err)
		err = ask("my_kvsname", &line, "cmd=get_my_kvsname\n");
	if (err)
		return err;
	name = field(line, "kvsname", &length);
	if (!name || copy(space, sizeof space, name, length))
		return PMI_FAIL;
	if (value_max <= stock_value) {	/* a launcher that reads and writes short lines: a value must leave room for the rest */
		int rest = short_line - (int)(sizeof "cmd=put kvsname= key= value=" + length) - key_max;
		if (rest < 2)
			return PMI_FAIL;
		value_max = value_max < rest ? value_max : rest & ~1;	/* even, for those who put pairs of digits */
	}
	return PMI_SUCCESS;
}

/* variable reads a number of the environment, from least on. */
static bool variable(const char *name, int least, int *to)
{
	const char *text = getenv(name);
	char *end;
	if (!text || !*text)
		return false;
	errno = 0;
	long n = strtol(text, &end, 10);
	if (errno || *end || n < least || n > INT_MAX)
		return false;
	*to = (int)n;
	return true;
}

API int PMI_Init(int *spawned)
{
	if (state == over)
		return PMI_ERR_INIT;
	if (spawned)
		*spawned = PMI_FALSE;
	if (state != fresh)
		return PMI_SUCCESS;
	if (!getenv("PMI_FD")) {
		key_max = 63;
		value_max = want_value;
		strcpy(space, "alone");
		state = alone;
		return PMI_SUCCESS;
	}
	if (!variable("PMI_FD", 0, &fd) || !variable("PMI_RANK", 0, &my_rank) || !variable("PMI_SIZE", 1, &job_size) || my_rank >= job_size)
		return PMI_ERR_INVALID_ARG;
	/* A program that this one starts must not speak in its place. */
	if (fcntl(fd, F_SETFD, FD_CLOEXEC))
		return PMI_FAIL;
	unsetenv("PMI_FD");
	int err = begin();
	state = err ? over : joined;
	return err;
}

API int PMI_Initialized(PMI_BOOL *initialized)
{
	if (!initialized)
		return PMI_ERR_INVALID_ARG;
	*initialized = state == joined || state == alone ? PMI_TRUE : PMI_FALSE;
	return PMI_SUCCESS;
}

API int PMI_Finalize(void)
{
	char *line;
	if (state != joined && state != alone)
		return PMI_ERR_INIT;
	int err = state == joined ? ask("finalize_ack", &line, "cmd=finalize\n") : PMI_SUCCESS;
	if (state == joined)
		close(fd);
	for (struct pair *p; (p = own); free(p)) {
		own = p->next;
		free(p->key);
		free(p->value);
	}
	free(asked.at);
	free(heard.at);
	asked = heard = (struct text){0};
	used_up = 0;
	state = over;
	return err;
}

API int PMI_Get_size(int *size)
{
	return give(size, job_size);
}

API int PMI_Get_rank(int *rank)
{
	return give(rank, my_rank);
}

/* number asks for one. */
static int number(int *to, int if_alone, const char *question, const char *reply, const char *name)
{
	char *line;
	int value, err = give(to, if_alone);
	if (err || state == alone)
		return err;
	err = ask(reply, &line, "cmd=%s\n", question);
	if (err)
		return err;
	return whole(line, name, &value) ? give(to, value) : PMI_FAIL;
}

API int PMI_Get_universe_size(int *size)
{
	return number(size, 1, "get_universe_size", "universe_size", "size");
}

API int PMI_Get_appnum(int *appnum)
{
	return number(appnum, 0, "get_appnum", "appnum", "appnum");
}

API int PMI_Barrier(void)
{
	char *line;
	if (state == joined)
		return ask("barrier_out", &line, "cmd=barrier_in\n");
	return state == alone ? PMI_SUCCESS : PMI_ERR_INIT;
}

API int PMI_Abort(int exit_code, const char error_msg[])
{
	if (error_msg && *error_msg && strcmp(error_msg, "N/A"))	/* Open MPI's word for none */
		fprintf(stderr, "%s\n", error_msg);
	if (state == joined) {
		add(&asked, "cmd=abort exitcode=%d\n", exit_code);
		send_asked();
	}
	exit(exit_code);
}

API int PMI_KVS_Get_name_length_max(int *length)
{
	return give(length, name_room);
}

API int PMI_KVS_Get_key_length_max(int *length)
{
	return give(length, key_max + 1);
}

API int PMI_KVS_Get_value_length_max(int *length)
{
	return give(length, value_max + 1);
}

API int PMI_Get_id_length_max(int *length)
{
	return give(length, name_room);
}

API int PMI_KVS_Get_my_name(char kvsname[], int length)
{
	return state == joined || state == alone ? copy(kvsname, length, space, strlen(space)) : PMI_ERR_INIT;
}

API int PMI_Get_id(char id[], int length)
{
	return PMI_KVS_Get_my_name(id, length);
}

API int PMI_Get_kvs_domain_id(char id[], int length)
{
	return PMI_KVS_Get_my_name(id, length);
}

API int PMI_KVS_Create(char kvsname[], int length)
{
	(void)kvsname;
	(void)length;
	return PMI_FAIL;
}

API int PMI_KVS_Destroy(const char kvsname[])
{
	(void)kvsname;
	return PMI_FAIL;
}

/* pair_wrong says what is wrong with a space and a key, and with a value unless it is NULL. */
static int pair_wrong(const char *kvsname, const char *key, const char *value)
{
	if (state != joined && state != alone)
		return PMI_ERR_INIT;
	if (!kvsname || strcmp(kvsname, space))
		return PMI_ERR_INVALID_ARG;
	if (!key || !*key || strpbrk(key, " =\t\r\n"))
		return PMI_ERR_INVALID_KEY;
	if (strlen(key) > (size_t)key_max)
		return PMI_ERR_INVALID_KEY_LENGTH;
	if (value && strchr(value, '\n'))
		return PMI_ERR_INVALID_VAL;
	if (value && strlen(value) > (size_t)value_max)
		return PMI_ERR_INVALID_VAL_LENGTH;
	return PMI_SUCCESS;
}

/* find looks among what a job of one has put. */
static struct pair *find(const char *key)
{
	struct pair *p = own;
	while (p && strcmp(p->key, key))
		p = p->next;
	return p;
}

static int keep(const char *key, const char *value)
{
	struct pair *p = find(key);
	char *text = strdup(value);
	if (text && p) {
		free(p->value);
		p->value = text;
		return PMI_SUCCESS;
	}
	p = malloc(sizeof *p);
	if (p)
		*p = (struct pair){own, strdup(key), text};
	if (!p || !p->key || !text) {
		if (p)
			free(p->key);
		free(p);
		free(text);
		return PMI_ERR_NOMEM;
	}
	own = p;
	return PMI_SUCCESS;
}

API int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
	char *line;
	int err = value ? pair_wrong(kvsname, key, value) : PMI_ERR_INVALID_VAL;
	if (err)
		return err;
	return state == alone ? keep(key, value) : ask("put_result", &line, "cmd=put kvsname=%s key=%s value=%s\n", space, key, value);
}

API int PMI_KVS_Commit(const char kvsname[])
{
	return pair_wrong(kvsname, "any", NULL);	/* the launcher has it already */
}

API int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
	char *line, *found;
	size_t n;
	int err = pair_wrong(kvsname, key, NULL);
	if (err)
		return err;
	if (state == alone) {
		struct pair *p = find(key);
		return p ? copy(value, length, p->value, strlen(p->value)) : PMI_FAIL;
	}
	err = ask("get_result", &line, "cmd=get kvsname=%s key=%s\n", space, key);
	if (err)
		return err;
	found = field(line, "value", &n);
	return found ? copy(value, length, found, n) : PMI_FAIL;
}

/* Reads one block (first node, nodes, ranks of each) of a mapping; false: there is none more, or it is no such thing. */
static bool block(const char **text, long long part[3])
{
	const char *at = *text;
	for (int i = 0; i < 3; i++) {
		char *end;
		if (*at != ',' || (i == 0 && *++at != '(') || at[1] < '0' || at[1] > '9')
			return false;
		errno = 0;
		part[i] = strtoll(at + 1, &end, 10);
		if (errno || part[i] > INT_MAX)
			return false;
		at = end;
	}
	*text = at + 1;
	return *at == ')' && part[1] > 0 && part[2] > 0;
}

/* clique walks through the mapping, which begins again when it ends before the ranks do: first with node < 0 for this
 * rank's node, then for the ranks of that one. It returns their number, or -1. */
static long long clique(const char *mapping, long long node, long long *mine, int *to, long long most)
{
	static const char head[] = "(vector";
	long long found = 0, rank = 0;
	if (strncmp(mapping, head, sizeof head - 1))
		return -1;
	while (rank < job_size) {
		const char *at = mapping + sizeof head - 1;
		long long part[3];
		if (!block(&at, part))
			return -1;
		do {
			for (long long n = part[0]; n < part[0] + part[1] && rank < job_size; n++) {
				if (rank <= my_rank && my_rank < rank + part[2])
					*mine = n;
				for (long long i = 0; i < part[2] && rank < job_size; i++, rank++) {
					if (n != node)
						continue;
					if (found < most)
						to[found] = (int)rank;
					found++;
				}
			}
		} while (block(&at, part));
		if (strcmp(at, ")"))
			return -1;
	}
	return found;
}

/* neighbours finds the ranks of this node, and stores the first of them. */
static int neighbours(int *to, long long most, long long *found)
{
	static char mapping[want_value + 1];
	long long node = -1;
	if (state == alone) {
		if (most > 0)
			to[0] = 0;
		*found = 1;
		return PMI_SUCCESS;
	}
	int err = PMI_KVS_Get(space, "PMI_process_mapping", mapping, sizeof mapping);
	if (err)
		return err;
	if (clique(mapping, -1, &node, NULL, 0) < 0)
		return PMI_FAIL;
	*found = clique(mapping, node, &node, to, most);
	return *found > 0 && *found < most_ranks ? PMI_SUCCESS : PMI_FAIL;
}

API int PMI_Get_clique_size(int *size)
{
	long long found;
	int err = give(size, 1);
	if (!err)
		err = neighbours(NULL, 0, &found);
	return err ? err : give(size, (int)found);
}

API int PMI_Get_clique_ranks(int ranks[], int length)
{
	long long found;
	if (state != joined && state != alone)
		return PMI_ERR_INIT;
	if (!ranks || length < 1)
		return PMI_ERR_INVALID_ARG;
	int err = neighbours(ranks, length, &found);
	return !err && found > length ? PMI_ERR_INVALID_LENGTH : err;
}

/* word says whether a text may stand in a line as one word. */
static bool word(const char *text)
{
	return text && *text && !strpbrk(text, " \t\r\n");
}

API int PMI_Publish_name(const char service[], const char port[])
{
	char *line;
	if (state != joined)
		return state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service) || !word(port))
		return PMI_ERR_INVALID_ARG;
	return ask("publish_result", &line, "cmd=publish_name service=%s port=%s\n", service, port);
}

API int PMI_Unpublish_name(const char service[])
{
	char *line;
	if (state != joined)
		return state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service))
		return PMI_ERR_INVALID_ARG;
	return ask("unpublish_result", &line, "cmd=unpublish_name service=%s\n", service);
}

API int PMI_Lookup_name(const char service[], char port[])
{
	char *line, *found;
	size_t n;
	if (state != joined)
		return state == alone ? PMI_FAIL : PMI_ERR_INIT;
	if (!word(service) || !port)
		return PMI_ERR_INVALID_ARG;
	int err = ask("lookup_result", &line, "cmd=lookup_name service=%s\n", service);
	if (err)
		return err;
	found = field(line, "port", &n);
	return found ? copy(port, port_room, found, n) : PMI_FAIL;
}

/* named adds the line name=text of a spawn; what has a line's end in it cannot be said. */
LIKE_PRINTF(2, 3) static bool named(const char *text, const char *format, ...)
{
	va_list args;
	if (!text || strchr(text, '\n'))
		return false;
	va_start(args, format);
	add_list(&asked, format, args);
	va_end(args);
	add(&asked, "=%s\n", text);
	return true;
}

/* pairs adds keys and values, numbered from 0. */
static bool pairs(const char *kind, int count, const PMI_keyval_t *of)
{
	for (int i = 0; i < count; i++)
		if (!named(of[i].key, "%s_key_%d", kind, i) || !named(of[i].val, "%s_val_%d", kind, i))
			return false;
	return true;
}

API int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
			   const int info_keyval_sizes[], const PMI_keyval_t *info_keyval_vectors[],
			   int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[])
{
	char *line;
	bool good = count > 0 && cmds && maxprocs && preput_keyval_size >= 0 && (!preput_keyval_size || preput_keyval_vector);
	if (state != joined)
		return state == alone ? PMI_FAIL : PMI_ERR_INIT;
	for (int i = 0; good && i < count; i++) {
		int args = 0, preput = i ? 0 : preput_keyval_size, hints = info_keyval_sizes && info_keyval_vectors ? info_keyval_sizes[i] : 0;
		add(&asked, "mcmd=spawn\nnprocs=%d\n", maxprocs[i]);
		good = named(cmds[i], "execname");
		add(&asked, "totspawns=%d\nspawnssofar=%d\n", count, i + 1);
		for (; good && argvs && argvs[i] && argvs[i][args]; args++)
			good = named(argvs[i][args], "arg%d", args + 1);
		add(&asked, "argcnt=%d\npreput_num=%d\n", args, preput);
		good = good && pairs("preput", preput, preput_keyval_vector);
		add(&asked, "info_num=%d\n", hints);
		good = good && pairs("info", hints, hints > 0 ? info_keyval_vectors[i] : NULL);
		add(&asked, "endcmd\n");
	}
	if (!good) {
		asked.used = 0;
		return PMI_ERR_INVALID_ARG;
	}
	int err = ask("spawn_result", &line, "%s", "");
	for (int i = 0; errors && i < count; i++)
		errors[i] = err;
	return err;
}
