/* A small debugger's front end, as an example: it finds a launcher, waits until the ranks of its job wait for a debugger, prints their
 * processes, to which a debugger would attach now, and lets them go on.
 *
 *   frontend (--pid PID | --uri URI) [--stops COUNT] [--range rm|local] [--show COMMAND] [--daemon PROGRAM]
 *
 * COUNT is how often the ranks stop (1). With --range the release goes to the launcher, or to all processes of the node, instead of
 * to the ranks. COMMAND is run, with the processes' numbers in $PIDS, while the ranks wait. PROGRAM is started as the debugger's daemon,
 * one process, since the job has one node (tests/programs/daemon.c is one). The ranks wait until it has ended.
 * Exit status 0 if all of it succeeded.
 */
#include "common.h"

#include <pmix_tool.h>

#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool has_ended;
/* Events that the ranks wait; and of these the ones after the stop on exec, whose event may be forgotten. */
static int told, later;

/* Of both events: that the ranks wait, and that the daemon has ended. */
static void heard(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) source;
    (void) results;
    (void) nresults;
    bool is_exec = false;
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_BREAKPOINT) == 0) {
            say("ready: at %s", info[i].value.data.string);
            is_exec = strcmp(info[i].value.data.string, "pmix-exec") == 0;
        } else if (strcmp(info[i].key, PMIX_JOB_TERM_STATUS) == 0) {
            say("the daemon has ended: %d", info[i].value.data.status);
        }
    }
    pthread_mutex_lock(&lock);
    if (status == PMIX_EVENT_JOB_END) {
        has_ended = true;
    } else {
        told++;
        later += !is_exec;
    }
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Starts the debugger's daemon for a job, and waits until it has ended. */
static void run_daemon(const char *program, const char *job)
{
    pmix_proc_t target = proc_of(job, PMIX_RANK_WILDCARD);
    infos_t of_job = { 0 };
    add(&of_job, PMIX_DEBUGGER_DAEMONS, value_bool(true));
    add(&of_job, PMIX_DEBUG_TARGET, value_proc(&target));
    char *words[] = { (char *) program, NULL };
    pmix_app_t app = { .cmd = (char *) program, .argv = words, .maxprocs = 1 };
    pmix_nspace_t nspace = "";
    pmix_status_t status = PMIx_Spawn(of_job.items, of_job.count, &app, 1, nspace);
    say("daemon: %d", status);
    free_infos(&of_job);
    if (status != PMIX_SUCCESS) {
        exit(1);
    }
    pthread_mutex_lock(&lock);
    while (!has_ended) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Waits for so many events, at most for so many seconds: one that came before this program was connected may have been forgotten. */
static void await_events(const int *counter, int count, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&lock);
    while (*counter < count && pthread_cond_timedwait(&changed, &lock, &until) == 0) {
    }
    pthread_mutex_unlock(&lock);
}

/* The answer to a query of one key about a job, or about everything; ends the program if there is none. */
static pmix_value_t *ask(char *key, const char *job)
{
    char *keys[] = { key, NULL };
    infos_t infos = { 0 };
    if (job != NULL) {
        add(&infos, PMIX_NSPACE, value_string(job));
    }
    pmix_query_t query = { .keys = keys, .qualifiers = infos.items, .nqual = infos.count };
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Query_info(&query, 1, &results, &count);
    if (status != PMIX_SUCCESS || count == 0) {
        say("query %s: %s (%d)", key, PMIx_Error_string(status), status);
        exit(1);
    }
    free_infos(&infos);
    return &results[0].value;
}

/* The name of the launcher's job. A launcher that has just started answers tools before it has one. */
static char *await_job(void)
{
    const struct timespec pause = { 0, 20 * 1000 * 1000 };
    const char *job;
    while ((job = ask(PMIX_QUERY_NAMESPACES, NULL)->data.string) == NULL || *job == '\0') {
        nanosleep(&pause, NULL);
    }
    return copy_text(job);
}

static void show(const char *job, const char *command)
{
    char pids[1024] = "";
    const pmix_data_array_t *table = ask(PMIX_QUERY_PROC_TABLE, job)->data.darray;
    const pmix_proc_info_t *rows = table->array;
    for (size_t i = 0; i < table->size; i++) {
        size_t len = strlen(pids);
        say("rank %u: pid %d on %s, state %u, %s", rows[i].proc.rank, rows[i].pid, rows[i].hostname, rows[i].state,
            rows[i].executable_name);
        snprintf(pids + len, sizeof(pids) - len, " %d", rows[i].pid);
    }
    setenv("PIDS", pids, 1);
    if (command != NULL && system(command) != 0) {
        say("%s failed", command);
        exit(1);
    }
}

static void release(const pmix_proc_t *me, const char *job, const char *to)
{
    pmix_proc_t ranks = proc_of(job, PMIX_RANK_WILDCARD);
    pmix_data_range_t range = to == NULL ? PMIX_RANGE_CUSTOM : strcmp(to, "rm") == 0 ? PMIX_RANGE_RM : PMIX_RANGE_LOCAL;
    infos_t infos = { 0 };
    if (range != PMIX_RANGE_LOCAL) {
        add(&infos, PMIX_EVENT_CUSTOM_RANGE, value_proc(&ranks));
    }
    add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
    pmix_status_t status = PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, me, range, infos.items, infos.count, NULL, NULL);
    say("release: %d", status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
    free_infos(&infos);
}

int main(int argc, char **argv)
{
    infos_t server = { 0 };
    const char *range = NULL, *command = NULL, *daemon = NULL;
    int stops = 1;
    for (int at = 1; at + 1 < argc; at += 2) {
        const char *name = argv[at], *value = argv[at + 1];
        if (strcmp(name, "--pid") == 0) {
            pmix_value_t pid = { .type = PMIX_PID };
            pid.data.pid = atoi(value);
            add(&server, PMIX_SERVER_PIDINFO, pid);
        } else if (strcmp(name, "--uri") == 0) {
            add(&server, PMIX_SERVER_URI, value_string(value));
        } else if (strcmp(name, "--stops") == 0) {
            stops = atoi(value);
        } else if (strcmp(name, "--range") == 0) {
            range = value;
        } else if (strcmp(name, "--show") == 0) {
            command = value;
        } else if (strcmp(name, "--daemon") == 0) {
            daemon = value;
        }
    }
    pmix_proc_t me = proc_of("", 0);
    pmix_status_t status = PMIx_tool_init(&me, server.items, server.count);
    if (status != PMIX_SUCCESS) {
        say("no launcher: %s (%d)", PMIx_Error_string(status), status);
        return 1;
    }
    /* First the handler, then the query: so no event is missed. */
    pmix_status_t codes[] = { PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END };
    if (PMIx_Register_event_handler(codes, 2, NULL, 0, heard, NULL, NULL) < 0) {
        say("no handler");
        return 1;
    }
    char *job = await_job();
    say("job: %s, stops: %s", job, ask(PMIX_QUERY_DEBUG_SUPPORT, NULL)->data.string);
    for (int stop = 1; stop <= stops; stop++) {
        while (ask(PMIX_QUERY_JOB_STATUS, job)->data.status != PMIX_READY_FOR_DEBUG) {
            await_events(&told, stop, 1);
        }
        show(job, command);
        if (daemon != NULL) {
            run_daemon(daemon, job);
            daemon = NULL;
        }
        release(&me, job, range);
    }
    /* The status may be known before the event is here, and a finalize drops events. */
    if (stops > 1) {
        await_events(&later, stops - 1, 30);
    }
    status = PMIx_tool_finalize();
    say("finalize: %d", status);
    return status != PMIX_SUCCESS;
}
