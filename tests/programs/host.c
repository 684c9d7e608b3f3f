/* A small resource manager: hosts one or two PMIx servers on this machine and starts ranks of one program.
 *
 *   host [-n RANKS_PER_SERVER] [-s SERVERS] [options] PROGRAM [ARGS...]
 *
 *   --map block|cyclic     distribution of the ranks over the servers (default block)
 *   --rank-lib DIR[,DIR]   LD_LIBRARY_PATH of the ranks, taking turns by rank (default: as it is)
 *   --second-lib DIR       LD_LIBRARY_PATH of the second server (default: as it is)
 *   --env NAME=VALUE       sets a variable for the ranks (repeatable)
 *   --answer MODE          how upcalls are answered: later (from the main thread), inline (the callback is called
 *                          inside the upcall) or mixed, which takes turns
 *   --events WAY           how the notify_event upcall is answered: at-once (default) by its return value, or callback,
 *                          which Debian's 4.2.2 cannot bear: it frees what the callback needs before it is called,
 *                          or echo: as at-once, after another event was made of it inside the upcall, which Debian's
 *                          4.2.2 cannot bear either: it stands still
 *   --connected WAY        how client_connected is answered: callback (default), which calls back where it can; silent,
 *                          which never does; or second, by client_connected2 and PMIX_OPERATION_SUCCEEDED
 *   --as KIND              the kind of host: plain (default); mpirun, which stores values of its own and registers
 *                          its own namespace without data; slurm, which does not name itself and registers some
 *                          values in other types; or flux, which makes each rank's environment before it registers the
 *                          rank, registers little more than maps and sizes, supports neither fences of some ranks nor
 *                          direct modex, and has no other upcalls but abort
 *   --environment WHERE    where a rank's environment is made: parent (default), or child, as slurmstepd does
 *   --tools WAY            tools find this host by rendezvous files of all kinds; it names them (name), refuses them
 *                          (refuse) or has no upcall for them (none)
 *   --stop WHO             ranks that stop in PMIx_Init: all, or a rank's number. Each is released when it has reported;
 *                          with never all stop and are not released, and with die the server ends then
 *   --owner UID            the user in the ranks' registration (default: the host's user)
 *   --let UID              a user that may reach other users' jobs
 *   --queries WAY          how queries are answered: not supported (refuse, the default), never (silent), or only those for
 *                          the nodes of a job (resolve)
 *   --modex WAY            how direct modex is answered: by the other server (answer, the default), not supported (refuse), or never
 *                          (silent)
 *   --restartable SECONDS  a parent starts the server again when it is killed; ranks live on, and wait so long for it. The file that
 *                          HOST_SERVER names has the server's process id, and the server has the number of its life in HOST_LIFE. One
 *                          server, no spawns
 *   --lives N              with it: how many servers there are at most (default 100)
 *   --down MS              with it: how long there is none (default 0)
 *   --server NAME          the server's namespace (default test-host)
 *   --deaths WAY           what a rank's death by a signal is to the host: the job's end (end, the default), or nothing (ignore)
 *   --nspace NAME          the job's namespace
 *   --timeout SECONDS      ends everything after this long (default 60)
 *
 * With two servers each is a process of its own; they are the nodes nodeA and nodeB of the job. The processes exchange
 * fence data, direct modex requests, events, published keys and aborts over a socket pair, as the daemons of a resource
 * manager do. A spawn creates a namespace NAME-SERVER-NUMBER, its ranks taking turns over the nodes,
 * or all on the one that PMIX_HOST names. A log goes to stderr, a line per upcall, each beginning with "host S:". The exit
 * status is that of the first rank that failed, 128 + N for signal N, or the status given to PMIx_Abort.
 */
#include "common.h"

#include <pmix_server.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum answer { ANSWER_LATER, ANSWER_INLINE, ANSWER_MIXED };
enum connected { CONNECTED_CALLBACK, CONNECTED_SILENT, CONNECTED_SECOND };
enum queries { QUERIES_REFUSED, QUERIES_SILENT, QUERIES_RESOLVED };
enum modex { MODEX_ANSWERED, MODEX_REFUSED, MODEX_SILENT };
enum tools { TOOLS_UNKNOWN, TOOLS_NAME, TOOLS_REFUSE, TOOLS_NONE };
enum kind { KIND_PLAIN, KIND_MPIRUN, KIND_SLURM, KIND_FLUX };

static struct {
    int ranks_per_server;
    int servers;
    bool cyclic;
    char *rank_libs[8];
    int rank_lib_count;
    char *env[32];
    int env_count;
    enum answer answer;
    bool event_callback, event_echo;
    enum connected connected;
    enum kind kind;
    enum tools tools;
    enum queries queries;
    enum modex modex;
    bool child_environment, ignores_deaths;
    uid_t owner, let;
    const char *stop;
    const char *nspace, *server, *second_lib;
    int timeout, restart, lives, down;
    char **command;
} options = { .ranks_per_server = 2, .servers = 1, .nspace = "test-job", .server = "test-host", .timeout = 60, .lives = 100 };

/* A namespace: that of the command line, or one that a rank spawned. */
typedef struct {
    char nspace[PMIX_MAX_NSLEN + 1];
    layout_t layout;
    char *nodes, *map; /* the layout in words */
    char **command;
    bool has_parent;
    pmix_proc_t parent;
    pid_t pids[RANK_COUNT_MAX]; /* of local ranks, by rank */
} job_t;

#define JOB_COUNT_MAX 8
static job_t jobs[JOB_COUNT_MAX];
static int job_count; /* written last when a job is added */

/* Of a job whose server is started again: what outlives it. */
static struct {
    int life;
    bool is_started[RANK_COUNT_MAX];
    _Atomic pid_t pids[RANK_COUNT_MAX];
    bool has_ended[RANK_COUNT_MAX];
    int states[RANK_COUNT_MAX];
} *outlives;

static int me;           /* number of this server */
static int peer_fd = -1; /* socket to the other server */
static char tmpdir[256];

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    char text[1900], line[1930];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    int len = snprintf(line, sizeof(line), "host %d: %s\n", me, text);
    ssize_t written = write(STDERR_FILENO, line, len);
    (void) written;
}

__attribute__((noreturn)) static void fail(const char *what, pmix_status_t status)
{
    note("%s failed: %s (%d)", what, PMIx_Error_string(status), status);
    _exit(71);
}

static job_t *job_of(const char *nspace)
{
    int count = __atomic_load_n(&job_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++) {
        if (strcmp(jobs[i].nspace, nspace) == 0) {
            return &jobs[i];
        }
    }
    return NULL;
}

/* The infos of an upcall for the log: keys, and the values that tests check. */
static const char *told(const pmix_info_t info[], size_t ninfo)
{
    static __thread char text[1024];
    size_t len = snprintf(text, sizeof(text), "given");
    for (size_t i = 0; i < ninfo && len < sizeof(text); i++) {
        const pmix_value_t *value = &info[i].value;
        len += snprintf(text + len, sizeof(text) - len, " %s", info[i].key);
        if (len >= sizeof(text)) {
            break;
        }
        switch (value->type) {
        case PMIX_BOOL: len += snprintf(text + len, sizeof(text) - len, "=bool:%d", value->data.flag); break;
        case PMIX_INT: len += snprintf(text + len, sizeof(text) - len, "=int:%d", value->data.integer); break;
        case PMIX_UINT32: len += snprintf(text + len, sizeof(text) - len, "=uint32:%u", value->data.uint32); break;
        case PMIX_STATUS: len += snprintf(text + len, sizeof(text) - len, "=status:%d", value->data.status); break;
        case PMIX_PROC:
            len += snprintf(text + len, sizeof(text) - len, "=proc:%s:%u", value->data.proc->nspace, value->data.proc->rank);
            break;
        default: break;
        }
    }
    return text;
}

/* ---- work for the main thread ---------------------------------------------------------------------------------- */

typedef struct work {
    void (*run)(void *);
    void *argument;
    struct work *next;
} work_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static work_t *work_first, **work_last = &work_first;
static int wake_fds[2];

static void post(void (*run)(void *), void *argument)
{
    work_t *work = need(calloc(1, sizeof(*work)));
    work->run = run;
    work->argument = argument;
    pthread_mutex_lock(&lock);
    *work_last = work;
    work_last = &work->next;
    pthread_mutex_unlock(&lock);
    ssize_t written = write(wake_fds[1], "", 1);
    (void) written;
}

static void run_posted(void)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        work_t *work = work_first;
        if (work != NULL) {
            work_first = work->next;
            if (work_first == NULL) {
                work_last = &work_first;
            }
        }
        pthread_mutex_unlock(&lock);
        if (work == NULL) {
            return;
        }
        work->run(work->argument);
        free(work);
    }
}

/* Runs the answer to an upcall: now or on the main thread, as the options say. */
static void answer(void (*run)(void *), void *argument)
{
    static int turn;
    bool now = options.answer == ANSWER_INLINE ||
               (options.answer == ANSWER_MIXED && __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 2 == 0);
    if (now) {
        run(argument);
    } else {
        post(run, argument);
    }
}

typedef struct {
    pmix_op_cbfunc_t cbfunc;
    void *cbdata;
    pmix_status_t status;
} op_t;

static void finish_op(void *argument)
{
    op_t *op = argument;
    op->cbfunc(op->status, op->cbdata);
    free(op);
}

static void answer_op(pmix_op_cbfunc_t cbfunc, void *cbdata, pmix_status_t status)
{
    if (cbfunc == NULL) {
        return;
    }
    op_t *op = need(calloc(1, sizeof(*op)));
    *op = (op_t) { cbfunc, cbdata, status };
    answer(finish_op, op);
}

/* ---- messages between the two servers -------------------------------------------------------------------------- */

enum { MSG_FENCE, MSG_GET, MSG_GOT, MSG_EVENT, MSG_PUBLISH, MSG_UNPUBLISH, MSG_ABORT, MSG_SPAWN, MSG_SPAWNED };

typedef struct {
    uint8_t *bytes;
    size_t len, at;
} message_t;

static void put_bytes(message_t *m, const void *bytes, size_t len)
{
    m->bytes = need(realloc(m->bytes, m->len + len + 1));
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static void put_number(message_t *m, uint64_t number) { put_bytes(m, &number, sizeof(number)); }

static void put_block(message_t *m, const void *bytes, size_t len)
{
    put_number(m, len);
    put_bytes(m, bytes, len);
}

static void put_text(message_t *m, const char *text) { put_block(m, text, strlen(text) + 1); }

static const void *take_bytes(message_t *m, size_t len)
{
    if (m->len - m->at < len) {
        note("short message from the other server");
        _exit(72);
    }
    const void *bytes = m->bytes + m->at;
    m->at += len;
    return bytes;
}

static uint64_t take_number(message_t *m)
{
    uint64_t number;
    memcpy(&number, take_bytes(m, sizeof(number)), sizeof(number));
    return number;
}

static const void *take_block(message_t *m, size_t *len)
{
    *len = take_number(m);
    return take_bytes(m, *len);
}

static const char *take_text(message_t *m)
{
    size_t len;
    return take_block(m, &len);
}

/* Only the types that the test programs send between nodes. */
static void put_value(message_t *m, const pmix_value_t *value)
{
    put_number(m, value->type);
    switch (value->type) {
    case PMIX_STRING: put_text(m, value->data.string ? value->data.string : ""); break;
    case PMIX_BYTE_OBJECT: put_block(m, value->data.bo.bytes, value->data.bo.size); break;
    case PMIX_PROC:
        put_text(m, value->data.proc->nspace);
        put_number(m, value->data.proc->rank);
        break;
    default: put_bytes(m, &value->data, sizeof(uint64_t));
    }
}

static bool can_carry(const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_STRING: case PMIX_BYTE_OBJECT: case PMIX_PROC: case PMIX_BOOL: case PMIX_INT: case PMIX_UINT32:
    case PMIX_UINT64: case PMIX_STATUS: case PMIX_PROC_RANK: case PMIX_UINT16: return true;
    default: return false;
    }
}

static pmix_value_t take_value(message_t *m)
{
    pmix_value_t value;
    memset(&value, 0, sizeof(value));
    value.type = take_number(m);
    size_t len;
    const void *bytes;
    switch (value.type) {
    case PMIX_STRING: value.data.string = copy_text(take_text(m)); break;
    case PMIX_BYTE_OBJECT:
        bytes = take_block(m, &len);
        value = value_bytes(bytes, len);
        break;
    case PMIX_PROC:
        value.data.proc = need(calloc(1, sizeof(pmix_proc_t)));
        strncpy(value.data.proc->nspace, take_text(m), PMIX_MAX_NSLEN);
        value.data.proc->rank = take_number(m);
        break;
    default: memcpy(&value.data, take_bytes(m, sizeof(uint64_t)), sizeof(uint64_t));
    }
    return value;
}

static void write_all(const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(peer_fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return; /* the other server is gone; its end is noticed elsewhere */
        }
        at += n;
        len -= n;
    }
}

static void send_message(int kind, message_t *m)
{
    static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
    if (peer_fd >= 0) {
        uint64_t head[2] = { kind, m->len };
        pthread_mutex_lock(&sending);
        write_all(head, sizeof(head));
        write_all(m->bytes, m->len);
        pthread_mutex_unlock(&sending);
    }
    free(m->bytes);
}

/* ---- fences ---------------------------------------------------------------------------------------------------- */

/* A fence that one of the two sides has entered. Fences of the same processes are matched in order. */
typedef struct fence {
    char *signature;
    bool mine;
    char *data;
    size_t len;
    pmix_modex_cbfunc_t cbfunc;
    pmix_op_cbfunc_t op_cbfunc; /* of connect and disconnect, which exchange no data */
    void *cbdata;
    struct fence *next;
} fence_t;

static fence_t *fences;

static char *signature_of(const char *what, const pmix_proc_t *procs, size_t count)
{
    size_t len = strlen(what) + 1;
    char *text = copy_text(what);
    for (size_t i = 0; i < count; i++) {
        char part[PMIX_MAX_NSLEN + 32];
        int part_len = snprintf(part, sizeof(part), " %s:%u", procs[i].nspace, procs[i].rank);
        text = need(realloc(text, len + part_len));
        memcpy(text + len - 1, part, part_len + 1);
        len += part_len;
    }
    return text;
}

static bool involves_peer(const pmix_proc_t *procs, size_t count)
{
    if (options.servers == 1) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const job_t *job = job_of(procs[i].nspace);
        if (job == NULL) {
            continue;
        }
        const layout_t *layout = &job->layout;
        if (procs[i].rank == PMIX_RANK_WILDCARD ? layout->local_count[1 - me] > 0
                                                : procs[i].rank < (pmix_rank_t) layout->rank_count &&
                                                      layout->node_of[procs[i].rank] != me) {
            return true;
        }
    }
    return false;
}

/* Clears the data first, so that a late reader finds zeros. */
static void free_data(void *data)
{
    explicit_bzero(data, malloc_usable_size(data));
    free(data);
}

/* Ends my side of a fence with the contributions of both servers, the first server's first. */
static void finish_fence(fence_t *mine, fence_t *theirs)
{
    if (mine->op_cbfunc != NULL) {
        mine->op_cbfunc(PMIX_SUCCESS, mine->cbdata);
    } else {
        size_t len = mine->len + (theirs ? theirs->len : 0);
        char *both = need(malloc(len + 1));
        fence_t *first = me == 0 ? mine : theirs, *second = me == 0 ? theirs : mine;
        size_t at = 0;
        for (int i = 0; i < 2; i++) {
            fence_t *part = i == 0 ? first : second;
            if (part != NULL && part->len > 0) {
                memcpy(both + at, part->data, part->len);
                at += part->len;
            }
        }
        mine->cbfunc(PMIX_SUCCESS, len ? both : NULL, len, mine->cbdata, free_data, both);
    }
    fence_t *ended[2] = { mine, theirs };
    for (int i = 0; i < 2; i++) {
        if (ended[i] != NULL) {
            free(ended[i]->signature);
            free(ended[i]->data);
            free(ended[i]);
        }
    }
}

/* Adds one side of a fence; ends the fence when the other side is there. */
static void enter_fence(fence_t *fence)
{
    pthread_mutex_lock(&lock);
    fence_t **at = &fences;
    while (*at != NULL && ((*at)->mine == fence->mine || strcmp((*at)->signature, fence->signature) != 0)) {
        at = &(*at)->next;
    }
    fence_t *other = *at;
    if (other != NULL) {
        *at = other->next;
    } else {
        *at = fence;
        fence->next = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (other != NULL) {
        finish_fence(fence->mine ? fence : other, fence->mine ? other : fence);
    }
}

static void start_fence(void *argument)
{
    fence_t *fence = argument;
    message_t m = { 0 };
    put_text(&m, fence->signature);
    put_block(&m, fence->data, fence->len);
    send_message(MSG_FENCE, &m);
    enter_fence(fence);
}

static void end_own_fence(void *argument) { finish_fence(argument, NULL); }

static pmix_status_t collective(const char *what, const pmix_proc_t *procs, size_t count, const char *infos,
                                const char *data, size_t len, pmix_modex_cbfunc_t cbfunc, pmix_op_cbfunc_t op_cbfunc,
                                void *cbdata)
{
    fence_t *fence = need(calloc(1, sizeof(*fence)));
    fence->signature = signature_of(what, procs, count);
    fence->mine = true;
    fence->data = need(malloc(len + 1));
    memcpy(fence->data, data, len);
    fence->len = len;
    fence->cbfunc = cbfunc;
    fence->op_cbfunc = op_cbfunc;
    fence->cbdata = cbdata;
    note("%s, %zu bytes, %s", fence->signature, len, infos);
    answer(involves_peer(procs, count) ? start_fence : end_own_fence, fence);
    return PMIX_SUCCESS;
}

static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                              char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    const char *infos = told(info, ninfo);
    if (options.kind == KIND_FLUX && (nprocs > 1 || procs[0].rank != PMIX_RANK_WILDCARD)) {
        note("fence of some refused");
        cbfunc(PMIX_ERR_NOT_SUPPORTED, NULL, 0, cbdata, NULL, NULL);
        free(data);
        return PMIX_SUCCESS;
    }
    pmix_status_t status = collective("fence", procs, nprocs, infos, ndata ? data : "", ndata, cbfunc, NULL, cbdata);
    free(data); /* handed over */
    return status;
}

static pmix_status_t connect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                   pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    return collective("connect", procs, nprocs, told(info, ninfo), "", 0, NULL, cbfunc, cbdata);
}

static pmix_status_t disconnect_procs(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                                      pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    return collective("disconnect", procs, nprocs, told(info, ninfo), "", 0, NULL, cbfunc, cbdata);
}

/* ---- direct modex ---------------------------------------------------------------------------------------------- */

#define REQUEST_COUNT_MAX 4096
static struct {
    pmix_modex_cbfunc_t cbfunc;
    void *cbdata;
} requests[REQUEST_COUNT_MAX];
static uint64_t request_count;

static void refuse_request(void *argument)
{
    uint64_t id = (uintptr_t) argument;
    pmix_status_t status = options.kind == KIND_FLUX          ? PMIX_ERR_NOT_IMPLEMENTED
                           : options.modex == MODEX_REFUSED ? PMIX_ERR_NOT_SUPPORTED
                                                            : PMIX_ERR_NOT_FOUND;
    requests[id].cbfunc(status, NULL, 0, requests[id].cbdata, NULL, NULL);
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                  pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    const char *key = "";
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_REQUIRED_KEY) == 0) {
            key = info[i].value.data.string;
        }
    }
    note("direct modex %s:%u %s", proc->nspace, proc->rank, key);
    pthread_mutex_lock(&lock);
    uint64_t id = request_count++;
    pthread_mutex_unlock(&lock);
    if (id >= REQUEST_COUNT_MAX) {
        return PMIX_ERR_OUT_OF_RESOURCE;
    }
    requests[id].cbfunc = cbfunc;
    requests[id].cbdata = cbdata;
    if (options.modex == MODEX_SILENT) {
        return PMIX_SUCCESS;
    }
    if (options.kind == KIND_FLUX || options.modex == MODEX_REFUSED || !involves_peer(proc, 1)) {
        answer(refuse_request, (void *) (uintptr_t) id);
        return PMIX_SUCCESS;
    }
    message_t m = { 0 };
    put_number(&m, id);
    put_text(&m, proc->nspace);
    put_number(&m, proc->rank);
    send_message(MSG_GET, &m);
    return PMIX_SUCCESS;
}

/* The local server's answer to a request of the other one. */
static void request_done(pmix_status_t status, char *data, size_t len, void *argument)
{
    message_t m = { 0 };
    put_number(&m, (uintptr_t) argument);
    put_number(&m, (uint64_t) (int64_t) status);
    put_block(&m, data ? data : "", data ? len : 0);
    send_message(MSG_GOT, &m);
}

/* ---- published keys: each server knows all ----------------------------------------------------------------------- */

typedef struct published {
    pmix_proc_t proc;
    char *key;
    pmix_value_t value;
    struct published *next;
} published_t;

typedef struct lookup {
    char **keys;
    size_t key_count;
    bool wait;
    time_t until;
    pmix_lookup_cbfunc_t cbfunc;
    void *cbdata;
    struct lookup *next;
} lookup_t;

static published_t *published;
/* Removed values stay allocated, because the library may still use them; the program is short. */
static published_t *forgotten;
static lookup_t *lookups;

/* Answers a lookup if it can be answered now. */
static bool try_lookup(lookup_t *lookup)
{
    pmix_pdata_t *found = need(calloc(lookup->key_count, sizeof(*found)));
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < lookup->key_count; i++) {
        for (published_t *item = published; item != NULL; item = item->next) {
            if (strcmp(item->key, lookup->keys[i]) == 0) {
                found[count].proc = item->proc;
                strncpy(found[count].key, item->key, PMIX_MAX_KEYLEN);
                found[count++].value = item->value; /* lent for the time of the callback */
                break;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    bool expired = lookup->until != 0 && time(NULL) >= lookup->until;
    bool done = count == lookup->key_count || !lookup->wait || expired;
    if (done) {
        pmix_status_t status = count == lookup->key_count ? PMIX_SUCCESS
                               : count > 0                ? PMIX_ERR_PARTIAL_SUCCESS
                               : expired                  ? PMIX_ERR_TIMEOUT
                                                          : PMIX_ERR_NOT_FOUND;
        lookup->cbfunc(status, found, count, lookup->cbdata);
    }
    free(found);
    return done;
}

static void free_lookup(lookup_t *lookup)
{
    for (size_t i = 0; i < lookup->key_count; i++) {
        free(lookup->keys[i]);
    }
    free(lookup->keys);
    free(lookup);
}

/* Called on the main thread only, which owns the list of waiting lookups. */
static void try_lookups(void *unused)
{
    (void) unused;
    for (lookup_t **at = &lookups; *at != NULL;) {
        lookup_t *lookup = *at;
        if (try_lookup(lookup)) {
            *at = lookup->next;
            free_lookup(lookup);
        } else {
            at = &lookup->next;
        }
    }
}

static void start_lookup(void *argument)
{
    lookup_t *lookup = argument;
    if (try_lookup(lookup)) {
        free_lookup(lookup);
    } else {
        lookup->next = lookups;
        lookups = lookup;
    }
}

static bool remember(const pmix_proc_t *proc, const char *key, pmix_value_t value)
{
    pthread_mutex_lock(&lock);
    for (published_t *item = published; item != NULL; item = item->next) {
        if (strcmp(item->key, key) == 0) {
            pthread_mutex_unlock(&lock);
            return false;
        }
    }
    published_t *item = need(calloc(1, sizeof(*item)));
    item->proc = *proc;
    item->key = copy_text(key);
    item->value = value;
    item->next = published;
    published = item;
    pthread_mutex_unlock(&lock);
    post(try_lookups, NULL);
    return true;
}

static bool forget(const char *key)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (published_t **at = &published; *at != NULL;) {
        if (strcmp((*at)->key, key) == 0) {
            published_t *item = *at;
            *at = item->next;
            item->next = forgotten;
            forgotten = item;
            found = true;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- output of processes -------------------------------------------------------------------------------------------- */

#ifndef PMIX_ERR_IOF_XOFF
/* Of 7.0. */
#define PMIX_ERR_IOF_XOFF -405
#endif

typedef struct {
    pmix_proc_t source;
    pmix_byte_object_t bytes;
} output_t;

static void delivered(pmix_status_t status, void *argument)
{
    output_t *output = argument;
    note("delivered %zu bytes: %s", output->bytes.size, PMIx_Error_string(status));
    free(output->bytes.bytes);
    free(output);
}

/* Has a process say something: as errors where it begins with "!". */
static void have_said(const pmix_proc_t *source, const char *bytes, size_t size)
{
    output_t *output = need(calloc(1, sizeof(*output)));
    output->source = *source;
    output->bytes.size = size;
    output->bytes.bytes = need(calloc(1, size + 1));
    if (size > 0) {
        memcpy(output->bytes.bytes, bytes, size);
    }
    pmix_iof_channel_t channel = size > 0 && *bytes == '!' ? PMIX_FWD_STDERR_CHANNEL : PMIX_FWD_STDOUT_CHANNEL;
    pmix_status_t status = PMIx_server_IOF_deliver(&output->source, channel, &output->bytes, NULL, 0, delivered, output);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_IOF_deliver", status);
    }
}

/* NSPACE:RANK:TEXT */
static void have_line_said(const char *text)
{
    char line[256];
    const char *nspace_end = strchr(text, ':'), *rank_end = strchr(nspace_end + 1, ':');
    pmix_proc_t source = { .rank = strtoul(nspace_end + 1, NULL, 10) };
    memcpy(source.nspace, text, nspace_end - text);
    int len = snprintf(line, sizeof(line), "%s\n", rank_end + 1);
    have_said(&source, line, len);
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
                             void *cbdata)
{
    pmix_status_t status = PMIX_SUCCESS;
    for (size_t i = 0; i < ninfo; i++) {
        if (strncmp(info[i].key, "pmix", 4) == 0) {
            continue;
        }
        if (strcmp(info[i].key, "say") == 0) {
            have_line_said(info[i].value.data.string);
            continue;
        }
        note("publish %s by %u, %s", info[i].key, proc->rank, told(info, ninfo));
        if (!can_carry(&info[i].value)) {
            status = PMIX_ERR_NOT_SUPPORTED;
            continue;
        }
        /* Through a message, which makes the copy; the same bytes then go to the other server. */
        message_t m = { 0 };
        put_text(&m, info[i].key);
        put_text(&m, proc->nspace);
        put_number(&m, proc->rank);
        size_t start = m.len;
        put_value(&m, &info[i].value);
        m.at = start;
        if (remember(proc, info[i].key, take_value(&m))) {
            send_message(MSG_PUBLISH, &m);
        } else {
            free(m.bytes);
            status = PMIX_ERR_DUPLICATE_KEY;
        }
    }
    answer_op(cbfunc, cbdata, status);
    return PMIX_SUCCESS;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                            pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    lookup_t *lookup = need(calloc(1, sizeof(*lookup)));
    while (keys != NULL && keys[lookup->key_count] != NULL) {
        lookup->key_count++;
    }
    lookup->keys = need(calloc(lookup->key_count + 1, sizeof(char *)));
    for (size_t i = 0; i < lookup->key_count; i++) {
        lookup->keys[i] = copy_text(keys[i]);
    }
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_WAIT) == 0) {
            lookup->wait = true;
        } else if (strcmp(info[i].key, PMIX_TIMEOUT) == 0) {
            lookup->until = time(NULL) + info[i].value.data.integer;
        }
    }
    note("lookup %s by %u, %s", lookup->key_count ? keys[0] : "nothing", proc->rank, told(info, ninfo));
    lookup->cbfunc = cbfunc;
    lookup->cbdata = cbdata;
    post(start_lookup, lookup);
    return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                               pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    pmix_status_t status = PMIX_SUCCESS;
    if (keys == NULL || keys[0] == NULL) {
        note("unpublish nothing by %u, %s", proc->rank, told(info, ninfo));
        status = PMIX_ERR_BAD_PARAM;
    }
    for (size_t i = 0; keys != NULL && keys[i] != NULL; i++) {
        note("unpublish %s by %u, %s", keys[i], proc->rank, told(info, ninfo));
        message_t m = { 0 };
        put_text(&m, keys[i]);
        send_message(MSG_UNPUBLISH, &m);
        if (!forget(keys[i])) {
            status = PMIX_ERR_NOT_FOUND;
        }
    }
    answer_op(cbfunc, cbdata, status);
    return PMIX_SUCCESS;
}

/* ---- ranks ----------------------------------------------------------------------------------------------------- */

static int exit_status = -1;       /* of the first failure */
static time_t kill_at;             /* when to stop asking politely */

static void end_ranks(void *argument)
{
    if (exit_status < 0) {
        exit_status = (int) (intptr_t) argument;
    }
    if (kill_at == 0) {
        kill_at = time(NULL) + 2;
    }
    for (int i = 0; i < job_count; i++) {
        for (int rank = 0; rank < jobs[i].layout.rank_count; rank++) {
            if (jobs[i].pids[rank] > 0) {
                kill(jobs[i].pids[rank], SIGTERM);
            }
        }
    }
}

/* Ends the ranks of both servers. */
static void end_job(int status)
{
    message_t m = { 0 };
    put_number(&m, status);
    send_message(MSG_ABORT, &m);
    post(end_ranks, (void *) (intptr_t) status);
}

/* The environment of a rank; of a host like Flux only the variables that the library adds. */
static char **environment_of(const job_t *job, int rank)
{
    pmix_proc_t proc = proc_of(job->nspace, rank);
    size_t count = 0;
    while (options.kind != KIND_FLUX && environ[count] != NULL) {
        count++;
    }
    char **env = options.kind == KIND_FLUX ? NULL : need(calloc(count + 1, sizeof(char *)));
    for (size_t i = 0; i < count; i++) {
        env[i] = copy_text(environ[i]);
    }
    pmix_status_t status = PMIx_server_setup_fork(&proc, &env);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_setup_fork", status);
    }
    return env;
}

/* As Flux does it, without an object and a callback. */
static void register_flux_client(const job_t *job, int rank)
{
    pmix_proc_t proc = proc_of(job->nspace, rank);
    pmix_status_t status = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL);
    if (status != PMIX_OPERATION_SUCCEEDED) {
        fail("PMIx_server_register_client", status);
    }
}

/* A barrier: waits until the other process calls this, too. */
static void meet_process(int fd)
{
    char byte = 0;
    if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1) {
        note("no process to meet: %s", strerror(errno));
        _exit(71);
    }
}

/* Starts a rank with the result of `environment_of`, which is freed, or without one to make it in the child. A host like Flux then registers
 * the rank when that is done. */
static void start_rank(job_t *job, int rank, char **env)
{
    bool is_registered_later = options.kind == KIND_FLUX && env == NULL;
    int meeting[2] = { -1, -1 };
    if (is_registered_later && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, meeting) != 0) {
        note("socketpair: %s", strerror(errno));
        _exit(71);
    }
    if (outlives != NULL && outlives->is_started[rank]) {
        /* By the server before this one, in whose child it may be about to begin; or that was killed before it had a child. */
        for (int i = 0; outlives->pids[rank] == 0 && i < 5000; i++) {
            usleep(1000);
        }
        job->pids[rank] = outlives->pids[rank];
        if (job->pids[rank] != 0) {
            return;
        }
    }
    if (outlives != NULL) {
        outlives->is_started[rank] = true;
    }
    note("start rank %d", rank);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0 && outlives != NULL) {
        /* Nobody's child, so that the parent of all servers inherits it. Without the library's handlers of a fork: this process is a
         * child itself, in which they hold the server's lock. */
        pid_t heir = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (heir != 0) {
            outlives->pids[rank] = heir;
            _exit(heir < 0);
        }
    }
    if (pid < 0) {
        note("fork: %s", strerror(errno));
        _exit(71);
    }
    if (pid == 0) {
        if (outlives == NULL) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(71);
            }
        }
        env = env != NULL ? env : environment_of(job, rank);
        if (is_registered_later) {
            meet_process(meeting[1]); /* made */
            meet_process(meeting[1]); /* registered */
        }
        if (options.kind != KIND_FLUX) {
            environ = env;
        } else {
            for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
                putenv(env[i]);
            }
        }
        setenv("TEST_NODES", job->nodes, 1);
        setenv("TEST_MAP", job->map, 1);
        setenv("TEST_NSPACE", job->nspace, 1);
        for (int i = 0; i < options.env_count; i++) {
            putenv(options.env[i]);
        }
        if (options.rank_lib_count > 0) {
            setenv("LD_LIBRARY_PATH", options.rank_libs[rank % options.rank_lib_count], 1);
        }
        execvp(job->command[0], job->command);
        fprintf(stderr, "%s: %s\n", job->command[0], strerror(errno));
        _exit(127);
    }
    job->pids[rank] = pid;
    if (outlives != NULL) {
        waitpid(pid, NULL, 0);
        job->pids[rank] = outlives->pids[rank];
    }
    if (is_registered_later) {
        meet_process(meeting[0]);
        register_flux_client(job, rank);
        meet_process(meeting[0]);
        close(meeting[0]);
        close(meeting[1]);
    }
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
}

/* Collects ended ranks; returns how many still run. */
static int collect_ranks(void)
{
    int running = 0;
    for (int i = 0; i < job_count; i++) {
        for (int rank = 0; rank < jobs[i].layout.rank_count; rank++) {
            pid_t *pid = &jobs[i].pids[rank];
            if (*pid <= 0) {
                continue;
            }
            int state;
            if (outlives != NULL ? !__atomic_load_n(&outlives->has_ended[rank], __ATOMIC_ACQUIRE)
                                 : waitpid(*pid, &state, WNOHANG) == 0) {
                running++;
                if (kill_at != 0 && time(NULL) >= kill_at) {
                    kill(*pid, SIGKILL);
                }
                continue;
            }
            *pid = 0;
            state = outlives != NULL ? outlives->states[rank] : state;
            int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
            note("rank %d ended with status %d", rank, code);
            if (code != 0 && exit_status < 0 && !(options.ignores_deaths && WIFSIGNALED(state))) {
                end_job(code);
                run_posted();
            }
        }
    }
    return running;
}

/* ---- the other upcalls ------------------------------------------------------------------------------------------- */

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    note("connected %u object %s, callback %s", proc->rank, (uintptr_t) object == proc->rank + 1u ? "right" : "WRONG",
         cbfunc != NULL ? "given" : "none");
    if (options.connected != CONNECTED_SILENT) {
        answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t client_connected2(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
                                       pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) info;
    (void) ninfo;
    (void) cbfunc;
    (void) cbdata;
    note("connected2 %u object %s", proc->rank, (uintptr_t) object == proc->rank + 1u ? "right" : "WRONG");
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    note("finalized %u object %s, callback %s", proc->rank, (uintptr_t) object == proc->rank + 1u ? "right" : "WRONG",
         cbfunc != NULL ? "given" : "none");
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    return PMIX_SUCCESS;
}

static pmix_status_t abort_procs(const pmix_proc_t *proc, void *object, int status, const char msg[],
                                 pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) object;
    (void) procs;
    note("abort by %u status %d message %s procs %zu", proc->rank, status, msg ? msg : "-", nprocs);
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    end_job(status & 0xff);
    return PMIX_SUCCESS;
}

/* Ranks that wait for a debugger's release. */
static atomic_bool stopped[RANK_COUNT_MAX];

/* Releases each of them, outside the upcall that reported it. */
static void release_stopped(void)
{
    for (int rank = 0; rank < RANK_COUNT_MAX; rank++) {
        if (!atomic_exchange(&stopped[rank], false) || strcmp(options.stop, "never") == 0) {
            continue;
        }
        if (strcmp(options.stop, "die") == 0) {
            /* Its process lives on, since the ranks' end with it. */
            PMIx_server_finalize();
            while (collect_ranks() > 0) {
                usleep(10000);
            }
            _exit(0);
        }
        pmix_proc_t host = proc_of("test-host", 0);
        pmix_proc_t proc = proc_of(jobs[0].nspace, rank);
        infos_t infos = { 0 };
        add(&infos, PMIX_EVENT_CUSTOM_RANGE, value_proc(&proc));
        add(&infos, PMIX_EVENT_NON_DEFAULT, value_bool(true));
        note("release of %d", rank);
        pmix_status_t status = PMIx_Notify_event(PMIX_ERR_DEBUGGER_RELEASE, &host, PMIX_RANGE_CUSTOM, infos.items,
                                                 infos.count, NULL, NULL);
        if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
            fail("PMIx_Notify_event", status);
        }
    }
}

static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                  pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    note("event %d from %u range %d", code, source->rank, range);
    if (code == PMIX_READY_FOR_DEBUG && options.stop != NULL) {
        for (size_t i = 0; i < ninfo; i++) {
            if (PMIX_CHECK_KEY(&info[i], PMIX_BREAKPOINT)) {
                note("%u stops at %s", source->rank, info[i].value.data.string);
            }
        }
        /* Servers of release 4.2 report all their ranks at once, when the last of them has arrived. */
        for (int rank = 0; rank < RANK_COUNT_MAX; rank++) {
            stopped[rank] |= source->rank == (pmix_rank_t) rank ||
                             (source->rank == PMIX_RANK_LOCAL_PEERS && rank < options.ranks_per_server);
        }
    }
    if (range != PMIX_RANGE_LOCAL && range != PMIX_RANGE_PROC_LOCAL) {
        message_t m = { 0 };
        put_number(&m, (uint64_t) (int64_t) code);
        put_text(&m, source->nspace);
        put_number(&m, source->rank);
        size_t count = 0;
        for (size_t i = 0; i < ninfo; i++) {
            count += can_carry(&info[i].value);
        }
        put_number(&m, count);
        for (size_t i = 0; i < ninfo; i++) {
            if (can_carry(&info[i].value)) {
                put_text(&m, info[i].key);
                put_value(&m, &info[i].value);
            }
        }
        send_message(MSG_EVENT, &m);
    }
    if (options.event_echo) {
        pmix_status_t status = PMIx_Notify_event(code - 1, source, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL);
        note("echo %d: %s", code - 1, PMIx_Error_string(status));
    }
    if (!options.event_callback) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    return PMIX_SUCCESS;
}

static pmix_status_t register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) codes;
    (void) info;
    (void) ninfo;
    note("register %zu events", ncodes);
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    return PMIX_SUCCESS;
}

static pmix_status_t deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) codes;
    note("deregister %zu events", ncodes);
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    return PMIX_SUCCESS;
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t cbfunc,
                           void *cbdata)
{
    for (size_t i = 0; i < nqueries; i++) {
        note("query %s by %u, %s", queries[i].keys ? queries[i].keys[0] : "nothing", proc->rank,
             told(queries[i].qualifiers, queries[i].nqual));
    }
    bool is_of_nodes = nqueries == 1 && queries[0].keys != NULL && strcmp(queries[0].keys[0], "pmix.qry.node") == 0;
    if (options.queries == QUERIES_RESOLVED && is_of_nodes) {
        infos_t infos = { 0 };
        add(&infos, "pmix.qry.node", value_string("far1,far2"));
        cbfunc(PMIX_SUCCESS, infos.items, infos.count, cbdata, NULL, NULL);
        free_infos(&infos);
        return PMIX_SUCCESS;
    }
    return options.queries == QUERIES_SILENT ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
}

typedef struct {
    pmix_tool_connection_cbfunc_t cbfunc;
    void *cbdata;
    pmix_status_t status;
    pmix_proc_t name;
} tool_op_t;

static void finish_tool_op(void *argument)
{
    tool_op_t *op = argument;
    op->cbfunc(op->status, &op->name, op->cbdata);
    free(op);
}

/* Tools that have no name become tool-1, tool-2 and so on. */
static void tool_connected(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t cbfunc, void *cbdata)
{
    static int number;
    char nspace[PMIX_MAX_NSLEN + 1] = "";
    tool_op_t *op = need(calloc(1, sizeof(*op)));
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_NSPACE) == 0) {
            strncpy(nspace, info[i].value.data.string, PMIX_MAX_NSLEN);
        } else if (strcmp(info[i].key, PMIX_RANK) == 0) {
            op->name.rank = info[i].value.data.rank;
        }
    }
    note("tool %s, %s", *nspace ? nspace : "without a name", told(info, ninfo));
    if (*nspace == '\0') {
        snprintf(nspace, sizeof(nspace), "tool-%d", ++number);
    }
    strcpy(op->name.nspace, nspace);
    op->cbfunc = cbfunc;
    op->cbdata = cbdata;
    op->status = options.tools == TOOLS_REFUSE ? PMIX_ERR_INVALID_CRED : PMIX_SUCCESS;
    answer(finish_tool_op, op);
}

static void log_data(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                     size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    for (size_t i = 0; i < ndata; i++) {
        const pmix_value_t *value = &data[i].value;
        const char *text = value->type == PMIX_STRING        ? value->data.string
                           : value->type == PMIX_BYTE_OBJECT ? value->data.bo.bytes
                                                             : "(neither string nor bytes)";
        int len = value->type == PMIX_BYTE_OBJECT ? (int) value->data.bo.size : (int) strcspn(text, "\n");
        note("log %s by %u: %.*s, %s", data[i].key, client->rank, len, text, told(directives, ndirs));
    }
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
}

#if defined(PMIX_DSTORE) || PMIX_VERSION_MAJOR > 5
/* The slot of later modules, where both are given. */
static pmix_status_t log2_data(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata,
                               const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    note("log2 by %u", client->rank);
    log_data(client, data, ndata, directives, ndirs, cbfunc, cbdata);
    return PMIX_SUCCESS;
}
#endif

typedef struct {
    pmix_info_cbfunc_t cbfunc;
    void *cbdata;
} info_op_t;

static void finish_info_op(void *argument)
{
    info_op_t *op = argument;
    op->cbfunc(PMIX_SUCCESS, NULL, 0, op->cbdata, NULL, NULL);
    free(op);
}

static pmix_status_t job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[], size_t ntargets,
                                 const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    (void) targets;
    note("job control %s on %zu by %u", ndirs > 0 ? directives[0].key : "nothing", ntargets, requestor->rank);
    info_op_t *op = need(calloc(1, sizeof(*op)));
    *op = (info_op_t) { cbfunc, cbdata };
    answer(finish_info_op, op);
    return PMIX_SUCCESS;
}

static void resume_input(void *unused)
{
    (void) unused;
    /* Not in releases before 7.0. */
    pmix_status_t (*control)(const pmix_proc_t *, pmix_iof_channel_t, bool, const pmix_info_t[], size_t, pmix_op_cbfunc_t,
                             void *) = (__typeof__(control)) dlsym(RTLD_DEFAULT, "PMIx_server_IOF_flow_control");
    note("resume: %s", PMIx_Error_string(control(NULL, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL)));
}

/* Output is requested, or no longer. Debian's 4.2.2 frees data that a later answer needs, here and for input. */
static pmix_status_t pull_output(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                                 pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    static int turn;
    note("pull of %zu, first %s:%u, channels %u, %s", nprocs, nprocs > 0 ? procs[0].nspace : "nobody",
         nprocs > 0 ? procs[0].rank : 0, channels, told(directives, ndirs));
    if (nprocs > 0 && strcmp(procs[0].nspace, "nobody") == 0) {
        return PMIX_ERR_NOT_FOUND;
    }
    if (strstr(PMIx_Get_version(), "pmix-dstore") == NULL || turn++ % 2 == 0) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    answer_op(cbfunc, cbdata, PMIX_SUCCESS);
    return PMIX_SUCCESS;
}

/* Input for a process, which echoes it. After input that begins with "~" the host refuses more until a
 * moment later. */
static pmix_status_t push_input(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
                                pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    size_t size = bo != NULL ? bo->size : 0;
    char first = size > 0 ? *bo->bytes : '\0';
    note("input of %zu bytes from %s:%u for %zu, %s", size, source->nspace, source->rank, ntargets, told(directives, ndirs));
    have_said(ntargets > 0 ? &targets[0] : source, size > 0 ? bo->bytes : NULL, size);
    if (strstr(PMIx_Get_version(), "pmix-dstore") == NULL) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    answer_op(cbfunc, cbdata, first == '~' ? PMIX_ERR_IOF_XOFF : PMIX_SUCCESS);
    if (first == '~') {
        post(resume_input, NULL);
    }
    return PMIX_SUCCESS;
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

static char *ranks_of_node(const layout_t *layout, int node)
{
    char *text = need(calloc(layout->rank_count + 1, 12));
    size_t len = 0;
    for (int rank = 0; rank < layout->rank_count; rank++) {
        if (layout->node_of[rank] == node) {
            len += sprintf(text + len, "%s%d", len ? "," : "", rank);
        }
    }
    return text;
}

static int first_rank_of(const layout_t *layout, int node)
{
    int rank = 0;
    while (rank < layout->rank_count && layout->node_of[rank] != node) {
        rank++;
    }
    return rank;
}

/* Lays a job out: over all nodes, in blocks or cyclically, or on one of them. */
static void lay_out(job_t *job, int rank_count, bool cyclic, int only_node)
{
    layout_t *layout = &job->layout;
    layout->node_count = options.servers;
    layout->rank_count = rank_count;
    char hostname[256];
    gethostname(hostname, sizeof(hostname));
    for (int node = 0; node < layout->node_count; node++) {
        char name[] = "nodeA";
        name[4] += node;
        layout->nodes[node] = copy_text(options.servers == 1 ? hostname : name);
    }
    for (int rank = 0; rank < rank_count; rank++) {
        int node = only_node >= 0 ? only_node : cyclic ? rank % options.servers : rank / options.ranks_per_server;
        layout->node_of[rank] = node;
        layout->local_rank_of[rank] = layout->local_count[node]++;
    }
    /* In words, as ranks and the regular expressions of the registration have it. */
    char nodes[1024] = "", *map = need(calloc(rank_count + layout->node_count, 12));
    for (int node = 0; node < layout->node_count; node++) {
        if (layout->local_count[node] == 0) {
            continue;
        }
        char *ranks = ranks_of_node(layout, node);
        snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), "%s%s", *nodes ? "," : "", layout->nodes[node]);
        sprintf(map + strlen(map), "%s%s", *map ? ";" : "", ranks);
        free(ranks);
    }
    job->nodes = copy_text(nodes);
    job->map = map;
}

static void add_text(infos_t *list, const char *key, const char *text) { add(list, key, value_string(text)); }

/* Slurm gives these numbers in types of its own. */
static pmix_value_t value_leader(const layout_t *layout, int node)
{
    int rank = first_rank_of(layout, node);
    return options.kind == KIND_SLURM ? value_uint32(rank) : value_rank(rank);
}

static pmix_value_t value_appnum(int number)
{
    return options.kind == KIND_SLURM ? value_int(number) : value_uint32(number);
}

static pmix_value_t value_global(int rank)
{
    return options.kind == KIND_SLURM ? value_uint32(rank) : value_rank(rank);
}

static void add_session(infos_t *infos, const job_t *job)
{
    const layout_t *layout = &job->layout;
    infos_t session = { 0 };
    add(&session, PMIX_SESSION_ID, value_uint32(42));
    add(&session, PMIX_UNIV_SIZE, value_uint32(layout->rank_count + 3));
    add(&session, PMIX_MAX_PROCS, value_uint32(layout->rank_count + 4));
    add_text(&session, PMIX_CLUSTER_ID, "test-cluster");
    add_text(&session, PMIX_ALLOCATED_NODELIST, job->nodes);
    add(infos, PMIX_SESSION_INFO_ARRAY, value_infos(&session));
}

static void add_job(infos_t *infos, const job_t *job)
{
    if (options.stop != NULL) {
        bool is_rank = strchr("0123456789", options.stop[0]) != NULL;
        add(infos, PMIX_DEBUG_STOP_IN_INIT, value_rank(is_rank ? (pmix_rank_t) atoi(options.stop) : PMIX_RANK_WILDCARD));
    }
    const layout_t *layout = &job->layout;
    char *regex, *ppn;
    pmix_status_t status = PMIx_generate_regex(job->nodes, &regex);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_generate_regex", status);
    }
    status = PMIx_generate_ppn(job->map, &ppn);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_generate_ppn", status);
    }
    add_text(infos, PMIX_NODE_MAP, regex);
    add_text(infos, PMIX_PROC_MAP, ppn);
    free(regex);
    free(ppn);
    if (options.kind != KIND_SLURM) {
        add_text(infos, PMIX_SERVER_NSPACE, "test-host");
        add(infos, PMIX_SERVER_RANK, value_rank(me));
    }
    if (job->has_parent) {
        add(infos, PMIX_PARENT_ID, value_proc(&job->parent));
    }
    add_text(infos, PMIX_NSPACE, job->nspace);
    add_text(infos, PMIX_JOBID, "job-7");
    add(infos, PMIX_JOB_SIZE, value_uint32(layout->rank_count));
    add(infos, PMIX_UNIV_SIZE, value_uint32(layout->rank_count + 3));
    add(infos, PMIX_MAX_PROCS, value_uint32(layout->rank_count + 2));
    add(infos, PMIX_NPROC_OFFSET, value_uint32(0));
    add(infos, PMIX_NUM_NODES, value_uint32(layout->node_count));
    add(infos, PMIX_JOB_NUM_APPS, value_uint32(1));
    add_text(infos, PMIX_MAPBY, options.cyclic ? "node" : "slot");
    add_text(infos, PMIX_RANKBY, options.cyclic ? "node" : "slot");
    add_text(infos, PMIX_BINDTO, "none");
    add(infos, PMIX_HOSTNAME_KEEP_FQDN, value_bool(true));
    /* Of the caller's own node; some hosts give them here rather than in a node array. */
    add(infos, PMIX_NODEID, value_uint32(me));
    add(infos, PMIX_NODE_SIZE, value_uint32(layout->local_count[me]));
    add(infos, PMIX_LOCAL_SIZE, value_uint32(layout->local_count[me]));
    if (layout->local_count[me] > 0) {
        char *peers = ranks_of_node(layout, me);
        add_text(infos, PMIX_LOCAL_PEERS, peers);
        add(infos, PMIX_LOCALLDR, value_leader(layout, me));
        free(peers);
    }
    if (options.kind != KIND_MPIRUN) {
        add_text(infos, PMIX_TMPDIR, tmpdir);
        add_text(infos, PMIX_NSDIR, tmpdir);
    }
}

static void add_app(infos_t *infos, const job_t *job)
{
    infos_t app = { 0 };
    char cwd[1024];
    add(&app, PMIX_APPNUM, value_appnum(0));
    add(&app, PMIX_APP_SIZE, value_uint32(job->layout.rank_count));
    add(&app, PMIX_APPLDR, value_rank(0));
    add_text(&app, PMIX_WDIR, getcwd(cwd, sizeof(cwd)) ? cwd : "/");
    add_text(&app, PMIX_APP_ARGV, job->command[0]);
    add(infos, PMIX_APP_INFO_ARRAY, value_infos(&app));
}

static void add_nodes(infos_t *infos, const job_t *job)
{
    const layout_t *layout = &job->layout;
    for (int number = 0; number < layout->node_count; number++) {
        if (layout->local_count[number] == 0) {
            continue;
        }
        infos_t node = { 0 };
        char *peers = ranks_of_node(layout, number);
        char alias[300];
        snprintf(alias, sizeof(alias), "%s-alias", layout->nodes[number]);
        add(&node, PMIX_NODEID, value_uint32(number));
        add_text(&node, PMIX_HOSTNAME, layout->nodes[number]);
        add_text(&node, PMIX_HOSTNAME_ALIASES, alias);
        add(&node, PMIX_LOCAL_SIZE, value_uint32(layout->local_count[number]));
        add(&node, PMIX_NODE_SIZE, value_uint32(layout->local_count[number]));
        add(&node, PMIX_LOCALLDR, value_leader(layout, number));
        add_text(&node, PMIX_LOCAL_PEERS, peers);
        add(&node, PMIX_AVAIL_PHYS_MEMORY, value_uint64(1000000ull * (number + 1)));
        add(infos, PMIX_NODE_INFO_ARRAY, value_infos(&node));
        free(peers);
    }
}

static void add_procs(infos_t *infos, const job_t *job)
{
    const layout_t *layout = &job->layout;
    for (int rank = 0; rank < layout->rank_count; rank++) {
        infos_t proc = { 0 };
        int node = layout->node_of[rank];
        add(&proc, PMIX_RANK, value_rank(rank));
        add(&proc, PMIX_APPNUM, value_appnum(0));
        add(&proc, PMIX_APP_RANK, value_rank(rank));
        add(&proc, PMIX_GLOBAL_RANK, value_global(rank));
        add(&proc, PMIX_LOCAL_RANK, value_uint16(layout->local_rank_of[rank]));
        add(&proc, PMIX_NODE_RANK, value_uint16(layout->local_rank_of[rank]));
        add(&proc, PMIX_NODEID, value_uint32(node));
        add_text(&proc, PMIX_HOSTNAME, layout->nodes[node]);
        add(&proc, PMIX_REINCARNATION, value_uint32(0));
        add(&proc, PMIX_SPAWNED, value_bool(job->has_parent));
        if (node == me) {
            char text[300];
            snprintf(text, sizeof(text), "NM0:CR%d", layout->local_rank_of[rank]);
            add_text(&proc, PMIX_LOCALITY_STRING, text);
            if (options.kind != KIND_MPIRUN) {
                snprintf(text, sizeof(text), "%s/%d", tmpdir, rank);
                add_text(&proc, PMIX_PROCDIR, text);
            }
        }
        add(infos, PMIX_PROC_INFO_ARRAY, value_infos(&proc));
    }
}

/* All that Flux registers, of a job that has no other way to be described. */
static void add_flux_job(infos_t *infos, const job_t *job)
{
    const layout_t *layout = &job->layout;
    char *regex, *ppn, *peers = ranks_of_node(layout, me);
    pmix_status_t status = PMIx_generate_regex(job->nodes, &regex);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_generate_regex", status);
    }
    status = PMIx_generate_ppn(job->map, &ppn);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_generate_ppn", status);
    }
    add_text(infos, PMIX_JOBID, job->nspace);
    add_text(infos, PMIX_LOCAL_PEERS, peers);
    add_text(infos, PMIX_NODE_MAP, regex);
    add_text(infos, PMIX_PROC_MAP, ppn);
    add(infos, PMIX_TDIR_RMCLEAN, value_bool(true));
    add(infos, PMIX_JOB_NUM_APPS, value_uint32(1));
    add_text(infos, PMIX_TMPDIR, tmpdir);
    add(infos, PMIX_LOCAL_SIZE, value_uint32(layout->local_count[me]));
    add(infos, PMIX_UNIV_SIZE, value_uint32(layout->rank_count));
    add(infos, PMIX_JOB_SIZE, value_uint32(layout->rank_count));
    add(infos, PMIX_APPNUM, value_uint32(0));
    for (int rank = 0; rank < layout->rank_count; rank++) {
        infos_t proc = { 0 };
        add(&proc, PMIX_RANK, value_rank(rank));
        add(&proc, PMIX_NODEID, value_uint32(layout->node_of[rank]));
        add(&proc, PMIX_LOCAL_RANK, value_uint16(layout->local_rank_of[rank]));
        add(&proc, PMIX_NODE_RANK, value_uint16(layout->local_rank_of[rank]));
        add(infos, PMIX_PROC_INFO_ARRAY, value_infos(&proc));
    }
    free(regex);
    free(ppn);
    free(peers);
}

/* ---- jobs ------------------------------------------------------------------------------------------------------- */

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
} waiter_t;

static void wake(pmix_status_t status, void *argument)
{
    waiter_t *waiter = argument;
    pthread_mutex_lock(&waiter->mutex);
    waiter->status = status;
    waiter->done = true;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
}

/* Waits for the callback of a call that returned PMIX_SUCCESS. After an abort it gives up after some seconds: Debian's
 * 4.2.2 now and then deadlocks with itself when ranks die while it answers one. */
static void wait_for(const char *what, pmix_status_t returned, waiter_t *waiter)
{
    if (returned == PMIX_SUCCESS) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += exit_status < 0 ? options.timeout : 4;
        int rc = 0;
        pthread_mutex_lock(&waiter->mutex);
        while (!waiter->done && rc == 0) {
            rc = pthread_cond_timedwait(&waiter->changed, &waiter->mutex, &until);
        }
        bool done = waiter->done;
        pthread_mutex_unlock(&waiter->mutex);
        if (!done) {
            note("%s: no answer", what);
            _exit(exit_status < 0 ? 124 : exit_status);
        }
        returned = waiter->status;
    }
    if (returned != PMIX_SUCCESS && returned != PMIX_OPERATION_SUCCEEDED) {
        fail(what, returned);
    }
}

#define WAITER { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, PMIX_SUCCESS }

#define TEST_VARIABLE "PMIX_MCA_host_test"
static size_t variables;

static void job_set_up(pmix_status_t status, pmix_info_t info[], size_t ninfo, void *provided, pmix_op_cbfunc_t done,
                       void *cbdata)
{
    for (size_t i = 0; i < ninfo; i++) {
        const pmix_value_t *value = &info[i].value;
        variables += strcmp(info[i].key, PMIX_SET_ENVAR) == 0 && value->type == PMIX_ENVAR
                     && strcmp(value->data.envar.envar, TEST_VARIABLE) == 0 && strcmp(value->data.envar.value, "1") == 0;
    }
    if (done != NULL) {
        done(PMIX_SUCCESS, cbdata);
    }
    wake(status, provided);
}

/* The calls of launchers for a job besides its registration. */
static void setup_job(void)
{
    waiter_t waiter = WAITER;
    setenv(TEST_VARIABLE, "1", 1);
    pmix_status_t status = PMIx_server_setup_application(options.nspace, NULL, 0, job_set_up, &waiter);
    wait_for("PMIx_server_setup_application", status, &waiter);
    unsetenv(TEST_VARIABLE);
    pmix_status_t local = PMIx_server_setup_local_support(options.nspace, NULL, 0, NULL, NULL);
    pmix_proc_t all = proc_of(options.nspace, PMIX_RANK_WILDCARD);
    pmix_status_t defined = PMIx_server_define_process_set(&all, 1, "everybody");
    char name[] = "everybody";
    pmix_status_t deleted = PMIx_server_delete_process_set(name);
    /* Other libraries do not always set the results of these two: nothing may depend on them. */
    if (strstr(PMIx_Get_version(), "pmix-dstore") == NULL) {
        defined = deleted = PMIX_OPERATION_SUCCEEDED;
    }
    note("set up: %zu variables, %d %d %d", variables, local, defined, deleted);
}

/* As Flux does it: one rank after the other, each with its environment made first, and without callbacks. */
static void open_flux_job(job_t *job)
{
    infos_t infos = { 0 };
    const layout_t *layout = &job->layout;
    add_flux_job(&infos, job);
    pmix_status_t status = PMIx_server_register_nspace(job->nspace, layout->local_count[me], infos.items, infos.count, NULL,
                                                       NULL);
    if (status != PMIX_OPERATION_SUCCEEDED) {
        fail("PMIx_server_register_nspace", status);
    }
    free_infos(&infos);
    for (int rank = 0; rank < layout->rank_count; rank++) {
        if (layout->node_of[rank] == me) {
            char **env = NULL;
            if (!options.child_environment) {
                env = environment_of(job, rank);
                register_flux_client(job, rank);
            }
            start_rank(job, rank, env);
        }
    }
}

/* Registers a job and starts its ranks here. */
static void open_job(job_t *job)
{
    if (options.kind == KIND_FLUX) {
        open_flux_job(job);
        return;
    }
    infos_t infos = { 0 };
    const layout_t *layout = &job->layout;
    add_session(&infos, job);
    add_job(&infos, job);
    add_app(&infos, job);
    add_nodes(&infos, job);
    add_procs(&infos, job);
    waiter_t registered = WAITER;
    pmix_status_t status = PMIx_server_register_nspace(job->nspace, layout->local_count[me], infos.items, infos.count,
                                                       wake, &registered);
    wait_for("PMIx_server_register_nspace", status, &registered);
    free_infos(&infos);
    if (!job->has_parent) {
        setup_job();
    }
    for (int rank = 0; rank < layout->rank_count; rank++) {
        if (layout->node_of[rank] == me) {
            pmix_proc_t proc = proc_of(job->nspace, rank);
            waiter_t waiter = WAITER;
            uid_t uid = options.owner != 0 ? options.owner : getuid();
            gid_t gid = options.owner != 0 ? options.owner : getgid();
            status = PMIx_server_register_client(&proc, uid, gid, (void *) (uintptr_t) (rank + 1), wake, &waiter);
            wait_for("PMIx_server_register_client", status, &waiter);
        }
    }
    for (int rank = 0; rank < layout->rank_count; rank++) {
        if (layout->node_of[rank] == me) {
            start_rank(job, rank, options.child_environment ? NULL : environment_of(job, rank));
        }
    }
}

static void close_job(job_t *job)
{
    for (int rank = 0; rank < job->layout.rank_count; rank++) {
        if (job->layout.node_of[rank] == me) {
            pmix_proc_t proc = proc_of(job->nspace, rank);
            waiter_t waiter = WAITER;
            PMIx_server_deregister_client(&proc, wake, &waiter);
            wait_for("PMIx_server_deregister_client", PMIX_SUCCESS, &waiter);
        }
    }
    waiter_t waiter = WAITER;
    PMIx_server_deregister_nspace(job->nspace, wake, &waiter);
    wait_for("PMIx_server_deregister_nspace", PMIX_SUCCESS, &waiter);
}

/* ---- spawn ----------------------------------------------------------------------------------------------------- */

/* A spawn that a rank of this server asked for. */
typedef struct {
    message_t m; /* all but the name of the namespace */
    pmix_spawn_cbfunc_t cbfunc;
    void *cbdata;
    char *nspace;
} spawn_t;

/* Opens the job that a message describes. */
static void open_spawned(message_t *m)
{
    if (job_count == JOB_COUNT_MAX) {
        note("too many jobs");
        _exit(71);
    }
    job_t *job = &jobs[job_count];
    strncpy(job->nspace, take_text(m), PMIX_MAX_NSLEN);
    job->has_parent = true;
    const char *nspace = take_text(m);
    job->parent = proc_of(nspace, take_number(m));
    int rank_count = take_number(m);
    const char *host = take_text(m);
    size_t argc = take_number(m);
    job->command = need(calloc(argc + 1, sizeof(char *)));
    for (size_t i = 0; i < argc; i++) {
        job->command[i] = copy_text(take_text(m));
    }
    int only_node = -1;
    for (int node = 0; node < options.servers; node++) {
        only_node = strcmp(host, jobs[0].layout.nodes[node]) == 0 ? node : only_node;
    }
    lay_out(job, rank_count, true, only_node);
    __atomic_store_n(&job_count, job_count + 1, __ATOMIC_RELEASE);
    note("open %s, %d ranks here", job->nspace, job->layout.local_count[me]);
    open_job(job);
}

static void spawned(void *argument)
{
    spawn_t *spawn = argument;
    spawn->cbfunc(PMIX_SUCCESS, spawn->nspace, spawn->cbdata);
    free(spawn->nspace);
    free(spawn);
}

static void start_spawn(void *argument)
{
    spawn_t *spawn = argument;
    static int number;
    char nspace[PMIX_MAX_NSLEN + 1];
    snprintf(nspace, sizeof(nspace), "%.200s-%d-%d", options.nspace, me, ++number);
    spawn->nspace = copy_text(nspace);
    message_t theirs = { 0 }, own = { 0 };
    put_number(&theirs, (uintptr_t) spawn);
    for (int i = 0; i < 2; i++) {
        message_t *m = i == 0 ? &theirs : &own;
        put_text(m, nspace);
        put_bytes(m, spawn->m.bytes, spawn->m.len);
    }
    free(spawn->m.bytes);
    send_message(MSG_SPAWN, &theirs);
    open_spawned(&own);
    free(own.bytes);
    if (peer_fd < 0) {
        spawned(spawn);
    }
}

static pmix_status_t spawn_job(const pmix_proc_t *proc, const pmix_info_t job_info[], size_t ninfo,
                               const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
    const char *host = "";
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(job_info[i].key, PMIX_HOST) == 0) {
            host = job_info[i].value.data.string;
        }
    }
    note("spawn %s by %s:%u, %s", napps == 1 ? apps[0].cmd : "several", proc->nspace, proc->rank, told(job_info, ninfo));
    if (napps != 1) {
        return PMIX_ERR_NOT_SUPPORTED;
    }
    spawn_t *spawn = need(calloc(1, sizeof(*spawn)));
    spawn->cbfunc = cbfunc;
    spawn->cbdata = cbdata;
    size_t argc = 0;
    while (apps[0].argv != NULL && apps[0].argv[argc] != NULL) {
        argc++;
    }
    put_text(&spawn->m, proc->nspace);
    put_number(&spawn->m, proc->rank);
    put_number(&spawn->m, apps[0].maxprocs);
    put_text(&spawn->m, host);
    put_number(&spawn->m, argc);
    for (size_t i = 0; i < argc; i++) {
        put_text(&spawn->m, apps[0].argv[i]);
    }
    post(start_spawn, spawn);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .client_connected = client_connected,
    .client_finalized = client_finalized,
    .abort = abort_procs,
    .fence_nb = fence_nb,
    .direct_modex = direct_modex,
    .publish = publish,
    .lookup = lookup,
    .unpublish = unpublish,
    .spawn = spawn_job,
    .connect = connect_procs,
    .disconnect = disconnect_procs,
    .register_events = register_events,
    .deregister_events = deregister_events,
    .notify_event = notify_event,
    .query = query,
#if defined(PMIX_DSTORE) || PMIX_VERSION_MAJOR > 5
    .log2 = log2_data,
#endif
    .log = log_data,
    .job_control = job_control,
    .iof_pull = pull_output,
    .push_stdin = push_input,
};

/* The upcalls of Flux. */
static pmix_server_module_t flux_module = {
    .abort = abort_procs,
    .fence_nb = fence_nb,
    .direct_modex = direct_modex,
};

/* Flux never calls `done`. */
static void flux_heard(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                       pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    (void) done;
    (void) cbdata;
    note("heard %d of %u", code, source->rank);
}

/* ---- messages of the other server --------------------------------------------------------------------------------- */

typedef struct {
    int kind;
    message_t m;
} received_t;

/* An event from the other server. */
typedef struct event {
    pmix_proc_t source;
    infos_t infos;
    struct event *next;
} event_t;

/* Never freed: handlers may still use the strings of past events, and release 6.1 uses the source after the callback. */
static event_t *events;

static void notified(pmix_status_t status, void *argument)
{
    (void) status;
    (void) argument;
}

static void handle_message(void *argument)
{
    received_t *received = argument;
    message_t *m = &received->m;
    size_t len;
    pmix_proc_t proc;
    pmix_status_t status;
    const char *text;
    switch (received->kind) {
    case MSG_FENCE: {
        fence_t *fence = need(calloc(1, sizeof(*fence)));
        fence->signature = copy_text(take_text(m));
        const void *data = take_block(m, &len);
        fence->data = need(malloc(len + 1));
        memcpy(fence->data, data, len);
        fence->len = len;
        enter_fence(fence);
        break;
    }
    case MSG_GET: {
        uint64_t id = take_number(m);
        text = take_text(m);
        proc = proc_of(text, take_number(m));
        status = PMIx_server_dmodex_request(&proc, request_done, (void *) (uintptr_t) id);
        if (status != PMIX_SUCCESS) {
            request_done(status, NULL, 0, (void *) (uintptr_t) id);
        }
        break;
    }
    case MSG_GOT: {
        uint64_t id = take_number(m);
        status = (pmix_status_t) (int64_t) take_number(m);
        const void *data = take_block(m, &len);
        char *copy = need(malloc(len + 1));
        memcpy(copy, data, len);
        requests[id].cbfunc(status, len ? copy : NULL, len, requests[id].cbdata, free_data, copy);
        break;
    }
    case MSG_EVENT: {
        status = (pmix_status_t) (int64_t) take_number(m);
        text = take_text(m);
        proc = proc_of(text, take_number(m));
        event_t *event = need(calloc(1, sizeof(*event)));
        event->next = events;
        events = event;
        event->source = proc;
        infos_t *infos = &event->infos;
        for (uint64_t count = take_number(m); count > 0; count--) {
            const char *key = take_text(m);
            add(infos, key, take_value(m));
        }
        pmix_status_t rc = PMIx_Notify_event(status, &event->source, PMIX_RANGE_LOCAL, infos->items, infos->count, notified,
                                             NULL);
        if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED) {
            note("PMIx_Notify_event: %s", PMIx_Error_string(rc));
        }
        break;
    }
    case MSG_PUBLISH:
        text = take_text(m);
        proc = proc_of(take_text(m), 0);
        proc.rank = take_number(m);
        remember(&proc, text, take_value(m));
        break;
    case MSG_UNPUBLISH: forget(take_text(m)); break;
    case MSG_ABORT: end_ranks((void *) (intptr_t) take_number(m)); break;
    case MSG_SPAWN: {
        message_t reply = { 0 };
        put_number(&reply, take_number(m));
        open_spawned(m);
        send_message(MSG_SPAWNED, &reply);
        break;
    }
    case MSG_SPAWNED: spawned((void *) (uintptr_t) take_number(m)); break;
    default: note("unknown message %d", received->kind);
    }
    free(m->bytes);
    free(received);
}

static bool read_all(void *bytes, size_t len)
{
    char *at = bytes;
    while (len > 0) {
        ssize_t n = read(peer_fd, at, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= n;
    }
    return true;
}

/* Reads all the time, so that two servers that send to each other never wait for each other. */
static void *read_messages(void *unused)
{
    uint64_t head[2];
    while (read_all(head, sizeof(head))) {
        received_t *received = need(calloc(1, sizeof(*received)));
        received->kind = head[0];
        received->m.bytes = need(malloc(head[1] + 1));
        received->m.len = head[1];
        if (!read_all(received->m.bytes, head[1])) {
            break;
        }
        post(handle_message, received);
    }
    return unused;
}

/* ---- one server ---------------------------------------------------------------------------------------------------- */

/* mpirun's registration of itself: its namespace, of which it is a local process, and a value of its own. */
static void be_mpirun(void)
{
    infos_t infos = { 0 };
    add(&infos, PMIX_REGISTER_NODATA, value_bool(true));
    waiter_t registered = WAITER;
    pmix_proc_t self = proc_of("test-host", me);
    pmix_status_t status = PMIx_server_register_nspace(self.nspace, 1, infos.items, infos.count, wake, &registered);
    wait_for("PMIx_server_register_nspace of its own", status, &registered);
    free_infos(&infos);
    pmix_value_t uri = value_string("test-host.uri");
    status = PMIx_Store_internal(&self, "t.uri", &uri);
    free_value(&uri);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Store_internal", status);
    }
    add(&infos, PMIX_OPTIONAL, value_bool(true));
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "t.uri" : "t.not.stored";
        pmix_value_t *value = NULL;
        status = PMIx_Get(&self, key, infos.items, infos.count, &value);
        const char *missed = status == PMIX_ERR_NOT_FOUND ? "NOT-FOUND" : "another error";
        note("own %s: %s", key, status == PMIX_SUCCESS ? value->data.string : missed);
        if (status == PMIX_SUCCESS) {
            PMIX_VALUE_RELEASE(value);
        }
    }
    free_infos(&infos);
}

static int serve(void)
{
    pmix_status_t status;
    if (pipe(wake_fds) != 0) {
        note("pipe: %s", strerror(errno));
        return 71;
    }
    if (getenv("HOST_DIRECTORY") == NULL) {
        snprintf(tmpdir + strlen(tmpdir), sizeof(tmpdir) - strlen(tmpdir), "/%d", me);
        mkdir(tmpdir, 0755);
    }

    if (options.connected == CONNECTED_SECOND) {
        module.client_connected = NULL;
        module.client_connected2 = client_connected2;
    }
    infos_t infos = { 0 };
    if (options.tools != TOOLS_UNKNOWN) {
        module.tool_connected = options.tools == TOOLS_NONE ? NULL : tool_connected;
        add(&infos, PMIX_SERVER_TOOL_SUPPORT, value_bool(true));
        add(&infos, PMIX_SERVER_SYSTEM_SUPPORT, value_bool(true));
        add(&infos, PMIX_SERVER_SESSION_SUPPORT, value_bool(true));
        /* Or Debian's 4.2.2 dies of the first output. */
        add(&infos, PMIX_IOF_LOCAL_OUTPUT, value_bool(false));
    }
    if (options.restart > 0) {
        add(&infos, "pmix.dstore.restart", value_uint32(options.restart));
        note("life %d", outlives->life);
    }
    if (options.let != 0) {
        add(&infos, PMIX_ACCESS_USERIDS, value_uint32(options.let));
    }
    if (options.kind != KIND_SLURM && options.kind != KIND_FLUX) {
        add_text(&infos, PMIX_SERVER_NSPACE, options.server);
    }
    if (options.kind != KIND_SLURM) {
        add(&infos, PMIX_SERVER_RANK, value_rank(me));
    }
    add_text(&infos, PMIX_SERVER_TMPDIR, tmpdir);
    if (options.kind != KIND_FLUX) {
        add_text(&infos, PMIX_SYSTEM_TMPDIR, tmpdir);
        add_text(&infos, PMIX_HOSTNAME, jobs[0].layout.nodes[me]);
    }
    status = PMIx_server_init(options.kind == KIND_FLUX ? &flux_module : &module, infos.items, infos.count);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_init", status);
    }
    free_infos(&infos);
    if (options.kind == KIND_FLUX) {
        PMIx_Register_event_handler(NULL, 0, NULL, 0, flux_heard, NULL, NULL);
    }
    note("library %s", PMIx_Get_version());
    if (options.kind == KIND_MPIRUN) {
        be_mpirun();
    }
    pthread_t reader;
    /* Ranks find both servers, with the files by which tools reach them. */
    if (peer_fd >= 0) {
        meet_process(peer_fd);
    }
    if (peer_fd >= 0 && pthread_create(&reader, NULL, read_messages, NULL) != 0) {
        note("no thread");
        return 71;
    }
    open_job(&jobs[0]);
    while (collect_ranks() > 0) {
        struct pollfd wakeup = { .fd = wake_fds[0], .events = POLLIN };
        if (poll(&wakeup, 1, 10) > 0) {
            char dropped[64];
            ssize_t got = read(wake_fds[0], dropped, sizeof(dropped));
            (void) got;
        }
        run_posted();
        try_lookups(NULL);
        release_stopped();
    }
    run_posted();

    /* The other server may still need this one's data: go when both are through. */
    if (peer_fd >= 0) {
        shutdown(peer_fd, SHUT_WR);
        for (bool open = true; open;) {
            open = pthread_tryjoin_np(reader, NULL) != 0;
            run_posted();
            usleep(2000);
        }
    }
    for (int i = 0; options.kind != KIND_FLUX && i < job_count; i++) {
        close_job(&jobs[i]);
    }
    status = PMIx_server_finalize();
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_finalize", status);
    }
    int code = exit_status < 0 ? 0 : exit_status;
    note("exit %d", code);
    return code;
}

/* ---- the parent of servers that are started again ------------------------------------------------------------------ */

/* Another file of its name takes its place, so that nobody reads half a number. */
static void tell_server(pid_t pid)
{
    const char *name = getenv("HOST_SERVER");
    char other[sizeof(tmpdir) + 32];
    snprintf(other, sizeof(other), "%s.new", name);
    FILE *file = fopen(other, "w");
    if (file == NULL || fprintf(file, "%d\n", pid) < 0 || fclose(file) != 0 || rename(other, name) != 0) {
        fprintf(stderr, "host: %s: %s\n", name, strerror(errno));
        _exit(71);
    }
}

/* Waits for the server's end, or without one for that of all ranks. Notes the ends of ranks. */
static int wait_for_server(pid_t server)
{
    int state;
    for (;;) {
        pid_t pid = waitpid(-1, &state, 0);
        if (pid == server) {
            return state;
        }
        if (pid < 0) {
            return 0; /* no child is left */
        }
        for (int rank = 0; rank < RANK_COUNT_MAX; rank++) {
            if (outlives->pids[rank] == pid) {
                outlives->states[rank] = state;
                __atomic_store_n(&outlives->has_ended[rank], true, __ATOMIC_RELEASE);
            }
        }
    }
}

/* In the process of a server, `is_server` is set. */
static int supervise(bool *is_server)
{
    char name[sizeof(tmpdir) + 16];
    const char *file = getenv("HOST_SERVER_FILE"); /* where several hosts have one directory */
    snprintf(name, sizeof(name), "%s%s", file != NULL ? file : tmpdir, file != NULL ? "" : "/server");
    setenv("HOST_SERVER", name, 1);
    outlives = mmap(NULL, sizeof(*outlives), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outlives == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        fprintf(stderr, "host: %s\n", strerror(errno));
        return 71;
    }
    while (outlives->life < options.lives) {
        outlives->life++;
        int ready[2];
        pid_t server = pipe(ready) == 0 ? fork() : -1;
        if (server < 0) {
            fprintf(stderr, "host: fork: %s\n", strerror(errno));
            return 71;
        }
        if (server == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(options.timeout);
            char byte, life[16];
            snprintf(life, sizeof(life), "%d", outlives->life);
            setenv("HOST_LIFE", life, 1);
            close(ready[1]);
            ssize_t got = read(ready[0], &byte, 1); /* the file has its number */
            (void) got;
            close(ready[0]);
            *is_server = true;
            return serve();
        }
        tell_server(server);
        close(ready[0]);
        close(ready[1]);
        int state = wait_for_server(server);
        if (WIFEXITED(state)) {
            return WEXITSTATUS(state);
        }
        fprintf(stderr, "host: server %d ended by signal %d\n", outlives->life, WTERMSIG(state));
        usleep(options.down * 1000);
    }
    wait_for_server(0);
    int code = 0;
    for (int rank = 0; rank < RANK_COUNT_MAX; rank++) {
        int state = outlives->states[rank];
        code = code != 0 ? code : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    return code;
}

/* ---- command line -------------------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void) info;
    (void) kind;
    (void) where;
    remove(path);
    return 0;
}

static void timed_out(int signal)
{
    (void) signal;
    static const char text[] = "host: timed out\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void) written;
    _exit(124);
}

__attribute__((noreturn)) static void usage(void)
{
    fprintf(stderr, "usage: host [-n RANKS_PER_SERVER] [-s SERVERS] [--map block|cyclic] [--rank-lib DIR[,DIR]] "
                    "[--env NAME=VALUE] [--answer later|inline|mixed] [--events at-once|callback|echo] "
                    "[--connected callback|silent|second] [--as plain|mpirun|slurm|flux] [--environment parent|child] "
                    "[--tools name|refuse|none] [--stop all|RANK|never|die] [--nspace NAME] [--timeout S] PROGRAM [ARGS...]\n");
    exit(64);
}

static void read_options(int argc, char **argv)
{
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at += 2) {
        const char *name = argv[at];
        if (strcmp(name, "--") == 0) {
            at++;
            break;
        }
        if (at + 1 >= argc) {
            usage();
        }
        char *value = argv[at + 1];
        if (strcmp(name, "-n") == 0) {
            options.ranks_per_server = atoi(value);
        } else if (strcmp(name, "-s") == 0) {
            options.servers = atoi(value);
        } else if (strcmp(name, "--map") == 0) {
            options.cyclic = strcmp(value, "cyclic") == 0;
        } else if (strcmp(name, "--rank-lib") == 0) {
            /* The words stay as they are: the second server may get them, too. */
            for (char *lib = strtok(copy_text(value), ","); lib != NULL && options.rank_lib_count < 8; lib = strtok(NULL, ",")) {
                options.rank_libs[options.rank_lib_count++] = lib;
            }
        } else if (strcmp(name, "--second-lib") == 0) {
            options.second_lib = value;
        } else if (strcmp(name, "--env") == 0 && options.env_count < 32) {
            options.env[options.env_count++] = value;
        } else if (strcmp(name, "--answer") == 0) {
            options.answer = strcmp(value, "inline") == 0  ? ANSWER_INLINE
                             : strcmp(value, "mixed") == 0 ? ANSWER_MIXED
                                                           : ANSWER_LATER;
        } else if (strcmp(name, "--events") == 0) {
            options.event_callback = strcmp(value, "callback") == 0;
            options.event_echo = strcmp(value, "echo") == 0;
        } else if (strcmp(name, "--connected") == 0) {
            options.connected = strcmp(value, "silent") == 0   ? CONNECTED_SILENT
                                : strcmp(value, "second") == 0 ? CONNECTED_SECOND
                                                               : CONNECTED_CALLBACK;
        } else if (strcmp(name, "--as") == 0) {
            options.kind = strcmp(value, "mpirun") == 0  ? KIND_MPIRUN
                           : strcmp(value, "slurm") == 0 ? KIND_SLURM
                           : strcmp(value, "flux") == 0  ? KIND_FLUX
                                                         : KIND_PLAIN;
        } else if (strcmp(name, "--environment") == 0) {
            options.child_environment = strcmp(value, "child") == 0;
        } else if (strcmp(name, "--tools") == 0) {
            options.tools = strcmp(value, "refuse") == 0 ? TOOLS_REFUSE
                            : strcmp(value, "none") == 0 ? TOOLS_NONE
                                                         : TOOLS_NAME;
        } else if (strcmp(name, "--queries") == 0) {
            options.queries = strcmp(value, "silent") == 0    ? QUERIES_SILENT
                              : strcmp(value, "resolve") == 0 ? QUERIES_RESOLVED
                                                              : QUERIES_REFUSED;
        } else if (strcmp(name, "--modex") == 0) {
            options.modex = strcmp(value, "refuse") == 0   ? MODEX_REFUSED
                            : strcmp(value, "silent") == 0 ? MODEX_SILENT
                                                           : MODEX_ANSWERED;
        } else if (strcmp(name, "--stop") == 0) {
            options.stop = value;
        } else if (strcmp(name, "--owner") == 0) {
            options.owner = atoi(value);
        } else if (strcmp(name, "--let") == 0) {
            options.let = atoi(value);
        } else if (strcmp(name, "--server") == 0) {
            options.server = value;
        } else if (strcmp(name, "--deaths") == 0) {
            options.ignores_deaths = strcmp(value, "ignore") == 0;
        } else if (strcmp(name, "--nspace") == 0) {
            options.nspace = value;
        } else if (strcmp(name, "--restartable") == 0) {
            options.restart = atoi(value);
        } else if (strcmp(name, "--lives") == 0) {
            options.lives = atoi(value);
        } else if (strcmp(name, "--down") == 0) {
            options.down = atoi(value);
        } else if (strcmp(name, "--timeout") == 0) {
            options.timeout = atoi(value);
        } else {
            usage();
        }
    }
    options.command = argv + at;
    if ((options.restart > 0 && options.servers != 1) || at >= argc || options.servers < 1 || options.servers > 2 || options.ranks_per_server < 1 ||
        options.servers * options.ranks_per_server > RANK_COUNT_MAX) {
        usage();
    }
}

/* The variable by which the second server knows its socket and the directory, after it was started anew with another library. */
#define SECOND "HOST_SECOND"

/* Becomes the second server, with its library. */
static int serve_second(char **argv)
{
    me = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(options.timeout);
    if (options.second_lib == NULL) {
        return serve();
    }
    char text[sizeof(tmpdir) + 16];
    snprintf(text, sizeof(text), "%d %s", peer_fd, tmpdir);
    setenv(SECOND, text, 1);
    setenv("LD_LIBRARY_PATH", options.second_lib, 1);
    fcntl(peer_fd, F_SETFD, 0);
    execv("/proc/self/exe", argv);
    note("exec: %s", strerror(errno));
    return 71;
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    strncpy(jobs[0].nspace, options.nspace, PMIX_MAX_NSLEN);
    jobs[0].command = options.command;
    lay_out(&jobs[0], options.servers * options.ranks_per_server, options.cyclic, -1);
    job_count = 1;
    signal(SIGALRM, timed_out);
    signal(SIGPIPE, SIG_IGN);
    alarm(options.timeout);
    const char *second = getenv(SECOND);
    if (second != NULL) {
        char *end;
        me = 1;
        peer_fd = strtol(second, &end, 10);
        fcntl(peer_fd, F_SETFD, FD_CLOEXEC);
        snprintf(tmpdir, sizeof(tmpdir), "%s", end + 1);
        unsetenv(SECOND);
        return serve();
    }
    /* A directory that stays, for one server. */
    const char *named = getenv("HOST_DIRECTORY");
    const char *base = getenv("TMPDIR");
    if (named != NULL) {
        snprintf(tmpdir, sizeof(tmpdir), "%s", named);
    } else {
        snprintf(tmpdir, sizeof(tmpdir), "%s/pmix-host-XXXXXX", base ? base : "/tmp");
    }
    if (named == NULL && mkdtemp(tmpdir) == NULL) {
        fprintf(stderr, "host: %s: %s\n", tmpdir, strerror(errno));
        return 71;
    }
    char top[sizeof(tmpdir)];
    strcpy(top, tmpdir);

    pid_t other = 0;
    if (options.servers == 2) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
            fprintf(stderr, "host: socketpair: %s\n", strerror(errno));
            return 71;
        }
        other = fork();
        if (other < 0) {
            fprintf(stderr, "host: fork: %s\n", strerror(errno));
            return 71;
        }
        me = other == 0 ? 1 : 0;
        peer_fd = fds[me];
        close(fds[1 - me]);
        if (me == 1) {
            return serve_second(argv);
        }
    }
    bool is_server = false;
    int code = options.restart > 0 ? supervise(&is_server) : serve();
    if (is_server) {
        return code;
    }
    if (other > 0) {
        int state;
        waitpid(other, &state, 0);
        int other_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        code = code != 0 ? code : other_code;
    }
    if (named == NULL) {
        nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    return code;
}
