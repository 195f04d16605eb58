/* A client of PMIx without an MPI library: it asks for what MPI libraries ask for, and prints what
 * it got, one line each:
 *
 *     rank 2: local-rank = 0
 *
 * With no argument it does all; the arguments job, values, parts, names and absent choose. The exit
 * code is 1 if an answer is an error, or is not what another rank has put. Two look-ups must find
 * nothing: their status is printed as a number, since libpmix has changed its words. The argument far
 * asks for the last rank's node, which clients of large jobs are not told.
 *
 * Five more arguments end in no good way. In all of them the last rank joins no second fence, so
 * the others wait in it, and rank 1 is killed before the first one, inside the second one or between
 * both, leaves between both without a word, or waits as well: before, inside, after, leave, wait. */
#include <pmix.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static uint32_t size;
static char peers[65536]; /* ranks of this node as PMIx names them: "0,1,2" */
static int failed;

static void say(const char *what, const char *format, ...)
{
	va_list words;
	va_start(words, format);
	printf("rank %u: %s = ", me.rank, what);
	vprintf(format, words);
	printf("\n");
	va_end(words);
}

/* Tells whether a call went well; else says which did not, and the exit code will be 1. */
static int well(pmix_status_t status, const char *what)
{
	if (status == PMIX_SUCCESS)
		return 1;
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
	failed = 1;
	return 0;
}

static void wrong(const char *what)
{
	fprintf(stderr, "rank %u: %s is wrong\n", me.rank, what);
	failed = 1;
}

static pmix_proc_t of(pmix_rank_t rank)
{
	pmix_proc_t proc;
	PMIX_LOAD_PROCID(&proc, me.nspace, rank);
	return proc;
}

static int is_local(pmix_rank_t rank)
{
	char list[sizeof peers + 2], item[16];
	snprintf(list, sizeof list, ",%s,", peers);
	snprintf(item, sizeof item, ",%u,", rank);
	return strstr(list, item) != NULL;
}

/* Gets a number of any width. */
static uint64_t number(pmix_rank_t rank, const char *key)
{
	pmix_proc_t proc = of(rank);
	pmix_value_t *value = NULL;
	uint64_t n = 0;
	if (!well(PMIx_Get(&proc, key, NULL, 0, &value), key))
		return 0;
	switch (value->type) {
	case PMIX_UINT16:
		n = value->data.uint16;
		break;
	case PMIX_UINT32:
		n = value->data.uint32;
		break;
	case PMIX_INT32:
		n = (uint64_t)value->data.int32;
		break;
	case PMIX_UINT64:
		n = value->data.uint64;
		break;
	case PMIX_PROC_RANK:
		n = value->data.rank;
		break;
	default:
		fprintf(stderr, "rank %u: %s is of type %d, not a number\n", me.rank, key, value->type);
		failed = 1;
	}
	PMIX_VALUE_RELEASE(value);
	return n;
}

/* Gets a string into a buffer. */
static int text(pmix_rank_t rank, const char *key, char *to, size_t length)
{
	pmix_proc_t proc = of(rank);
	pmix_value_t *value = NULL;
	*to = 0;
	if (!well(PMIx_Get(&proc, key, NULL, 0, &value), key))
		return 0;
	if (value->type == PMIX_STRING)
		snprintf(to, length, "%s", value->data.string);
	else
		wrong(key);
	PMIX_VALUE_RELEASE(value);
	return 1;
}

static void put(pmix_scope_t scope, const char *key, pmix_data_type_t type, void *data)
{
	pmix_value_t value;
	PMIX_VALUE_LOAD(&value, data, type);
	well(PMIx_Put(scope, key, &value), key);
	PMIX_VALUE_DESTRUCT(&value);
}

/* Waits for ranks: all, or each step-th from this rank's remainder on. */
static void fence(int step, bool collect, const char *what)
{
	pmix_info_t info;
	pmix_proc_t all = of(PMIX_RANK_WILDCARD), *some = calloc(size, sizeof *some);
	size_t n = 0;
	for (pmix_rank_t r = me.rank % step; r < size; r += step)
		some[n++] = of(r);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	if (well(step == 1 ? PMIx_Fence(&all, 1, &info, 1) : PMIx_Fence(some, n, &info, 1), what))
		say(what, "passed");
	PMIX_INFO_DESTRUCT(&info);
	free(some);
}

static void job(void)
{
	char host[256];
	say("job-size", "%u", size);
	say("univ-size", "%u", (uint32_t)number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE));
	say("local-size", "%u", (uint32_t)number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE));
	say("local-peers", "%s", peers);
	say("local-rank", "%u", (uint32_t)number(me.rank, PMIX_LOCAL_RANK));
	say("node-rank", "%u", (uint32_t)number(me.rank, PMIX_NODE_RANK));
	say("appnum", "%u", (uint32_t)number(me.rank, PMIX_APPNUM));
	if (text(me.rank, PMIX_HOSTNAME, host, sizeof host))
		say("hostname", "%s", host);
}

/* What a rank puts under a name in a round, for the others to compare. */
static void words(char *to, size_t length, const char *what, pmix_rank_t rank, int round)
{
	snprintf(to, length, "%s of rank %u in round %d, with = ; and \"quotes\"", what, rank, round);
}

/* Puts values of several types and scopes, and gets those of all ranks. */
static void values(int round, bool collect)
{
	char key[64], mine[128], theirs[128], expected[128];
	int32_t signedly = -5 - (int32_t)me.rank;
	uint64_t large = UINT64_MAX - me.rank;
	char bytes[1000];
	memset(bytes, (int)me.rank, sizeof bytes);
	pmix_byte_object_t blob = {.bytes = bytes, .size = sizeof bytes};
	const char *names[] = {"global", "local", "remote"};
	const pmix_scope_t scopes[] = {PMIX_GLOBAL, PMIX_LOCAL, PMIX_REMOTE};
	for (int i = 0; i < 3; i++) {
		snprintf(key, sizeof key, "t.%s.%d", names[i], round);
		words(mine, sizeof mine, names[i], me.rank, round);
		put(scopes[i], key, PMIX_STRING, mine);
	}
	snprintf(key, sizeof key, "t.i32.%d", round);
	put(PMIX_GLOBAL, key, PMIX_INT32, &signedly);
	snprintf(key, sizeof key, "t.u64.%d", round);
	put(PMIX_GLOBAL, key, PMIX_UINT64, &large);
	snprintf(key, sizeof key, "t.blob.%d", round);
	put(PMIX_GLOBAL, key, PMIX_BYTE_OBJECT, &blob);
	well(PMIx_Commit(), "commit");
	fence(1, collect, collect ? "fence with data" : "fence");
	for (pmix_rank_t r = 0; r < size; r++) {
		if (r == me.rank)
			continue;
		for (int i = 0; i < 3; i++) {
			if (i == (is_local(r) ? 2 : 1)) /* of a scope that this rank does not see */
				continue;
			snprintf(key, sizeof key, "t.%s.%d", names[i], round);
			words(expected, sizeof expected, names[i], r, round);
			if (text(r, key, theirs, sizeof theirs) && strcmp(theirs, expected))
				wrong(key);
		}
		snprintf(key, sizeof key, "t.i32.%d", round);
		if ((int32_t)number(r, key) != -5 - (int32_t)r)
			wrong(key);
		snprintf(key, sizeof key, "t.u64.%d", round);
		if (number(r, key) != UINT64_MAX - r)
			wrong(key);
		snprintf(key, sizeof key, "t.blob.%d", round);
		pmix_proc_t proc = of(r);
		pmix_value_t *value = NULL;
		if (well(PMIx_Get(&proc, key, NULL, 0, &value), key)) {
			memset(bytes, (int)r, sizeof bytes);
			if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size != sizeof bytes ||
			    memcmp(value->data.bo.bytes, bytes, sizeof bytes))
				wrong(key);
			PMIX_VALUE_RELEASE(value);
		}
		say("values", "of rank %u in round %d", r, round);
	}
}

/* The last rank publishes, all others wait for it in a look-up. */
static void names(void)
{
	pmix_info_t info;
	bool wait = true;
	if (me.rank == size - 1) {
		PMIX_INFO_LOAD(&info, "t.service", "port of the last rank", PMIX_STRING);
		well(PMIx_Publish(&info, 1), "publish");
		PMIX_INFO_DESTRUCT(&info);
	}
	pmix_pdata_t found;
	PMIX_PDATA_CONSTRUCT(&found);
	PMIX_LOAD_KEY(found.key, "t.service");
	PMIX_INFO_LOAD(&info, PMIX_WAIT, &wait, PMIX_BOOL);
	if (well(PMIx_Lookup(&found, 1, &info, 1), "lookup")) {
		if (found.value.type == PMIX_STRING)
			say("lookup", "%s, by rank %u", found.value.data.string, found.proc.rank);
		else
			wrong("lookup");
	}
	PMIX_PDATA_DESTRUCT(&found);
	PMIX_INFO_DESTRUCT(&info);
	fence(1, false, "fence of names");
	if (me.rank == size - 1) {
		char *keys[] = {"t.service", NULL};
		well(PMIx_Unpublish(keys, NULL, 0), "unpublish");
	}
	fence(1, false, "fence of no names");
	PMIX_PDATA_CONSTRUCT(&found);
	PMIX_LOAD_KEY(found.key, "t.service");
	say("unpublished", "status %d", PMIx_Lookup(&found, 1, NULL, 0));
	PMIX_PDATA_DESTRUCT(&found);
}

/* A key that nobody has put is not found at once, of this rank and of another one. */
static void absent(void)
{
	const pmix_rank_t ranks[] = {me.rank, (me.rank + 1) % size};
	for (int i = 0; i < 2; i++) {
		pmix_proc_t proc = of(ranks[i]);
		pmix_value_t *value = NULL;
		pmix_info_t info;
		bool now = true;
		PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &now, PMIX_BOOL);
		say(i ? "absent of the next rank" : "absent", "status %d", PMIx_Get(&proc, "t.absent", &info, 1, &value));
		PMIX_INFO_DESTRUCT(&info);
	}
}

/* What is told of the last rank's node: its host, and the ranks there. */
static void far(void)
{
	pmix_proc_t proc = of(size - 1), all = of(PMIX_RANK_WILDCARD);
	pmix_value_t *value = NULL;
	pmix_info_t info[2];
	bool of_node = true;
	char host[256] = "";
	pmix_status_t status = PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		say("far", "status %d", status);
	else {
		snprintf(host, sizeof host, "%s", value->data.string);
		PMIX_VALUE_RELEASE(value);
		PMIX_INFO_LOAD(&info[0], PMIX_NODE_INFO, &of_node, PMIX_BOOL);
		PMIX_INFO_LOAD(&info[1], PMIX_HOSTNAME, host, PMIX_STRING);
		status = PMIx_Get(&all, PMIX_LOCAL_PEERS, info, 2, &value);
		say("far", "%s with ranks %s", host, status == PMIX_SUCCESS ? value->data.string : PMIx_Error_string(status));
	}
	fence(1, false, "last fence");
}

/* Tells the server of a fence and returns when the server has read it: it has answered what came after. */
static void begin_fence(void)
{
	pmix_proc_t all = of(PMIX_RANK_WILDCARD);
	pmix_pdata_t found;
	well(PMIx_Fence_nb(&all, 1, NULL, 0, NULL, NULL), "fence without waiting");
	PMIX_PDATA_CONSTRUCT(&found);
	PMIX_LOAD_KEY(found.key, "t.absent");
	PMIx_Lookup(&found, 1, NULL, 0);
	PMIX_PDATA_DESTRUCT(&found);
}

/* Waits in a fence that never ends, while rank 1 does something else. */
static void fall(const char *how)
{
	const int chosen = me.rank == 1;
	if (chosen && !strcmp(how, "before"))
		raise(SIGKILL);
	fence(1, false, "first fence");
	fflush(stdout);
	if (chosen && !strcmp(how, "leave"))
		_exit(0);
	if (chosen && !strcmp(how, "after"))
		raise(SIGKILL);
	if (chosen && !strcmp(how, "inside")) {
		begin_fence();
		raise(SIGKILL);
	}
	while (me.rank == size - 1)
		pause();
	fence(1, false, "second fence");
}

static int is_fall(const char *argument)
{
	const char *all[] = {"before", "inside", "after", "leave", "wait"};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(argument, all[i]))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *all[] = {"", "job", "values", "parts", "names", "absent"};
	pmix_status_t status = PMIx_Init(&me, NULL, 0);
	if (status != PMIX_SUCCESS) {
		fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(status));
		return 1;
	}
	size = (uint32_t)number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
	text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, peers, sizeof peers);
	if (argc == 1) {
		argc = sizeof all / sizeof *all;
		argv = (char **)all;
	}
	for (int i = 1; i < argc && size > 0; i++)
		if (!strcmp(argv[i], "job"))
			job();
		else if (!strcmp(argv[i], "values")) {
			values(1, false);
			values(2, true);
		} else if (!strcmp(argv[i], "parts"))
			fence(2, false, "fence of every second rank");
		else if (!strcmp(argv[i], "names"))
			names();
		else if (!strcmp(argv[i], "absent"))
			absent();
		else if (!strcmp(argv[i], "far"))
			far();
		else if (is_fall(argv[i]))
			fall(argv[i]);
		else
			wrong(argv[i]);
	if (well(PMIx_Finalize(NULL, 0), "finalize") && !failed)
		say("finalize", "passed");
	return failed || size == 0;
}
