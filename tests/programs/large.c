/* Values of a given size, by way of everything that copies them.
 *
 *   large [--size BYTES] [--text] [--time] [--between COMMAND]
 *
 * Every rank puts a value of its own (default 1 KiB), enters a collecting fence, and gets the values of all ranks, which it
 * compares byte by byte. A rank that is told that there is no room says with which call, and exits with status 3; any
 * other failure is status 1.
 *
 *   --text       a string instead of bytes
 *   --time       rank 0 prints how long put, commit, fence and Gets took
 *   --between    does it twice, with another key; before the second time rank 0 lets the shell run a command
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

static bool text, timing;
static uint32_t job_size;

/* Gets a key of all ranks and compares; how long the Gets took. */
static double get_all(const char *key)
{
    double gets = 0;
    pmix_proc_t proc = proc_of(me.nspace, 0);
    for (; proc.rank < job_size; proc.rank++) {
        double before = now_ms();
        pmix_value_t *value = NULL;
        must("PMIx_Get", PMIx_Get(&proc, key, NULL, 0, &value));
        gets += now_ms() - before;
        size_t got_size = text ? strlen(value->data.string) : value->data.bo.size;
        const char *got = text ? value->data.string : value->data.bo.bytes;
        if (got_size != size) {
            fail("size of a value", PMIX_ERROR);
        }
        for (size_t at = 0; at < size; at++) {
            if (got[at] != byte_of(proc.rank, at)) {
                fail("value", PMIX_ERROR);
            }
        }
        PMIX_VALUE_RELEASE(value);
    }
    return gets;
}

/* Puts, commits, fences and gets. */
static void exchange(const char *key)
{
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
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &own));
    free(bytes);
    double put = now_ms();
    must("PMIx_Commit", PMIx_Commit());
    double commit = now_ms();
    must("PMIx_Fence", collecting_fence());
    double fence = now_ms();
    double gets = get_all(key);
    must("second PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    if (timing && me.rank == 0) {
        say("ms: put %.1f commit %.1f fence %.1f gets %.1f", put - start, commit - put, fence - commit, gets);
    }
}

int main(int argc, char **argv)
{
    const char *between = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--size") == 0 && i + 1 < argc) {
            size = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--text") == 0) {
            text = true;
        } else if (strcmp(argv[i], "--time") == 0) {
            timing = true;
        } else if (strcmp(argv[i], "--between") == 0 && i + 1 < argc) {
            between = argv[++i];
        } else {
            fprintf(stderr, "usage: large [--size BYTES] [--text] [--time] [--between COMMAND]\n");
            return 64;
        }
    }
    alarm(120);
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    must("PMIx_Get of the job size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
    job_size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    exchange("large");
    if (between != NULL) {
        if (me.rank == 0 && system(between) == -1) {
            fail("system", PMIX_ERROR);
        }
        must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
        exchange("second");
        get_all("large");
    }
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    say("rank %u: done", me.rank);
    return 0;
}
