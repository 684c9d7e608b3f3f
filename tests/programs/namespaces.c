/* RFC0003's connect, which gives the connected processes a namespace, as all ranks of a job call it.
 *
 *   namespaces WHAT
 *
 * WHAT is what is tried: `whole`, `part`, `parallel`, `directives`, `optional`, `early`, `late`; see the functions of these names. Each rank prints
 * "rank R of NAMESPACE" for its place in each namespace that it is given, "rank R: FAIL ..." for what is wrong, and "rank R: done".
 */
#include "common.h"

#include <pmix_dstore.h>
#include <pthread.h>

#define CODE (-3456)

static pmix_proc_t me;
static uint32_t size;
/* Events by their code: user's, has connected, has disconnected, requested, ended. */
static volatile int heard[5];

#define CHECK(condition, format, ...)                                \
    do {                                                             \
        if (!(condition)) {                                          \
            say("rank %u: FAIL " format, me.rank, ##__VA_ARGS__);    \
            exit(1);                                                 \
        }                                                            \
    } while (0)

static void must(const char *what, pmix_status_t status)
{
    CHECK(status == PMIX_SUCCESS, "%s: %s", what, PMIx_Error_string(status));
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo, pmix_info_t *results,
                     size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id; (void) source; (void) info; (void) ninfo; (void) results; (void) nresults;
    int which = status == CODE                         ? 0
                : status == PMIX_PROC_HAS_CONNECTED    ? 1
                : status == PMIX_PROC_HAS_DISCONNECTED ? 2
                : status == PMIX_CONNECT_REQUESTED     ? 3
                                                       : 4;
    __atomic_add_fetch(&heard[which], 1, __ATOMIC_SEQ_CST);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* Waits until so many events of a kind have come. */
static void await(int which, int count)
{
    for (int i = 0; i < 6000 && heard[which] < count; i++) {
        usleep(10000);
    }
    CHECK(heard[which] == count, "%d events of kind %d, not %d", heard[which], which, count);
}

static uint32_t number_of(const char *nspace, pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = proc_of(nspace, rank);
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(&proc, key, NULL, 0, &value));
    uint32_t number = value->data.uint32;
    free(value);
    return number;
}

static pmix_rank_t connect_all(const pmix_proc_t procs[], size_t count, const char *directive, const char *id, pmix_nspace_t nspace)
{
    infos_t infos = { NULL, 0 };
    if (directive != NULL) {
        add(&infos, directive, value_bool(true));
    }
    if (id != NULL) {
        add(&infos, PMIX_CONNECT_ID, value_string(id));
    }
    pmix_rank_t rank = 4711;
    memset(nspace, 'x', sizeof(pmix_nspace_t));
    must("pmix_dstore_connect", pmix_dstore_connect(procs, count, infos.items, infos.count, nspace, &rank));
    free_infos(&infos);
    if (rank != PMIX_RANK_UNDEF) {
        say("rank %u of %s", rank, nspace);
    }
    return rank;
}

/* A fence of a whole namespace that collects data. */
static void fence(const char *nspace)
{
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = value_bool(true) };
    must("PMIx_Fence", PMIx_Fence(&all, 1, &collect, 1));
}

/* An event from the first member to all of them, each of which hears it. */
static void notify(const char *nspace, pmix_rank_t rank, int count)
{
    if (rank == 0) {
        pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
        infos_t infos = { NULL, 0 };
        add(&infos, PMIX_EVENT_CUSTOM_RANGE, value_proc(&all));
        must("PMIx_Notify_event", PMIx_Notify_event(CODE, &me, PMIX_RANGE_CUSTOM, infos.items, infos.count, NULL, NULL));
        free_infos(&infos);
        /* All of the source's namespace. */
        pmix_proc_t as_member = proc_of(nspace, rank);
        must("PMIx_Notify_event", PMIx_Notify_event(CODE, &as_member, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL));
    }
    await(0, count);
}

/* The namespace in all calls: of so many members, the rank in it, and the job's rank of each member. */
static void use(const char *nspace, pmix_rank_t rank, uint32_t members, const pmix_rank_t *real)
{
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD), beyond = proc_of(nspace, members);
    CHECK(rank < members && real[rank] == me.rank, "the new rank is %u", rank);
    CHECK(number_of(nspace, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE) == members, "the size");
    fence(nspace);
    for (pmix_rank_t of = 0; of < members; of++) {
        uint32_t port = number_of(nspace, of, "port");
        CHECK(port == 100 + real[of], "new rank %u has port %u", of, port);
    }
    pmix_value_t *value = NULL;
    CHECK(PMIx_Get(&beyond, "port", NULL, 0, &value) == PMIX_ERR_NOT_FOUND, "a value of a rank that is not there");
    CHECK(PMIx_Fence(&beyond, 1, NULL, 0) == PMIX_ERR_BAD_PARAM, "a fence of a rank that is not there");
    pmix_proc_t *peers = NULL;
    size_t count = 0;
    must("PMIx_Resolve_peers", PMIx_Resolve_peers(NULL, nspace, &peers, &count));
    CHECK(count == members, "%zu peers", count);
    for (size_t i = 0; i < count; i++) {
        CHECK(strcmp(peers[i].nspace, nspace) == 0 && peers[i].rank == i, "peer %zu is %s:%u", i, peers[i].nspace, peers[i].rank);
    }
    free(peers);
    char *nodes = NULL, *own = NULL;
    must("PMIx_Resolve_nodes", PMIx_Resolve_nodes(nspace, &nodes));
    must("PMIx_Resolve_nodes", PMIx_Resolve_nodes(me.nspace, &own));
    CHECK(nodes != NULL && own != NULL && strcmp(nodes, own) == 0, "nodes %s", nodes);
    free(nodes);
    free(own);
    notify(nspace, rank, 2);
    /* A second connect of the namespace's processes, by its name, is one more of the same. */
    pmix_nspace_t again;
    pmix_rank_t same = connect_all(&all, 1, NULL, NULL, again);
    CHECK(same == rank && strcmp(again, nspace) == 0, "connected again as %s:%u", again, same);
    must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    fence(nspace);
    must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    CHECK(pmix_dstore_disconnect(nspace, NULL, 0) == PMIX_ERR_INVALID_NAMESPACE, "a disconnect of no namespace");
    CHECK(PMIx_Resolve_peers(NULL, nspace, &peers, &count) != PMIX_SUCCESS, "its peers afterwards");
    pmix_proc_t first = proc_of(nspace, 0);
    pmix_info_t immediate = { .key = PMIX_IMMEDIATE, .value = value_bool(true) };
    CHECK(PMIx_Get(&first, "port", &immediate, 1, &value) != PMIX_SUCCESS, "a value afterwards");
}

/* All ranks of the job. */
static void whole(void)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_nspace_t nspace;
    pmix_rank_t rank = connect_all(&all, 1, NULL, NULL, nspace);
    pmix_rank_t *real = need(calloc(size, sizeof(*real)));
    for (uint32_t i = 0; i < size; i++) {
        real[i] = i;
    }
    use(nspace, rank, size, real);
    free(real);
}

/* The last rank and rank 1, who name each other in any order: their new ranks are other ones. */
static void part(void)
{
    pmix_proc_t two[2] = { proc_of(me.nspace, size - 1), proc_of(me.nspace, 1) }, other[2] = { two[1], two[0] };
    pmix_rank_t real[2] = { 1, size - 1 };
    if (me.rank == 1 || me.rank == size - 1) {
        pmix_nspace_t nspace;
        pmix_rank_t rank = connect_all(me.rank == 1 ? two : other, 2, NULL, NULL, nspace);
        use(nspace, rank, 2, real);
    }
}

static void *one_of_two(void *id)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_nspace_t nspace;
    for (int round = 0; round < 20; round++) {
        connect_all(&all, 1, NULL, id, nspace);
        fence(nspace);
        must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    }
    return NULL;
}

struct answer {
    volatile int status;
    pmix_nspace_t nspace;
    int rank;
};

static void answered(pmix_status_t status, char nspace[], int rank, void *data)
{
    struct answer *answer = data;
    strncpy(answer->nspace, nspace, PMIX_MAX_NSLEN);
    answer->rank = rank;
    __atomic_store_n(&answer->status, status, __ATOMIC_SEQ_CST);
}

static void ended(pmix_status_t status, void *data)
{
    __atomic_store_n((volatile int *) data, status, __ATOMIC_SEQ_CST);
}

/* Two connects of the same processes at a time: of two threads, and without waiting, where each rank begins with another one. */
static void parallel(void)
{
    pthread_t first, second;
    CHECK(pthread_create(&first, NULL, one_of_two, "one") == 0 && pthread_create(&second, NULL, one_of_two, "two") == 0, "threads");
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    struct answer answers[2] = { { .status = 1 }, { .status = 1 } };
    for (int turn = 0; turn < 2; turn++) {
        int which = (turn + (int) me.rank) % 2;
        pmix_info_t id = { .key = PMIX_CONNECT_ID, .value = value_string(which == 0 ? "one" : "two") };
        must("pmix_dstore_connect_nb", pmix_dstore_connect_nb(&all, 1, &id, 1, answered, &answers[which]));
        free_value(&id.value);
    }
    volatile int left[2] = { 1, 1 };
    for (int which = 0; which < 2; which++) {
        while (__atomic_load_n(&answers[which].status, __ATOMIC_SEQ_CST) == 1) {
            usleep(1000);
        }
        must("the answer", answers[which].status);
        CHECK(answers[which].rank == (int) me.rank, "rank %d", answers[which].rank);
    }
    CHECK(strcmp(answers[0].nspace, answers[1].nspace) != 0, "both are %s", answers[0].nspace);
    for (int which = 0; which < 2; which++) {
        must("pmix_dstore_disconnect_nb", pmix_dstore_disconnect_nb(answers[which].nspace, NULL, 0, ended, (void *) &left[which]));
    }
    while (__atomic_load_n(&left[0], __ATOMIC_SEQ_CST) == 1 || __atomic_load_n(&left[1], __ATOMIC_SEQ_CST) == 1) {
        usleep(1000);
    }
    CHECK(left[0] == PMIX_SUCCESS && left[1] == PMIX_SUCCESS, "disconnects: %d, %d", left[0], left[1]);
}

/* An exchange alone; events of each connect and disconnect, and of the request to connect. */
static void directives(void)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_nspace_t nspace;
    pmix_rank_t rank = connect_all(&all, 1, PMIX_CONNECT_XCHG_ONLY, NULL, nspace);
    CHECK(rank == PMIX_RANK_UNDEF && nspace[0] == 0, "an exchange gives %s:%u", nspace, rank);
    CHECK(PMIx_Disconnect(&all, 1, NULL, 0) == PMIX_ERR_INVALID_OPERATION, "a disconnect of an exchange");
    if (me.rank != 0) {
        await(3, 1);
    }
    connect_all(&all, 1, me.rank == 0 ? PMIX_CONNECT_NOTIFY_REQ : NULL, NULL, nspace);
    must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    connect_all(&all, 1, PMIX_CONNECT_NOTIFY_EACH, NULL, nspace);
    await(1, size - 1);
    pmix_info_t each = { .key = PMIX_CONNECT_NOTIFY_EACH, .value = value_bool(true) };
    must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, &each, 1));
    await(2, size - 1);
    pmix_rank_t none;
    CHECK(pmix_dstore_connect(&all, 1, NULL, 0, NULL, &none) == PMIX_ERR_BAD_PARAM, "no place for the namespace");
    CHECK(pmix_dstore_connect(&all, 1, NULL, 0, nspace, NULL) == PMIX_ERR_BAD_PARAM, "no place for the rank");
    CHECK(pmix_dstore_connect(NULL, 0, NULL, 0, nspace, &none) == PMIX_ERR_BAD_PARAM, "nobody");
    CHECK(pmix_dstore_disconnect(NULL, NULL, 0) == PMIX_ERR_BAD_PARAM, "no namespace");
    CHECK(pmix_dstore_disconnect_nb(NULL, NULL, 0, ended, &none) == PMIX_ERR_BAD_PARAM, "no namespace");
    pmix_info_t wrong = { .key = PMIX_CONNECT_ID, .value = value_bool(true) };
    CHECK(pmix_dstore_connect(&all, 1, &wrong, 1, nspace, &none) == PMIX_ERR_BAD_PARAM, "an identifier that is no string");
}

/* The last rank ends without a connect; the others connect, fence and disconnect. */
static void optional(void)
{
    if (me.rank != size - 1) {
        pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
        pmix_nspace_t nspace;
        pmix_rank_t rank = connect_all(&all, 1, PMIX_CONNECT_OPTIONAL, NULL, nspace);
        CHECK(rank == me.rank, "rank %u", rank);
        fence(nspace);
        must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    }
}

/* The last rank ends connected, as it may, and nobody is told. */
static void early(const char *directive, int told)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_nspace_t nspace;
    connect_all(&all, 1, directive, NULL, nspace);
    if (me.rank != size - 1) {
        pmix_proc_t whole_namespace = proc_of(nspace, PMIX_RANK_WILDCARD);
        pmix_status_t status = PMIx_Fence(&whole_namespace, 1, NULL, 0);
        CHECK(status == (told == 0 ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS), "the fence: %s", PMIx_Error_string(status));
        status = pmix_dstore_disconnect(nspace, NULL, 0);
        CHECK(status == (told == 0 ? PMIX_SUCCESS : PMIX_ERR_LOST_CONNECTION), "the disconnect: %s", PMIx_Error_string(status));
        CHECK(pmix_dstore_disconnect(nspace, NULL, 0) == PMIX_ERR_INVALID_NAMESPACE, "a disconnect of no namespace");
        /* What the server has sent before comes before this event. */
        must("PMIx_Notify_event", PMIx_Notify_event(CODE, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
        await(0, 1);
        await(4, told);
    }
}

int main(int argc, char **argv)
{
    pmix_status_t codes[] = { CODE, PMIX_PROC_HAS_CONNECTED, PMIX_PROC_HAS_DISCONNECTED, PMIX_CONNECT_REQUESTED, PMIX_ERR_PROC_TERM_WO_SYNC };
    pmix_nspace_t nspace;
    pmix_rank_t rank;
    const char *what = argc > 1 ? argv[1] : "";
    CHECK(pmix_dstore_connect(&me, 1, NULL, 0, nspace, &rank) == PMIX_ERR_INIT, "a connect before PMIx_Init");
    CHECK(pmix_dstore_disconnect("connect.0", NULL, 0) == PMIX_ERR_INIT, "a disconnect before PMIx_Init");
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    size = number_of(me.nspace, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    pmix_value_t port = value_uint32(100 + me.rank);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "port", &port));
    must("PMIx_Commit", PMIx_Commit());
    CHECK(PMIx_Register_event_handler(codes, 5, NULL, 0, on_event, NULL, NULL) >= 0, "the handler");
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (strcmp(what, "whole") == 0) {
        whole();
    } else if (strcmp(what, "part") == 0) {
        part();
    } else if (strcmp(what, "parallel") == 0) {
        parallel();
    } else if (strcmp(what, "directives") == 0) {
        directives();
    } else if (strcmp(what, "optional") == 0) {
        optional();
    } else if (strcmp(what, "early") == 0) {
        early(PMIX_CONNECT_EARLY_TERM_ALLOWED, 0);
    } else if (strcmp(what, "late") == 0) {
        early(NULL, 1);
    } else {
        CHECK(false, "what is %s?", what);
    }
    say("rank %u: done", me.rank);
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
