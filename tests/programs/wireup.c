/* Prints when MPI_Init is over, as nanoseconds of the clock that the host has, too. */
#include <mpi.h>

#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec now;
    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("wired up at %lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
