/* What the wire-up of ranks costs a server's thread without a library: the limit for that of ours.
 *
 *   bare COUNT [lean]
 *
 * One thread serves COUNT processes over a Unix socket with the system calls and the messages that programs/wire.c causes, without the
 * commit's answer: it accepts, asks for the peer's user, answers a handshake, takes a commit of 1 KiB and the entry into a fence, answers all
 * when the last has entered, answers the end, and closes. It looks at no byte and allocates nothing. Prints its processor time for a
 * process, in milliseconds:
 *
 *   bare served MILLISECONDS
 *
 * With "lean" it serves a protocol that no release speaks, with the fewest messages that one connection of each process allows: handshake,
 * commit and entry into the fence come as one message, nothing is answered, and one futex in a shared page releases all.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANDSHAKE, COMMIT, FENCE, END, STAGES };

/* Bytes with the header, as in programs/wire.c under our library. */
static const size_t asked[STAGES] = { 134, 1152, 57, 27 }, answered[STAGES] = { 8, 0, 20, 18 };

static int count, listener;
static bool is_lean;
static double spent;
/* Of the lean protocol: 1 when all have entered. */
static uint32_t *released;

__attribute__((noreturn)) static void fail(const char *what)
{
    perror(what);
    _exit(71);
}

static void answer(int socket, int stage)
{
    static const char zeros[64];
    if (send(socket, zeros, answered[stage], MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) answered[stage]) {
        fail("send");
    }
}

static void watch(int epoll, int socket)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = socket };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
        fail("epoll_ctl");
    }
}

/* Takes the complete messages of a process of which bytes have come. */
static void take(int socket, size_t *bytes, int *stage, int *fence, int *entered)
{
    while (*stage < STAGES && *bytes >= asked[*stage]) {
        *bytes -= asked[*stage];
        int done = (*stage)++;
        if (done == FENCE && is_lean) {
            if (++*entered == count) {
                __atomic_store_n(released, 1, __ATOMIC_RELEASE);
                syscall(SYS_futex, released, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
            }
        } else if (done == FENCE) {
            fence[(*entered)++] = socket;
            for (int i = 0; *entered == count && i < count; i++) {
                answer(fence[i], FENCE);
            }
        } else if (answered[done] > 0 && !is_lean) {
            answer(socket, done);
        }
    }
}

static void *serve(void *unused)
{
    (void) unused;
    int most = count + 64, epoll = epoll_create1(EPOLL_CLOEXEC), entered = 0, ended = 0;
    int *stage = calloc(most, sizeof(*stage)), *fence = calloc(count, sizeof(*fence));
    size_t *bytes = calloc(most, sizeof(*bytes));
    if (epoll < 0 || stage == NULL || fence == NULL || bytes == NULL) {
        fail("calloc");
    }
    watch(epoll, listener);
    while (ended < count) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            int socket = events[i].data.fd;
            if (socket == listener) {
                int new;
                while ((new = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                    struct ucred user;
                    socklen_t len = sizeof(user);
                    if (new >= most || getsockopt(new, SOL_SOCKET, SO_PEERCRED, &user, &len) != 0) {
                        fail("getsockopt");
                    }
                    watch(epoll, new);
                }
                continue;
            }
            char buffer[4096];
            ssize_t more = recv(socket, buffer, sizeof(buffer), MSG_DONTWAIT);
            if (more > 0) {
                bytes[socket] += more;
                take(socket, &bytes[socket], &stage[socket], fence, &entered);
            } else {
                epoll_ctl(epoll, EPOLL_CTL_DEL, socket, NULL);
                close(socket);
                ended++;
            }
        }
    }
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    spent = time.tv_sec * 1e3 + time.tv_nsec / 1e6;
    return NULL;
}

/* Sends the messages of the lean protocol. */
static void be_lean(int server)
{
    static const char bytes[4096];
    size_t first = asked[HANDSHAKE] + asked[COMMIT] + asked[FENCE];
    if (send(server, bytes, first, 0) != (ssize_t) first) {
        fail("talk");
    }
    while (__atomic_load_n(released, __ATOMIC_ACQUIRE) == 0) {
        syscall(SYS_futex, released, FUTEX_WAIT, 0, NULL, NULL, 0);
    }
    if (send(server, bytes, asked[END], 0) != (ssize_t) asked[END]) {
        fail("talk");
    }
}

/* One of the processes. */
static int behave(const struct sockaddr_un *address)
{
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server < 0 || connect(server, (const struct sockaddr *) address, sizeof(*address)) != 0) {
        fail("connect");
    }
    if (is_lean) {
        be_lean(server);
        return 0;
    }
    for (int stage = HANDSHAKE; stage < STAGES; stage++) {
        static char bytes[4096];
        if (send(server, bytes, asked[stage], 0) != (ssize_t) asked[stage]
            || (answered[stage] > 0 && recv(server, bytes, answered[stage], MSG_WAITALL) != (ssize_t) answered[stage])) {
            fail("talk");
        }
    }
    return 0;
}

/* Maps the page that all processes of the lean protocol share; its file is beside the socket. */
static void share(const struct sockaddr_un *address)
{
    char path[sizeof(address->sun_path) + sizeof(".page")];
    snprintf(path, sizeof(path), "%s.page", address->sun_path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0
        || (released = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) == MAP_FAILED) {
        fail("page");
    }
    close(file);
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    is_lean = argc > 2 && strcmp(argv[argc - 1], "lean") == 0;
    if (argc > 2 && strcmp(argv[1], "process") == 0) {
        strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
        if (is_lean) {
            share(&address);
        }
        return behave(&address);
    }
    count = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 1 || argc > 3 || (argc == 3 && !is_lean)) {
        fprintf(stderr, "usage: bare COUNT [lean]\n");
        return 64;
    }
    /* As programs/host.c has it. */
    char directory[] = "/dev/shm/pmix-bench-XXXXXX";
    if (mkdtemp(directory) == NULL) {
        fail("mkdtemp");
    }
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    if (is_lean) {
        share(&address);
    }
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    pthread_t thread;
    if (listener < 0 || bind(listener, (struct sockaddr *) &address, sizeof(address)) != 0 || listen(listener, SOMAXCONN) != 0
        || pthread_create(&thread, NULL, serve, NULL) != 0) {
        fail("listen");
    }
    int result = 0;
    for (int i = 0; i < count; i++) {
        if (vfork() == 0) {
            execl("/proc/self/exe", argv[0], "process", address.sun_path, is_lean ? "lean" : NULL, NULL);
            _exit(127);
        }
    }
    for (int i = 0; i < count; i++) {
        int status;
        if (wait(&status) < 0) {
            fail("wait");
        }
        result |= status;
    }
    if (result == 0) {
        pthread_join(thread, NULL);
        printf("bare served %.6f\n", spent / count);
    }
    unlink(address.sun_path);
    if (is_lean) {
        strcat(address.sun_path, ".page");
        unlink(address.sun_path);
    }
    rmdir(directory);
    return result == 0 ? 0 : 71;
}
