/* Rank 0 asks for an allocation, gives one back with a callback, and asks for a checkpoint; prints the answers. The job goes on.
 *
 *   refused
 */
#include "common.h"
#include "counter.h"

static counter_t answers = COUNTER;
static pmix_status_t answer;

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata, pmix_release_cbfunc_t release, void *release_data)
{
    (void) info;
    (void) ninfo;
    (void) cbdata;
    answer = status;
    if (release != NULL) {
        release(release_data);
    }
    count_one(&answers);
}

int main(void)
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("init: %d", status);
        return 1;
    }
    if (me.rank == 0) {
        infos_t infos = { 0 };
        add(&infos, PMIX_ALLOC_NUM_NODES, value_uint64(2));
        pmix_info_t *results = NULL;
        size_t count = 0;
        say("new: %d", PMIx_Allocation_request(PMIX_ALLOC_NEW, infos.items, infos.count, &results, &count));
        say("results: %zu", count);
        status = PMIx_Allocation_request_nb(PMIX_ALLOC_RELEASE, infos.items, infos.count, answered, NULL);
        if (status == PMIX_SUCCESS) {
            await_count(&answers, 1);
            status = answer;
        }
        say("release: %d", status);
        free_infos(&infos);
        infos_t checkpoint = { 0 };
        add(&checkpoint, PMIX_JOB_CTRL_CHECKPOINT, value_string("tonight"));
        say("checkpoint: %d", PMIx_Job_control(NULL, 0, checkpoint.items, checkpoint.count, &results, &count));
        free_infos(&checkpoint);
    }
    status = PMIx_Fence(NULL, 0, NULL, 0);
    say("rank %u: fence %d, finalize %d", me.rank, status, PMIx_Finalize(NULL, 0));
    return 0;
}
