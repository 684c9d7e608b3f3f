/* Wrong use of the library: every call must answer a status, and none may crash or hang.
 *
 *   wrong uninitialised    NULL for each pointer of each function, without PMIx_Init
 *   wrong client           the same as a rank of a job of one, and once more after PMIx_Finalize
 *   wrong server           the same as a host
 *   wrong names            keys and namespaces that are too long or odd, as a rank
 *   wrong hosts            namespaces that are too long or odd, as a host; TMPDIR is where files may come
 *   wrong values           values of every type and of 64 MiB, from rank 0 to the others
 *   wrong twice            initialised and finalized too often
 *   wrong threads          16 threads, or as many as WRONG_THREADS says, each with all calls, as a rank
 *   wrong race             as many threads that call while the process is finalized and initialised again, as a rank of one
 *   wrong abort            PMIx_Abort of a job with NULL for everything
 *
 * Prints a line for everything that is wrong and "WHAT done" at its end; exit status 0 if nothing was wrong. The first
 * three print "covered NAME" for each function called.
 */
#include "shapes.h"

#include <pmix_server.h>
#include <pmix_tool.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

static pmix_proc_t me;
static int wrong;
static const char *volatile doing = "nothing";

static void report_signal(int number)
{
    char line[300];
    int len = snprintf(line, sizeof(line), "%s in %s\n", number == SIGALRM ? "hang" : "crash", doing);
    ssize_t written = write(STDOUT_FILENO, line, len);
    (void) written;
    _exit(99);
}

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDOUT_FILENO, format, args);
    va_end(args);
    __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void expect(pmix_status_t status, pmix_status_t expected, const char *what)
{
    if (status != expected) {
        complain("%s: %s (%d), not %d", what, PMIx_Error_string(status), status, expected);
    }
}

static void must(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        complain("%s: %s (%d)", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

/* Before PMIx_Init, queries about the library itself are answered; queries with any other key are not. */
static void ask_uninitialised(void)
{
    static char *stable[] = { PMIX_QUERY_STABLE_ABI_VERSION, NULL };
    static char *others[] = { PMIX_QUERY_PROVISIONAL_ABI_VERSION, PMIX_QUERY_NAMESPACES, NULL };
    pmix_query_t queries[2] = { { .keys = stable }, { .keys = others } };
    pmix_info_t *results = NULL;
    size_t count = 0;
    expect(PMIx_Query_info(queries, 2, &results, &count), PMIX_ERR_INIT, "a query for namespaces, not initialised");
    expect(PMIx_Query_info(queries, 0, &results, &count), PMIX_ERR_INIT, "a query for nothing, not initialised");
    others[1] = NULL;
    must(PMIx_Query_info(queries, 2, &results, &count), "a query for the binary interface, not initialised");
    for (size_t i = 0; i < 2; i++) {
        const char *key = i == 0 ? PMIX_QUERY_STABLE_ABI_VERSION : PMIX_QUERY_PROVISIONAL_ABI_VERSION;
        if (count != 2 || !PMIX_CHECK_KEY(&results[i], key) || results[i].value.type != PMIX_STRING
            || strcmp(results[i].value.data.string, "0.0") != 0) {
            complain("another answer to the query for the binary interface");
            break;
        }
    }
    PMIX_INFO_FREE(results, count);
}

/* ---- NULL for each pointer --------------------------------------------------------------------------------------- */

static void *start_list(void) { return PMIx_Info_list_start(); }

enum place { UNINITIALISED, CLIENT, SERVER };

/* Whether the call, with its other arguments right, would do harm: it would end the job, or start a role that
 * this process does not have. */
static bool is_left_out(const char *name, enum place place)
{
    if (strcmp(name, "PMIx_Abort") == 0) {
        return place != UNINITIALISED;
    }
    if (strcmp(name, "PMIx_Init") == 0 || strcmp(name, "PMIx_tool_init") == 0) {
        return place != CLIENT;
    }
    if (strcmp(name, "PMIx_server_init") == 0) {
        return place != SERVER;
    }
    return false;
}

static void call(const char *name, const char *shape, int null, enum place place)
{
    static char what[120];
    snprintf(what, sizeof(what), "%s with NULL for argument %d, %s", name, null + 1,
             place == CLIENT ? "as a rank" : place == SERVER ? "as a host" : "not initialised");
    doing = what;
    any_function function = (any_function) (uintptr_t) dlsym(RTLD_DEFAULT, name);
    if (function == NULL) {
        complain("%s is not there", name);
        return;
    }
    intptr_t a[ARGUMENT_COUNT_MAX] = { 0 };
    const char *letters = shape + 2;
    fill_arguments(a, letters, null, &me);
    alarm(60);
    intptr_t answer = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    alarm(0);
    bool needed = null >= 0 && letters[null] >= 'A' && letters[null] <= 'Z';
    pmix_status_t status = (pmix_status_t) answer;
    if (shape[0] != 's' || !needed) {
        return;
    }
    /* Not initialised: PMIx_Finalize and its like do not even look. */
    if (place == UNINITIALISED && strcmp(name, "PMIx_Finalize") == 0) {
        expect(status, PMIX_SUCCESS, what);
    } else if (status != PMIX_ERR_BAD_PARAM && status != PMIX_ERR_NOT_SUPPORTED && status != PMIX_ERR_INIT) {
        complain("%s: %s (%d)", what, PMIx_Error_string(status), status);
    } else if (place == CLIENT && status == PMIX_ERR_INIT && strncmp(name, "PMIx_server", 11) != 0
               && strncmp(name, "PMIx_tool", 9) != 0) {
        complain("%s: PMIX_ERR_INIT although initialised", what);
    }
}

static void call_all(enum place place)
{
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        const char *name = functions[f].name, *shape = functions[f].shape;
        if (is_left_out(name, place)) {
            continue;
        }
        for (int i = 0; shape[2 + i] != '\0'; i++) {
            if (is_pointer(shape[2 + i])) {
                call(name, shape, i, place);
            }
        }
        say("covered %s", name);
    }
    doing = "nothing";
}

static void put_own(const char *key)
{
    pmix_value_t value = value_uint32(7);
    must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
    must(commit_and_collect(), "PMIx_Commit or PMIx_Fence");
}

static void end_client(void)
{
    for (int i = 0; i < 8 && PMIx_Initialized(); i++) {
        must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    }
    if (PMIx_Initialized()) {
        complain("still initialised");
    }
}

static void as_client(void)
{
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    put_own("t.wrong");
    call_all(CLIENT);
    end_client();
    call_all(UNINITIALISED);
}

static void start_server(void)
{
    static pmix_server_module_t module;
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_TMPDIR, value_string(getenv("TMPDIR")));
    must(PMIx_server_init(&module, infos.items, infos.count), "PMIx_server_init");
    free_infos(&infos);
}

static void end_server(void)
{
    int ends = 0;
    while (PMIx_server_finalize() == PMIX_SUCCESS) {
        ends++;
    }
    if (ends == 0) {
        complain("PMIx_server_finalize failed");
    }
    expect(PMIx_server_finalize(), PMIX_ERR_INIT, "PMIx_server_finalize once too often");
}

static void as_server(void)
{
    me = proc_of("wrong-job", 0);
    start_server();
    call_all(SERVER);
    end_server();
    call_all(UNINITIALISED);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static char *text_of_len(size_t len)
{
    char *text = need(calloc(1, len + 1));
    memset(text, 'x', len);
    memcpy(text, "t.", len < 2 ? len : 2);
    return text;
}

static void check_keys(void)
{
    static const struct {
        size_t len;
        bool is_right;
    } cases[] = { { 0, false }, { 1, true }, { 511, true }, { 512, false }, { 600, false } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *key = text_of_len(cases[i].len), what[100];
        pmix_status_t expected = cases[i].is_right ? PMIX_SUCCESS : PMIX_ERR_BAD_PARAM;
        pmix_value_t value = value_uint32(40 + i), *found = NULL;
        snprintf(what, sizeof(what), "a key of %zu characters", cases[i].len);
        expect(PMIx_Put(PMIX_GLOBAL, key, &value), expected, what);
        expect(PMIx_Store_internal(&me, key, &value), expected, what);
        must(commit_and_collect(), "PMIx_Commit or PMIx_Fence");
        if (cases[i].len == 0) {
            continue; /* An empty key asks for all values. */
        }
        pmix_proc_t of = me;
        of.rank = 1 - me.rank;
        pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &found);
        expect(status, expected, what);
        if (status == PMIX_SUCCESS && (found->type != PMIX_UINT32 || found->data.uint32 != 40 + i)) {
            complain("%s has a wrong value", what);
        }
        char *keys[] = { key, NULL };
        pmix_pdata_t data = { 0 };
        memcpy(data.key, key, cases[i].len < sizeof(data.key) ? cases[i].len : sizeof(data.key));
        status = PMIx_Lookup(&data, 1, NULL, 0);
        if (status == PMIX_SUCCESS) {
            complain("a lookup of %s found something", what);
        }
        status = PMIx_Unpublish(keys, NULL, 0);
        if (!cases[i].is_right && status == PMIX_SUCCESS) {
            say("note: unpublishing %s: success", what);
        }
    }
}

static void check_nspaces(void)
{
    static const char *const odd[] = { "", "/", "..", "../../etc", "a/b", ".", "\xff\xfe", "%s%n", "*", "a b\n" };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        pmix_proc_t of = proc_of(odd[i], 0), *peers = NULL;
        pmix_value_t *found = NULL;
        pmix_info_t wait = { .key = PMIX_TIMEOUT, .value = value_int(1) };
        char what[100], *nodes = NULL;
        size_t count = 0;
        snprintf(what, sizeof(what), "namespace \"%s\"", odd[i]);
        doing = what;
        if (odd[i][0] != '\0') { /* An empty one is the own. */
            if (PMIx_Get(&of, "t.wrong", &wait, 1, &found) == PMIX_SUCCESS) {
                complain("PMIx_Get of %s found something", what);
            }
            if (PMIx_Resolve_peers(NULL, of.nspace, &peers, &count) == PMIX_SUCCESS && count > 0) {
                complain("PMIx_Resolve_peers of %s found %zu", what, count);
            }
            if (PMIx_Resolve_nodes(of.nspace, &nodes) == PMIX_SUCCESS && nodes != NULL && nodes[0] != '\0') {
                complain("PMIx_Resolve_nodes of %s found %s", what, nodes);
            }
        }
    }
    static const size_t lens[] = { 255, 256, 300 };
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        union {
            pmix_proc_t proc;
            char text[400];
        } of = { 0 };
        memset(of.text, 'y', lens[i]);
        if (lens[i] < 256) {
            of.proc.rank = 0;
        }
        pmix_value_t *found = NULL, value = value_uint32(1);
        pmix_info_t wait = { .key = PMIX_TIMEOUT, .value = value_int(1) };
        char what[100], *nodes = NULL;
        snprintf(what, sizeof(what), "a namespace of %zu characters", lens[i]);
        doing = what;
        pmix_status_t status = PMIx_Get(&of.proc, "t.wrong", &wait, 1, &found);
        if (status == PMIX_SUCCESS || (lens[i] > 255 && status != PMIX_ERR_BAD_PARAM)) {
            complain("PMIx_Get of %s: %s", what, PMIx_Error_string(status));
        }
        expect(PMIx_Store_internal(&of.proc, "t.wrong", &value), lens[i] > 255 ? PMIX_ERR_BAD_PARAM : PMIX_SUCCESS,
               what);
        status = PMIx_Resolve_nodes(of.text, &nodes);
        if (lens[i] > 255) {
            expect(status, PMIX_ERR_BAD_PARAM, what);
            expect(PMIx_Fence(&of.proc, 1, NULL, 0), PMIX_ERR_BAD_PARAM, what);
        }
    }
}

static void check_names(void)
{
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    check_keys();
    check_nspaces();
    must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    end_client();
}

static void check_host_nspace(const char *nspace, bool is_right)
{
    char what[360];
    snprintf(what, sizeof(what), "registering \"%s\"", nspace);
    doing = what;
    pmix_info_t size = { .key = PMIX_JOB_SIZE, .value = value_uint32(1) };
    if (!is_right) {
        /* The name is refused before the infos are read: PRRTE 3.0.8 passes infos that are not there with the empty one. */
        size.value.type = 4711;
    }
    pmix_status_t status = PMIx_server_register_nspace(nspace, 1, &size, 1, NULL, NULL);
    if (!is_right) {
        expect(status, PMIX_ERR_BAD_PARAM, what);
        return;
    }
    expect(status, PMIX_OPERATION_SUCCEEDED, what);
    pmix_proc_t proc = proc_of(nspace, 0);
    expect(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL), PMIX_OPERATION_SUCCEEDED, what);
    char **env = NULL;
    expect(PMIx_server_setup_fork(&proc, &env), PMIX_SUCCESS, what);
    for (int i = 0; env != NULL && env[i] != NULL; i++) {
        if (strncmp(env[i], "PMIX_DSTORE_SEGMENTS=", 21) == 0) {
            say("segments %s", env[i] + 21);
        }
    }
    PMIx_server_deregister_client(&proc, NULL, NULL);
    PMIx_server_deregister_nspace(nspace, NULL, NULL);
}

static void check_hosts(void)
{
    static const char *const odd[] = { "/", "..", "../../etc/x", "a/b", ".", "\xff\xfe", "%s%n", "-rf *", "a b\n" };
    start_server();
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        check_host_nspace(odd[i], true);
    }
    check_host_nspace("", false);
    for (size_t len = 254; len <= 300; len++) {
        check_host_nspace(text_of_len(len), len <= 255);
    }
    end_server();
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

#define LARGE_LEN ((size_t) 64 << 20)

/* Fills a value of a type as the helper function does, from bytes that mean something for every type. */
static bool make_value(pmix_value_t *value, pmix_data_type_t type)
{
    static union {
        uint64_t words[128];
        pmix_proc_t proc;
        pmix_byte_object_t object;
        pmix_data_array_t array;
        struct timeval time;
    } source;
    static uint32_t numbers[3] = { 1, 2, 3 };
    memset(&source, 0, sizeof(source));
    const void *data = &source;
    switch (type) {
    case PMIX_STRING: case PMIX_REGEX: data = "a text"; break;
    case PMIX_PROC: source.proc = me; break;
    case PMIX_BYTE_OBJECT: case PMIX_COMPRESSED_STRING: case PMIX_COMPRESSED_BYTE_OBJECT:
        source.object.bytes = (char *) numbers;
        source.object.size = sizeof(numbers);
        break;
    case PMIX_DATA_ARRAY:
        source.array = (pmix_data_array_t) { .type = PMIX_UINT32, .size = 3, .array = numbers };
        break;
    case PMIX_TIMEVAL: source.time = (struct timeval) { 5, 6 }; break;
    case PMIX_BOOL: source.words[0] = 1; break;
    case PMIX_BYTE: case PMIX_SIZE: case PMIX_PID: case PMIX_INT: case PMIX_INT8: case PMIX_INT16: case PMIX_INT32:
    case PMIX_INT64: case PMIX_UINT: case PMIX_UINT8: case PMIX_UINT16: case PMIX_UINT32: case PMIX_UINT64:
    case PMIX_FLOAT: case PMIX_DOUBLE: case PMIX_TIME: case PMIX_STATUS: case PMIX_PERSIST: case PMIX_SCOPE:
    case PMIX_DATA_RANGE: case PMIX_PROC_STATE: case PMIX_PROC_RANK: case PMIX_ALLOC_DIRECTIVE: case PMIX_IOF_CHANNEL:
    case PMIX_JOB_STATE: case PMIX_LINK_STATE: case PMIX_LOCTYPE: case PMIX_DEVTYPE: case PMIX_INFO_DIRECTIVES:
        source.words[0] = 0x3f;
        break;
    default: break; /* Structures may hold pointers: all zeros are a good one of each. */
    }
    memset(value, 0, sizeof(*value));
    return PMIx_Value_load(value, data, type) == PMIX_SUCCESS && value->type != PMIX_UNDEF;
}

static char byte_at(size_t at) { return (char) (at * 2654435761u >> 13); }

static void check_values(void)
{
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    pmix_status_t put[80];
    for (pmix_data_type_t type = 0; type < 80; type++) {
        pmix_value_t value;
        char key[40];
        snprintf(key, sizeof(key), "t.type%u", type);
        put[type] = PMIX_ERR_NOT_SUPPORTED;
        if (make_value(&value, type)) {
            put[type] = PMIx_Put(PMIX_GLOBAL, key, &value);
        }
        /* A type that does not exist, with a value of zeros. */
        memset(&value, 0, sizeof(value));
        value.type = 0x4000 + type;
        pmix_status_t status = PMIx_Put(PMIX_GLOBAL, "t.no-type", &value);
        if (status == PMIX_SUCCESS) {
            complain("a value of type %u was taken", value.type);
        }
    }
    if (me.rank == 0) {
        pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
        value.data.bo.bytes = need(malloc(LARGE_LEN));
        value.data.bo.size = LARGE_LEN;
        for (size_t at = 0; at < LARGE_LEN; at++) {
            value.data.bo.bytes[at] = byte_at(at);
        }
        must(PMIx_Put(PMIX_GLOBAL, "t.large", &value), "PMIx_Put of 64 MiB");
        free(value.data.bo.bytes);
    }
    /* A value too large for any commit is refused, and does not affect the others. */
    if (me.rank == 0) {
        pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo.size = (size_t) 1 << 30 };
        value.data.bo.bytes = need(calloc(1, value.data.bo.size));
        pmix_status_t status = PMIx_Put(PMIX_LOCAL, "t.gigantic", &value);
        free(value.data.bo.bytes);
        if (status != PMIX_ERR_OUT_OF_RESOURCE) {
            complain("PMIx_Put of 1 GiB: %s", PMIx_Error_string(status));
        }
    }
    uint32_t number = 1;
    pmix_data_array_t arrays[40];
    for (int depth = 0; depth < 40; depth++) {
        arrays[depth] = (pmix_data_array_t) { .type = PMIX_DATA_ARRAY, .size = 1, .array = &arrays[depth + 1] };
    }
    arrays[39] = (pmix_data_array_t) { .type = PMIX_UINT32, .size = 1, .array = &number };
    pmix_value_t nested = { .type = PMIX_DATA_ARRAY, .data.darray = &arrays[0] };
    say("note: 40 arrays in each other: %s", PMIx_Error_string(PMIx_Put(PMIX_GLOBAL, "t.nested", &nested)));
    pmix_value_t regex = { .type = PMIX_REGEX, .data.bo = { .bytes = "a\0b\0c", .size = 6 } };
    if (PMIx_Put(PMIX_GLOBAL, "t.regex", &regex) == PMIX_SUCCESS) {
        complain("a regex that has no end was taken");
    }
    must(commit_and_collect(), "PMIx_Commit or PMIx_Fence");
    pmix_proc_t of = me;
    of.rank = 1 - me.rank;
    int found_types = 0;
    for (pmix_data_type_t type = 0; type < 80; type++) {
        pmix_value_t mine, *found = NULL;
        char key[40];
        snprintf(key, sizeof(key), "t.type%u", type);
        doing = key;
        if (put[type] != PMIX_SUCCESS || !make_value(&mine, type)) {
            continue;
        }
        pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &found);
        if (type == PMIX_POINTER || type == PMIX_TOPO || type == PMIX_COMPRESSED_STRING) {
            continue; /* Addresses mean nothing elsewhere; and these bytes are no compressed text. */
        }
        if (status != PMIX_SUCCESS || found->type != type) {
            complain("%s: %s, type %d", key, PMIx_Error_string(status), found ? found->type : -1);
            continue;
        }
        if (type == PMIX_PROC) {
            mine.data.proc->rank = of.rank;
        }
        char *one = PMIx_Value_string(&mine), *other = PMIx_Value_string(found);
        if (strcmp(one, other) != 0) {
            complain("%s: %s, not %s", key, other, one);
        }
        free(one);
        free(other);
        found_types++;
        PMIX_VALUE_RELEASE(found);
    }
    if (found_types < 25) {
        complain("only %d types", found_types);
    }
    of.rank = 0;
    pmix_value_t *large = NULL;
    doing = "64 MiB";
    must(PMIx_Get(&of, "t.large", NULL, 0, &large), "PMIx_Get of 64 MiB");
    if (large->type != PMIX_BYTE_OBJECT || large->data.bo.size != LARGE_LEN) {
        complain("64 MiB have type %u and %zu bytes", large->type, large->data.bo.size);
    } else {
        for (size_t at = 0; at < LARGE_LEN; at++) {
            if (large->data.bo.bytes[at] != byte_at(at)) {
                complain("64 MiB are wrong at %zu", at);
                break;
            }
        }
    }
    PMIX_VALUE_RELEASE(large);
    must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    end_client();
}

/* ---- too often --------------------------------------------------------------------------------------------------- */

static void check_twice(void)
{
    pmix_value_t *found = NULL, value = value_uint32(1);
    pmix_proc_t other;
    expect(PMIx_Finalize(NULL, 0), PMIX_SUCCESS, "PMIx_Finalize before PMIx_Init");
    for (int round = 0; round < 3; round++) {
        expect(PMIx_Get(NULL, "t.wrong", NULL, 0, &found), PMIX_ERR_INIT, "PMIx_Get without PMIx_Init");
        expect(PMIx_Put(PMIX_GLOBAL, "t.wrong", &value), PMIX_ERR_INIT, "PMIx_Put without PMIx_Init");
        expect(PMIx_Commit(), PMIX_ERR_INIT, "PMIx_Commit without PMIx_Init");
        expect(PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_INIT, "PMIx_Fence without PMIx_Init");
        expect(PMIx_Abort(1, NULL, NULL, 0), PMIX_ERR_INIT, "PMIx_Abort without PMIx_Init");
        must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
        must(PMIx_Init(&other, NULL, 0), "PMIx_Init again");
        if (strcmp(me.nspace, other.nspace) != 0 || me.rank != other.rank) {
            complain("two names");
        }
        must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
        put_own("t.twice");
        must(PMIx_Get(&me, "t.twice", NULL, 0, &found), "PMIx_Get between the two finalizes");
        must(PMIx_Finalize(NULL, 0), "second PMIx_Finalize");
        expect(PMIx_Finalize(NULL, 0), PMIX_SUCCESS, "third PMIx_Finalize");
        /* A value that a Get returned stays valid. */
        if (found->type != PMIX_UINT32 || found->data.uint32 != 7) {
            complain("the value has changed");
        }
        PMIX_VALUE_RELEASE(found);
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

#define THREAD_COUNT_MAX 64

static uintptr_t thread_count(void)
{
    const char *text = getenv("WRONG_THREADS");
    uintptr_t count = text == NULL ? 16 : strtoul(text, NULL, 10);
    return count < 1 || count > THREAD_COUNT_MAX ? THREAD_COUNT_MAX : count;
}

static void taken(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    int result = status == PMIX_SUCCESS && value->type == PMIX_UINT32 ? (int) value->data.uint32 : -1;
    __atomic_store_n((int *) cbdata, result, __ATOMIC_RELEASE);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void *one_thread(void *argument)
{
    uint32_t number = (uint32_t) (uintptr_t) argument;
    for (uint32_t round = 0; round < 20; round++) {
        char key[40];
        pmix_value_t value = value_uint32(number * 1000 + round), *found = NULL;
        pmix_proc_t mine;
        must(PMIx_Init(&mine, NULL, 0), "PMIx_Init in a thread");
        snprintf(key, sizeof(key), "t.thread%u.%u", number, round);
        must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put in a thread");
        must(PMIx_Commit(), "PMIx_Commit in a thread");
        /* A fence of this process alone; the threads' fences may overlap. */
        pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = value_bool(true) };
        must(PMIx_Fence(&mine, 1, &collect, 1), "PMIx_Fence in a thread");
        must(PMIx_Get(&mine, key, NULL, 0, &found), "PMIx_Get in a thread");
        if (found->type != PMIX_UINT32 || found->data.uint32 != number * 1000 + round) {
            complain("thread %u round %u: a wrong value", number, round);
        }
        PMIX_VALUE_RELEASE(found);
        int result = -2;
        must(PMIx_Get_nb(&mine, key, NULL, 0, taken, &result), "PMIx_Get_nb in a thread");
        pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - (int) number;
        pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
        if (id < 0) {
            complain("thread %u: %s", number, PMIx_Error_string(id));
        }
        must(PMIx_Notify_event(code, &mine, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL), "PMIx_Notify_event");
        must(PMIx_Deregister_event_handler(id, NULL, NULL), "PMIx_Deregister_event_handler in a thread");
        while (__atomic_load_n(&result, __ATOMIC_ACQUIRE) == -2) {
            usleep(100); /* The alarm ends this if the callback does not come. */
        }
        if (result != (int) (number * 1000 + round)) {
            complain("thread %u round %u: a callback brought %d", number, round, result);
        }
        must(PMIx_Finalize(NULL, 0), "PMIx_Finalize in a thread");
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREAD_COUNT_MAX];
    uintptr_t count = thread_count();
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    for (uintptr_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, one_thread, (void *) i) != 0) {
            complain("no thread");
            exit(1);
        }
    }
    for (uintptr_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    end_client();
}

static bool racing = true;

/* Gets that are answered at once, and some that wait for the server or for a value that does not come. */
static void *one_reader(void *argument)
{
    uint32_t number = (uint32_t) (uintptr_t) argument;
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    for (unsigned turn = 0; __atomic_load_n(&racing, __ATOMIC_RELAXED); turn++) {
        pmix_value_t *found = NULL;
        bool waits = number == 0 && turn % 64 == 0;
        pmix_status_t status = PMIx_Get(waits ? &me : &job, waits ? "t.never" : PMIX_JOB_SIZE, NULL, 0, &found);
        if (status == PMIX_SUCCESS) {
            if (waits || found->type != PMIX_UINT32 || found->data.uint32 != 1) {
                complain("reader %u: a wrong value", number);
            }
            PMIX_VALUE_RELEASE(found);
        } else {
            usleep(100); /* There is nothing to do, and others have. */
        }
    }
    return NULL;
}

static void *one_racer(void *argument)
{
    uint32_t number = (uint32_t) (uintptr_t) argument;
    while (__atomic_load_n(&racing, __ATOMIC_RELAXED)) {
        if (!PMIx_Initialized()) {
            usleep(100);
        }
        pmix_value_t value = value_uint32(number);
        pmix_proc_t *peers = NULL;
        size_t count = 0;
        PMIx_Put(PMIX_GLOBAL, "t.race", &value);
        PMIx_Store_internal(&me, "t.race", &value);
        PMIx_Commit();
        if (PMIx_Resolve_peers(NULL, me.nspace, &peers, &count) == PMIX_SUCCESS) {
            free(peers);
        }
        PMIx_Fence(&me, 1, NULL, 0);
        pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - (int) number;
        pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
        PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL);
        PMIx_Deregister_event_handler(id < 0 ? 0 : id, NULL, NULL);
    }
    return NULL;
}

/* A call during another thread's finalize returns some status. */
static void check_race(void)
{
    pthread_t threads[THREAD_COUNT_MAX];
    uintptr_t count = thread_count();
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    for (uintptr_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, i % 4 == 0 ? one_reader : one_racer, (void *) i) != 0) {
            complain("no thread");
            exit(1);
        }
    }
    for (int i = 0; i < 100; i++) {
        usleep(i % 4 * 500);
        must(PMIx_Finalize(NULL, 0), "PMIx_Finalize under calls");
        pmix_proc_t again;
        must(PMIx_Init(&again, NULL, 0), "PMIx_Init under calls");
    }
    __atomic_store_n(&racing, false, __ATOMIC_RELAXED);
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize under calls"); /* It ends those that wait. */
    for (uintptr_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    end_client();
}

static void check_abort(void)
{
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    say("abort done");
    must(PMIx_Abort(3, NULL, NULL, 1), "PMIx_Abort");
    usleep(30000000);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = { { "client", as_client }, { "server", as_server }, { "names", check_names },
                  { "hosts", check_hosts }, { "values", check_values }, { "twice", check_twice },
                  { "threads", check_threads }, { "race", check_race }, { "abort", check_abort } };
    static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        signal(signals[i], report_signal);
    }
    const char *patience = getenv("WRONG_ALARM");
    alarm(patience == NULL ? 100 : (unsigned) atoi(patience));
    const char *mode = argc > 1 ? argv[1] : "";
    doing = mode;
    if (strcmp(mode, "uninitialised") == 0) {
        me = proc_of("nowhere", 0);
        ask_uninitialised();
        call_all(UNINITIALISED);
        say("uninitialised done");
        return wrong != 0;
    }
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(mode, modes[i].name) == 0) {
            modes[i].run();
            say("%s done", mode);
            return wrong != 0;
        }
    }
    fprintf(stderr, "usage: wrong uninitialised|client|server|names|hosts|values|twice|threads|race|abort\n");
    return 64;
}
