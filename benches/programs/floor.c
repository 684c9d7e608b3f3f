/* The least that a launcher can do, for a floor beneath whole jobs:
 *
 *   floor N TOPOLOGY PROGRAM [ARGS...]
 *
 * starts N ranks by fork and exec and waits for them. There is no server: the ranks' libpmix.so.2 is `floor-pmix.c`, which
 * answers out of a file that this program makes before. TOPOLOGY names a file with the XML that ranks get. Output is not
 * forwarded; nothing is supervised. The status is 1 if a rank has failed. */
#define _GNU_SOURCE
#include "floor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    exit(64);
}

/* The file that the ranks map, without a name that would have to be removed. */
static void make_file(uint32_t size, const char *topology)
{
    size_t len = sizeof(floor_t) + size * sizeof(floor_slot_t);
    int file = memfd_create("floor", 0);
    if (file < 0 || ftruncate(file, (off_t) len) != 0) {
        fail("floor");
    }
    floor_t *floor = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int xml = open(topology, O_RDONLY | O_CLOEXEC);
    if (floor == MAP_FAILED || xml < 0 || read(xml, floor->topology, FLOOR_TOPOLOGY_BYTES - 1) < 0) {
        fail(topology);
    }
    close(xml);
    floor->size = size;
    char text[16];
    snprintf(text, sizeof(text), "%d", file);
    setenv(FLOOR_FILE, text, 1);
}

int main(int argc, char **argv)
{
    uint32_t size = argc > 3 ? (uint32_t) atoi(argv[1]) : 0;
    if (size == 0) {
        fprintf(stderr, "usage: %s N TOPOLOGY PROGRAM [ARGS...]\n", argv[0]);
        return 64;
    }
    make_file(size, argv[2]);
    /* With these, Open MPI 4.1 uses PMIx, and yields while it waits. pmixrun sets them, too. */
    setenv("JSM_JSRUN_PORT", "floor", 1);
    if (size > (uint32_t) sysconf(_SC_NPROCESSORS_ONLN)) {
        setenv("OMPI_MCA_mpi_oversubscribe", "1", 1);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        char text[16];
        snprintf(text, sizeof(text), "%u", rank);
        setenv(FLOOR_RANK, text, 1);
        pid_t child = fork();
        if (child == 0) {
            execvp(argv[3], argv + 3);
            perror(argv[3]);
            _exit(127);
        }
        if (child < 0) {
            fail("fork");
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0) {
        failed |= status;
    }
    return failed != 0;
}
