/* Which libpmix a process has: asked of the kernel, as nothing else is sure. */
#ifndef PMIX_TEST_MAPPED_H
#define PMIX_TEST_MAPPED_H

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Device and inode of the libpmix that a process has mapped, or "none". */
static inline void mapped_library(pid_t pid, char *text, size_t len)
{
    char path[64], line[4096];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
    snprintf(text, len, "none");
    FILE *maps = fopen(path, "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *file = strchr(line, '/');
        if (file != NULL && strstr(file, "/libpmix.so") != NULL) {
            struct stat found;
            file[strcspn(file, "\n")] = 0;
            if (stat(file, &found) == 0) {
                snprintf(text, len, "%lu:%lu", (unsigned long) found.st_dev, (unsigned long) found.st_ino);
            }
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
}

#endif
