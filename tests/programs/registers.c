/* Counts how often the library asks the kernel for its barriers (membarrier), and refuses them, as a filter of system calls may.
 *
 *   registers server|client [threads]     with a thread of its own before it initialises the library
 *
 * Prints "asked N, reads M": how often it was asked, and how many of 100 Gets of an own value were right.
 */
#define PROGRAM "registers"
#include "common.h"

#include <pmix_server.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static volatile sig_atomic_t asked;

/* As if the system call had failed. */
static void refuse(int number, siginfo_t *info, void *context)
{
    (void) number;
    (void) info;
    ((ucontext_t *) context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
    asked++;
}

static void forbid_membarrier(void)
{
    struct sigaction action = { .sa_sigaction = refuse, .sa_flags = SA_SIGINFO };
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        exit(2);
    }
}

static void *wait_for_ever(void *unused)
{
    for (;;) {
        pause();
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    bool is_server = argc > 1 && strcmp(argv[1], "server") == 0;
    forbid_membarrier();
    if (argc > 2 && pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) {
        return 2;
    }
    pmix_proc_t me;
    pmix_status_t status = is_server ? PMIx_server_init(NULL, NULL, 0) : PMIx_Init(&me, NULL, 0);
    /* Nobody launched this client. */
    if (status != (is_server ? PMIX_SUCCESS : PMIX_ERR_UNREACH)) {
        fprintf(stderr, "init: %s\n", PMIx_Error_string(status));
        return 1;
    }
    if (is_server) {
        memset(&me, 0, sizeof(me));
        strcpy(me.nspace, "job");
    }
    pmix_value_t value = { .type = PMIX_INT, .data.integer = 4711 };
    if (PMIx_Store_internal(&me, "key", &value) != PMIX_SUCCESS) {
        return 1;
    }
    int reads = 0;
    for (int i = 0; i < 100; i++) {
        pmix_value_t *found = NULL;
        if (PMIx_Get(&me, "key", NULL, 0, &found) == PMIX_SUCCESS) {
            reads += found->data.integer == 4711;
            PMIX_VALUE_RELEASE(found);
        }
    }
    status = is_server ? PMIx_server_finalize() : PMIx_Finalize(NULL, 0);
    printf("asked %d, reads %d, status %d\n", (int) asked, reads, status);
    return 0;
}
