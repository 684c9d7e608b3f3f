/* Preloaded into a host process: writes what its PMIx server hands it in each fence to a file of its own in the directory RECORD_DIR.
 *
 * It stands before PMIx_server_init and takes the place of fence_nb in the host's module, for whichever library serves.
 * tests/modex/record.sh uses it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <pmix_server.h>

/* Our header makes a macro of it, by which the library learns the module's size. */
#undef PMIx_server_init

static pmix_server_fencenb_fn_t of_host;

static pmix_status_t recorded(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                              size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    static int count;
    const char *directory = getenv("RECORD_DIR");
    char host[64] = "", path[4096];
    FILE *file;

    if (directory && ndata) {
        gethostname(host, sizeof(host) - 1);
        snprintf(path, sizeof(path), "%s/%d.%s.%d", directory, count, host, (int)getpid());
        if ((file = fopen(path, "wb"))) {
            fwrite(data, 1, ndata, file);
            fclose(file);
        }
    }
    count++;
    return of_host(procs, nprocs, info, ninfo, data, ndata, cbfunc, cbdata);
}

pmix_status_t PMIx_server_init(pmix_server_module_t *module, pmix_info_t info[], size_t ninfo)
{
    pmix_status_t (*next)(pmix_server_module_t *, pmix_info_t[], size_t);

    *(void **)&next = dlsym(RTLD_NEXT, "PMIx_server_init");
    if (module && module->fence_nb && module->fence_nb != recorded) {
        of_host = module->fence_nb;
        module->fence_nb = recorded;
    }
    return next ? next(module, info, ninfo) : PMIX_ERR_NOT_SUPPORTED;
}
