/* What the tests do with libpmi: libpmi exchange, under ibrun; libpmi any, under a launcher that answers anything;
 * libpmi progress FIFO and libpmi idle N, in the place of Open MPI. */
#include "pmi.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void must(int good, const char *what)
{
	char text[200];
	if (good)
		return;
	snprintf(text, sizeof text, "%s is wrong on rank %d", what, rank);
	PMI_Abort(99, text);
}

/* Puts the longest value there may be, and reads everybody's. */
static void exchange(void)
{
	int most = 0, clique, appnum, universe, ranks[256], again;
	must(!PMI_KVS_Get_value_length_max(&most) && most > 1, "value_length_max");
	char name[1024], key[64], *value = malloc((size_t)most), *want = malloc((size_t)most), port[1024];
	must(value && want, "memory");
	must(!PMI_KVS_Get_my_name(name, sizeof name) && PMI_KVS_Get_my_name(name, 2) == PMI_ERR_INVALID_LENGTH, "my_name");
	must(!PMI_Get_appnum(&appnum) && !PMI_Get_universe_size(&universe) && appnum == 0 && universe == size, "appnum or universe_size");
	PMI_KVS_Get_my_name(name, sizeof name);
	memset(value, 'a' + rank % 26, (size_t)most);
	value[most - 1] = 0;
	snprintf(key, sizeof key, "rank-%d", rank);
	must(!PMI_KVS_Put(name, key, value) && !PMI_KVS_Commit(name) && !PMI_Barrier(), "put");
	for (int i = 0; i < size; i++) {
		snprintf(key, sizeof key, "rank-%d", i);
		memset(want, 'a' + i % 26, (size_t)most - 1);
		want[most - 1] = 0;
		must(!PMI_KVS_Get(name, key, value, most) && !strcmp(value, want), "get");
		must(PMI_KVS_Get(name, key, value, most - 1) == PMI_ERR_INVALID_LENGTH, "get into too little");
	}
	must(PMI_KVS_Get(name, "nobody", value, most) == PMI_FAIL, "get of nothing");
	must(PMI_KVS_Put(name, "a b", "") == PMI_ERR_INVALID_KEY && PMI_KVS_Put(name, "a", "x\ny") == PMI_ERR_INVALID_VAL, "put of nonsense");
	must(PMI_KVS_Put("other", "a", "") == PMI_ERR_INVALID_ARG && PMI_KVS_Create(name, sizeof name) == PMI_FAIL, "another space");
	must(!PMI_Get_clique_size(&clique) && clique > 0 && clique <= 256 && !PMI_Get_clique_ranks(ranks, clique), "clique");
	must(size == 1 || (clique == atoi(getenv("MPI_LOCALNRANKS")) && ranks[atoi(getenv("MPI_LOCALRANKID"))] == rank), "this rank in its clique");
	must(clique < 2 || PMI_Get_clique_ranks(ranks, clique - 1) == PMI_ERR_INVALID_LENGTH, "clique into too little");
	if (size > 1) {
		must(rank || !PMI_Publish_name("service", "port#1"), "publish");
		must(!PMI_Barrier() && !PMI_Lookup_name("service", port) && !strcmp(port, "port#1") && !PMI_Barrier(), "lookup");
		must(rank || !PMI_Unpublish_name("service"), "unpublish");
		must(!PMI_Barrier() && PMI_Lookup_name("service", port) == PMI_FAIL, "lookup of nothing");
	}
	if (!rank)
		printf("%d ranks, values of %d bytes\n", size, most - 1);
	must(!PMI_Finalize() && PMI_Finalize() == PMI_ERR_INIT && PMI_Init(&again) == PMI_ERR_INIT, "finalize");
	free(value);
	free(want);
}

static void say(const char *what, int err, const int *value)
{
	if (err)
		printf("%s failed %d\n", what, err);
	else
		printf("%s %d\n", what, *value);
}

/* Calls everything, whatever comes of it, and prints what did. */
static void any(void)
{
	static char text[1 << 15];
	const char *cmds[] = {"a", "b"}, *args[] = {"x", NULL}, **argvs[] = {args, NULL};
	int n = -1, ranks[8] = {-1}, procs[] = {1, 2}, errors[2];
	PMI_keyval_t pairs[] = {{"k", "v"}};
	printf("rank %d of %d\n", rank, size);
	say("universe", PMI_Get_universe_size(&n), &n);
	say("appnum", PMI_Get_appnum(&n), &n);
	say("values", PMI_KVS_Get_value_length_max(&n), &n);
	char name[1024];
	if (PMI_Get_id(name, sizeof name))
		exit(3);
	printf("name %s\n", name);
	printf("put %d\n", PMI_KVS_Put(name, "key", "value"));
	printf("barrier %d\n", PMI_Barrier());
	printf("get %d\n", PMI_KVS_Get(name, "key", text, sizeof text));
	printf("get short %d\n", PMI_KVS_Get(name, "key", text, 3));
	say("clique", PMI_Get_clique_size(&n), &n);
	say("ranks", PMI_Get_clique_ranks(ranks, 8), ranks);
	printf("publish %d\n", PMI_Publish_name("s", "p"));
	printf("lookup %d\n", PMI_Lookup_name("s", text));
	printf("unpublish %d\n", PMI_Unpublish_name("s"));
	printf("spawn %d\n", PMI_Spawn_multiple(2, cmds, argvs, procs, NULL, NULL, 1, pairs, errors));
	printf("finalize %d\n", PMI_Finalize());
}

static const char *fifo;	/* opening it for writing is the progress that rank 1 needs */
static int enough;	/* calls of opal_progress after which the launcher hears of it */
static int calls;
static char space[1024];

static int begun;	/* whether MPI_Init is over */

void opal_progress(void);
int MPI_Initialized(int *flag);

int MPI_Initialized(int *flag)
{
	*flag = begun;
	return 0;
}

/* What Open MPI would do: answer a peer, for which it may have to ask for a value. */
void opal_progress(void)
{
	char value[16];
	calls++;
	if (fifo) {
		int peer = open(fifo, O_WRONLY);
		fifo = NULL;
		must(peer >= 0 && !PMI_KVS_Get(space, "early", value, sizeof value) && !strcmp(value, "bird"), "get within a barrier");
		must(!close(peer), "close");
	}
	if (calls == enough)
		must(printf("progress\n") > 0 && !fflush(stdout), "output");
}

/* Rank 1 comes to the barrier when rank 0, which waits there, has made progress. */
static void progress(const char *path)
{
	must(!PMI_KVS_Get_my_name(space, sizeof space), "my_name");
	if (rank == 1)
		must(!poll(NULL, 0, 50), "a wait for rank 0");
	must(!PMI_KVS_Put(space, "early", "bird") && !PMI_Barrier() && calls == 0, "put, and no progress in MPI_Init");
	begun = 1;
	if (rank == 0)
		fifo = path;
	else
		must(open(path, O_RDONLY) >= 0, "fifo");
	must(!PMI_Barrier() && !fifo && !PMI_Barrier() && !PMI_Finalize(), "barrier");
	printf("rank %d went on\n", rank);
}

int main(int argc, char **argv)
{
	int spawned, yes = -1, err = PMI_Get_rank(&rank) == PMI_ERR_INIT ? PMI_Init(&spawned) : PMI_FAIL;
	if (err || PMI_Get_rank(&rank) || PMI_Get_size(&size) || PMI_Initialized(&yes) || !yes) {
		printf("init %d\n", err);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "exchange"))
		exchange();
	else if (argc > 2 && !strcmp(argv[1], "progress"))
		progress(argv[2]);
	else if (argc > 2 && !strcmp(argv[1], "idle"))
		begun = 1, enough = atoi(argv[2]), printf("barrier %d\n", PMI_Barrier());
	else
		any();
	return 0;
}
