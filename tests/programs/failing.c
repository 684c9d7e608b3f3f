/* Lets one allocation or one call of the system fail, in one process, once; or ends the process there. To be preloaded:
 *
 *   LD_PRELOAD=failing.so FAILING_IN=ROLE FAILING_WHAT=WHAT [FAILING_FUNCTION=F] [FAILING_AT=N [FAILING_HOW=K] [FAILING_TIMES=T]]
 *   [FAILING_LIFE=LIFE] FAILING_LOG=FILE
 *
 *   ROLE    a rank's number, or server: the process without one
 *   WHAT    memory: malloc, calloc, realloc, posix_memalign; or calls: functions of the C library that are calls of the system, all that
 *           the library uses and that can fail with right arguments; or crash: of these, the ones that change what other processes see. The
 *           process is killed (SIGKILL) before the Nth
 *   F       with calls: this function alone counts
 *   LIFE    with crash: counts in the process alone whose HOST_LIFE it is (`host --restartable`)
 *   N       the first that fails, counted from 1; 0, the default, lets none fail
 *   K       of the errors that this function can have, the Kth, from 0
 *   T       so many fail, one after the other (default 1)
 *
 * Only those count that code of libpmix.so.2 makes: a program's own failures are not the library's. The log gets a line "total N" when the
 * process ends by itself, "failed N FUNCTION ERROR" for each that failed, "none N FUNCTION" if it has no such error, and "killed N FUNCTION";
 * with calls and without N "errors N FUNCTION COUNT" for each, which can have so many errors.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

enum { NOTHING, MEMORY, CALLS, CRASH };

static int what;
static long first, times = 1, how;
static const char *life, *function;
static atomic_long count;
static atomic_bool ready;
/* Where the code of libpmix.so.2 lies. */
static uintptr_t code_from, code_to;

static void write_log(const char *format, ...)
{
    const char *path = getenv("FAILING_LOG");
    char line[200];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args), saved = errno;
    va_end(args);
    /* By the functions of the C library itself: those of this file count. */
    int (*opens)(const char *, int, ...) = (int (*)(const char *, int, ...)) dlsym(RTLD_NEXT, "open");
    ssize_t (*writes)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
    int (*closes)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "close");
    int fd = path == NULL ? -1 : opens(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        ssize_t written = writes(fd, line, len);
        (void) written;
        closes(fd);
    }
    errno = saved;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void) size, (void) unused;
    const char *name = strrchr(info->dlpi_name, '/');
    if (name == NULL || strncmp(name, "/libpmix.so", 11) != 0) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0) {
            code_from = info->dlpi_addr + header->p_vaddr;
            code_to = code_from + header->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *role = getenv("FAILING_IN"), *wanted = getenv("FAILING_WHAT"), *rank = getenv("PMIX_RANK");
    if (role == NULL || wanted == NULL || strcmp(role, rank == NULL ? "server" : rank) != 0) {
        return;
    }
    dl_iterate_phdr(find_library, NULL);
    what = strcmp(wanted, "memory") == 0 ? MEMORY : strcmp(wanted, "crash") == 0 ? CRASH : CALLS;
    life = getenv("FAILING_LIFE");
    function = getenv("FAILING_FUNCTION");
    const char *text = getenv("FAILING_AT");
    first = text == NULL ? 0 : atol(text);
    text = getenv("FAILING_TIMES");
    times = text == NULL ? 1 : atol(text);
    text = getenv("FAILING_HOW");
    how = text == NULL ? 0 : atol(text);
    /* A shell or another program without the library has nothing to fail. */
    ready = code_to != 0;
}

__attribute__((destructor)) static void end(void)
{
    if (ready) {
        ready = false;
        write_log("total %ld\n", (long) count);
    }
}

/* The number of this one, if it counts. */
static long number_of(int kind, const void *caller)
{
    if (!ready || what != kind || (uintptr_t) caller < code_from || (uintptr_t) caller >= code_to) {
        return 0;
    }
    return ++count;
}

static bool is_chosen(long number) { return first > 0 && number >= first && number < first + times; }

/* The number of this one, if it is to fail. */
static long fails(int kind, const void *caller)
{
    long number = number_of(kind, caller);
    return is_chosen(number) ? number : 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool no_memory(const char *name, const void *caller)
{
    long number = fails(MEMORY, caller);
    if (number > 0) {
        write_log("failed %ld %s ENOMEM\n", number, name);
        errno = ENOMEM;
    }
    return number > 0;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) { return no_memory("malloc", CALLER) ? NULL : __libc_malloc(size); }
void *calloc(size_t items, size_t size) { return no_memory("calloc", CALLER) ? NULL : __libc_calloc(items, size); }
void *realloc(void *old, size_t size) { return no_memory("realloc", CALLER) ? NULL : __libc_realloc(old, size); }
int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *found = no_memory("posix_memalign", CALLER) ? NULL : __libc_memalign(alignment, size);
    if (found == NULL) {
        return ENOMEM;
    }
    *memory = found;
    return 0;
}

/* ---- calls of the system ----------------------------------------------------------------------------------------- */

/* Where the process is to end before a call that changes what others see, it does so here. */
static void crash_before(const char *name, const void *caller)
{
    static const char *const changes[] = { "writev", "pwrite64", "send", "sendmsg", "bind", "listen", "accept4", "shutdown", "mkdir", "mkdirat",
                                           "chmod", "fchmod", "fchown", "rename", "renameat", "unlink", "unlinkat", "rmdir", "flock",
                                           "write", "creating" };
    const char *now = getenv("HOST_LIFE");
    if (what != CRASH || (life != NULL && (now == NULL || strcmp(now, life) != 0))) {
        return;
    }
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        if (strcmp(name, changes[i]) == 0) {
            long number = fails(CRASH, caller);
            if (number > 0) {
                write_log("killed %ld %s\n", number, name);
                kill(getpid(), SIGKILL);
            }
            return;
        }
    }
}

/* Whether this call fails; errno is set then. */
static int error_of(const char *name, const int *errors, const void *caller)
{
    crash_before(name, caller);
    long number = 0, errors_len = 0;
    if (function == NULL || strcmp(name, function) == 0) {
        number = number_of(CALLS, caller);
    }
    while (errors[errors_len] != 0) {
        errors_len++;
    }
    if (number > 0 && first == 0) {
        write_log("errors %ld %s %ld\n", number, name, errors_len);
    }
    if (!is_chosen(number)) {
        return 0;
    }
    if (how >= errors_len) {
        write_log("none %ld %s\n", number, name);
        return 0;
    }
    write_log("failed %ld %s %s\n", number, name, strerrorname_np(errors[how]));
    errno = errors[how];
    return errors[how];
}

#define ERRORS(...) ((const int[]) { __VA_ARGS__, 0 })
/* A function that reports by -1 (or another value) and errno. */
#define CALL(result, failed, name, parameters, arguments, ...) \
    result name parameters \
    { \
        static result(*real) parameters; \
        if (error_of(#name, ERRORS(__VA_ARGS__), CALLER) != 0) { \
            return (result) failed; \
        } \
        if (real == NULL) { \
            real = (result(*) parameters) dlsym(RTLD_NEXT, #name); \
        } \
        return real arguments; \
    }
/* One whose further arguments may be there; registers take them over. */
#define CALL_WITH_MORE(name, first_parameters, first_arguments, ...) \
    int name(first_parameters, ...) \
    { \
        static int (*real)(first_parameters, ...); \
        va_list args; \
        va_start(args, last); \
        long one = va_arg(args, long); \
        va_end(args); \
        crash_before((last & O_CREAT) != 0 ? "creating" : #name, CALLER); \
        if (error_of(#name, ERRORS(__VA_ARGS__), CALLER) != 0) { \
            return -1; \
        } \
        if (real == NULL) { \
            real = (int (*)(first_parameters, ...)) dlsym(RTLD_NEXT, #name); \
        } \
        return real(first_arguments, one); \
    }
#define COMMA ,
/* One of a connection, which has ended if the error says so. */
#define CALL_ON_SOCKET(name, parameters, arguments, ...) \
    ssize_t name parameters \
    { \
        static ssize_t(*real) parameters; \
        if (error_of(#name, ERRORS(__VA_ARGS__), CALLER) != 0) { \
            end_connection(fd); \
            return -1; \
        } \
        if (real == NULL) { \
            real = (ssize_t(*) parameters) dlsym(RTLD_NEXT, #name); \
        } \
        return real arguments; \
    }

static void end_connection(int fd)
{
    int error = errno;
    if (error == EPIPE || error == ECONNRESET || error == ETIMEDOUT) {
        int (*real)(int, int) = (int (*)(int, int)) dlsym(RTLD_NEXT, "shutdown");
        real(fd, SHUT_RDWR);
    }
    errno = error;
}
/* The errors that the manual pages name for these calls on Linux, but for those of wrong arguments (EBADF, EFAULT, EINVAL). The file systems
 * are local or of a network; the ones of a path come from any of its directories. */
#define OF_A_PATH EACCES, ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, ENOMEM, EIO, ESTALE
#define OF_A_CHANGE EPERM, EROFS, ENOSPC, EDQUOT, EBUSY
#define OF_OPEN EMFILE, ENFILE, EINTR, ENODEV, ENXIO, EOVERFLOW, ETXTBSY, EISDIR, OF_A_PATH, OF_A_CHANGE
#define OF_STAT EOVERFLOW, OF_A_PATH
#define OF_STATFS EIO, EINTR, ENOMEM, ENOSYS, EOVERFLOW, ESTALE
#define OF_A_CONNECTION EINTR, EAGAIN, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENOMEM, ENOBUFS
#define OF_SENDING EPIPE, EPERM, OF_A_CONNECTION

CALL_WITH_MORE(open, const char *path COMMA int last, path COMMA last, OF_OPEN)
CALL_WITH_MORE(open64, const char *path COMMA int last, path COMMA last, OF_OPEN)
CALL_WITH_MORE(openat, int at COMMA const char *path COMMA int last, at COMMA path COMMA last, OF_OPEN)
CALL_WITH_MORE(openat64, int at COMMA const char *path COMMA int last, at COMMA path COMMA last, OF_OPEN)
CALL_WITH_MORE(fcntl, int fd COMMA int last, fd COMMA last, EMFILE, EINTR, EAGAIN, EACCES, ENOLCK, EPERM)
CALL(ssize_t, -1, read, (int fd, void *to, size_t len), (fd, to, len), EIO, EINTR, ENOMEM, ESRCH, ESTALE)
CALL_ON_SOCKET(readv, (int fd, const struct iovec *to, int n), (fd, to, n), OF_A_CONNECTION)
CALL_ON_SOCKET(recv, (int fd, void *to, size_t len, int flags), (fd, to, len, flags), OF_A_CONNECTION)
CALL_ON_SOCKET(recvmsg, (int fd, struct msghdr *to, int flags), (fd, to, flags), EMFILE, OF_A_CONNECTION)
CALL_ON_SOCKET(writev, (int fd, const struct iovec *of, int n), (fd, of, n), OF_SENDING)
CALL(ssize_t, -1, pwrite64, (int fd, const void *of, size_t len, off64_t at), (fd, of, len, at), ENOSPC, EINTR, EIO, EDQUOT, EFBIG, EPERM, ESTALE, ENOMEM)
CALL_ON_SOCKET(send, (int fd, const void *of, size_t len, int flags), (fd, of, len, flags), OF_SENDING)
CALL_ON_SOCKET(sendmsg, (int fd, const struct msghdr *of, int flags), (fd, of, flags), ETOOMANYREFS, OF_SENDING)
CALL(int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, ENFILE, ENOBUFS, ENOMEM, EAFNOSUPPORT, EPROTONOSUPPORT, EACCES, EPERM)
CALL(int, -1, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), EMFILE, ENFILE, ENOBUFS, ENOMEM, EAFNOSUPPORT, EOPNOTSUPP)
CALL(int, -1, bind, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), EADDRINUSE, EADDRNOTAVAIL, EROFS, EPERM, OF_A_PATH)
CALL(int, -1, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE, EOPNOTSUPP)
CALL(int, -1, accept4, (int fd, struct sockaddr *of, socklen_t *len, int flags), (fd, of, len, flags), EMFILE, ENFILE, ECONNABORTED, EPROTO, EPERM, ENETDOWN, OF_A_CONNECTION)
CALL(int, -1, connect, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), ECONNREFUSED, ENOENT, EACCES, EPERM, EADDRNOTAVAIL, EADDRINUSE, EPROTOTYPE, OF_A_CONNECTION)
CALL(int, -1, setsockopt, (int fd, int level, int name, const void *of, socklen_t len), (fd, level, name, of, len), ENOBUFS, ENOMEM, ENOPROTOOPT, EPERM)
CALL(int, -1, getsockopt, (int fd, int level, int name, void *to, socklen_t *len), (fd, level, name, to, len), ENOBUFS, ENOMEM, ENOPROTOOPT, EACCES)
CALL(int, -1, getsockname, (int fd, struct sockaddr *to, socklen_t *len), (fd, to, len), ENOBUFS)
CALL(int, -1, getpeername, (int fd, struct sockaddr *to, socklen_t *len), (fd, to, len), ENOTCONN, ENOBUFS)
CALL(int, -1, shutdown, (int fd, int mode), (fd, mode), ENOTCONN)
CALL(int, -1, poll, (struct pollfd *fds, nfds_t n, int timeout), (fds, n, timeout), EINTR, ENOMEM)
CALL(int, -1, epoll_create1, (int flags), (flags), EMFILE, ENFILE, ENOMEM)
CALL(int, -1, epoll_ctl, (int fd, int op, int of, struct epoll_event *event), (fd, op, of, event), ENOMEM, ENOSPC, EPERM, ELOOP)
CALL(int, -1, epoll_wait, (int fd, struct epoll_event *to, int n, int timeout), (fd, to, n, timeout), EINTR)
CALL(int, -1, eventfd, (unsigned value, int flags), (value, flags), EMFILE, ENFILE, ENODEV, ENOMEM)
CALL(void *, -1, mmap, (void *at, size_t len, int access, int flags, int fd, off_t from), (at, len, access, flags, fd, from), ENOMEM, EACCES, EAGAIN, ENFILE, ENODEV, EPERM, EOVERFLOW)
CALL(void *, -1, mmap64, (void *at, size_t len, int access, int flags, int fd, off64_t from), (at, len, access, flags, fd, from), ENOMEM, EACCES, EAGAIN, ENFILE, ENODEV, EPERM, EOVERFLOW)
CALL(int, -1, mprotect, (void *at, size_t len, int access), (at, len, access), ENOMEM, EACCES)
CALL(int, -1, madvise, (void *at, size_t len, int advice), (at, len, advice), ENOMEM, EAGAIN, EIO, EACCES)
CALL(int, -1, mkdir, (const char *path, mode_t mode), (path, mode), EEXIST, EMLINK, OF_A_PATH, OF_A_CHANGE)
CALL(int, -1, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), EEXIST, EMLINK, OF_A_PATH, OF_A_CHANGE)
CALL(int, -1, chmod, (const char *path, mode_t mode), (path, mode), EPERM, EROFS, OF_A_PATH)
CALL(int, -1, fchmod, (int fd, mode_t mode), (fd, mode), EPERM, EROFS, EIO)
CALL(int, -1, fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid), EPERM, EROFS, EIO, EDQUOT)
CALL(int, -1, rename, (const char *from, const char *to), (from, to), EXDEV, EEXIST, ENOTEMPTY, EISDIR, EMLINK, OF_A_PATH, OF_A_CHANGE)
CALL(int, -1, renameat, (int at, const char *from, int to_at, const char *to), (at, from, to_at, to), EXDEV, EEXIST, ENOTEMPTY, EISDIR, EMLINK, OF_A_PATH, OF_A_CHANGE)
CALL(int, -1, unlink, (const char *path), (path), EISDIR, EPERM, EROFS, EBUSY, OF_A_PATH)
CALL(int, -1, unlinkat, (int at, const char *path, int flags), (at, path, flags), EISDIR, ENOTEMPTY, EPERM, EROFS, EBUSY, OF_A_PATH)
CALL(int, -1, rmdir, (const char *path), (path), ENOTEMPTY, EPERM, EROFS, EBUSY, OF_A_PATH)
CALL(int, -1, fstat, (int fd, struct stat *to), (fd, to), EIO, ENOMEM, EOVERFLOW, ESTALE)
CALL(int, -1, fstat64, (int fd, struct stat64 *to), (fd, to), EIO, ENOMEM, EOVERFLOW, ESTALE)
CALL(int, -1, stat, (const char *path, struct stat *to), (path, to), OF_STAT)
CALL(int, -1, stat64, (const char *path, struct stat64 *to), (path, to), OF_STAT)
CALL(int, -1, lstat64, (const char *path, struct stat64 *to), (path, to), OF_STAT)
CALL(int, -1, fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags), OF_STAT)
CALL(int, -1, fstatat64, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags), OF_STAT)
CALL(int, -1, statx, (int at, const char *path, int flags, unsigned mask, struct statx *to), (at, path, flags, mask, to), OF_STAT)
CALL(int, -1, flock, (int fd, int operation), (fd, operation), EWOULDBLOCK, EINTR, ENOLCK, EIO, ESTALE)
CALL(DIR *, NULL, opendir, (const char *path), (path), EMFILE, ENFILE, OF_A_PATH)
CALL(DIR *, NULL, fdopendir, (int fd), (fd), ENOMEM)
CALL(char *, NULL, realpath, (const char *path, char *to), (path, to), OF_A_PATH)
CALL(ssize_t, -1, readlink, (const char *path, char *to, size_t len), (path, to, len), OF_A_PATH)
CALL(char *, NULL, getcwd, (char *to, size_t len), (to, len), ENOENT, EACCES, ENOMEM)
CALL(ssize_t, -1, getrandom, (void *to, size_t len, unsigned flags), (to, len, flags), ENOSYS, EINTR)
CALL(int, -1, gethostname, (char *to, size_t len), (to, len), ENAMETOOLONG)
CALL(ssize_t, -1, pread64, (int fd, void *to, size_t len, off64_t at), (fd, to, len, at), EIO, EINTR, ENOMEM, ESTALE)
CALL(off64_t, -1, lseek64, (int fd, off64_t by, int from), (fd, by, from), ESPIPE, EOVERFLOW)
CALL(int, -1, fstatfs64, (int fd, struct statfs64 *to), (fd, to), OF_STATFS)
CALL(int, -1, fstatvfs, (int fd, struct statvfs *to), (fd, to), OF_STATFS)
CALL(struct dirent *, NULL, readdir, (DIR *directory), (directory), EIO, ENOENT, ENOMEM)
CALL(struct dirent64 *, NULL, readdir64, (DIR *directory), (directory), EIO, ENOENT, ENOMEM)
CALL(int, -1, getifaddrs, (struct ifaddrs * *to), (to), EMFILE, ENFILE, ENOMEM, ENOBUFS, EACCES)
CALL(int, -1, sched_getaffinity, (pid_t pid, size_t len, cpu_set_t *to), (pid, len, to), EPERM, ESRCH)
CALL(int, -1, kill, (pid_t pid, int signal), (pid, signal), EPERM, ESRCH)
CALL(int, -1, munmap, (void *at, size_t len), (at, len), ENOMEM)
/* Their further arguments may be there; registers take them over. */
CALL(int, -1, ioctl, (int fd, unsigned long request, void *to), (fd, request, to), ENOTTY, EIO, ENOMEM)
CALL(int, -1, prctl, (int option, long a, long b, long c, long d), (option, a, b, c, d), EPERM, ENOSYS)

/* The file is closed nevertheless. */
int close(int fd)
{
    static int (*real)(int);
    if (real == NULL) {
        real = (int (*)(int)) dlsym(RTLD_NEXT, "close");
    }
    if (error_of("close", ERRORS(EIO, EINTR, ENOSPC, EDQUOT), CALLER) == 0) {
        return real(fd);
    }
    int error = errno;
    real(fd);
    errno = error;
    return -1;
}

/* The C library has no function for some. Of a futex only a wait can fail, which then ends early. */
long syscall(long number, ...)
{
    static long (*real)(long, long, long, long, long, long, long);
    if (real == NULL) {
        real = (long (*)(long, long, long, long, long, long, long)) dlsym(RTLD_NEXT, "syscall");
    }
    va_list args;
    va_start(args, number);
    long arg[6];
    for (int at = 0; at < 6; at++) {
        arg[at] = va_arg(args, long);
    }
    va_end(args);
    int operation = (int) arg[1] & FUTEX_CMD_MASK;
    const int *errors = number != SYS_futex                                            ? ERRORS(ENOSYS, EPERM, EMFILE, ENOMEM)
                        : operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ? ERRORS(EINTR, EAGAIN)
                                                                                      : ERRORS(0);
    if (error_of("syscall", errors, CALLER) != 0) {
        return -1;
    }
    return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* What a write may answer depends on what is written to: an eventfd is never full of a disk. */
ssize_t write(int fd, const void *of, size_t len)
{
    static ssize_t (*real)(int, const void *, size_t);
    static int (*real_fstat)(int, struct stat *);
    if (real == NULL) {
        real_fstat = (int (*)(int, struct stat *)) dlsym(RTLD_NEXT, "fstat");
        real = (ssize_t(*)(int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
    }
    struct stat file = { 0 };
    if (ready && what == CALLS) {
        real_fstat(fd, &file);
    }
    /* One to an eventfd that does not wait has none. */
    if (what == CRASH && ready) {
        /* A thread that wakes another one changes nothing. */
        real_fstat(fd, &file);
        if (S_ISREG(file.st_mode) || S_ISSOCK(file.st_mode)) {
            crash_before("write", CALLER);
        }
        return real(fd, of, len);
    }
    const int *errors = S_ISREG(file.st_mode)                             ? ERRORS(ENOSPC, EINTR, EIO, EDQUOT, EFBIG, EPERM, ESTALE, ENOMEM)
                        : S_ISSOCK(file.st_mode) || S_ISFIFO(file.st_mode) ? ERRORS(OF_SENDING)
                                                                           : ERRORS(0);
    if (error_of("write", errors, CALLER) != 0) {
        end_connection(fd);
        return -1;
    }
    return real(fd, of, len);
}

/* These report by their result. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    if (real == NULL) {
        real = (int (*)(clockid_t, int, const struct timespec *, struct timespec *)) dlsym(RTLD_NEXT, "clock_nanosleep");
    }
    int error = error_of("clock_nanosleep", ERRORS(EINTR), CALLER);
    if (error != 0 && left != NULL) {
        *left = *until;
    }
    return error != 0 ? error : real(clock, flags, until, left);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
    int error = error_of("pthread_create", ERRORS(EAGAIN), CALLER);
    if (error != 0) {
        return error;
    }
    if (real == NULL) {
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *)) dlsym(RTLD_NEXT, "pthread_create");
    }
    return real(thread, attributes, run, argument);
}
