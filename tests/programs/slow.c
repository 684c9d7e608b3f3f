/* A slow file system: a shared object for LD_PRELOAD with which opening a file or a directory below SLOW_DIRECTORY takes SLOW_MS
 * milliseconds longer, and is written to standard error. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void delay(const char *path)
{
    const char *directory = getenv("SLOW_DIRECTORY"), *text = getenv("SLOW_MS");
    if (directory != NULL && text != NULL && strncmp(path, directory, strlen(directory)) == 0) {
        long ms = atol(text);
        struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
        nanosleep(&time, NULL);
        fprintf(stderr, "slow: %s\n", path);
    }
}

static int opened(const char *name, const char *path, int flags, mode_t mode)
{
    int (*behind)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    delay(path);
    return behind(path, flags, mode);
}

/* The mode is read in any case: where the caller gives none, the value is chance, and open(2) passes over it. */
#define INTERPOSE(name)                                                                                                                \
    int name(const char *path, int flags, ...);                                                                                        \
    int name(const char *path, int flags, ...)                                                                                         \
    {                                                                                                                                  \
        va_list args;                                                                                                                  \
        va_start(args, flags);                                                                                                         \
        mode_t mode = va_arg(args, mode_t);                                                                                            \
        va_end(args);                                                                                                                  \
        return opened(#name, path, flags, mode);                                                                                       \
    }

INTERPOSE(open)
INTERPOSE(open64)

DIR *opendir(const char *path)
{
    DIR *(*behind)(const char *) = dlsym(RTLD_NEXT, "opendir");
    delay(path);
    return behind(path);
}
