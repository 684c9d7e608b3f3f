/* Runs a plug-in as Slurm's daemons do: not linked to libpmix itself, it opens one by its absolute path with global symbols, and
 * then the plug-in, which is not linked to libpmix either and finds its functions among the global symbols.
 *
 *   opener LIBPMIX PLUGIN [ARGS...]      PLUGIN has a main, which is called with PLUGIN ARGS...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *must(void *found, const char *what)
{
    if (found == NULL) {
        fprintf(stderr, "opener: %s: %s\n", what, dlerror());
        exit(71);
    }
    return found;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: opener LIBPMIX PLUGIN [ARGS...]\n");
        return 64;
    }
    if (dlsym(RTLD_DEFAULT, "PMIx_server_init") != NULL) {
        fprintf(stderr, "opener: there is a libpmix already\n");
        return 71;
    }
    must(dlopen(argv[1], RTLD_LAZY | RTLD_GLOBAL), argv[1]);
    void *plugin = must(dlopen(argv[2], RTLD_NOW), argv[2]);
    int (*run)(int, char **) = (int (*)(int, char **)) must(dlsym(plugin, "main"), "main");
    return run(argc - 2, argv + 2);
}
