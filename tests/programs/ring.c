/* An MPI program that shows whether a job was wired up: a token goes round all ranks, a sum over all is right, and
 * every rank names the hosts of all of them.
 *
 * With RING_LIBRARY=1 in the environment every rank prints which libpmix.so it has mapped, from /proc/self/maps, and
 * which data stores its server offers, which tells the servers apart. With RING_LIBRARY=all it prints each that it has mapped.
 * With RING_ABORT=R rank R calls MPI_Abort with status 3; with RING_DIE=R it kills itself.
 */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void check(int rank, int holds, const char *what)
{
    if (!holds) {
        printf("rank %d: FAIL %s\n", rank, what);
        failures++;
    }
}

/* The path of the mapped libpmix, or "none". */
static const char *mapped_library(void)
{
    static char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/');
        if (path != NULL && strstr(path, "/libpmix.so") != NULL) {
            path[strcspn(path, "\n")] = 0;
            fclose(maps);
            return path;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return "none";
}

/* Prints each mapped libpmix, once, in one line. */
static void print_mapped_libraries(int rank)
{
    static char line[4096], last[4096], text[16384];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/');
        if (path != NULL && strstr(path, "/libpmix.so") != NULL) {
            path[strcspn(path, "\n")] = 0;
            if (strcmp(path, last) != 0 && strlen(text) + strlen(path) + 2 < sizeof(text)) {
                strcpy(last, path);
                strcat(strcat(text, " "), path);
            }
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    printf("rank %d: libraries%s\n", rank, text);
}

static int env_rank(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : -1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    if (rank == env_rank("RING_ABORT")) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (rank == env_rank("RING_DIE")) {
        raise(SIGKILL);
    }

    /* Each rank adds its number to the token. */
    long token = 0;
    if (size > 1) {
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_LONG, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(rank, token == (long) size * (size - 1) / 2, "token of the ring");
        } else {
            MPI_Recv(&token, 1, MPI_LONG, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_LONG, (rank + 1) % size, 0, MPI_COMM_WORLD);
        }
    }
    long mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(rank, sum == (long) size * (size + 1) / 2, "sum over all ranks");

    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int len;
    MPI_Get_processor_name(name, &len);
    char *names = malloc((size_t) size * MPI_MAX_PROCESSOR_NAME);
    MPI_Allgather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD);
    char *line = malloc((size_t) size * (MPI_MAX_PROCESSOR_NAME + 16) + 256);
    char *at = line + sprintf(line, "rank %d of %d on %s; peers", rank, size, name);
    for (int peer = 0; peer < size; peer++) {
        if (peer != rank) {
            at += sprintf(at, " %d:%s", peer, names + (size_t) peer * MPI_MAX_PROCESSOR_NAME);
        }
    }
    puts(line);
    if (getenv("RING_LIBRARY") != NULL) {
        const char *stores = getenv("PMIX_GDS_MODULE");
        printf("rank %d: library %s under a server that offers %s\n", rank, mapped_library(), stores ? stores : "nothing");
        if (strcmp(getenv("RING_LIBRARY"), "all") == 0) {
            print_mapped_libraries(rank);
        }
    }
    fflush(stdout);
    free(names);
    free(line);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ring of %d ranks done\n", size);
    }
    MPI_Finalize();
    return failures != 0;
}
