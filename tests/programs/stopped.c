/* A rank that a debugger may stop in PMIx_Init, and then, if the job's data ask for it, here.
 *
 *   stopped [SECONDS]     how long PMIx_Init may take
 *
 * Prints the status of PMIx_Init, and whether the rest succeeded.
 */
#include "common.h"
#include "counter.h"

static counter_t releases = COUNTER;

static void release(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) status;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    count_one(&releases);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Waits at a breakpoint of the application, with the name that the debugger gave it. */
static void stop_here(const pmix_proc_t *me)
{
    pmix_proc_t job = proc_of(me->nspace, PMIX_RANK_WILDCARD);
    infos_t optional = { 0 }, infos = { 0 };
    pmix_value_t *stop = NULL, *name = NULL;
    add(&optional, PMIX_OPTIONAL, value_bool(true));
    if (PMIx_Get(&job, PMIX_DEBUG_STOP_IN_APP, optional.items, 1, &stop) != PMIX_SUCCESS || !stop->data.flag) {
        return;
    }
    bool is_named = PMIx_Get(&job, PMIX_BREAKPOINT, optional.items, 1, &name) == PMIX_SUCCESS;
    add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
    add(&infos, PMIX_BREAKPOINT, value_string(is_named ? name->data.string : "main"));
    /* Stock libraries still have the release from PMIx_Init for this handler. */
    pmix_status_t code = PMIX_DEBUGGER_RELEASE;
    PMIx_Register_event_handler(&code, 1, NULL, 0, release, NULL, NULL);
    PMIx_Notify_event(PMIX_READY_FOR_DEBUG, me, PMIX_RANGE_RM, infos.items, infos.count, NULL, NULL);
    await_count(&releases, 1);
    say("rank %u: on from %s", me->rank, is_named ? name->data.string : "main");
    free_infos(&optional);
    free_infos(&infos);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    pmix_proc_t me;
    pmix_info_t info = { .key = PMIX_TIMEOUT, .value = value_int(argc > 1 ? atoi(argv[1]) : 0) };
    pmix_status_t status = PMIx_Init(&me, argc > 1 ? &info : NULL, argc > 1);
    say("rank %s: %s (%d)", rank, PMIx_Error_string(status), status);
    if (status != PMIX_SUCCESS) {
        return 0;
    }
    stop_here(&me);
    status = PMIx_Fence(NULL, 0, NULL, 0);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Finalize(NULL, 0);
    }
    say("rank %s: %s", rank, status == PMIX_SUCCESS ? "through" : PMIx_Error_string(status));
    return status != PMIX_SUCCESS;
}
