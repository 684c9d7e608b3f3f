/* Calls at moments at which programs seldom call, as a rank of a job.
 *
 *   moments structors     initialises in a static constructor, and reads and finalizes in destructors: of a thread, of the main thread, by
 *                         atexit, and static
 *   moments forks N       forks N children while threads call: each ends at once, by exit or by exec, or calls
 *   moments signals N     N rounds of init, put, fence, get and finalize while a timer and another thread send signals all the time
 *
 * Prints a line for each fault and "RANK: WHAT done" at its end.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

static pmix_proc_t me;
static atomic_int wrong;
static uint32_t rank_count;

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDOUT_FILENO, format, args);
    va_end(args);
    wrong++;
}

static bool well(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        complain("FAIL rank %u: %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
        return false;
    }
    return true;
}

/* Reads a number of a rank and compares it. */
static void check_number(uint32_t rank, const char *key, uint32_t expected, const char *when)
{
    pmix_proc_t of = proc_of(me.nspace, rank);
    pmix_value_t *found = NULL;
    if (!well(PMIx_Get(&of, key, NULL, 0, &found), when)) {
        return;
    }
    if (found->type != PMIX_UINT32 || found->data.uint32 != expected) {
        complain("FAIL rank %u: %s: a wrong value of rank %u", me.rank, when, rank);
    }
    free(found);
}

static void put_number(const char *key, uint32_t number)
{
    pmix_value_t value = value_uint32(number);
    well(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
    well(PMIx_Commit(), "PMIx_Commit");
}

static void learn_size(void)
{
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *size = NULL;
    if (!well(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), "PMIx_Get of the job's size")) {
        _exit(1);
    }
    rank_count = size->data.uint32;
    free(size);
}

/* ---- constructors and destructors -------------------------------------------------------------------------------- */

static bool constructed;
static pthread_key_t at_end_of_thread;

static void end_of_thread(void *when)
{
    check_number(me.rank, "moments.start", 7 + me.rank, when);
}

static void by_atexit(void)
{
    check_number(0, "moments.start", 7, "by atexit");
}

static void *short_thread(void *unused)
{
    (void) unused;
    pthread_setspecific(at_end_of_thread, "at the end of a thread");
    check_number(me.rank, "moments.start", 7 + me.rank, "in a thread");
    return NULL;
}

__attribute__((constructor)) static void construct(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "structors") != 0) {
        return;
    }
    constructed = true;
    atexit(by_atexit);
    well(PMIx_Init(&me, NULL, 0), "PMIx_Init in a constructor");
    put_number("moments.start", 7 + me.rank);
    well(collecting_fence(), "PMIx_Fence in a constructor");
}

__attribute__((destructor)) static void destruct(void)
{
    if (!constructed) {
        return;
    }
    check_number(0, "moments.start", 7, "in a destructor");
    well(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence in a destructor");
    well(PMIx_Finalize(NULL, 0), "PMIx_Finalize in a destructor");
    say("%u: structors done", me.rank);
    if (wrong > 0) {
        _exit(3);
    }
}

static void structors(void)
{
    pthread_t thread;
    pthread_key_create(&at_end_of_thread, end_of_thread);
    if (pthread_create(&thread, NULL, short_thread, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    pthread_setspecific(at_end_of_thread, "at the end of the main thread");
}

/* ---- forks ------------------------------------------------------------------------------------------------------- */

/* Fortran programs may have as many thread-local variables. The C library takes their room from the stack of each thread. */
static __thread char large[3 << 20];

static void take_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t count,
                       pmix_info_t results[], size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) status, (void) source, (void) info, (void) count, (void) results, (void) result_count;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A handler of the program's for its forks: it may call as well. */
static bool calls_before_fork;

static void get_before_fork(void)
{
    if (calls_before_fork) {
        check_number(me.rank, "moments.start", 7, "before a fork");
    }
}

enum { CALLERS = 4 };

static atomic_bool is_over;

static void *call_always(void *argument)
{
    uint32_t number = (uint32_t) (uintptr_t) argument;
    char key[40];
    snprintf(key, sizeof(key), "moments.%u", number);
    for (uint32_t turn = 0; !is_over; turn++) {
        put_number(key, turn);
        check_number(me.rank, key, turn, "a Get beside forks");
        well(PMIx_Fence(&me, 1, NULL, 0), "PMIx_Fence beside forks");
    }
    return NULL;
}

/* A thread that puts and never gets: long values, which the library frees again and again. */
static void *put_always(void *unused)
{
    static char text[20 << 10];
    (void) unused;
    memset(text, 'x', sizeof(text) - 1);
    pmix_value_t value = { .type = PMIX_STRING, .data.string = text };
    while (!is_over) {
        well(PMIx_Put(PMIX_LOCAL, "moments.long", &value), "PMIx_Put of a long value beside forks");
    }
    return NULL;
}

/* PMIX_DELETE_INTERNAL and so on of later releases: a value that this process has put is not there any more. */
enum { DELETE_GLOBAL = 7 };

/* The last kinds of children, which call. */
enum { GETS = 3, PUTS, STARTS, KINDS };

/* A child of a rank that calls is told that it is not the rank, or gets what shared memory has. It must not hang or crash, and its parent must
 * notice nothing. */
static void be_child(int kind)
{
    pmix_proc_t proc, *procs = NULL;
    size_t count = 0;
    pmix_value_t *value = NULL, number = { .type = PMIX_UINT32, .data.uint32 = 1 };
    alarm(20);
    switch (kind) {
    case 0: _exit(0);
    case 1: exit(0);
    case 2: execl("/bin/true", "true", NULL); _exit(127);
    case GETS:
        PMIx_Get(&me, "moments.0", NULL, 0, &value);
        PMIx_Fence(&me, 1, NULL, 0);
        PMIx_Commit();
        _exit(0);
    case PUTS:
        PMIx_Put(PMIX_LOCAL, "moments.0", &number);
        PMIx_Put(DELETE_GLOBAL, "moments.0", &number);
        PMIx_Get(&me, "moments.0", NULL, 0, &value);
        PMIx_Resolve_peers(NULL, NULL, &procs, &count);
        exit(0);
    default:
        PMIx_Finalize(NULL, 0);
        PMIx_Init(&proc, NULL, 0);
        PMIx_Finalize(NULL, 0);
        _exit(0);
    }
}

static void fork_one(int number, int kind)
{
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        be_child(kind);
    }
    if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
        complain("FAIL rank %u: child %d of kind %d ended with state %#x", me.rank, number, kind, state);
    }
}

static void forks(int count)
{
    pthread_t callers[CALLERS], putter;
    pthread_atfork(get_before_fork, NULL, NULL);
    well(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    put_number("moments.start", 7);
    large[me.rank] = 1;
    if (PMIx_Register_event_handler(NULL, 0, NULL, 0, take_event, NULL, NULL) < 0) {
        complain("FAIL rank %u: no event handler", me.rank);
    }
    for (uintptr_t i = 0; i < CALLERS; i++) {
        pthread_create(&callers[i], NULL, call_always, (void *) i);
    }
    pthread_create(&putter, NULL, put_always, NULL);
    /* A thread may hold any lock now, which nobody releases in the child. Seven of ten children call. The thread that forks has called
     * nothing before the half. */
    for (int i = 0; i < count; i++) {
        calls_before_fork = i >= count / 2;
        fork_one(i, i % 10 < GETS ? i % 10 : GETS + i % (KINDS - GETS));
    }
    is_over = true;
    pthread_join(putter, NULL);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i], NULL);
    }
    well(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence after forks");
    well(PMIx_Finalize(NULL, 0), "PMIx_Finalize after forks");
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static atomic_ulong signals_taken;

static void take(int number)
{
    (void) number;
    signals_taken++;
}

static pthread_t target;

static void *send_always(void *unused)
{
    (void) unused;
    while (!is_over) {
        pthread_kill(target, SIGUSR2);
        usleep(300);
    }
    return NULL;
}

static void signals(int rounds)
{
    /* Without SA_RESTART: calls of the system end early. */
    struct sigaction action = { .sa_handler = take };
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec often = { .it_interval = { .tv_nsec = 250000 }, .it_value = { .tv_nsec = 250000 } };
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &often, NULL) != 0) {
        complain("FAIL no timer: %s", strerror(errno));
    }
    pthread_t sender;
    target = pthread_self();
    pthread_create(&sender, NULL, send_always, NULL);
    for (int round = 0; round < rounds; round++) {
        char key[40];
        snprintf(key, sizeof(key), "moments.round%d", round);
        if (!well(PMIx_Init(&me, NULL, 0), "PMIx_Init under signals")) {
            break;
        }
        learn_size();
        put_number(key, 1000 * me.rank + round);
        well(collecting_fence(), "PMIx_Fence under signals");
        for (uint32_t rank = 0; rank < rank_count; rank++) {
            check_number(rank, key, 1000 * rank + round, "a Get under signals");
        }
        well(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence under signals");
        well(PMIx_Finalize(NULL, 0), "PMIx_Finalize under signals");
    }
    is_over = true;
    pthread_join(sender, NULL);
    timer_delete(timer);
    say("%u: %lu signals", me.rank, (unsigned long) signals_taken);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(mode, "structors") == 0) {
        structors();
        return 0; /* The rest is done afterwards. */
    }
    if (strcmp(mode, "forks") == 0 && count > 0) {
        forks(count);
    } else if (strcmp(mode, "signals") == 0 && count > 0) {
        signals(count);
    } else {
        fprintf(stderr, "usage: moments structors | forks N | signals N\n");
        return 64;
    }
    say("%u: %s done", me.rank, mode);
    return wrong > 0 ? 3 : 0;
}
