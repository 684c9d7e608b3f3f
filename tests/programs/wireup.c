/* A whole job: MPI_Init, one allreduce, MPI_Finalize. Prints when MPI_Init is over, as nanoseconds of the clock that the host has, too,
 * and how long it took. The first rank also prints the memory of the daemon that started it, when MPI_Finalize is over: the largest
 * that was resident, with the code of its libraries, and what is its own, without code. With --memory each rank prints what memory is
 * its own after the allreduce, in KiB: all anonymous memory, and the part of it that lies in the mappings of libpmix.so.2. */
#include <mpi.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../benches/programs/memory.h"

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void print_memory_of(pid_t process)
{
    char path[64], line[256];
    snprintf(path, sizeof(path), "/proc/%d/status", (int) process);
    FILE *status = fopen(path, "r");
    long resident = 0, own = 0;
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        long kib;
        if (sscanf(line, "VmHWM: %ld kB", &kib) == 1) {
            resident = kib;
        } else if (sscanf(line, "RssAnon: %ld kB", &kib) == 1 || sscanf(line, "RssShmem: %ld kB", &kib) == 1) {
            own += kib;
        }
    }
    printf("daemon held %ld %ld\n", resident, own);
    if (status != NULL) {
        fclose(status);
    }
}

int main(int argc, char **argv)
{
    int rank, size, one = 1, sum = 0;
    long long begun = now();
    MPI_Init(&argc, &argv);
    long long done = now();
    printf("wired up at %lld after %lld\n", done, done - begun);
    fflush(stdout);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "--memory") == 0) {
        long all, of_library;
        own_memory_of_library(&of_library, &all);
        printf("rank held %ld %ld\n", all, of_library);
        fflush(stdout);
    }
    MPI_Finalize();
    if (rank == 0) {
        print_memory_of(getppid());
    }
    return sum != size;
}
