/* A rank whose steps are recorded, and that may have a handler for SIGUSR2 of its own.
 *
 *   recorded [--handler] [--fork] [--user ID] [--between COMMAND]
 *
 * It commits, enters a fence, gets a value of each class, lets rank 0's shell run the command, and enters a second fence.
 *
 *   --handler   installs a handler for SIGUSR2 before PMIx_Init
 *   --fork      a forked child commits two values, which the library refuses
 *   --user ID   this is the user, and the rights stay those of root
 *
 * Prints what SIGUSR2 leads to after PMIx_Init and after PMIx_Finalize, and how often the own handler was called.
 */
#include "common.h"

#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void) signal;
    handled++;
}

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        say("%s: %s (%d)", what, PMIx_Error_string(status), status);
        _exit(1);
    }
}

static const char *disposition(void)
{
    struct sigaction present;
    sigaction(SIGUSR2, NULL, &present);
    if (present.sa_handler == handle) {
        return "the program";
    }
    return present.sa_handler == SIG_DFL ? "nobody" : "the library";
}

static void commit_in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        pmix_value_t value = value_string("of the child");
        PMIx_Put(PMIX_GLOBAL, "one.key", &value);
        PMIx_Put(PMIX_GLOBAL, "other.key", &value);
        _exit(PMIx_Commit() == PMIX_SUCCESS);
    }
    int status = 1;
    waitpid(child, &status, 0);
    say("child: %d", status);
}

static uint32_t get(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    must(key, PMIx_Get(proc, key, NULL, 0, &value));
    uint32_t number = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
    PMIX_VALUE_RELEASE(value);
    return number;
}

/* Of the job, of this process, and of the next rank a reserved key and one that it has put. */
static void get_of_each_class(const pmix_proc_t *me)
{
    pmix_proc_t job = *me, next = *me;
    job.rank = PMIX_RANK_WILDCARD;
    next.rank = (me->rank + 1) % get(&job, PMIX_JOB_SIZE);
    get(me, "a.key");
    get(&next, PMIX_LOCAL_RANK);
    get(&next, "a.key");
}

int main(int argc, char **argv)
{
    bool forks = false;
    const char *between = NULL;
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--handler") == 0) {
            signal(SIGUSR2, handle);
        } else if (strcmp(argv[at], "--fork") == 0) {
            forks = true;
        } else if (strcmp(argv[at], "--user") == 0 && at + 1 < argc) {
            if (setreuid((uid_t) atoi(argv[++at]), (uid_t) -1) != 0) {
                say("the user cannot be set");
                return 1;
            }
        } else if (strcmp(argv[at], "--between") == 0 && at + 1 < argc) {
            between = argv[++at];
        }
    }
    pmix_proc_t me;
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    say("rank %u: SIGUSR2 leads to %s", me.rank, disposition());
    pmix_value_t value = value_string("value");
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "a.key", &value));
    must("PMIx_Commit", PMIx_Commit());
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    get_of_each_class(&me);
    if (forks) {
        commit_in_child();
    }
    if (between != NULL && me.rank == 0 && system(between) != 0) {
        say("the command failed");
    }
    must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    say("rank %u: finalized: SIGUSR2 leads to %s, handled %d", me.rank, disposition(), (int) handled);
    return 0;
}
