/* Three ranks under pmixrun. Rank 0 asks the others for checkpoints, in each way that there is, and prints the answers; they print what
 * they are asked.
 *
 *   checkpoint
 */
#include "common.h"
#include "counter.h"

#include <signal.h>

static counter_t asked = COUNTER, registered = COUNTER;
static char name_of_last[64];

static void on_checkpoint(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                          pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) results, (void) nresults;
    strcpy(name_of_last, "-");
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_JOB_CTRL_CHECKPOINT) == 0) {
            snprintf(name_of_last, sizeof(name_of_last), "%s", info[i].value.data.string);
        }
    }
    count_one(&asked);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void on_registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void) id, (void) cbdata;
    if (status != PMIX_SUCCESS) {
        say("handler: %d", status);
    }
    count_one(&registered);
}

static pmix_proc_t me;
static int events = 0;

static void fence(void)
{
    pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("rank %u: fence %d", me.rank, status);
    }
}

/* Rank 0 makes the request. */
static void request(const char *what, infos_t *infos)
{
    pmix_proc_t others[] = { proc_of(me.nspace, 1), proc_of(me.nspace, 2) };
    pmix_info_t *results = NULL;
    size_t count = 0;
    say("%s: %d", what, PMIx_Job_control(others, 2, infos->items, infos->count, &results, &count));
    free_infos(infos);
}

/* A rank waits for the event, and tells this status with this range. */
static void answer(const char *what, pmix_status_t code, pmix_data_range_t range, bool names_it)
{
    await_count(&asked, ++events);
    say("rank %u: %s %s", me.rank, what, name_of_last);
    infos_t infos = { 0 };
    if (names_it) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string(name_of_last));
    }
    pmix_status_t status = PMIx_Notify_event(code, &me, range, infos.items, infos.count, NULL, NULL);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("rank %u: notify %d", me.rank, status);
    }
    free_infos(&infos);
}

int main(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    pmix_status_t status = PMIx_Init(&me, NULL, 0), code = PMIX_JCTRL_CHECKPOINT;
    if (status != PMIX_SUCCESS) {
        say("init: %d", status);
        return 1;
    }
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_checkpoint, on_registered, NULL);
    await_count(&registered, 1);
    fence();

    /* By an event; both tell that they are done, one to the node and one to the launcher alone. */
    infos_t infos = { 0 };
    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("nightly"));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_EVENT, value_bool(true));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT, value_int(60));
        request("event", &infos);
    } else {
        answer("event", PMIX_JCTRL_CHECKPOINT_COMPLETE, me.rank == 1 ? PMIX_RANGE_LOCAL : PMIX_RANGE_RM, true);
    }
    fence();

    /* By a signal, of which the launcher hears no more. */
    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("signalled"));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, value_int(SIGUSR2));
        request("signal", &infos);
    } else {
        int number = 0;
        sigwait(&signals, &number);
        say("rank %u: signal %d", me.rank, number);
    }
    fence();

    /* As the job has told that it wants it; without that there is no way. */
    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("unknown"));
        request("unknown", &infos);
        infos_t method = { 0 };
        add(&method, PMIX_JOB_CTRL_CHECKPOINT_EVENT, value_bool(true));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_METHOD, value_infos(&method));
        request("method", &infos);
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("declared"));
        request("declared", &infos);
    } else {
        answer("declared", PMIX_JCTRL_CHECKPOINT_COMPLETE, PMIX_RANGE_GLOBAL, false);
    }
    fence();

    /* One fails. */
    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("failed"));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_EVENT, value_bool(true));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT, value_int(60));
        request("failed", &infos);
    } else {
        answer("failed", me.rank == 1 ? PMIX_ERR_PROC_CHECKPOINT : PMIX_JCTRL_CHECKPOINT_COMPLETE, PMIX_RANGE_RM, true);
    }
    fence();

    /* Nobody says a word. */
    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT, value_string("silent"));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_EVENT, value_bool(true));
        add(&infos, PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT, value_int(1));
        request("silent", &infos);
    }
    fence();

    if (me.rank == 0) {
        add(&infos, PMIX_JOB_CTRL_RESTART, value_string("nightly"));
        request("restart", &infos);
    }
    status = finalize_together();
    return status != PMIX_SUCCESS;
}
