/* The client's side of PMI-1: one line asked over the descriptor that the launcher left in PMI_FD, one line answered.
 * The grammar is in bootstrap/clients/pmi/grammar.go and docs/dev/protocol.md. Under another launcher this is a client like any other; to
 * ibrun it says that its lines may be long, and gets values of 16 KiB.
 *
 * The library keeps a line asked, what came of answers, and the job's name; it starts no thread, catches no signal and
 * prints nothing but what PMI_Abort was given. Answers are not trusted: what is not the answer is PMI_FAIL. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct client client = {.fd = -1, .size = 1};

int copy(char *to, int length, const char *from, size_t n)
{
	if (!to)
		return PMI_ERR_INVALID_ARG;
	if (length <= 0 || n >= (size_t)length)
		return PMI_ERR_INVALID_LENGTH;
	memcpy(to, from, n);
	to[n] = 0;
	return PMI_SUCCESS;
}

int give(int *to, int value)
{
	if (!to)
		return PMI_ERR_INVALID_ARG;
	if (!is_open())
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
	if (!err && (!whole(line, "keylen_max", &client.key_max) || !whole(line, "vallen_max", &client.value_max) || client.key_max < 1 || client.key_max > stock_value || client.value_max < 1))
		err = PMI_FAIL;
	if (!err)
		err = ask("my_kvsname", &line, "cmd=get_my_kvsname\n");
	if (err)
		return err;
	name = field(line, "kvsname", &length);
	if (!name || copy(client.space, sizeof client.space, name, length))
		return PMI_FAIL;
	if (client.value_max <= stock_value) {	/* a launcher that reads and writes short lines: a value must leave room for the rest */
		int rest = short_line - (int)(sizeof "cmd=put kvsname= key= value=" + length) - client.key_max;
		if (rest < 2)
			return PMI_FAIL;
		client.value_max = client.value_max < rest ? client.value_max : rest & ~1;	/* even, for those who put pairs of digits */
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
	if (client.state == over)
		return PMI_ERR_INIT;
	if (spawned)
		*spawned = PMI_FALSE;
	if (client.state != fresh)
		return PMI_SUCCESS;
	if (!getenv("PMI_FD")) {
		client.key_max = 63;
		client.value_max = want_value;
		strcpy(client.space, "alone");
		client.state = alone;
		return PMI_SUCCESS;
	}
	if (!variable("PMI_FD", 0, &client.fd) || !variable("PMI_RANK", 0, &client.rank) || !variable("PMI_SIZE", 1, &client.size) || client.rank >= client.size)
		return PMI_ERR_INVALID_ARG;
	/* A program that this one starts must not speak in its place. */
	if (fcntl(client.fd, F_SETFD, FD_CLOEXEC))
		return PMI_FAIL;
	unsetenv("PMI_FD");
	int err = begin();
	client.state = err ? over : joined;
	return err;
}

API int PMI_Initialized(PMI_BOOL *initialized)
{
	if (!initialized)
		return PMI_ERR_INVALID_ARG;
	*initialized = is_open() ? PMI_TRUE : PMI_FALSE;
	return PMI_SUCCESS;
}

API int PMI_Finalize(void)
{
	char *line;
	if (!is_open())
		return PMI_ERR_INIT;
	int err = client.state == joined ? ask("finalize_ack", &line, "cmd=finalize\n") : PMI_SUCCESS;
	if (client.state == joined)
		hang_up();
	forget_pairs();
	client.state = over;
	return err;
}

API int PMI_Get_size(int *size)
{
	return give(size, client.size);
}

API int PMI_Get_rank(int *rank)
{
	return give(rank, client.rank);
}

/* number asks for one. */
static int number(int *to, int if_alone, const char *question, const char *reply, const char *name)
{
	char *line;
	int value, err = give(to, if_alone);
	if (err || client.state == alone)
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
	if (client.state == joined)
		return ask("barrier_out", &line, "cmd=barrier_in\n");
	return client.state == alone ? PMI_SUCCESS : PMI_ERR_INIT;
}

API int PMI_Abort(int exit_code, const char error_msg[])
{
	if (error_msg && *error_msg && strcmp(error_msg, "N/A"))	/* Open MPI's word for none */
		fprintf(stderr, "%s\n", error_msg);
	if (client.state == joined) {
		say("cmd=abort exitcode=%d\n", exit_code);
		send_said();
	}
	exit(exit_code);
}
