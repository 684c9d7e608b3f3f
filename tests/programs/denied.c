/* Runs a program to which the kernel denies some system calls, as a container's filter or a security module may.
 *
 *   denied ERRNO CALL[,CALL...] PROGRAM [ARGS...]
 *
 * CALL is a number, or netlink: sockets of that family. ERRNO is the number of the error that the calls get. All that the program starts
 * inherits the filter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS_MAX = 64 };

static struct sock_filter filter[4 * CALLS_MAX + 8];
static unsigned short len;

static void add(unsigned short code, unsigned char if_true, unsigned char if_false, unsigned value)
{
    filter[len++] = (struct sock_filter) BPF_JUMP(code, value, if_true, if_false);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: denied ERRNO CALL[,CALL...] PROGRAM [ARGS...]\n");
        return 64;
    }
    unsigned denied = SECCOMP_RET_ERRNO | (unsigned) atoi(argv[1]);
    add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    int count = 0;
    for (char *call = strtok(argv[2], ","); call != NULL && count < CALLS_MAX; call = strtok(NULL, ","), count++) {
        if (strcmp(call, "netlink") == 0) {
            add(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_socket);
            add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args));
            add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, AF_NETLINK);
            add(BPF_RET | BPF_K, 0, 0, denied);
            add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
        } else {
            add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned) atoi(call));
            add(BPF_RET | BPF_K, 0, 0, denied);
        }
    }
    add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = len, .filter = filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        perror("denied");
        return 71;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 71;
}
