/* A script of calls, each of which may fail: what it answers is printed by name. Ranks of a job whose processes are denied memory or calls
 * of the system (`failing.c`).
 *
 *   scripted
 *
 * Each rank prints "rank R: CALL: STATUS" for each call that does not succeed, "rank R: FAIL ..." for a wrong value, and "rank R: end" when it
 * has come through. Exit status 0 if all calls succeeded, 3 if one did not, 4 if a value was wrong; SIGALRM ends it after SCRIPTED_ALARM
 * seconds (20).
 */
#include "common.h"

static pmix_proc_t me;
static int refused, wrong;

static bool well(pmix_status_t status, const char *what)
{
    if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) {
        return true;
    }
    say("rank %u: %s: %s", me.rank, what, PMIx_Error_string(status));
    refused++;
    return false;
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void text_of(char text[4001], uint32_t rank)
{
    for (int at = 0; at < 4000; at++) {
        text[at] = 'a' + (char) ((rank + at) % 26);
    }
    text[4000] = '\0';
}

static void put(void)
{
    char text[4001], bytes[3000];
    text_of(text, me.rank);
    memset(bytes, (int) me.rank, sizeof(bytes));
    pmix_value_t long_text = value_string(text), number = value_uint32(100 + me.rank), raw = value_bytes(bytes, sizeof(bytes));
    well(PMIx_Put(PMIX_GLOBAL, "s.text", &long_text), "PMIx_Put of a text");
    well(PMIx_Put(PMIX_GLOBAL, "s.number", &number), "PMIx_Put of a number");
    well(PMIx_Put(PMIX_LOCAL, "s.bytes", &raw), "PMIx_Put of bytes");
    free_value(&long_text);
    free_value(&raw);
    well(PMIx_Commit(), "PMIx_Commit");
}

/* What is there is right. It need not be: its owner may have been refused. */
static void read_of(uint32_t rank)
{
    pmix_proc_t of = proc_of(me.nspace, rank);
    pmix_value_t *found = NULL;
    pmix_info_t at_once = { .key = PMIX_IMMEDIATE, .value = value_bool(true) };
    char text[4001];
    text_of(text, rank);
    if (well(PMIx_Get(&of, "s.text", &at_once, 1, &found), "PMIx_Get of a text")) {
        if (found->type != PMIX_STRING || strcmp(found->data.string, text) != 0) {
            say("rank %u: FAIL the text of rank %u", me.rank, rank);
            wrong++;
        }
        PMIX_VALUE_RELEASE(found);
    }
    if (well(PMIx_Get(&of, "s.number", &at_once, 1, &found), "PMIx_Get of a number")) {
        if (found->type != PMIX_UINT32 || found->data.uint32 != 100 + rank) {
            say("rank %u: FAIL the number of rank %u", me.rank, rank);
            wrong++;
        }
        free(found);
    }
    if (well(PMIx_Get(&of, "s.bytes", &at_once, 1, &found), "PMIx_Get of bytes")) {
        if (found->type != PMIX_BYTE_OBJECT || found->data.bo.size != 3000 || found->data.bo.bytes[2999] != (char) rank) {
            say("rank %u: FAIL the bytes of rank %u", me.rank, rank);
            wrong++;
        }
        PMIX_VALUE_RELEASE(found);
    }
}

static void others(void)
{
    pmix_value_t number = value_uint32(7);
    pmix_info_t info = { .key = "s.published", .value = number };
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 5;
    char *peers = NULL;
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    if (me.rank == 0) {
        well(PMIx_Publish(&info, 1), "PMIx_Publish");
    }
    pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    if (id < 0) {
        well(id, "PMIx_Register_event_handler");
    }
    well(PMIx_Notify_event(code, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL), "PMIx_Notify_event");
    well(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    pmix_info_t within = { .key = PMIX_TIMEOUT, .value = value_int(3) };
    pmix_pdata_t data = { .key = "s.published" };
    if (well(PMIx_Lookup(&data, 1, &within, 1), "PMIx_Lookup") && data.value.data.uint32 != 7) {
        say("rank %u: FAIL what is published", me.rank);
        wrong++;
    }
    if (well(PMIx_Resolve_peers(NULL, me.nspace, &procs, &count), "PMIx_Resolve_peers")) {
        free(procs);
    }
    if (well(PMIx_Resolve_nodes(me.nspace, &peers), "PMIx_Resolve_nodes")) {
        free(peers);
    }
}

int main(void)
{
    const char *text = getenv("SCRIPTED_ALARM");
    alarm(text == NULL ? 20 : (unsigned) atoi(text));
    if (!well(PMIx_Init(&me, NULL, 0), "PMIx_Init")) {
        return 3;
    }
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *size = NULL;
    uint32_t ranks = 0;
    if (well(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), "PMIx_Get of the job's size")) {
        ranks = size->data.uint32;
        free(size);
    }
    put();
    bool is_fenced = well(collecting_fence(), "PMIx_Fence with data");
    for (uint32_t rank = 0; is_fenced && rank < ranks; rank++) {
        read_of(rank);
    }
    others();
    well(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    say("rank %u: end", me.rank);
    return wrong > 0 ? 4 : refused > 0 ? 3 : 0;
}
