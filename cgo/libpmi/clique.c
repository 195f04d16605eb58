/* The ranks of this node, out of PMI_process_mapping. */
#include "client.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { most_ranks = 1 << 24 };	/* of one node */

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
	while (rank < client.size) {
		const char *at = mapping + sizeof head - 1;
		long long part[3];
		if (!block(&at, part))
			return -1;
		do {
			for (long long n = part[0]; n < part[0] + part[1] && rank < client.size; n++) {
				if (rank <= client.rank && client.rank < rank + part[2])
					*mine = n;
				for (long long i = 0; i < part[2] && rank < client.size; i++, rank++) {
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
	if (client.state == alone) {
		if (most > 0)
			to[0] = 0;
		*found = 1;
		return PMI_SUCCESS;
	}
	int err = PMI_KVS_Get(client.space, "PMI_process_mapping", mapping, sizeof mapping);
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
	if (!is_open())
		return PMI_ERR_INIT;
	if (!ranks || length < 1)
		return PMI_ERR_INVALID_ARG;
	int err = neighbours(ranks, length, &found);
	return !err && found > length ? PMI_ERR_INVALID_LENGTH : err;
}
