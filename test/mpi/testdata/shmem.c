/* An OpenSHMEM program: each PE writes its number into its right neighbour's memory. */
#include <shmem.h>
#include <stdio.h>

int main(void)
{
	static int from = -1;
	shmem_init();
	int me = shmem_my_pe(), n = shmem_n_pes();
	shmem_int_p(&from, me, (me + 1) % n);
	shmem_barrier_all();
	int right = from == (me + n - 1) % n;
	if (right)
		printf("rank %d of %d: shmem\n", me, n);
	fflush(stdout);
	shmem_finalize();
	return !right;
}
