/* Processes that die, and the effects on the others.
 *
 *   mortal point CALL MOMENT     a job of 4; rank 1 dies in CALL (before, init, commit, fence, get, finalize) at the
 *                                system call that MOMENT names (connect, send, receive, wait, map)
 *   mortal random ROUNDS SEED    jobs of 4 in one server, 3 of whose ranks are killed at moments that SEED determines
 *   mortal orphans               a job of 4 whose server is killed: reads go on, calls that wait end; prints how long
 *                                the last of them took
 *   mortal storm SECONDS SEED    as random, for so long, beside a job of the same server that must see nothing of it
 *   mortal servers SECONDS SEED  servers with jobs of 4 that are killed at random moments, beside one in the same directory that
 *                                must see nothing of it; the next server removes what a killed one leaves
 *   mortal steady STOP           a rank of the job beside: fences and reads until the file STOP is there
 *   mortal rank [CALL MOMENT]    a rank of the first two; under another launcher CALL may also be exit, by which
 *                                rank 1 ends without PMIx_Finalize, and stay, by which all wait to be killed
 *   mortal orphan                a rank of the third
 *
 * Prints "WHAT done" at the end, and before it a line for each fault; exit status 0 without a fault.
 * MORTAL_ALARM is the time in seconds after which a rank counts as one that hangs: SIGALRM ends it then.
 * MORTAL_RANK_LIBRARY is the LD_LIBRARY_PATH of the ranks, where it is another one than the host's.
 * TMPDIR is the directory of the server's files; they are gone at the end, except for those of a killed server.
 */
#include "common.h"

#include <pmix_server.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define RANK_COUNT 4
#define ROUND_COUNT 6 /* of values put by each rank */

static pmix_proc_t me;
static int wrong;
static const char *self;

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDOUT_FILENO, format, args);
    va_end(args);
    wrong++;
}

static void must(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("rank %u: %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
        exit(1);
    }
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

/* From here on this process dies at the next of these system calls, before anything of it is done. */
static void die_at(const char *moment)
{
    static const struct {
        const char *name;
        int calls[4];
    } moments[] = {
        { "connect", { SYS_connect, SYS_connect, SYS_connect, SYS_connect } },
        { "send", { SYS_sendto, SYS_sendmsg, SYS_writev, SYS_write } },
        { "receive", { SYS_recvfrom, SYS_recvmsg, SYS_readv, SYS_recvmsg } },
        { "wait", { SYS_poll, SYS_ppoll, SYS_futex, SYS_epoll_wait } },
        { "map", { SYS_mmap, SYS_mmap, SYS_mmap, SYS_mmap } },
    };
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        const int *calls = moments[i].calls;
        if (strcmp(moment, moments[i].name) != 0) {
            continue;
        }
        /* Of mmap only that of a shared file counts: the C library maps memory and libraries, too. */
        unsigned flags = strcmp(moment, "map") == 0 ? MAP_SHARED : 0;
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[0], 4, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[1], 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[2], 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[3], 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
            BPF_STMT(BPF_ALU | BPF_AND | BPF_K, flags),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
            say("seccomp: %s", strerror(errno));
            exit(76);
        }
        return;
    }
    raise(SIGKILL);
}

static void text_of(char *text, uint32_t rank, int round)
{
    int len = sprintf(text, "%u/%d:", rank, round);
    memset(text + len, 'a' + (int) (rank * 7 + round) % 26, 300);
    text[len + 300] = '\0';
}

/* Reads a rank's value of a round. The caller knows whether it must exist; if it exists it must be right. */
static void check_value(uint32_t rank, int round, bool must_be_there)
{
    pmix_proc_t of = me;
    of.rank = rank;
    char key[40], expected[400];
    pmix_value_t *found = NULL;
    pmix_info_t at_once = { .key = PMIX_IMMEDIATE, .value = value_bool(true) };
    snprintf(key, sizeof(key), "t.round%d", round);
    text_of(expected, rank, round);
    pmix_status_t status = PMIx_Get(&of, key, &at_once, must_be_there ? 0 : 1, &found);
    if (status != PMIX_SUCCESS) {
        if (must_be_there) {
            complain("rank %u: %s of rank %u: %s", me.rank, key, rank, PMIx_Error_string(status));
        }
        return;
    }
    if (found->type != PMIX_STRING || strcmp(found->data.string, expected) != 0) {
        complain("rank %u: a wrong value of rank %u", me.rank, rank);
    }
    PMIX_VALUE_RELEASE(found);
    /* A key that is put again and again: the latest value or one after it. */
    status = PMIx_Get(&of, "t.again", &at_once, must_be_there ? 0 : 1, &found);
    if (status == PMIX_SUCCESS) {
        /* Stock clients keep the first one. */
        bool is_stock = strstr(PMIx_Get_version(), "pmix-dstore") == NULL;
        int least = must_be_there && !is_stock ? round : 0;
        if (found->type != PMIX_INT || found->data.integer < (int) rank * 1000 + least ||
            found->data.integer > (int) rank * 1000 + round + 1) {
            complain("rank %u: rank %u put %d, found in round %d", me.rank, rank, found->data.integer, round);
        }
        PMIX_VALUE_RELEASE(found);
    }
}

/* How long a rank may take before it counts as one that hangs. */
static unsigned patience(void)
{
    const char *text = getenv("MORTAL_ALARM");
    return text == NULL ? 90 : (unsigned) atoi(text);
}

static int run_rank(const char *call, const char *moment)
{
    alarm(patience());
    const char *number = getenv("PMIX_RANK");
    bool is_mortal = call != NULL && number != NULL && strcmp(number, "1") == 0;
#define MAYBE_DIE(name) \
    if (is_mortal && strcmp(call, name) == 0) \
    die_at(moment)
    MAYBE_DIE("before");
    MAYBE_DIE("init");
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    if (is_mortal && strcmp(call, "exit") == 0) {
        exit(0);
    }
    if (call != NULL && strcmp(call, "stay") == 0) {
        say("staying %d", getpid());
        pause();
    }
    pmix_status_t broken = PMIX_SUCCESS;
    for (int round = 0; round < ROUND_COUNT; round++) {
        char key[40], text[400];
        snprintf(key, sizeof(key), "t.round%d", round);
        text_of(text, me.rank, round);
        pmix_value_t value = value_string(text), again = value_int(me.rank * 1000 + round);
        must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
        must(PMIx_Put(PMIX_GLOBAL, "t.again", &again), "PMIx_Put");
        free_value(&value);
        if (round == 2) {
            MAYBE_DIE("commit");
        }
        must(PMIx_Commit(), "PMIx_Commit");
        if (round == 2) {
            MAYBE_DIE("fence");
        }
        pmix_status_t status = collecting_fence();
        if (status != PMIX_SUCCESS && broken != PMIX_SUCCESS && status != broken) {
            complain("rank %u: fence: %s, before it was %s", me.rank, PMIx_Error_string(status),
                     PMIx_Error_string(broken));
        }
        broken = status != PMIX_SUCCESS ? status : broken;
        if (round == 2 && is_mortal && strcmp(call, "get") == 0) {
            pmix_proc_t of = me;
            of.rank = 0;
            pmix_value_t *found = NULL;
            die_at(moment);
            PMIx_Get(&of, "t.absent", NULL, 0, &found);
        }
        for (uint32_t rank = 0; rank < RANK_COUNT; rank++) {
            check_value(rank, round, status == PMIX_SUCCESS);
        }
    }
    MAYBE_DIE("finalize");
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    if (is_mortal) {
        say("rank 1 survived");
        return 77;
    }
    if (call != NULL || broken != PMIX_SUCCESS) {
        /* By number: texts differ between libraries. */
        say("rank %u: %s: %d", me.rank, broken == PMIX_SUCCESS ? "all fences complete" : "a fence lost somebody",
            broken);
    }
    return wrong ? 3 : 0;
}

/* ---- a rank of the job beside ------------------------------------------------------------------------------------ */

/* Keys are put again and again, so that memory does not grow with the rounds. */
#define STEADY_KEYS 8

static void text_of_round(char *text, uint32_t rank, unsigned round)
{
    int len = sprintf(text, "%u/%u:", rank, round);
    size_t more = (rank * 13 + round * 7) % 600;
    memset(text + len, 'A' + (int) (rank + round) % 26, more);
    text[len + more] = '\0';
}

static void check_steady(uint32_t rank, unsigned round, bool is_stock)
{
    pmix_proc_t of = proc_of(me.nspace, rank);
    char key[40], expected[700];
    unsigned found_rank, found_round = round;
    pmix_value_t *found = NULL;
    snprintf(key, sizeof(key), "t.steady%u", round % STEADY_KEYS);
    must(PMIx_Get(&of, key, NULL, 0, &found), "PMIx_Get beside");
    bool is_text = found->type == PMIX_STRING && sscanf(found->data.string, "%u/%u:", &found_rank, &found_round) == 2;
    /* Stock clients keep what they have read first. */
    bool is_old = is_stock && found_round < round && found_round % STEADY_KEYS == round % STEADY_KEYS;
    text_of_round(expected, rank, is_old ? found_round : round);
    if (!is_text || strcmp(found->data.string, expected) != 0) {
        complain("rank %u beside, round %u: a wrong value of rank %u", me.rank, round, rank);
    }
    PMIX_VALUE_RELEASE(found);
}

/* Rank 0 writes down in which round all stop, before its fence of that round. A link is written and read as a whole. */
static bool is_last_round(const char *stop, unsigned round)
{
    char last[4096], text[40];
    snprintf(last, sizeof(last), "%s.last", stop);
    ssize_t len = readlink(last, text, sizeof(text) - 1);
    if (len <= 0) {
        return false;
    }
    text[len] = '\0';
    return strtoul(text, NULL, 10) <= round;
}

static int run_steady(const char *stop)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool is_stock = strstr(PMIx_Get_version(), "pmix-dstore") == NULL, is_last = false;
    unsigned round = 0;
    alarm(patience());
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init beside");
    for (; !is_last; round++) {
        alarm(patience());
        char key[40], text[700], last[4096], number[40];
        snprintf(key, sizeof(key), "t.steady%u", round % STEADY_KEYS);
        text_of_round(text, me.rank, round);
        pmix_value_t value = value_string(text);
        must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put beside");
        free_value(&value);
        if (me.rank == 0 && access(stop, F_OK) == 0) {
            snprintf(last, sizeof(last), "%s.last", stop);
            snprintf(number, sizeof(number), "%u", round);
            if (symlink(number, last) != 0) {
                complain("%s: %s", last, strerror(errno));
            }
        }
        must(commit_and_collect(), "PMIx_Commit or PMIx_Fence beside");
        is_last = is_last_round(stop, round);
        for (uint32_t rank = 0; rank < RANK_COUNT; rank++) {
            check_steady(rank, round, is_stock);
        }
        must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence beside");
        usleep(2000); /* The machine is for the storm. */
    }
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize beside");
    say("beside: rank %u, %u fences, %u values", me.rank, 2 * round, RANK_COUNT * round);
    return wrong ? 3 : 0;
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

typedef struct {
    pmix_proc_t proc;
    pid_t pid; /* 0 when collected */
    int state;
} rank_t;

static rank_t ranks[RANK_COUNT];
/* Whether each rank that is killed must be in the log. */
static bool is_logged = true;
/* Of the job beside; none has a number where there is no such job. */
static rank_t beside[RANK_COUNT];

/* A host that never answers. */
static pmix_status_t never_found(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
                                 pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) keys, (void) info, (void) ninfo, (void) cbfunc, (void) cbdata;
    return PMIX_SUCCESS;
}

static pmix_status_t never_answered(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                    pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    (void) proc, (void) info, (void) ninfo, (void) cbfunc, (void) cbdata;
    return PMIX_SUCCESS;
}

static void start_server(void)
{
    static pmix_server_module_t module = { .direct_modex = never_answered, .lookup = never_found };
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_TMPDIR, value_string(getenv("TMPDIR")));
    must(PMIx_server_init(&module, infos.items, infos.count), "PMIx_server_init");
    free_infos(&infos);
}

extern char **environ;

static void start_job(int number, char *const *command)
{
    pmix_nspace_t nspace = { 0 };
    snprintf(nspace, sizeof(nspace), "mortal-%d", number);
    infos_t infos = { 0 };
    add(&infos, PMIX_JOB_SIZE, value_uint32(RANK_COUNT));
    add(&infos, PMIX_UNIV_SIZE, value_uint32(RANK_COUNT));
    add(&infos, PMIX_LOCAL_SIZE, value_uint32(RANK_COUNT));
    add(&infos, PMIX_LOCAL_PEERS, value_string("0,1,2,3"));
    /* Stock clients do not start without the location of all ranks. */
    char host[256] = "", *node_map = NULL, *proc_map = NULL;
    gethostname(host, sizeof(host) - 1);
    must(PMIx_generate_regex(host, &node_map), "PMIx_generate_regex");
    must(PMIx_generate_ppn("0,1,2,3", &proc_map), "PMIx_generate_ppn");
    add(&infos, PMIX_NODE_MAP, value_string(node_map));
    add(&infos, PMIX_PROC_MAP, value_string(proc_map));
    free(node_map);
    free(proc_map);
    must(PMIx_server_register_nspace(nspace, RANK_COUNT, infos.items, infos.count, NULL, NULL), "register_nspace");
    free_infos(&infos);
    char **env[RANK_COUNT];
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        rank_t *r = &ranks[rank];
        r->proc = proc_of(nspace, rank);
        must(PMIx_server_register_client(&r->proc, getuid(), getgid(), NULL, NULL, NULL), "register_client");
        size_t count = 0;
        while (environ[count] != NULL) {
            count++;
        }
        env[rank] = need(calloc(count + 1, sizeof(char *)));
        const char *library = getenv("MORTAL_RANK_LIBRARY");
        for (size_t i = 0; i < count; i++) {
            bool is_library = library != NULL && strncmp(environ[i], "LD_LIBRARY_PATH=", 16) == 0;
            env[rank][i] = need(malloc(strlen(environ[i]) + (is_library ? strlen(library) : 0) + 1));
            strcpy(env[rank][i], environ[i]);
            if (is_library) {
                strcpy(env[rank][i] + 16, library);
            }
        }
        must(PMIx_server_setup_fork(&r->proc, &env[rank]), "setup_fork");
    }
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        ranks[rank].pid = fork();
        if (ranks[rank].pid == 0) {
            execve(self, command, env[rank]);
            _exit(71);
        }
        if (ranks[rank].pid < 0) {
            complain("fork: %s", strerror(errno));
            exit(1);
        }
        for (char **at = env[rank]; *at != NULL; at++) {
            free(*at);
        }
        free(env[rank]);
    }
}

/* Collects one rank that has ended, as a host does: its client is deregistered. */
static bool collect(void)
{
    int state;
    pid_t pid = waitpid(-1, &state, WNOHANG);
    for (int rank = 0; pid > 0 && rank < RANK_COUNT; rank++) {
        if (ranks[rank].pid == pid) {
            ranks[rank].pid = 0;
            ranks[rank].state = state;
            if (is_logged && WIFSIGNALED(state)) {
                /* A client that is deregistered before the server's thread has read the end of its connection is not logged as lost. */
                usleep(50 * 1000);
            }
            PMIx_server_deregister_client(&ranks[rank].proc, NULL, NULL);
            return true;
        }
        if (beside[rank].pid == pid) {
            beside[rank].pid = 0;
            beside[rank].state = state;
            PMIx_server_deregister_client(&beside[rank].proc, NULL, NULL);
            return true;
        }
    }
    return false;
}

static int running(void)
{
    int count = 0;
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        count += ranks[rank].pid != 0;
    }
    return count;
}

static int run_point(char *call, char *moment)
{
    start_server();
    char *command[] = { (char *) self, "rank", call, moment, NULL };
    start_job(0, command);
    while (running() > 0) {
        if (!collect()) {
            usleep(1000);
        }
    }
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        int state = ranks[rank].state, expected = strcmp(call, "before") == 0 ? SIGKILL : SIGSYS;
        if (rank == 1 ? !WIFSIGNALED(state) || WTERMSIG(state) != expected : state != 0) {
            complain("rank %d ended with state %#x", rank, state);
        }
    }
    PMIx_server_deregister_nspace(ranks[0].proc.nspace, NULL, NULL);
    must(PMIx_server_finalize(), "PMIx_server_finalize");
    say("point done");
    return wrong != 0;
}

/* ---- random kills ------------------------------------------------------------------------------------------------ */

static uint64_t random_state;
static int killed;

static uint64_t random_number(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* One job; returns how long its last rank ran. */
static double run_round(int number, double longest)
{
    char *command[] = { (char *) self, "rank", NULL };
    double start = now(), kill_at[RANK_COUNT];
    int spared = (int) random_number(RANK_COUNT);
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        kill_at[rank] = rank == spared ? 1e30 : start + longest * (double) random_number(1000000) / 1e6;
    }
    start_job(number, command);
    while (running() > 0) {
        for (int rank = 0; rank < RANK_COUNT; rank++) {
            if (ranks[rank].pid != 0 && kill_at[rank] <= now()) {
                kill(ranks[rank].pid, SIGKILL);
                kill_at[rank] = 1e30;
                killed++;
            }
        }
        if (!collect()) {
            usleep(200);
        }
    }
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        int state = ranks[rank].state;
        if (state != 0 && !(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL && rank != spared)) {
            complain("round %d: rank %d ended with state %#x", number, rank, state);
        }
    }
    PMIx_server_deregister_nspace(ranks[0].proc.nspace, NULL, NULL);
    return now() - start;
}

/* The resident memory of this process that belongs to no file, in KiB. */
static long resident(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL && sscanf(line, "RssAnon: %ld", &kib) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib;
}

/* Waits until the server holds no more than the maxima, or for `wait` milliseconds; returns its resources then. */
static void settle(int *fds, size_t *bytes, int fds_max, size_t bytes_max, int wait)
{
    for (int i = 0; i < wait; i++) {
        *fds = count_entries("/proc/self/fd");
        *bytes = mallinfo2().uordblks;
        if (*fds <= fds_max && *bytes <= bytes_max) {
            break;
        }
        usleep(1000);
    }
}

static int run_random(int rounds, uint64_t seed)
{
    /* All memory in one arena: the figures of the C library are of one only. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MXFAST, 0);
    random_state = seed * 2654435761u + 88172645463325252u;
    int files_before = count_entries(getenv("TMPDIR"));
    start_server();
    int fds_before = 0, fds_after = 0, warm = rounds / 4;
    size_t bytes_before = 0, bytes_after = 0;
    /* How long a job takes here and now, so that the moments spread over its life. */
    double longest = run_round(0, 1e9);
    for (int round = 1; round <= warm; round++) {
        run_round(round, longest);
    }
    settle(&fds_before, &bytes_before, 0, 0, 200);
    int threads_before = count_entries("/proc/self/task");
    long resident_before = resident();
    for (int round = warm + 1; round <= rounds; round++) {
        run_round(round, longest);
    }
    size_t bytes_max = bytes_before + 4096 + (size_t) (rounds - warm) * 64;
    settle(&fds_after, &bytes_after, fds_before, bytes_max, 30000);
    int threads_after = count_entries("/proc/self/task");
    if (threads_after > threads_before) {
        complain("%d threads, %d before", threads_after, threads_before);
    }
    if (fds_after > fds_before) {
        complain("%d descriptors, %d before", fds_after, fds_before);
    }
    if (bytes_after > bytes_max) {
        complain("%zu bytes, %zu before", bytes_after, bytes_before);
    }
    int left = count_entries(getenv("TMPDIR")) - files_before;
    if (left != 0) {
        complain("%d files are left", left);
    }
    must(PMIx_server_finalize(), "PMIx_server_finalize");
    say("killed %d, memory %zu to %zu bytes, resident %ld to %ld KiB, descriptors %d to %d, threads %d to %d", killed,
        bytes_before, bytes_after, resident_before, resident(), fds_before, fds_after, threads_before, threads_after);
    say("random done");
    return wrong != 0;
}

/* ---- storms ------------------------------------------------------------------------------------------------------ */

/* The file that stops the job beside. */
static char stop_file[4096];

static void start_beside(void)
{
    char *command[] = { (char *) self, "steady", stop_file, NULL };
    start_job(0, command);
    memcpy(beside, ranks, sizeof(beside));
    memset(ranks, 0, sizeof(ranks));
}

static void name_stop_file(void)
{
    const char *own = getenv("MORTAL_OWN");
    snprintf(stop_file, sizeof(stop_file), "%s/stop.%d", own == NULL ? "/tmp" : own, getpid());
}

static void remove_stop_files(void)
{
    char last[4200];
    snprintf(last, sizeof(last), "%s.last", stop_file);
    unlink(stop_file);
    unlink(last);
}

static void create_stop_file(void)
{
    FILE *file = fopen(stop_file, "w");
    if (file == NULL || fclose(file) != 0) {
        complain("%s: %s", stop_file, strerror(errno));
    }
}

static int beside_running(void)
{
    int count = 0;
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        count += beside[rank].pid != 0;
    }
    return count;
}

/* Its ranks end by themselves, or by SIGALRM. */
static void end_beside(void)
{
    while (beside_running() > 0) {
        if (!collect()) {
            usleep(1000);
        }
    }
    for (int rank = 0; rank < RANK_COUNT; rank++) {
        if (beside[rank].state != 0) {
            complain("beside: rank %d ended with state %#x", rank, beside[rank].state);
        }
    }
    PMIx_server_deregister_nspace(beside[0].proc.nspace, NULL, NULL);
}

static int run_storm(int seconds, uint64_t seed)
{
    random_state = seed * 2654435761u + 88172645463325252u;
    int files_before = count_entries(getenv("TMPDIR")), jobs = 0;
    is_logged = false;
    name_stop_file();
    start_server();
    start_beside();
    double longest = run_round(1, 1e9), end = now() + seconds;
    /* A job beside that has ended would see no storm. */
    while (now() < end && wrong == 0 && beside_running() == RANK_COUNT) {
        run_round(2 + jobs++, longest);
    }
    if (beside_running() < RANK_COUNT) {
        complain("%d ranks of the job beside ended in the storm", RANK_COUNT - beside_running());
    }
    create_stop_file();
    end_beside();
    remove_stop_files();
    must(PMIx_server_finalize(), "PMIx_server_finalize");
    int left = count_entries(getenv("TMPDIR")) - files_before;
    if (left != 0) {
        complain("%d files are left", left);
    }
    say("storm: %d killed, %d jobs", killed, jobs);
    return wrong != 0;
}

/* The server beside those that are killed. */
static int serve_beside(void)
{
    start_server();
    start_beside();
    end_beside();
    must(PMIx_server_finalize(), "PMIx_server_finalize beside");
    return wrong != 0;
}

/* One job after the other, until it is killed. `first`: one job, and its end. */
static int serve_jobs(bool first)
{
    start_server();
    char *command[] = { (char *) self, "rank", NULL };
    for (int number = 0;; number++) {
        start_job(number, command);
        while (running() > 0) {
            if (!collect()) {
                usleep(200);
            }
        }
        PMIx_server_deregister_nspace(ranks[0].proc.nspace, NULL, NULL);
        if (first) {
            must(PMIx_server_finalize(), "PMIx_server_finalize");
            return wrong != 0;
        }
    }
}

/* A server in a process group of its own, to which its ranks belong, too. */
static pid_t start_mortal_server(bool first)
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        exit(serve_jobs(first));
    }
    setpgid(pid, pid);
    return pid;
}

/* Ranks whose server was killed end with a status that they name, or well. */
static int collect_orphans(pid_t group, int *hangs)
{
    int state, orphans = 0;
    while (waitpid(-group, &state, 0) > 0) {
        orphans++;
        if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM) {
            complain("a rank of a killed server hangs");
            (*hangs)++;
        } else if (!WIFEXITED(state) || (WEXITSTATUS(state) != 0 && WEXITSTATUS(state) != 1)) {
            complain("a rank of a killed server ended with state %#x", state);
        }
    }
    return orphans;
}

static int run_servers(int seconds, uint64_t seed)
{
    random_state = seed * 2654435761u + 88172645463325252u;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int files_before = count_entries(getenv("TMPDIR")), files_max = 0, orphans = 0, hangs = 0, state;
    name_stop_file();
    pid_t steady = fork();
    if (steady == 0) {
        exit(serve_beside());
    }
    double start = now();
    pid_t server = start_mortal_server(true);
    if (waitpid(server, &state, 0) != server || state != 0) {
        complain("a server that nobody kills ended with state %#x", state);
    }
    double longest = now() - start, end = now() + seconds;
    while (now() < end && wrong == 0) {
        server = start_mortal_server(false);
        usleep((useconds_t) (2 * longest * (double) random_number(1000000)));
        kill(server, SIGKILL);
        waitpid(server, &state, 0);
        if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGKILL) {
            complain("a server ended before it was killed, with state %#x", state);
        }
        killed++;
        orphans += collect_orphans(server, &hangs);
        int files = count_entries(getenv("TMPDIR")) - files_before;
        files_max = files > files_max ? files : files_max;
    }
    if (waitpid(steady, &state, WNOHANG) == 0) {
        create_stop_file();
        waitpid(steady, &state, 0);
    }
    if (state != 0) {
        complain("the server beside ended with state %#x", state);
    }
    remove_stop_files();
    /* What the last one has left is for the next one. */
    server = start_mortal_server(true);
    waitpid(server, &state, 0);
    int left = count_entries(getenv("TMPDIR")) - files_before;
    if (left != 0 || state != 0) {
        complain("%d files are left; the last server ended with state %#x", left, state);
    }
    say("servers: %d killed, %d orphans, %d hangs, %d files at most", killed, orphans, hangs, files_max);
    return wrong != 0;
}

/* ---- a server that dies ------------------------------------------------------------------------------------------ */

static volatile int told;

static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    told = status == PMIX_ERR_LOST_CONNECTION ? 1 : -1;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static volatile bool server_gone;

static void *read_on(void *unused)
{
    int after = 0;
    (void) unused;
    while (after < 2000) {
        after += server_gone;
        check_value(after % RANK_COUNT, 0, true);
    }
    return NULL;
}

static void expect_lost(pmix_status_t status, const char *what)
{
    say("woke %.6f %s", now(), what);
    if (status != PMIX_ERR_LOST_CONNECTION) {
        complain("rank %u: %s: %s", me.rank, what, PMIx_Error_string(status));
    }
}

static void *wait_for_value(void *unused)
{
    pmix_proc_t of = me;
    pmix_value_t *found = NULL;
    (void) unused;
    of.rank = RANK_COUNT; /* of an unknown process: the server asks the host, which never answers */
    strcpy(of.nspace, "another-job");
    expect_lost(PMIx_Get(&of, "t.absent", NULL, 0, &found), "a Get that waits");
    return NULL;
}

static void *wait_for_publication(void *unused)
{
    pmix_pdata_t data = { .key = "t.never" };
    pmix_info_t wait = { .key = PMIX_WAIT, .value = value_bool(true) };
    (void) unused;
    expect_lost(PMIx_Lookup(&data, 1, &wait, 1), "a lookup that waits");
    return NULL;
}

static volatile int called_back;

static void on_fence(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    expect_lost(status, "a callback of a fence");
    called_back++;
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    (void) value, (void) cbdata;
    expect_lost(status, "a callback of a Get");
    called_back++;
}

static int run_orphan(void)
{
    alarm(60);
    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    char text[400];
    text_of(text, me.rank, 0);
    pmix_value_t value = value_string(text), again = value_int(me.rank * 1000);
    must(PMIx_Put(PMIX_GLOBAL, "t.round0", &value), "PMIx_Put");
    must(PMIx_Put(PMIX_GLOBAL, "t.again", &again), "PMIx_Put");
    must(commit_and_collect(), "PMIx_Commit or PMIx_Fence");
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    if (me.rank == 2 && PMIx_Register_event_handler(&code, 1, NULL, 0, on_lost, NULL, NULL) < 0) {
        complain("no handler");
    }
    pthread_t reader, waiter;
    pthread_create(&reader, NULL, read_on, NULL);
    if (me.rank == 1 || me.rank == 3) {
        pthread_create(&waiter, NULL, me.rank == 1 ? wait_for_publication : wait_for_value, NULL);
    }
    if (me.rank == 2) {
        pmix_proc_t both[2] = { me, proc_of(me.nspace, 0) }, of = proc_of("another-job", 0);
        must(PMIx_Fence_nb(both, 2, NULL, 0, on_fence, NULL), "PMIx_Fence_nb");
        must(PMIx_Get_nb(&of, "t.absent", NULL, 0, on_value, NULL), "PMIx_Get_nb");
    }
    say("ready");
    if (me.rank != 0) {
        expect_lost(PMIx_Fence(NULL, 0, NULL, 0), "a fence that waits"); /* Rank 0 does not come. */
    } else {
        while (kill(getppid(), 0) == 0 && getppid() == (pid_t) atoi(getenv("MORTAL_SERVER"))) {
            usleep(1000);
        }
        pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
        expect_lost(status, "a fence afterwards");
    }
    server_gone = true;
    again = value_int(me.rank * 1000 + 1);
    must(PMIx_Put(PMIX_GLOBAL, "t.again", &again), "PMIx_Put afterwards");
    expect_lost(PMIx_Commit(), "PMIx_Commit afterwards");
    expect_lost(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence afterwards");
    pthread_join(reader, NULL);
    if (me.rank == 1 || me.rank == 3) {
        pthread_join(waiter, NULL);
    }
    while (me.rank == 2 && (told == 0 || called_back < 2)) {
        usleep(1000);
    }
    if (told < 0) {
        complain("the event is another one");
    }
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    say("orphan done");
    return wrong ? 3 : 0;
}

static int run_orphans(void)
{
    /* The ranks become this process's children when their server dies. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int out[2];
    if (pipe(out) != 0) {
        return 71;
    }
    pid_t server = fork();
    if (server == 0) {
        char pid[20];
        snprintf(pid, sizeof(pid), "%d", getpid());
        setenv("MORTAL_SERVER", pid, 1);
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        start_server();
        char *command[] = { (char *) self, "orphan", NULL };
        start_job(0, command);
        for (;;) {
            pause();
        }
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[2048];
    int ready = 0, done = 0;
    double killed_at = 0, last = 0, woke;
    while (fgets(line, sizeof(line), lines) != NULL) {
        if (strcmp(line, "ready\n") == 0) {
            if (++ready == RANK_COUNT) {
                usleep(100000); /* The ranks enter the waiting call. A later one finds the server gone, as well. */
                killed_at = now();
                kill(server, SIGKILL);
            }
        } else if (sscanf(line, "woke %lf", &woke) == 1) {
            if (killed_at == 0) {
                complain("before its end: %s", strtok(line, "\n"));
            }
            last = woke > last ? woke : last;
        } else if (strcmp(line, "orphan done\n") == 0) {
            done++;
        } else {
            complain("%s", strtok(line, "\n"));
        }
    }
    int state;
    for (pid_t pid; (pid = waitpid(-1, &state, 0)) > 0;) {
        if (pid != server && state != 0) {
            complain("a rank ended with state %#x", state);
        }
    }
    if (done != RANK_COUNT) {
        complain("%d ranks came to their end", done);
    }
    say("the last call ended %.1f ms after the server", (last - killed_at) * 1e3);
    say("orphans done");
    return wrong != 0;
}

int main(int argc, char **argv)
{
    self = argv[0];
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "rank") == 0) {
        return run_rank(argc > 3 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    }
    if (strcmp(mode, "orphan") == 0) {
        return run_orphan();
    }
    if (strcmp(mode, "steady") == 0 && argc == 3) {
        return run_steady(argv[2]);
    }
    bool is_storm = strcmp(mode, "storm") == 0 || strcmp(mode, "servers") == 0;
    alarm(strcmp(mode, "random") == 0 ? 350 : is_storm && argc == 4 ? (unsigned) atoi(argv[2]) + 3 * patience() : 110);
    if (is_storm && argc == 4) {
        return (strcmp(mode, "storm") == 0 ? run_storm : run_servers)(atoi(argv[2]), strtoull(argv[3], NULL, 10));
    }
    if (strcmp(mode, "point") == 0 && argc == 4) {
        return run_point(argv[2], argv[3]);
    }
    if (strcmp(mode, "random") == 0 && argc == 4) {
        return run_random(atoi(argv[2]), strtoull(argv[3], NULL, 10));
    }
    if (strcmp(mode, "orphans") == 0) {
        return run_orphans();
    }
    fprintf(stderr, "usage: mortal point CALL MOMENT | random ROUNDS SEED | storm SECONDS SEED | servers SECONDS SEED | steady STOP | orphans |\n"
                    "       rank [CALL MOMENT]\n");
    return 64;
}
