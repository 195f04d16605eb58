/* What the tests do with PMGR: pmgr WHAT. What comes is checked against arithmetic; a mistake ends the job. */
#include "pmgr.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void wrong(const char *what, size_t count, int root)
{
	char text[200];
	snprintf(text, sizeof text, "%s of %zu bytes with root %d is wrong on rank %d", what, count, root, rank);
	pmgr_abort(99, text);
}

static void must(int err, const char *what)
{
	char text[1400];
	if (!err)
		return;
	snprintf(text, sizeof text, "%s on rank %d: %s", what, rank, pmgr_error());
	pmgr_abort(98, text);
}

/* Byte i of what one rank has for another. */
static uint8_t byte(int from, int to, size_t i)
{
	return (uint8_t)(31 * from + 7 * to + (int)(i % 251) + (int)(i / 251));
}

static void fill(uint8_t *at, size_t count, int from, int to)
{
	for (size_t i = 0; i < count; i++)
		at[i] = byte(from, to, i);
}

static void check(const uint8_t *at, size_t count, int from, int to, const char *what, int root)
{
	for (size_t i = 0; i < count; i++)
		if (at[i] != byte(from, to, i))
			wrong(what, count, root);
}

static void rooted(uint8_t *give, uint8_t *get, size_t count, int root)
{
	memset(get, 0xee, count);
	if (rank == root)
		fill(get, count, root, 0);
	must(pmgr_bcast(get, count, root), "bcast");
	check(get, count, root, 0, "bcast", root);

	fill(give, count, rank, root);
	memset(get, 0xee, count * (size_t)size);
	must(pmgr_gather(give, count, rank == root ? get : NULL, root), "gather");
	for (int from = 0; rank == root && from < size; from++)
		check(get + (size_t)from * count, count, from, root, "gather", root);

	for (int to = 0; rank == root && to < size; to++)
		fill(give + (size_t)to * count, count, root, to);
	memset(get, 0xee, count);
	must(pmgr_scatter(rank == root ? give : NULL, count, get, root), "scatter");
	check(get, count, root, rank, "scatter", root);
}

static void rootless(uint8_t *give, uint8_t *get, size_t count)
{
	fill(give, count, rank, 0);
	memset(get, 0xee, count * (size_t)size);
	must(pmgr_allgather(give, count, get), "allgather");
	for (int from = 0; from < size; from++)
		check(get + (size_t)from * count, count, from, 0, "allgather", 0);

	for (int to = 0; to < size; to++)
		fill(give + (size_t)to * count, count, rank, to);
	memset(get, 0xee, count * (size_t)size);
	must(pmgr_alltoall(give, count, get), "alltoall");
	for (int from = 0; from < size; from++)
		check(get + (size_t)from * count, count, from, rank, "alltoall", 0);
	must(pmgr_barrier(), "barrier");
}

static void all(void)
{
	static const size_t counts[] = {0, 1, 1000, 100000};
	uint8_t *give = malloc((size_t)size * 100000), *get = malloc((size_t)size * 100000);
	if (!give || !get)
		pmgr_abort(97, "no memory");
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		rootless(give, get, counts[i]);
		for (int root = 0; root < size; root++)
			rooted(give, get, counts[i], root);
	}
	free(give);
	free(get);
}

/* Mistakes that all ranks are told of, and mistakes of one that go no further. */
static void mistakes(void)
{
	uint8_t b[8] = {0};
	if (!pmgr_bcast(b, 1, rank ? 1 : 0))
		wrong("bcast of two roots", 1, 0);
	printf("%s\n", pmgr_error());
	must(pmgr_barrier(), "barrier after a mistake");
	if (!pmgr_bcast(b, 1, size) || !pmgr_bcast(b, 1, -1) || !pmgr_bcast(NULL, 1, rank) || !pmgr_open(&rank, &size))
		wrong("bcast of no root", 1, size);
	if (!pmgr_allgather(b, PMGR_MOST, b))
		wrong("allgather", PMGR_MOST, 0);
	if (!pmgr_allgather(b, rank ? 1 : 2, b))
		wrong("allgather of unlike sizes", 1, 0);
	must(pmgr_barrier(), "barrier after unlike sizes");
}

/* One of each, whatever comes of it. */
static void any(void)
{
	uint8_t give[400] = {0}, get[400];
	if (size > 4)
		exit(1);
	printf("allgather %d\n", pmgr_allgather(give, 100, get));
	printf("bcast %d\n", pmgr_bcast(get, 100, 1));
	printf("gather %d\n", pmgr_gather(give, 100, get, rank));
	printf("scatter %d\n", pmgr_scatter(give, 100, get, 0));
	exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	if (!pmgr_barrier() || pmgr_open(&rank, &size)) {
		fprintf(stderr, "%s\n", pmgr_error());
		return 1;
	}
	if (rank != atoi(getenv("RANK")) || size != atoi(getenv("WORLD_SIZE")) || getenv("IBRUN_FD"))
		wrong("open", 0, 0);
	if (!strcmp(what, "all"))
		all();
	else if (!strcmp(what, "any"))
		any();
	else if (!strcmp(what, "mistakes"))
		mistakes();
	else if (!strcmp(what, "abort") && rank == 1)
		pmgr_abort(7, "because");
	else if (!strcmp(what, "abort-256") && rank == 1)
		pmgr_abort(256, "because");
	else if (!strcmp(what, "die")) {
		must(pmgr_barrier(), "barrier");
		if (rank == 1)
			raise(SIGKILL);
		pmgr_barrier();
		pause();
	} else if (!strcmp(what, "leave")) {
		if (rank == 1)
			return pmgr_close();
		if (!pmgr_barrier())
			wrong("barrier without rank 1", 0, 0);
		printf("%s\n", pmgr_error());
		return pmgr_close();
	}
	must(pmgr_barrier(), "last barrier");
	if (!rank)
		printf("%d ranks: %s\n", size, what);
	return pmgr_close() || !pmgr_close() || !pmgr_barrier();
}
