/* To be preloaded into MPI programs that are not ours: tells which libpmix they and their daemons have.
 *
 * Open MPI lets go of the library in MPI_Finalize, so it is too late when a program ends: each process says so when it
 * is about to finalize the library, in a line of its own at the end of the file that MAPPED_LIST names:
 *
 *   library DEV:INO daemon DEV:INO
 */
#define _GNU_SOURCE
#include "mapped.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <stdlib.h>
#include <unistd.h>

static void report(void)
{
    char own[64], daemon[64], line[160];
    mapped_library(getpid(), own, sizeof(own));
    mapped_library(getppid(), daemon, sizeof(daemon));
    int len = snprintf(line, sizeof(line), "library %s daemon %s\n", own, daemon);
    const char *path = getenv("MAPPED_LIST");
    int list = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (list < 0 || write(list, line, len) != len) {
        perror("MAPPED_LIST");
    }
    close(list);
}

/* Interposes the library's function, which it finds with dlsym. */
pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    static int reported;
    if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED)) {
        report();
    }
    void *library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        fprintf(stderr, "no libpmix: %s\n", dlerror());
        abort();
    }
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    *(void **) &finalize = dlsym(library, "PMIx_Finalize");
    pmix_status_t status = finalize(info, ninfo);
    dlclose(library);
    return status;
}
