/* A host with a rank in a namespace whose name is not UTF-8, and with values and a forked child of its own.
 *
 *   own host PROGRAM   PROGRAM is this one; prints a line for each request
 *   own rank           the rank that the host starts
 */
#include "common.h"

#include <pmix_server.h>
#include <pthread.h>
#include <sys/wait.h>

static const char name[] = "job-\xff\xfe-1";

static void told(const char *what, int status)
{
    say("%s %d", what, status);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        _exit(1);
    }
}

static int rank(void)
{
    pmix_proc_t me, server;
    pmix_value_t *value = NULL;
    told("rank init", PMIx_Init(&me, NULL, 0));
    if (strcmp(me.nspace, name) != 0) {
        told("rank has another name", PMIX_ERROR);
    }
    memset(&server, 0, sizeof(server));
    strcpy(server.nspace, me.nspace);
    server.rank = PMIX_RANK_WILDCARD;
    told("rank job size", PMIx_Get(&server, PMIX_JOB_SIZE, NULL, 0, &value));
    PMIX_VALUE_RELEASE(value);
    memset(&server, 0, sizeof(server));
    strcpy(server.nspace, getenv("OWN_SERVER"));
    told("rank reads the host's", PMIx_Get(&server, "of the host", NULL, 0, &value));
    if (value->type != PMIX_INT || value->data.integer != 42) {
        told("rank reads another value", PMIX_ERROR);
    }
    PMIX_VALUE_RELEASE(value);
    told("rank finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

/* The status of a child; a hanging one is killed. */
static int end_of(pid_t child)
{
    int status = -1;
    for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; i++) {
        usleep(10000);
    }
    if (status == -1) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return status;
}

static int host(char *program)
{
    static pmix_server_module_t module;
    static char named[] = "OWN_SERVER=the-host";
    pmix_info_t infos[2] = { { .value = { .type = PMIX_STRING, .data.string = "the-host" } },
                             { .value = { .type = PMIX_PROC_RANK, .data.rank = 0 } } };
    pmix_info_t size = { .value = { .type = PMIX_UINT32, .data.uint32 = 1 } };
    pmix_value_t value = { .type = PMIX_INT, .data.integer = 42 };
    pmix_proc_t proc;
    char **env = need(calloc(1, sizeof(*env)));
    strcpy(infos[0].key, PMIX_SERVER_NSPACE);
    strcpy(infos[1].key, PMIX_SERVER_RANK);
    strcpy(size.key, PMIX_JOB_SIZE);
    told("init", PMIx_server_init(&module, infos, 2));
    told("put", PMIx_Put(PMIX_GLOBAL, "of the host", &value));
    told("commit", PMIx_Commit());
    pid_t child = fork();
    if (child == 0) {
        _exit(PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1);
    }
    told("a child ends its copy", end_of(child));

    memset(&proc, 0, sizeof(proc));
    strcpy(proc.nspace, name);
    told("register_nspace", PMIx_server_register_nspace(proc.nspace, 1, &size, 1, NULL, NULL));
    told("register_client", PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    told("setup_fork", PMIx_server_setup_fork(&proc, &env));
    size_t count = 0;
    while (env[count] != NULL) {
        count++;
    }
    const char *library = getenv("LD_LIBRARY_PATH"), *of_rank = getenv("OWN_RANK_LIB");
    char path[4096];
    snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", of_rank != NULL ? of_rank : library != NULL ? library : "");
    env = need(realloc(env, (count + 3) * sizeof(*env)));
    env[count] = named;
    env[count + 1] = path;
    env[count + 2] = NULL;
    child = fork();
    if (child == 0) {
        char *args[] = { program, "rank", NULL };
        execve(program, args, env);
        _exit(127);
    }
    told("the rank", end_of(child));
    told("finalize", PMIx_server_finalize());
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    return argc > 2 ? host(argv[2]) : rank();
}
