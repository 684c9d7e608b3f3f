/* Whether fences hold their ranks: each says when it came to each of them and when it left it.
 *
 *   fences WORD...
 *
 * Each word is a fence, in this order: `collect` with the values of all ranks, which all of them read after it; `all` without data;
 * `ends` without data, of the first and the last rank. A word may go on with `:RANK`: this rank comes 300 ms later than it
 * might.
 *
 * Each rank prints "rank R fence N came NANOSECONDS left NANOSECONDS" for each fence that it is in, and "rank R done". The clock is that of the machine.
 */
#include "common.h"

#include <time.h>

static pmix_proc_t me;
static uint32_t size;

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        say("rank %u: FAIL %s: %s", me.rank, what, PMIx_Error_string(status));
        exit(1);
    }
}

static pmix_status_t read_of(pmix_rank_t rank, const char *key, uint32_t *number)
{
    pmix_proc_t proc = proc_of(me.nspace, rank);
    pmix_value_t *value = NULL;
    pmix_info_t optional = { .key = PMIX_OPTIONAL, .value = value_bool(true) };
    pmix_status_t status = PMIx_Get(&proc, key, number == NULL ? &optional : NULL, number == NULL, &value);
    if (status == PMIX_SUCCESS) {
        if (number != NULL) {
            *number = value->data.uint32;
        }
        free_value(value);
        free(value);
    }
    return status;
}

/* A collecting fence brings the puts of all ranks, and nothing else. */
static pmix_status_t collect(uint32_t round)
{
    /* A key for each round: stock clients cache values that they have read. */
    char key[64];
    snprintf(key, sizeof(key), "fences.%u", round);
    pmix_value_t value = value_uint32(1000 * round + me.rank);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    pmix_status_t status = commit_and_collect();
    for (pmix_rank_t rank = 0; status == PMIX_SUCCESS && rank < size; rank++) {
        uint32_t number = 0;
        must("PMIx_Get", read_of(rank, key, &number));
        if (number != 1000 * round + rank) {
            say("rank %u: FAIL rank %u has put %u", me.rank, rank, number);
        }
        pmix_status_t found = read_of(rank, "dstore.slurm.ring", NULL);
        if (getenv("FENCES_OURS") != NULL && found == PMIX_SUCCESS) {
            say("rank %u: FAIL the servers' mark is a value of rank %u", me.rank, rank);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    must("PMIX_JOB_SIZE", read_of(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size));
    for (int i = 1; i < argc; i++) {
        char *late = strchr(argv[i], ':');
        bool is_of_ends = strncmp(argv[i], "ends", 4) == 0;
        if (is_of_ends && me.rank != 0 && me.rank != size - 1) {
            continue;
        }
        if (late != NULL && strtoul(late + 1, NULL, 10) == me.rank) {
            usleep(300000);
        }
        pmix_proc_t ends[] = { proc_of(me.nspace, 0), proc_of(me.nspace, size - 1) };
        long long came = now();
        pmix_status_t status = strncmp(argv[i], "collect", 7) == 0 ? collect(i) : PMIx_Fence(is_of_ends ? ends : NULL, is_of_ends ? 2 : 0, NULL, 0);
        must("PMIx_Fence", status);
        say("rank %u fence %d came %lld left %lld", me.rank, i, came, now());
    }
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    say("rank %u done", me.rank);
    return 0;
}
