/* Ranks that have themselves watched, on one server.
 *
 *   watched [--files]
 *
 * Rank 0 asks for heartbeats and sends none; rank 1 asks for them and sends them. With --files rank 0 also has a file watched that
 * it never touches, another one that it writes to again and again, and ends a third monitor by its name. Rank 1 hears of what
 * falls silent, and of nothing else; both print "rank N: through".
 */
#include "common.h"

#define SILENT_CODE (PMIX_EXTERNAL_ERR_BASE - 1) /* of what is not to be told */
#define FILE_CODE (PMIX_EXTERNAL_ERR_BASE - 2)

static pmix_proc_t me;
static int beats_missed, files_stalled, others;

static void must(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("FAIL rank %u: %s: %d", me.rank, what, status);
        exit(1);
    }
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    bool is_of_first = strcmp(source->nspace, me.nspace) == 0 && source->rank == 0;
    int *counter = !is_of_first                           ? &others
                   : status == PMIX_MONITOR_HEARTBEAT_ALERT ? &beats_missed
                   : status == FILE_CODE                    ? &files_stalled
                                                            : &others;
    say("rank %u hears %d of rank %u", me.rank, status, source->rank);
    __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static int read_count(int *counter) { return __atomic_load_n(counter, __ATOMIC_ACQUIRE); }

static void watch(pmix_info_t *what, pmix_status_t code, infos_t *directives)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    must(PMIx_Process_monitor(what, code, directives->items, directives->count, &results, &count), what->key);
    free_infos(directives);
}

static void watch_beats(uint32_t seconds, uint32_t drops)
{
    infos_t what = { 0 }, directives = { 0 };
    pmix_value_t nothing = { .type = PMIX_POINTER };
    add(&what, PMIX_MONITOR_HEARTBEAT, nothing);
    add(&directives, PMIX_MONITOR_ID, value_string("beats"));
    add(&directives, PMIX_MONITOR_HEARTBEAT_TIME, value_uint32(seconds));
    add(&directives, PMIX_MONITOR_HEARTBEAT_DROPS, value_uint32(drops));
    watch(what.items, PMIX_MONITOR_HEARTBEAT_ALERT, &directives);
    free_infos(&what);
}

static void watch_file(const char *path, const char *id, pmix_status_t code, uint32_t drops)
{
    infos_t what = { 0 }, directives = { 0 };
    add(&what, PMIX_MONITOR_FILE, value_string(path));
    add(&directives, PMIX_MONITOR_ID, value_string(id));
    add(&directives, PMIX_MONITOR_FILE_SIZE, value_bool(true));
    add(&directives, PMIX_MONITOR_FILE_CHECK_TIME, value_uint32(1));
    add(&directives, PMIX_MONITOR_FILE_DROPS, value_uint32(drops));
    watch(what.items, code, &directives);
    free_infos(&what);
}

static void make_file(char *path, size_t len, const char *name)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, len, "%s/watched-%s-%d", directory != NULL ? directory : "/tmp", name, (int) getpid());
    FILE *file = need(fopen(path, "w"));
    fputs("watched", file);
    fclose(file);
}

static void fence(void)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    must(PMIx_Fence(&all, 1, NULL, 0), "fence");
}

/* Says that this process lives, until everything is heard that is to be. */
static void live_until(bool with_files)
{
    for (int i = 0; i < 1200 && (read_count(&beats_missed) == 0 || (with_files && read_count(&files_stalled) == 0)); i++) {
        PMIx_Heartbeat();
        usleep(50000);
    }
}

int main(int argc, char **argv)
{
    bool with_files = argc > 1 && strcmp(argv[1], "--files") == 0;
    char quiet[512] = "", busy[512] = "";
    must(PMIx_Init(&me, NULL, 0), "init");
    must(PMIx_Register_event_handler(NULL, 0, NULL, 0, handler, NULL, NULL) < 0 ? PMIX_ERROR : PMIX_SUCCESS, "register");
    fence();
    if (me.rank == 0) {
        watch_beats(1, 1);
        if (with_files) {
            make_file(quiet, sizeof(quiet), "quiet");
            make_file(busy, sizeof(busy), "busy");
            watch_file(quiet, "quiet", FILE_CODE, 2);
            /* Nobody could wait for so long. */
            watch_file(busy, "busy", SILENT_CODE, 100000);
            watch_file(quiet, "ended", SILENT_CODE, 1);
            infos_t what = { 0 }, nothing = { 0 };
            add(&what, PMIX_MONITOR_CANCEL, value_string("ended"));
            watch(what.items, PMIX_SUCCESS, &nothing);
            free_infos(&what);
        }
    } else {
        /* A machine may stand still for a while. */
        watch_beats(2, 10);
        live_until(with_files);
        if (read_count(&beats_missed) == 0 || (with_files && read_count(&files_stalled) != 1)) {
            say("FAIL: heard of %d missing beats and %d files", beats_missed, files_stalled);
        }
    }
    fence();
    if (read_count(&others) != 0) {
        say("FAIL rank %u: heard of %d other things", me.rank, others);
    }
    if (quiet[0] != '\0') {
        unlink(quiet);
        unlink(busy);
    }
    say("rank %u: through", me.rank);
    must(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
}
