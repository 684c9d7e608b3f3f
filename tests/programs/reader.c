/* Reads other ranks' values while or after a test damages their files.
 *
 *   reader [GATE]
 *
 * With a GATE every rank puts keys and enters a collecting fence, reads them, makes the file GATE.<rank>.ready and waits
 * until the file GATE is gone. Then, and without a GATE at once, it reads the values of all ranks and of the host's
 * registration, and fails if one is missing or wrong, with PMIX_OPTIONAL or without.
 */
#include "common.h"

#include <fcntl.h>

static pmix_proc_t me;

__attribute__((noreturn)) static void fail(const char *what, uint32_t rank, pmix_status_t status)
{
    say("rank %u: %s of rank %u: %s (%d)", me.rank, what, rank, PMIx_Error_string(status), status);
    _exit(1);
}

static pmix_value_t *get(pmix_rank_t rank, const char *key, bool optional)
{
    pmix_proc_t proc = proc_of(me.nspace, rank);
    pmix_info_t info = { .key = PMIX_OPTIONAL, .value = value_bool(true) };
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, optional ? &info : NULL, optional, &value);
    if (status != PMIX_SUCCESS || value == NULL) {
        fail(key, rank, status);
    }
    return value;
}

/* Every rank's bytes have a length of their own, so that records differ. */
static uint32_t length_of(uint32_t rank) { return 40 + 900 * rank; }

static void read_all(void)
{
    pmix_value_t *size = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, false);
    uint32_t job_size = size->data.uint32;
    if (size->type != PMIX_UINT32) {
        fail(PMIX_JOB_SIZE, PMIX_RANK_WILDCARD, PMIX_ERR_TYPE_MISMATCH);
    }
    PMIX_VALUE_RELEASE(size);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        for (int optional = 0; optional < 2; optional++) {
            pmix_value_t *number = get(rank, "r.number", optional);
            if (number->type != PMIX_UINT32 || number->data.uint32 != 1000 + rank) {
                fail("wrong r.number", rank, PMIX_ERROR);
            }
            PMIX_VALUE_RELEASE(number);
            pmix_value_t *bytes = get(rank, "r.bytes", optional);
            if (bytes->type != PMIX_BYTE_OBJECT || bytes->data.bo.size != length_of(rank)) {
                fail("wrong r.bytes", rank, PMIX_ERROR);
            }
            for (uint32_t i = 0; i < length_of(rank); i++) {
                if (bytes->data.bo.bytes[i] != (char) (rank + i)) {
                    fail("wrong byte in r.bytes", rank, PMIX_ERROR);
                }
            }
            PMIX_VALUE_RELEASE(bytes);
            pmix_value_t *local = get(rank, PMIX_LOCAL_RANK, optional);
            if (local->type != PMIX_UINT16 || local->data.uint16 != rank) {
                fail("wrong local rank", rank, PMIX_ERROR);
            }
            PMIX_VALUE_RELEASE(local);
            pmix_value_t *host = get(rank, PMIX_HOSTNAME, optional);
            char name[256] = "";
            gethostname(name, sizeof(name) - 1);
            if (host->type != PMIX_STRING || strncmp(host->data.string, name, strlen(host->data.string)) != 0) {
                fail("wrong host", rank, PMIX_ERROR);
            }
            PMIX_VALUE_RELEASE(host);
        }
    }
}

static void publish(void)
{
    pmix_value_t number = value_uint32(1000 + me.rank);
    char bytes[8192];
    for (uint32_t i = 0; i < length_of(me.rank); i++) {
        bytes[i] = (char) (me.rank + i);
    }
    pmix_value_t value = value_bytes(bytes, length_of(me.rank));
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, "r.number", &number);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Put(PMIX_GLOBAL, "r.bytes", &value);
    }
    free_value(&value);
    if (status == PMIX_SUCCESS) {
        status = commit_and_collect();
    }
    if (status != PMIX_SUCCESS) {
        fail("putting keys", me.rank, status);
    }
}

int main(int argc, char **argv)
{
    alarm(120);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Init", me.rank, status);
    }
    if (argc > 1) {
        char ready[4096];
        publish();
        read_all();
        snprintf(ready, sizeof(ready), "%s.%u.ready", argv[1], me.rank);
        int file = open(ready, O_CREAT | O_WRONLY, 0600);
        if (file < 0) {
            fail("making its file", me.rank, PMIX_ERROR);
        }
        close(file);
        while (access(argv[1], F_OK) == 0) {
            usleep(10000);
        }
    }
    read_all();
    say("rank %u: gets done", me.rank);
    status = finalize_together();
    if (status != PMIX_SUCCESS) {
        fail("ending", me.rank, status);
    }
    return 0;
}
