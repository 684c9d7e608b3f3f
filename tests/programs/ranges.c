/* Two jobs and a tool under pmixrun: who gets which event. Rank 0 of the first job starts the second one, then sends events of each range, then
 * starts a tool that does the same. In the end each process prints what its handlers got: one for a single code (s), one for
 * several (m), the default one (d), and one that was registered late (l).
 *
 *   ranges URI             the first job, of two ranks; URI is where tools find the server, as PMIX_SERVER_URI names it
 *   ranges child           a rank of the second job
 *   ranges tool URI A B    the tool; A and B are the jobs
 */
#include "common.h"
#include "counter.h"

#include <pmix_tool.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* What is sent, in this order. */
typedef enum { OF_RM, OF_LOCAL, OF_NAMESPACE, OF_SESSION, OF_GLOBAL, OF_CUSTOM, OF_PROC_LOCAL, PLAIN, NON_DEFAULT, KEPT, DROPPED, SENT } what_t;
static const char *const names[SENT] = { "rm", "local", "namespace", "session", "global", "custom", "proc", "plain", "nondefault", "kept", "dropped" };

/* The codes of the first job's and the tool's events follow each other; the last one ends the test. */
#define CODE(is_tool, what) (PMIX_EXTERNAL_ERR_BASE - 1 - ((is_tool) ? SENT : 0) - (what))
#define END CODE(true, SENT)

static counter_t registered = COUNTER, ended = COUNTER, told = COUNTER, late = COUNTER, of_tool = COUNTER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char got[4096];
static const char *self = "?";

/* What came to a handler, whose letter is its name. */
static void note(const char *handler, pmix_status_t code, const pmix_proc_t *source)
{
    int number = PMIX_EXTERNAL_ERR_BASE - 1 - code;
    if (number < 0 || number >= 2 * SENT) {
        /* An event of the library. */
        return;
    }
    const char *end = strrchr(source->nspace, '.');
    const char *from = number >= SENT ? "tool" : end != NULL && strcmp(end, ".job") == 0 && source->rank == 0 ? "a0" : "?";
    pthread_mutex_lock(&lock);
    size_t len = strlen(got);
    snprintf(got + len, sizeof(got) - len, " %s:%s/%s", handler, from, names[number % SENT]);
    pthread_mutex_unlock(&lock);
}

#define HANDLER(name, letter)                                                                                          \
    static void name(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,     \
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)   \
    {                                                                                                                  \
        (void) id, (void) info, (void) ninfo, (void) results, (void) nresults;                                         \
        note(letter, status, source);                                                                                  \
        if (*letter == 'l') {                                                                                          \
            count_one(&late);                                                                                          \
        }                                                                                                              \
        if (status == END) {                                                                                           \
            count_one(&ended);                                                                                         \
        }                                                                                                              \
        if (status == CODE(true, PLAIN)) {                                                                             \
            count_one(&of_tool);                                                                                       \
        }                                                                                                              \
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);                                                 \
    }
HANDLER(on_single, "s")
HANDLER(on_multi, "m")
HANDLER(on_default, "d")
HANDLER(on_late, "l")
HANDLER(on_end, "e")

static void on_registered(pmix_status_t status, size_t id, void *cbdata)
{
    (void) id, (void) cbdata;
    if (status != PMIX_SUCCESS) {
        say("%s: handler %d", self, status);
    }
    count_one(&registered);
}

static int handlers = 0;

static void handle(pmix_status_t *codes, size_t count, pmix_notification_fn_t handler)
{
    PMIx_Register_event_handler(codes, count, NULL, 0, handler, on_registered, NULL);
    await_count(&registered, ++handlers);
}

static void handle_all(void)
{
    pmix_status_t end = END, several[2 * (OF_PROC_LOCAL - OF_RM)];
    size_t count = 0;
    for (int is_tool = 0; is_tool < 2; is_tool++) {
        /* Each second range has a handler of its own. */
        for (int what = OF_RM; what <= OF_PROC_LOCAL; what++) {
            pmix_status_t code = CODE(is_tool, what);
            if (what % 2 == 0) {
                handle(&code, 1, on_single);
            } else {
                several[count++] = code;
            }
        }
    }
    handle(several, count, on_multi);
    handle(NULL, 0, on_default);
    handle(&end, 1, on_end);
}

static void on_told(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("%s: told %d", self, status);
    }
    count_one(&told);
}

static int tells = 0;

static void tell(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range, infos_t *infos)
{
    pmix_status_t status = PMIx_Notify_event(code, source, range, infos->items, infos->count, on_told, NULL);
    if (status == PMIX_SUCCESS) {
        await_count(&told, ++tells);
    } else if (status != PMIX_OPERATION_SUCCEEDED) {
        say("%s: notify %d", self, status);
    }
    free_infos(infos);
}

/* Sends an event of each kind; the custom range is the second rank of job a, and the first of job b. */
static void tell_all(bool is_tool, const pmix_proc_t *me, const char *a, const char *b)
{
    const pmix_data_range_t ranges[] = { PMIX_RANGE_RM,      PMIX_RANGE_LOCAL,  PMIX_RANGE_NAMESPACE, PMIX_RANGE_SESSION,
                                         PMIX_RANGE_GLOBAL, PMIX_RANGE_CUSTOM, PMIX_RANGE_PROC_LOCAL };
    infos_t infos = { 0 };
    for (int what = OF_RM; what <= OF_PROC_LOCAL; what++) {
        if (what == OF_CUSTOM) {
            pmix_data_array_t *array = need(calloc(1, sizeof(*array)));
            pmix_proc_t *procs = need(calloc(2, sizeof(*procs)));
            procs[0] = proc_of(a, 1);
            procs[1] = proc_of(b, 0);
            *array = (pmix_data_array_t){ .type = PMIX_PROC, .size = 2, .array = procs };
            pmix_value_t value = { .type = PMIX_DATA_ARRAY };
            value.data.darray = array;
            add(&infos, PMIX_EVENT_CUSTOM_RANGE, value);
        }
        tell(CODE(is_tool, what), me, ranges[what], &infos);
    }
    tell(CODE(is_tool, PLAIN), me, PMIX_RANGE_GLOBAL, &infos);
    add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
    tell(CODE(is_tool, NON_DEFAULT), me, PMIX_RANGE_GLOBAL, &infos);
    add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
    tell(CODE(is_tool, KEPT), me, PMIX_RANGE_GLOBAL, &infos);
    add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
    add(&infos, PMIX_EVENT_DO_NOT_CACHE, value_bool(true));
    tell(CODE(is_tool, DROPPED), me, PMIX_RANGE_GLOBAL, &infos);
}

/* Waits for the end, then registers for events that have been sent before: that which is kept comes. */
static void await_end(void)
{
    await_count(&ended, 1);
    pmix_status_t codes[] = { CODE(false, KEPT), CODE(true, KEPT), CODE(false, DROPPED), CODE(true, DROPPED) };
    handle(codes, 4, on_late);
    await_count(&late, 2);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Prints what came, sorted: handlers of one process may run in another order than the events came. */
static void say_all(void)
{
    char *words[8 * SENT], sorted[sizeof(got)] = "";
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (char *word = strtok(got, " "); word != NULL && count < sizeof(words) / sizeof(words[0]); word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    qsort(words, count, sizeof(words[0]), compare);
    for (size_t i = 0; i < count; i++) {
        strcat(strcat(sorted, " "), words[i]);
    }
    pthread_mutex_unlock(&lock);
    say("%s:%s", self, sorted);
}

static int tool(char *uri, const char *a, const char *b)
{
    self = "tool";
    pmix_proc_t me;
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_URI, value_string(uri));
    pmix_status_t status = PMIx_tool_init(&me, infos.items, infos.count);
    if (status != PMIX_SUCCESS) {
        say("tool: init %d", status);
        return 1;
    }
    handle_all();
    tell_all(true, &me, a, b);
    /* Its own handlers have had all before this one. */
    infos_t none = { 0 };
    tell(END, &me, PMIX_RANGE_PROC_LOCAL, &none);
    await_count(&ended, 1);
    say_all();
    PMIx_tool_finalize();
    return 0;
}

/* Starts the tool as a process that no launcher knows, and waits for its end. */
static void run_tool(char *program, char *uri, char *a, char *b)
{
    char *words[] = { program, "tool", uri, a, b, NULL }, *env[512];
    size_t count = 0;
    for (char **variable = environ; *variable != NULL && count < 511; variable++) {
        if (strncmp(*variable, "PMIX_", 5) != 0) {
            env[count++] = *variable;
        }
    }
    env[count] = NULL;
    pid_t pid;
    int status = 0;
    if (posix_spawn(&pid, program, NULL, NULL, words, env) != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        say("tool: status %d", status);
    }
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "tool") == 0) {
        return tool(argv[2], argv[3], argv[4]);
    }
    bool is_child = argc > 1 && strcmp(argv[1], "child") == 0;
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS || argc < 2) {
        say("init: %d", status);
        return 1;
    }
    self = is_child ? (me.rank == 0 ? "b0" : "b1") : me.rank == 0 ? "a0" : "a1";
    handle_all();
    if (is_child) {
        pmix_value_t *parent = NULL;
        PMIx_Get(&me, PMIX_PARENT_ID, NULL, 0, &parent);
        pmix_proc_t all[] = { parent == NULL ? me : *parent->data.proc, proc_of(me.nspace, PMIX_RANK_WILDCARD) };
        status = PMIx_Connect(all, 2, NULL, 0);
    } else {
        status = PMIx_Fence(NULL, 0, NULL, 0);
        if (me.rank == 0) {
            char *words[] = { argv[0], "child", NULL };
            pmix_app_t app = { .cmd = argv[0], .argv = words, .maxprocs = 2 };
            pmix_nspace_t b = "";
            status = PMIx_Spawn(NULL, 0, &app, 1, b);
            pmix_proc_t all[] = { me, proc_of(b, PMIX_RANK_WILDCARD) };
            /* All of them have registered their handlers. */
            status = status == PMIX_SUCCESS ? PMIx_Connect(all, 2, NULL, 0) : status;
            tell_all(false, &me, me.nspace, b);
            run_tool(argv[0], argv[1], me.nspace, b);
            /* Own events may come before those of the tool. */
            await_count(&of_tool, 1);
            infos_t infos = { 0 };
            tell(END, &me, PMIX_RANGE_GLOBAL, &infos);
        }
    }
    if (status != PMIX_SUCCESS) {
        say("%s: %d", self, status);
    }
    if (is_child || me.rank != 0) {
        await_end();
    } else {
        await_count(&ended, 1);
    }
    say_all();
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
