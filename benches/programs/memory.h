/* Memory of a process. */

#include <stdio.h>

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
