/* A process that nobody launched, which starts a server for itself and joins it, as Open MPI's singletons do to spawn.
 *
 *   alone SERVER_LIB     the directory of the server's library
 *
 * The process puts a value and registers an event handler before it has a server. The server is this program again, started with the
 * process's name, and ends when the process closes a pipe. Each prints a line for each step that it has made.
 */
#include "common.h"

#include <pmix_server.h>

#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define NEWS (PMIX_EXTERNAL_ERR_BASE - 1)

static sem_t happened;
static sem_t finished;

/* Waits, but not for ever: stock libraries leave some of this out. */
static void wait_briefly(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    sem_timedwait(semaphore, &until);
}

/* ---- the server ---- */

static pmix_spawn_cbfunc_t spawn_answer;
static void *spawn_asker;

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void) done;
    (void) data;
    say("server: %s:%u connected, object %s", proc->nspace, proc->rank, object == NULL ? "none" : "some");
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void) object;
    (void) done;
    (void) data;
    say("server: %s:%u finalized", proc->nspace, proc->rank);
    return PMIX_OPERATION_SUCCEEDED;
}

/* Stock clients that nobody launched come as tools. */
static void tool_connected(pmix_info_t *infos, size_t count, pmix_tool_connection_cbfunc_t done, void *data)
{
    pmix_proc_t proc = { .rank = 0 };
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].key, PMIX_NSPACE) == 0) {
            strcpy(proc.nspace, infos[i].value.data.string);
        }
    }
    say("server: %s:%u connected, object none", proc.nspace, proc.rank);
    done(PMIX_SUCCESS, &proc, data);
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t *infos, size_t count, const pmix_app_t *apps,
                           size_t app_count, pmix_spawn_cbfunc_t done, void *data)
{
    (void) infos;
    (void) count;
    (void) app_count;
    say("server: %s:%u spawns %s", proc->nspace, proc->rank, apps[0].cmd);
    spawn_answer = done;
    spawn_asker = data;
    sem_post(&happened);
    return PMIX_SUCCESS;
}

static void starter_ended(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *infos, size_t count,
                          pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id;
    (void) status;
    (void) source;
    (void) infos;
    (void) count;
    (void) results;
    (void) result_count;
    say("server: the starter has ended");
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    sem_post(&finished);
}

static int serve(const char *name, const char *report)
{
    pmix_server_module_t module = {
        .client_connected = client_connected,
        .client_finalized = client_finalized,
        .spawn = spawn,
        .tool_connected = tool_connected,
    };
    pmix_info_t infos[3] = { 0 };
    PMIX_INFO_LOAD(&infos[0], PMIX_SINGLETON, name, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], PMIX_TCP_REPORT_URI, report, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_SERVER_TMPDIR, getenv("ALONE_TMPDIR"), PMIX_STRING);
    pmix_status_t status = PMIx_server_init(&module, infos, 3);
    if (status != PMIX_SUCCESS) {
        say("server: init %d", status);
        return 1;
    }
    pmix_status_t code = PMIX_ERR_JOB_TERMINATED;
    pmix_proc_t starter = { .nspace = "PMIX_KEEPALIVE_PIPE", .rank = PMIX_RANK_UNDEF };
    pmix_info_t about = { 0 };
    PMIX_INFO_LOAD(&about, PMIX_EVENT_AFFECTED_PROC, &starter, PMIX_PROC);
    PMIx_Register_event_handler(&code, 1, &about, 1, starter_ended, NULL, NULL);
    say("server: the variable is %s", getenv("PMIX_KEEPALIVE_PIPE") == NULL ? "gone" : "there");
    /* The process may connect before its job is registered. */
    usleep(100000);
    pmix_proc_t proc = { 0 };
    const char *dot = strrchr(name, '.');
    memcpy(proc.nspace, name, dot - name);
    uint32_t one = 1;
    pmix_info_t job;
    PMIX_INFO_LOAD(&job, PMIX_JOB_SIZE, &one, PMIX_UINT32);
    PMIx_server_register_nspace(proc.nspace, 1, &job, 1, NULL, NULL);

    sem_wait(&happened);
    pmix_value_t *found = NULL;
    status = PMIx_Get(&proc, "key", NULL, 0, &found);
    say("server: get %d %d", status, status == PMIX_SUCCESS ? found->data.integer : 0);
    pmix_proc_t me = { .rank = 0 };
    strcpy(me.nspace, "alone-server");
    PMIx_Notify_event(NEWS, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL);
    char children[PMIX_MAX_NSLEN + 1] = "children";
    spawn_answer(PMIX_SUCCESS, children, spawn_asker);
    /* Debian's 4.2.2 cannot bear output here. */
    if (getenv("ALONE_OUTPUT") != NULL) {
        pmix_proc_t child = { .rank = 0 };
        strcpy(child.nspace, children);
        pmix_byte_object_t text = { .bytes = "child: hello\n", .size = 13 };
        PMIx_server_IOF_deliver(&child, PMIX_FWD_STDOUT_CHANNEL, &text, NULL, 0, NULL, NULL);
    }
    sem_wait(&finished);
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1;
}

/* ---- the process ---- */

static void hear(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *infos, size_t count,
                 pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id;
    (void) source;
    (void) infos;
    (void) count;
    (void) results;
    (void) result_count;
    say("process: heard %s", status == NEWS ? "the news" : "something else");
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    sem_post(&happened);
}

static void registered(pmix_status_t status, size_t id, void *data)
{
    (void) status;
    (void) id;
    (void) data;
    sem_post(&finished);
}

/* Starts the server; gives its address. */
static pid_t start_server(const char *self, const pmix_proc_t *me, const char *library, char *uri, size_t len, int *alive)
{
    int ends[2], life[2];
    if (pipe(ends) != 0 || pipe(life) != 0) {
        exit(71);
    }
    pid_t server = fork();
    if (server == 0) {
        char name[PMIX_MAX_NSLEN + 16], report[16], keepalive[16];
        close(life[1]);
        snprintf(name, sizeof(name), "%s.%u", me->nspace, me->rank);
        snprintf(report, sizeof(report), "%d", ends[1]);
        snprintf(keepalive, sizeof(keepalive), "%d", life[0]);
        setenv("PMIX_KEEPALIVE_PIPE", keepalive, 1);
        setenv("LD_LIBRARY_PATH", library, 1);
        execl(self, self, "--serve", name, report, NULL);
        _exit(127);
    }
    close(ends[1]);
    close(life[0]);
    *alive = life[1];
    size_t got = 0;
    ssize_t more;
    while (got < len - 1 && (more = read(ends[0], uri + got, len - 1 - got)) > 0 && memchr(uri, '\n', got + more) == NULL) {
        got += more;
    }
    close(ends[0]);
    return server;
}

int main(int argc, char **argv)
{
    sem_init(&happened, 0, 0);
    sem_init(&finished, 0, 0);
    if (argc > 3 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2], argv[3]);
    }
    pmix_proc_t me;
    say("process: init %d", PMIx_Init(&me, NULL, 0));
    pmix_status_t status, news = NEWS;
    PMIx_Register_event_handler(&news, 1, NULL, 0, hear, registered, NULL);
    sem_wait(&finished);
    pmix_value_t value = { .type = PMIX_INT, .data.integer = 4711 };
    say("process: put %d", PMIx_Put(PMIX_GLOBAL, "key", &value));

    static char uri[1024];
    int alive;
    pid_t server = start_server(argv[0], &me, argv[1], uri, sizeof(uri), &alive);
    pmix_info_t address = { 0 };
    PMIX_INFO_LOAD(&address, PMIX_SERVER_URI, uri, PMIX_STRING);
    status = PMIx_Init(NULL, &address, 1);
    say("process: join %d", status);
    if (status != PMIX_SUCCESS) {
        kill(server, SIGKILL);
        return 1;
    }
    PMIx_Finalize(NULL, 0);
    say("process: commit %d", PMIx_Commit());

    pmix_app_t app = { .cmd = "child", .maxprocs = 1 };
    char children[PMIX_MAX_NSLEN + 1] = "";
    status = PMIx_Spawn(NULL, 0, &app, 1, children);
    say("process: spawn %d %s", status, children);
    /* Stock libraries do not tell the server of handlers that were registered before. */
    wait_briefly(&happened);
    pmix_value_t *found = NULL;
    status = PMIx_Get(&me, "key", NULL, 0, &found);
    say("process: get %d %d", status, status == PMIX_SUCCESS ? found->data.integer : 0);
    say("process: finalize %d", PMIx_Finalize(NULL, 0));
    close(alive);
    int ended = -1;
    waitpid(server, &ended, 0);
    say("process: server %d", ended);
    return 0;
}
