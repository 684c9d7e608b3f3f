/* Ranks under whose feet the library's file is replaced, and children that are started afterwards.
 *
 *   replaced COMMAND      rank 0 runs COMMAND by the shell when all have published; then all make calls of every kind, and rank 0 starts two
 *                         ranks of "replaced child", with which it connects
 *
 * Each process prints "WHO: inode I[ deleted], N failed", I being that of the libpmix that it has mapped, and a line for each call that failed.
 */
#include "common.h"

static pmix_proc_t me;
static const char *who = "rank";
static int failures;

static void check(bool holds, const char *what, pmix_status_t status)
{
    if (!holds) {
        say("%s %u: FAIL %s: %s", who, me.rank, what, PMIx_Error_string(status));
        failures++;
    }
}

static void succeeds(const char *what, pmix_status_t status) { check(status == PMIX_SUCCESS, what, status); }

static void put(const char *key)
{
    char text[64];
    snprintf(text, sizeof(text), "%s of %u", key, me.rank);
    pmix_value_t value = value_string(text);
    succeeds("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    free_value(&value);
}

static void reads(const char *nspace, pmix_rank_t rank, const char *key)
{
    char text[64];
    snprintf(text, sizeof(text), "%s of %u", key, rank);
    pmix_proc_t proc = proc_of(nspace, rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_STRING && strcmp(value->data.string, text) == 0, "PMIx_Get", status);
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
}

static uint32_t size_of(const char *nspace)
{
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    check(status == PMIX_SUCCESS && value->type == PMIX_UINT32, "PMIx_Get of the job size", status);
    return status == PMIX_SUCCESS ? value->data.uint32 : 0;
}

/* What the kernel says of the library: the file's name may be that of another one by now. */
static void tell(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    unsigned long inode = 0;
    const char *state = "";
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "/libpmix.so") != NULL && sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1) {
            state = strstr(line, "(deleted)") != NULL ? " deleted" : "";
        }
    }
    say("%s %u: inode %lu%s, %d failed", who, me.rank, inode, state, failures);
}

static void publish_and_lookup(uint32_t size)
{
    char text[64];
    pmix_pdata_t found;
    infos_t infos = { 0 };
    snprintf(text, sizeof(text), "r.published.%u", me.rank);
    add(&infos, text, value_uint32(me.rank));
    succeeds("PMIx_Publish", PMIx_Publish(infos.items, infos.count));
    free_infos(&infos);
    succeeds("PMIx_Fence", fence_of_all(false));
    pmix_rank_t next = (me.rank + 1) % size;
    memset(&found, 0, sizeof(found));
    snprintf(found.key, sizeof(found.key), "r.published.%u", next);
    pmix_status_t status = PMIx_Lookup(&found, 1, NULL, 0);
    check(status == PMIX_SUCCESS && found.value.type == PMIX_UINT32 && found.value.data.uint32 == next, "PMIx_Lookup", status);
    /* Nobody takes back what others have not looked up yet. */
    succeeds("PMIx_Fence", fence_of_all(false));
    char *words[] = { text, NULL };
    succeeds("PMIx_Unpublish", PMIx_Unpublish(words, NULL, 0));
}

static void resolve(uint32_t size)
{
    char host[256];
    gethostname(host, sizeof(host));
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Resolve_peers(host, me.nspace, &procs, &count);
    check(status == PMIX_SUCCESS && count == size, "PMIx_Resolve_peers", status);
    char *nodes = NULL;
    succeeds("PMIx_Resolve_nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
}

/* Parent and children connect, read each other and disconnect. */
static void spawn(char *self)
{
    char *words[] = { self, "child", NULL };
    pmix_app_t app = { .cmd = self, .argv = words, .maxprocs = 2 };
    pmix_nspace_t nspace = "";
    pmix_status_t status = PMIx_Spawn(NULL, 0, &app, 1, nspace);
    succeeds("PMIx_Spawn", status);
    if (status != PMIX_SUCCESS) {
        return;
    }
    pmix_proc_t all[] = { me, proc_of(nspace, PMIX_RANK_WILDCARD) };
    succeeds("PMIx_Connect", PMIx_Connect(all, 2, NULL, 0));
    for (pmix_rank_t rank = 0; rank < 2; rank++) {
        reads(nspace, rank, "child");
    }
    succeeds("PMIx_Disconnect", PMIx_Disconnect(all, 2, NULL, 0));
}

static void child(void)
{
    who = "child";
    put("child");
    succeeds("PMIx_Commit", PMIx_Commit());
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *parent = NULL;
    pmix_status_t status = PMIx_Get(&job, PMIX_PARENT_ID, NULL, 0, &parent);
    succeeds("PMIx_Get of the parent", status);
    if (status != PMIX_SUCCESS) {
        return;
    }
    pmix_proc_t all[] = { *parent->data.proc, job };
    succeeds("PMIx_Connect", PMIx_Connect(all, 2, NULL, 0));
    reads(all[0].nspace, all[0].rank, "after");
    succeeds("PMIx_Disconnect", PMIx_Disconnect(all, 2, NULL, 0));
}

int main(int argc, char **argv)
{
    alarm(100);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS || argc < 2) {
        say("init: %s", PMIx_Error_string(status));
        return 1;
    }
    if (strcmp(argv[1], "child") == 0) {
        child();
    } else {
        uint32_t size = size_of(me.nspace);
        put("before");
        succeeds("commit, fence", commit_and_collect());
        if (me.rank == 0 && system(argv[1]) != 0) {
            check(false, argv[1], PMIX_ERROR);
        }
        succeeds("PMIx_Fence", fence_of_all(false));
        for (pmix_rank_t rank = 0; rank < size; rank++) {
            reads(me.nspace, rank, "before");
        }
        put("after");
        succeeds("commit, fence", commit_and_collect());
        for (pmix_rank_t rank = 0; rank < size; rank++) {
            reads(me.nspace, rank, "after");
        }
        publish_and_lookup(size);
        resolve(size);
        if (me.rank == 0) {
            spawn(argv[0]);
        }
        succeeds("PMIx_Fence", fence_of_all(false));
    }
    tell();
    succeeds("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return failures != 0;
}
