/* Blocking calls inside callbacks of every kind: "KIND CALL STATUS" for each, and "KIND stuck" where one does not come back.
 *
 *   callbacks [external] [output]
 *                          two ranks; rank 0 makes the calls, rank 1 takes part. With external they progress the library themselves. With
 *                          output only in the handler of another's output, under host.c
 *   callbacks ends KIND    one rank, whose last finalize is inside an event handler (event) or a completion callback (completion)
 *   callbacks host         a host; its upcalls and its callbacks make the calls. It starts one rank of this program
 *   callbacks rank         that rank
 */
#include "common.h"

#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

extern char **environ;

static pmix_proc_t me, other, job;
static bool is_external, of_output;
static const char *volatile kind = "none";
static volatile sig_atomic_t finished;

static void told(const char *what, pmix_status_t status) { say("%s %s %d", kind, what, status); }

static void stuck(int signal)
{
    (void) signal;
    say("%s stuck", kind);
    _exit(99);
}

static void handled(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void free_results(pmix_info_t *results, size_t count)
{
    if (results != NULL) {
        PMIX_INFO_FREE(results, count);
    }
}

/* ---- the calls ------------------------------------------------------------------------------------------------------------ */

/* Those that hosts make, too. */
static void common_calls(void)
{
    pmix_value_t *value = NULL, one = value_int(1);
    pmix_info_t limit = { .key = PMIX_TIMEOUT, .value = value_int(1) };
    told("put", PMIx_Put(PMIX_GLOBAL, "in.callback", &one));
    told("commit", PMIx_Commit());
    pmix_status_t status = PMIx_Get(&me, "in.callback", NULL, 0, &value);
    told("get", status);
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
    told("fence_alone", PMIx_Fence(&me, 1, NULL, 0));
    pmix_info_t data = { .key = "site.callback", .value = value_int(1) };
    status = PMIx_Publish(&data, 1);
    told("publish", status);
    pmix_pdata_t found = { .key = "site.callback" };
    told("lookup", PMIx_Lookup(&found, 1, &limit, 1));
    char *keys[] = { "site.callback", NULL };
    told("unpublish", PMIx_Unpublish(keys, NULL, 0));
    status = PMIx_Notify_event(-3500, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL);
    told("notify", status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
    pmix_status_t code = -3501;
    status = PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
    told("register", status < 0 ? status : PMIX_SUCCESS);
    if (status >= 0) {
        status = PMIx_Deregister_event_handler(status, NULL, NULL);
        told("deregister", status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
    }
    char *asked[] = { PMIX_QUERY_NAMESPACES, NULL };
    pmix_query_t query = { .keys = asked };
    pmix_info_t *results = NULL;
    size_t count = 0;
    told("query", PMIx_Query_info(&query, 1, &results, &count));
    free_results(results, count);
    pmix_info_t line = { .key = PMIX_LOG_STDOUT, .value = value_string("") };
    told("log", PMIx_Log(&line, 1, NULL, 0));
    free_value(&line.value);
    pmix_proc_t *procs = NULL;
    char *nodes = NULL;
    told("resolve_peers", PMIx_Resolve_peers(NULL, job.nspace, &procs, &count));
    free(procs);
    told("resolve_nodes", PMIx_Resolve_nodes(job.nspace, &nodes));
    free(nodes);
    pmix_app_t app = { .cmd = "/bin/true", .maxprocs = 1 };
    char *args[] = { "/bin/true", NULL };
    app.argv = args;
    pmix_nspace_t nspace;
    told("spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace));
}

/* Those of a rank with a neighbour, which enters a fence for each kind. */
static void calls_of_rank(void)
{
    pmix_value_t *value = NULL;
    pmix_info_t limit = { .key = PMIX_TIMEOUT, .value = value_int(1) };
    pmix_status_t status = PMIx_Get(&other, "of.other", NULL, 0, &value);
    told("get_other", status);
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
    told("get_missing", PMIx_Get(&other, "never.put", &limit, 1, &value));
    common_calls();
    told("fence", PMIx_Fence(NULL, 0, NULL, 0));
    pmix_proc_t both[] = { me, other };
    told("connect", PMIx_Connect(both, 2, NULL, 0));
    told("disconnect", PMIx_Disconnect(both, 2, NULL, 0));
    pmix_info_t *results = NULL;
    size_t count = 0;
    told("group_construct", PMIx_Group_construct("together", both, 2, NULL, 0, &results, &count));
    free_results(results, count);
    told("group_destruct", PMIx_Group_destruct("together", NULL, 0));
    results = NULL;
    told("group_invite", PMIx_Group_invite("invited", both, 2, &limit, 1, &results, &count));
    free_results(results, count);
    results = NULL;
    told("group_join", PMIx_Group_join("joined", &other, PMIX_GROUP_ACCEPT, &limit, 1, &results, &count));
    free_results(results, count);
    told("job_control", PMIx_Job_control(&other, 1, NULL, 0, &results, &count));
    pmix_byte_object_t credential = { 0 };
    told("get_credential", PMIx_Get_credential(NULL, 0, &credential));
    free(credential.bytes);
    pmix_proc_t again;
    told("init", PMIx_Init(&again, NULL, 0));
    told("finalize", PMIx_Finalize(NULL, 0));
}

static void take_part(void)
{
    pmix_proc_t both[] = { other, me };
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t fenced = PMIx_Fence(NULL, 0, NULL, 0), connected = PMIx_Connect(both, 2, NULL, 0),
                  ended = PMIx_Disconnect(both, 2, NULL, 0),
                  formed = PMIx_Group_construct("together", both, 2, NULL, 0, &results, &count);
    free_results(results, count);
    pmix_status_t dissolved = PMIx_Group_destruct("together", NULL, 0);
    /* Not every host forms groups. */
    bool has_groups = formed != PMIX_ERR_NOT_SUPPORTED;
    if (fenced != 0 || connected != 0 || ended != 0 || (has_groups && (formed != 0 || dissolved != 0))) {
        say("FAIL the other one: %d %d %d %d %d", fenced, connected, ended, formed, dissolved);
    }
}

/* ---- the kinds of callback of a rank ------------------------------------------------------------------------------------------ */

static void (*calls)(void) = calls_of_rank;

static void run(void)
{
    if (!finished) {
        calls();
        finished = 1;
    }
}

static void in_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    run();
    handled(id, status, source, info, ninfo, results, nresults, cbfunc, cbdata);
}

static void in_op(pmix_status_t status, void *cbdata)
{
    (void) status, (void) cbdata;
    run();
}

static void in_value(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void) status, (void) value, (void) cbdata;
    run();
}

static void in_lookup(pmix_status_t status, pmix_pdata_t data[], size_t count, void *cbdata)
{
    (void) status, (void) data, (void) count, (void) cbdata;
    run();
}

static void in_spawn(pmix_status_t status, pmix_nspace_t nspace, void *cbdata)
{
    (void) status, (void) nspace, (void) cbdata;
    run();
}

static void in_info(pmix_status_t status, pmix_info_t *info, size_t count, void *cbdata, pmix_release_cbfunc_t release,
                    void *release_cbdata)
{
    (void) status, (void) info, (void) count, (void) cbdata;
    run();
    if (release != NULL) {
        release(release_cbdata);
    }
}

static void in_registration(pmix_status_t status, size_t id, void *cbdata)
{
    (void) status, (void) id, (void) cbdata;
    run();
}

static void in_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload, pmix_info_t info[],
                      size_t ninfo)
{
    (void) id, (void) channel, (void) source, (void) payload, (void) info, (void) ninfo;
    run();
}

static void in_push(pmix_status_t status, void *cbdata) { (void) status, (void) cbdata; }

static void begin(const char *name)
{
    finished = 0;
    kind = name;
    alarm(60);
}

static void until_finished(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("FAIL %s: %s", what, PMIx_Error_string(status));
        _exit(98);
    }
    while (!finished) {
        if (is_external) {
            PMIx_Progress();
        }
        usleep(1000);
    }
}

/* With the calls outside. */
#define KINDS (of_output ? 2 : 9)

static void make_calls(void)
{
    /* Outside, to compare. */
    begin("outside");
    run();
    if (of_output) {
        begin("output");
        pmix_status_t pulled = PMIx_IOF_pull(&other, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, in_output, NULL, NULL);
        /* The host prints what a process gets as its input. */
        pmix_byte_object_t text = { .bytes = "output", .size = 6 };
        until_finished("pull", pulled < 0 ? pulled : PMIx_IOF_push(&other, 1, &text, NULL, 0, in_push, NULL));
        return;
    }
    pmix_status_t code = -3600;
    pmix_status_t handler = PMIx_Register_event_handler(&code, 1, NULL, 0, in_event, NULL, NULL);
    begin("event");
    until_finished("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    PMIx_Deregister_event_handler(handler, NULL, NULL);
    begin("op");
    until_finished("fence_nb", PMIx_Fence_nb(&me, 1, NULL, 0, in_op, NULL));
    begin("value");
    until_finished("get_nb", PMIx_Get_nb(&other, "of.other", NULL, 0, in_value, NULL));
    begin("lookup");
    char *keys[] = { "site.nothing", NULL };
    until_finished("lookup_nb", PMIx_Lookup_nb(keys, NULL, 0, in_lookup, NULL));
    begin("info");
    static char *asked[] = { PMIX_QUERY_NAMESPACES, NULL };
    static pmix_query_t query = { .keys = asked };
    until_finished("query_nb", PMIx_Query_info_nb(&query, 1, in_info, NULL));
    begin("spawn");
    static char *args[] = { "/bin/true", NULL };
    static pmix_app_t app = { .cmd = "/bin/true", .argv = args, .maxprocs = 1 };
    until_finished("spawn_nb", PMIx_Spawn_nb(NULL, 0, &app, 1, in_spawn, NULL));
    begin("registration");
    code = -3601;
    until_finished("register", PMIx_Register_event_handler(&code, 1, NULL, 0, handled, in_registration, NULL));
    begin("deregistration");
    code = -3602;
    handler = PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
    until_finished("deregister", PMIx_Deregister_event_handler(handler, in_op, NULL));
}

/* The callbacks that are due when a process finalizes come inside PMIx_Finalize. */
static void in_finalize(void)
{
    pmix_value_t *value = NULL;
    told("get", PMIx_Get(&other, "of.other", NULL, 0, &value));
    told("fence", PMIx_Fence(NULL, 0, NULL, 0));
    pmix_proc_t both[] = { me, other };
    pmix_info_t *results = NULL;
    size_t count = 0;
    told("group_invite", PMIx_Group_invite("invited", both, 2, NULL, 0, &results, &count));
    told("group_join", PMIx_Group_join("joined", &other, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count));
    char *nodes = NULL;
    pmix_nspace_t unknown = "another.job";
    told("resolve_nodes", PMIx_Resolve_nodes(unknown, &nodes));
    told("get_missing", PMIx_Get(&other, "never.put", NULL, 0, &value));
    told("commit", PMIx_Commit());
    pmix_info_t data = { .key = "site.callback", .value = value_int(1) };
    told("publish", PMIx_Publish(&data, 1));
    told("notify", PMIx_Notify_event(-3500, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    pmix_status_t code = -3501;
    pmix_status_t status = PMIx_Register_event_handler(&code, 1, NULL, 0, handled, NULL, NULL);
    told("register", status < 0 ? status : PMIX_SUCCESS);
    told("finalize", PMIx_Finalize(NULL, 0));
}

static int two_ranks(void)
{
    pmix_info_t external = { .key = PMIX_EXTERNAL_PROGRESS, .value = value_bool(true) };
    pmix_status_t status = PMIx_Init(&me, &external, is_external ? 1 : 0);
    if (status != PMIX_SUCCESS) {
        say("FAIL init %d", status);
        return 1;
    }
    other = me;
    other.rank = 1 - me.rank;
    job = me;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t value = value_int(getpid());
    PMIx_Put(PMIX_GLOBAL, "of.other", &value);
    PMIx_Commit();
    fence_of_all(true);
    if (me.rank == 0) {
        make_calls();
    } else {
        for (int i = 0; i < KINDS; i++) {
            take_part();
        }
    }
    fence_of_all(false);
    if (me.rank == 0) {
        begin("finalizer");
        calls = in_finalize;
        status = PMIx_Get_nb(&other, "never.put", NULL, 0, in_value, NULL);
        if (status != PMIX_SUCCESS) {
            say("FAIL get_nb %d", status);
        }
    } else {
        /* If this rank finalized first, that Get would be answered before rank 0 finalizes. */
        pmix_value_t *pid = NULL;
        PMIx_Get(&other, "of.other", NULL, 0, &pid);
        for (int i = 0; pid != NULL && i < 1000 && kill(pid->data.integer, 0) == 0; i++) {
            usleep(10000);
        }
        free(pid);
    }
    say("%u finalize %d", me.rank, PMIx_Finalize(NULL, 0));
    return 0;
}

static void ends(void)
{
    told("finalize", PMIx_Finalize(NULL, 0));
    pmix_value_t *value = NULL;
    told("get", PMIx_Get(&me, "of.other", NULL, 0, &value));
}

/* The thread that ran the callback ends. */
static void await_end_of_threads(void)
{
    for (int i = 0; i < 3000 && count_entries("/proc/self/task") > 1; i++) {
        usleep(10000);
    }
    say("threads %zu", (size_t) count_entries("/proc/self/task"));
}

static int one_rank(const char *how)
{
    calls = ends;
    PMIx_Init(&me, NULL, 0);
    begin(how);
    pmix_status_t code = -3600;
    if (strcmp(how, "event") == 0) {
        PMIx_Register_event_handler(&code, 1, NULL, 0, in_event, NULL, NULL);
        until_finished("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    } else {
        until_finished("fence_nb", PMIx_Fence_nb(&me, 1, NULL, 0, in_op, NULL));
    }
    await_end_of_threads();
    say("init again %d", PMIx_Init(&me, NULL, 0));
    say("finalize again %d", PMIx_Finalize(NULL, 0));
    return 0;
}

/* ---- the host -------------------------------------------------------------------------------------------------------------------- */

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int published_count, asked_count;

/* What a host calls of the server interface. */
static void calls_of_host(void)
{
    pmix_info_t size = { .key = PMIX_JOB_SIZE, .value = value_uint32(1) };
    pmix_proc_t proc = proc_of("job-in-callback", 0);
    char **env = NULL;
    told("register_nspace", PMIx_server_register_nspace(proc.nspace, 1, &size, 1, NULL, NULL));
    told("register_client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    told("setup_fork", PMIx_server_setup_fork(&proc, &env));
    PMIx_server_deregister_client(&proc, NULL, NULL);
    PMIx_server_deregister_nspace(proc.nspace, NULL, NULL);
    told("deregister_nspace", PMIX_SUCCESS);
    common_calls();
}

static void in_host(const char *name)
{
    const char *before = kind;
    kind = name;
    calls_of_host();
    kind = before;
    finished = 1;
}

static pmix_status_t host_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                  void *cbdata)
{
    __atomic_add_fetch(&published_count, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, "site.of.rank") == 0) {
            in_host("upcall");
        }
    }
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t host_lookup(const pmix_proc_t *proc, char **names, const pmix_info_t info[], size_t ninfo,
                                 pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    __atomic_add_fetch(&asked_count, 1, __ATOMIC_RELAXED);
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t host_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    in_host("finalized");
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t host_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    in_host("connected");
    return PMIX_SUCCESS;
}

static void host_op(pmix_status_t status, void *cbdata) { in_host(cbdata); }

static void host_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    in_host("event");
    handled(id, status, source, info, ninfo, results, nresults, cbfunc, cbdata);
}

static void host_ends(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                      pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    say("server_finalize %d", PMIx_server_finalize());
    finished = 1;
}

static void host_modex(pmix_status_t status, char *data, size_t size, void *cbdata) { in_host("modex"); }

static void host_set_up(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *provided, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    in_host("setup");
    if (cbfunc != NULL) {
        cbfunc(PMIX_SUCCESS, cbdata);
    }
}

static void await_host(const char *what, pmix_status_t status)
{
    if (status != PMIX_OPERATION_SUCCEEDED) {
        until_finished(what, status);
    } else {
        say("FAIL %s was done at once", what);
    }
}

static int host(const char *program)
{
    static pmix_server_module_t module = { .client_connected = NULL, .client_finalized = host_finalized, .publish = host_publish,
                                           .lookup = host_lookup };
    const char *tmpdir = getenv("TMPDIR");
    infos_t infos = { 0 };
    module.client_connected = (pmix_server_client_connected_fn_t) host_connected;
    add(&infos, PMIX_SERVER_TMPDIR, value_string(tmpdir != NULL ? tmpdir : "/tmp"));
    add(&infos, PMIX_SERVER_NSPACE, value_string("the-host"));
    add(&infos, PMIX_SERVER_RANK, value_rank(0));
    pmix_status_t status = PMIx_server_init(&module, infos.items, infos.count);
    if (status != PMIX_SUCCESS) {
        say("FAIL server_init %d", status);
        return 1;
    }
    me = proc_of("the-host", 0);
    job = proc_of("job", PMIX_RANK_WILDCARD);
    pmix_proc_t proc = proc_of("job", 0);
    pmix_info_t size = { .key = PMIX_JOB_SIZE, .value = value_uint32(1) };
    char **env = NULL;
    kind = "none";
    finished = 0;
    alarm(60);
    await_host("register_nspace", PMIx_server_register_nspace(proc.nspace, 1, &size, 1, host_op, "namespace"));
    finished = 0;
    await_host("register_client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, host_op, "client"));
    finished = 0;
    await_host("setup_application", PMIx_server_setup_application(proc.nspace, NULL, 0, host_set_up, NULL));
    finished = 0;
    pmix_status_t code = -3600;
    PMIx_Register_event_handler(&code, 1, NULL, 0, host_event, NULL, NULL);
    await_host("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL) < 0 ? PMIX_ERROR : PMIX_SUCCESS);
    finished = 0;
    pmix_info_t data = { .key = "site.callback", .value = value_int(1) };
    await_host("publish_nb", PMIx_Publish_nb(&data, 1, host_op, "own"));
    PMIx_server_setup_fork(&proc, &env);
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (char **variable = env; variable != NULL && *variable != NULL; variable++) {
            putenv(*variable);
        }
        char *args[] = { (char *) program, "rank", NULL };
        execve("/proc/self/exe", args, environ);
        _exit(127);
    }
    int state = 0;
    finished = 0;
    await_host("dmodex_request", PMIx_server_dmodex_request(&proc, host_modex, NULL));
    waitpid(child, &state, 0);
    int before = __atomic_load_n(&published_count, __ATOMIC_RELAXED), looked = __atomic_load_n(&asked_count, __ATOMIC_RELAXED);
    say("published %d, looked up %d", before, looked);
    /* The end in a callback. */
    finished = 0;
    code = -3601;
    PMIx_Register_event_handler(&code, 1, NULL, 0, host_ends, NULL, NULL);
    until_finished("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    await_end_of_threads();
    return state;
}

static int rank(void)
{
    pmix_proc_t name;
    pmix_value_t one = value_int(1);
    pmix_info_t data = { .key = "site.of.rank", .value = value_int(1) };
    say("rank init %d", PMIx_Init(&name, NULL, 0));
    PMIx_Put(PMIX_GLOBAL, "of.rank", &one);
    PMIx_Commit();
    say("rank publish %d", PMIx_Publish(&data, 1));
    say("rank finalize %d", PMIx_Finalize(NULL, 0));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    signal(SIGALRM, stuck);
    for (int i = 1; i < argc; i++) {
        is_external |= strcmp(argv[i], "external") == 0;
        of_output |= strcmp(argv[i], "output") == 0;
    }
    if (strcmp(mode, "host") == 0) {
        return host(argv[0]);
    }
    if (strcmp(mode, "rank") == 0) {
        return rank();
    }
    return strcmp(mode, "ends") == 0 && argc > 2 ? one_rank(argv[2]) : two_ranks();
}
