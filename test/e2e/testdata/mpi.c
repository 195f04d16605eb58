/* What a test of a launcher asks of an MPI program, by the first argument. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void collectives(void)
{
	int sum = 0, *out = malloc(size * sizeof *out), *in = malloc(size * sizeof *in);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != size * (size - 1) / 2)
		wrong("allreduce");
	for (int i = 0; i < size; i++)
		out[i] = 1000 * rank + i;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++)
		if (in[i] != 1000 * i + rank)
			wrong("alltoall");
	free(out);
	free(in);
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "hello";
	if (!strcmp(what, "mute")) /* without a word to its launcher */
		return 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!strcmp(what, "ring"))
		ring();
	else if (!strcmp(what, "collectives"))
		collectives();
	else if (!strcmp(what, "names"))
		names();
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
