/* A host that prints the arguments of its upcalls, and one rank that makes the calls of a script.
 *
 *   upcalls        the host; starts the rank, which reads the script
 *   upcalls ask    the rank
 *
 * The words of a script are those of script.h. Each line names a call and its infos; a second list follows a ")". The host
 * writes "upcall NAME ( INFOS )" for each upcall, with a second list after a "|" where there is one; the rank then writes "NAME status STATUS"
 * with the infos that the call returned. Some upcalls return their own infos.
 *
 *   publish, lookup, unpublish, fence, connect, disconnect, alloc, jobctrl, getcred, valcred, fabric   INFOS
 *   spawn INFOS ) INFOS          infos of the job and of its application
 *   log INFOS ) INFOS            data and directives
 *   monitor INFO ) INFOS         monitor and directives
 *   query INFOS ) INFOS          the keys of the first, with the second as qualifiers
 *   group INFOS                  of the rank and one elsewhere
 *   events INFOS, notify INFOS   registers for an event of the environment, reports one
 *   get INFOS                    a key of the rank that is elsewhere
 */
#define PROGRAM "upcalls"
#include "script.h"

#include <sys/wait.h>

extern char **environ;

#define NSPACE "job"
static const char keys_of_lookup[] = "site.key";

/* ---- the rank --------------------------------------------------------------------------------------------------- */

static void end_call(const char *what, pmix_status_t status, pmix_info_t *results, size_t count)
{
    printf("%s status %d ", what, status);
    if (results != NULL) {
        print_infos(results, count);
        PMIX_INFO_FREE(results, count);
    }
    printf("\n");
    fflush(stdout);
}

static void handled(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void call(const char *what)
{
    pmix_proc_t procs[] = { proc_of(NSPACE, 0), proc_of(NSPACE, 1) };
    infos_t infos = next_infos(), more = next_infos();
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    char *keys[] = { copy_text(keys_of_lookup), NULL };
    if (strcmp(what, "publish") == 0) {
        status = PMIx_Publish(infos.items, infos.count);
    } else if (strcmp(what, "lookup") == 0) {
        pmix_pdata_t data = { .key = "" };
        strcpy(data.key, keys_of_lookup);
        status = PMIx_Lookup(&data, 1, infos.items, infos.count);
    } else if (strcmp(what, "unpublish") == 0) {
        status = PMIx_Unpublish(keys, infos.items, infos.count);
    } else if (strcmp(what, "spawn") == 0) {
        pmix_app_t app = { .cmd = "program", .maxprocs = 1, .info = more.items, .ninfo = more.count };
        pmix_nspace_t nspace = "";
        status = PMIx_Spawn(infos.items, infos.count, &app, 1, nspace);
    } else if (strcmp(what, "fence") == 0) {
        status = PMIx_Fence(procs, 2, infos.items, infos.count);
    } else if (strcmp(what, "connect") == 0) {
        status = PMIx_Connect(procs, 2, infos.items, infos.count);
    } else if (strcmp(what, "disconnect") == 0) {
        status = PMIx_Connect(procs, 2, NULL, 0);
        if (status == PMIX_SUCCESS) {
            status = PMIx_Disconnect(procs, 2, infos.items, infos.count);
        }
    } else if (strcmp(what, "alloc") == 0) {
        status = PMIx_Allocation_request(PMIX_ALLOC_NEW, infos.items, infos.count, &results, &count);
    } else if (strcmp(what, "jobctrl") == 0) {
        status = PMIx_Job_control(procs, 2, infos.items, infos.count, &results, &count);
    } else if (strcmp(what, "monitor") == 0) {
        status = PMIx_Process_monitor(infos.items, PMIX_ERR_TIMEOUT, more.items, more.count, &results, &count);
    } else if (strcmp(what, "log") == 0) {
        status = PMIx_Log(infos.items, infos.count, more.items, more.count);
    } else if (strcmp(what, "query") == 0) {
        pmix_query_t query = { .qualifiers = more.items, .nqual = more.count };
        query.keys = need(calloc(infos.count + 1, sizeof(char *)));
        for (size_t i = 0; i < infos.count; i++) {
            query.keys[i] = infos.items[i].key;
        }
        status = PMIx_Query_info(&query, 1, &results, &count);
        free(query.keys);
    } else if (strcmp(what, "getcred") == 0) {
        pmix_byte_object_t credential = { 0 };
        status = PMIx_Get_credential(infos.items, infos.count, &credential);
        free(credential.bytes);
    } else if (strcmp(what, "valcred") == 0) {
        pmix_byte_object_t credential = { .bytes = "secret", .size = 6 };
        status = PMIx_Validate_credential(&credential, infos.items, infos.count, &results, &count);
    } else if (strcmp(what, "fabric") == 0) {
        pmix_fabric_t fabric;
        PMIX_FABRIC_CONSTRUCT(&fabric);
        status = PMIx_Fabric_register(&fabric, infos.items, infos.count);
        results = fabric.info;
        count = fabric.ninfo;
    } else if (strcmp(what, "group") == 0) {
        status = PMIx_Group_construct("group", procs, 2, infos.items, infos.count, &results, &count);
    } else if (strcmp(what, "events") == 0) {
        pmix_status_t code = PMIX_EVENT_NODE_DOWN;
        status = PMIx_Register_event_handler(&code, 1, infos.items, infos.count, handled, NULL, NULL);
        status = status < 0 ? status : PMIX_SUCCESS;
    } else if (strcmp(what, "notify") == 0) {
        status = PMIx_Notify_event(PMIX_EVENT_NODE_DOWN, &procs[0], PMIX_RANGE_SESSION, infos.items, infos.count, NULL,
                                   NULL);
        status = status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
    } else if (strcmp(what, "get") == 0) {
        pmix_value_t *value = NULL;
        status = PMIx_Get(&procs[1], "site.key", infos.items, infos.count, &value);
    } else {
        fail("no such call", what);
    }
    free(keys[0]);
    PMIX_INFO_FREE(infos.items, infos.count);
    PMIX_INFO_FREE(more.items, more.count);
    end_call(what, status, results, count);
}

/* ---- the host's upcalls -------------------------------------------------------------------------------------------- */

/* Prints the infos of an upcall, sorted by key (a copy is sorted). */
static void say_infos(const pmix_info_t *given, size_t count)
{
    pmix_info_t *infos = need(malloc(count * sizeof(*infos) + 1));
    memcpy(infos, given, count * sizeof(*infos));
    print_infos(infos, count);
    free(infos);
}

static pmix_status_t told(const char *what, const pmix_info_t *info, size_t ninfo, const pmix_info_t *more, size_t nmore)
{
    printf("upcall %s ", what);
    say_infos(info, ninfo);
    if (more != NULL) {
        printf(" | ");
        say_infos(more, nmore);
    }
    printf("\n");
    fflush(stdout);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                             void *cbdata)
{
    (void) proc, (void) cbfunc, (void) cbdata;
    return told("publish", info, ninfo, NULL, 0);
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                            pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) keys, (void) cbfunc, (void) cbdata;
    told("lookup", info, ninfo, NULL, 0);
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                               pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) keys, (void) cbfunc, (void) cbdata;
    return told("unpublish", info, ninfo, NULL, 0);
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t job_info[], size_t ninfo, const pmix_app_t apps[],
                           size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) napps;
    told("spawn", job_info, ninfo, apps[0].info, apps[0].ninfo);
    cbfunc(PMIX_SUCCESS, (char *) "spawned", cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                              size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    (void) procs, (void) nprocs;
    told("fence", info, ninfo, NULL, 0);
    cbfunc(PMIX_SUCCESS, data, ndata, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                  pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) cbfunc, (void) cbdata;
    told("get", info, ninfo, NULL, 0);
    return PMIX_ERR_NOT_FOUND;
}

static pmix_status_t connect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                   pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) procs, (void) nprocs, (void) cbfunc, (void) cbdata;
    return told("connect", info, ninfo, NULL, 0);
}

static pmix_status_t disconnect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                      pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) procs, (void) nprocs, (void) cbfunc, (void) cbdata;
    return told("disconnect", info, ninfo, NULL, 0);
}

static pmix_status_t register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) codes, (void) ncodes, (void) cbfunc, (void) cbdata;
    return told("events", info, ninfo, NULL, 0);
}

static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) code, (void) source, (void) cbfunc, (void) cbdata;
    pmix_info_t in_what = { .key = PMIX_RANGE, .value = { .type = PMIX_DATA_RANGE } };
    in_what.value.data.range = range;
    return told("notify", info, ninfo, &in_what, 1);
}

/* Answers with each key, and the qualifiers. */
static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t cbfunc,
                           void *cbdata)
{
    (void) proc, (void) nqueries;
    infos_t answers = { 0 };
    for (char **key = queries[0].keys; *key != NULL; key++) {
        add(&answers, *key, value_string("asked"));
    }
    told("query", answers.items, answers.count, queries[0].qualifiers, queries[0].nqual);
    cbfunc(PMIX_SUCCESS, answers.items, answers.count, cbdata, NULL, NULL);
    free_infos(&answers);
    return PMIX_SUCCESS;
}

static void log_data(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                     size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) client;
    told("log", data, ndata, directives, ndirs);
    if (cbfunc != NULL) {
        cbfunc(PMIX_SUCCESS, cbdata);
    }
}

static pmix_status_t give_back(const char *what, const pmix_info_t *info, size_t ninfo, pmix_info_cbfunc_t cbfunc,
                               void *cbdata)
{
    told(what, info, ninfo, NULL, 0);
    cbfunc(PMIX_SUCCESS, (pmix_info_t *) info, ninfo, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t allocate(const pmix_proc_t *client, pmix_alloc_directive_t directive, const pmix_info_t data[],
                              size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) client, (void) directive;
    return give_back("alloc", data, ndata, cbfunc, cbdata);
}

static pmix_status_t fabric(const pmix_proc_t *requestor, pmix_fabric_operation_t op, const pmix_info_t directives[],
                            size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) requestor, (void) op;
    return give_back("fabric", directives, ndirs, cbfunc, cbdata);
}

static pmix_status_t job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) requestor, (void) targets, (void) ntargets;
    return give_back("jobctrl", directives, ndirs, cbfunc, cbdata);
}

static pmix_status_t monitor(const pmix_proc_t *requestor, const pmix_info_t *what, pmix_status_t error,
                             const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) requestor, (void) error;
    told("monitor", what, 1, directives, ndirs);
    cbfunc(PMIX_SUCCESS, (pmix_info_t *) directives, ndirs, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t get_credential(const pmix_proc_t *proc, const pmix_info_t directives[], size_t ndirs,
                                    pmix_credential_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc;
    told("getcred", directives, ndirs, NULL, 0);
    pmix_byte_object_t credential = { .bytes = "secret", .size = 6 };
    cbfunc(PMIX_SUCCESS, &credential, NULL, 0, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t validate_credential(const pmix_proc_t *proc, const pmix_byte_object_t *credential,
                                         const pmix_info_t directives[], size_t ndirs, pmix_validation_cbfunc_t cbfunc,
                                         void *cbdata)
{
    (void) proc, (void) credential;
    told("valcred", directives, ndirs, NULL, 0);
    cbfunc(PMIX_SUCCESS, (pmix_info_t *) directives, ndirs, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t group(pmix_group_operation_t op, char name[], const pmix_proc_t procs[], size_t nprocs,
                           const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) op, (void) name, (void) procs, (void) nprocs;
    told("group", directives, ndirs, NULL, 0);
    pmix_info_t context = { .key = PMIX_GROUP_CONTEXT_ID, .value = { .type = PMIX_SIZE } };
    context.value.data.size = 4711;
    cbfunc(PMIX_SUCCESS, &context, 1, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

/* ---- the host -------------------------------------------------------------------------------------------------- */

static void need_success(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        fail(what, PMIx_Error_string(status));
    }
}

/* A job whose other rank is on another node, so that collectives reach the host. */
static void register_job(const pmix_proc_t *proc)
{
    infos_t infos = { 0 };
    add(&infos, PMIX_JOB_SIZE, value_uint32(2));
    add(&infos, PMIX_NODE_MAP, value_string("here,elsewhere"));
    add(&infos, PMIX_PROC_MAP, value_string("0;1"));
    need_success("register_nspace", PMIx_server_register_nspace(proc->nspace, 1, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
    need_success("register_client", PMIx_server_register_client(proc, getuid(), getgid(), NULL, NULL, NULL));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "ask") == 0) {
        alarm(300);
        return run_script(call);
    }
    static pmix_server_module_t module = {
        .fence_nb = fence_nb,
        .direct_modex = direct_modex,
        .publish = publish,
        .lookup = lookup,
        .unpublish = unpublish,
        .spawn = spawn,
        .connect = connect_procs,
        .disconnect = disconnect_procs,
        .register_events = register_events,
        .notify_event = notify_event,
        .query = query,
        .log = log_data,
        .allocate = allocate,
        .job_control = job_control,
        .monitor = monitor,
        .get_credential = get_credential,
        .validate_credential = validate_credential,
        .group = group,
        .fabric = fabric,
    };
    need_success("PMIx_server_init", PMIx_server_init(&module, NULL, 0));
    pmix_proc_t proc = proc_of(NSPACE, 0);
    register_job(&proc);
    pmix_status_t status = PMIX_SUCCESS;
    char **env = NULL;
    for (size_t i = 0; environ[i] != NULL && status == PMIX_SUCCESS; i++) {
        PMIX_ARGV_APPEND(status, env, environ[i]);
    }
    need_success("environment", status);
    need_success("PMIx_server_setup_fork", PMIx_server_setup_fork(&proc, &env));
    pid_t child = fork();
    if (child == 0) {
        char *args[] = { argv[0], "ask", NULL };
        execve(argv[0], args, env);
        _exit(72);
    }
    int code = 0;
    if (child < 0 || waitpid(child, &code, 0) != child) {
        fail("no rank", strerror(errno));
    }
    PMIX_ARGV_FREE(env);
    printf("rank ended with %d\n", code);
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1;
}
