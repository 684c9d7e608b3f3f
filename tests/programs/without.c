/* Runs a command that cannot ask the kernel for the owner of a TCP socket.
 *
 *   without netlink COMMAND...     no netlink sockets, as containers have it that filter system calls
 *   without table COMMAND...       nor the lists of sockets in /proc; takes root
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "without: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void forbid_netlink(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fail("seccomp");
    }
}

/* Hides the socket lists of this process, before and after exec: those of its first thread. */
static void hide_lists(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/net", getpid(), getpid());
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount("none", path, "tmpfs", 0, NULL) != 0) {
        fail(path);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        errno = EINVAL;
        fail("usage: netlink|table COMMAND...");
    }
    if (strcmp(argv[1], "table") == 0) {
        hide_lists();
    }
    forbid_netlink();
    execvp(argv[2], argv + 2);
    fail(argv[2]);
}
