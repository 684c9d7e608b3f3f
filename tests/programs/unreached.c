/* A process whose environment names a server that has ended: what it can still do, as beside the stock library.
 *
 *   unreached [finalize]
 *
 * Prints a line for each call. With `finalize` it ends the library and begins it again; some stock releases crash there.
 */
#include "common.h"

#include <semaphore.h>

static sem_t answered;
static pmix_status_t answer, event;

static void registered(pmix_status_t status, size_t id, void *data)
{
    (void) id;
    (void) data;
    answer = status;
    sem_post(&answered);
}

static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t count,
                  pmix_info_t results[], size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id;
    (void) source;
    (void) infos;
    (void) count;
    (void) results;
    (void) result_count;
    event = status;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    sem_post(&answered);
}

int main(int argc, char **argv)
{
    (void) argv;
    pmix_proc_t me = { .rank = PMIX_RANK_UNDEF };
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 1;
    pmix_value_t value = value_int(4711), *found = NULL;
    sem_init(&answered, 0, 0);
    alarm(60);
    say("PMIx_Init: %d", PMIx_Init(&me, NULL, 0));
    say("initialized: %d", PMIx_Initialized());
    say("I am %s:%u", me.nspace, me.rank);
    /* Open MPI 5 waits for this callback without end. */
    say("PMIx_Register_event_handler: %d", PMIx_Register_event_handler(&code, 1, NULL, 0, heard, registered, NULL));
    sem_wait(&answered);
    say("callback: %d", answer);
    say("PMIx_Notify_event: %d", PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    sem_wait(&answered);
    say("heard: %d", event);
    say("PMIx_Put: %d", PMIx_Put(PMIX_GLOBAL, "key", &value));
    say("PMIx_Commit: %d", PMIx_Commit());
    say("PMIx_Fence: %d", PMIx_Fence(NULL, 0, NULL, 0));
    say("PMIx_Get: %d", PMIx_Get(&me, "key", NULL, 0, &found));
    say("PMIx_Init again: %d", PMIx_Init(&me, NULL, 0));
    say("PMIx_Finalize: %d", PMIx_Finalize(NULL, 0));
    if (argc > 1) {
        say("PMIx_Finalize: %d", PMIx_Finalize(NULL, 0));
        say("initialized: %d", PMIx_Initialized());
        say("PMIx_Init: %d", PMIx_Init(&me, NULL, 0));
        say("PMIx_Finalize: %d", PMIx_Finalize(NULL, 0));
        say("initialized: %d", PMIx_Initialized());
    }
    say("done");
    /* Nothing that a library does at the end of a process. */
    _exit(0);
}
