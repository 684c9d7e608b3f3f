/* Calls in short batches on command: programs under comparison are then measured
 * within the same few milliseconds, even if the machine's speed changes.
 *
 * A line on standard input, "NAME BATCHES", requests that many batches of the named calls; the reply is a line
 *
 *   turn NAME NS...      nanoseconds for one call, of each batch
 *
 * or "missing NAME" if a call has failed. End of input ends the program.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

enum { BATCH = 64, BATCHES_MAX = 4096 };

/* Makes one call; false if it has failed. */
typedef bool (*call_t)(uint32_t turn);

static inline int compare_times(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* The time of one call for each batch; false if a call has failed. */
static inline bool time_batches(call_t call, int batches, double *times)
{
    static uint32_t turn;
    for (int batch = 0; batch < batches; batch++) {
        double start = now();
        for (int i = 0; i < BATCH; i++) {
            if (!call(turn++)) {
                return false;
            }
        }
        times[batch] = (now() - start) / BATCH;
    }
    return true;
}

/* Serves turns. `named` returns the calls with a name, or NULL if they fail. */
static inline void take_turns(call_t (*named)(const char *name))
{
    static double times[BATCHES_MAX];
    char name[32];
    int batches;
    while (scanf("%31s %d", name, &batches) == 2) {
        batches = batches < 1 ? 1 : batches > BATCHES_MAX ? BATCHES_MAX : batches;
        call_t call = named(name);
        /* The first batch, in which the caches fill again, does not count. */
        bool is_made = call != NULL && time_batches(call, 1, times) && time_batches(call, batches, times);
        printf("%s %s", is_made ? "turn" : "missing", name);
        for (int batch = 0; is_made && batch < batches; batch++) {
            printf(" %.2f", times[batch]);
        }
        putchar('\n');
        fflush(stdout);
    }
}
