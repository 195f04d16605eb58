/* pattern sends the same messages over MPI as the roles in test/bench/message/pattern.go do with package ibrun, so
 * that their times can be compared. Rank 0 prints lines in the same format.
 *
 *	pattern [-yield] [-unfinished] stencil3d|alltoall STEPS BYTES
 *		makes STEPS steps with messages of BYTES bytes; prints BYTES and the mean microseconds of a step
 *	pattern [-unfinished] trips MAXIMUM
 *		makes round trips of 1, 4, 16 ... MAXIMUM bytes between two ranks; prints each length in bytes
 *		and the mean microseconds of a round trip
 *
 * With -yield a rank calls sched_yield while it waits for messages of a step, because MPICH has no setting for
 * that. With -unfinished the program ends by MPI_Abort in place of MPI_Finalize, in which Debian's MPICH over
 * TCP may hang (docs/mpi-programs.md).
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, yields, unfinished;

static void fail(const char *what)
{
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void *memory(size_t n)
{
	void *p = calloc(n ? n : 1, 1);
	if (!p)
		fail("out of memory");
	return p;
}

/* box splits n into three factors that differ as little as possible. */
static void box(int n, int dims[3])
{
	int best = n;
	dims[0] = n, dims[1] = dims[2] = 1;
	for (int x = 1; x * x * x <= n; x++)
		for (int y = x; n % x == 0 && x * y * y <= n; y++)
			if (n / x % y == 0 && n / x / y - x < best) {
				best = n / x / y - x;
				dims[0] = n / x / y, dims[1] = y, dims[2] = x;
			}
}

static int neighbours(int list[6])
{
	int dims[3], count = 0, stride = 1;
	box(size, dims);
	for (int d = 0; d < 3; stride *= dims[d++]) {
		int at = rank / stride % dims[d];
		if (at > 0)
			list[count++] = rank - stride;
		if (at < dims[d] - 1)
			list[count++] = rank + stride;
	}
	return count;
}

/* complete waits for all requests. */
static void complete(MPI_Request *r, int count)
{
	if (!yields) {
		MPI_Waitall(count, r, MPI_STATUSES_IGNORE);
		return;
	}
	for (int done = 0; MPI_Testall(count, r, &done, MPI_STATUSES_IGNORE), !done;)
		sched_yield();
}

/* together returns when all ranks have called it. With -yield it calls sched_yield while it waits. */
static void together(void)
{
	MPI_Request r;
	MPI_Ibarrier(MPI_COMM_WORLD, &r);
	complete(&r, 1);
}

/* step sends a message of bytes bytes to each of count peers and receives one from each of them. It checks the
 * contents of the received messages, which depend on the number of the step. */
static void step(const int *peers, int count, int bytes, char *out, char *in, MPI_Request *r, int number)
{
	memset(out, rank + number, bytes);
	for (int i = 0; i < count; i++)
		MPI_Irecv(in + (size_t)i * bytes, bytes, MPI_BYTE, peers[i], 0, MPI_COMM_WORLD, &r[i]);
	for (int i = 0; i < count; i++)
		MPI_Isend(out, bytes, MPI_BYTE, peers[i], 0, MPI_COMM_WORLD, &r[count + i]);
	complete(r, 2 * count);
	for (int i = 0; i < count; i++)
		if (in[(size_t)(i + 1) * bytes - 1] != (char)(peers[i] + number))
			fail("a message has wrong contents");
}

static void steps(const char *name, int number, int bytes)
{
	int *peers = memory(sizeof(int) * (size + 6)), count = 0;
	if (!strcmp(name, "stencil3d"))
		count = neighbours(peers);
	else
		for (int i = 1; i < size; i++)
			peers[count++] = (rank + i) % size;
	char *out = memory(bytes), *in = memory((size_t)bytes * (count + 1));
	MPI_Request *r = memory(sizeof(MPI_Request) * 2 * (count + 1));
	step(peers, count, bytes, out, in, r, 0); /* connects all pairs */
	together();
	double began = MPI_Wtime();
	for (int i = 1; i <= number; i++)
		step(peers, count, bytes, out, in, r, i);
	together();
	if (rank == 0)
		printf("%d %.3f\n", bytes, (MPI_Wtime() - began) * 1e6 / number);
}

static void trips(size_t most)
{
	char *m = memory(most);
	for (size_t bytes = 1; bytes <= most; bytes *= 4) {
		int count = bytes <= 16384 ? 200 : bytes <= 1 << 20 ? 40 : 5;
		double began = 0;
		for (int i = -count / 5; i < count; i++) {
			if (i == 0)
				began = MPI_Wtime();
			if (rank == 0)
				MPI_Send(m, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(m, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (rank == 1)
				MPI_Send(m, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
		if (rank == 0)
			printf("%zu %.3f\n", bytes, (MPI_Wtime() - began) * 1e6 / count);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (; argc > 1 && *argv[1] == '-'; argc--, argv++) {
		yields |= !strcmp(argv[1], "-yield");
		unfinished |= !strcmp(argv[1], "-unfinished");
	}
	if (argc == 4 && (!strcmp(argv[1], "stencil3d") || !strcmp(argv[1], "alltoall")))
		steps(argv[1], atoi(argv[2]), atoi(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "trips") && size == 2)
		trips(strtoul(argv[2], NULL, 10));
	else
		fail("usage: pattern [-yield] [-unfinished] stencil3d|alltoall STEPS BYTES | trips MAXIMUM (two ranks)");
	fflush(stdout);
	if (unfinished) {
		together(); /* rank 0 has printed its line */
		MPI_Abort(MPI_COMM_WORLD, 0);
	}
	MPI_Finalize();
	return 0;
}
