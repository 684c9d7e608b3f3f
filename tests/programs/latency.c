/* Gets in a loop, to be counted by strace or timed.
 *
 *   latency [--gets N] [--plant] [--time] [--threads] [--occupy]
 *
 * Every rank puts a key and enters a collecting fence. Then each rank does N Gets (default 10000), taking turns among
 * job keys, values of each rank, keys that peers put, and optional misses; each was read once before. A failed
 * close of the descriptor -70001 marks the begin in a trace of system calls, -70002 the end.
 *
 *   --plant      one system call (getppid) is made among the Gets, which a count must notice
 *   --time       measures instead: rank 0 prints the median of each kind in nanoseconds
 *   --threads    prints how many threads the process has after all this
 *   --occupy     before anything else, maps something at each address at which the parent process, which is the
 *                server, has a file of the job mapped, and prints how many those were
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static pmix_proc_t me;
static uint32_t job_size;
static pmix_info_t optional;

enum kind { JOB_KEY, SESSION_KEY, PROC_NUMBER, PROC_TEXT, PEER_KEY, PEER_BYTES, MISS, RESERVED_MISS, KINDS };

static const char *kind_names[KINDS] = { "job size",       "universe size",  "local rank of a peer", "host of a peer",
                                         "key of a peer",  "bytes of a peer", "optional miss",        "reserved miss" };

__attribute__((noreturn)) static void fail(const char *what, pmix_status_t status)
{
    say("rank %u: %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
    _exit(1);
}

/* One Get of a kind; `turn` chooses the peer. Fails the program if the outcome is not the right one. */
static void get_one(enum kind kind, uint32_t turn)
{
    static const char *keys[KINDS] = { PMIX_JOB_SIZE, PMIX_UNIV_SIZE, PMIX_LOCAL_RANK, PMIX_HOSTNAME,
                                       "t.key",       "t.bytes",      "no.such.key",   PMIX_CREDENTIAL };
    /* Filled by hand: clearing 256 bytes of namespace each time is not part of the measurement. */
    static pmix_proc_t proc;
    if (proc.nspace[0] == 0) {
        proc = me;
    }
    proc.rank = kind == JOB_KEY || kind == SESSION_KEY || kind == RESERVED_MISS ? PMIX_RANK_WILDCARD : turn % job_size;
    bool missing = kind == MISS || kind == RESERVED_MISS;
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, keys[kind], missing ? &optional : NULL, missing, &value);
    if (missing ? status != PMIX_ERR_NOT_FOUND : status != PMIX_SUCCESS) {
        fail(kind_names[kind], status);
    }
    if (kind == PEER_KEY && (value->type != PMIX_UINT32 || value->data.uint32 != 100 + proc.rank)) {
        fail("wrong value of a peer", PMIX_ERROR);
    }
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* The median over batches of the time of one Get. */
static double median_of(enum kind kind, int gets)
{
    enum { BATCH = 50, BATCHES_MAX = 1000 };
    static double times[BATCHES_MAX];
    int batches = gets / BATCH < BATCHES_MAX ? gets / BATCH : BATCHES_MAX;
    if (batches < 1) {
        batches = 1;
    }
    for (int batch = 0; batch < batches; batch++) {
        double start = now_ns();
        for (int i = 0; i < BATCH; i++) {
            get_one(kind, me.rank + 1 + i);
        }
        times[batch] = (now_ns() - start) / BATCH;
    }
    qsort(times, batches, sizeof(times[0]), compare);
    return times[batches / 2];
}

/* The launcher, which is the parent of the process that starts the ranks. */
static int launcher(void)
{
    char path[64], line[256];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int) getppid());
    FILE *status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL && sscanf(line, "PPid: %d", &pid) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return pid;
}

/* Takes the addresses of the launcher's shared mappings of files that are no code. */
static void occupy(void)
{
    char path[64], line[4096];
    snprintf(path, sizeof(path), "/proc/%d/maps", launcher());
    FILE *maps = fopen(path, "r");
    int count = 0;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from, to;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[3] == 's' && strchr(line, '/') != NULL) {
            void *at = mmap((void *) from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            count += at != MAP_FAILED;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    say("occupied %d", count);
}

int main(int argc, char **argv)
{
    int gets = 10000;
    bool plant = false, timing = false, threads = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--gets") == 0 && i + 1 < argc) {
            gets = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--plant") == 0) {
            plant = true;
        } else if (strcmp(argv[i], "--time") == 0) {
            timing = true;
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = true;
        } else if (strcmp(argv[i], "--occupy") == 0) {
            occupy();
        } else {
            fprintf(stderr, "usage: latency [--gets N] [--plant] [--time] [--threads] [--occupy]\n");
            return 64;
        }
    }
    alarm(120);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Init", status);
    }
    strcpy(optional.key, PMIX_OPTIONAL);
    optional.value = value_bool(true);
    pmix_value_t *size;
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size);
    if (status != PMIX_SUCCESS) {
        fail("job size", status);
    }
    job_size = size->data.uint32;
    PMIX_VALUE_RELEASE(size);

    pmix_value_t value = value_uint32(100 + me.rank);
    status = PMIx_Put(PMIX_GLOBAL, "t.key", &value);
    char bytes[128] = "128 bytes";
    value = value_bytes(bytes, sizeof(bytes));
    if (status == PMIX_SUCCESS) {
        status = PMIx_Put(PMIX_GLOBAL, "t.bytes", &value);
    }
    free_value(&value);
    if (status == PMIX_SUCCESS) {
        status = commit_and_collect();
    }
    if (status != PMIX_SUCCESS) {
        fail("putting keys", status);
    }
    for (uint32_t turn = 0; turn < job_size; turn++) {
        for (enum kind kind = 0; kind < KINDS; kind++) {
            get_one(kind, turn);
        }
    }

    if (timing) {
        double all[KINDS];
        for (enum kind kind = 0; kind < KINDS; kind++) {
            all[kind] = median_of(kind, gets);
            if (me.rank == 0) {
                say("%-22s %8.0f ns", kind_names[kind], all[kind]);
            }
        }
        qsort(all, KINDS, sizeof(all[0]), compare);
        if (me.rank == 0) {
            say("%-22s %8.0f ns", "median of all", all[KINDS / 2]);
        }
    } else {
        syscall(SYS_close, -70001);
        for (int i = 0; i < gets; i++) {
            if (plant && i == gets / 2) {
                syscall(SYS_getppid);
            }
            get_one(i % KINDS, i / KINDS);
        }
        syscall(SYS_close, -70002);
    }
    if (threads) {
        say("rank %u: %d threads", me.rank, count_entries("/proc/self/task"));
    }
    status = finalize_together();
    if (status != PMIX_SUCCESS) {
        fail("ending", status);
    }
    if (!timing) {
        say("rank %u: %d gets done", me.rank, gets);
    }
    return 0;
}
