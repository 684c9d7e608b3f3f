/* A host that tells of fabrics, sessions and blocks of resources, and one rank of its: both ask, and print what they are told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

extern char **environ;

static const char *who = "host";

static void say_infos(const pmix_info_t *infos, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].key, PMIX_USERID) == 0 || strcmp(infos[i].key, PMIX_GRPID) == 0) {
            uint32_t own = strcmp(infos[i].key, PMIX_USERID) == 0 ? geteuid() : getegid();
            printf(" %s=%s", infos[i].key, infos[i].value.data.uint32 == own ? "own" : "other");
        } else if (infos[i].value.type == PMIX_STRING) {
            printf(" %s=%s", infos[i].key, infos[i].value.data.string);
        } else if (infos[i].value.type == PMIX_SIZE) {
            printf(" %s=%zu", infos[i].key, infos[i].value.data.size);
        }
    }
    printf("\n");
    fflush(stdout);
}

/* ---- the host -------------------------------------------------------------------------------------------------- */

/* Two fabrics: what is asked for names the second. */
static pmix_status_t fabric(const pmix_proc_t *requestor, pmix_fabric_operation_t op, const pmix_info_t directives[],
                            size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    static int asked;
    pmix_info_t infos[2];
    size_t index = 2, turn = (size_t) ++asked;
    printf("upcall fabric of %u: %s", requestor->rank, op == PMIX_FABRIC_UPDATE_INFO ? "update" : "request");
    say_infos(directives, ndirs);
    if (ndirs > 0 && strcmp(directives[0].key, "refuse") == 0) {
        return PMIX_ERR_NOT_FOUND;
    }
    PMIX_INFO_LOAD(&infos[0], PMIX_FABRIC_INDEX, &index, PMIX_SIZE);
    PMIX_INFO_LOAD(&infos[1], PMIX_FABRIC_NUM_DEVICES, &turn, PMIX_SIZE);
    cbfunc(PMIX_SUCCESS, infos, 2, cbdata, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t session_control(const pmix_proc_t *requestor, uint32_t session, const pmix_info_t directives[],
                                     size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
    printf("upcall session %u of %u:", session, requestor->rank);
    say_infos(directives, ndirs);
    cbfunc(session == 7 ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, (pmix_info_t *) directives, session == 7 ? ndirs : 0, cbdata,
           NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t resource_block(const pmix_proc_t *requestor, pmix_resource_block_directive_t directive,
                                    const char *block, const pmix_resource_unit_t *units, size_t nunits,
                                    const pmix_info_t *info, size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    printf("upcall block of %u: %s %s", requestor->rank, PMIx_Resource_block_directive_string(directive),
           block);
    for (size_t i = 0; i < nunits; i++) {
        printf(" %zux%llu", units[i].count, (unsigned long long) units[i].type);
    }
    say_infos(info, ninfo);
    if (directive == PMIX_RESOURCE_BLOCK_DELETE) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    cbfunc(nunits == 0 ? PMIX_ERR_BAD_PARAM : PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

/* ---- who asks --------------------------------------------------------------------------------------------------- */

static int done[2];


static void op_done(pmix_status_t status, void *cbdata)
{
    printf("%s: called back: %d\n", (const char *) cbdata, status);
    fflush(stdout);
    (void) !write(done[1], "", 1);
}

static void infos_done(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata, pmix_release_cbfunc_t release_fn,
                       void *release_cbdata)
{
    printf("%s: called back: %d", (const char *) cbdata, status);
    say_infos(info, ninfo);
    if (release_fn != NULL) {
        release_fn(release_cbdata);
    }
    (void) !write(done[1], "", 1);
}

static void say(const char *what, pmix_status_t status)
{
    printf("%s: %s: %d\n", who, what, status);
    fflush(stdout);
}

/* What a call answered whose callback comes, once that has come. */
static void say_after(const char *what, pmix_status_t status)
{
    char byte;
    if (status == PMIX_SUCCESS && read(done[0], &byte, 1) != 1) {
        printf("%s: no callback\n", what);
    }
    say(what, status);
}

static void say_fabric(const char *what, pmix_status_t status, const pmix_fabric_t *fabric)
{
    printf("%s: %s: %d, index %zd:", who, what, status, (ssize_t) fabric->index);
    say_infos(fabric->info, fabric->ninfo);
}

static void ask(void)
{
    pmix_fabric_t fabric;
    pmix_info_t info;
    pmix_resource_unit_t units[2] = { { .type = PMIX_DEVTYPE_GPU, .count = 4 }, { .type = PMIX_DEVTYPE_NETWORK, .count = 1 } };
    char block[] = "block";
    if (pipe(done) != 0) {
        exit(3);
    }
    PMIX_FABRIC_CONSTRUCT(&fabric);
    PMIX_INFO_LOAD(&info, PMIX_FABRIC_VENDOR, "vendor", PMIX_STRING);
    say_fabric("register", PMIx_Fabric_register(&fabric, &info, 1), &fabric);
    say_fabric("update", PMIx_Fabric_update(&fabric), &fabric);
    say_after("update_nb", PMIx_Fabric_update_nb(&fabric, op_done, "update_nb"));
    say_fabric("after it", 0, &fabric);
    say_fabric("deregister", PMIx_Fabric_deregister(&fabric), &fabric);
    say_after("register_nb", PMIx_Fabric_register_nb(&fabric, NULL, 0, op_done, "register_nb"));
    say_fabric("after it", 0, &fabric);
    say_fabric("deregister_nb", PMIx_Fabric_deregister_nb(&fabric, op_done, "deregister_nb"), &fabric);
    say("register nothing", PMIx_Fabric_register(NULL, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);

    PMIX_INFO_LOAD(&info, "refuse", "it", PMIX_STRING);
    say_fabric("refused", PMIx_Fabric_register(&fabric, &info, 1), &fabric);
    PMIX_INFO_DESTRUCT(&info);

    PMIX_INFO_LOAD(&info, PMIX_SESSION_CTRL_ID, "control", PMIX_STRING);
    say("session 7", PMIx_Session_control(7, &info, 1, NULL, NULL));
    say("session 8", PMIx_Session_control(8, &info, 1, NULL, NULL));
    say_after("session 7, with a callback", PMIx_Session_control(7, &info, 1, infos_done, "session"));

    say("define", PMIx_Resource_block(PMIX_RESOURCE_BLOCK_DEFINE, block, units, 2, &info, 1));
    say("extend by nothing", PMIx_Resource_block(PMIX_RESOURCE_BLOCK_EXTEND, block, NULL, 0, NULL, 0));
    say("delete", PMIx_Resource_block(PMIX_RESOURCE_BLOCK_DELETE, block, NULL, 0, NULL, 0));
    say_after("define, with a callback",
              PMIx_Resource_block_nb(PMIX_RESOURCE_BLOCK_DEFINE, block, units, 1, NULL, 0, op_done, "define"));
    PMIX_INFO_DESTRUCT(&info);
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = { .fabric = fabric, .session_control = session_control, .resource_block = resource_block };
    pmix_proc_t rank;
    char **env = NULL;
    int status = 0;
    (void) argc;
    /* Nobody waits for a call that never returns. */
    alarm(200);
    if (getenv("PMIX_RANK") != NULL) {
        who = "rank";
        if (PMIx_Init(&rank, NULL, 0) != PMIX_SUCCESS) {
            return 2;
        }
        ask();
        return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 3;
    }
    say("session before init", PMIx_Session_control(7, NULL, 0, NULL, NULL));
    PMIX_LOAD_PROCID(&rank, "job", 0);
    if (PMIx_server_init(&module, NULL, 0) != PMIX_SUCCESS
        || PMIx_server_register_nspace(rank.nspace, 1, NULL, 0, NULL, NULL) != PMIX_OPERATION_SUCCEEDED
        || PMIx_server_register_client(&rank, geteuid(), getegid(), NULL, NULL, NULL) != PMIX_OPERATION_SUCCEEDED
        || PMIx_server_setup_fork(&rank, &env) != PMIX_SUCCESS) {
        return 2;
    }
    if (fork() == 0) {
        for (int n = 0; env[n] != NULL; n++) {
            putenv(env[n]);
        }
        execl(argv[0], argv[0], (char *) NULL);
        _exit(127);
    }
    if (wait(&status) < 0 || status != 0) {
        printf("the rank ended with %d\n", status);
    }
    for (int n = 0; env[n] != NULL; n++) {
        free(env[n]);
    }
    free(env);
    ask();
    return PMIx_server_finalize() == PMIX_SUCCESS && status == 0 ? 0 : 1;
}
