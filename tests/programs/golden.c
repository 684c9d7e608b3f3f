/* A rank of the job whose directory tests/golden/record.sh keeps: values of all kinds, in two publications.
 *
 *   golden COMMAND     rank 0 runs COMMAND by the shell when all is published, with the namespace's directory in DIRECTORY
 *
 * dstore/src/segment/tests/golden_directory.rs has the same values.
 */
#include "common.h"

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        say("%s: %s", what, PMIx_Error_string(status));
        exit(1);
    }
}

static void put(pmix_scope_t scope, const char *key, pmix_value_t value)
{
    must(key, PMIx_Put(scope, key, &value));
    free_value(&value);
}

static void put_all(pmix_rank_t rank)
{
    char text[64];
    unsigned char bytes[2000];
    snprintf(text, sizeof(text), "global of %u", rank);
    put(PMIX_GLOBAL, "g.text", value_string(text));
    put(PMIX_GLOBAL, "g.empty", value_string(""));
    snprintf(text, sizeof(text), "local of %u", rank);
    put(PMIX_LOCAL, "g.local", value_string(text));
    snprintf(text, sizeof(text), "remote of %u", rank);
    put(PMIX_REMOTE, "g.remote", value_string(text));
    put(PMIX_GLOBAL, "g.uint16", value_uint16(60000 + rank));
    put(PMIX_GLOBAL, "g.uint32", value_uint32(1000 + rank));
    put(PMIX_GLOBAL, "g.uint64", value_uint64((1ull << 40) + rank));
    put(PMIX_GLOBAL, "g.int", value_int(-7 * (int) rank));
    put(PMIX_GLOBAL, "g.bool", value_bool(rank % 2 == 1));
    put(PMIX_GLOBAL, "g.version", value_uint32(1));
    pmix_proc_t next = proc_of("golden", rank + 1);
    put(PMIX_GLOBAL, "g.proc", value_proc(&next));
    memset(bytes, 'a' + (int) rank, sizeof(bytes));
    put(PMIX_GLOBAL, "g.bytes", value_bytes(bytes, 5));
    /* Of another length for each rank; the long ones are not copied into messages. */
    put(PMIX_GLOBAL, "g.many", value_bytes(bytes, 500 * rank));
    infos_t infos = { 0 };
    add(&infos, "inner.text", value_string("within"));
    add(&infos, "inner.number", value_uint32(rank));
    put(PMIX_GLOBAL, "g.infos", value_infos(&infos));
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    put_all(me.rank);
    must("first fence", commit_and_collect());
    /* One rank alone has more, and another value of one key. */
    if (me.rank == 1) {
        put(PMIX_GLOBAL, "g.version", value_uint32(2));
        put(PMIX_GLOBAL, "g.late", value_string("of rank 1 alone"));
    }
    must("second fence", commit_and_collect());
    if (me.rank == 0 && argc > 1) {
        char outer[4096];
        const char *inner = getenv("PMIX_DSTORE_SEGMENTS");
        if (inner == NULL) {
            say("there is no shared memory");
            exit(1);
        }
        snprintf(outer, sizeof(outer), "%s/..", inner);
        setenv("DIRECTORY", outer, 1);
        if (system(argv[1]) != 0) {
            say("%s failed", argv[1]);
            exit(1);
        }
    }
    must("PMIx_Finalize", finalize_together());
    return 0;
}
