/* Runs a command and tells on stderr, in nanoseconds, when it began, how long it took, and the processor time of it and of all its
 * descendants that were waited for:
 *
 *   stopwatch COMMAND [ARGS...]     "stopwatch: began N took N used N"
 *
 * The status is that of the command. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long nanoseconds(struct timeval time)
{
    return (time.tv_sec * 1000000LL + time.tv_usec) * 1000;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s COMMAND [ARGS...]\n", argv[0]);
        return 64;
    }
    long long began = now(CLOCK_REALTIME), start = now(CLOCK_MONOTONIC);
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("stopwatch");
        return 1;
    }
    long long took = now(CLOCK_MONOTONIC) - start;
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    fprintf(stderr, "stopwatch: began %lld took %lld used %lld\n", began, took,
            nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
