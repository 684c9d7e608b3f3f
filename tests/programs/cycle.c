/* Starts and stops the library many times in one process: no resource may remain.
 *
 *   cycle client N      as a rank of a job: init, put, commit, fence, get, event handler, finalize, N times
 *   cycle server N      as a host: init, register a namespace and a client, deregister, finalize, N times
 *   cycle fork N        as a host whose other threads keep the server busy: forks N times, and each child asks for a
 *                       client's environment, as slurmstepd's do
 *   cycle fences N      as a host that forks as long as a rank runs "cycle writer N"; each child asks for the rank's
 *                       environment
 *   cycle writer N      as a rank of a job: puts a large value anew N times, with a fence each time
 *   cycle jobs N        as a host: registers and deregisters N jobs one after the other; for every hundredth a rank
 *                       runs "cycle client 1". Prints its resources after a tenth, half and all of them
 *
 *   cycle steady N      as a rank of a host that is its parent: enters N fences; each 16th collects a value that is put anew
 *
 * jobs and steady print 50 lines "sample WHO AT ...", if CYCLE_SAMPLES is set: memory, descriptors, mappings, files and the processor time of one job
 * or fence since the line before.
 *
 * After the first cycle and after the last it counts open descriptors, threads, mappings of files, and environment
 * variables, and prints "before: ..." and "after: ...", which the test compares. Exit status 0 if every call
 * succeeded.
 */
#include "common.h"

#include <pmix_server.h>

#include <ftw.h>
#include <signal.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static void expect(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        say("%s: %s (%d)", what, PMIx_Error_string(status), status);
        exit(1);
    }
}

static int count_shared_mappings(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        count += strstr(line, "pmix-dstore-") != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return count;
}

static void count_all(const char *when)
{
    int variables = 0, handled = 0;
    while (environ[variables] != NULL) {
        variables++;
    }
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        handled += sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    }
    say("%s: %d descriptors, %d threads, %d segments, %d variables, %d signals handled", when,
        count_entries("/proc/self/fd"), count_entries("/proc/self/task"), count_shared_mappings(), variables, handled);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void) id, (void) status, (void) source, (void) info, (void) ninfo, (void) results, (void) nresults;
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
    }
}

static void cycle_client(int cycle)
{
    pmix_proc_t me;
    expect("PMIx_Init", PMIx_Init(&me, NULL, 0));
    pmix_value_t value = value_uint32(100 + cycle);
    expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "t.cycle", &value));
    expect("PMIx_Commit", PMIx_Commit());
    expect("PMIx_Fence", collecting_fence());
    pmix_value_t *found;
    expect("PMIx_Get", PMIx_Get(&me, "t.cycle", NULL, 0, &found));
    if (found->type != PMIX_UINT32 || found->data.uint32 != 100u + cycle) {
        say("cycle %d found %u", cycle, found->data.uint32);
        exit(1);
    }
    PMIX_VALUE_RELEASE(found);
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 6;
    /* Blocking, as there is no callback; the id is the result. */
    pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    if (id < 0) {
        expect("PMIx_Register_event_handler", id);
    }
    expect("PMIx_Finalize", PMIx_Finalize(NULL, 0));
}

static void start_server(pmix_proc_t *proc)
{
    pmix_server_module_t module = { 0 };
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_TMPDIR, value_string(getenv("TMPDIR")));
    expect("PMIx_server_init", PMIx_server_init(&module, infos.items, infos.count));
    free_infos(&infos);
    *proc = proc_of("cycle-job", 0);
    add(&infos, PMIX_JOB_SIZE, value_uint32(1));
    expect("PMIx_server_register_nspace",
           PMIx_server_register_nspace(proc->nspace, 1, infos.items, infos.count, NULL, NULL));
    free_infos(&infos);
    expect("PMIx_server_register_client", PMIx_server_register_client(proc, getuid(), getgid(), NULL, NULL, NULL));
}

static int make_environment(const pmix_proc_t *proc)
{
    char **env = NULL;
    int found = 0;
    expect("PMIx_server_setup_fork", PMIx_server_setup_fork(proc, &env));
    for (int i = 0; env != NULL && env[i] != NULL; i++) {
        found += strncmp(env[i], "PMIX_DSTORE_SEGMENTS=", 21) == 0;
        free(env[i]);
    }
    free(env);
    return found;
}

static void end_server(const pmix_proc_t *proc)
{
    PMIx_server_deregister_client(proc, NULL, NULL);
    PMIx_server_deregister_nspace(proc->nspace, NULL, NULL);
    expect("PMIx_server_finalize", PMIx_server_finalize());
}

static void cycle_server(void)
{
    pmix_proc_t proc;
    start_server(&proc);
    make_environment(&proc);
    end_server(&proc);
}

static atomic_bool is_over;

static void op_done(pmix_status_t status, void *cbdata) { (void) status, (void) cbdata; }

static void *be_busy(void *argument)
{
    while (!is_over) {
        PMIx_server_register_client(argument, getuid(), getgid(), NULL, op_done, NULL);
    }
    return NULL;
}

static void take_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t count,
                       pmix_info_t results[], size_t result_count, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id, (void) status, (void) source, (void) info, (void) count, (void) results, (void) result_count;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void *get_in_child(void *proc)
{
    pmix_value_t *value = NULL;
    PMIx_Get(proc, "of a rank", NULL, 0, &value);
    return NULL;
}

/* A child of a host that forks itself, as a program that becomes a daemon, and makes calls that its copy of the server cannot answer, in two
 * threads. They need not succeed. */
static bool child_goes_on(pmix_proc_t *proc)
{
    int state = 0;
    pthread_t thread;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, &state, 0);
    get_in_child(proc);
    PMIx_Register_event_handler(NULL, 0, NULL, 0, take_event, NULL, NULL);
    if (pthread_create(&thread, NULL, get_in_child, proc) == 0) {
        pthread_join(thread, NULL);
    }
    return child > 0 && state == 0;
}

static void fork_often(int forks)
{
    enum { BUSY = 2 };
    pthread_t busy[BUSY];
    pmix_proc_t proc;
    start_server(&proc);
    for (int i = 0; i < BUSY; i++) {
        pthread_create(&busy[i], NULL, be_busy, &proc);
    }
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(100);
            _exit(child_goes_on(&proc) && make_environment(&proc) == 1 ? 0 : 2);
        }
        int state = 0;
        if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
            say("child %d: state %d", i, state);
            exit(1);
        }
    }
    is_over = true;
    for (int i = 0; i < BUSY; i++) {
        pthread_join(busy[i], NULL);
    }
    end_server(&proc);
    /* The child of a process that was a host may be one, too. */
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        pmix_value_t *value = NULL;
        start_server(&proc);
        bool has_none = PMIx_Get(&proc, "of a rank", NULL, 0, &value) == PMIX_ERR_NOT_FOUND;
        end_server(&proc);
        _exit(has_none ? 0 : 2);
    }
    if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
        say("the child that is a host: state %d", state);
        exit(1);
    }
    say("%d children done", forks);
}

enum { LARGE = 16 << 20 };

static void write_often(int fences)
{
    pmix_proc_t me;
    char *bytes = malloc(LARGE);
    expect("PMIx_Init", PMIx_Init(&me, NULL, 0));
    for (int fence = 0; fence < fences; fence++) {
        memset(bytes, fence, LARGE);
        pmix_value_t value = value_bytes(bytes, LARGE);
        expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "t.large", &value));
        expect("PMIx_Commit", PMIx_Commit());
        expect("PMIx_Fence", collecting_fence());
        pmix_value_t *found;
        expect("PMIx_Get", PMIx_Get(&me, "t.large", NULL, 0, &found));
        if (found->data.bo.size != LARGE || found->data.bo.bytes[LARGE - 1] != (char) fence) {
            say("fence %d: another value", fence);
            exit(1);
        }
        PMIX_VALUE_RELEASE(found);
    }
    free(bytes);
    expect("PMIx_Finalize", PMIx_Finalize(NULL, 0));
}

static pid_t start_client(const pmix_proc_t *proc, const char *what, const char *count);

/* Each child asks while the server's other threads are at any step of a publication. */
static void fork_beside_fences(const char *fences)
{
    pmix_proc_t proc;
    int forks = 0, state = 0;
    start_server(&proc);
    int threads = count_entries("/proc/self/task");
    pid_t writer = start_client(&proc, "writer", fences);
    pid_t ended = 0;
    while (ended == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(100);
            _exit(make_environment(&proc) == 1 ? 0 : 2);
        }
        if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
            say("child %d: state %d", forks, state);
            exit(1);
        }
        forks++;
        ended = waitpid(writer, &state, WNOHANG);
    }
    if (ended != writer || state != 0) {
        say("writer: state %d", state);
        exit(1);
    }
    int publishing = count_entries("/proc/self/task") - threads;
    end_server(&proc);
    say("%s children, %d threads more, %d threads left", forks > 0 ? "some" : "no", publishing,
        count_entries("/proc/self/task"));
}

enum { JOBS_FOR_A_CLIENT = 100 };

static int files;

static int count_file(const char *path, const struct stat *state, int type, struct FTW *where)
{
    (void) path, (void) state, (void) type, (void) where;
    files++;
    return 0;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int count = 0;
    for (int c; file != NULL && (c = getc(file)) != EOF;) {
        count += c == '\n';
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static long kib_of(const char *statm)
{
    long size = 0, resident = 0;
    FILE *file = fopen(statm, "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) {
        exit(1);
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static long resident_kib(void) { return kib_of("/proc/self/statm"); }

enum { SAMPLES = 50 };

/* The time that the processors have spent on a process: others on the machine do not count. */
static double seconds_of(pid_t process)
{
    struct timespec time = { 0 };
    clockid_t clock;
    if (clock_getcpuclockid(process, &clock) == 0) {
        clock_gettime(clock, &time);
    }
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* The memory of its own that a process has, in KiB: of files it maps what others have published. */
static long own_kib(const char *status_file)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen(status_file, "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL && sscanf(line, "RssAnon: %ld", &kib) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib;
}

static void sample(const char *who, pid_t process, int at, int many)
{
    /* Of this process and, after it, of its parent. */
    static double last[2];
    static int last_at[2];
    int place = process != getpid();
    char path[3][64];
    const char *names[3] = { "status", "fd", "maps" };
    if (getenv("CYCLE_SAMPLES") == NULL || (at % ((many + SAMPLES - 1) / SAMPLES) != 0 && at != 1)) {
        return;
    }
    double time = seconds_of(process);
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof(path[i]), "/proc/%d/%s", process, names[i]);
    }
    files = 0;
    nftw(getenv("TMPDIR"), count_file, 16, FTW_PHYS);
    if (at > 1) {
        say("sample %s %d: %ld KiB, %d descriptors, %d mappings, %d files, %.3f us", who, at, own_kib(path[0]),
            count_entries(path[1]), count_lines(path[2]), files, (time - last[place]) / (at - last_at[place]) * 1e6);
    }
    last[place] = seconds_of(process);
    last_at[place] = at;
}

static void enter_often(int fences)
{
    pmix_proc_t me;
    expect("PMIx_Init", PMIx_Init(&me, NULL, 0));
    for (int fence = 1; fence <= fences; fence++) {
        if (fence % 1024 == 0) {
            alarm(100); /* So many take less, unless one hangs. */
        }
        bool collects = fence % 16 == 0;
        if (collects) {
            pmix_value_t value = value_uint32(fence);
            expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "t.steady", &value));
            expect("PMIx_Commit", PMIx_Commit());
        }
        expect("PMIx_Fence", fence_of_all(collects));
        if (collects) {
            pmix_value_t *found;
            pmix_proc_t of = proc_of(me.nspace, 0);
            expect("PMIx_Get", PMIx_Get(&of, "t.steady", NULL, 0, &found));
            /* Stock clients keep what they have read first. */
            bool is_ours = strstr(PMIx_Get_version(), "pmix-dstore") != NULL;
            if (found->type != PMIX_UINT32 || (is_ours && found->data.uint32 < (uint32_t) fence)) {
                say("fence %d: another value", fence);
                exit(1);
            }
            PMIX_VALUE_RELEASE(found);
        }
        if (me.rank == 0) {
            sample("server", getppid(), fence, fences);
            sample("rank", getpid(), fence, fences);
        }
    }
    expect("PMIx_Finalize", finalize_together());
    say("%u: %d fences done", me.rank, fences);
}

static void hold(int percent, int idle)
{
    int descriptors = count_entries("/proc/self/fd");
    /* The server's thread may be about to close some. */
    for (int wait = 0; descriptors > idle && wait < 1000; wait++) {
        usleep(10000);
        descriptors = count_entries("/proc/self/fd");
    }
    files = 0;
    nftw(getenv("TMPDIR"), count_file, 16, FTW_PHYS);
    say("%d %%: %d descriptors, %d threads, %d segments, %d files, %d mappings, %ld KiB", percent, descriptors,
        count_entries("/proc/self/task"), count_shared_mappings(), files, count_lines("/proc/self/maps"), resident_kib());
}

/* Starts this program as a rank. */
static pid_t start_client(const pmix_proc_t *proc, const char *what, const char *count)
{
    char **env = NULL;
    expect("PMIx_server_setup_fork", PMIx_server_setup_fork(proc, &env));
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; env[i] != NULL; i++) {
            putenv(env[i]);
        }
        execl("/proc/self/exe", "cycle", what, count, NULL);
        _exit(127);
    }
    for (int i = 0; env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
    return pid;
}

static void run_client(const pmix_proc_t *proc)
{
    int state = 0;
    pid_t pid = start_client(proc, "client", "1");
    if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
        say("client of %s: state %d", proc->nspace, state);
        exit(1);
    }
}

static void run_jobs(int jobs)
{
    pmix_server_module_t module = { 0 };
    infos_t infos = { 0 };
    int clients = 0;
    add(&infos, PMIX_SERVER_TMPDIR, value_string(getenv("TMPDIR")));
    expect("PMIx_server_init", PMIx_server_init(&module, infos.items, infos.count));
    free_infos(&infos);
    int idle = count_entries("/proc/self/fd");
    for (int job = 1; job <= jobs; job++) {
        char name[32];
        snprintf(name, sizeof(name), "job-%d", job);
        pmix_proc_t proc = proc_of(name, 0);
        add(&infos, PMIX_JOB_SIZE, value_uint32(1));
        add(&infos, PMIX_NODE_MAP, value_string("n0"));
        add(&infos, PMIX_PROC_MAP, value_string("0"));
        expect("PMIx_server_register_nspace",
               PMIx_server_register_nspace(proc.nspace, 1, infos.items, infos.count, NULL, NULL));
        free_infos(&infos);
        expect("PMIx_server_register_client",
               PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
        if (job % JOBS_FOR_A_CLIENT == JOBS_FOR_A_CLIENT / 2) {
            run_client(&proc);
            clients++;
        }
        PMIx_server_deregister_client(&proc, NULL, NULL);
        PMIx_server_deregister_nspace(proc.nspace, NULL, NULL);
        sample("server", getpid(), job, jobs);
        if (job == jobs / 10 || job == jobs / 2 || job == jobs) {
            hold((int) (100LL * job / jobs), idle);
        }
    }
    expect("PMIx_server_finalize", PMIx_server_finalize());
    say("%d jobs, %d clients", jobs, clients);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: cycle client|server|fork|fences|writer|jobs|steady N\n");
        return 64;
    }
    bool is_host_of_many = strcmp(argv[1], "jobs") == 0;
    /* Some 10 ms for a cycle, on a machine that is busy. */
    alarm(is_host_of_many ? 3000 : 100 + atoi(argv[2]) / 100);
    if (is_host_of_many) {
        run_jobs(atoi(argv[2]));
        return 0;
    }
    if (strcmp(argv[1], "fork") == 0) {
        fork_often(atoi(argv[2]));
        return 0;
    }
    if (strcmp(argv[1], "fences") == 0) {
        fork_beside_fences(argv[2]);
        return 0;
    }
    if (strcmp(argv[1], "writer") == 0) {
        write_often(atoi(argv[2]));
        return 0;
    }
    if (strcmp(argv[1], "steady") == 0) {
        enter_often(atoi(argv[2]));
        return 0;
    }
    bool server = strcmp(argv[1], "server") == 0;
    int cycles = atoi(argv[2]);
    for (int cycle = 0; cycle < cycles; cycle++) {
        if (server) {
            cycle_server();
        } else {
            cycle_client(cycle);
        }
        if (cycle == 0 || cycle == cycles - 1) {
            count_all(cycle == 0 ? "before" : "after");
        }
    }
    return 0;
}
