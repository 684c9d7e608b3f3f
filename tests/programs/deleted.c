/* Ranks of one job, of which rank 0 deletes a key that all have read, and puts it again.
 *
 * Where rank 0 is told that its server, of a release before 7.0, knows no deletions, nothing is gone.
 */
#include "common.h"

/* Not in the headers of releases before 7.0. */
enum { DELETE_LOCAL = 5, DELETE_REMOTE = 6, DELETE_GLOBAL = 7, DELETE_INTERNAL = 8 };

static pmix_proc_t me;
static int checks, failures;

__attribute__((format(printf, 2, 3))) static void check(bool holds, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    checks++;
    if (!holds) {
        failures++;
        say("rank %u: FAIL %s", me.rank, what);
    }
}

static void put(pmix_scope_t scope, const char *key, uint32_t number)
{
    pmix_value_t value = { .type = PMIX_UINT32, .data.uint32 = number };
    pmix_status_t status = PMIx_Put(scope, key, &value);
    check(status == PMIX_SUCCESS, "put %s: %d", key, status);
}

static pmix_status_t delete(pmix_scope_t scope, const char *key)
{
    pmix_status_t status = PMIx_Put(scope, key, NULL);
    check(status == PMIX_SUCCESS || status == PMIX_ERR_NOT_SUPPORTED, "delete %s: %d", key, status);
    return status;
}

static void commit(void)
{
    pmix_status_t status = PMIx_Commit();
    check(status == PMIX_SUCCESS, "commit: %d", status);
}

static void fence(bool collect)
{
    pmix_status_t status = fence_of_all(collect);
    check(status == PMIX_SUCCESS, "fence: %d", status);
}

/* The number under a key; -1 if there is none within a second. */
static int64_t read_number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t of = me;
    of.rank = rank;
    pmix_value_t *value = NULL;
    pmix_info_t info;
    memset(&info, 0, sizeof(info));
    strcpy(info.key, PMIX_TIMEOUT);
    info.value.type = PMIX_INT;
    info.value.data.integer = 1;
    pmix_status_t status = PMIx_Get(&of, key, &info, 1, &value);
    int64_t number = status == PMIX_SUCCESS && value->type == PMIX_UINT32 ? (int64_t) value->data.uint32 : -1;
    if (status == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
    return number;
}

static void expect(pmix_rank_t rank, const char *key, int64_t expected, const char *when)
{
    int64_t number = read_number(rank, key);
    /* A server of another release notifies its clients of a deletion later. */
    for (int i = 0; i < 50 && expected == -1 && number != -1; i++) {
        usleep(100000);
        number = read_number(rank, key);
    }
    check(number == expected, "%s of %u %s: %lld, not %lld", key, rank, when, (long long) number, (long long) expected);
}

int main(void)
{
    bool is_refused = false;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    check(status == PMIX_SUCCESS, "init: %d", status);
    put(PMIX_GLOBAL, "victim", me.rank + 10);
    put(PMIX_GLOBAL, "keeper", me.rank + 20);
    commit();
    fence(true);
    for (pmix_rank_t rank = 0; rank < 2; rank++) {
        expect(rank, "victim", rank + 10, "at first");
        expect(rank, "keeper", rank + 20, "at first");
    }
    if (me.rank == 0) {
        is_refused = delete(DELETE_GLOBAL, "victim") != PMIX_SUCCESS;
        check((delete(DELETE_GLOBAL, "never put") != PMIX_SUCCESS) == is_refused, "one that was never put");
        say("deletions are %s", is_refused ? "refused" : "taken");
        put(PMIX_GLOBAL, "refused", is_refused);
        if (!is_refused) {
            check(read_number(0, "victim") == -1, "an own key is gone before the commit");
        }
        put(PMIX_INTERNAL, "internal", 30);
        check(read_number(0, "internal") == 30, "an internal value");
        delete(DELETE_INTERNAL, "internal");
        check(read_number(0, "internal") == (is_refused ? 30 : -1), "an internal value that is deleted");
        commit();
        expect(0, "victim", is_refused ? 10 : -1, "after the commit");
    }
    fence(true);
    is_refused = read_number(0, "refused") == 1;
    for (pmix_rank_t rank = 0; rank < 2; rank++) {
        expect(rank, "victim", rank == 0 && !is_refused ? -1 : (int64_t) rank + 10, "after the deletion");
        expect(rank, "keeper", rank + 20, "after the deletion");
    }
    fence(false);
    if (me.rank == 0) {
        put(PMIX_GLOBAL, "victim", 50);
        commit();
    }
    fence(true);
    expect(0, "victim", 50, "put again");
    expect(0, "keeper", 20, "put again");
    say("rank %u: %d checks, %d failed", me.rank, checks, failures);
    status = PMIx_Finalize(NULL, 0);
    return failures == 0 && status == PMIX_SUCCESS ? 0 : 1;
}
