/* Counts callbacks that have come when the call that asked for them has just returned.
 *
 *   returned COUNT
 *
 * As a host; each kind of call COUNT times. A line for each kind: "KIND EARLY".
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>
#include <pmix_server.h>

static atomic_int came;
/* Hosts wait for their callbacks and leave the processor alone. */
static sem_t told;

static void tell(void)
{
    atomic_store(&came, 1);
    sem_post(&told);
}

static void op_came(pmix_status_t status, void *cbdata)
{
    (void) status;
    (void) cbdata;
    tell();
}

static void setup_came(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *provided, pmix_op_cbfunc_t done,
                       void *cbdata)
{
    (void) status;
    (void) info;
    (void) ninfo;
    (void) provided;
    if (done != NULL) {
        done(PMIX_SUCCESS, cbdata);
    }
    tell();
}

static pmix_proc_t process;
static pmix_info_t none[1];

static pmix_status_t register_nspace(void) { return PMIx_server_register_nspace(process.nspace, 1, none, 0, op_came, NULL); }
static pmix_status_t register_client(void)
{
    return PMIx_server_register_client(&process, 0, 0, NULL, op_came, NULL);
}
static pmix_status_t setup_local_support(void)
{
    return PMIx_server_setup_local_support(process.nspace, none, 0, op_came, NULL);
}
static pmix_status_t setup_application(void)
{
    return PMIx_server_setup_application(process.nspace, none, 0, setup_came, NULL);
}
static pmix_status_t deregister_client(void)
{
    PMIx_server_deregister_client(&process, op_came, NULL);
    return PMIX_SUCCESS;
}
static pmix_status_t deregister_nspace(void)
{
    PMIx_server_deregister_nspace(process.nspace, op_came, NULL);
    return PMIX_SUCCESS;
}

typedef struct {
    const char *name;
    pmix_status_t (*call)(void);
} kind_t;

static const kind_t kinds[] = {
    { "register_nspace", register_nspace },     { "register_client", register_client },
    { "setup_local_support", setup_local_support }, { "setup_application", setup_application },
    { "deregister_client", deregister_client }, { "deregister_nspace", deregister_nspace },
};

int main(int argc, char **argv)
{
    static pmix_server_module_t module;
    int count = argc > 1 ? atoi(argv[1]) : 0;
    sem_init(&told, 0, 0);
    strcpy(process.nspace, "job");
    pmix_status_t status = PMIx_server_init(&module, NULL, 0);
    for (size_t i = 0; status == PMIX_SUCCESS && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int early = 0;
        for (int n = 0; status == PMIX_SUCCESS && n < count; n++) {
            atomic_store(&came, 0);
            status = kinds[i].call();
            early += atomic_load(&came);
            if (status == PMIX_SUCCESS) {
                sem_wait(&told);
            }
        }
        printf("%s %d\n", kinds[i].name, early);
    }
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s\n", PMIx_Error_string(status));
        return 1;
    }
    PMIx_server_finalize();
    return 0;
}
