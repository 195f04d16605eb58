/* A PMI-2 client (Slurm's libpmi2): rank 0 spawns two ranks of itself and one of another program; what was put for them before is what they read. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int spawned, size, rank, app, length = 0, failed[3] = {9, 9, 9};
	char job[256] = "", value[1024] = "", dir[1024] = "";
	if (PMI2_Init(&spawned, &size, &rank, &app))
		return 9;
	if (spawned) {
		PMI2_KVS_Get(NULL, -1, "PARENT", value, sizeof value, &length);
		printf("child %d of %d: %s; %s; %s\n", rank, size, value, getcwd(dir, sizeof dir), argv[argc - 1]);
	} else if (rank == 0) {
		const char *programs[] = {argv[0], "true"}, *words[] = {"a", "b c"}, **arguments[] = {words, NULL};
		int counts[] = {2, 0}, ranks[] = {2, 1}, hints[] = {1, 0};
		MPID_Info where = {.key = "wdir", .value = "/usr"}, preput = {.key = "PARENT", .value = "x y;z"};
		const MPID_Info *info[] = {&where, NULL}, *preputs[] = {&preput};
		int rc = PMI2_Job_Spawn(2, programs, counts, arguments, ranks, hints, info, 1, preputs, job, sizeof job, failed);
		printf("spawn: %d, job of %d, %d%d%d\n", rc, (int)strlen(job), failed[0], failed[1], failed[2]);
	}
	return PMI2_Finalize();
}
