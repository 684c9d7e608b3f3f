/* Threads that are cancelled in calls, as a rank of two.
 *
 *   cancelled THREADS
 *
 * Rank 0 cancels so many threads in each kind of call that waits, and in Gets; rank 1 meets it in fences. "RANK: through" is the
 * end of a rank that lives. A thread that is cancelled in a call ends when it has returned from that.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

static pmix_proc_t me;

static void fail(const char *what, int status)
{
    say("%u: FAIL %s: %d", me.rank, what, status);
    _exit(1);
}

static void must(const char *what, int status)
{
    if (status != PMIX_SUCCESS) {
        fail(what, status);
    }
}

/* ---- calls that wait ------------------------------------------------------------------------------------------- */

static pmix_info_t for_a_second(void)
{
    pmix_info_t info = { .value = { .type = PMIX_INT } };
    strcpy(info.key, PMIX_TIMEOUT);
    info.value.data.integer = 1;
    return info;
}

static void get_of_the_other(void)
{
    pmix_proc_t other = me;
    pmix_info_t info = for_a_second();
    pmix_value_t *value = NULL;
    other.rank = 1;
    if (PMIx_Get(&other, "never put", &info, 1, &value) == PMIX_SUCCESS) {
        fail("Get of what is never put", 0);
    }
}

static void fence_of_both(void)
{
    pmix_info_t info = for_a_second();
    PMIx_Fence(NULL, 0, &info, 1);
}

static void lookup(void)
{
    pmix_pdata_t data;
    pmix_info_t info = for_a_second();
    memset(&data, 0, sizeof(data));
    strcpy(data.key, "never published");
    PMIx_Lookup(&data, 1, &info, 1);
}

static void commit(void)
{
    pmix_value_t value = { .type = PMIX_STRING, .data.string = "text" };
    for (int i = 0; i < 100; i++) {
        must("Put", PMIx_Put(PMIX_GLOBAL, "put in a thread", &value));
        must("Commit", PMIx_Commit());
    }
}

static void notify(void)
{
    for (int i = 0; i < 100; i++) {
        must("Notify_event", PMIx_Notify_event(-3456, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    }
}

static const struct {
    const char *name;
    void (*call)(void);
} waits[] = { { "Get", get_of_the_other }, { "Fence", fence_of_both }, { "Lookup", lookup }, { "Commit", commit },
              { "Notify_event", notify } };
#define WAIT_COUNT ((int) (sizeof(waits) / sizeof(waits[0])))

static atomic_int begun;

static void *waits_for_ever(void *which)
{
    atomic_fetch_add(&begun, 1);
    for (;;) {
        ((void (*)(void)) which)();
        pthread_testcancel();
    }
    return NULL;
}

static void cancel_in(int kind, int count)
{
    pthread_t *threads = need(calloc((size_t) count, sizeof(*threads)));
    void *end;
    atomic_store(&begun, 0);
    for (int i = 0; i < count; i++) {
        must("pthread_create", pthread_create(&threads[i], NULL, waits_for_ever, (void *) waits[kind].call));
    }
    while (atomic_load(&begun) < count) {
        usleep(1000);
    }
    /* Most threads are in the call by now; others are cancelled earlier, which is correct, too. */
    usleep(100000);
    for (int i = 0; i < count; i++) {
        pthread_cancel(threads[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], &end);
        if (end != PTHREAD_CANCELED) {
            fail(waits[kind].name, -1);
        }
    }
    free(threads);
}

/* ---- Gets ------------------------------------------------------------------------------------------------------ */

static atomic_int ready, has_come, at_point;

static void get_from_memory(const char *key, int want)
{
    pmix_proc_t other = me;
    pmix_value_t *value = NULL;
    other.rank = 1;
    must(key, PMIx_Get(&other, key, NULL, 0, &value));
    if (value->type != PMIX_INT || value->data.integer != want) {
        fail(key, value->data.integer);
    }
    PMIX_VALUE_RELEASE(value);
}

static void left(void *unused)
{
    (void) unused;
    if (atomic_load(&at_point) == 0) {
        fail("cancelled in a Get", 0);
    }
}

/* Cancelled before its value arrives: the first Get opens and maps files. */
static void *reads(void *unused)
{
    pthread_cleanup_push(left, NULL);
    pthread_cancel(pthread_self());
    get_from_memory("first", 1);
    atomic_store(&ready, 1);
    while (atomic_load(&has_come) == 0) {
    }
    get_from_memory("second", 2);
    for (int i = 0; i < 1000; i++) {
        get_from_memory("first", 1);
    }
    atomic_store(&at_point, 1);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

static void exchange(const char *key, int number)
{
    pmix_info_t info = { .value = { .type = PMIX_BOOL, .data.flag = true } };
    pmix_value_t value = { .type = PMIX_INT, .data.integer = number };
    strcpy(info.key, PMIX_COLLECT_DATA);
    if (me.rank == 1) {
        must("Put", PMIx_Put(PMIX_GLOBAL, key, &value));
        must("Commit", PMIx_Commit());
    }
    must("Fence", PMIx_Fence(NULL, 0, &info, 1));
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t reader;
    void *end;
    must("Init", PMIx_Init(&me, NULL, 0));
    exchange("first", 1);
    if (me.rank == 0) {
        must("pthread_create", pthread_create(&reader, NULL, reads, NULL));
        while (atomic_load(&ready) == 0) {
            usleep(1000);
        }
    }
    exchange("second", 2);
    if (me.rank == 0) {
        int state = PTHREAD_CANCEL_DISABLE;
        atomic_store(&has_come, 1);
        pthread_join(reader, &end);
        if (end != PTHREAD_CANCELED) {
            fail("the reader was not cancelled", 0);
        }
        for (int kind = 0; kind < WAIT_COUNT; kind++) {
            cancel_in(kind, count);
        }
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        if (state != PTHREAD_CANCEL_ENABLE) {
            fail("cancellation is off after a call", state);
        }
        get_from_memory("second", 2);
    }
    must("Finalize", PMIx_Finalize(NULL, 0));
    say("%u: through", me.rank);
    return 0;
}
