/* A program of MPICH and of all whose libmpi has its binary interface, from release 3.1 on: a token goes round all ranks, and a sum over
 * all is right. Every rank prints a line.
 *
 *   mpich            does only that
 *   mpich abort R    rank R calls MPI_Abort with status 7
 *   mpich die R      rank R kills itself
 *   mpich fail R     rank R exits with status 5
 *   mpich leave R    rank R exits with status 0 and does not finalize
 *   mpich stay R DIR the ranks bear SIGUSR1 and write here.RANK into DIR; rank R does not come to MPI_Init until it is killed
 *
 * The values of the interface stand here, so that no package with headers is needed; one with an mpicc of its own would be the second on
 * the machine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Handle;
#define WORLD ((Handle)0x44000000)
#define TYPE_INT ((Handle)0x4c000405)
#define SUM ((Handle)0x58000003)
#define IGNORE ((void *)1)

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Abort(Handle communicator, int status);
int MPI_Comm_rank(Handle communicator, int *rank);
int MPI_Comm_size(Handle communicator, int *size);
int MPI_Allreduce(const void *from, void *to, int count, Handle type, Handle operation, Handle communicator);
int MPI_Barrier(Handle communicator);
int MPI_Send(const void *from, int count, Handle type, int rank, int tag, Handle communicator);
int MPI_Recv(void *to, int count, Handle type, int rank, int tag, Handle communicator, void *status);

static void check(int rank, int holds, const char *what)
{
    if (!holds) {
        printf("rank %d: FAIL %s\n", rank, what);
        exit(9);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const char *number = getenv("PMI_RANK");
    int chosen = argc > 2 ? atoi(argv[2]) : -1;
    int rank, size, sum = 0, token = 0;
    if (strcmp(mode, "stay") == 0 && number != NULL && argc > 3) {
        char path[4096];
        signal(SIGUSR1, SIG_IGN);
        snprintf(path, sizeof(path), "%s/here.%s", argv[3], number);
        FILE *here = fopen(path, "w");
        if (here != NULL) {
            fclose(here);
        }
        while (atoi(number) == chosen) {
            pause();
        }
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    check(rank, number == NULL || atoi(number) == rank, "MPI_Comm_rank");
    if (rank == chosen) {
        if (strcmp(mode, "abort") == 0) {
            MPI_Abort(WORLD, 7);
        } else if (strcmp(mode, "die") == 0) {
            raise(SIGKILL);
        } else if (strcmp(mode, "fail") == 0 || strcmp(mode, "leave") == 0) {
            _exit(strcmp(mode, "fail") == 0 ? 5 : 0);
        }
    }
    MPI_Allreduce(&rank, &sum, 1, TYPE_INT, SUM, WORLD);
    check(rank, sum == size * (size - 1) / 2, "the sum");
    if (size > 1) {
        int next = (rank + 1) % size, previous = (rank + size - 1) % size;
        if (rank == 0) {
            MPI_Send(&token, 1, TYPE_INT, next, 1, WORLD);
        }
        MPI_Recv(&token, 1, TYPE_INT, previous, 1, WORLD, IGNORE);
        token++;
        if (rank != 0) {
            MPI_Send(&token, 1, TYPE_INT, next, 1, WORLD);
        }
        check(rank, token == (rank == 0 ? size : rank), "the token");
    }
    MPI_Barrier(WORLD);
    printf("rank %d of %d done\n", rank, size);
    MPI_Finalize();
    return 0;
}
