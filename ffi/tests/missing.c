/* Calls every function that the library does not have, as a server and as its client; calls.h is made by the test. Prints
 * what answers something else than PMIX_ERR_NOT_SUPPORTED, and how often a callback was called. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>

/* What pointers point to. */
static union {
    char bytes[4096];
    max_align_t aligned;
} memory;

static int others, called;

/* Whatever callback a function is given: none may be called. */
static void callback(void)
{
    called++;
}

static void answered(const char *name, pmix_status_t rc)
{
    if (rc != PMIX_ERR_NOT_SUPPORTED) {
        printf("%s %d\n", name, rc);
        others++;
    }
}

static void call_all(void)
{
#include "calls.h"
}

static int finish(const char *who, pmix_status_t rc)
{
    printf("%s: status %d, %d other answers, %d callbacks\n", who, rc, others, called);
    fflush(stdout);
    return rc == PMIX_SUCCESS && others == 0 && called == 0 ? 0 : 1;
}

static int client(void)
{
    pmix_proc_t me;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        return 2;
    }
    call_all();
    return finish("client", PMIx_Finalize(NULL, 0));
}

static int server(char **argv)
{
    pmix_server_module_t module;
    pmix_proc_t rank;
    char **env = NULL;
    int status = 0;
    pid_t child;
    memset(&module, 0, sizeof(module));
    PMIX_LOAD_PROCID(&rank, "missing", 0);
    if (PMIx_server_init(&module, NULL, 0) != PMIX_SUCCESS
        || PMIx_server_register_nspace(rank.nspace, 1, NULL, 0, NULL, NULL) != PMIX_OPERATION_SUCCEEDED
        || PMIx_server_register_client(&rank, geteuid(), getegid(), NULL, NULL, NULL) != PMIX_OPERATION_SUCCEEDED
        || PMIx_server_setup_fork(&rank, &env) != PMIX_SUCCESS) {
        return 2;
    }
    call_all();
    child = fork();
    if (child == 0) {
        int n;
        for (n = 0; env[n] != NULL; n++) {
            putenv(env[n]);
        }
        execl(argv[0], argv[0], "client", (char *) NULL);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        printf("the client ended with %d\n", status);
        others++;
    }
    return finish("server", PMIx_server_finalize());
}

int main(int argc, char **argv)
{
    /* Nobody waits for a call that never returns. */
    alarm(200);
    return argc > 1 ? client() : server(argv);
}
