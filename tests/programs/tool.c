/* A tool that executes its arguments in order, and prints a line with the result of each.
 *
 *   tool [--pid N] [--uri URI] [--file FILE] [--nspace NAME] [--system] [--first] [--name NSPACE:RANK] [--alone]
 *        [--optional] [--retry N] [--tries N] [--launcher] [--tcp URI] [--called NSPACE] [--scheduler] [--systmp DIRECTORY] [--tmp DIRECTORY]
 *        [--timeout SECONDS] [--support] [--external] WORD...
 *
 *   servers          the servers that it is connected to, the one in use first
 *   attach=URI       connects to one more server; primary=URI also uses it
 *   use=NSPACE:RANK  uses another server
 *   leave=NSPACE:RANK
 *   get=NSPACE:RANK:KEY, publish=KEY, lookup=KEY, query=KEY, event=CODE
 *   await=CODE       waits for an event of this code; its handler is registered before all other actions
 *   on=CODE          registers a handler now; heard=CODE waits for its event
 *   pull=NSPACE:RANK receives its output and errors, and prints them; show=NSPACE:RANK:KEY lets the library write them
 *   buffer=NSPACE:RANK:SIZE:TIME:CACHE:KEY pulls as pull does, with these directives as required ones; 0 is none; cease ends it without a
 *                    callback
 *   say=NSPACE:RANK:TEXT lets the host deliver a line as its output
 *   input=NSPACE:RANK:TEXT sends it a line; stdin=NSPACE:RANK forwards the tool's own input until keep: then the tool reads it
 *   take=COUNT       waits until at least COUNT bytes have been received; stop ends the last pull, stop=ID another one
 *   peers=NSPACE:NODE, nodes=NSPACE
 *   control=NSPACE:RANK, abort=NSPACE:RANK, send=NSPACE:RANK:CODE (an event for it alone)
 *   act=NSPACE:RANK:WHAT controls it: kill, terminate, pause, resume, or a signal's number
 *   acts=NSPACE:RANK:SIGNAL:COUNT sends a signal so many times at once: prints how many answers are good
 *   table=NSPACE     its processes; status=NSPACE its status
 *   seen=PID:STATE   waits until /proc shows this state of a process (T: stopped)
 *   setup            PMIx_server_setup_application: prints how many of the variables are PMIx's
 *   serve            becomes a server, too, and makes the environment of a client; serve-tools only admits tools
 *   stay=FILE        waits until there is such a file
 *   available        the servers that PMIX_QUERY_AVAIL_SERVERS names, each with the types of what it tells
 *   declare=FUNCTION:ATTRIBUTE declares an attribute of the tool's own; support=KEY:FUNCTION asks for the attributes of functions
 *   threads          how many threads the tool has
 *   again            begins and ends once more within
 */
#include "common.h"

#include <pmix_server.h>
#include <pmix_tool.h>

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

static infos_t wanted;
static volatile int awaited;

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    __atomic_store_n(&awaited, status, __ATOMIC_RELEASE);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static int taken;

static void take_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                        pmix_info_t info[], size_t ninfo)
{
    (void) info;
    (void) ninfo;
    int len = payload->size > 0 && payload->bytes[payload->size - 1] == '\n' ? payload->size - 1 : payload->size;
    say("%zu took of %u from %s:%u: %.*s", id, channel, source->nspace, source->rank, len, len > 0 ? payload->bytes : "");
    __atomic_fetch_add(&taken, 1, __ATOMIC_ACQ_REL);
}

static void await_output(int count)
{
    for (int i = 0; i < 3000 && __atomic_load_n(&taken, __ATOMIC_ACQUIRE) < count; i++) {
        PMIx_Progress();
        usleep(10000);
    }
    say("taken: %d", __atomic_load_n(&taken, __ATOMIC_ACQUIRE));
}

static pmix_proc_t named(const char *text)
{
    char nspace[PMIX_MAX_NSLEN + 1] = "";
    const char *colon = strrchr(text, ':');
    if (colon != NULL) {
        strncpy(nspace, text, colon - text);
    }
    return proc_of(nspace, colon != NULL ? strtoul(colon + 1, NULL, 10) : 0);
}

static void read_wanted(int argc, char **argv, int *at)
{
    for (; *at < argc && strncmp(argv[*at], "--", 2) == 0; ++*at) {
        const char *name = argv[*at] + 2, *value = *at + 1 < argc ? argv[*at + 1] : "";
        bool takes = true;
        if (strcmp(name, "pid") == 0) {
            pmix_value_t pid = { .type = PMIX_PID };
            pid.data.pid = atoi(value);
            add(&wanted, PMIX_SERVER_PIDINFO, pid);
        } else if (strcmp(name, "uri") == 0) {
            add(&wanted, PMIX_SERVER_URI, value_string(value));
        } else if (strcmp(name, "file") == 0) {
            add(&wanted, PMIX_TOOL_ATTACHMENT_FILE, value_string(value));
        } else if (strcmp(name, "nspace") == 0) {
            add(&wanted, PMIX_SERVER_NSPACE, value_string(value));
        } else if (strcmp(name, "tries") == 0) {
            add(&wanted, PMIX_CONNECT_RETRY_DELAY, value_uint32(0));
            add(&wanted, PMIX_CONNECT_MAX_RETRIES, value_uint32(atoi(value)));
        } else if (strcmp(name, "retry") == 0) {
            add(&wanted, PMIX_CONNECT_RETRY_DELAY, value_uint32(1));
            add(&wanted, PMIX_CONNECT_MAX_RETRIES, value_uint32(atoi(value)));
        } else if (strcmp(name, "tcp") == 0) {
            add(&wanted, PMIX_TCP_URI, value_string(value));
        } else if (strcmp(name, "called") == 0) {
            add(&wanted, PMIX_TOOL_NSPACE, value_string(value));
        } else if (strcmp(name, "systmp") == 0) {
            add(&wanted, PMIX_SYSTEM_TMPDIR, value_string(value));
        } else if (strcmp(name, "tmp") == 0) {
            add(&wanted, PMIX_SERVER_TMPDIR, value_string(value));
        } else if (strcmp(name, "timeout") == 0) {
            pmix_value_t seconds = { .type = PMIX_INT };
            seconds.data.integer = atoi(value);
            add(&wanted, PMIX_TIMEOUT, seconds);
        } else if (strcmp(name, "name") == 0) {
            pmix_proc_t proc = named(value);
            add(&wanted, PMIX_TOOL_NSPACE, value_string(proc.nspace));
            add(&wanted, PMIX_TOOL_RANK, value_rank(proc.rank));
        } else {
            takes = false;
            const char *key = strcmp(name, "system") == 0     ? PMIX_CONNECT_TO_SYSTEM
                              : strcmp(name, "first") == 0    ? PMIX_CONNECT_SYSTEM_FIRST
                              : strcmp(name, "alone") == 0    ? PMIX_TOOL_DO_NOT_CONNECT
                              : strcmp(name, "optional") == 0 ? PMIX_TOOL_CONNECT_OPTIONAL
                              : strcmp(name, "support") == 0  ? PMIX_SERVER_TOOL_SUPPORT
                              : strcmp(name, "external") == 0 ? PMIX_EXTERNAL_PROGRESS
                              : strcmp(name, "scheduler") == 0 ? "pmix.cnct.sched" /* in no header of 4.2.2 */
                                                              : PMIX_LAUNCHER;
            add(&wanted, key, value_bool(true));
        }
        *at += takes;
    }
}

static void say_servers(void)
{
    pmix_proc_t *servers = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_tool_get_servers(&servers, &count);
    say("servers: %d, %zu, first %s:%u", status, status == PMIX_SUCCESS ? count : 0,
        status == PMIX_SUCCESS && count > 0 ? servers[0].nspace : "-", status == PMIX_SUCCESS && count > 0 ? servers[0].rank : 0);
    /* Not in releases before 4.2.9. */
    bool (*is_connected)(void) = (bool (*)(void)) dlsym(RTLD_DEFAULT, "PMIx_tool_is_connected");
    if (is_connected != NULL) {
        say("is connected: %d", is_connected());
    }
}

static void attach(const char *uri, bool is_primary)
{
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_URI, value_string(uri));
    add(&infos, PMIX_CONNECT_RETRY_DELAY, value_uint32(1));
    add(&infos, PMIX_CONNECT_MAX_RETRIES, value_uint32(20));
    if (is_primary) {
        add(&infos, PMIX_PRIMARY_SERVER, value_bool(true));
    }
    pmix_proc_t me = proc_of("", 0), server = proc_of("", 0);
    pmix_status_t status = PMIx_tool_attach_to_server(&me, &server, infos.items, infos.count);
    say("attach: %d, %s:%u", status, server.nspace, server.rank);
    free_infos(&infos);
}

static void get(char *text)
{
    char *colon = strrchr(text, ':');
    *colon = '\0';
    pmix_proc_t proc = named(text);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, colon + 1, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        say("get %s: %d", colon + 1, status);
    } else if (value->type == PMIX_STRING) {
        say("get %s: 0, %s", colon + 1, value->data.string);
    } else if (value->type == PMIX_PROC) {
        say("get %s: 0, %s:%u", colon + 1, value->data.proc->nspace, value->data.proc->rank);
    } else {
        say("get %s: 0, %u", colon + 1, value->data.uint32);
    }
}

static void query(char *key)
{
    char *keys[] = { key, NULL };
    pmix_query_t question = { .keys = keys };
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Query_info(&question, 1, &results, &count);
    bool is_text = status == PMIX_SUCCESS && count > 0 && results[0].value.type == PMIX_STRING;
    say("query %s: %d, %zu, %s", key, status, count, is_text ? results[0].value.data.string : "-");
}

static void say_available(void)
{
    char *keys[] = { PMIX_QUERY_AVAIL_SERVERS, NULL };
    pmix_query_t question = { .keys = keys };
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Query_info(&question, 1, &results, &count);
    if (status != PMIX_SUCCESS || count != 1 || !PMIX_CHECK_KEY(&results[0], PMIX_QUERY_AVAIL_SERVERS)) {
        say("available: %d, %zu", status, count);
        return;
    }
    pmix_data_array_t *servers = results[0].value.data.darray;
    for (size_t i = 0; i < servers->size; i++) {
        pmix_info_t *server = &((pmix_info_t *) servers->array)[i];
        pmix_data_array_t *about = server->value.data.darray;
        pmix_info_t *infos = about->array;
        char line[512] = "";
        for (size_t j = 0; j < about->size; j++) {
            size_t len = strlen(line);
            snprintf(line + len, sizeof(line) - len, " %s:%u", infos[j].key, infos[j].value.type);
        }
        say("available %s: %s:%u,%s", server->key, infos[0].value.data.string, infos[1].value.data.rank, line);
    }
}

/* The text behind the second colon of NSPACE:RANK:TEXT, which is cut off there. */
static char *cut(char *text)
{
    char *colon = strchr(strchr(text, ':') + 1, ':');
    *colon = '\0';
    return colon + 1;
}

static int last_pull;

static void pull(char *text, const char *key)
{
    pmix_proc_t proc = named(text);
    infos_t infos = { 0 };
    if (key != NULL) {
        add(&infos, key, value_bool(true));
    }
    pmix_iof_channel_t channels = PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL;
    pmix_status_t status = PMIx_IOF_pull(&proc, 1, infos.items, infos.count, channels, key != NULL ? NULL : take_output, NULL, NULL);
    last_pull = status;
    say("pull: %d", status);
    free_infos(&infos);
}

static void add_required(infos_t *infos, const char *key, pmix_value_t value)
{
    add(infos, key, value);
    PMIX_INFO_REQUIRED(&infos->items[infos->count - 1]);
}

static void pull_buffered(char *text)
{
    static const char *const keys[] = { PMIX_IOF_BUFFERING_SIZE, PMIX_IOF_BUFFERING_TIME, PMIX_IOF_CACHE_SIZE };
    infos_t infos = { 0 };
    char *rest = cut(text);
    for (size_t i = 0; i < 3; i++) {
        uint32_t number = strtoul(rest, &rest, 10);
        rest++;
        if (number > 0) {
            add_required(&infos, keys[i], value_uint32(number));
        }
    }
    if (*rest != '\0') {
        add_required(&infos, rest, value_bool(true));
    }
    pmix_proc_t proc = named(text);
    last_pull = PMIx_IOF_pull(&proc, 1, infos.items, infos.count, PMIX_FWD_STDOUT_CHANNEL, take_output, NULL, NULL);
    say("pull: %d", last_pull);
    free_infos(&infos);
}

static volatile int given = 1;

static void is_given(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    __atomic_store_n(&given, status, __ATOMIC_RELEASE);
}

/* Pulls are started and stopped with a callback: without one, releases up to 6.1 free data that they still use. */
static pmix_status_t await_given(pmix_status_t status)
{
    for (int i = 0; i < 3000 && status == PMIX_SUCCESS && __atomic_load_n(&given, __ATOMIC_ACQUIRE) == 1; i++) {
        usleep(10000);
    }
    return status == PMIX_SUCCESS ? given : status;
}

static void stop(int id)
{
    given = 1;
    say("stop: %d", await_given(PMIx_IOF_deregister(id, NULL, 0, is_given, NULL)));
}

static void give(char *text)
{
    char line[256];
    snprintf(line, sizeof(line), "%s\n", cut(text));
    pmix_proc_t proc = named(text);
    pmix_byte_object_t bytes = { line, strlen(line) };
    given = 1;
    say("input: %d", await_given(PMIx_IOF_push(&proc, 1, &bytes, NULL, 0, is_given, NULL)));
}

static void give_stdin(const char *text)
{
    pmix_proc_t proc = named(text);
    infos_t infos = { 0 };
    add(&infos, PMIX_IOF_PUSH_STDIN, value_bool(true));
    say("stdin: %d", PMIx_IOF_push(&proc, 1, NULL, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
}

/* Ends the forwarding of standard input, and counts the lines that the tool itself reads. */
static void keep_stdin(void)
{
    infos_t infos = { 0 };
    add(&infos, PMIX_IOF_COMPLETE, value_bool(true));
    say("complete: %d", PMIx_IOF_push(NULL, 0, NULL, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
    int lines = 0;
    char byte;
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        lines += byte == '\n';
    }
    say("kept: %d", lines);
}

static void say_peers(char *text)
{
    char *node = strchr(text, ':');
    *node++ = '\0';
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Resolve_peers(node, text, &procs, &count);
    say("peers of %s: %d, %zu", text, status, count);
    if (procs != NULL) {
        PMIX_PROC_FREE(procs, count);
    }
}

static void say_nodes(const char *nspace)
{
    char *list = NULL;
    pmix_status_t status = PMIx_Resolve_nodes(nspace, &list);
    say("nodes of %s: %d, %s", nspace, status, list != NULL ? list : "none");
    free(list);
}

/* Has a signal sent to it. */
static void control(const char *text)
{
    pmix_proc_t proc = named(text);
    infos_t infos = { 0 };
    pmix_info_t *results = NULL;
    size_t count = 0;
    add(&infos, PMIX_JOB_CTRL_SIGNAL, value_int(10));
    say("control: %d", PMIx_Job_control(&proc, 1, infos.items, infos.count, &results, &count));
    free_infos(&infos);
}

/* Controls processes; prints only the status. */
static void act(char *text)
{
    const char *what = cut(text);
    pmix_proc_t proc = named(text);
    infos_t infos = { 0 };
    pmix_info_t *results = NULL;
    size_t count = 0;
    const char *key = strcmp(what, "kill") == 0        ? PMIX_JOB_CTRL_KILL
                      : strcmp(what, "terminate") == 0 ? PMIX_JOB_CTRL_TERMINATE
                      : strcmp(what, "pause") == 0     ? PMIX_JOB_CTRL_PAUSE
                      : strcmp(what, "resume") == 0    ? PMIX_JOB_CTRL_RESUME
                                                       : PMIX_JOB_CTRL_SIGNAL;
    add(&infos, key, strcmp(key, PMIX_JOB_CTRL_SIGNAL) == 0 ? value_int(atoi(what)) : value_bool(true));
    say("act %s: %d", what, PMIx_Job_control(&proc, 1, infos.items, infos.count, &results, &count));
    free_infos(&infos);
}

static pthread_mutex_t acts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acts_changed = PTHREAD_COND_INITIALIZER;
static int acts_good, acts_bad;

static void acted(pmix_status_t status, pmix_info_t *results, size_t count, void *cbdata, pmix_release_cbfunc_t release, void *object)
{
    (void)results, (void)count, (void)cbdata;
    pthread_mutex_lock(&acts_lock);
    *(status == PMIX_SUCCESS ? &acts_good : &acts_bad) += 1;
    pthread_cond_signal(&acts_changed);
    pthread_mutex_unlock(&acts_lock);
    if (release != NULL) {
        release(object);
    }
}

/* Has so many signals sent at once, "NSPACE:RANK:SIGNAL:COUNT"; prints how many answers are good. */
static void act_at_once(char *text)
{
    const char *what = cut(text);
    pmix_proc_t proc = named(text);
    int count = atoi(strchr(what, ':') + 1);
    infos_t infos = { 0 };
    add(&infos, PMIX_JOB_CTRL_SIGNAL, value_int(atoi(what)));
    for (int i = 0; i < count; i++) {
        pmix_status_t status = PMIx_Job_control_nb(&proc, 1, infos.items, infos.count, acted, NULL);
        if (status != PMIX_SUCCESS) {
            acted(status, NULL, 0, NULL, NULL, NULL);
        }
    }
    pthread_mutex_lock(&acts_lock);
    while (acts_good + acts_bad < count) {
        pthread_cond_wait(&acts_changed, &acts_lock);
    }
    say("acts: %d of %d", acts_good, count);
    pthread_mutex_unlock(&acts_lock);
    free_infos(&infos);
}

static void about(const char *nspace, char *key)
{
    char *keys[] = { key, NULL };
    infos_t infos = { 0 };
    add(&infos, PMIX_NSPACE, value_string(nspace));
    pmix_query_t question = { .keys = keys, .qualifiers = infos.items, .nqual = infos.count };
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Query_info(&question, 1, &results, &count);
    if (status != PMIX_SUCCESS || count == 0) {
        say("about %s: %d", key, status);
    } else if (results[0].value.type == PMIX_STATUS) {
        say("status: %d", results[0].value.data.status);
    } else if (results[0].value.type == PMIX_DATA_ARRAY && results[0].value.data.darray->type == PMIX_PROC_INFO) {
        const pmix_proc_info_t *rows = results[0].value.data.darray->array;
        for (size_t i = 0; i < results[0].value.data.darray->size; i++) {
            say("row %u: state %u, pid %d, %s on %s", rows[i].proc.rank, rows[i].state, rows[i].pid, rows[i].executable_name,
                rows[i].hostname);
        }
    }
    free_infos(&infos);
}

static void declare(char *text)
{
    char *attribute = strchr(text, ':'), *names[] = { attribute + 1, NULL };
    *attribute = '\0';
    say("declare %s: %d", text, PMIx_Register_attributes(text, names));
}

/* Prints the names of the functions and attributes that the answer has. */
static void ask_support(char *text)
{
    char *names = strchr(text, ':'), *keys[] = { PMIX_QUERY_ATTRIBUTE_SUPPORT, NULL }, line[4096] = "";
    infos_t infos = { 0 };
    *names = '\0';
    add(&infos, text, value_string(names + 1));
    pmix_query_t asked = { .keys = keys, .qualifiers = infos.items, .nqual = infos.count };
    pmix_info_t *results = NULL;
    size_t count = 0, len = 0;
    pmix_status_t status = PMIx_Query_info(&asked, 1, &results, &count);
    for (size_t i = 0; i < count; i++) {
        const pmix_data_array_t *functions = results[i].value.data.darray;
        for (size_t j = 0; results[i].value.type == PMIX_DATA_ARRAY && j < functions->size; j++) {
            const pmix_info_t *function = (const pmix_info_t *) functions->array + j;
            len += snprintf(line + len, sizeof(line) - len, " %s", function->key);
            const pmix_data_array_t *attributes = function->value.data.darray;
            for (size_t k = 0; function->value.type == PMIX_DATA_ARRAY && k < attributes->size; k++) {
                len += snprintf(line + len, sizeof(line) - len, " %s", ((pmix_regattr_t *) attributes->array)[k].name);
            }
        }
    }
    say("support: %d%s", status, line);
    free_infos(&infos);
}

/* Waits for a state that a rank reaches by itself. */
static void see(const char *text)
{
    char path[64], line[512] = "", state = '?';
    int pid = atoi(text);
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    for (int i = 0; i < 3000 && state != strchr(text, ':')[1]; i++) {
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(line, sizeof(line), file) == NULL || sscanf(strrchr(line, ')') + 1, " %c", &state) != 1) {
            state = '-';
        }
        /* A shell that has just begun to start a child by vfork cannot be stopped itself: it waits for the child, which is stopped. */
        if (state == 'D' && strchr(text, ':')[1] == 'T' && i >= 100) {
            state = 'T';
        }
        if (file != NULL) {
            fclose(file);
        }
        usleep(10000);
    }
    say("seen: %c", state);
}

static void end(const char *text)
{
    pmix_proc_t proc = named(text);
    say("abort: %d", PMIx_Abort(3, "ended by a tool", &proc, 1));
}

static void send_event(char *text, const pmix_proc_t *me)
{
    int code = atoi(cut(text));
    pmix_proc_t *proc = need(calloc(1, sizeof(*proc)));
    *proc = named(text);
    pmix_data_array_t *array = need(calloc(1, sizeof(*array)));
    *array = (pmix_data_array_t) { .type = PMIX_PROC, .size = 1, .array = proc };
    pmix_value_t value = { .type = PMIX_DATA_ARRAY };
    value.data.darray = array;
    infos_t infos = { 0 };
    add(&infos, PMIX_EVENT_CUSTOM_RANGE, value);
    say("send: %d", PMIx_Notify_event(code, me, PMIX_RANGE_CUSTOM, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
}

static volatile int set_up = -1;

static void is_set_up(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *provided, pmix_op_cbfunc_t done, void *cbdata)
{
    int count = 0;
    for (size_t i = 0; i < ninfo; i++) {
        count += PMIX_CHECK_KEY(&info[i], PMIX_SET_ENVAR) && strncmp(info[i].value.data.envar.envar, "PMIX_MCA_", 9) == 0;
    }
    if (done != NULL) {
        done(PMIX_SUCCESS, cbdata);
    }
    __atomic_store_n((volatile int *) provided, status == PMIX_SUCCESS ? count : status, __ATOMIC_RELEASE);
}

static void set_up_job(void)
{
    infos_t infos = { 0 };
    add(&infos, PMIX_SETUP_APP_ENVARS, value_bool(true));
    pmix_proc_t job = proc_of("job", 0);
    pmix_status_t status = PMIx_server_setup_application(job.nspace, infos.items, infos.count, is_set_up, (void *) &set_up);
    for (int i = 0; i < 3000 && status == PMIX_SUCCESS && __atomic_load_n(&set_up, __ATOMIC_ACQUIRE) == -1; i++) {
        usleep(10000);
    }
    say("setup: %d, %d", status, set_up);
    free_infos(&infos);
}

static void admit(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t done, void *cbdata)
{
    (void) info;
    (void) ninfo;
    pmix_proc_t name = proc_of("visitor", 0);
    done(PMIX_SUCCESS, &name, cbdata);
}

static void serve_tools(void)
{
    static pmix_server_module_t module = { .tool_connected = admit };
    pmix_status_t (*set_module)(pmix_server_module_t *) =
        (__typeof__(set_module)) dlsym(RTLD_DEFAULT, "PMIx_tool_set_server_module");
    say("serve: %d", set_module(&module));
}

static void serve(const pmix_proc_t *me)
{
    static pmix_server_module_t module;
    pmix_proc_t client = proc_of("of-tool", 0);
    /* In no header of 4.2. */
    pmix_status_t (*set_module)(pmix_server_module_t *) =
        (__typeof__(set_module)) dlsym(RTLD_DEFAULT, "PMIx_tool_set_server_module");
    pmix_status_t set = set_module(&module);
    pmix_status_t known = PMIx_server_register_nspace(client.nspace, 1, NULL, 0, NULL, NULL);
    pmix_status_t named = PMIx_server_register_client(&client, geteuid(), getegid(), NULL, NULL, NULL);
    char **env = NULL;
    pmix_status_t forked = PMIx_server_setup_fork(&client, &env);
    bool is_ours = false;
    for (char **variable = env; variable != NULL && *variable != NULL; variable++) {
        is_ours = is_ours || (strncmp(*variable, "PMIX_SERVER_URI41=", 18) == 0 && strstr(*variable, me->nspace) != NULL);
    }
    say("serve: %d %d %d %d, named after the tool: %d", set, known, named, forked, is_ours);
}

static void await_event(int code)
{
    for (int i = 0; i < 3000 && __atomic_load_n(&awaited, __ATOMIC_ACQUIRE) != code; i++) {
        usleep(10000);
    }
    say("event: %d", __atomic_load_n(&awaited, __ATOMIC_ACQUIRE));
}

int main(int argc, char **argv)
{
    int at = 1;
    read_wanted(argc, argv, &at);
    pmix_proc_t me = proc_of("", 0);
    pmix_status_t status = PMIx_tool_init(&me, wanted.items, wanted.count);
    say("init: %d", status);
    if (status != PMIX_SUCCESS) {
        return 1;
    }
    say("me: %s:%u", me.nspace, me.rank);
    for (int i = at; i < argc; i++) {
        if (strncmp(argv[i], "await=", 6) == 0) {
            pmix_status_t code = atoi(argv[i] + 6);
            say("register: %d", PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL) >= 0);
        }
    }
    for (; at < argc; at++) {
        char *word = argv[at], *value = strchr(word, '=');
        value = value != NULL ? value + 1 : word + strlen(word);
        if (strcmp(word, "servers") == 0) {
            say_servers();
        } else if (strncmp(word, "attach=", 7) == 0 || strncmp(word, "primary=", 8) == 0) {
            attach(value, word[0] == 'p');
        } else if (strncmp(word, "use=", 4) == 0) {
            pmix_proc_t server = named(value);
            say("use: %d", PMIx_tool_set_server(&server, NULL, 0));
        } else if (strncmp(word, "leave=", 6) == 0) {
            pmix_proc_t server = named(value);
            say("leave: %d", PMIx_tool_disconnect(&server));
        } else if (strncmp(word, "get=", 4) == 0) {
            get(value);
        } else if (strncmp(word, "publish=", 8) == 0) {
            infos_t infos = { 0 };
            add(&infos, value, value_uint32(77));
            say("publish: %d", PMIx_Publish(infos.items, infos.count));
            free_infos(&infos);
        } else if (strncmp(word, "lookup=", 7) == 0) {
            pmix_pdata_t data;
            memset(&data, 0, sizeof(data));
            strncpy(data.key, value, PMIX_MAX_KEYLEN);
            pmix_status_t found = PMIx_Lookup(&data, 1, NULL, 0);
            say("lookup: %d, %u of %s:%u", found, data.value.data.uint32, data.proc.nspace, data.proc.rank);
        } else if (strncmp(word, "query=", 6) == 0) {
            query(value);
        } else if (strcmp(word, "available") == 0) {
            say_available();
        } else if (strncmp(word, "event=", 6) == 0) {
            say("notify: %d", PMIx_Notify_event(atoi(value), &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
        } else if (strncmp(word, "await=", 6) == 0 || strncmp(word, "heard=", 6) == 0) {
            await_event(atoi(value));
        } else if (strncmp(word, "on=", 3) == 0) {
            pmix_status_t code = atoi(value);
            say("register: %d", PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL) >= 0);
        } else if (strncmp(word, "pull=", 5) == 0) {
            pull(value, NULL);
        } else if (strncmp(word, "buffer=", 7) == 0) {
            pull_buffered(value);
        } else if (strcmp(word, "cease") == 0) {
            say("cease: %d", PMIx_IOF_deregister(last_pull, NULL, 0, NULL, NULL));
        } else if (strncmp(word, "show=", 5) == 0) {
            const char *key = cut(value);
            pull(value, key);
        } else if (strncmp(word, "say=", 4) == 0) {
            infos_t infos = { 0 };
            add(&infos, "say", value_string(value));
            say("say: %d", PMIx_Publish(infos.items, infos.count));
            free_infos(&infos);
        } else if (strncmp(word, "input=", 6) == 0) {
            give(value);
        } else if (strncmp(word, "stdin=", 6) == 0) {
            give_stdin(value);
        } else if (strcmp(word, "keep") == 0) {
            keep_stdin();
        } else if (strncmp(word, "take=", 5) == 0) {
            await_output(atoi(value));
        } else if (strncmp(word, "stop", 4) == 0) {
            stop(*value != '\0' ? atoi(value) : last_pull);
        } else if (strncmp(word, "peers=", 6) == 0) {
            say_peers(value);
        } else if (strncmp(word, "nodes=", 6) == 0) {
            say_nodes(value);
        } else if (strncmp(word, "control=", 8) == 0) {
            control(value);
        } else if (strncmp(word, "act=", 4) == 0) {
            act(value);
        } else if (strncmp(word, "acts=", 5) == 0) {
            act_at_once(value);
        } else if (strncmp(word, "table=", 6) == 0) {
            about(value, PMIX_QUERY_PROC_TABLE);
        } else if (strncmp(word, "status=", 7) == 0) {
            about(value, PMIX_QUERY_JOB_STATUS);
        } else if (strncmp(word, "seen=", 5) == 0) {
            see(value);
        } else if (strncmp(word, "abort=", 6) == 0) {
            end(value);
        } else if (strncmp(word, "send=", 5) == 0) {
            send_event(value, &me);
        } else if (strcmp(word, "setup") == 0) {
            set_up_job();
        } else if (strcmp(word, "serve") == 0) {
            serve(&me);
        } else if (strcmp(word, "serve-tools") == 0) {
            serve_tools();
        } else if (strncmp(word, "stay=", 5) == 0) {
            for (int i = 0; i < 3000 && access(value, F_OK) != 0; i++) {
                usleep(10000);
            }
        } else if (strncmp(word, "declare=", 8) == 0) {
            declare(value);
        } else if (strncmp(word, "support=", 8) == 0) {
            ask_support(value);
        } else if (strcmp(word, "threads") == 0) {
            say("threads: %d", count_entries("/proc/self/task"));
        } else if (strcmp(word, "again") == 0) {
            pmix_status_t begun = PMIx_tool_init(NULL, NULL, 0);
            say("again: %d, %d", begun, PMIx_tool_finalize());
        } else {
            say("what is %s?", word);
        }
    }
    say("finalize: %d", PMIx_tool_finalize());
    return 0;
}
