/* Another user at a server's TCP port, which sends the bytes of stdin and closes before the server can check it.
 *
 *   intruder UID PORT COUNT close|linger|reset
 *
 * Becomes UID, then connects COUNT times to PORT on loopback, sends the bytes of stdin, and closes:
 *
 *   close    at once, by a plain close
 *   linger   with TCP_LINGER2 of one second, after which the kernel forgets the connection's end
 *   reset    by a reset, a little later each time, so that some come while the server accepts
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

__attribute__((noreturn)) static void fail(const char *what)
{
    fprintf(stderr, "intruder: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void leave(int fd, const char *how, long turn)
{
    if (strcmp(how, "linger") == 0) {
        int seconds = 1;
        if (setsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &seconds, sizeof seconds) != 0) {
            fail("TCP_LINGER2");
        }
    } else if (strcmp(how, "reset") == 0) {
        struct timespec wait = { 0, turn % 50 * 4000 };
        nanosleep(&wait, NULL);
        struct linger now = { 1, 0 };
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) != 0) {
            fail("SO_LINGER");
        }
    }
    close(fd);
}

int main(int argc, char **argv)
{
    static char words[1 << 16];
    if (argc != 5) {
        errno = EINVAL;
        fail("usage: UID PORT COUNT close|linger|reset");
    }
    uid_t user = (uid_t)atol(argv[1]);
    if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) {
        fail("another user");
    }
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])) };
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size_t len = fread(words, 1, sizeof words, stdin);
    long said = 0;
    for (long turn = 0; turn < atol(argv[3]); turn++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) != 0) {
            fail("connect");
        }
        /* The server may have hung up. */
        said += send(fd, words, len, MSG_NOSIGNAL) == (ssize_t)len;
        leave(fd, argv[4], turn);
    }
    printf("said it %ld times\n", said);
    return 0;
}
