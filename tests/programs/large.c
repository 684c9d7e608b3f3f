/* Values of a given size, by way of everything that copies them.
 *
 *   large [--size BYTES] [--text] [--time]
 *
 * Every rank puts a value of its own (default 1 KiB), enters a collecting fence, and gets the values of all ranks, which it
 * compares byte by byte. A rank that is told that there is no room says with which call, and exits with status 3; any
 * other failure is status 1.
 *
 *   --text       a string instead of bytes
 *   --time       rank 0 prints how long put, commit, fence and Gets took
 */
#include "common.h"

#include <time.h>

static pmix_proc_t me;
static size_t size = 1024;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

__attribute__((noreturn)) static void fail(const char *what, pmix_status_t status)
{
    bool no_room = status == PMIX_ERR_NOMEM || status == PMIX_ERR_OUT_OF_RESOURCE;
    say("rank %u: %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
    _exit(no_room ? 3 : 1);
}

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        fail(what, status);
    }
}

/* No NUL among them: they may be a string. */
static char byte_of(uint32_t rank, size_t at) { return 'a' + (rank + at) % 26; }

int main(int argc, char **argv)
{
    bool text = false, timing = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            size = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--text") == 0) {
            text = true;
        } else if (strcmp(argv[i], "--time") == 0) {
            timing = true;
        } else {
            fprintf(stderr, "usage: large [--size BYTES] [--text] [--time]\n");
            return 64;
        }
    }
    alarm(120);
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t proc = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    must("PMIx_Get of the job size", PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, &value));
    uint32_t job_size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);

    char *bytes = malloc(size + 1);
    if (bytes == NULL) {
        fail("malloc", PMIX_ERR_NOMEM);
    }
    for (size_t at = 0; at < size; at++) {
        bytes[at] = byte_of(me.rank, at);
    }
    bytes[size] = 0;
    pmix_value_t own = { .type = text ? PMIX_STRING : PMIX_BYTE_OBJECT };
    if (text) {
        own.data.string = bytes;
    } else {
        own.data.bo.bytes = bytes;
        own.data.bo.size = size;
    }
    double start = now_ms();
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "large", &own));
    free(bytes);
    double put = now_ms();
    must("PMIx_Commit", PMIx_Commit());
    double commit = now_ms();
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = value_bool(true) };
    must("PMIx_Fence", PMIx_Fence(NULL, 0, &collect, 1));
    double fence = now_ms();
    double gets = 0;
    for (uint32_t rank = 0; rank < job_size; rank++) {
        double before = now_ms();
        proc.rank = rank;
        must("PMIx_Get", PMIx_Get(&proc, "large", NULL, 0, &value));
        gets += now_ms() - before;
        size_t got_size = text ? strlen(value->data.string) : value->data.bo.size;
        const char *got = text ? value->data.string : value->data.bo.bytes;
        if (got_size != size) {
            fail("size of a value", PMIX_ERROR);
        }
        for (size_t at = 0; at < size; at++) {
            if (got[at] != byte_of(rank, at)) {
                fail("value", PMIX_ERROR);
            }
        }
        PMIX_VALUE_RELEASE(value);
    }
    must("second PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    if (timing && me.rank == 0) {
        say("ms: put %.1f commit %.1f fence %.1f gets %.1f", put - start, commit - put, fence - commit, gets);
    }
    say("rank %u: done", me.rank);
    return 0;
}
