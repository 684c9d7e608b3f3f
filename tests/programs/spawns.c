/* Rank 0 starts jobs by PMIx_Spawn, and prints what becomes of them.
 *
 *   spawns shell SCRIPT      two ranks of sh -c SCRIPT in /tmp, with COLOUR=blue in their environment
 *   spawns two SCRIPT        the same as two applications, of one rank and of two
 *   spawns family            two ranks of this program, which connect to their parents and disconnect again
 *   spawns child             such a rank
 *   spawns missing           a program that is not there, a directory that is not there, another node, no rank, a required attribute
 *   spawns inherit SCRIPT    a rank of sh -c SCRIPT that is handed all of the caller's environment
 *   spawns long              a program whose arguments are too long, then a short one
 *   spawns kill              two ranks that sleep, which it ends by PMIx_Job_control; the others go on
 *   spawns terminate         the same by SIGTERM, which they ignore
 *   spawns fail              a rank that exits with status 3
 *   spawns many TIMES        so many jobs of one rank, one after the other
 */
#include "common.h"
#include "counter.h"

#include <pmix_tool.h>

static counter_t ends = COUNTER;

static void ended(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) status;
    (void) source;
    (void) results;
    (void) nresults;
    const char *job = "?";
    int how = 0;
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) == 0) {
            job = strrchr(info[i].value.data.proc->nspace, '.');
        } else if (strcmp(info[i].key, PMIX_JOB_TERM_STATUS) == 0) {
            how = info[i].value.data.status;
        }
    }
    say("end of %s: %d", job, how);
    count_one(&ends);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Starts a job and prints the answer; the name is left in `nspace`. */
static void spawn(pmix_app_t *apps, size_t count, infos_t *infos, char *nspace)
{
    nspace[0] = '\0';
    pmix_status_t status = PMIx_Spawn(infos == NULL ? NULL : infos->items, infos == NULL ? 0 : infos->count, apps, count, nspace);
    const char *name = strrchr(nspace, '.');
    say("spawn: %d %s", status, name == NULL ? "-" : name);
}

static pmix_app_t app_of(char **words, int ranks)
{
    return (pmix_app_t){ .cmd = words[0], .argv = words, .maxprocs = ranks };
}

static void shell(char *script, bool is_two)
{
    char *words[] = { "sh", "-c", script, NULL }, *env[] = { "COLOUR=blue", NULL };
    pmix_app_t apps[] = { app_of(words, is_two ? 1 : 2), app_of(words, 2) };
    apps[0].env = apps[1].env = env;
    apps[0].cwd = apps[1].cwd = "/tmp";
    pmix_nspace_t nspace;
    spawn(apps, is_two ? 2 : 1, NULL, nspace);
    await_count(&ends, 1);
}

static void family(char *self, const pmix_proc_t *me)
{
    char *words[] = { self, "child", NULL };
    pmix_app_t app = app_of(words, 2);
    pmix_nspace_t nspace;
    spawn(&app, 1, NULL, nspace);
    pmix_proc_t all[] = { *me, proc_of(nspace, PMIX_RANK_WILDCARD) };
    say("connect: %d", PMIx_Connect(all, 2, NULL, 0));
    pmix_proc_t second = proc_of(nspace, 1);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&second, "colour", NULL, 0, &value);
    say("colour of the second child: %d %s", status, status == PMIX_SUCCESS ? value->data.string : "-");
    say("disconnect: %d", PMIx_Disconnect(all, 2, NULL, 0));
    await_count(&ends, 1);
}

static int child(void)
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *parent = NULL, *own = NULL, *spawned = NULL;
    pmix_status_t got = PMIx_Get(&job, PMIX_PARENT_ID, NULL, 0, &parent);
    if (got == PMIX_SUCCESS) {
        /* Programs ask for it by either name. */
        got = PMIx_Get(&me, PMIX_PARENT_ID, NULL, 0, &own);
    }
    PMIx_Get(&me, PMIX_SPAWNED, NULL, 0, &spawned);
    if (status != PMIX_SUCCESS || got != PMIX_SUCCESS || spawned == NULL) {
        say("child: %d, %d", status, got);
        return 1;
    }
    say("child %u of rank %u, spawned: %d", me.rank, parent->data.proc->rank, spawned->data.flag);
    pmix_value_t colour = value_string(me.rank == 1 ? "green" : "red");
    PMIx_Put(PMIX_GLOBAL, "colour", &colour);
    PMIx_Commit();
    pmix_proc_t all[] = { *parent->data.proc, job };
    status = PMIx_Connect(all, 2, NULL, 0);
    got = PMIx_Disconnect(all, 2, NULL, 0);
    say("child %u: connect %d, disconnect %d", me.rank, status, got);
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}

static void missing(void)
{
    char *none[] = { "no-such-program", NULL }, *some[] = { "true", NULL };
    pmix_nspace_t nspace;
    pmix_app_t app = app_of(none, 1);
    spawn(&app, 1, NULL, nspace);
    app = app_of(some, 1);
    app.cwd = "/no/such/directory";
    spawn(&app, 1, NULL, nspace);
    app = app_of(some, 1);
    infos_t there = { 0 };
    add(&there, PMIX_HOST, value_string("elsewhere"));
    spawn(&app, 1, &there, nspace);
    app = app_of(some, 0);
    spawn(&app, 1, NULL, nspace);
    app = app_of(some, 1);
    infos_t required = { 0 };
    add(&required, "pmix.unknown", value_bool(true));
    required.items[0].flags |= PMIX_INFO_REQD;
    spawn(&app, 1, &required, nspace);
}

static void inherit(char *script)
{
    char *words[] = { "sh", "-c", script, NULL };
    pmix_app_t app = app_of(words, 1);
    app.env = environ;
    pmix_nspace_t nspace;
    spawn(&app, 1, NULL, nspace);
    await_count(&ends, 1);
}

static void too_long(void)
{
    char *text = need(malloc(300001)), *words[] = { "echo", text, NULL };
    memset(text, 'x', 300000);
    text[300000] = '\0';
    pmix_app_t app = app_of(words, 1);
    pmix_nspace_t nspace;
    spawn(&app, 1, NULL, nspace);
    words[1] = "short";
    spawn(&app, 1, NULL, nspace);
    await_count(&ends, 1);
    free(text);
}

static void end_by_command(char **words, const char *key)
{
    pmix_app_t app = app_of(words, 2);
    pmix_nspace_t nspace;
    spawn(&app, 1, NULL, nspace);
    pmix_proc_t all = proc_of(nspace, PMIX_RANK_WILDCARD);
    infos_t how = { 0 };
    add(&how, key, value_bool(true));
    pmix_info_t *results = NULL;
    size_t count = 0;
    say("control: %d", PMIx_Job_control(&all, 1, how.items, how.count, &results, &count));
    await_count(&ends, 1);
}

static void fail(void)
{
    char *words[] = { "sh", "-c", "exit 3", NULL };
    pmix_app_t app = app_of(words, 1);
    pmix_nspace_t nspace;
    spawn(&app, 1, NULL, nspace);
    await_count(&ends, 1);
    /* The launcher ends all for it. */
    sleep(60);
}

/* Whether a query for the status of a job is answered. */
static int is_known(const char *nspace)
{
    pmix_query_t query;
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_status_t status;
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_JOB_STATUS);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    pmix_info_t *results = NULL;
    size_t count = 0;
    status = PMIx_Query_info(&query, 1, &results, &count);
    int is_told = status == PMIX_SUCCESS && count > 0;
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return is_told;
}

static void many(int times)
{
    char *words[] = { "true", NULL };
    int good = 0;
    pmix_nspace_t first = "", last = "";
    for (int time = 1; time <= times; time++) {
        pmix_app_t app = app_of(words, 1);
        good += PMIx_Spawn(NULL, 0, &app, 1, time == 1 ? first : last) == PMIX_SUCCESS;
        await_count(&ends, time);
    }
    say("spawned: %d, first known: %d, last known: %d", good, is_known(first), is_known(last));
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    if (strcmp(kind, "child") == 0) {
        return child();
    }
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("init: %d", status);
        return 1;
    }
    if (me.rank == 0) {
        pmix_status_t code = PMIX_EVENT_JOB_END;
        if (PMIx_Register_event_handler(&code, 1, NULL, 0, ended, NULL, NULL) < 0) {
            say("no handler");
            return 1;
        }
        if (strcmp(kind, "shell") == 0 || strcmp(kind, "two") == 0) {
            shell(argv[2], strcmp(kind, "two") == 0);
        } else if (strcmp(kind, "family") == 0) {
            family(argv[0], &me);
        } else if (strcmp(kind, "missing") == 0) {
            missing();
        } else if (strcmp(kind, "inherit") == 0) {
            inherit(argv[2]);
        } else if (strcmp(kind, "long") == 0) {
            too_long();
        } else if (strcmp(kind, "kill") == 0) {
            char *words[] = { "sleep", "1000", NULL };
            end_by_command(words, PMIX_JOB_CTRL_KILL);
        } else if (strcmp(kind, "terminate") == 0) {
            char *words[] = { "sh", "-c", "trap '' TERM; while true; do sleep 1; done", NULL };
            end_by_command(words, PMIX_JOB_CTRL_TERMINATE);
        } else if (strcmp(kind, "fail") == 0) {
            fail();
        } else if (strcmp(kind, "many") == 0) {
            many(atoi(argv[2]));
        }
    }
    status = PMIx_Fence(NULL, 0, NULL, 0);
    say("rank %u: fence %d, finalize %d", me.rank, status, PMIx_Finalize(NULL, 0));
    return 0;
}
