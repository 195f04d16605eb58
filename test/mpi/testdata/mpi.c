/* An MPI program for tests of launchers. The first argument names the test that it runs, such as "ring". Names of
 * tests in the table parts can be joined by "+": "ring+names" runs both tests after one MPI_Init. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static void wrong(const char *what)
{
	fprintf(stderr, "rank %d of %d: %s is wrong\n", rank, size, what);
	MPI_Abort(MPI_COMM_WORLD, 99);
}

static void ring(void)
{
	int token = 0, left = (rank + size - 1) % size, right = (rank + 1) % size;
	if (rank == 0)
		MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
	MPI_Recv(&token, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	token++;
	if (rank != 0)
		MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
	else if (token != size)
		wrong("ring");
}

static void neighbours(void)
{
	int left = (rank + size - 1) % size, right = (rank + 1) % size, from_left = -1, from_right = -1;
	MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &from_left, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(&rank, 1, MPI_INT, left, 0, &from_right, 1, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (from_left != left || from_right != right)
		wrong("neighbours");
}

static void allreduce(void)
{
	int sum = 0;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != size * (size - 1) / 2)
		wrong("allreduce");
}

static void alltoall(void)
{
	int *out = malloc(size * sizeof *out), *in = malloc(size * sizeof *in);
	for (int i = 0; i < size; i++)
		out[i] = 1000 * rank + i;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++)
		if (in[i] != 1000 * i + rank)
			wrong("alltoall");
	free(out);
	free(in);
}

static void collectives(void)
{
	allreduce();
	alltoall();
}

/* Ranks of each parity in a communicator of their own, the last rank first. */
static void split(void)
{
	MPI_Comm part;
	int sum = 0, expected = 0, place;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part);
	for (int i = rank % 2; i < size; i += 2)
		expected += i;
	MPI_Comm_rank(part, &place);
	if (sum != expected || place != (size - 1 - rank) / 2)
		wrong("split");
	MPI_Comm_free(&part);
}

/* Joins both sides of an intercommunicator, which have count ranks together, and adds up ones there. */
static void together(MPI_Comm other, int high, int count, const char *what)
{
	MPI_Comm all;
	int one = 1, sum = 0;
	MPI_Intercomm_merge(other, high, &all);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
	if (sum != count)
		wrong(what);
	MPI_Comm_free(&all);
	MPI_Comm_disconnect(&other);
}

/* Starts two ranks of a command, which ends in NULL and runs this program as a child. */
static void spawn(char **command)
{
	enum { children = 2 };
	MPI_Comm other;
	int codes[children];
	MPI_Comm_spawn(command[0], command + 1, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, codes);
	together(other, 0, size + children, "spawn");
}

static void child(void)
{
	MPI_Comm parent;
	int parents;
	MPI_Comm_get_parent(&parent);
	if (parent == MPI_COMM_NULL)
		wrong("parent");
	MPI_Comm_remote_size(parent, &parents);
	together(parent, 1, size + parents, "child");
}

/* Of the first ranks, the even ones accept at a port that rank 0 opens, the odd ones connect to it.
 * A rank may stay away for ever, which all others wait for. */
static MPI_Comm meet(int count, int away, char *name)
{
	MPI_Comm part, other = MPI_COMM_NULL;
	if (rank == 0)
		MPI_Open_port(MPI_INFO_NULL, name);
	MPI_Bcast(name, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	MPI_Comm_split(MPI_COMM_WORLD, rank < count ? rank % 2 : MPI_UNDEFINED, rank, &part);
	if (rank >= count)
		return other;
	while (rank == away)
		pause();
	if (rank % 2 == 0)
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, part, &other);
	else
		MPI_Comm_connect(name, MPI_INFO_NULL, 0, part, &other);
	MPI_Comm_free(&part);
	return other;
}

static void port(void)
{
	char name[MPI_MAX_PORT_NAME] = "";
	together(meet(size, -1, name), rank % 2, size, "port");
	if (rank == 0)
		MPI_Close_port(name);
}

static void be_killed(int number)
{
	(void)number;
	raise(SIGKILL);
}

/* Four ranks wait for each other to connect, which is a fence of theirs. Rank 1 is killed there. */
static void part(void)
{
	char name[MPI_MAX_PORT_NAME] = "";
	if (rank == 1) {
		signal(SIGALRM, be_killed);
		alarm(2);
	}
	meet(4, 2, name);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A communicator without MPI_Init. Libraries older than MPI 4 have no sessions: that is an error. */
static int sessions(void)
{
#ifdef MPI_SESSION_NULL
	MPI_Session session;
	MPI_Group world;
	MPI_Comm all;
	if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
		return 1;
	MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
	MPI_Comm_create_from_group(world, "org.ibrun.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &size);
	int sum = 0;
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
	printf("rank %d of %d: sessions\n", rank, size);
	fflush(stdout);
	MPI_Group_free(&world);
	MPI_Comm_free(&all);
	MPI_Session_finalize(&session);
	return sum != size * (size - 1) / 2;
#else
	fprintf(stderr, "this MPI library has no sessions\n");
	return 1;
#endif
}

static void names(void)
{
	char port[MPI_MAX_PORT_NAME] = "";
	if (rank == size - 1 && MPI_Publish_name("service", MPI_INFO_NULL, "port#of$a_test") != MPI_SUCCESS)
		wrong("publish");
	MPI_Barrier(MPI_COMM_WORLD);
	if (MPI_Lookup_name("service", MPI_INFO_NULL, port) != MPI_SUCCESS || strcmp(port, "port#of$a_test"))
		wrong("lookup");
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		MPI_Unpublish_name("service", MPI_INFO_NULL, port);
}

/* Says how long so many reductions take. */
static void reductions(int count)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	for (int i = 0, sum; i < count; i++)
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d reductions: %.3f s\n", count, MPI_Wtime() - began);
}

/* What the library knows of several programs: numbers that other libraries do not have are "-". */
static void programs(void)
{
	const char *keys[] = {"ompi_num_apps", "ompi_np", "ompi_first_rank"};
	char text[3][64] = {"-", "-", "-"};
	int *number, *universe, flag, is_set;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &is_set);
	if (!is_set)
		wrong("the number of the program");
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &is_set);
	if (!is_set || *universe != size)
		wrong("the universe");
	for (int i = 0; i < 3; i++)
		MPI_Info_get(MPI_INFO_ENV, keys[i], sizeof text[i] - 1, text[i], &flag);
	printf("rank %d runs program %d of %s: sizes %s, first ranks %s\n", rank, *number, text[0], text[1], text[2]);
	fflush(stdout);
}

/* Says in a folder that it has started and talked to its neighbours, and waits for its end. */
static void wait_for_end(const char *folder)
{
	char path[4096];
	FILE *file;
	neighbours();
	MPI_Barrier(MPI_COMM_WORLD);
	snprintf(path, sizeof path, "%s/%d", folder, rank);
	if ((file = fopen(path, "w")) == NULL || fclose(file))
		wrong("the folder");
	for (;;)
		pause();
}

/* Seconds on a clock that all nodes of a virtual cluster share. */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Says how long MPI_Init took from the moment when the last rank came to it. */
static void initialized(double began, double ended)
{
	double times[] = {began, ended}, last[2];
	MPI_Reduce(times, last, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("MPI_Init: %.6f s\n", last[1] - last[0]);
}

static void hello(void) {}

/* Tests that can be joined by "+" in the first argument. */
static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
    {"hello", hello}, {"ring", ring}, {"neighbours", neighbours}, {"allreduce", allreduce}, {"alltoall", alltoall},
    {"collectives", collectives}, {"split", split}, {"child", child}, {"port", port}, {"part", part},
    {"names", names}, {"programs", programs},
};

/* Runs the tests of the table parts whose names are in joined, separated by "+", and prints a line after each test.
 * Returns 1 if at least one name is in the table, and 0 otherwise. */
static int run_parts(const char *joined)
{
	char all[256];
	int found = 0;
	snprintf(all, sizeof all, "%s", joined);
	for (char *name = strtok(all, "+"); name; name = strtok(NULL, "+"))
		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
			if (!strcmp(name, parts[i].name)) {
				parts[i].run();
				printf("rank %d of %d: %s\n", rank, size, name);
				found = 1;
			}
	return found;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "hello";
	if (!strcmp(what, "mute")) /* without a word to its launcher */
		return 0;
	if (!strcmp(what, "sessions"))
		return sessions();
	const double began = now();
	MPI_Init(&argc, &argv);
	const double ended = now();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const int ran = run_parts(what);
	if (!strcmp(what, "init"))
		initialized(began, ended);
	else if (!strcmp(what, "spawn"))
		spawn(argc > 2 ? argv + 2 : (char *[]){argv[0], "child", NULL});
	else if (!strcmp(what, "wait"))
		wait_for_end(argv[2]);
	else if (!strcmp(what, "reductions"))
		reductions(atoi(argv[2]));
	else if (!strcmp(what, "abort") && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
	else if (!strcmp(what, "leave") && rank == 1)
		exit(0);
	else if (!strcmp(what, "die") && rank == 1)
		abort();
	else if (!strcmp(what, "spin"))
		for (int sum, times = 0;; times++) {
			MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			if (times == 100 && rank == 0) {
				printf("spinning\n");
				fflush(stdout);
			}
			if (times == 100 && rank == 1 && argc > 2 && !strcmp(argv[2], "fall"))
				raise(SIGKILL);
		}
	if (!strcmp(what, "abort") || !strcmp(what, "leave") || !strcmp(what, "die"))
		MPI_Barrier(MPI_COMM_WORLD);
	if (!ran)
		printf("rank %d of %d: %s\n", rank, size, what);
	fflush(stdout);
	/* All come to MPI_Finalize together: a rank of this MPICH over TCP closes its endpoints with the help of the
	 * others, who help no more when they wait in the PMI barrier. With "unfinished" there is no MPI_Finalize. */
	for (int i = 0; i < 20; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	if (argc > 2 && !strcmp(argv[2], "unfinished"))
		MPI_Abort(MPI_COMM_WORLD, 0);
	MPI_Finalize();
	return 0;
}
