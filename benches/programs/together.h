/* Throughput of two threads at once, each on its own processor, relative to each of them alone.
 *
 * They take turns of a millisecond: the first one, both, the second one. Needs `_GNU_SOURCE`.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { TOGETHER_MAX = 256, TURN_TIME = 1000000 /* ns */, CALLS_AT_ONCE = 50 };

static struct {
    call_t call;
    int turns;
    pthread_barrier_t turn;
    atomic_int arrived;
    /* Calls in a nanosecond, of each thread alone and with the other. */
    double alone[2][TOGETHER_MAX], both[2][TOGETHER_MAX];
} together;

static inline double rate_of_turn(void)
{
    double start = now(), end = start;
    uint32_t made = 0;
    while (end - start < TURN_TIME) {
        for (int i = 0; i < CALLS_AT_ONCE; i++) {
            together.call(made++);
        }
        end = now();
    }
    return made / (end - start);
}

static void *be_one_of_two(void *arg)
{
    int me = arg != NULL;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(me, &set);
    sched_setaffinity(0, sizeof(set), &set);
    rate_of_turn();
    for (int turn = 0; turn < together.turns; turn++) {
        for (int phase = 0; phase < 3; phase++) {
            pthread_barrier_wait(&together.turn);
            if (phase == 1) {
                /* A barrier: both threads begin together, whichever was woken first. */
                atomic_fetch_add(&together.arrived, 1);
                while (atomic_load(&together.arrived) < 2 * (turn + 1)) {
                    sched_yield();
                }
                together.both[me][turn] = rate_of_turn();
            } else if (phase == 2 * me) {
                together.alone[me][turn] = rate_of_turn();
            }
        }
    }
    return NULL;
}

/* Prints: threads NAME TIMES, the median of the turns; TIMES is 2 if neither thread slows the other. */
static inline bool measure_together(const char *name, call_t call, int turns)
{
    static double times[TOGETHER_MAX];
    pthread_t ids[2];
    together.call = call;
    together.turns = turns = turns < 1 ? 1 : turns > TOGETHER_MAX ? TOGETHER_MAX : turns;
    together.arrived = 0;
    pthread_barrier_init(&together.turn, NULL, 2);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&ids[i], NULL, be_one_of_two, i == 0 ? NULL : &together) != 0) {
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_barrier_destroy(&together.turn);
    for (int turn = 0; turn < turns; turn++) {
        double both = together.both[0][turn] + together.both[1][turn];
        times[turn] = 2 * both / (together.alone[0][turn] + together.alone[1][turn]);
    }
    qsort(times, turns, sizeof(times[0]), compare_times);
    printf("threads %s %.3f\n", name, times[turns / 2]);
    fflush(stdout);
    return true;
}
