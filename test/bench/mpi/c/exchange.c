/*
 * exchange makes ranks exchange values over PMI. Each rank puts a value. After a barrier it gets the values of the
 * ranks at distances of powers of two. Rank 0 prints one line at the end. test/pmi does the same in Go. The start of
 * the Go runtime takes most of the time of test/pmi, so exchange represents MPI programs in C better.
 */
#include <pmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 400
#define KEY 64

static void fail(const char *what, int rank)
{
	fprintf(stderr, "exchange: rank %d: %s\n", rank, what);
	exit(1);
}

/* value_of writes the value of a rank: eight digits that depend on the rank, repeated. */
static void value_of(int rank, char value[BYTES + 1])
{
	for (int i = 0; i < BYTES; i += 8)
		snprintf(value + i, 9, "%08x", (unsigned)rank * 2654435761u);
}

int main(void)
{
	int rank, size, spawned;
	char name[256], key[KEY], want[BYTES + 1], got[BYTES + 1];

	if (PMI_Init(&spawned) || PMI_Get_rank(&rank) || PMI_Get_size(&size))
		fail("no launcher with PMI", -1);
	if (PMI_KVS_Get_my_name(name, sizeof(name)) || PMI_Barrier())
		fail("no barrier", rank);
	snprintf(key, sizeof(key), "addr-%d", rank);
	value_of(rank, want);
	if (PMI_KVS_Put(name, key, want) || PMI_KVS_Commit(name) || PMI_Barrier())
		fail("no put", rank);
	for (int d = 1; d < size; d *= 2) {
		int from = (rank + d) % size;
		snprintf(key, sizeof(key), "addr-%d", from);
		value_of(from, want);
		if (PMI_KVS_Get(name, key, got, sizeof(got)) || strcmp(got, want) != 0)
			fail(key, rank);
	}
	if (PMI_Barrier() || PMI_Finalize())
		fail("no end", rank);
	if (rank == 0)
		printf("%d ranks exchanged\n", size);
	return 0;
}
