/* Hosts a synthetic job for measurements: servers on this machine, each a node of its own, and their clients.
 *
 *   host [options] PROGRAM [ARGS...]
 *
 *   --servers S      processes that host a server (default 1)
 *   --clients C      clients of each server (default 2)
 *   --nodes N        nodes of the job, of which the servers are the first (default S)
 *   --per-node P     ranks of a node, of which the clients are the first (default C)
 *   --infos          registers eight values of each rank, too, instead of maps alone
 *   --shape NAME     how the ranks are placed, instead of node by node (or BENCH_SHAPE in the environment): place.h
 *   --published FILE the contributions of all other nodes' servers to the first collecting fence; with one server
 *   --idle N         N connections of another user to each server's TCP port while its clients start; takes root
 *   --timeout T      ends everything after T seconds (default 120)
 *
 * The servers' contributions to a fence lie in memory that all servers share, as if a fast network had delivered them: the exchange
 * itself costs one copy of each. Server 0 prints the time of its start, registration and deregistration, its memory, the size of
 * the files that it shares with its clients, and the processor time of server and clients from the start of the first client
 * to the end of the last, that of the library's own threads in the server's process ("served") apart:
 *
 *   host NAME VALUE UNIT
 *
 * and in the end, of all servers together, the contributions to fences that they handed their hosts, the requests for ranks' data
 * (direct modex), and the bytes of the answers.
 *
 * It runs on any libpmix.so.2, in the servers and in the clients alike.
 */
#define _GNU_SOURCE
#include <pmix_server.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"
#include "place.h"

extern char **environ;

#define NSPACE "bench-job"

static int servers = 1, clients = 2, nodes, per_node, idle, timeout_s = 120;
static bool with_infos;
static const char *published, *shape = "";
static uint32_t size; /* ranks of the job */
static char **command;

static int me, up; /* number of this server, and its socket to the process that started it */
static int *to_server; /* this server's socket to each other one */

/* What all servers together hand their hosts. */
static struct totals {
    uint64_t fenced, requests, answered;
} *totals;

__attribute__((noreturn)) static void fail(const char *what, int status)
{
    fprintf(stderr, "host %d: %s failed (%d)\n", me, what, status);
    _exit(71);
}

static void *need(void *memory)
{
    if (memory == NULL) {
        fail("malloc", ENOMEM);
    }
    return memory;
}

static void write_all(int fd, const void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t more = write(fd, (const char *) bytes + done, len - done);
        if (more <= 0) {
            fail("write", errno);
        }
        done += more;
    }
}

/* False if the other end is closed. */
static bool read_all(int fd, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t more = read(fd, (char *) bytes + done, len - done);
        if (more <= 0) {
            return false;
        }
        done += more;
    }
    return true;
}

/* ---- waiting for a callback ------------------------------------------------------------------------------------------ */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    pmix_status_t status;
} call_t;

#define CALL { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static void done(pmix_status_t status, void *cbdata)
{
    call_t *call = cbdata;
    pthread_mutex_lock(&call->lock);
    call->status = status;
    call->is_done = true;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
}

static pmix_status_t wait_for(call_t *call, pmix_status_t started)
{
    if (started == PMIX_OPERATION_SUCCEEDED) {
        return PMIX_SUCCESS;
    }
    if (started != PMIX_SUCCESS) {
        return started;
    }
    pthread_mutex_lock(&call->lock);
    while (!call->is_done) {
        pthread_cond_wait(&call->changed, &call->lock);
    }
    pthread_mutex_unlock(&call->lock);
    return call->status;
}

/* ---- upcalls ------------------------------------------------------------------------------------------------------------ */

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) object, (void) cbfunc, (void) cbdata;
    return PMIX_OPERATION_SUCCEEDED;
}

/* The current fence; the program's ranks have one at a time. */
static struct {
    pmix_modex_cbfunc_t cbfunc;
    void *cbdata;
    char *data;
} fence;

/* The positions of a fence's contributions in the shared memory. */
struct positions {
    uint64_t own, own_len, all, all_len;
};
/* Fences use this many parts in turn: a server may still read the contributions of the previous fence. */
enum { PARTS = 4 };
static const size_t part_len = (size_t) 1 << 30;
static char *exchanged;

static void release(void *memory) { free(memory); }

/* Adds the contributions of all other nodes, once. */
static void add_published(char **data, size_t *len)
{
    FILE *file = fopen(published, "r");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0) {
        fail(published, errno);
    }
    *data = need(realloc(*data, *len + about.st_size));
    if (fread(*data + *len, 1, about.st_size, file) != (size_t) about.st_size) {
        fail(published, errno);
    }
    *len += about.st_size;
    fclose(file);
    published = NULL;
}

static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                              size_t len, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    (void) procs, (void) nprocs, (void) info, (void) ninfo;
    __atomic_add_fetch(&totals->fenced, len, __ATOMIC_RELAXED);
    if (servers == 1) {
        if (published != NULL && len > 0) {
            add_published(&data, &len);
        }
        cbfunc(PMIX_SUCCESS, data, len, cbdata, release, data);
        return PMIX_SUCCESS;
    }
    fence.cbfunc = cbfunc;
    fence.cbdata = cbdata;
    fence.data = data;
    uint64_t size = len;
    write_all(up, &size, sizeof(size));
    return PMIX_SUCCESS;
}

static void leave(void *nothing) { (void) nothing; }

/* Stores this server's contribution in the shared memory, and takes all contributions when all servers have done so. */
static void *answer_fences(void *unused)
{
    (void) unused;
    struct positions at;
    while (read_all(up, &at, sizeof(at))) {
        memcpy(exchanged + at.own, fence.data, at.own_len);
        free(fence.data);
        char is_done = 1;
        write_all(up, &is_done, 1);
        if (!read_all(up, &is_done, 1)) {
            break;
        }
        fence.cbfunc(PMIX_SUCCESS, exchanged + at.all, at.all_len, fence.cbdata, leave, NULL);
    }
    return NULL;
}

/* ---- direct modex -------------------------------------------------------------------------------------------------------- */

/* A message between two servers: a request for a rank's data, or its answer, which the data follow. */
struct letter {
    bool is_answer;
    pmix_rank_t rank;
    pmix_status_t status;
    uint64_t len;
    pmix_modex_cbfunc_t cbfunc; /* the asker's, for the answer */
    void *cbdata;
};

/* Letters that wait for the thread that sends them: a thread of the library must not wait for another server. */
static struct queued {
    struct queued *next;
    int to;
    struct letter letter;
    char data[];
} *first_queued, **last_queued = &first_queued;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_queued = PTHREAD_COND_INITIALIZER;

static void enqueue(int to, const struct letter *letter, const char *data)
{
    struct queued *item = need(malloc(sizeof(*item) + letter->len));
    item->next = NULL;
    item->to = to;
    item->letter = *letter;
    if (letter->len > 0) {
        memcpy(item->data, data, letter->len);
    }
    pthread_mutex_lock(&queue_lock);
    *last_queued = item;
    last_queued = &item->next;
    pthread_cond_signal(&is_queued);
    pthread_mutex_unlock(&queue_lock);
}

static void *send_letters(void *unused)
{
    (void) unused;
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        while (first_queued == NULL) {
            pthread_cond_wait(&is_queued, &queue_lock);
        }
        struct queued *item = first_queued;
        first_queued = item->next;
        if (first_queued == NULL) {
            last_queued = &first_queued;
        }
        pthread_mutex_unlock(&queue_lock);
        write_all(to_server[item->to], &item->letter, sizeof(item->letter));
        write_all(to_server[item->to], item->data, item->letter.len);
        free(item);
    }
    return NULL;
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_modex_cbfunc_t cbfunc,
                                  void *cbdata)
{
    (void) info, (void) ninfo;
    int to = proc->rank < size ? (int) place_of(proc->rank, per_node).node : servers;
    if (to >= servers || to == me) {
        return PMIX_ERR_NOT_FOUND;
    }
    __atomic_add_fetch(&totals->requests, 1, __ATOMIC_RELAXED);
    enqueue(to, &(struct letter){ .rank = proc->rank, .cbfunc = cbfunc, .cbdata = cbdata }, NULL);
    return PMIX_SUCCESS;
}

/* A request of another server that the library has not answered. */
struct asked {
    int from;
    struct letter letter;
};

static void answer(pmix_status_t status, char *data, size_t len, void *cbdata)
{
    struct asked *asked = cbdata;
    asked->letter.is_answer = true;
    asked->letter.status = status;
    asked->letter.len = len;
    __atomic_add_fetch(&totals->answered, len, __ATOMIC_RELAXED);
    enqueue(asked->from, &asked->letter, data);
    free(asked);
}

static void take_letter(int from)
{
    struct letter letter;
    if (!read_all(to_server[from], &letter, sizeof(letter))) {
        close(to_server[from]);
        to_server[from] = -1;
        return;
    }
    if (letter.is_answer) {
        char *data = need(malloc(letter.len + 1));
        if (!read_all(to_server[from], data, letter.len)) {
            fail("read", errno);
        }
        letter.cbfunc(letter.status, data, letter.len, letter.cbdata, release, data);
        return;
    }
    struct asked *asked = need(malloc(sizeof(*asked)));
    *asked = (struct asked){ .from = from, .letter = letter };
    pmix_proc_t proc = { .rank = letter.rank };
    strcpy(proc.nspace, NSPACE);
    pmix_status_t status = PMIx_server_dmodex_request(&proc, answer, asked);
    if (status != PMIX_SUCCESS) {
        answer(status, NULL, 0, asked);
    }
}

static void *take_letters(void *unused)
{
    (void) unused;
    struct pollfd *fds = need(calloc(servers, sizeof(*fds)));
    for (;;) {
        for (int other = 0; other < servers; other++) {
            fds[other] = (struct pollfd){ .fd = to_server[other], .events = POLLIN };
        }
        if (poll(fds, servers, -1) < 0 && errno != EINTR) {
            fail("poll", errno);
        }
        for (int other = 0; other < servers; other++) {
            if (fds[other].fd >= 0 && fds[other].revents != 0) {
                take_letter(other);
            }
        }
    }
    return NULL;
}

static pmix_server_module_t module = {
    .client_connected = connected,
    .client_finalized = connected,
    .fence_nb = fence_nb,
    .direct_modex = direct_modex,
};

/* The threads that exchange with the other servers. */
static void start_exchange(void)
{
    void *(*const threads[])(void *) = { answer_fences, send_letters, take_letters };
    for (int i = 0; servers > 1 && i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, threads[i], NULL) != 0) {
            fail("pthread_create", errno);
        }
    }
}

/* ---- the job ----------------------------------------------------------------------------------------------------------- */

/* Memory of the job's infos: mapped apart and released as a whole, so that the rest is the library's. */
static struct {
    char *start;
    size_t used, len;
} arena = { .len = (size_t) 16 << 30 };

static void *part(size_t len)
{
    if (arena.start == NULL) {
        arena.start = mmap(NULL, arena.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (arena.start == MAP_FAILED || len > arena.len - arena.used) {
        fail("mmap", ENOMEM);
    }
    void *at = arena.start + arena.used;
    arena.used += (len + 15) & ~(size_t) 15;
    return at;
}

static void set_number(pmix_info_t *info, const char *key, pmix_data_type_t type, uint32_t number)
{
    strcpy(info->key, key);
    info->value.type = type;
    if (type == PMIX_UINT16) {
        info->value.data.uint16 = (uint16_t) number;
    } else {
        info->value.data.uint32 = number;
    }
}

static void set_text(pmix_info_t *info, const char *key, const char *text)
{
    strcpy(info->key, key);
    info->value.type = PMIX_STRING;
    info->value.data.string = strcpy(part(strlen(text) + 1), text);
}

static char *node_name(char *name, int node)
{
    sprintf(name, "node%05d", node);
    return name;
}

/* The ranks of each node. */
static struct of_node {
    uint32_t count, *ranks;
} *ranks_of_nodes(void)
{
    struct of_node *of_nodes = need(calloc(nodes, sizeof(*of_nodes)));
    for (uint32_t rank = 0; rank < size; rank++) {
        of_nodes[place_of(rank, per_node).node].count++;
    }
    for (int node = 0; node < nodes; node++) {
        of_nodes[node].ranks = need(malloc(of_nodes[node].count * sizeof(uint32_t)));
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        struct place place = place_of(rank, per_node);
        of_nodes[place.node].ranks[place.local] = rank;
    }
    return of_nodes;
}

/* Names of all nodes, and ranks of each. */
static void maps(struct of_node *of_nodes, char **names, char **ranks)
{
    char *name = *names = need(malloc((size_t) nodes * 12 + 1));
    char *rank = *ranks = need(malloc((size_t) size * 9 + 1));
    *name = *rank = 0;
    for (int node = 0; node < nodes; node++) {
        name += sprintf(name, node > 0 ? ",node%05d" : "node%05d", node);
        for (uint32_t local = 0; local < of_nodes[node].count; local++) {
            rank += sprintf(rank, local > 0 ? ",%u" : node > 0 ? ";%u" : "%u", of_nodes[node].ranks[local]);
        }
    }
}

static pmix_info_t *infos_of(uint32_t rank, size_t *count)
{
    pmix_info_t *infos = part(8 * sizeof(pmix_info_t));
    struct place place = place_of(rank, per_node);
    char name[16];
    set_number(&infos[0], PMIX_RANK, PMIX_PROC_RANK, rank);
    set_number(&infos[1], PMIX_APPNUM, PMIX_UINT32, 0);
    set_number(&infos[2], PMIX_GLOBAL_RANK, PMIX_PROC_RANK, rank);
    set_number(&infos[3], PMIX_APP_RANK, PMIX_PROC_RANK, rank);
    set_number(&infos[4], PMIX_LOCAL_RANK, PMIX_UINT16, place.local);
    set_number(&infos[5], PMIX_NODE_RANK, PMIX_UINT16, place.local);
    set_number(&infos[6], PMIX_NODEID, PMIX_UINT32, place.node);
    set_text(&infos[7], PMIX_HOSTNAME, node_name(name, place.node));
    *count = 8;
    return infos;
}

static void set_array(pmix_info_t *info, const char *key, pmix_info_t *items, size_t count)
{
    strcpy(info->key, key);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = part(sizeof(pmix_data_array_t));
    info->value.data.darray->type = PMIX_INFO;
    info->value.data.darray->size = count;
    info->value.data.darray->array = items;
}

static size_t make_job(struct of_node *of_nodes, pmix_info_t **result)
{
    pmix_info_t *infos = part((16 + (with_infos ? size : 0)) * sizeof(pmix_info_t));
    char *names, *ranks, *node_map, *proc_map;
    maps(of_nodes, &names, &ranks);
    if (PMIx_generate_regex(names, &node_map) != PMIX_SUCCESS || PMIx_generate_ppn(ranks, &proc_map) != PMIX_SUCCESS) {
        fail("PMIx_generate_regex", 0);
    }
    size_t count = 0;
    set_number(&infos[count++], PMIX_UNIV_SIZE, PMIX_UINT32, size);
    set_number(&infos[count++], PMIX_JOB_SIZE, PMIX_UINT32, size);
    set_number(&infos[count++], PMIX_JOB_NUM_APPS, PMIX_UINT32, 1);
    set_number(&infos[count++], PMIX_NUM_NODES, PMIX_UINT32, nodes);
    set_number(&infos[count++], PMIX_LOCAL_SIZE, PMIX_UINT32, of_nodes[me].count);
    set_number(&infos[count++], PMIX_NODE_SIZE, PMIX_UINT32, per_node);
    set_text(&infos[count++], PMIX_NODE_MAP, node_map);
    set_text(&infos[count++], PMIX_PROC_MAP, proc_map);
    pmix_info_t *app = part(2 * sizeof(pmix_info_t));
    set_number(&app[0], PMIX_APPNUM, PMIX_UINT32, 0);
    set_number(&app[1], PMIX_APP_SIZE, PMIX_UINT32, size);
    set_array(&infos[count++], PMIX_APP_INFO_ARRAY, app, 2);
    for (uint32_t rank = 0; with_infos && rank < size; rank++) {
        size_t values;
        pmix_info_t *items = infos_of(rank, &values);
        set_array(&infos[count++], PMIX_PROC_DATA, items, values);
    }
    free(names);
    free(ranks);
    free(node_map);
    free(proc_map);
    *result = infos;
    return count;
}

static off_t stored;

static int add_file(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void) path, (void) at;
    stored += type == FTW_F ? about->st_size : 0;
    return 0;
}

static void report(const char *name, double value, const char *unit)
{
    if (me == 0) {
        printf("host %s %.6f %s\n", name, value, unit);
        fflush(stdout);
    }
}

/* Processor time of the threads of this process beside the main one, in seconds. */
static double time_of_other_threads(void)
{
    double sum = 0;
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    while (threads != NULL && (thread = readdir(threads)) != NULL) {
        char path[320];
        long long spent;
        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", thread->d_name);
        FILE *file = atoi(thread->d_name) == getpid() ? NULL : fopen(path, "r");
        if (file == NULL) {
            continue;
        }
        if (fscanf(file, "%lld", &spent) == 1) {
            sum += spent / 1e9;
        }
        fclose(file);
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return sum;
}

/* Processor time of this process and its reaped children, in seconds. */
static double processor_time(void)
{
    double sum = 0;
    for (int who = 0; who < 2; who++) {
        struct rusage used;
        getrusage(who == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &used);
        sum += used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

/* Another user's process, with this many idle connections to this server. */
__attribute__((noinline)) static pid_t hold_idle(const pmix_proc_t *proc)
{
    const uid_t nobody = 65534;
    char **env = NULL;
    if (PMIx_server_setup_fork(proc, &env) != PMIX_SUCCESS) {
        fail("PMIx_server_setup_fork", 0);
    }
    const char *port = NULL;
    for (char **variable = env; *variable != NULL; variable++) {
        if (strncmp(*variable, "PMIX_SERVER_URI41=", 18) == 0) {
            port = strrchr(*variable, ':') + 1;
        }
    }
    int ready[2];
    if (port == NULL || pipe(ready) != 0) {
        fail("a port", errno);
    }
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = { (rlim_t)idle + 64, (rlim_t)idle + 64 };
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || setresgid(nobody, nobody, nobody) != 0
            || setresuid(nobody, nobody, nobody) != 0) {
            _exit(1);
        }
        for (int i = 0; i < idle; i++) {
            if (connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&server, sizeof(server)) != 0) {
                _exit(1);
            }
        }
        /* Give the server time to accept the connections, so that they are idle. */
        struct timespec settle = { 0, 500 * 1000 * 1000 };
        nanosleep(&settle, NULL);
        write_all(ready[1], "", 1);
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    char is_ready;
    if (pid < 0 || !read_all(ready[0], &is_ready, 1)) {
        fail("idle connections", errno);
    }
    close(ready[0]);
    return pid;
}

static int serve(void)
{
    char host[16], tmpdir[] = "/dev/shm/pmix-bench-XXXXXX";
    node_name(host, me);
    if (mkdtemp(tmpdir) == NULL) {
        fail("mkdtemp", errno);
    }
    size = place(shape, nodes, per_node);
    if (size == 0) {
        fail("malloc", ENOMEM);
    }
    struct of_node *of_nodes = ranks_of_nodes();
    setenv("BENCH_TMPDIR", tmpdir, 1);
    pmix_info_t settings[3] = { 0 };
    set_text(&settings[0], PMIX_SERVER_TMPDIR, tmpdir);
    set_text(&settings[1], PMIX_HOSTNAME, host);
    set_text(&settings[2], PMIX_SYSTEM_TMPDIR, tmpdir);
    double start = now();
    pmix_status_t status = PMIx_server_init(&module, settings, 3);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_init", status);
    }
    report("init", (now() - start) / 1e6, "ms");
    start_exchange();

    long before = own_memory();
    pmix_info_t *infos;
    size_t count = make_job(of_nodes, &infos);
    call_t registered = CALL;
    start = now();
    status = wait_for(&registered, PMIx_server_register_nspace(NSPACE, clients, infos, count, done, &registered));
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_register_nspace", status);
    }
    report("register", (now() - start) / 1e6, "ms");
    munmap(arena.start, arena.len);
    arena.start = MAP_FAILED;

    pid_t *pids = need(calloc(clients, sizeof(*pids)));
    pmix_proc_t *procs = need(calloc(clients, sizeof(*procs)));
    for (int i = 0; i < clients; i++) {
        strcpy(procs[i].nspace, NSPACE);
        procs[i].rank = of_nodes[me].ranks[i];
        call_t added = CALL;
        status = wait_for(&added, PMIx_server_register_client(&procs[i], geteuid(), getegid(), NULL, done, &added));
        if (status != PMIX_SUCCESS) {
            fail("PMIx_server_register_client", status);
        }
    }
    fflush(stdout);
    pid_t holder = idle > 0 ? hold_idle(&procs[0]) : 0;
    char begun[32];
    snprintf(begun, sizeof(begun), "%.0f", now());
    setenv("BENCH_BEGUN", begun, 1);
    double spent = processor_time(), served = time_of_other_threads();
    for (int i = 0; i < clients; i++) {
        char **env = NULL;
        for (char **variable = environ; *variable != NULL; variable++) {
            PMIX_ARGV_APPEND(status, env, *variable);
        }
        status = PMIx_server_setup_fork(&procs[i], &env);
        if (status != PMIX_SUCCESS) {
            fail("PMIx_server_setup_fork", status);
        }
        pids[i] = vfork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execvpe(command[0], command, env);
            _exit(127);
        }
    }
    int result = 0;
    for (int i = 0; i < clients; i++) {
        int ended;
        if (pids[i] < 0 || waitpid(pids[i], &ended, 0) < 0) {
            fail("waitpid", errno);
        }
        result |= ended;
    }
    if (holder > 0) {
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
    }
    report("processor", (processor_time() - spent) * 1e3, "ms");
    report("served", (time_of_other_threads() - served) * 1e3, "ms");
    /* Measured here, because the server allocates a part of it when clients connect. */
    report("memory", own_memory() - before, "KiB");
    nftw(tmpdir, add_file, 8, FTW_PHYS);
    report("stored", stored, "B");
    call_t deregistered = CALL;
    start = now();
    PMIx_server_deregister_nspace(NSPACE, done, &deregistered);
    wait_for(&deregistered, PMIX_SUCCESS);
    report("deregister", (now() - start) / 1e6, "ms");
    PMIx_server_finalize();
    char remove[64];
    snprintf(remove, sizeof(remove), "rm -rf %s", tmpdir);
    result |= system(remove);
    return result == 0 ? 0 : 1;
}

/* ---- the process that starts the servers -------------------------------------------------------------------------- */

/* Assigns the positions of the servers' contributions, and reports when all are stored. */
static void carry_fences(int fds[])
{
    struct positions *places = need(calloc(servers, sizeof(*places)));
    for (size_t part = 0; servers > 1; part = (part + 1) % PARTS) {
        uint64_t first = part * part_len, end = first;
        for (int i = 0; i < servers; i++) {
            places[i].own = end;
            if (!read_all(fds[i], &places[i].own_len, sizeof(places[i].own_len))) {
                return;
            }
            end += places[i].own_len;
        }
        if (end - first > part_len) {
            fail("a fence of more than 1 GiB", 0);
        }
        for (int i = 0; i < servers; i++) {
            places[i].all = first;
            places[i].all_len = end - first;
            write_all(fds[i], &places[i], sizeof(places[i]));
        }
        char is_done;
        for (int i = 0; i < servers; i++) {
            if (!read_all(fds[i], &is_done, 1)) {
                return;
            }
        }
        for (int i = 0; i < servers; i++) {
            write_all(fds[i], &is_done, 1);
        }
    }
}

/* A socket for each two servers: row S has server S's ends. */
static int *connect_servers(void)
{
    int *mesh = need(malloc(sizeof(*mesh) * servers * servers));
    for (int one = 0; one < servers; one++) {
        mesh[one * servers + one] = -1;
        for (int other = 0; other < one; other++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                fail("socketpair", errno);
            }
            mesh[one * servers + other] = pair[0];
            mesh[other * servers + one] = pair[1];
        }
    }
    return mesh;
}

int main(int argc, char **argv)
{
    if (getenv("BENCH_SHAPE") != NULL) {
        shape = getenv("BENCH_SHAPE");
    }
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        int *number = strcmp(argv[i], "--servers") == 0    ? &servers
                      : strcmp(argv[i], "--clients") == 0  ? &clients
                      : strcmp(argv[i], "--nodes") == 0    ? &nodes
                      : strcmp(argv[i], "--per-node") == 0 ? &per_node
                      : strcmp(argv[i], "--idle") == 0     ? &idle
                      : strcmp(argv[i], "--timeout") == 0  ? &timeout_s
                                                           : NULL;
        if (number != NULL && i + 1 < argc) {
            *number = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--infos") == 0) {
            with_infos = true;
        } else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc) {
            shape = argv[++i];
        } else if (strcmp(argv[i], "--published") == 0 && i + 1 < argc) {
            published = argv[++i];
        } else {
            fprintf(stderr, "host: unknown option %s\n", argv[i]);
            return 64;
        }
    }
    command = argv + i;
    nodes = nodes > servers ? nodes : servers;
    per_node = per_node > clients ? per_node : clients;
    if (*command == NULL || servers < 1 || clients < 1 || (published != NULL && servers > 1)) {
        fprintf(stderr, "usage: host [--servers S] [--clients C] [--nodes N] [--per-node P] [--infos] [--shape NAME] [--published FILE]"
                        " [--idle N] [--timeout T] PROGRAM [ARGS...]\n");
        return 64;
    }
    char number[16];
    sprintf(number, "%d", servers);
    setenv("BENCH_SERVERS", number, 1);
    sprintf(number, "%d", clients);
    setenv("BENCH_CLIENTS", number, 1);
    sprintf(number, "%d", per_node);
    setenv("BENCH_PER_NODE", number, 1);
    setenv("BENCH_SHAPE", shape, 1);
    alarm(timeout_s);
    signal(SIGPIPE, SIG_IGN);
    exchanged = mmap(NULL, PARTS * part_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (exchanged == MAP_FAILED) {
        fail("mmap", errno);
    }
    totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (totals == MAP_FAILED) {
        fail("mmap", errno);
    }
    int *fds = need(calloc(servers, sizeof(*fds)));
    pid_t *pids = need(calloc(servers, sizeof(*pids)));
    int *mesh = connect_servers();
    for (int s = 0; s < servers; s++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            fail("socketpair", errno);
        }
        pids[s] = fork();
        if (pids[s] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int other = 0; other < s; other++) {
                close(fds[other]);
            }
            close(pair[0]);
            me = s;
            up = pair[1];
            to_server = mesh + s * servers;
            for (int end = 0; end < servers * servers; end++) {
                if (end / servers != s && mesh[end] >= 0) {
                    close(mesh[end]);
                }
            }
            alarm(timeout_s);
            exit(serve());
        }
        close(pair[1]);
        fds[s] = pair[0];
    }
    for (int end = 0; end < servers * servers; end++) {
        if (mesh[end] >= 0) {
            close(mesh[end]);
        }
    }
    carry_fences(fds);
    int result = 0;
    for (int s = 0; s < servers; s++) {
        int ended;
        waitpid(pids[s], &ended, 0);
        result |= ended;
    }
    report("fenced", totals->fenced, "B");
    report("requests", totals->requests, "times");
    report("answered", totals->answered, "B");
    return result == 0 ? 0 : 1;
}
