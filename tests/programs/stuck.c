/* Rank 2 sleeps for ever before it does what the others do.
 *
 *   stuck init | fence | finalize | end | get DIRECTORY [tell]
 *
 * `get`: the others wait a minute for a key that rank 2 does not put. Each rank writes its process's number to
 * DIRECTORY/here.RANK once SIGUSR1 does it no harm. `tell`: it prints a line when it is connected.
 */
#include "common.h"

#include <signal.h>

static void ignore(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "";
    const char *rank = getenv("PMIX_RANK");
    bool is_stuck = rank != NULL && strcmp(rank, "2") == 0;
    pmix_proc_t me;
    char path[4096];
    snprintf(path, sizeof(path), "%s/here.%s", argc > 2 ? argv[2] : ".", rank);
    signal(SIGUSR1, ignore);
    FILE *here = fopen(path, "w");
    if (here == NULL || fprintf(here, "%d\n", getpid()) < 0 || fclose(here) != 0) {
        return 4;
    }
    while (is_stuck && strcmp(where, "init") == 0) {
        pause();
    }
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        return 1;
    }
    if (argc > 3) {
        say("connected");
    }
    while (is_stuck && (strcmp(where, "fence") == 0 || strcmp(where, "get") == 0)) {
        pause();
    }
    if (strcmp(where, "get") == 0) {
        pmix_proc_t other = me;
        pmix_value_t *value = NULL;
        other.rank = 2;
        pmix_info_t limit;
        int seconds = 60;
        PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
        PMIx_Get(&other, "never.put", &limit, 1, &value);
    }
    if (PMIx_Fence(NULL, 0, NULL, 0) != PMIX_SUCCESS) {
        return 2;
    }
    while (is_stuck && strcmp(where, "finalize") == 0) {
        pause();
    }
    if (PMIx_Finalize(NULL, 0) != PMIX_SUCCESS) {
        return 3;
    }
    while (is_stuck && strcmp(where, "end") == 0) {
        pause();
    }
    return 0;
}
