/* Blocking calls with PMIX_TIMEOUT under a host that never answers.
 *
 *   timeouts           the host; starts three ranks of this program on nodeA and a tool, and leaves one rank of the job, 2 on nodeB, out
 *   timeouts rank      what the host starts
 *
 * The host keeps each upcall that has a PMIX_TIMEOUT, and answers all others. Rank 0 makes each call in a thread of its own: "row NAME STATUS".
 * Rank 1 is in no call meanwhile. Rank 3 finalizes with a fence that nobody enters, and its host does not answer the finalize. The host never
 * admits the tool. When all rows are there, the host answers what it has kept, and rank 0 goes on as if nothing had been.
 * TIMEOUTS_RANK_LIB names the directory of the ranks' library. With TIMEOUTS_STOCK the library of
 * the host is a stock one, which the host and rank 0 leave then.
 */
#include "common.h"

#include <dlfcn.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

#define NSPACE "job"
#define SECONDS_MAX 30

static pmix_info_t limit[1]; /* PMIX_TIMEOUT */

static pmix_proc_t near(void) { return proc_of(NSPACE, 1); }
static pmix_proc_t far(void) { return proc_of(NSPACE, 2); }

/* ---- calls with a callback: the caller waits for it ------------------------------------------------------------------ */

typedef struct {
    pmix_status_t status;
    bool is_over;
} result_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void end(void *cbdata, pmix_status_t status)
{
    result_t *result = cbdata;
    pthread_mutex_lock(&lock);
    if (result->is_over) {
        say("FAIL a second callback");
    }
    *result = (result_t) { status, true };
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void op_ended(pmix_status_t status, void *cbdata) { end(cbdata, status); }

static void value_ended(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void) value;
    end(cbdata, status);
}

static void lookup_ended(pmix_status_t status, pmix_pdata_t data[], size_t count, void *cbdata)
{
    (void) data, (void) count;
    end(cbdata, status);
}

static void spawn_ended(pmix_status_t status, pmix_nspace_t nspace, void *cbdata)
{
    (void) nspace;
    end(cbdata, status);
}

static void info_ended(pmix_status_t status, pmix_info_t *info, size_t count, void *cbdata, pmix_release_cbfunc_t release,
                       void *release_cbdata)
{
    (void) info, (void) count;
    if (release != NULL) {
        release(release_cbdata);
    }
    end(cbdata, status);
}

static void credential_ended(pmix_status_t status, pmix_byte_object_t *credential, pmix_info_t info[], size_t count, void *cbdata)
{
    (void) credential, (void) info, (void) count;
    end(cbdata, status);
}

static void validation_ended(pmix_status_t status, pmix_info_t info[], size_t count, void *cbdata)
{
    (void) info, (void) count;
    end(cbdata, status);
}

static void registration_ended(pmix_status_t status, size_t id, void *cbdata)
{
    (void) id;
    end(cbdata, status);
}

static pmix_status_t await(pmix_status_t status, result_t *result)
{
    if (status != PMIX_SUCCESS) {
        return status;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2 * SECONDS_MAX;
    pthread_mutex_lock(&lock);
    while (!result->is_over && pthread_cond_timedwait(&changed, &lock, &until) == 0) {
    }
    pmix_status_t ended = result->is_over ? result->status : PMIX_ERROR;
    pthread_mutex_unlock(&lock);
    return ended;
}

/* A result lives as long as the process: a callback that comes late must find it. */
#define LATER(result, call)                                                                                            \
    result_t *result = need(calloc(1, sizeof(result_t)));                                                              \
    return await(call, result)

/* ---- the rows ---------------------------------------------------------------------------------------------------------- */

static void handled(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    if (cbfunc != NULL) {
        cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void printed(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload, pmix_info_t info[],
                    size_t ninfo)
{
    (void) id, (void) channel, (void) source, (void) payload, (void) info, (void) ninfo;
}

static size_t pull; /* of output, which row iof_deregister ends */
static char rfc_nspace[PMIX_MAX_NSLEN + 1];

#define PROCS(other) pmix_proc_t procs[] = { proc_of(NSPACE, 0), other() }
#define WITH limit, 1

static pmix_status_t fence(void) { PROCS(near); return PMIx_Fence(procs, 2, WITH); }
static pmix_status_t fence_far(void) { PROCS(far); return PMIx_Fence(procs, 2, WITH); }
static pmix_status_t fence_nb(void) { PROCS(far); LATER(r, PMIx_Fence_nb(procs, 2, WITH, op_ended, r)); }
static pmix_status_t connects(void) { PROCS(near); return PMIx_Connect(procs, 2, WITH); }
static pmix_status_t connect_far(void) { PROCS(far); return PMIx_Connect(procs, 2, WITH); }
static pmix_status_t connect_nb(void) { PROCS(far); LATER(r, PMIx_Connect_nb(procs, 2, WITH, op_ended, r)); }
static pmix_status_t disconnects(void) { PROCS(near); return PMIx_Disconnect(procs, 2, WITH); }

static pmix_status_t rfc_connect(void)
{
    PROCS(far);
    char nspace[PMIX_MAX_NSLEN + 1];
    pmix_rank_t rank;
    pmix_status_t (*call)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, char *, pmix_rank_t *) =
        dlsym(RTLD_DEFAULT, "pmix_dstore_connect");
    return call == NULL ? PMIX_ERR_TIMEOUT : call(procs, 2, WITH, nspace, &rank);
}

static pmix_status_t rfc_disconnect(void)
{
    pmix_status_t (*call)(const char *, const pmix_info_t *, size_t) = dlsym(RTLD_DEFAULT, "pmix_dstore_disconnect");
    return call == NULL ? PMIX_ERR_TIMEOUT : call(rfc_nspace, WITH);
}

static pmix_status_t get_of(pmix_proc_t proc)
{
    pmix_value_t *value = NULL;
    return PMIx_Get(&proc, "never.put", WITH, &value);
}

static pmix_status_t get(void) { return get_of(near()); }
static pmix_status_t get_far(void) { return get_of(far()); }
static pmix_status_t get_nb(void)
{
    pmix_proc_t proc = far();
    LATER(r, PMIx_Get_nb(&proc, "never.put.too", WITH, value_ended, r));
}

/* A value and the time-out. */
static void published(pmix_info_t infos[2])
{
    memset(infos, 0, 2 * sizeof(*infos));
    strcpy(infos[0].key, "site.value");
    infos[0].value = value_int(1);
    infos[1] = limit[0];
}

static pmix_status_t publish(void) { pmix_info_t infos[2]; published(infos); return PMIx_Publish(infos, 2); }
static pmix_status_t publish_nb(void)
{
    pmix_info_t infos[2];
    published(infos);
    LATER(r, PMIx_Publish_nb(infos, 2, op_ended, r));
}

static char *keys[] = { "site.value", NULL };

static pmix_status_t lookup(void)
{
    pmix_pdata_t data = { .key = "site.value" };
    pmix_info_t infos[2] = { limit[0], { .key = PMIX_WAIT, .value = value_int(0) } };
    return PMIx_Lookup(&data, 1, infos, 2);
}
static pmix_status_t lookup_nb(void) { LATER(r, PMIx_Lookup_nb(keys, WITH, lookup_ended, r)); }
static pmix_status_t unpublish(void) { return PMIx_Unpublish(keys, WITH); }
static pmix_status_t unpublish_nb(void) { LATER(r, PMIx_Unpublish_nb(keys, WITH, op_ended, r)); }

static pmix_app_t app = { .cmd = "true", .maxprocs = 1 };
static pmix_status_t spawn(void) { pmix_nspace_t nspace; return PMIx_Spawn(WITH, &app, 1, nspace); }
static pmix_status_t spawn_nb(void) { LATER(r, PMIx_Spawn_nb(WITH, &app, 1, spawn_ended, r)); }

static char *asked[] = { "site.question", NULL };
static pmix_status_t query(void)
{
    pmix_query_t query = { .keys = asked, .qualifiers = limit, .nqual = 1 };
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Query_info(&query, 1, &results, &count);
}
static pmix_status_t query_nb(void)
{
    /* The keys must live on. */
    static pmix_query_t query = { .keys = asked, .qualifiers = limit, .nqual = 1 };
    LATER(r, PMIx_Query_info_nb(&query, 1, info_ended, r));
}

static pmix_info_t text[1]; /* something to log */
static pmix_status_t logs(void) { return PMIx_Log(text, 1, WITH); }
static pmix_status_t log_nb(void) { LATER(r, PMIx_Log_nb(text, 1, WITH, op_ended, r)); }

static pmix_status_t allocate(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Allocation_request(PMIX_ALLOC_NEW, limit, 1, &results, &count);
}
static pmix_status_t allocate_nb(void) { LATER(r, PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, limit, 1, info_ended, r)); }

static pmix_status_t job_control(void)
{
    pmix_proc_t proc = near();
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Job_control(&proc, 1, WITH, &results, &count);
}
static pmix_status_t job_control_nb(void)
{
    pmix_proc_t proc = near();
    LATER(r, PMIx_Job_control_nb(&proc, 1, WITH, info_ended, r));
}

static pmix_info_t watched[1]; /* a file */
static pmix_status_t monitor(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Process_monitor(watched, -3456, WITH, &results, &count);
}
static pmix_status_t monitor_nb(void) { LATER(r, PMIx_Process_monitor_nb(watched, -3456, WITH, info_ended, r)); }

static pmix_status_t get_credential(void) { pmix_byte_object_t credential = { 0 }; return PMIx_Get_credential(WITH, &credential); }
static pmix_status_t get_credential_nb(void) { LATER(r, PMIx_Get_credential_nb(WITH, credential_ended, r)); }

static pmix_byte_object_t secret = { .bytes = "secret", .size = 6 };
static pmix_status_t validate_credential(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Validate_credential(&secret, WITH, &results, &count);
}
static pmix_status_t validate_credential_nb(void) { LATER(r, PMIx_Validate_credential_nb(&secret, WITH, validation_ended, r)); }

static pmix_status_t of_pull(pmix_hdlr_reg_cbfunc_t done, result_t *result)
{
    pmix_proc_t proc = near();
    return PMIx_IOF_pull(&proc, 1, WITH, PMIX_FWD_STDOUT_CHANNEL, printed, done, result);
}
static pmix_status_t iof_pull(void) { return of_pull(NULL, NULL); }
static pmix_status_t iof_pull_nb(void) { LATER(r, of_pull(registration_ended, r)); }
static pmix_status_t iof_deregister(void) { return PMIx_IOF_deregister(pull, WITH, NULL, NULL); }
static pmix_status_t iof_push(void) { pmix_proc_t proc = near(); return PMIx_IOF_push(&proc, 1, &secret, WITH, NULL, NULL); }
static pmix_status_t iof_push_nb(void) { pmix_proc_t proc = near(); LATER(r, PMIx_IOF_push(&proc, 1, &secret, WITH, op_ended, r)); }

static pmix_proc_t self = { .nspace = NSPACE };
static pmix_status_t notify(void) { return PMIx_Notify_event(-3456, &self, PMIX_RANGE_SESSION, WITH, NULL, NULL); }
static pmix_status_t notify_nb(void) { LATER(r, PMIx_Notify_event(-3456, &self, PMIX_RANGE_SESSION, WITH, op_ended, r)); }

static pmix_status_t registers(void)
{
    pmix_status_t code = PMIX_EVENT_NODE_DOWN;
    return PMIx_Register_event_handler(&code, 1, WITH, handled, NULL, NULL);
}
static pmix_status_t registers_nb(void)
{
    pmix_status_t code = PMIX_EVENT_NODE_OFFLINE;
    LATER(r, PMIx_Register_event_handler(&code, 1, WITH, handled, registration_ended, r));
}

static pmix_status_t constructs(const char *name, pmix_proc_t other)
{
    pmix_proc_t procs[] = { proc_of(NSPACE, 0), other };
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Group_construct(name, procs, 2, WITH, &results, &count);
}
static pmix_status_t construct(void) { return constructs("alone", near()); }
static pmix_status_t construct_far(void) { return constructs("distant", far()); }
static pmix_status_t construct_nb(void)
{
    PROCS(far);
    LATER(r, PMIx_Group_construct_nb("distant too", procs, 2, WITH, info_ended, r));
}
static pmix_status_t destruct(void) { return PMIx_Group_destruct("both", WITH); }
static pmix_status_t leave(void) { return PMIx_Group_leave("apart", WITH); }

static pmix_status_t invite(void)
{
    pmix_proc_t proc = near();
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Group_invite("invited", &proc, 1, WITH, &results, &count);
}
static pmix_status_t invite_nb(void) { pmix_proc_t proc = near(); LATER(r, PMIx_Group_invite_nb("invited too", &proc, 1, WITH, info_ended, r)); }
static pmix_status_t join(void)
{
    pmix_proc_t proc = near();
    pmix_info_t *results = NULL;
    size_t count = 0;
    return PMIx_Group_join("joined", &proc, PMIX_GROUP_ACCEPT, WITH, &results, &count);
}
static pmix_status_t join_nb(void)
{
    pmix_proc_t proc = near();
    LATER(r, PMIx_Group_join_nb("joined too", &proc, PMIX_GROUP_ACCEPT, WITH, info_ended, r));
}

static pmix_status_t fabric(void)
{
    pmix_fabric_t fabric;
    PMIX_FABRIC_CONSTRUCT(&fabric);
    return PMIx_Fabric_register(&fabric, WITH);
}

static pmix_status_t session(void)
{
    pmix_status_t (*call)(uint32_t, const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *) =
        dlsym(RTLD_DEFAULT, "PMIx_Session_control");
    return call == NULL ? PMIX_ERR_TIMEOUT : call(7, WITH, NULL, NULL);
}

static pmix_status_t block(void)
{
    pmix_status_t (*call)(uint8_t, char *, const void *, size_t, const pmix_info_t *, size_t) =
        dlsym(RTLD_DEFAULT, "PMIx_Resource_block");
    return call == NULL ? PMIX_ERR_TIMEOUT : call(1, "block", NULL, 0, WITH);
}

#define ROW(of) { .name = #of, .call = of }
typedef struct {
    const char *name;
    pmix_status_t (*call)(void);
    pthread_t thread;
} row_t;

static row_t rows[] = {
    ROW(fence), ROW(fence_far), ROW(fence_nb), ROW(connects), ROW(connect_far), ROW(connect_nb), ROW(disconnects),
    ROW(rfc_connect), ROW(rfc_disconnect), ROW(get), ROW(get_far), ROW(get_nb), ROW(publish), ROW(publish_nb), ROW(lookup),
    ROW(lookup_nb), ROW(unpublish), ROW(unpublish_nb), ROW(spawn), ROW(spawn_nb), ROW(query), ROW(query_nb), ROW(logs),
    ROW(log_nb), ROW(allocate), ROW(allocate_nb), ROW(job_control), ROW(job_control_nb), ROW(monitor), ROW(monitor_nb),
    ROW(get_credential), ROW(get_credential_nb), ROW(validate_credential), ROW(validate_credential_nb), ROW(iof_pull),
    ROW(iof_pull_nb), ROW(iof_deregister), ROW(iof_push), ROW(iof_push_nb), ROW(notify), ROW(notify_nb), ROW(registers),
    ROW(registers_nb), ROW(construct), ROW(construct_far), ROW(construct_nb), ROW(destruct), ROW(leave), ROW(invite),
    ROW(invite_nb), ROW(join), ROW(join_nb), ROW(fabric), ROW(session), ROW(block),
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static void *run(void *argument)
{
    row_t *row = argument;
    time_t begun = time(NULL);
    pmix_status_t status = row->call();
    say("row %s %d%s", row->name, status, time(NULL) - begun > SECONDS_MAX ? " late" : "");
    return NULL;
}

/* ---- the ranks ------------------------------------------------------------------------------------------------------------ */

static bool is_stock(void) { return getenv("TIMEOUTS_STOCK") != NULL; }

static void needs(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("FAIL %s: %s", what, PMIx_Error_string(status));
    }
}

/* What ranks 0 and 1 do together before: a connection, a group, and RFC0003's. */
static void meet(void)
{
    PROCS(near);
    pmix_info_t *results = NULL;
    size_t count = 0;
    needs("connect", PMIx_Connect(procs, 2, NULL, 0));
    needs("group", PMIx_Group_construct("both", procs, 2, NULL, 0, &results, &count));
    pmix_status_t (*call)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, char *, pmix_rank_t *) =
        dlsym(RTLD_DEFAULT, "pmix_dstore_connect");
    if (call != NULL && !is_stock()) {
        pmix_rank_t rank;
        pmix_info_t id = { .key = "pmix.cnt.id", .value = value_string("rfc") };
        needs("the RFC's connect", call(procs, 2, &id, 1, rfc_nspace, &rank));
    }
}

/* How many collectives and Gets of this process the server still has. */
static size_t open_now(const char *key, pmix_status_t *status)
{
    char *names[] = { (char *) key, NULL };
    pmix_query_t query = { .keys = names };
    pmix_info_t *results = NULL;
    size_t count = 0, open = 0;
    *status = PMIx_Query_info(&query, 1, &results, &count);
    for (size_t i = 0; *status == PMIX_SUCCESS && i < count; i++) {
        if (strcmp(results[i].key, key) == 0 && results[i].value.type == PMIX_DATA_ARRAY) {
            open += results[i].value.data.darray == NULL ? 0 : results[i].value.data.darray->size;
        }
    }
    return open;
}

/* What the server still has. A client whose server is late by half a second gives up first. */
static void count_open(const char *key)
{
    pmix_status_t status;
    size_t open = open_now(key, &status);
    for (int i = 0; i < 200 && open > 0; i++) {
        usleep(50000);
        open = open_now(key, &status);
    }
    say("open %s %s %zu", key, PMIx_Error_string(status), open);
}

static void rank_0(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    meet();
    PROCS(far);
    needs("a group with the other node", PMIx_Group_construct("apart", procs, 2, NULL, 0, &results, &count));
    pmix_proc_t proc = near();
    pmix_status_t pulled = PMIx_IOF_pull(&proc, 1, NULL, 0, PMIX_FWD_STDERR_CHANNEL, printed, NULL, NULL);
    needs("pull", pulled < 0 ? pulled : PMIX_SUCCESS);
    pull = pulled;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (pthread_create(&rows[i].thread, NULL, run, &rows[i]) != 0) {
            say("FAIL no thread");
        }
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        pthread_join(rows[i].thread, NULL);
    }
    if (is_stock()) {
        /* Not every call goes on to work there. */
        _exit(0);
    }
    count_open("pmix.dstore.collectives");
    count_open("pmix.dstore.waits");
    /* The host answers, and says so. */
    int tell = atoi(getenv("TIMEOUTS_TELL")), hear = atoi(getenv("TIMEOUTS_HEAR"));
    char byte = 'x';
    if (write(tell, &byte, 1) != 1 || read(hear, &byte, 1) != 1) {
        say("FAIL the host does not answer");
    }
    pmix_info_t info = { .key = "site.other", .value = value_int(2) };
    needs("publish after all", PMIx_Publish(&info, 1));
    needs("a fence after all", PMIx_Fence(procs, 1, NULL, 0));
    pmix_value_t *value = NULL;
    proc.rank = PMIX_RANK_WILDCARD;
    needs("a Get after all", PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, &value));
    say("finalize 0 %d", PMIx_Finalize(NULL, 0));
}

static int rank(void)
{
    int number = atoi(getenv("PMIX_RANK"));
    pmix_proc_t me;
    needs("init", PMIx_Init(&me, NULL, 0));
    if (number == 0) {
        rank_0();
    } else if (number == 1) {
        meet();
        char byte;
        ssize_t got = read(atoi(getenv("TIMEOUTS_STAY")), &byte, 1);
        (void) got;
        say("finalize 1 %d", PMIx_Finalize(NULL, 0));
    } else {
        pmix_info_t infos[2] = { limit[0], { .key = PMIX_EMBED_BARRIER, .value = value_bool(true) } };
        say("row finalize %d", PMIx_Finalize(infos, 2));
    }
    return 0;
}

static int tool(void)
{
    pmix_proc_t me, server;
    const char *tmpdir = getenv("TMPDIR");
    char file[512];
    snprintf(file, sizeof(file), "%s/pmix.nodeA.tool.%s", tmpdir != NULL ? tmpdir : "/tmp", getenv("TIMEOUTS_HOST"));
    pmix_info_t infos[2] = { limit[0], { .key = PMIX_TOOL_ATTACHMENT_FILE, .value = value_string(file) } };
    say("row tool_init %d", PMIx_tool_init(&me, infos, 2));
    pmix_info_t alone = { .key = PMIX_TOOL_DO_NOT_CONNECT, .value = value_bool(true) };
    needs("a tool by itself", PMIx_tool_init(&me, &alone, 1));
    say("row attach %d", PMIx_tool_attach_to_server(&me, &server, infos, 2));
    say("finalize tool %d", PMIx_tool_finalize());
    return 0;
}

/* ---- the host ------------------------------------------------------------------------------------------------------------- */

typedef struct kept {
    void (*answer)(struct kept *);
    void *function, *cbdata;
    struct kept *next;
} kept_t;

static kept_t *kept;
static int kept_count;

static void keep(void (*answer)(kept_t *), void *function, void *cbdata)
{
    kept_t *one = need(calloc(1, sizeof(*one)));
    *one = (kept_t) { answer, function, cbdata, NULL };
    pthread_mutex_lock(&lock);
    one->next = kept;
    kept = one;
    kept_count++;
    pthread_mutex_unlock(&lock);
}

static bool has_limit(const pmix_info_t info[], size_t ninfo)
{
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_TIMEOUT) == 0) {
            return true;
        }
    }
    return false;
}

static void answer_op(kept_t *one) { ((pmix_op_cbfunc_t) one->function)(PMIX_SUCCESS, one->cbdata); }
static void answer_modex(kept_t *one) { ((pmix_modex_cbfunc_t) one->function)(PMIX_SUCCESS, NULL, 0, one->cbdata, NULL, NULL); }
static void answer_lookup(kept_t *one) { ((pmix_lookup_cbfunc_t) one->function)(PMIX_ERR_NOT_FOUND, NULL, 0, one->cbdata); }
static void answer_spawn(kept_t *one) { ((pmix_spawn_cbfunc_t) one->function)(PMIX_SUCCESS, "late", one->cbdata); }
static void answer_info(kept_t *one) { ((pmix_info_cbfunc_t) one->function)(PMIX_SUCCESS, NULL, 0, one->cbdata, NULL, NULL); }
static void answer_credential(kept_t *one) { ((pmix_credential_cbfunc_t) one->function)(PMIX_SUCCESS, &secret, NULL, 0, one->cbdata); }
static void answer_validation(kept_t *one) { ((pmix_validation_cbfunc_t) one->function)(PMIX_SUCCESS, NULL, 0, one->cbdata); }

/* Keeps the upcall if it has a time-out; otherwise the return value is the answer. */
#define HOLD(answer, infos, count, now)                                                                                \
    do {                                                                                                               \
        if (has_limit(infos, count)) {                                                                                 \
            keep(answer, (void *) cbfunc, cbdata);                                                                     \
            return PMIX_SUCCESS;                                                                                       \
        }                                                                                                              \
        return now;                                                                                                    \
    } while (0)

#pragma GCC diagnostic ignored "-Wunused-parameter"

static pmix_status_t host_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
                                    pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t host_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    return proc->rank == 3 ? PMIX_SUCCESS : PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t host_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                                size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    free(data);
    HOLD(answer_modex, info, ninfo, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_modex_cbfunc_t cbfunc,
                                void *cbdata)
{
    HOLD(answer_modex, info, ninfo, PMIX_ERR_NOT_FOUND);
}

static pmix_status_t host_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                                  void *cbdata)
{
    HOLD(answer_op, info, ninfo, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_lookup(const pmix_proc_t *proc, char **names, const pmix_info_t info[], size_t ninfo,
                                 pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_lookup, info, ninfo, PMIX_ERR_NOT_FOUND);
}

static pmix_status_t host_unpublish(const pmix_proc_t *proc, char **names, const pmix_info_t info[], size_t ninfo,
                                    pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, info, ninfo, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                                size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_spawn, info, ninfo, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                  pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, info, ninfo, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_register(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[], size_t ninfo,
                                   pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, info, ninfo, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range, pmix_info_t info[],
                                 size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    /* A member that leaves a group. */
    if (code == PMIX_GROUP_LEFT) {
        keep(answer_op, (void *) cbfunc, cbdata);
        return PMIX_SUCCESS;
    }
    HOLD(answer_op, info, ninfo, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, queries[0].qualifiers, queries[0].nqual, PMIX_ERR_NOT_FOUND);
}

static void host_tool(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t cbfunc, void *cbdata) {}

static void host_log(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                     size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    keep(answer_op, (void *) cbfunc, cbdata);
}

static pmix_status_t host_allocate(const pmix_proc_t *client, pmix_alloc_directive_t directive, const pmix_info_t data[],
                                   size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, data, ndata, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_control(const pmix_proc_t *requestor, const pmix_proc_t targets[], size_t ntargets,
                                  const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_monitor(const pmix_proc_t *requestor, const pmix_info_t *what, pmix_status_t error,
                                  const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_credential(const pmix_proc_t *proc, const pmix_info_t directives[], size_t ndirs,
                                     pmix_credential_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_credential, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_validation(const pmix_proc_t *proc, const pmix_byte_object_t *credential,
                                     const pmix_info_t directives[], size_t ndirs, pmix_validation_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_validation, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_pull(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                               pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, directives, ndirs, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_push(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                               const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
                               pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, directives, ndirs, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_group(pmix_group_operation_t op, char group[], const pmix_proc_t procs[], size_t nprocs,
                                const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, directives, ndirs, PMIX_OPERATION_SUCCEEDED);
}

static pmix_status_t host_fabric(const pmix_proc_t *requestor, pmix_fabric_operation_t op, const pmix_info_t directives[],
                                 size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_session(const pmix_proc_t *requestor, uint32_t session_id, const pmix_info_t directives[], size_t ndirs,
                                  pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_info, directives, ndirs, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_status_t host_block(const pmix_proc_t *requestor, pmix_resource_block_directive_t directive, const char *name,
                                const pmix_resource_unit_t *units, size_t nunit, const pmix_info_t *info, size_t ninfo,
                                pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    HOLD(answer_op, info, ninfo, PMIX_ERR_NOT_SUPPORTED);
}

static pmix_server_module_t module = {
    .client_connected2 = host_connected, .client_finalized = host_finalized, .fence_nb = host_fence, .direct_modex = host_modex,
    .publish = host_publish, .lookup = host_lookup, .unpublish = host_unpublish, .spawn = host_spawn, .connect = host_connect,
    .disconnect = host_connect, .register_events = host_register, .notify_event = host_notify, .query = host_query,
    .tool_connected = host_tool, .log = host_log, .allocate = host_allocate, .job_control = host_control,
    .monitor = host_monitor, .get_credential = host_credential, .validate_credential = host_validation,
    .iof_pull = host_pull, .push_stdin = host_push, .group = host_group, .fabric = host_fabric,
    .session_control = host_session, .resource_block = host_block,
};

static pid_t start(const char *role, int number)
{
    char **env = NULL;
    if (number >= 0) {
        pmix_proc_t proc = proc_of(NSPACE, number);
        needs("register_client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
        needs("setup_fork", PMIx_server_setup_fork(&proc, &env));
    }
    pid_t child = fork();
    if (child == 0) {
        for (char **variable = env; variable != NULL && *variable != NULL; variable++) {
            putenv(*variable);
        }
        const char *library = getenv("TIMEOUTS_RANK_LIB");
        if (library != NULL) {
            setenv("LD_LIBRARY_PATH", library, 1);
        }
        char *args[] = { "timeouts", (char *) role, NULL };
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execve("/proc/self/exe", args, environ);
        _exit(127);
    }
    return child;
}

static int host(void)
{
    const char *tmpdir = getenv("TMPDIR");
    char text_of_pid[32], number[16];
    int told[2], heard[2], stay[2], state, code = 0;
    infos_t infos = { 0 };
    pmix_value_t size_of_module = { .type = PMIX_SIZE };
    size_of_module.data.size = sizeof(module);
    add(&infos, PMIX_DSTORE_MODULE_SIZE, size_of_module);
    add(&infos, PMIX_SERVER_TMPDIR, value_string(tmpdir != NULL ? tmpdir : "/tmp"));
    add(&infos, PMIX_HOSTNAME, value_string("nodeA"));
    add(&infos, PMIX_SYSTEM_TMPDIR, value_string(tmpdir != NULL ? tmpdir : "/tmp"));
    add(&infos, PMIX_SERVER_TOOL_SUPPORT, value_bool(true));
    pmix_status_t status = PMIx_server_init(&module, infos.items, infos.count);
    free_infos(&infos);
    if (status != PMIX_SUCCESS || pipe(told) != 0 || pipe(heard) != 0 || pipe(stay) != 0) {
        say("FAIL server_init %d", status);
        return 1;
    }
    char *nodes, *procs;
    needs("nodes", PMIx_generate_regex("nodeA,nodeB", &nodes));
    needs("procs", PMIx_generate_ppn("0,1,3;2", &procs));
    add(&infos, PMIX_JOB_SIZE, value_uint32(4));
    add(&infos, PMIX_UNIV_SIZE, value_uint32(4));
    add(&infos, PMIX_NODE_MAP, value_string(nodes));
    add(&infos, PMIX_PROC_MAP, value_string(procs));
    needs("register_nspace", PMIx_server_register_nspace(self.nspace, 3, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
    snprintf(text_of_pid, sizeof(text_of_pid), "%d", getpid());
    setenv("TIMEOUTS_HOST", text_of_pid, 1);
    snprintf(number, sizeof(number), "%d", told[1]);
    setenv("TIMEOUTS_TELL", number, 1);
    snprintf(number, sizeof(number), "%d", heard[0]);
    setenv("TIMEOUTS_HEAR", number, 1);
    snprintf(number, sizeof(number), "%d", stay[0]);
    setenv("TIMEOUTS_STAY", number, 1);
    pid_t ranks[] = { start("rank", 0), start("rank", 1), start("rank", 3) };
    pid_t of_tool = is_stock() ? 0 : start("tool", -1);
    close(told[1]);
    if (of_tool == 0) {
        waitpid(ranks[0], &state, 0);
        waitpid(ranks[2], &state, 0);
        kill(ranks[1], SIGKILL);
        waitpid(ranks[1], &state, 0);
        _exit(0);
    }
    /* Late answers: all at once, most of them after their requests have ended. */
    char byte;
    ssize_t got = read(told[0], &byte, 1);
    pthread_mutex_lock(&lock);
    kept_t *all = kept;
    int count = kept_count;
    pthread_mutex_unlock(&lock);
    for (kept_t *one = all; one != NULL; one = one->next) {
        one->answer(one);
    }
    say("answered %d late", count);
    got = write(heard[1], &byte, 1);
    waitpid(ranks[0], &state, 0);
    code |= state;
    got = write(stay[1], &byte, 1);
    (void) got;
    for (int i = 1; i < 3; i++) {
        waitpid(ranks[i], &state, 0);
        code |= state;
    }
    waitpid(of_tool, &state, 0);
    code |= state;
    PMIx_server_deregister_nspace(self.nspace, NULL, NULL);
    say("server_finalize %d", PMIx_server_finalize());
    return code == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    alarm(110);
    limit[0] = (pmix_info_t) { .key = PMIX_TIMEOUT, .value = value_int(1) };
    text[0] = (pmix_info_t) { .key = PMIX_LOG_SYSLOG, .value = value_string("said") };
    watched[0] = (pmix_info_t) { .key = PMIX_MONITOR_FILE, .value = value_string("/tmp") };
    return argc < 2 ? host() : strcmp(argv[1], "tool") == 0 ? tool() : rank();
}
