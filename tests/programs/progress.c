/* A rank that progresses the library itself (PMIX_EXTERNAL_PROGRESS): no thread but its own, and callbacks in PMIx_Progress alone.
 *
 *   progress        under a host, two ranks
 */
#include "common.h"

#include <pthread.h>

static pthread_t own;
static volatile int registered, fenced, heard;

static void check(const char *what, bool is_good)
{
    if (!is_good) {
        say("FAIL %s", what);
    }
}

static void is_registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void) id;
    (void) cbdata;
    check("a handler is registered on this thread", status == PMIX_SUCCESS && pthread_equal(pthread_self(), own));
    registered = 1;
}

static void is_fenced(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    check("a fence ends on this thread", status == PMIX_SUCCESS && pthread_equal(pthread_self(), own));
    fenced = 1;
}

static void hears(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) status;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    check("an event comes on this thread", pthread_equal(pthread_self(), own));
    /* A callback may progress, too. */
    PMIx_Progress();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    heard = 1;
}

/* Nothing runs before PMIx_Progress is called. */
static void progress_until(const char *what, volatile int *flag)
{
    usleep(50000);
    check(what, *flag == 0);
    for (int i = 0; i < 10000 && *flag == 0; i++) {
        PMIx_Progress();
        usleep(1000);
    }
    check(what, *flag == 1);
}

int main(void)
{
    pmix_proc_t me;
    infos_t infos = { 0 };
    pmix_status_t code = -3456;
    own = pthread_self();
    add(&infos, PMIX_EXTERNAL_PROGRESS, value_bool(true));
    check("init", PMIx_Init(&me, infos.items, infos.count) == PMIX_SUCCESS);
    check("register", PMIx_Register_event_handler(&code, 1, NULL, 0, hears, is_registered, NULL) == PMIX_SUCCESS);
    progress_until("the handler is registered by PMIx_Progress", &registered);
    check("fence", PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS);
    if (me.rank == 0) {
        check("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL) == PMIX_SUCCESS);
    } else {
        progress_until("an event comes by PMIx_Progress", &heard);
    }
    check("fence_nb", PMIx_Fence_nb(NULL, 0, NULL, 0, is_fenced, NULL) == PMIX_SUCCESS);
    progress_until("a fence ends by PMIx_Progress", &fenced);
    check("there is one thread", count_entries("/proc/self/task") == 1);
    check("finalize", PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    say("%u: through", me.rank);
    return 0;
}
