/* Ranks that put a value repeatedly and read each other's newest value with PMIX_GET_REFRESH_CACHE, and that put arrays without a
 * type, which releases pack in different ways, between other values.
 *
 *   fresh              puts and reads repeatedly
 *   fresh --arrays     puts arrays without a type as well, which 6.1 itself cannot read as it writes them
 *   fresh --null       also puts an array whose pointer is NULL, which releases before 7.0 cannot put
 *
 * The ranks are those of one job, in which rank 0 asks rank 1 and every other one its predecessor.
 */
#include "common.h"

#include <pthread.h>

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

static void put_number(const char *key, uint32_t number)
{
    pmix_value_t value = { .type = PMIX_UINT32, .data.uint32 = number };
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    check(status == PMIX_SUCCESS, "put %s: %d", key, status);
}

static void put_array(const char *key, pmix_data_array_t *array)
{
    pmix_value_t value = { .type = PMIX_DATA_ARRAY, .data.darray = array };
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    check(status == PMIX_SUCCESS, "put %s: %d", key, status);
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

static void expect(pmix_status_t status, pmix_value_t *value, const char *key, uint32_t number, const char *how)
{
    bool is_number = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_UINT32;
    check(is_number && value->data.uint32 == number, "%s of %s: %d, %u instead of %u", how, key, status,
          is_number ? value->data.uint32 : 0, number);
}

static pmix_value_t *get(const pmix_proc_t *of, const char *key, bool refresh, pmix_status_t *status)
{
    pmix_value_t *value = NULL;
    pmix_info_t info;
    memset(&info, 0, sizeof(info));
    strcpy(info.key, PMIX_GET_REFRESH_CACHE);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    *status = PMIx_Get(of, key, refresh ? &info : NULL, refresh ? 1 : 0, &value);
    return value;
}

static void number(const pmix_proc_t *of, const char *key, uint32_t expected, bool refresh)
{
    pmix_status_t status;
    pmix_value_t *value = get(of, key, refresh, &status);
    expect(status, value, key, expected, refresh ? "fresh get" : "get");
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

static void no_elements(const pmix_proc_t *of, const char *key)
{
    pmix_status_t status;
    pmix_value_t *value = get(of, key, false, &status);
    bool is_array = status == PMIX_SUCCESS && value->type == PMIX_DATA_ARRAY;
    check(is_array && (value->data.darray == NULL || value->data.darray->size == 0), "get of %s: %d", key, status);
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_told;
    uint32_t expected;
} later = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0 };

static void on_value(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    expect(status, value, cbdata, later.expected, "fresh get_nb");
    pthread_mutex_lock(&later.lock);
    later.is_told = true;
    pthread_cond_signal(&later.told);
    pthread_mutex_unlock(&later.lock);
}

static void number_later(const pmix_proc_t *of, char *key, uint32_t expected)
{
    static pmix_info_t info;
    strcpy(info.key, PMIX_GET_REFRESH_CACHE);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    later.expected = expected;
    pmix_status_t status = PMIx_Get_nb(of, key, &info, 1, on_value, key);
    check(status == PMIX_SUCCESS, "get_nb of %s: %d", key, status);
    pthread_mutex_lock(&later.lock);
    while (status == PMIX_SUCCESS && !later.is_told) {
        pthread_cond_wait(&later.told, &later.lock);
    }
    pthread_mutex_unlock(&later.lock);
}

int main(int argc, char **argv)
{
    bool null = argc > 1 && strcmp(argv[1], "--null") == 0;
    bool arrays = null || (argc > 1 && strcmp(argv[1], "--arrays") == 0);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    check(status == PMIX_SUCCESS, "init: %d", status);
    pmix_proc_t of = me;
    of.rank = me.rank == 0 ? 1 : me.rank - 1;

    pmix_data_array_t untyped = { .type = PMIX_UNDEF, .size = 0, .array = NULL };
    put_number("first", 1);
    if (arrays) {
        put_array("untyped", &untyped);
    }
    if (null) {
        put_array("null", NULL);
    }
    put_number("changing", 1);
    put_number("last", 9);
    commit();
    fence(true);
    number(&of, "first", 1, false);
    number(&of, "last", 9, false);
    if (arrays) {
        no_elements(&of, "untyped");
    }
    if (null) {
        no_elements(&of, "null");
    }
    number(&of, "changing", 1, false);
    number(&of, "changing", 1, true);

    fence(false);
    put_number("changing", 2);
    commit();
    fence(false);
    number(&of, "changing", 2, true);
    number(&of, "changing", 2, false);
    number(&of, "first", 1, true);
    fence(false);
    put_number("changing", 3);
    put_number("new", 4);
    commit();
    fence(false);
    number_later(&of, "changing", 3);
    number(&of, "changing", 3, false);
    number(&of, "new", 4, true);
    /* Of oneself one knows best. */
    number(&me, "changing", 3, true);
    /* Keeps the rank that is read alive. */
    fence(false);

    status = PMIx_Finalize(NULL, 0);
    check(status == PMIX_SUCCESS, "finalize: %d", status);
    say("rank %u: %d checks, %d failed", me.rank, checks, failures);
    return failures == 0 ? 0 : 1;
}
