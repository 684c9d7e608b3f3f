/* Cost of a client's calls, class by class, under benches/programs/host.c.
 *
 *   calls [--calls N] [--class NAME] [--peers N] [--cold] [--count] [--turns] [--threads N] [--cpu C] [--check N]
 *
 * Every rank puts eight keys of 64 bytes and enters a collecting fence. Then rank 0 makes the calls of each class and
 * prints a line for it, while the others sleep in the next fence:
 *
 *   class NAME MEDIAN P99 MIN      nanoseconds for one call, over batches of 64
 *
 * Freeing the result, as C callers do, is part of the call. A class that the library cannot serve is printed as missing.
 *
 *   --class NAME   makes only the calls of this class
 *   --peers N      reads keys of N ranks of the node, instead of all others
 *   --cold         other classes: of random ranks, each drawn by the value before, one published key
 *                  (host.c, --published), and registered values
 *   --count        under valgrind: dumps the instruction count of each class, after one warm-up call that is not counted
 *   --turns        makes calls on command instead: turns.h
 *   --threads N    measures two threads at once instead, in N turns: together.h
 *   --cpu C        binds rank 0 with all its threads to one processor
 *   --check N      instead reads N values of random ranks, and compares each with the host's registration: checked N
 */
#define _GNU_SOURCE
#include <pmix.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef COUNTED
#include <valgrind/callgrind.h>
#endif

#include "place.h"
#include "turns.h"

#include "together.h"

enum { KEYS = 8, NODE_NAMES = 64, VALUE_LEN = 64 };

/* Of each rank, with --cold; its value begins with the rank. */
#define COLD_KEY "btl.endpoint.cold"

static pmix_proc_t me;
static uint32_t job_size, per_node, nodes, servers, clients, peers;
static pmix_info_t optional, pointer_values, static_values[2], app_info[2], node_by_id[2], node_by_name[2];
static char node_names[NODE_NAMES][16], (*all_names)[16];
static const char *names[KEYS] = { "btl.endpoint.0", "btl.endpoint.1", "btl.endpoint.2", "btl.endpoint.3",
                                   "btl.endpoint.4", "btl.endpoint.5", "btl.endpoint.6", "btl.endpoint.7" };

__attribute__((noreturn)) static void fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(status), status);
    _exit(1);
}

/* ---- one call of each class --------------------------------------------------------------------------------------------- */

static void free_value(pmix_value_t *value)
{
    if (value->type == PMIX_STRING) {
        free(value->data.string);
    } else if (value->type == PMIX_BYTE_OBJECT) {
        free(value->data.bo.bytes);
    }
    free(value);
}

static bool get(pmix_rank_t rank, const char *key, const pmix_info_t *infos, size_t count)
{
    static __thread pmix_proc_t proc;
    if (proc.nspace[0] == 0) {
        proc = me;
    }
    proc.rank = rank;
    pmix_value_t *value;
    pmix_status_t status = PMIx_Get(&proc, key, infos, count, &value);
    if (status != PMIX_SUCCESS) {
        return false;
    }
    free_value(value);
    return true;
}

/* If the caller owns the storage, or the library owns the value, there is nothing to free. */
static bool get_in_place(pmix_rank_t rank, const char *key, const pmix_info_t *infos, size_t count, bool is_static, char first)
{
    static __thread pmix_proc_t proc;
    static __thread pmix_value_t storage;
    if (proc.nspace[0] == 0) {
        proc = me;
    }
    proc.rank = rank;
    pmix_value_t *value = is_static ? &storage : NULL;
    if (PMIx_Get(&proc, key, infos, count, &value) != PMIX_SUCCESS) {
        return false;
    }
    return first == 0 || (value->data.bo.size == VALUE_LEN && value->data.bo.bytes[0] == first);
}

/* The caller owns the storage, and frees what the value points to. */
static bool get_filled(pmix_rank_t rank, const char *key, char first)
{
    static __thread pmix_proc_t proc;
    if (proc.nspace[0] == 0) {
        proc = me;
    }
    proc.rank = rank;
    pmix_value_t storage, *value = &storage;
    if (PMIx_Get(&proc, key, static_values, 1, &value) != PMIX_SUCCESS || value != &storage
        || storage.data.bo.size != VALUE_LEN) {
        return false;
    }
    bool is_right = storage.data.bo.bytes[0] == first;
    free(storage.data.bo.bytes);
    return is_right;
}

static bool misses(const char *key)
{
    pmix_value_t *value;
    return PMIx_Get(&me, key, &optional, 1, &value) == PMIX_ERR_NOT_FOUND;
}

/* A rank on this node, and one on the next server's node. Each turn also takes the next key. */
static pmix_rank_t local_peer(uint32_t turn) { return me.rank + 1 + turn % peers; }
static pmix_rank_t remote_peer(uint32_t turn) { return (1 + turn % (servers - 1)) * per_node + turn % clients; }
static pmix_rank_t any_rank(uint32_t turn) { return turn * 7 % job_size; }

static bool own_key(uint32_t turn) { return get(me.rank, names[turn % KEYS], NULL, 0); }
static bool local_key(uint32_t turn) { return get(local_peer(turn), names[turn % KEYS], NULL, 0); }
static bool remote_key(uint32_t turn) { return get(remote_peer(turn), names[turn % KEYS], NULL, 0); }
static bool job_key(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, NULL, 0); }
static bool session_key(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, NULL, 0); }
static bool app_key(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_APP_SIZE, app_info, 2); }
static bool node_id_key(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, node_by_id, 2); }
static bool node_name_key(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, node_by_name, 2); }
static bool local_peers(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, NULL, 0); }
static bool rank_number(uint32_t turn) { return get(any_rank(turn), PMIX_LOCAL_RANK, NULL, 0); }
static bool rank_host(uint32_t turn) { return get(any_rank(turn), PMIX_HOSTNAME, NULL, 0); }
static bool own_host(uint32_t turn) { (void) turn; return get(PMIX_RANK_WILDCARD, PMIX_HOSTNAME, NULL, 0); }
static bool miss(uint32_t turn) { (void) turn; return misses("no.such.key"); }
static bool reserved_miss(uint32_t turn) { (void) turn; return misses(PMIX_CREDENTIAL); }
static bool by_pointer(uint32_t turn) { return get_in_place(local_peer(turn), names[turn % KEYS], &pointer_values, 1, false, 'a' + turn % KEYS); }
static bool scalar_static(uint32_t turn) { return get_in_place(any_rank(turn), PMIX_LOCAL_RANK, static_values, 1, true, 0); }
static bool static_bytes(uint32_t turn) { return get_filled(local_peer(turn), names[turn % KEYS], 'a' + turn % KEYS); }
static bool static_pointer(uint32_t turn) { return get_in_place(local_peer(turn), names[turn % KEYS], static_values, 2, true, 'a' + turn % KEYS); }

static bool resolve_peers(uint32_t turn)
{
    pmix_proc_t *procs;
    size_t count;
    if (PMIx_Resolve_peers(node_names[turn % (nodes < NODE_NAMES ? nodes : NODE_NAMES)], me.nspace, &procs, &count) != PMIX_SUCCESS || count == 0) {
        return false;
    }
    free(procs);
    return true;
}

static bool resolve_nodes(uint32_t turn)
{
    (void) turn;
    char *list;
    if (PMIx_Resolve_nodes(me.nspace, &list) != PMIX_SUCCESS || list == NULL) {
        return false;
    }
    free(list);
    return true;
}

static const struct class {
    const char *name;
    call_t call;
} hot_classes[] = {
    { "own-key", own_key },
    { "local-key", local_key },
    { "remote-key", remote_key },
    { "rank-number", rank_number },
    { "rank-host", rank_host },
    { "own-host", own_host },
    { "job", job_key },
    { "session", session_key },
    { "app", app_key },
    { "node-by-id", node_id_key },
    { "node-by-name", node_name_key },
    { "local-peers", local_peers },
    { "miss", miss },
    { "reserved-miss", reserved_miss },
    { "pointer", by_pointer },
    { "static-scalar", scalar_static },
    { "static-bytes", static_bytes },
    { "static-pointer", static_pointer },
    { "resolve-peers", resolve_peers },
    { "resolve-nodes", resolve_nodes },
};

/* Determines the next rank to read. */
static uint64_t chain = 1;

/* Reads of the next rank: the value, which has this type and, with PMIX_BYTE_OBJECT, begins with the rank. */
static bool next_in_chain(const char *key, pmix_data_type_t type)
{
    static pmix_proc_t proc;
    if (proc.nspace[0] == 0) {
        proc = me;
    }
    chain = chain * 6364136223846793005 + 1442695040888963407;
    proc.rank = (uint32_t) ((chain >> 33) * job_size >> 31);
    pmix_value_t *value;
    if (PMIx_Get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS) {
        return false;
    }
    bool is_right = value->type == type;
    if (!is_right) {
    } else if (type == PMIX_BYTE_OBJECT) {
        uint32_t rank;
        memcpy(&rank, value->data.bo.bytes, sizeof(rank));
        is_right = value->data.bo.size == VALUE_LEN && rank == proc.rank;
        chain += rank;
    } else if (type == PMIX_STRING) {
        chain += (unsigned char) value->data.string[strlen("node")];
    } else {
        chain += value->data.uint16;
    }
    free_value(value);
    return is_right;
}

static bool cold_key(uint32_t turn) { (void) turn; return next_in_chain(COLD_KEY, PMIX_BYTE_OBJECT); }
static bool cold_number(uint32_t turn) { (void) turn; return next_in_chain(PMIX_LOCAL_RANK, PMIX_UINT16); }
static bool cold_host(uint32_t turn) { (void) turn; return next_in_chain(PMIX_HOSTNAME, PMIX_STRING); }

/* The ranks of any node. */
static bool cold_peers(uint32_t turn)
{
    (void) turn;
    chain = chain * 6364136223846793005 + 1442695040888963407;
    pmix_proc_t *procs;
    size_t count;
    if (PMIx_Resolve_peers(all_names[(chain >> 33) * nodes >> 31], me.nspace, &procs, &count) != PMIX_SUCCESS || count == 0) {
        return false;
    }
    chain += procs[count - 1].rank;
    free(procs);
    return true;
}

static const struct class cold_classes[] = {
    { "cold-key", cold_key },
    { "cold-number", cold_number },
    { "cold-host", cold_host },
    { "cold-peers", cold_peers },
};

/* The measured classes, and the number of warm-up calls that touch every value once. */
static const struct class *classes;
static int class_count;
static uint32_t ready_calls;

static void choose_classes(bool is_cold)
{
    classes = is_cold ? cold_classes : hot_classes;
    class_count = is_cold ? sizeof(cold_classes) / sizeof(cold_classes[0]) : sizeof(hot_classes) / sizeof(hot_classes[0]);
    /* Cold classes: enough calls to touch all pages. */
    ready_calls = is_cold ? job_size / 8 : job_size * KEYS < 4096 ? job_size * KEYS : 4096;
}

/* Whether the job has the ranks whose values it reads. */
static bool has_peers(const struct class *class)
{
    bool needs_servers = class->call == remote_key;
    bool needs_clients = class->call == local_key || class->call == by_pointer || class->call == static_bytes
                         || class->call == static_pointer;
    return (!needs_servers || servers >= 2) && (!needs_clients || clients >= 2);
}

static bool make_ready(const struct class *class)
{
    for (uint32_t turn = 0; turn < ready_calls; turn++) {
        if (!class->call(turn)) {
            return false;
        }
    }
    return true;
}

/* The calls with a name, prepared once; NULL if that fails. */
static call_t ready(const char *name)
{
    static const struct class *last;
    for (int i = 0; i < class_count && (last == NULL || strcmp(last->name, name) != 0); i++) {
        if (strcmp(classes[i].name, name) == 0) {
            if (!has_peers(&classes[i]) || !make_ready(&classes[i])) {
                return NULL;
            }
            last = &classes[i];
        }
    }
    return last != NULL && strcmp(last->name, name) == 0 ? last->call : NULL;
}

/* ---- measuring ------------------------------------------------------------------------------------------------------------ */

static void measure(const struct class *class, int calls)
{
    static double times[BATCHES_MAX];
    int batches = calls / BATCH < 1 ? 1 : calls / BATCH > BATCHES_MAX ? BATCHES_MAX : calls / BATCH;
    if (!time_batches(class->call, batches, times)) {
        fail(class->name, PMIX_ERROR);
    }
    qsort(times, batches, sizeof(times[0]), compare_times);
    printf("class %s %.2f %.2f %.2f\n", class->name, times[batches / 2], times[batches * 99 / 100], times[0]);
    fflush(stdout);
}

static void count(const struct class *class, int calls)
{
#ifdef COUNTED
    CALLGRIND_ZERO_STATS;
    for (int turn = 0; turn < calls; turn++) {
        class->call(turn);
    }
    CALLGRIND_DUMP_STATS_AT(class->name);
#else
    (void) class, (void) calls;
    fail("--count wants a program compiled with -DCOUNTED", PMIX_ERR_NOT_SUPPORTED);
#endif
}

/* ---- the rank -------------------------------------------------------------------------------------------------------------- */

static void set(pmix_info_t *info, const char *key, pmix_data_type_t type, uint32_t number)
{
    strcpy(info->key, key);
    info->value.type = type;
    if (type == PMIX_BOOL) {
        info->value.data.flag = number != 0;
    } else {
        info->value.data.uint32 = number;
    }
}

static uint32_t number_of(const char *key)
{
    pmix_proc_t job = me;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t *value;
    pmix_status_t status = PMIx_Get(&job, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value->type != PMIX_UINT32) {
        fail(key, status);
    }
    uint32_t number = value->data.uint32;
    free_value(value);
    return number;
}

static void barrier(void)
{
    pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Fence", status);
    }
}

/* Compares values with the registration of benches/programs/host.c. */
static void check(uint32_t calls)
{
    static const char *const of_ranks[] = { PMIX_RANK, PMIX_APPNUM, PMIX_GLOBAL_RANK, PMIX_APP_RANK, PMIX_LOCAL_RANK,
                                            PMIX_NODE_RANK, PMIX_NODEID, PMIX_HOSTNAME, "no.such.key" };
    /* A process's own values are in no segment, but a Get with PMIX_OPTIONAL finds them, too. */
    pmix_proc_t self = me;
    self.rank = PMIX_RANK_INVALID;
    pmix_value_t *own;
    if (PMIx_Get(&me, PMIX_SERVER_URI, &optional, 1, &own) != PMIX_SUCCESS) {
        fail(PMIX_SERVER_URI, PMIX_ERR_NOT_FOUND);
    }
    free_value(own);
    if (PMIx_Get(&self, PMIX_RANK, &optional, 1, &own) != PMIX_SUCCESS || own->data.rank != me.rank) {
        fail(PMIX_RANK, PMIX_ERR_NOT_FOUND);
    }
    free_value(own);
    uint64_t state = 1;
    for (uint32_t call = 0; call < calls; call++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        /* Sometimes a rank that does not exist. */
        pmix_proc_t proc = me;
        proc.rank = (uint32_t) ((state >> 33) * ((uint64_t) job_size + job_size / 16) >> 31);
        int which = call % (sizeof(of_ranks) / sizeof(of_ranks[0]));
        bool is_known = proc.rank < job_size && which < 8;
        pmix_value_t *value;
        pmix_status_t status = PMIx_Get(&proc, of_ranks[which], &optional, 1, &value);
        if (!is_known) {
            if (status != PMIX_ERR_NOT_FOUND) {
                fail(of_ranks[which], status);
            }
            continue;
        }
        struct place place = place_of(proc.rank, per_node);
        char name[16];
        sprintf(name, "node%05u", place.node);
        const uint32_t numbers[] = { proc.rank, 0, proc.rank, proc.rank, place.local, place.local, place.node };
        bool is_right = status == PMIX_SUCCESS;
        if (is_right && which == 7) {
            is_right = value->type == PMIX_STRING && strcmp(value->data.string, name) == 0;
        } else if (is_right && (which == 4 || which == 5)) {
            is_right = value->type == PMIX_UINT16 && value->data.uint16 == numbers[which];
        } else if (is_right) {
            is_right = value->type == (which == 1 || which == 6 ? PMIX_UINT32 : PMIX_PROC_RANK)
                       && value->data.uint32 == numbers[which];
        }
        if (!is_right) {
            fprintf(stderr, "%s of rank %u is not what the host said\n", of_ranks[which], proc.rank);
            fail(of_ranks[which], status);
        }
        free_value(value);
    }
    printf("checked %u\n", calls);
    fflush(stdout);
}

static void put(const char *key, char *bytes)
{
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo = { .bytes = bytes, .size = VALUE_LEN } };
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Put", status);
    }
}

static uint32_t environment_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 1 : (uint32_t) atoi(text);
}

int main(int argc, char **argv)
{
    int calls = 20000, together_turns = 0, cpu = -1, checked = 0;
    const char *only = NULL;
    bool counted = false, is_cold = false, in_turns = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--calls") == 0 && i + 1 < argc) {
            calls = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--class") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            together_turns = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc) {
            cpu = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--check") == 0 && i + 1 < argc) {
            checked = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--peers") == 0 && i + 1 < argc) {
            peers = (uint32_t) atoi(argv[++i]);
        } else if (strcmp(argv[i], "--count") == 0) {
            counted = true;
        } else if (strcmp(argv[i], "--cold") == 0) {
            is_cold = true;
        } else if (strcmp(argv[i], "--turns") == 0) {
            in_turns = true;
        } else {
            fprintf(stderr, "usage: calls [--calls N] [--class NAME] [--peers N] [--cold] [--count] [--turns] [--threads N] [--cpu C] [--check N]\n");
            return 64;
        }
    }
    const char *rank = getenv("PMIX_RANK");
    if (cpu >= 0 && rank != NULL && strcmp(rank, "0") == 0) {
        /* This binds the library's threads, too: across processors the calls take several times as long. */
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Init", status);
    }
    job_size = number_of(PMIX_JOB_SIZE);
    nodes = number_of(PMIX_NUM_NODES);
    per_node = job_size / nodes;
    servers = environment_number("BENCH_SERVERS");
    clients = environment_number("BENCH_CLIENTS");
    if (peers == 0 || peers > clients - 1) {
        peers = clients - 1;
    }
    const char *shape = getenv("BENCH_SHAPE");
    if (shape != NULL && *shape != 0 && me.rank == 0 && checked > 0) {
        per_node = environment_number("BENCH_PER_NODE");
        if (place(shape, nodes, per_node) != job_size) {
            fail("malloc", PMIX_ERR_NOMEM);
        }
    }
    set(&optional, PMIX_OPTIONAL, PMIX_BOOL, 1);
    set(&pointer_values, PMIX_GET_POINTER_VALUES, PMIX_BOOL, 1);
    set(&static_values[0], PMIX_GET_STATIC_VALUES, PMIX_BOOL, 1);
    set(&static_values[1], PMIX_GET_POINTER_VALUES, PMIX_BOOL, 1);
    set(&app_info[0], PMIX_APP_INFO, PMIX_BOOL, 1);
    set(&app_info[1], PMIX_APPNUM, PMIX_UINT32, 0);
    set(&node_by_id[0], PMIX_NODE_INFO, PMIX_BOOL, 1);
    set(&node_by_id[1], PMIX_NODEID, PMIX_UINT32, nodes - 1);
    set(&node_by_name[0], PMIX_NODE_INFO, PMIX_BOOL, 1);
    for (uint32_t node = 0; node < NODE_NAMES; node++) {
        sprintf(node_names[node], "node%05u", node);
    }
    all_names = malloc(nodes * sizeof(*all_names));
    for (uint32_t node = 0; all_names != NULL && node < nodes; node++) {
        sprintf(all_names[node], "node%05u", node);
    }
    if (all_names == NULL) {
        fail("malloc", PMIX_ERR_NOMEM);
    }
    char name[16];
    sprintf(name, "node%05u", nodes - 1);
    set(&node_by_name[1], PMIX_HOSTNAME, PMIX_STRING, 0);
    node_by_name[1].value.data.string = name;

    choose_classes(is_cold);
    char bytes[VALUE_LEN];
    for (int key = 0; key < KEYS; key++) {
        memset(bytes, 'a' + key, sizeof(bytes));
        put(names[key], bytes);
    }
    if (is_cold) {
        memcpy(bytes, &me.rank, sizeof(me.rank));
        put(COLD_KEY, bytes);
    }
    pmix_info_t collect;
    memset(&collect, 0, sizeof(collect));
    set(&collect, PMIX_COLLECT_DATA, PMIX_BOOL, 1);
    status = PMIx_Commit();
    if (status == PMIX_SUCCESS) {
        status = PMIx_Fence(NULL, 0, &collect, 1);
    }
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Fence", status);
    }
    if (me.rank == 0 && checked > 0) {
        check(checked);
    } else if (me.rank == 0) {
        if (in_turns) {
            take_turns(ready);
        }
        for (int i = 0; !in_turns && i < class_count; i++) {
            const struct class *class = &classes[i];
            if ((only != NULL && strcmp(only, class->name) != 0) || !has_peers(class)) {
                continue;
            }
            if (!make_ready(class)) {
                printf("missing %s\n", class->name);
            } else if (counted) {
                count(class, calls);
            } else if (together_turns > 0) {
                if (!measure_together(class->name, class->call, together_turns)) {
                    fail("pthread_create", PMIX_ERROR);
                }
            } else {
                measure(class, calls);
            }
        }
    }
    barrier();
    PMIx_Finalize(NULL, 0);
    return 0;
}
