/* Memory of a process. */

#include <stdio.h>
#include <string.h>

/* Anonymous memory of this process, in KiB: what it has allocated, and the pages of its files that it has changed. The kernel's "private"
 * figures would count the code as well: as clean if no other process runs it, as dirty if the linker has just written it.
 */
static inline long own_memory(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long own = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Anonymous: %ld", &own) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return own;
}

/* The anonymous memory of this process that lies in the mappings of libpmix.so.2, and all of it, in KiB. */
static inline void own_memory_of_library(long *of_library, long *all)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[4352], name[4096];
    unsigned long from, to, end = 0;
    long kib;
    int is_of_library = 0;
    *of_library = *all = 0;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        name[0] = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &from, &to, name) >= 2) {
            /* A library's zero pages follow it without a name. */
            is_of_library = strstr(name, "/libpmix.so") != NULL || (is_of_library && name[0] == 0 && from == end);
            end = to;
        } else if (sscanf(line, "Anonymous: %ld kB", &kib) == 1) {
            *all += kib;
            *of_library += is_of_library ? kib : 0;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
}
