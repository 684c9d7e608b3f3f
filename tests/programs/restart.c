/* A rank whose server is killed and started again: `host --restartable` is its launcher, or `pmixrun --restart`. HOST_SERVER names a file with
 * the server's process.
 *
 *   restart STEP [KILLS [READS]]
 *
 * STEP says where the server is killed:
 *   init    before PMIx_Init
 *   fences  between two fences, while shared memory is read
 *   commit  after a commit that is in no segment
 *   ended   after the last rank has committed and finalized
 *   half    in a fence that all but rank 0 have entered
 *   get     while all but rank 0 wait for a key of rank 0
 *   event   after an event handler was registered: its server forgets it, and the event comes all the same
 *   points  nowhere, or with KILLS 1 once in the middle of a job in which a server does all that it has a journal for; others kill it
 *           elsewhere (`failing.c`)
 *   dead    while there is none, the last rank dies, too
 *   puts    and while there is none the ranks put, commit and fence
 *   reads   KILLS times (0 or 1) while all but rank 0 read shared memory for READS milliseconds
 *   storm   KILLS times while the ranks fence, one fence after the other
 *   busy    while all but rank 0 compute for longer than ranks wait: without a call, nor a handler
 *   services between a publish and a lookup, which the host answers, and a spawn
 *   lost    and is not started again; with KILLS 1 nobody waits for it
 * Each rank prints a line for what differs from what it expects, and "rank N done".
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static pmix_proc_t self;
static uint32_t size;
static int faults, kills;

__attribute__((format(printf, 1, 2))) static void differs(const char *format, ...)
{
    char text[1800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say("rank %u: %s", self.rank, text);
    faults++;
}

static void expect(const char *what, pmix_status_t status, pmix_status_t expected)
{
    if (status != expected) {
        differs("%s: %s", what, PMIx_Error_string(status));
    }
}

static void pause_ms(long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&time, NULL);
}

/* ---- the server --------------------------------------------------------------------------------------------------- */

static pid_t server(void)
{
    int pid = 0;
    FILE *file = fopen(getenv("HOST_SERVER"), "r");
    if (file == NULL || fscanf(file, "%d", &pid) != 1) {
        differs("no server: %s", strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    return pid;
}

static void kill_server(bool waits)
{
    pid_t pid = server();
    if (pid <= 0 || kill(pid, SIGKILL) != 0) {
        differs("kill %d: %s", pid, strerror(errno));
    }
    for (int i = 0; waits && server() == pid && i < 30000; i++) {
        pause_ms(1);
    }
    if (waits && server() == pid) {
        differs("no server after %d", pid);
    }
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static void put(const char *key, uint32_t number)
{
    pmix_value_t value = value_uint32(number);
    expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value), PMIX_SUCCESS);
}

/* A number that the ranks of a step share. */
static uint32_t number_of(pmix_rank_t rank, uint32_t round) { return 1000 * round + rank; }

static pmix_status_t get(pmix_rank_t rank, const char *key, bool must_be_here, uint32_t *number)
{
    pmix_proc_t proc = self;
    proc.rank = rank;
    infos_t infos = { 0 };
    if (must_be_here) {
        add(&infos, PMIX_OPTIONAL, value_bool(true));
    }
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, infos.items, infos.count, &value);
    if (status == PMIX_SUCCESS) {
        *number = value->data.uint32;
        PMIX_VALUE_RELEASE(value);
    }
    free_infos(&infos);
    return status;
}

static void expect_number(pmix_rank_t rank, const char *key, bool must_be_here, uint32_t expected)
{
    uint32_t number = 0;
    pmix_status_t status = get(rank, key, must_be_here, &number);
    if (status != PMIX_SUCCESS || number != expected) {
        differs("%s of %u: %s %u, not %u", key, rank, PMIx_Error_string(status), number, expected);
    }
}

static void fence(void)
{
    expect("PMIx_Fence", collecting_fence(), PMIX_SUCCESS);
}

static void publish_round(const char *key, uint32_t round)
{
    put(key, number_of(self.rank, round));
    expect("PMIx_Commit", PMIx_Commit(), PMIX_SUCCESS);
    fence();
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        expect_number(rank, key, true, number_of(rank, round));
    }
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static void between_fences(void)
{
    publish_round("first", 1);
    pid_t former = server();
    fence();
    if (self.rank == 0) {
        kill_server(false);
    }
    /* Until the next server is there, and a moment longer. */
    int reads = 0;
    for (int after = 0; after < 100; after += server() != former) {
        for (pmix_rank_t rank = 0; rank < size; rank++) {
            expect_number(rank, "first", true, number_of(rank, 1));
            reads++;
        }
        pause_ms(1);
    }
    say("rank %u read %d values meanwhile", self.rank, reads);
    publish_round("second", 2);
    publish_round("first", 3);
}

static void after_commit(bool ends)
{
    pmix_rank_t last = size - 1;
    pid_t former = server();
    put("seen", number_of(self.rank, 1));
    put("unseen", number_of(self.rank, 2));
    put("pid", (uint32_t) getpid());
    expect("PMIx_Commit", PMIx_Commit(), PMIX_SUCCESS);
    /* The server has it when it gives another value of it. */
    for (pmix_rank_t rank = 0; rank < size && !(ends && self.rank == last); rank++) {
        expect_number(rank, "seen", false, number_of(rank, 1));
    }
    if (ends && self.rank == last) {
        return;
    }
    if (self.rank == 0) {
        if (ends) {
            /* It has finalized when its process is gone. */
            uint32_t pid = 0;
            expect("PMIx_Get", get(last, "pid", false, &pid), PMIX_SUCCESS);
            for (int i = 0; pid != 0 && kill((pid_t) pid, 0) == 0 && i < 30000; i++) {
                pause_ms(1);
            }
        }
        kill_server(true);
    } else {
        while (server() == former) {
            pause_ms(1);
        }
    }
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        expect_number(rank, "unseen", false, number_of(rank, 2));
    }
}

static void in_fence(void)
{
    publish_round("first", 1);
    if (self.rank == 0) {
        pause_ms(300);
        kill_server(false);
    }
    publish_round("second", 2);
}

static void in_get(void)
{
    fence();
    if (self.rank == 0) {
        pause_ms(300);
        kill_server(false);
        put("late", number_of(0, 1));
        expect("PMIx_Commit", PMIx_Commit(), PMIX_SUCCESS);
    } else {
        expect_number(0, "late", false, number_of(0, 1));
    }
    fence();
}

static atomic_int heard, lost;

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    atomic_fetch_add(code == PMIX_ERR_LOST_CONNECTION ? &lost : &heard, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

#define CODE (PMIX_EXTERNAL_ERR_BASE - 7)

static void listen_for_events(void)
{
    pmix_status_t codes[] = { CODE, PMIX_ERR_LOST_CONNECTION };
    pmix_status_t id = PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL);
    if (id < 0) {
        differs("PMIx_Register_event_handler: %s", PMIx_Error_string(id));
    }
}

static void event_after(void)
{
    listen_for_events();
    fence();
    if (self.rank == 0) {
        kill_server(true);
    }
    fence();
    if (self.rank == 0) {
        expect("PMIx_Notify_event", PMIx_Notify_event(CODE, &self, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL), PMIX_SUCCESS);
    }
    for (int i = 0; i < 20000 && atomic_load(&heard) == 0; i++) {
        pause_ms(1);
    }
    if (atomic_load(&heard) != 1 || atomic_load(&lost) != 0) {
        differs("heard %d events, %d losses", atomic_load(&heard), atomic_load(&lost));
    }
    fence();
}

/* They come again all the same, and none counts as lost. */
static void computes(int seconds)
{
    publish_round("first", 1);
    fence();
    if (self.rank == 0) {
        kill_server(true);
    } else {
        pause_ms(1000 * seconds);
    }
    publish_round("second", 2);
}

static atomic_bool is_over;

static void *kill_again_and_again(void *unused)
{
    unsigned int seed = getpid();
    for (int i = 0; i < kills; i++) {
        pause_ms(20 + rand_r(&seed) % 100);
        kill_server(true);
    }
    atomic_store(&is_over, true);
    return unused;
}

static void storm(void)
{
    pthread_t killer;
    if (self.rank == 0 && pthread_create(&killer, NULL, kill_again_and_again, NULL) != 0) {
        differs("no thread");
    }
    uint32_t round = 0, stop = 0;
    while (stop == 0 && faults == 0) {
        round++;
        put("stop", self.rank == 0 && atomic_load(&is_over));
        put("round", number_of(self.rank, round));
        expect("PMIx_Commit", PMIx_Commit(), PMIX_SUCCESS);
        fence();
        for (pmix_rank_t rank = 0; rank < size; rank++) {
            expect_number(rank, "round", true, number_of(rank, round));
        }
        expect("PMIx_Get", get(0, "stop", true, &stop), PMIX_SUCCESS);
        fence();
    }
    if (self.rank == 0) {
        pthread_join(killer, NULL);
    }
    say("rank %u fenced %u times", self.rank, 2 * round);
}

static void at_points(void)
{
    publish_round("first", 1);
    fence();
    if (self.rank == 0) {
        pause_ms(5);
        put("late", number_of(0, 1));
        expect("PMIx_Commit", PMIx_Commit(), PMIX_SUCCESS);
        if (kills > 0) {
            kill_server(false);
        }
    } else {
        expect_number(0, "late", false, number_of(0, 1));
    }
    publish_round("second", 2);
    publish_round("first", 3);
}

/* The last rank dies without a server that could see it; the others' fence ends with a status that says so, when the time is over for which
 * a rank waits. */
static void dies_meanwhile(void)
{
    pid_t former = server();
    publish_round("first", 1);
    if (self.rank == size - 1) {
        pause_ms(200);
        kill_server(false);
        kill(getpid(), SIGKILL);
    }
    while (server() == former) {
        pause_ms(1);
    }
    expect("PMIx_Fence", collecting_fence(), PMIX_ERR_PARTIAL_SUCCESS);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        expect_number(rank, "first", true, number_of(rank, 1));
    }
}

static void puts_meanwhile(void)
{
    publish_round("first", 1);
    pid_t former = server();
    fence();
    if (self.rank == 0) {
        kill_server(false);
    }
    /* The server may be down for a while (`host --down`), and nobody waits for it here. */
    pause_ms(50);
    if (server() != former) {
        say("rank %u: the next server was there before it was put to use", self.rank);
    }
    publish_round("second", 2);
    publish_round("first", 3);
}

/* Published values and spawned jobs are the launcher's, which goes on. */
static void asks_the_launcher(void)
{
    publish_round("first", 1);
    if (self.rank == 0) {
        infos_t infos = { 0 };
        add(&infos, "service", value_uint32(7));
        expect("PMIx_Publish", PMIx_Publish(infos.items, infos.count), PMIX_SUCCESS);
        free_infos(&infos);
        kill_server(true);
    }
    fence();
    pmix_pdata_t data;
    memset(&data, 0, sizeof(data));
    strcpy(data.key, "service");
    expect("PMIx_Lookup", PMIx_Lookup(&data, 1, NULL, 0), PMIX_SUCCESS);
    if (data.value.type != PMIX_UINT32 || data.value.data.uint32 != 7) {
        differs("found another value, of type %d", data.value.type);
    }
    if (self.rank == 0) {
        char *words[] = { "sh", "-c", "echo a spawned rank has begun", NULL };
        pmix_app_t app = { .cmd = words[0], .argv = words, .maxprocs = 2 };
        pmix_nspace_t nspace;
        expect("PMIx_Spawn", PMIx_Spawn(NULL, 0, &app, 1, nspace), PMIX_SUCCESS);
    }
    fence();
}

static long reads;

static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void reads_meanwhile(void)
{
    /* How many reads took so many times 10 ns; the last has all that took longer. */
    static unsigned counts[100001];
    publish_round("first", 1);
    fence();
    if (self.rank == 0) {
        pause_ms(reads / 2);
        if (kills > 0) {
            kill_server(false);
        }
        pause_ms(reads - reads / 2);
    } else {
        long end = now_ns() + reads * 1000000L, before = now_ns(), slowest = 0, all = 0, failed = 0;
        while (before < end) {
            uint32_t number = 0;
            pmix_rank_t rank = all % size;
            failed += get(rank, "first", true, &number) != PMIX_SUCCESS || number != number_of(rank, 1);
            long after = now_ns(), took = after - before;
            before = after;
            slowest = took > slowest ? took : slowest;
            counts[took / 10 < 100000 ? took / 10 : 100000]++;
            all++;
        }
        long at = 0, least = 0;
        for (long more = 0; at <= 100000 && more < all - all / 10000; at++) {
            more += counts[at];
            least = least == 0 && more >= all / 2 ? at : least;
        }
        say("reads: rank %u %ld reads, %ld failed, %ld slowest_ns, %ld median_ns, %ld slow_ns", self.rank, all, failed, slowest, least * 10,
            at * 10);
        if (failed > 0) {
            differs("%ld reads failed", failed);
        }
    }
    fence();
}

static void not_again(void)
{
    listen_for_events();
    publish_round("first", 1);
    uint32_t number = 0;
    long begin = now_ns();
    /* The server may be killed before it has told everybody that it is over. */
    PMIx_Fence(NULL, 0, NULL, 0);
    if (self.rank == 0) {
        kill_server(false);
    }
    expect("PMIx_Get", get((self.rank + 1) % size, "never", false, &number), PMIX_ERR_LOST_CONNECTION);
    double waited = (double) (now_ns() - begin) / 1e9;
    /* KILLS 1: nobody is to wait for the minute that the host asks for. */
    if (kills > 0 ? waited > 30 : waited < 0.8) {
        differs("gave up after %.3f s", waited);
    }
    for (int i = 0; i < 20000 && atomic_load(&lost) == 0; i++) {
        pause_ms(1);
    }
    if (atomic_load(&lost) != 1) {
        differs("%d losses", atomic_load(&lost));
    }
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        expect_number(rank, "first", true, number_of(rank, 1));
    }
}

int main(int argc, char **argv)
{
    const char *step = argc > 1 ? argv[1] : "";
    kills = argc > 2 ? atoi(argv[2]) : strcmp(step, "storm") == 0 ? 5 : 0;
    reads = argc > 3 ? atol(argv[3]) : 1000;
    if (strcmp(step, "init") == 0) {
        /* Rank 1 kills it while others begin. */
        if (strcmp(getenv("PMIX_RANK"), "1") == 0) {
            kill_server(false);
        } else {
            pause_ms(20);
        }
    }
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("PMIx_Init: %s", PMIx_Error_string(status));
        return 1;
    }
    pmix_rank_t me = self.rank;
    self.rank = PMIX_RANK_WILDCARD;
    pmix_value_t *value = NULL;
    expect("size", PMIx_Get(&self, PMIX_JOB_SIZE, NULL, 0, &value), PMIX_SUCCESS);
    self.rank = me;
    if (value == NULL) {
        return 1;
    }
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);

    if (strcmp(step, "init") == 0) {
        publish_round("first", 1);
    } else if (strcmp(step, "fences") == 0) {
        between_fences();
    } else if (strcmp(step, "commit") == 0 || strcmp(step, "ended") == 0) {
        after_commit(strcmp(step, "ended") == 0);
    } else if (strcmp(step, "half") == 0) {
        in_fence();
    } else if (strcmp(step, "get") == 0) {
        in_get();
    } else if (strcmp(step, "event") == 0) {
        event_after();
    } else if (strcmp(step, "points") == 0) {
        at_points();
    } else if (strcmp(step, "dead") == 0) {
        dies_meanwhile();
    } else if (strcmp(step, "puts") == 0) {
        puts_meanwhile();
    } else if (strcmp(step, "reads") == 0) {
        reads_meanwhile();
    } else if (strcmp(step, "storm") == 0) {
        storm();
    } else if (strcmp(step, "busy") == 0) {
        computes(8);
    } else if (strcmp(step, "services") == 0) {
        asks_the_launcher();
    } else if (strcmp(step, "lost") == 0) {
        not_again();
    } else {
        say("no step %s", step);
        return 64;
    }
    expect("PMIx_Finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    if (faults == 0) {
        say("rank %u done", self.rank);
    }
    return faults == 0 ? 0 : 1;
}
