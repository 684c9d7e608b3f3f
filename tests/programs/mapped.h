/* Which libpmix a process has: asked of the kernel, as nothing else is sure. */
#ifndef PMIX_TEST_MAPPED_H
#define PMIX_TEST_MAPPED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Reads the next file with this in its name that a process has mapped; 0 at the end of the list. */
static inline int next_mapped(FILE *maps, const char *name, char *file, size_t len)
{
    char line[4096];
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        line[strcspn(line, "\n")] = 0;
        const char *path = strchr(line, '/');
        if (path != NULL && strstr(path, name) != NULL) {
            snprintf(file, len, "%s", path);
            return 1;
        }
    }
    return 0;
}

/* Device and inode of the libpmix that a process has mapped, or "none". Where it has the facade, lib/prrte/libpmix.so.2, this is the
 * library above it, and not the stock one, which is mapped as well. */
static inline void mapped_library(pid_t pid, char *text, size_t len)
{
    char path[64], wanted[4096] = "", file[4096];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
    snprintf(text, len, "none");
    FILE *maps = fopen(path, "r");
    if (next_mapped(maps, "/prrte/libpmix.so.2", wanted, sizeof(wanted))) {
        strcpy(strstr(wanted, "/prrte/"), "/libpmix.so.2");
        /* It may be a link, and maps have the file. */
        char *real = realpath(wanted, NULL);
        snprintf(wanted, sizeof(wanted), "%s", real != NULL ? real : "none");
        free(real);
    }
    if (maps != NULL) {
        rewind(maps);
    }
    while (next_mapped(maps, "/libpmix.so", file, sizeof(file))) {
        struct stat found;
        if ((*wanted == 0 || strcmp(file, wanted) == 0) && stat(file, &found) == 0) {
            snprintf(text, len, "%lu:%lu", (unsigned long) found.st_dev, (unsigned long) found.st_ino);
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
}

#endif
