/* A client of PMIx whose last rank is killed. The others have a handler for the end of ranks
 * (PMIX_ERR_PROC_ABORTED), unless there is an argument. Each prints the rank that has ended when its
 * handler is called, and finalizes. */
#include <pmix.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static pmix_proc_t me;
static atomic_int ended = -1;

static void handle(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
	(void)id, (void)status, (void)info, (void)ninfo, (void)results, (void)nresults;
	ended = (int)source->rank;
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

int main(int argc, char **argv)
{
	pmix_status_t code = -7; /* PMIX_ERR_PROC_ABORTED, which newer headers have elsewhere */
	pmix_proc_t all;
	pmix_value_t *size;
	(void)argv;
	if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
		return 2;
	if (argc == 1 && PMIx_Register_event_handler(&code, 1, NULL, 0, handle, NULL, NULL) < 0)
		return 3;
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size) != PMIX_SUCCESS)
		return 4;
	if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS)
		return 5;
	if (me.rank == size->data.uint32 - 1)
		raise(SIGKILL);
	while (ended < 0)
		usleep(1000);
	printf("rank %u: rank %d has ended\n", me.rank, ended);
	fflush(stdout);
	PMIx_Finalize(NULL, 0);
	return 0;
}
