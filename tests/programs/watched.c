/* Ranks that request monitoring, on one server.
 *
 *   watched [--files | --usage PROCESSES]
 *
 * Rank 0 requests heartbeat monitoring and sends none; rank 1 requests it and sends them. With --files rank 0 also monitors a file that
 * it never touches and another one that it writes to repeatedly, and cancels a third monitor by its name. Rank 1 gets events for the
 * silent ones, and for nothing else; both print "rank N: through".
 *
 * With --usage rank 0 requests the usage of the PROCESSES of the job whose process ID the server knows, and of the node, repeatedly
 * until it has got two reports. Rank 1 gets none.
 */
#include "common.h"

#define SILENT_CODE (PMIX_EXTERNAL_ERR_BASE - 1) /* of the event that must not arrive */
#define FILE_CODE (PMIX_EXTERNAL_ERR_BASE - 2)

/* Names of later releases than the headers. */
#ifndef PMIX_MONITOR_RESUSAGE_UPDATE
#    define PMIX_MONITOR_RESUSAGE_UPDATE -114
#    define PMIX_MONITOR_RESOURCE_RATE "pmix.monitor.resrate"
#    define PMIX_MONITOR_PROC_RESOURCE_USAGE "pmix.monitor.presuse"
#    define PMIX_MONITOR_NODE_RESOURCE_USAGE "pmix.monitor.ndresuse"
#    define PMIX_PROC_RESOURCE_USAGE "pmix.proc.res"
#    define PMIX_NODE_RESOURCE_USAGE "pmix.node.res"
#    define PMIX_PROC_RSS "pmix.proc.rss"
#    define PMIX_NODE_MEM_TOTAL "pmix.node.mtot"
#endif

static pmix_proc_t me;
static int updates;
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

/* The value of a key in an array of infos. */
static const pmix_value_t *inner(const pmix_info_t *info, const char *key)
{
    const pmix_data_array_t *array = info->value.type == PMIX_DATA_ARRAY ? info->value.data.darray : NULL;
    const pmix_info_t *infos = array != NULL && array->type == PMIX_INFO ? array->array : NULL;
    for (size_t i = 0; infos != NULL && i < array->size; i++) {
        if (strncmp(infos[i].key, key, PMIX_MAX_KEYLEN) == 0) {
            return &infos[i].value;
        }
    }
    return NULL;
}

static bool is_positive(const pmix_value_t *value) { return value != NULL && value->type == PMIX_FLOAT && value->data.fval > 0; }

static void update_handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                           pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) status;
    (void) source;
    (void) results;
    (void) nresults;
    for (size_t i = 0; i < ninfo; i++) {
        if (strncmp(info[i].key, PMIX_NODE_RESOURCE_USAGE, PMIX_MAX_KEYLEN) == 0) {
            __atomic_fetch_add(is_positive(inner(&info[i], PMIX_NODE_MEM_TOTAL)) ? &updates : &others, 1, __ATOMIC_ACQ_REL);
        }
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Requests usage, every `rate` seconds or once; returns the number of answers. */
static size_t use(const char *key, uint32_t rate, pmix_info_t **results)
{
    infos_t what = { 0 }, nothing = { 0 }, directives = { 0 };
    size_t count = 0;
    add(&what, key, value_infos(&nothing));
    add(&directives, PMIX_MONITOR_ID, value_string("usage"));
    add(&directives, PMIX_MONITOR_RESOURCE_RATE, value_uint32(rate));
    must(PMIx_Process_monitor(what.items, PMIX_MONITOR_RESUSAGE_UPDATE, directives.items, directives.count, results, &count), key);
    free_infos(&what);
    free_infos(&directives);
    return count;
}

static void ask_for_usage(size_t processes)
{
    pmix_info_t *results = NULL;
    size_t count = use(PMIX_MONITOR_PROC_RESOURCE_USAGE, 0, &results), own = 0;
    for (size_t i = 0; i < count; i++) {
        const pmix_value_t *proc = inner(&results[i], PMIX_PROCID), *pid = inner(&results[i], PMIX_PROC_PID);
        if (proc == NULL || proc->type != PMIX_PROC || pid == NULL || !is_positive(inner(&results[i], PMIX_PROC_RSS))) {
            say("FAIL: process %zu of %zu", i, count);
        } else if (proc->data.proc->rank == me.rank) {
            own += pid->data.pid == getpid();
        }
    }
    if (count != processes || own != (processes > 0)) {
        say("FAIL: told of %zu processes and %zu times of itself", count, own);
    }
    results = NULL;
    count = use(PMIX_MONITOR_NODE_RESOURCE_USAGE, 1, &results);
    if (count != 1 || !is_positive(inner(&results[0], PMIX_NODE_MEM_TOTAL))) {
        say("FAIL: told of %zu nodes", count);
    }
    for (int i = 0; i < 1200 && read_count(&updates) < 2; i++) {
        usleep(50000);
    }
    if (read_count(&updates) < 2) {
        say("FAIL: %d updates", read_count(&updates));
    }
    infos_t what = { 0 }, nothing = { 0 };
    add(&what, PMIX_MONITOR_CANCEL, value_string("usage"));
    watch(what.items, PMIX_SUCCESS, &nothing);
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
    bool with_usage = argc > 2 && strcmp(argv[1], "--usage") == 0;
    char quiet[512] = "", busy[512] = "";
    must(PMIx_Init(&me, NULL, 0), "init");
    must(PMIx_Register_event_handler(NULL, 0, NULL, 0, handler, NULL, NULL) < 0 ? PMIX_ERROR : PMIX_SUCCESS, "register");
    pmix_status_t update = PMIX_MONITOR_RESUSAGE_UPDATE;
    must(PMIx_Register_event_handler(&update, 1, NULL, 0, update_handler, NULL, NULL) < 0 ? PMIX_ERROR : PMIX_SUCCESS, "register");
    fence();
    if (with_usage) {
        if (me.rank == 0) {
            ask_for_usage(strtoul(argv[2], NULL, 10));
        }
    } else if (me.rank == 0) {
        watch_beats(1, 1);
        if (with_files) {
            make_file(quiet, sizeof(quiet), "quiet");
            make_file(busy, sizeof(busy), "busy");
            watch_file(quiet, "quiet", FILE_CODE, 2);
            /* Longer than the test runs. */
            watch_file(busy, "busy", SILENT_CODE, 100000);
            watch_file(quiet, "ended", SILENT_CODE, 1);
            infos_t what = { 0 }, nothing = { 0 };
            add(&what, PMIX_MONITOR_CANCEL, value_string("ended"));
            watch(what.items, PMIX_SUCCESS, &nothing);
            free_infos(&what);
        }
    } else {
        /* A machine may be suspended for a while. */
        watch_beats(2, 10);
        live_until(with_files);
        if (read_count(&beats_missed) == 0 || (with_files && read_count(&files_stalled) != 1)) {
            say("FAIL: heard of %d missing beats and %d files", beats_missed, files_stalled);
        }
    }
    fence();
    if (read_count(&others) != 0 || (me.rank != 0 && read_count(&updates) != 0)) {
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
