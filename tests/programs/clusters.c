/* RFC0003's example of two clusters, as all ranks of a job of each of them call it.
 *
 *   clusters WHAT OWN_KEY THEIR_KEY
 *
 * OWN_KEY and THEIR_KEY are the keys by which the two jobs find each other. WHAT is what is tried: `example`, `parallel`, `late`, `early`,
 * `alone`, `leave`, `left`, `stay`; see `main`. Each rank prints "rank R of NAMESPACE" for its place in each namespace that it is given,
 * "rank R: FAIL ..." for what is wrong, and "rank R: done".
 */
#include "common.h"

#include <pmix_dstore.h>

#define CODE (-3456)

static pmix_proc_t me;
static uint32_t size, their_size;
static pmix_nspace_t own_id, their_id;
/* Events by their code: the user's, ended. */
static volatile int heard[2];

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

static void must_be(const char *what, pmix_status_t status, pmix_status_t wanted)
{
    CHECK(status == wanted, "%s: %s instead of %s", what, PMIx_Error_string(status), PMIx_Error_string(wanted));
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo, pmix_info_t *results,
                     size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id; (void) source; (void) info; (void) ninfo; (void) results; (void) nresults;
    __atomic_add_fetch(&heard[status == CODE ? 0 : 1], 1, __ATOMIC_SEQ_CST);
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

/* A string or a number of a process, as a text of its own. */
static char *text_of(const char *nspace, pmix_rank_t rank, const char *key, bool at_once)
{
    pmix_proc_t proc = proc_of(nspace, rank);
    pmix_info_t immediate = { .key = PMIX_IMMEDIATE, .value = value_bool(true) };
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, &immediate, at_once ? 1 : 0, &value);
    CHECK(status == PMIX_SUCCESS, "%s of %s:%u: %s", key, nspace, rank, PMIx_Error_string(status));
    CHECK(value->type == PMIX_STRING, "%s is of type %u", key, value->type);
    char *text = copy_text(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

static uint32_t size_of(const char *nspace)
{
    pmix_proc_t proc = proc_of(nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    must(PMIX_JOB_SIZE, PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, &value));
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

__attribute__((format(printf, 2, 3))) static void put(const char *key, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pmix_value_t value = value_string(text);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    must("PMIx_Commit", PMIx_Commit());
    free_value(&value);
}

static void publish(const char *key, const char *text)
{
    infos_t infos = { NULL, 0 };
    add(&infos, key, value_string(text));
    pmix_value_t range = { .type = PMIX_DATA_RANGE };
    range.data.range = PMIX_RANGE_GLOBAL;
    add(&infos, PMIX_RANGE, range);
    must("PMIx_Publish", PMIx_Publish(infos.items, infos.count));
    free_infos(&infos);
}

static pmix_status_t look_up(const char *key, bool waits, pmix_nspace_t found)
{
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    strncpy(data.key, key, PMIX_MAX_KEYLEN);
    pmix_info_t wait = { .key = PMIX_WAIT, .value = value_bool(true) };
    pmix_status_t status = PMIx_Lookup(&data, 1, &wait, waits ? 1 : 0);
    if (status == PMIX_SUCCESS) {
        strncpy(found, data.value.data.string, PMIX_MAX_NSLEN);
    }
    PMIX_PDATA_DESTRUCT(&data);
    return status;
}

/* The two jobs tell each other their names with their clusters. */
static void rendezvous(const char *own_key, const char *their_key)
{
    char *cluster = text_of(me.nspace, PMIX_RANK_WILDCARD, PMIX_CLUSTER_ID, false);
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(own_id, cluster, me.nspace);
    if (me.rank == 0) {
        publish(own_key, own_id);
    }
    must("PMIx_Lookup", look_up(their_key, true, their_id));
    free(cluster);
}

static pmix_status_t try_connect(const char *id, int seconds, pmix_nspace_t nspace, pmix_rank_t *rank)
{
    pmix_proc_t procs[2] = { proc_of(own_id, PMIX_RANK_WILDCARD), proc_of(their_id, PMIX_RANK_WILDCARD) };
    infos_t infos = { NULL, 0 };
    add(&infos, PMIX_CONNECT_ID, value_string(id));
    if (seconds > 0) {
        add(&infos, PMIX_TIMEOUT, value_int(seconds));
    }
    memset(nspace, 'x', sizeof(pmix_nspace_t));
    *rank = 4711;
    pmix_status_t status = pmix_dstore_connect(procs, 2, infos.items, infos.count, nspace, rank);
    free_infos(&infos);
    return status;
}

static pmix_rank_t connect_both(const char *id, pmix_nspace_t nspace)
{
    pmix_rank_t rank;
    must("pmix_dstore_connect", try_connect(id, 0, nspace, &rank));
    say("rank %u of %s", rank, nspace);
    return rank;
}

static pmix_status_t fence(const char *nspace, bool collects)
{
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = value_bool(collects) };
    return PMIx_Fence(&all, 1, &collect, 1);
}

/* An event from the first member to all of them, each of which hears it. */
static void notify(const char *nspace, pmix_rank_t rank)
{
    if (rank == 0) {
        pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
        infos_t infos = { NULL, 0 };
        add(&infos, PMIX_EVENT_CUSTOM_RANGE, value_proc(&all));
        must("PMIx_Notify_event", PMIx_Notify_event(CODE, &me, PMIX_RANGE_CUSTOM, infos.items, infos.count, NULL, NULL));
        free_infos(&infos);
    }
    await(0, 1);
}

/* The namespace in all calls. */
static void use(const char *nspace, pmix_rank_t rank)
{
    uint32_t members = size + their_size;
    CHECK(rank < members, "the new rank is %u", rank);
    CHECK(size_of(nspace) == members, "the size is %u", size_of(nspace));
    /* What the other side has put before is fetched from it. */
    for (pmix_rank_t of = 0; of < members; of++) {
        char *early = text_of(nspace, of, "early", false);
        CHECK(of != rank || strncmp(early, own_id, strlen(own_id)) == 0, "new rank %u is %s", of, early);
        say("new rank %u is %s", of, early);
        free(early);
    }
    /* What it puts now comes with a fence. */
    put("late", "%s %u late", own_id, me.rank);
    must("PMIx_Fence", fence(nspace, true));
    for (pmix_rank_t of = 0; of < members; of++) {
        char *early = text_of(nspace, of, "early", false), *late = text_of(nspace, of, "late", true);
        CHECK(strncmp(early, late, strlen(early)) == 0, "new rank %u is %s and %s", of, early, late);
        free(early);
        free(late);
    }
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
    char *cluster = text_of(their_id, PMIX_RANK_WILDCARD, PMIX_CLUSTER_ID, false);
    CHECK(strncmp(their_id, cluster, strlen(cluster)) == 0 && their_id[strlen(cluster)] == ':', "their cluster is %s", cluster);
    free(cluster);
    notify(nspace, rank);
}

static void leave(const char *nspace)
{
    must("PMIx_Fence", fence(nspace, false));
    must("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0));
    must_be("a second disconnect", pmix_dstore_disconnect(nspace, NULL, 0), PMIX_ERR_INVALID_NAMESPACE);
}

/* All ranks of this job are so far that the others may go on. */
static void go(void)
{
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (me.rank == 0) {
        publish("go", "go");
    }
}

/* Takes back what was published: the other job does not find it any more. */
static void take_back(const char *nspace, char *own_key, const char *their_key)
{
    pmix_nspace_t text;
    if (me.rank == 0) {
        infos_t again = { NULL, 0 };
        add(&again, their_key, value_string("again"));
        must_be("what they have published", PMIx_Publish(again.items, again.count), PMIX_ERR_DUPLICATE_KEY);
        free_infos(&again);
    }
    must("PMIx_Fence", fence(nspace, false));
    must("PMIx_Lookup", look_up(their_key, false, text));
    must("PMIx_Fence", fence(nspace, false));
    if (me.rank == 0) {
        char *keys[] = { own_key, NULL };
        must("PMIx_Unpublish", PMIx_Unpublish(keys, NULL, 0));
    }
    must("PMIx_Fence", fence(nspace, false));
    must_be("PMIx_Lookup", look_up(their_key, false, text), PMIX_ERR_NOT_FOUND);
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

/* Two connects of the same processes at a time; each rank begins with another one. */
static void parallel(void)
{
    pmix_proc_t procs[2] = { proc_of(own_id, PMIX_RANK_WILDCARD), proc_of(their_id, PMIX_RANK_WILDCARD) };
    struct answer answers[2] = { { .status = 1 }, { .status = 1 } };
    for (int turn = 0; turn < 2; turn++) {
        int which = (turn + (int) me.rank) % 2;
        pmix_info_t id = { .key = PMIX_CONNECT_ID, .value = value_string(which == 0 ? "one" : "two") };
        must("pmix_dstore_connect_nb", pmix_dstore_connect_nb(procs, 2, &id, 1, answered, &answers[which]));
        free_value(&id.value);
    }
    for (int which = 0; which < 2; which++) {
        while (__atomic_load_n(&answers[which].status, __ATOMIC_SEQ_CST) == 1) {
            usleep(1000);
        }
        must("the answer", answers[which].status);
        say("rank %d of %s", answers[which].rank, answers[which].nspace);
    }
    CHECK(strcmp(answers[0].nspace, answers[1].nspace) != 0, "both are %s", answers[0].nspace);
    CHECK(answers[0].rank == answers[1].rank, "ranks %d and %d", answers[0].rank, answers[1].rank);
    for (int which = 0; which < 2; which++) {
        leave(answers[which].nspace);
    }
}

int main(int argc, char **argv)
{
    pmix_status_t codes[] = { CODE, PMIX_ERR_PROC_TERM_WO_SYNC };
    pmix_nspace_t nspace, text;
    pmix_rank_t rank;
    CHECK(argc == 4, "clusters WHAT OWN_KEY THEIR_KEY");
    const char *what = argv[1];
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    size = size_of(me.nspace);
    CHECK(PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL) >= 0, "the handler");
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    rendezvous(argv[2], argv[3]);
    their_size = size_of(their_id);
    put("early", "%s %u", own_id, me.rank);
    if (strcmp(what, "example") == 0) {
        rank = connect_both("myconnect", nspace);
        use(nspace, rank);
        take_back(nspace, argv[2], argv[3]);
        leave(nspace);
    } else if (strcmp(what, "parallel") == 0) {
        parallel();
    } else if (strcmp(what, "early") == 0) {
        /* It does not wait for the other one, and then does. */
        must_be("a connect with a time limit", try_connect("myconnect", 1, nspace, &rank), PMIX_ERR_TIMEOUT);
        /* The launcher may give up a little later than the server. */
        sleep(2);
        go();
        connect_both("myconnect", nspace);
        leave(nspace);
    } else if (strcmp(what, "late") == 0) {
        must("PMIx_Lookup", look_up("go", true, text));
        connect_both("myconnect", nspace);
        leave(nspace);
    } else if (strcmp(what, "alone") == 0) {
        /* The other one ends, and does not connect. */
        go();
        must_be("pmix_dstore_connect", try_connect("myconnect", 0, nspace, &rank), PMIX_ERR_LOST_CONNECTION);
        must_be("pmix_dstore_connect", try_connect("myconnect", 0, nspace, &rank), PMIX_ERR_LOST_CONNECTION);
    } else if (strcmp(what, "leave") == 0) {
        must("PMIx_Lookup", look_up("go", true, text));
        must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    } else if (strcmp(what, "stay") == 0) {
        connect_both("myconnect", nspace);
        /* The others have their result, too. */
        must("PMIx_Lookup", look_up("go", true, text));
        say("rank %u: connected", me.rank);
        pause();
    } else if (strcmp(what, "left") == 0) {
        /* The other launcher is killed. */
        connect_both("myconnect", nspace);
        go();
        must_be("PMIx_Fence", fence(nspace, true), PMIX_ERR_PARTIAL_SUCCESS);
        await(1, 1);
        must_be("PMIx_Lookup", look_up("nobody's", true, text), PMIX_ERR_LOST_CONNECTION);
        must_be("PMIx_Lookup", look_up(argv[3], false, text), PMIX_ERR_NOT_FOUND);
        pmix_proc_t first = proc_of(their_id, 0);
        pmix_value_t *value = NULL;
        must_be("PMIx_Get", PMIx_Get(&first, "never put", NULL, 0, &value), PMIX_ERR_LOST_CONNECTION);
        must_be("pmix_dstore_disconnect", pmix_dstore_disconnect(nspace, NULL, 0), PMIX_ERR_LOST_CONNECTION);
        must_be("pmix_dstore_connect", try_connect("again", 0, nspace, &rank), PMIX_ERR_LOST_CONNECTION);
    } else {
        CHECK(false, "what is %s?", what);
    }
    say("rank %u: done", me.rank);
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
