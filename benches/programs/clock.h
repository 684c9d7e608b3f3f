/* The clock of all these programs. */
#include <time.h>

/* Nanoseconds since a fixed time, the same in all processes of the machine. */
static inline double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}
