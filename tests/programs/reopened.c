/* Opens and closes libpmix.so.2 again and again, in a process that is not linked to it, as a rank of a job of one.
 *
 *   reopened N     of four times, the library is used in three: init, put, get and finalize
 *
 * Descriptors, threads and mappings of files must be the same after the last time as after the fourth. Prints "reopened done".
 */
#include "common.h"

#include <dlfcn.h>

static void fail(const char *what, int status)
{
    say("FAIL %s: %d %s", what, status, status == 0 ? dlerror() : "");
    exit(3);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fail(name, 0);
    }
    return found;
}

static int count_mappings(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        /* Of anonymous memory the C library decides, of segments the server. */
        count += strchr(line, '/') != NULL && strstr(line, "/segment-") == NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return count;
}

static void once(int turn)
{
    void *library = dlopen("libpmix.so.2", turn % 2 == 0 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
    if (library == NULL) {
        fail("dlopen", 0);
    }
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = symbol(library, "PMIx_Init");
    pmix_status_t (*finalize)(const pmix_info_t *, size_t) = symbol(library, "PMIx_Finalize");
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = symbol(library, "PMIx_Put");
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) =
        symbol(library, "PMIx_Get");
    if (turn % 4 != 3) {
        pmix_proc_t me;
        pmix_value_t value = value_uint32(turn), *found = NULL;
        pmix_status_t status = init(&me, NULL, 0);
        if (status != PMIX_SUCCESS || (status = put(PMIX_GLOBAL, "t.reopened", &value)) != PMIX_SUCCESS ||
            (status = get(&me, "t.reopened", NULL, 0, &found)) != PMIX_SUCCESS) {
            fail("a call", status);
        }
        if (found->type != PMIX_UINT32 || found->data.uint32 != (uint32_t) turn) {
            fail("a value", turn);
        }
        free(found);
        status = finalize(NULL, 0);
        if (status != PMIX_SUCCESS) {
            fail("PMIx_Finalize", status);
        }
    }
    if (dlclose(library) != 0) {
        fail("dlclose", 0);
    }
}

int main(int argc, char **argv)
{
    int turns = argc == 2 ? atoi(argv[1]) : 0, before[3] = { 0 }, after[3];
    if (turns < 8) {
        fprintf(stderr, "usage: reopened N, at least 8\n");
        return 64;
    }
    for (int turn = 0; turn < turns; turn++) {
        once(turn);
        if (turn == 3) {
            before[0] = count_entries("/proc/self/fd");
            before[1] = count_entries("/proc/self/task");
            before[2] = count_mappings();
        }
    }
    after[0] = count_entries("/proc/self/fd");
    after[1] = count_entries("/proc/self/task");
    after[2] = count_mappings();
    if (memcmp(before, after, sizeof(before)) != 0) {
        say("FAIL %d descriptors, %d threads, %d mappings; before %d, %d, %d", after[0], after[1], after[2], before[0], before[1], before[2]);
        return 3;
    }
    say("reopened done");
    return 0;
}
