/* A file system of another machine, as a process sees it: a shared object for LD_PRELOAD with which fstatfs(2) names the type REMOTE_FS
 * (a number of linux/magic.h), and flock(2) fails with ENOLCK if REMOTE_FS_LOCKS is "none", as on NFS without its lock service. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>

int fstatfs(int fd, struct statfs *found)
{
    int (*behind)(int, struct statfs *) = dlsym(RTLD_NEXT, "fstatfs");
    int failed = behind(fd, found);
    const char *type = getenv("REMOTE_FS");
    if (failed == 0 && type != NULL)
        found->f_type = strtol(type, NULL, 0);
    return failed;
}

int fstatfs64(int fd, struct statfs64 *found)
{
    /* The same structure on machines of 64 bits. */
    return fstatfs(fd, (struct statfs *)found);
}

int flock(int fd, int operation)
{
    int (*behind)(int, int) = dlsym(RTLD_NEXT, "flock");
    const char *locks = getenv("REMOTE_FS_LOCKS");
    if (locks != NULL && strcmp(locks, "none") == 0) {
        errno = ENOLCK;
        return -1;
    }
    return behind(fd, operation);
}
