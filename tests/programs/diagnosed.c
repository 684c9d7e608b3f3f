/* A rank whose calls are seen in its trace, its summary and its log. The next rank is its peer.
 *
 *   diagnosed [THREADS]   so many threads more make the same Gets
 */
#include "common.h"

#include <pthread.h>

static pmix_proc_t me, job, peer;

static void told(const char *what, int status, int wanted)
{
    if (status != wanted) {
        say("%s: %d instead of %d", what, status, wanted);
        _exit(1);
    }
}

static void get(const pmix_proc_t *proc, const char *key, int wanted)
{
    pmix_value_t *value = NULL;
    told(key, PMIx_Get(proc, key, NULL, 0, &value), wanted);
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

/* Ten Gets: two of own values, three of the job's, two of what the peer has put, three that the server is asked for. */
static void *gets(void *unused)
{
    get(&me, "own.text", PMIX_SUCCESS);
    get(&me, "own.note", PMIX_SUCCESS);
    get(&job, PMIX_JOB_SIZE, PMIX_SUCCESS);
    get(&job, PMIX_JOB_SIZE, PMIX_SUCCESS);
    get(&job, PMIX_MAX_PROCS, PMIX_SUCCESS);
    get(&peer, "own.text", PMIX_SUCCESS);
    get(&peer, "own.text", PMIX_SUCCESS);
    get(&job, PMIX_ANL_MAP, PMIX_ERR_NOT_FOUND);
    get(&job, PMIX_ANL_MAP, PMIX_ERR_NOT_FOUND);
    get(&job, PMIX_CREDENTIAL, PMIX_ERR_NOT_FOUND);
    return unused;
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    }
}

int main(int argc, char **argv)
{
    told("init", PMIx_Init(&me, NULL, 0), PMIX_SUCCESS);
    job = peer = me;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t text = value_string("some text"), number = value_uint32(7), *size = NULL;
    told("put", PMIx_Put(PMIX_GLOBAL, "own.text", &text), PMIX_SUCCESS);
    told("store", PMIx_Store_internal(&me, "own.note", &number), PMIX_SUCCESS);
    told("commit", PMIx_Commit(), PMIX_SUCCESS);
    pmix_info_t collect = { 0 };
    strcpy(collect.key, PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    told("fence", PMIx_Fence(&job, 1, &collect, 1), PMIX_SUCCESS);
    told("size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), PMIX_SUCCESS);
    peer.rank = (me.rank + 1) % size->data.uint32;
    PMIX_VALUE_RELEASE(size);
    pthread_t threads[8];
    int count = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < count; i++) {
        told("thread", pthread_create(&threads[i], NULL, gets, NULL), 0);
    }
    gets(NULL);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    pmix_info_t published = { 0 };
    snprintf(published.key, sizeof(published.key), "published.%u", me.rank);
    published.value = number;
    told("publish", PMIx_Publish(&published, 1), PMIX_SUCCESS);
    pmix_pdata_t wanted = { 0 };
    strcpy(wanted.key, published.key);
    told("lookup", PMIx_Lookup(&wanted, 1, NULL, 0), PMIX_SUCCESS);
    pmix_status_t code = PMIX_EVENT_JOB_END;
    if (PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL) < 0) {
        told("handler", 1, 0);
    }
    char *words[] = { "no-such-program", NULL };
    pmix_app_t app = { .cmd = words[0], .argv = words, .maxprocs = 2 };
    char child[PMIX_MAX_NSLEN + 1];
    if (PMIx_Spawn(NULL, 0, &app, 1, child) == PMIX_SUCCESS) {
        told("spawn", 1, 0);
    }
    told("fence", PMIx_Fence(NULL, 0, NULL, 0), PMIX_SUCCESS);
    free(text.data.string);
    told("finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
    say("done");
    return 0;
}
