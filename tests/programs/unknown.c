/* Asks for keys that nobody has put, and for one that is committed later, of a rank that has committed another key.
 *
 *   unknown WHEN DIRECTORY [QUESTIONS [SECONDS]]
 *
 *   WHEN        before     before any fence
 *               fence      after a fence that brings no values
 *               collect    after a fence that brings all values
 *   DIRECTORY   an empty one, in which the ranks tell each other how far they are: a host may have no other way
 *   QUESTIONS   some of optional,immediate,plain,again,timeout,late (default: all)
 *   SECONDS     how long an answer is waited for (default 6)
 *
 * Rank 0 asks, of the last rank, which does nothing meanwhile. For each Get it prints a line: how it is asked, the status, and when the
 * answer came, or that none came. `late` is a key that the last rank commits 100 ms after rank 0 has begun to ask for it. The exit status
 * is 1 if a call fails that should not.
 */
#include "common.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>

static pmix_proc_t me;
static int limit = 6;
static const char *directory;

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        say("rank %u: FAIL %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
        _exit(1);
    }
}

/* ---- how far the ranks are ------------------------------------------------------------------------------------------- */

static const char *path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", directory, name);
    return path;
}

static void tell(const char *name)
{
    char path[512];
    int fd = open(path_of(name, path), O_CREAT | O_WRONLY, 0644);
    if (fd < 0) {
        must(path, PMIX_ERROR);
    }
    close(fd);
}

static void await(const char *name)
{
    char path[512];
    while (access(path_of(name, path), F_OK) != 0) {
        usleep(2000);
    }
}

/* ---- one Get --------------------------------------------------------------------------------------------------------- */

/* Lives for ever: an answer may come after rank 0 has stopped waiting. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool answered;
    pmix_status_t status;
} answer_t;

static void answered(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void) value;
    answer_t *answer = cbdata;
    pthread_mutex_lock(&answer->mutex);
    answer->status = status;
    answer->answered = true;
    pthread_cond_signal(&answer->changed);
    pthread_mutex_unlock(&answer->mutex);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Asks for a key and prints how that ends. `begun` is called when the request is on its way. */
static void ask(const char *how, pmix_rank_t rank, const char *key, const infos_t *infos, void (*begun)(void))
{
    answer_t *answer = need(calloc(1, sizeof(*answer)));
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_cond_init(&answer->changed, NULL);
    pmix_proc_t proc = proc_of(me.nspace, rank);
    double start = seconds();
    pmix_status_t status = PMIx_Get_nb(&proc, key, infos->items, infos->count, answered, answer);
    if (status != PMIX_SUCCESS) {
        answered(status, NULL, answer);
    }
    if (begun) {
        begun();
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += limit;
    pthread_mutex_lock(&answer->mutex);
    while (!answer->answered && pthread_cond_timedwait(&answer->changed, &answer->mutex, &until) == 0) {
    }
    if (answer->answered) {
        say("%s: %s (%d) after %.0f ms", how, PMIx_Error_string(answer->status), answer->status, 1e3 * (seconds() - start));
    } else {
        say("%s: no answer within %d s", how, limit);
    }
    pthread_mutex_unlock(&answer->mutex);
}

static void asks(void) { tell("asks"); }

static void ask_all(pmix_rank_t rank, const char *questions)
{
    infos_t none = { 0 }, immediate = { 0 }, optional = { 0 }, timeout = { 0 };
    add(&immediate, PMIX_IMMEDIATE, value_bool(true));
    add(&optional, PMIX_OPTIONAL, value_bool(true));
    add(&timeout, PMIX_TIMEOUT, value_int(1));
    if (strstr(questions, "optional")) {
        ask("optional", rank, "t.unknown.0", &optional, NULL);
    }
    if (strstr(questions, "immediate")) {
        ask("immediate", rank, "t.unknown.1", &immediate, NULL);
    }
    if (strstr(questions, "plain")) {
        ask("plain", rank, "t.unknown.2", &none, NULL);
    }
    if (strstr(questions, "again")) {
        ask("plain again", rank, "t.unknown.3", &none, NULL);
    }
    if (strstr(questions, "timeout")) {
        ask("timeout 1 s", rank, "t.unknown.4", &timeout, NULL);
    }
    if (strstr(questions, "late")) {
        ask("late", rank, "t.late", &none, asks);
        await("committed");
        ask("late, asked after its commit", rank, "t.late", &none, NULL);
    } else {
        asks();
    }
    free_infos(&immediate);
    free_infos(&optional);
    free_infos(&timeout);
}

static void put_and_commit(const char *key)
{
    pmix_value_t value = value_uint32(7);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    must("PMIx_Commit", PMIx_Commit());
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    directory = argv[2];
    const char *questions = argc > 3 ? argv[3] : "optional,immediate,plain,again,timeout,late";
    limit = argc > 4 ? atoi(argv[4]) : limit;
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *size;
    must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size));
    pmix_rank_t last = size->data.uint32 - 1;
    put_and_commit("t.known");
    infos_t infos = { 0 };
    add(&infos, PMIX_COLLECT_DATA, value_bool(true));
    if (strcmp(argv[1], "before") != 0) {
        must("PMIx_Fence", PMIx_Fence(NULL, 0, infos.items, strcmp(argv[1], "collect") == 0 ? infos.count : 0));
    }
    if (me.rank == last) {
        tell("ready");
        await("asks");
        usleep(100000);
        put_and_commit("t.late");
        tell("committed");
        await("done");
    } else if (me.rank == 0) {
        await("ready");
        /* The server reads the commit before rank 0 asks. */
        usleep(200000);
        ask_all(last, questions);
        tell("done");
    } else {
        await("done");
    }
    free_infos(&infos);
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
