/* The clock of all these programs. */
#include <time.h>

/* Nanoseconds since some moment that all processes of the machine share. */
static inline double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}
