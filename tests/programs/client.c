/* Checks of the client side, run as the ranks of a job that tests/programs/host.c or another launcher started.
 *
 *   client [--strict] [--reput] [--no-publish] [--shared | --unshared] [--echo] [--abort RANK]
 *
 *   --strict     known faults of Debian's stock library count as failures, too
 *   --reput      also puts keys again: a fence of two ranks, then of all, then all read the newest value
 *   --abort R    rank R aborts with status 7 instead of the checks; the others wait in a fence
 *   --echo       the host echoes events (its option --events echo): all ranks get the echo, too
 *   --no-publish leaves out publish, lookup and log, for launchers that do not support them
 *   --shared     there is shared memory: a segment must be mapped
 *   --unshared   there is no shared memory: no segment may be mapped
 *
 * The expected nodes and ranks of each node come from TEST_NODES, TEST_MAP and TEST_NSPACE. One line per failed
 * check, "rank R: FAIL what"; "rank R: known what" is a failure of the stock library; at the end
 * "rank R: N checks, F failed". The exit status is 0 if nothing failed.
 */
#include "common.h"

#include <pthread.h>
#include <time.h>

static pmix_proc_t me;
static layout_t layout;
static bool have_layout;
static bool strict, reput, publishing = true, shared, unshared, echoing;
static int abort_rank = -1;
static int checks, failures;

/* ---- reporting ------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool check(bool holds, const char *format, ...)
{
    checks++;
    if (!holds) {
        char text[1024];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        failures++;
        say("rank %u: FAIL %s", me.rank, text);
    }
    return holds;
}

/* A check that Debian's 4.2.2 fails. */
__attribute__((format(printf, 2, 3))) static bool check_beyond(bool holds, const char *format, ...)
{
    checks++;
    if (!holds) {
        char text[1024];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        failures += strict;
        say("rank %u: %s %s", me.rank, strict ? "FAIL" : "known", text);
    }
    return holds;
}

static const char *name_of(pmix_status_t status) { return PMIx_Error_string(status); }

static void must(const char *what, pmix_status_t status)
{
    if (!check(status == PMIX_SUCCESS, "%s: %s (%d)", what, name_of(status), status)) {
        say("rank %u: gives up", me.rank);
        exit(1);
    }
}

/* ---- waiting for callbacks ------------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Waits until *flag is set, at most 100 seconds. */
static bool wait_until(bool *flag)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 100;
    pthread_mutex_lock(&mutex);
    int rc = 0;
    while (!*flag && rc == 0) {
        rc = pthread_cond_timedwait(&changed, &mutex, &until);
    }
    bool set = *flag;
    pthread_mutex_unlock(&mutex);
    return set;
}

static void set_flag(bool *flag)
{
    pthread_mutex_lock(&mutex);
    *flag = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

typedef struct {
    bool done;
    pmix_status_t status;
    size_t id;
    char text[128];
} outcome_t;

static void op_done(pmix_status_t status, void *cbdata)
{
    outcome_t *outcome = cbdata;
    outcome->status = status;
    set_flag(&outcome->done);
}

static void infos_done(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata,
                       pmix_release_cbfunc_t release, void *release_cbdata)
{
    (void) info;
    (void) ninfo;
    if (release != NULL) {
        release(release_cbdata);
    }
    op_done(status, cbdata);
}

static void value_done(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    outcome_t *outcome = cbdata;
    if (status == PMIX_SUCCESS && value != NULL && value->type == PMIX_STRING) {
        snprintf(outcome->text, sizeof(outcome->text), "%s", value->data.string);
    }
    op_done(status, cbdata);
}

static void registered(pmix_status_t status, size_t id, void *cbdata)
{
    outcome_t *outcome = cbdata;
    outcome->id = id;
    op_done(status, cbdata);
}

/* The final status of a non-blocking call. */
static pmix_status_t settled(pmix_status_t returned, outcome_t *outcome)
{
    if (returned == PMIX_OPERATION_SUCCEEDED) {
        return PMIX_SUCCESS;
    }
    if (returned != PMIX_SUCCESS) {
        return returned;
    }
    return wait_until(&outcome->done) ? outcome->status : PMIX_ERR_TIMEOUT;
}

/* ---- getting ----------------------------------------------------------------------------------------------------- */

static pmix_status_t get_with(pmix_rank_t rank, const char *key, infos_t *infos, pmix_value_t **value)
{
    pmix_proc_t proc = proc_of(me.nspace, rank);
    *value = NULL;
    return PMIx_Get(&proc, key, infos ? infos->items : NULL, infos ? infos->count : 0, value);
}

static void drop(pmix_value_t *value)
{
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

/* Whether a value of this unsigned number and type was found; reports when not. */
static bool is_number(pmix_status_t status, pmix_value_t *value, pmix_data_type_t type, uint64_t expected,
                      const char *what, pmix_rank_t rank, bool beyond)
{
    uint64_t number = ~0ull;
    pmix_data_type_t found = PMIX_UNDEF;
    if (status == PMIX_SUCCESS && value != NULL) {
        found = value->type;
        switch (value->type) {
        case PMIX_UINT32: number = value->data.uint32; break;
        case PMIX_UINT16: number = value->data.uint16; break;
        case PMIX_UINT64: number = value->data.uint64; break;
        case PMIX_INT: number = value->data.integer; break;
        case PMIX_PROC_RANK: number = value->data.rank; break;
        case PMIX_BOOL: number = value->data.flag; break;
        default: break;
        }
    }
    bool holds = status == PMIX_SUCCESS && found == type && number == expected;
    drop(value);
    return (beyond ? check_beyond : check)(holds, "%s of %d: %s, type %d, %lld; expected type %d, %llu", what,
                                           (int) rank, name_of(status), found, (long long) number, type,
                                           (unsigned long long) expected);
}

static bool is_text(pmix_status_t status, pmix_value_t *value, const char *expected, const char *what,
                    pmix_rank_t rank, bool beyond)
{
    bool text = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_STRING && value->data.string != NULL;
    bool holds = text && strcmp(value->data.string, expected) == 0;
    bool result = (beyond ? check_beyond : check)(holds, "%s of %d: %s, \"%s\"; expected \"%s\"", what, (int) rank,
                                                  name_of(status), text ? value->data.string : "(none)", expected);
    drop(value);
    return result;
}

#define expect_number(rank, key, infos, type, expected)                                                              \
    do {                                                                                                              \
        pmix_value_t *value_;                                                                                         \
        pmix_status_t status_ = get_with(rank, key, infos, &value_);                                                  \
        is_number(status_, value_, type, expected, #key, rank, false);                                                \
    } while (0)

#define expect_text(rank, key, infos, expected)                                                                      \
    do {                                                                                                              \
        pmix_value_t *value_;                                                                                         \
        pmix_status_t status_ = get_with(rank, key, infos, &value_);                                                  \
        is_text(status_, value_, expected, #key, rank, false);                                                        \
    } while (0)

static void expect_missing(pmix_rank_t rank, const char *key, infos_t *infos, const char *what, bool beyond)
{
    pmix_value_t *value;
    pmix_status_t status = get_with(rank, key, infos, &value);
    (beyond ? check_beyond : check)(status != PMIX_SUCCESS, "%s: %s of %d was found", what, key, (int) rank);
    if (status == PMIX_SUCCESS) {
        drop(value);
    }
}

static bool is_local(pmix_rank_t rank) { return !have_layout || layout.node_of[rank] == layout.node_of[me.rank]; }

/* ---- the parts ----------------------------------------------------------------------------------------------------- */

static uint32_t job_size;

static void read_layout(void)
{
    const char *nodes = getenv("TEST_NODES"), *map = getenv("TEST_MAP");
    if (nodes == NULL || map == NULL) {
        return;
    }
    char *copy = copy_text(nodes), *rest = copy, *part;
    while ((part = strsep(&rest, ",")) != NULL) {
        layout.nodes[layout.node_count++] = copy_text(part);
    }
    free(copy);
    copy = copy_text(map);
    rest = copy;
    for (int node = 0; (part = strsep(&rest, ";")) != NULL; node++) {
        for (char *rank; (rank = strsep(&part, ",")) != NULL;) {
            layout.node_of[atoi(rank)] = node;
            layout.local_rank_of[atoi(rank)] = layout.local_count[node]++;
            layout.rank_count++;
        }
    }
    free(copy);
    have_layout = true;
}

/* Whether this process has mapped a segment of our store. */
static bool maps_segments(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        found |= strstr(line, "/segment-") != NULL;
    }
    check(maps != NULL, "the process's mappings can be read");
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

static void check_identity(void)
{
    pmix_proc_t again;
    check(PMIx_Initialized() != 0, "PMIx_Initialized after init");
    must("second PMIx_Init", PMIx_Init(&again, NULL, 0));
    check(strcmp(again.nspace, me.nspace) == 0 && again.rank == me.rank, "second PMIx_Init gives another process");
    check(strlen(PMIx_Get_version()) > 0, "PMIx_Get_version is empty");
    expect_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, NULL, PMIX_UINT32, job_size);
    if (have_layout) {
        check(strcmp(me.nspace, getenv("TEST_NSPACE")) == 0, "namespace is %s", me.nspace);
        check((int) job_size == layout.rank_count, "job size %u, expected %d", job_size, layout.rank_count);
    }
}

static char *ranks_of_node(int node)
{
    char *text = need(calloc(layout.rank_count + 1, 12));
    size_t len = 0;
    for (int rank = 0; rank < layout.rank_count; rank++) {
        if (layout.node_of[rank] == node) {
            len += sprintf(text + len, "%s%d", len ? "," : "", rank);
        }
    }
    return text;
}

static int first_rank_of(int node)
{
    int rank = 0;
    while (layout.node_of[rank] != node) {
        rank++;
    }
    return rank;
}

static void check_job_values(void)
{
    int node = layout.node_of[me.rank];
    pmix_rank_t all = PMIX_RANK_WILDCARD;
    expect_number(all, PMIX_UNIV_SIZE, NULL, PMIX_UINT32, job_size + 3);
    expect_number(all, PMIX_MAX_PROCS, NULL, PMIX_UINT32, job_size + 2);
    expect_text(all, PMIX_JOBID, NULL, "job-7");
    expect_number(all, PMIX_NUM_NODES, NULL, PMIX_UINT32, layout.node_count);
    expect_number(all, PMIX_NODE_SIZE, NULL, PMIX_UINT32, layout.local_count[node]);
    expect_number(all, PMIX_LOCAL_SIZE, NULL, PMIX_UINT32, layout.local_count[node]);
    expect_number(all, PMIX_LOCALLDR, NULL, PMIX_PROC_RANK, first_rank_of(node));
    char *peers = ranks_of_node(node);
    expect_text(all, PMIX_LOCAL_PEERS, NULL, peers);
    free(peers);
    expect_number(all, PMIX_JOB_NUM_APPS, NULL, PMIX_UINT32, 1);
    expect_text(all, PMIX_BINDTO, NULL, "none");
    expect_number(all, PMIX_HOSTNAME_KEEP_FQDN, NULL, PMIX_BOOL, 1);

    /* Job-level keys asked with a rank, as real programs do. */
    pmix_value_t *value;
    pmix_status_t status = get_with(me.rank, PMIX_JOB_SIZE, NULL, &value);
    is_number(status, value, PMIX_UINT32, job_size, "PMIX_JOB_SIZE", me.rank, true);
    status = get_with(me.rank, PMIX_UNIV_SIZE, NULL, &value);
    is_number(status, value, PMIX_UINT32, job_size + 3, "PMIX_UNIV_SIZE", me.rank, true);
    status = PMIx_Get(&me, PMIX_LOCAL_SIZE, NULL, 0, &value);
    is_number(status, value, PMIX_UINT32, layout.local_count[node], "PMIX_LOCAL_SIZE", me.rank, true);

    /* By realm. */
    infos_t infos = { 0 };
    add(&infos, PMIX_SESSION_INFO, value_bool(true));
    status = get_with(all, PMIX_SESSION_ID, &infos, &value);
    is_number(status, value, PMIX_UINT32, 42, "PMIX_SESSION_ID of the session", all, true);
    status = get_with(all, PMIX_UNIV_SIZE, &infos, &value);
    is_number(status, value, PMIX_UINT32, job_size + 3, "PMIX_UNIV_SIZE of the session", all, false);
    status = get_with(all, PMIX_MAX_PROCS, &infos, &value);
    is_number(status, value, PMIX_UINT32, job_size + 4, "PMIX_MAX_PROCS of the session", all, true);
    status = get_with(all, PMIX_CLUSTER_ID, &infos, &value);
    is_text(status, value, "test-cluster", "PMIX_CLUSTER_ID of the session", all, true);
    free_infos(&infos);
    for (int other = 0; other < layout.node_count; other++) {
        add(&infos, PMIX_NODE_INFO, value_bool(true));
        add(&infos, PMIX_HOSTNAME, value_string(layout.nodes[other]));
        status = get_with(all, PMIX_LOCAL_SIZE, &infos, &value);
        is_number(status, value, PMIX_UINT32, layout.local_count[other], "PMIX_LOCAL_SIZE by host name", other, false);
        status = get_with(all, PMIX_AVAIL_PHYS_MEMORY, &infos, &value);
        is_number(status, value, PMIX_UINT64, 1000000ull * (other + 1), "memory by host name", other, false);
        peers = ranks_of_node(other);
        status = get_with(all, PMIX_LOCAL_PEERS, &infos, &value);
        is_text(status, value, peers, "PMIX_LOCAL_PEERS by host name", other, false);
        free(peers);
        free_infos(&infos);
        add(&infos, PMIX_NODE_INFO, value_bool(true));
        add(&infos, PMIX_NODEID, value_uint32(other));
        status = get_with(all, PMIX_AVAIL_PHYS_MEMORY, &infos, &value);
        is_number(status, value, PMIX_UINT64, 1000000ull * (other + 1), "memory by node id", other, false);
        free_infos(&infos);
    }
    add(&infos, PMIX_APP_INFO, value_bool(true));
    add(&infos, PMIX_APPNUM, value_uint32(0));
    status = get_with(all, PMIX_APP_SIZE, &infos, &value);
    is_number(status, value, PMIX_UINT32, job_size, "PMIX_APP_SIZE of application 0", all, false);
    status = get_with(all, PMIX_APPLDR, &infos, &value);
    is_number(status, value, PMIX_PROC_RANK, 0, "PMIX_APPLDR of application 0", all, false);
    free_infos(&infos);
}

static void check_proc_values(void)
{
    for (uint32_t rank = 0; rank < job_size; rank++) {
        int node = layout.node_of[rank];
        expect_number(rank, PMIX_LOCAL_RANK, NULL, PMIX_UINT16, layout.local_rank_of[rank]);
        expect_number(rank, PMIX_NODE_RANK, NULL, PMIX_UINT16, layout.local_rank_of[rank]);
        expect_number(rank, PMIX_GLOBAL_RANK, NULL, PMIX_PROC_RANK, rank);
        expect_number(rank, PMIX_APPNUM, NULL, PMIX_UINT32, 0);
        expect_text(rank, PMIX_HOSTNAME, NULL, layout.nodes[node]);
        pmix_value_t *value;
        pmix_status_t status = get_with(rank, PMIX_NODEID, NULL, &value);
        is_number(status, value, PMIX_UINT32, node, "PMIX_NODEID", rank, !is_local(rank));
        expect_number(rank, PMIX_SPAWNED, NULL, PMIX_BOOL, 0);
        if (is_local(rank)) {
            char text[64];
            snprintf(text, sizeof(text), "NM0:CR%d", layout.local_rank_of[rank]);
            expect_text(rank, PMIX_LOCALITY_STRING, NULL, text);
        }
    }
}

static void check_misses(void)
{
    infos_t optional = { 0 }, immediate = { 0 };
    add(&optional, PMIX_OPTIONAL, value_bool(true));
    add(&immediate, PMIX_IMMEDIATE, value_bool(true));
    pmix_rank_t last = job_size - 1;
    expect_missing(PMIX_RANK_WILDCARD, "no.such.key", &optional, "optional miss", false);
    expect_missing(last, "no.such.key", &optional, "optional miss", false);
    expect_missing(me.rank, PMIX_CREDENTIAL, &optional, "optional miss of a reserved key", false);
    expect_missing(PMIX_RANK_WILDCARD, PMIX_HWLOC_XML_V2 ".not", &optional, "optional miss of a reserved key", false);
    expect_missing(PMIX_RANK_WILDCARD, PMIX_CREDENTIAL, &immediate, "immediate miss of a reserved key", false);
    expect_missing(last, "no.such.key", &immediate, "immediate miss", false);
    expect_missing(job_size + 17, PMIX_LOCAL_RANK, &optional, "rank outside of the job", false);
    pmix_value_t *value = NULL;
    pmix_proc_t other = proc_of("no-such-namespace", 0);
    check(PMIx_Get(&other, PMIX_JOB_SIZE, optional.items, optional.count, &value) != PMIX_SUCCESS,
          "job size of an unknown namespace was found");
    free_infos(&optional);
    free_infos(&immediate);
}

static void put_text(pmix_scope_t scope, const char *key, const char *text)
{
    pmix_value_t value = value_string(text);
    pmix_status_t status = PMIx_Put(scope, key, &value);
    check(status == PMIX_SUCCESS, "PMIx_Put %s: %s", key, name_of(status));
    free_value(&value);
}

static void text_of(char *text, size_t len, const char *what, pmix_rank_t rank, int version)
{
    snprintf(text, len, "%s of rank %u, version %d", what, rank, version);
}

static void fill_pattern(uint8_t *bytes, size_t len, pmix_rank_t rank)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t) (i * 7 + rank);
    }
}

static void put_all(int version)
{
    char text[128];
    text_of(text, sizeof(text), "global", me.rank, version);
    put_text(PMIX_GLOBAL, "t.global", text);
    text_of(text, sizeof(text), "local", me.rank, version);
    put_text(PMIX_LOCAL, "t.local", text);
    text_of(text, sizeof(text), "remote", me.rank, version);
    put_text(PMIX_REMOTE, "t.remote", text);
    text_of(text, sizeof(text), "internal", me.rank, version);
    put_text(PMIX_INTERNAL, "t.internal", text);

    uint8_t bytes[5000];
    fill_pattern(bytes, sizeof(bytes), me.rank);
    pmix_value_t value = value_bytes(bytes, sizeof(bytes));
    check(PMIx_Put(PMIX_GLOBAL, "t.bytes", &value) == PMIX_SUCCESS, "put of bytes");
    free_value(&value);
    value = value_uint32(1000 + me.rank);
    check(PMIx_Put(PMIX_GLOBAL, "t.uint32", &value) == PMIX_SUCCESS, "put of a number");
    value = value_bool(me.rank % 2 == 0);
    check(PMIx_Put(PMIX_GLOBAL, "t.bool", &value) == PMIX_SUCCESS, "put of a boolean");
    memset(&value, 0, sizeof(value));
    value.type = PMIX_DOUBLE;
    value.data.dval = me.rank + 0.5;
    check(PMIx_Put(PMIX_GLOBAL, "t.double", &value) == PMIX_SUCCESS, "put of a double");
    memset(&value, 0, sizeof(value));
    value.type = PMIX_INT64;
    value.data.int64 = -5000000000ll - me.rank;
    check(PMIx_Put(PMIX_GLOBAL, "t.int64", &value) == PMIX_SUCCESS, "put of a negative number");
    uint32_t numbers[3] = { me.rank, 2, 3 };
    pmix_data_array_t array = { .type = PMIX_UINT32, .size = 3, .array = numbers };
    memset(&value, 0, sizeof(value));
    value.type = PMIX_DATA_ARRAY;
    value.data.darray = &array;
    check(PMIx_Put(PMIX_GLOBAL, "t.array", &value) == PMIX_SUCCESS, "put of an array");
    memset(&value, 0, sizeof(value));
    value.type = PMIX_PROC;
    value.data.proc = &me;
    check(PMIx_Put(PMIX_GLOBAL, "t.proc", &value) == PMIX_SUCCESS, "put of a process");
}

/* Keys of a rank that are visible to the caller, of every type; `version` is that of the text keys. */
static void read_all(pmix_rank_t rank, int version, bool beyond)
{
    char text[128];
    pmix_value_t *value;
    pmix_status_t status;
    text_of(text, sizeof(text), "global", rank, version);
    status = get_with(rank, "t.global", NULL, &value);
    is_text(status, value, text, "t.global", rank, beyond);
    if (is_local(rank)) {
        text_of(text, sizeof(text), "local", rank, version);
        status = get_with(rank, "t.local", NULL, &value);
        is_text(status, value, text, "t.local", rank, beyond);
    }
    if (!is_local(rank) || rank == me.rank) {
        text_of(text, sizeof(text), "remote", rank, version);
        status = get_with(rank, "t.remote", NULL, &value);
        is_text(status, value, text, "t.remote", rank, beyond);
    }
    if (rank == me.rank) {
        text_of(text, sizeof(text), "internal", rank, version);
        status = get_with(rank, "t.internal", NULL, &value);
        is_text(status, value, text, "t.internal", rank, beyond);
    }
}

static void read_types(pmix_rank_t rank)
{
    pmix_value_t *value;
    uint8_t bytes[5000];
    fill_pattern(bytes, sizeof(bytes), rank);
    pmix_status_t status = get_with(rank, "t.bytes", NULL, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof(bytes) &&
              memcmp(value->data.bo.bytes, bytes, sizeof(bytes)) == 0,
          "bytes of %u: %s", rank, name_of(status));
    drop(value);
    expect_number(rank, "t.uint32", NULL, PMIX_UINT32, 1000 + rank);
    expect_number(rank, "t.bool", NULL, PMIX_BOOL, rank % 2 == 0);
    status = get_with(rank, "t.double", NULL, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_DOUBLE && value->data.dval == rank + 0.5, "double of %u: %s",
          rank, name_of(status));
    drop(value);
    status = get_with(rank, "t.int64", NULL, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_INT64 && value->data.int64 == -5000000000ll - rank,
          "negative number of %u: %s", rank, name_of(status));
    drop(value);
    status = get_with(rank, "t.array", NULL, &value);
    bool array = status == PMIX_SUCCESS && value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_UINT32 &&
                 value->data.darray->size == 3;
    check(array && ((uint32_t *) value->data.darray->array)[0] == rank &&
              ((uint32_t *) value->data.darray->array)[2] == 3,
          "array of %u: %s", rank, name_of(status));
    drop(value);
    status = get_with(rank, "t.proc", NULL, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_PROC && value->data.proc->rank == rank &&
              strcmp(value->data.proc->nspace, me.nspace) == 0,
          "process of %u: %s", rank, name_of(status));
    drop(value);
}

static pmix_status_t fence(const pmix_proc_t *procs, size_t count, bool collect)
{
    infos_t infos = { 0 };
    if (collect) {
        add(&infos, PMIX_COLLECT_DATA, value_bool(true));
    }
    pmix_status_t status = PMIx_Fence(procs, count, infos.items, infos.count);
    free_infos(&infos);
    return status;
}

static void check_modex(void)
{
    must("PMIx_Commit of nothing", PMIx_Commit());
    put_all(1);
    /* Before the commit: only the own process knows. */
    read_all(me.rank, 1, false);
    must("PMIx_Commit", PMIx_Commit());
    must("collecting fence", fence(NULL, 0, true));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        read_all(rank, 1, false);
        read_types(rank);
    }
    /* Out of scope: not found, whether asked locally or from the server. */
    infos_t optional = { 0 }, bounded = { 0 };
    add(&optional, PMIX_OPTIONAL, value_bool(true));
    add(&bounded, PMIX_IMMEDIATE, value_bool(true));
    add(&bounded, PMIX_TIMEOUT, value_int(2));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        if (rank == me.rank) {
            continue;
        }
        expect_missing(rank, "t.internal", &optional, "internal key of another", false);
        const char *hidden = is_local(rank) ? "t.remote" : "t.local";
        expect_missing(rank, hidden, &optional, "key out of scope, optional", false);
        expect_missing(rank, hidden, &bounded, "key out of scope", false);
    }
    free_infos(&optional);
    free_infos(&bounded);
}

static void check_fence_without_data(void)
{
    char text[128];
    text_of(text, sizeof(text), "late", me.rank, 1);
    put_text(PMIX_GLOBAL, "t.late", text);
    must("PMIx_Commit", PMIx_Commit());
    must("fence without data", fence(NULL, 0, false));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        text_of(text, sizeof(text), "late", rank, 1);
        expect_text(rank, "t.late", NULL, text);
    }
}

/* A key that its rank commits only after the others ask for it: the Get waits, on the node of that rank at least. */
static void check_waiting_get(void)
{
    pmix_rank_t last = job_size - 1;
    char text[128];
    text_of(text, sizeof(text), "waited", last, 1);
    if (me.rank == last) {
        usleep(300000);
        put_text(PMIX_GLOBAL, "t.waited", text);
        must("PMIx_Commit", PMIx_Commit());
    }
    infos_t infos = { 0 };
    add(&infos, PMIX_TIMEOUT, value_int(100));
    pmix_value_t *value;
    pmix_status_t status = get_with(last, "t.waited", &infos, &value);
    if (is_local(last) || status != PMIX_ERR_NOT_FOUND) {
        is_text(status, value, text, "t.waited", last, true);
    } else {
        /* A host asks another node's server for all that a rank has committed, not for a key: the answer may be early. */
        drop(value);
    }
    free_infos(&infos);
    must("fence", fence(NULL, 0, false));
}

static void check_timeout(void)
{
    pmix_rank_t other = (me.rank + 1) % job_size;
    infos_t infos = { 0 };
    add(&infos, PMIX_TIMEOUT, value_int(1));
    pmix_value_t *value;
    pmix_status_t status = get_with(other, "t.never", &infos, &value);
    check(status == PMIX_ERR_TIMEOUT || status == PMIX_ERR_NOT_FOUND, "get of a key that never comes: %s",
          name_of(status));
    free_infos(&infos);
    must("fence", fence(NULL, 0, false));
}

static void check_nonblocking(void)
{
    pmix_rank_t other = (me.rank + 1) % job_size;
    pmix_proc_t proc = proc_of(me.nspace, other);
    char text[128];
    outcome_t got = { 0 };
    text_of(text, sizeof(text), "global", other, 1);
    pmix_status_t status = settled(PMIx_Get_nb(&proc, "t.global", NULL, 0, value_done, &got), &got);
    check(status == PMIX_SUCCESS && strcmp(got.text, text) == 0, "PMIx_Get_nb: %s, \"%s\"", name_of(status), got.text);
    outcome_t missed = { 0 };
    infos_t infos = { 0 };
    add(&infos, PMIX_OPTIONAL, value_bool(true));
    status = settled(PMIx_Get_nb(&proc, "no.such.key", infos.items, infos.count, value_done, &missed), &missed);
    check(status == PMIX_ERR_NOT_FOUND, "PMIx_Get_nb of a missing key: %s", name_of(status));
    free_infos(&infos);
    outcome_t fenced = { 0 };
    add(&infos, PMIX_COLLECT_DATA, value_bool(true));
    status = settled(PMIx_Fence_nb(NULL, 0, infos.items, infos.count, op_done, &fenced), &fenced);
    check(status == PMIX_SUCCESS, "PMIx_Fence_nb: %s", name_of(status));
    free_infos(&infos);
}

static void check_resolve(void)
{
    for (int node = 0; node < layout.node_count; node++) {
        pmix_proc_t *procs = NULL;
        size_t count = 0;
        pmix_status_t status = PMIx_Resolve_peers(layout.nodes[node], me.nspace, &procs, &count);
        bool same = status == PMIX_SUCCESS && (int) count == layout.local_count[node];
        for (size_t i = 0; same && i < count; i++) {
            same = procs[i].rank < job_size && layout.node_of[procs[i].rank] == node &&
                   layout.local_rank_of[procs[i].rank] == (int) i && strcmp(procs[i].nspace, me.nspace) == 0;
        }
        check(same, "PMIx_Resolve_peers of %s: %s, %zu", layout.nodes[node], name_of(status), count);
        free(procs);
    }
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Resolve_peers(NULL, NULL, &procs, &count);
    check_beyond(status == PMIX_SUCCESS && (int) count == layout.local_count[layout.node_of[me.rank]],
                 "PMIx_Resolve_peers of the own node and namespace: %s, %zu", name_of(status), count);
    free(procs);
    procs = NULL;
    count = 99;
    status = PMIx_Resolve_peers("no-such-node", me.nspace, &procs, &count);
    check_beyond(status == PMIX_SUCCESS && count == 0 && procs == NULL, "PMIx_Resolve_peers of an unknown node: %s, %zu",
                 name_of(status), count);
    char *nodes = NULL;
    status = PMIx_Resolve_nodes(me.nspace, &nodes);
    check(status == PMIX_SUCCESS && nodes != NULL && strcmp(nodes, getenv("TEST_NODES")) == 0,
          "PMIx_Resolve_nodes: %s, %s", name_of(status), nodes ? nodes : "NULL");
    free(nodes);
    nodes = NULL;
    pmix_nspace_t unknown = "no-such-namespace";
    status = PMIx_Resolve_nodes(unknown, &nodes);
    check_beyond(status != PMIX_SUCCESS, "PMIx_Resolve_nodes of an unknown namespace: %s, %s", name_of(status),
                 nodes ? nodes : "NULL");
    free(nodes);
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

#define TEST_EVENT (PMIX_EXTERNAL_ERR_BASE - 5)

/* The code of the host's echo. */
#define ECHO_EVENT (TEST_EVENT - 1)

static bool echo_arrived;
static struct {
    bool arrived;
    pmix_status_t code;
    pmix_rank_t source;
    int number;
} event;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) results;
    (void) nresults;
    if (status == ECHO_EVENT) {
        set_flag(&echo_arrived);
    } else {
        event.code = status;
        event.source = source->rank;
        for (size_t i = 0; i < ninfo; i++) {
            if (strcmp(info[i].key, "t.number") == 0 && info[i].value.type == PMIX_INT) {
                event.number = info[i].value.data.integer;
            }
        }
        set_flag(&event.arrived);
    }
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void check_events(void)
{
    pmix_status_t codes[2] = { TEST_EVENT, ECHO_EVENT };
    outcome_t handler = { 0 };
    infos_t infos = { 0 };
    add(&infos, PMIX_EVENT_HDLR_NAME, value_string("test-handler"));
    PMIx_Register_event_handler(codes, 2, infos.items, infos.count, on_event, registered, &handler);
    check(wait_until(&handler.done) && handler.status == PMIX_SUCCESS, "PMIx_Register_event_handler: %s",
          name_of(handler.status));
    free_infos(&infos);
    must("fence", fence(NULL, 0, false));
    pmix_rank_t sender = job_size - 1;
    if (me.rank == sender) {
        outcome_t notified = { 0 };
        add(&infos, "t.number", value_int(17));
        pmix_status_t status = settled(
            PMIx_Notify_event(TEST_EVENT, &me, PMIX_RANGE_NAMESPACE, infos.items, infos.count, op_done, &notified), &notified);
        check(status == PMIX_SUCCESS, "PMIx_Notify_event: %s", name_of(status));
        free_infos(&infos);
    } else {
        check(wait_until(&event.arrived), "event did not arrive");
        check(event.code == TEST_EVENT && event.source == sender && event.number == 17, "event %d from %u with %d",
              event.code, event.source, event.number);
    }
    check(!echoing || wait_until(&echo_arrived), "the echo of the event did not arrive");
    must("fence", fence(NULL, 0, false));
    outcome_t gone = { 0 };
    pmix_status_t status = settled(PMIx_Deregister_event_handler(handler.id, op_done, &gone), &gone);
    check(status == PMIX_SUCCESS, "PMIx_Deregister_event_handler: %s", name_of(status));
}

/* A system event: the host gets an upcall for the registration. */
static void check_environment_event(void)
{
    pmix_status_t code = PMIX_EVENT_NODE_DOWN;
    outcome_t handler = { 0 }, gone = { 0 };
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, registered, &handler);
    check(wait_until(&handler.done) && handler.status == PMIX_SUCCESS, "PMIx_Register_event_handler for a node: %s",
          name_of(handler.status));
    must("fence", fence(NULL, 0, false));
    pmix_status_t status = settled(PMIx_Deregister_event_handler(handler.id, op_done, &gone), &gone);
    check(status == PMIX_SUCCESS, "PMIx_Deregister_event_handler for a node: %s", name_of(status));
    must("fence", fence(NULL, 0, false));
}

/* ---- connect --------------------------------------------------------------------------------------------------------- */

static void check_connect(void)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    must("PMIx_Connect", PMIx_Connect(&all, 1, NULL, 0));
    must("PMIx_Disconnect", PMIx_Disconnect(&all, 1, NULL, 0));
    pmix_proc_t *named = need(calloc(job_size, sizeof(*named)));
    for (pmix_rank_t rank = 0; rank < job_size; rank++) {
        named[rank] = proc_of(me.nspace, (me.rank + rank) % job_size);
    }
    outcome_t connected = { 0 }, disconnected = { 0 };
    pmix_status_t status = settled(PMIx_Connect_nb(named, job_size, NULL, 0, op_done, &connected), &connected);
    check(status == PMIX_SUCCESS, "PMIx_Connect_nb: %s", name_of(status));
    status = settled(PMIx_Disconnect_nb(named, job_size, NULL, 0, op_done, &disconnected), &disconnected);
    check(status == PMIX_SUCCESS, "PMIx_Disconnect_nb: %s", name_of(status));
    free(named);
}

/* ---- smaller things --------------------------------------------------------------------------------------------------- */

static void check_store_internal(void)
{
    infos_t optional = { 0 };
    add(&optional, PMIX_OPTIONAL, value_bool(true));
    pmix_rank_t ranks[2] = { me.rank, (me.rank + 1) % job_size };
    for (int i = 0; i < 2; i++) {
        pmix_proc_t proc = proc_of(me.nspace, ranks[i]);
        pmix_value_t value = value_uint16(40 + i);
        pmix_status_t status = PMIx_Store_internal(&proc, PMIX_LOCALITY, &value);
        check(status == PMIX_SUCCESS, "PMIx_Store_internal: %s", name_of(status));
    }
    pmix_value_t *value;
    pmix_status_t status;
    for (int i = 0; i < (job_size > 1 ? 2 : 1); i++) {
        status = get_with(ranks[i], PMIX_LOCALITY, &optional, &value);
        is_number(status, value, PMIX_UINT16, job_size > 1 ? 40 + i : 41, "stored PMIX_LOCALITY", ranks[i], false);
    }
    free_infos(&optional);
}

/* Every Open MPI rank puts reserved keys: success, and the job's data win. */
static void check_reserved_put(void)
{
    pmix_value_t value = value_string("not-my-host");
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, PMIX_HOSTNAME, &value);
    check(status == PMIX_SUCCESS, "PMIx_Put of a reserved key: %s", name_of(status));
    free_value(&value);
    must("PMIx_Commit", PMIx_Commit());
    if (have_layout) {
        expect_text(me.rank, PMIX_HOSTNAME, NULL, layout.nodes[layout.node_of[me.rank]]);
    }
}

static void check_log(void)
{
    char text[64];
    snprintf(text, sizeof(text), "logged by %u\n", me.rank);
    infos_t data = { 0 };
    outcome_t logged = { 0 };
    add(&data, PMIX_LOG_STDERR, value_string(text));
    pmix_status_t status = settled(PMIx_Log_nb(data.items, data.count, NULL, 0, op_done, &logged), &logged);
    check(status == PMIX_SUCCESS, "PMIx_Log_nb: %s", name_of(status));
    free_infos(&data);
}

static void check_job_control(void)
{
    char directory[] = "/tmp/pmix-client-XXXXXX";
    if (mkdtemp(directory) == NULL) {
        return;
    }
    infos_t directives = { 0 };
    add(&directives, PMIX_REGISTER_CLEANUP_DIR, value_string(directory));
    add(&directives, PMIX_CLEANUP_RECURSIVE, value_bool(true));
    outcome_t done = { 0 };
    pmix_status_t status =
        settled(PMIx_Job_control_nb(&me, 1, directives.items, directives.count, infos_done, &done), &done);
    check(status == PMIX_SUCCESS, "PMIx_Job_control_nb: %s", name_of(status));
    free_infos(&directives);
    rmdir(directory);
}

static void check_publish(void)
{
    char key[64], text[64];
    snprintf(key, sizeof(key), "t.published.%u", me.rank);
    snprintf(text, sizeof(text), "published by %u", me.rank);
    infos_t infos = { 0 };
    add(&infos, key, value_string(text));
    pmix_status_t status = PMIx_Publish(infos.items, infos.count);
    check(status == PMIX_SUCCESS, "PMIx_Publish: %s", name_of(status));
    free_infos(&infos);
    must("fence", fence(NULL, 0, false));
    pmix_rank_t other = (me.rank + 1) % job_size;
    pmix_pdata_t found;
    memset(&found, 0, sizeof(found));
    snprintf(found.key, sizeof(found.key), "t.published.%u", other);
    snprintf(text, sizeof(text), "published by %u", other);
    status = PMIx_Lookup(&found, 1, NULL, 0);
    check(status == PMIX_SUCCESS && found.value.type == PMIX_STRING && strcmp(found.value.data.string, text) == 0 &&
              found.proc.rank == other,
          "PMIx_Lookup: %s", name_of(status));
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_DESTRUCT(&found.value);
    }
    memset(&found, 0, sizeof(found));
    strcpy(found.key, "t.published.never");
    status = PMIx_Lookup(&found, 1, NULL, 0);
    check(status == PMIX_ERR_NOT_FOUND, "PMIx_Lookup of what is not published: %s", name_of(status));
    must("fence", fence(NULL, 0, false));

    /* A lookup that waits until another rank publishes. */
    memset(&found, 0, sizeof(found));
    strcpy(found.key, "t.published.late");
    if (me.rank == job_size - 1) {
        usleep(200000);
        add(&infos, found.key, value_string("at last"));
        check(PMIx_Publish(infos.items, infos.count) == PMIX_SUCCESS, "late PMIx_Publish");
        free_infos(&infos);
    }
    add(&infos, PMIX_WAIT, value_bool(true));
    add(&infos, PMIX_TIMEOUT, value_int(100));
    status = PMIx_Lookup(&found, 1, infos.items, infos.count);
    check(status == PMIX_SUCCESS && found.value.type == PMIX_STRING && strcmp(found.value.data.string, "at last") == 0,
          "waiting PMIx_Lookup: %s", name_of(status));
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_DESTRUCT(&found.value);
    }
    free_infos(&infos);
    must("fence", fence(NULL, 0, false));
    char *keys[] = { key, NULL };
    status = PMIx_Unpublish(keys, NULL, 0);
    check(status == PMIX_SUCCESS, "PMIx_Unpublish: %s", name_of(status));
    must("fence", fence(NULL, 0, false));
    memset(&found, 0, sizeof(found));
    snprintf(found.key, sizeof(found.key), "t.published.%u", other);
    status = PMIx_Lookup(&found, 1, NULL, 0);
    check(status == PMIX_ERR_NOT_FOUND, "PMIx_Lookup of what was unpublished: %s", name_of(status));
}

/* ---- putting again ------------------------------------------------------------------------------------------------------ */

/* Rank 0 and the last rank fence alone and read each other's second version; then all ranks fence and read it too. */
static void check_reput(void)
{
    pmix_rank_t last = job_size - 1;
    char text[128];
    pmix_value_t *value;
    bool one_of_two = me.rank == 0 || me.rank == last;
    if (one_of_two && last != 0) {
        put_all(2);
        must("PMIx_Commit", PMIx_Commit());
        pmix_proc_t procs[2] = { proc_of(me.nspace, 0), proc_of(me.nspace, last) };
        must("fence of two", fence(procs, 2, true));
        read_all(me.rank == 0 ? last : 0, 2, true);
        must("fence of two", fence(procs, 2, false));
    }
    if (!one_of_two) {
        put_all(2);
        must("PMIx_Commit", PMIx_Commit());
    }
    if (last == 0) {
        put_all(2);
        must("PMIx_Commit", PMIx_Commit());
    }
    must("fence of all", fence(NULL, 0, true));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        read_all(rank, 2, true);
    }
    /* Local peers see a commit at once, so no rank continues before all have read. */
    must("fence", fence(NULL, 0, false));
    /* Once more, with one key only: the others keep their values. */
    text_of(text, sizeof(text), "global", me.rank, 3);
    put_text(PMIX_GLOBAL, "t.global", text);
    must("PMIx_Commit", PMIx_Commit());
    must("fence of all", fence(NULL, 0, true));
    for (uint32_t rank = 0; rank < job_size; rank++) {
        text_of(text, sizeof(text), "global", rank, 3);
        pmix_status_t status = get_with(rank, "t.global", NULL, &value);
        is_text(status, value, text, "t.global, third version", rank, true);
        if (is_local(rank)) {
            text_of(text, sizeof(text), "local", rank, 2);
            status = get_with(rank, "t.local", NULL, &value);
            is_text(status, value, text, "t.local after a later fence", rank, true);
        }
        expect_number(rank, "t.uint32", NULL, PMIX_UINT32, 1000 + rank);
    }
}

static int run_abort(void)
{
    must("fence", fence(NULL, 0, false));
    if ((int) me.rank == abort_rank) {
        pmix_status_t status = PMIx_Abort(7, "the test asked for it", NULL, 0);
        check(status == PMIX_SUCCESS, "PMIx_Abort: %s", name_of(status));
        say("rank %u: aborted", me.rank);
        usleep(20000000);
        return 9;
    }
    fence(NULL, 0, false); /* never ends: the host kills this process */
    say("rank %u: FAIL survived the abort", me.rank);
    return 1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--strict") == 0) {
            strict = true;
        } else if (strcmp(argv[i], "--reput") == 0) {
            reput = true;
        } else if (strcmp(argv[i], "--no-publish") == 0) {
            publishing = false;
        } else if (strcmp(argv[i], "--shared") == 0) {
            shared = true;
        } else if (strcmp(argv[i], "--unshared") == 0) {
            unshared = true;
        } else if (strcmp(argv[i], "--echo") == 0) {
            echoing = true;
        } else if (strcmp(argv[i], "--abort") == 0 && i + 1 < argc) {
            abort_rank = atoi(argv[++i]);
        } else {
            fprintf(stderr, "usage: client [--strict] [--reput] [--no-publish] [--shared | --unshared] [--echo] "
                            "[--abort RANK]\n");
            return 64;
        }
    }
    alarm(120);
    check(PMIx_Initialized() == 0, "PMIx_Initialized before init");
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    read_layout();
    pmix_value_t *value;
    must("PMIx_Get of the job size", get_with(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, NULL, &value));
    job_size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
    drop(value);
    if (abort_rank >= 0) {
        return run_abort();
    }
    check_identity();
    if (have_layout) {
        check_job_values();
        check_proc_values();
        check_resolve();
    }
    check_misses();
    check_modex();
    check(!shared || maps_segments(), "a segment is mapped");
    check(!unshared || !maps_segments(), "no segment is mapped");
    check_fence_without_data();
    check_waiting_get();
    check_timeout();
    check_nonblocking();
    check_events();
    check_environment_event();
    check_connect();
    check_store_internal();
    check_reserved_put();
    check_job_control();
    if (publishing) {
        check_log();
        check_publish();
    }
    if (reput) {
        check_reput();
    }
    must("fence", fence(NULL, 0, false));
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    check(PMIx_Initialized() != 0, "PMIx_Initialized after the first of two finalizes");
    must("second PMIx_Finalize", PMIx_Finalize(NULL, 0));
    check(PMIx_Initialized() == 0, "PMIx_Initialized after the last finalize");
    say("rank %u: %d checks, %d failed", me.rank, checks, failures);
    return failures != 0;
}
