/* Cost of the start and end of a process.
 *
 *   start COUNT PROGRAM...
 *
 * Each program is started COUNT times, in turn with the others, one process at a time. Prints medians for each, in
 * microseconds of elapsed time and of processor time, and the page faults of one process:
 *
 *   start PROGRAM TIME PROCESSOR FAULTS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static double microseconds(struct timeval time) { return time.tv_sec * 1e6 + time.tv_usec; }

static int by_size(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;
    return (left > right) - (left < right);
}

static double median(double *all, int count)
{
    qsort(all, count, sizeof(*all), by_size);
    return all[count / 2];
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, programs = argc - 2;
    if (count < 1) {
        fprintf(stderr, "usage: start COUNT PROGRAM...\n");
        return 64;
    }
    size_t all = (size_t) count * programs;
    double *times = calloc(all, sizeof(*times)), *processor = calloc(all, sizeof(*times)), *faults = calloc(all, sizeof(*times));
    if (times == NULL || processor == NULL || faults == NULL) {
        return 71;
    }
    for (int turn = 0; turn < count; turn++) {
        for (int program = 0; program < programs; program++) {
            double begun = now();
            pid_t pid = vfork();
            if (pid == 0) {
                execl(argv[2 + program], argv[2 + program], NULL);
                _exit(127);
            }
            int status;
            struct rusage used;
            if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0) {
                fprintf(stderr, "start: %s failed\n", argv[2 + program]);
                return 71;
            }
            size_t at = (size_t) program * count + turn;
            times[at] = (now() - begun) / 1e3;
            processor[at] = microseconds(used.ru_utime) + microseconds(used.ru_stime);
            faults[at] = used.ru_minflt + used.ru_majflt;
        }
    }
    for (int program = 0; program < programs; program++) {
        size_t first = (size_t) program * count;
        printf("start %s %.1f %.1f %.0f\n", argv[2 + program], median(times + first, count), median(processor + first, count),
               median(faults + first, count));
    }
    return 0;
}
