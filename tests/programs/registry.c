/* A host that executes a script of registrations and reads, in itself and in ranks that it starts.
 *
 *   registry        the host; executes its standard input line by line
 *   registry ask    a rank; answers the questions of its standard input
 *
 * The words of a script are those of script.h:
 *
 *   init INFOS                     the attributes of the server, if any; the first line
 *   register NSPACE NLOCAL INFOS   registers a namespace: answers with the status
 *   client NSPACE RANK             registers a process of this node
 *   deregister NSPACE              forgets the namespace
 *   resources INFOS, withdraw INFOS
 *                                  PMIx_server_register_resources, PMIx_server_deregister_resources
 *   session ID INFOS, end-session ID
 *                                  PMIx_server_register_session, PMIx_server_deregister_session
 *   deliver NSPACE RANK TEXT       output of a process, on its standard output: answers with the status
 *   log KEY TEXT INFOS             PMIx_Log of the host itself
 *   nodemap TEXT, procmap TEXT     the library's encoding of a map: answers with its bytes, all as %XX
 *   rank NSPACE RANK LIBDIR NAME=VALUE ...
 *                                  starts a rank with this library and these variables; the lines up to
 *                                  "end" are its requests
 *
 * Requests, each answered by a line with the status and, where there is one, the value:
 *
 *   get NSPACE RANK KEY INFOS      PMIx_Get
 *   peers NODE NSPACE              PMIx_Resolve_peers
 *   nodes NSPACE                   PMIx_Resolve_nodes
 *   store NSPACE RANK INFO         PMIx_Store_internal
 *   put SCOPE INFO                 PMIx_Put
 *   query KEY,KEY INFOS            PMIx_Query_info, of one query
 *   attributes FUNCTION NAME ...   PMIx_Register_attributes
 *   commit, fence                  PMIx_Commit, and PMIx_Fence of all with PMIX_COLLECT_DATA
 */
#define PROGRAM "registry"
#include "script.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

/* ---- questions ------------------------------------------------------------------------------------------------- */

static void end_answer(pmix_status_t status) { printf("%s%d\n", "status ", status); }

static void copy_name(pmix_proc_t *proc, const char *nspace, pmix_rank_t rank)
{
    *proc = proc_of(nspace == NULL ? "" : nspace, rank);
}

static void get(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, strtoul(next_word(), NULL, 10));
    const char *key = next_text(NULL);
    infos_t infos = next_infos();
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&proc, key, infos.items, infos.count, &value);
    PMIX_INFO_FREE(infos.items, infos.count);
    if (status == PMIX_SUCCESS && value != NULL) {
        print_value(value);
        printf(" ");
    }
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
    end_answer(status);
}

static void peers(void)
{
    const char *node = next_text(NULL), *nspace = next_text(NULL);
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Resolve_peers(node, nspace, &procs, &count);
    for (size_t i = 0; status == PMIX_SUCCESS && i < count; i++) {
        print_text(procs[i].nspace);
        printf(":%u ", procs[i].rank);
    }
    if (procs != NULL) {
        PMIX_PROC_FREE(procs, count);
    }
    end_answer(status);
}

static void nodes(void)
{
    char *list = NULL;
    pmix_status_t status = PMIx_Resolve_nodes(next_text(NULL), &list);
    if (status == PMIX_SUCCESS) {
        print_text(list);
        printf(" ");
    }
    free(list);
    end_answer(status);
}

static void store(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, strtoul(next_word(), NULL, 10));
    infos_t infos = next_infos();
    end_answer(PMIx_Store_internal(&proc, infos.items[0].key, &infos.items[0].value));
    PMIX_INFO_FREE(infos.items, infos.count);
}

static void put(void)
{
    int scope = atoi(next_word());
    infos_t infos = next_infos();
    end_answer(PMIx_Put(scope, infos.items[0].key, &infos.items[0].value));
    PMIX_INFO_FREE(infos.items, infos.count);
}

static void query(void)
{
    pmix_query_t asked = { 0 };
    char *words = next_word(), *key;
    pmix_status_t status;
    while ((key = strsep(&words, ",")) != NULL) {
        PMIX_ARGV_APPEND(status, asked.keys, key);
    }
    infos_t infos = next_infos();
    asked.qualifiers = infos.items;
    asked.nqual = infos.count;
    pmix_info_t *told = NULL;
    size_t count = 0;
    status = PMIx_Query_info(&asked, 1, &told, &count);
    if (told != NULL) {
        pmix_data_array_t array = { .type = PMIX_INFO, .array = told, .size = count };
        print_array(&array);
        printf(" ");
        PMIX_INFO_FREE(told, count);
    }
    PMIX_ARGV_FREE(asked.keys);
    free_infos(&infos);
    end_answer(status);
}

static void register_attributes(void)
{
    char *function = next_word(), **names = NULL;
    pmix_status_t status;
    for (char *name = next_word(); *name != '\0'; name = next_word()) {
        PMIX_ARGV_APPEND(status, names, name);
    }
    status = PMIx_Register_attributes(function, names);
    PMIX_ARGV_FREE(names);
    end_answer(status);
}

/* Answers a question; false if it is not one. */
static bool answer(const char *what)
{
    if (strcmp(what, "get") == 0) {
        get();
    } else if (strcmp(what, "peers") == 0) {
        peers();
    } else if (strcmp(what, "nodes") == 0) {
        nodes();
    } else if (strcmp(what, "store") == 0) {
        store();
    } else if (strcmp(what, "put") == 0) {
        put();
    } else if (strcmp(what, "query") == 0) {
        query();
    } else if (strcmp(what, "attributes") == 0) {
        register_attributes();
    } else if (strcmp(what, "commit") == 0) {
        end_answer(PMIx_Commit());
    } else if (strcmp(what, "fence") == 0) {
        end_answer(collecting_fence());
    } else {
        return false;
    }
    return true;
}

static void answer_line(const char *what)
{
    if (!answer(what)) {
        fail("no such question", what);
    }
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

static const char *self;

static void register_nspace(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, PMIX_RANK_WILDCARD);
    int nlocal = atoi(next_word());
    infos_t infos = next_infos();
    pmix_status_t status = PMIx_server_register_nspace(proc.nspace, nlocal, infos.items, infos.count, NULL, NULL);
    PMIX_INFO_FREE(infos.items, infos.count);
    end_answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

static void register_client(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, strtoul(next_word(), NULL, 10));
    pmix_status_t status = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL);
    end_answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

static void change_resources(pmix_status_t (*change)(pmix_info_t *, size_t, pmix_op_cbfunc_t, void *))
{
    infos_t infos = next_infos();
    pmix_status_t status = change(infos.items, infos.count, NULL, NULL);
    free_infos(&infos);
    end_answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

/* The headers that this is compiled with may be older than these functions. */
static void register_session(void)
{
    pmix_status_t (*register_)(uint32_t, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *) =
        (__typeof__(register_)) dlsym(RTLD_DEFAULT, "PMIx_server_register_session");
    uint32_t id = (uint32_t) strtoul(next_word(), NULL, 10);
    infos_t infos = next_infos();
    pmix_status_t status = register_ == NULL ? PMIX_ERR_NOT_SUPPORTED : register_(id, infos.items, infos.count, NULL, NULL);
    free_infos(&infos);
    end_answer(status);
}

static void deregister_session(void)
{
    void (*deregister)(uint32_t, pmix_op_cbfunc_t, void *) =
        (__typeof__(deregister)) dlsym(RTLD_DEFAULT, "PMIx_server_deregister_session");
    uint32_t id = (uint32_t) strtoul(next_word(), NULL, 10);
    if (deregister != NULL) {
        deregister(id, NULL, NULL);
    }
    end_answer(deregister == NULL ? PMIX_ERR_NOT_SUPPORTED : PMIX_SUCCESS);
}

/* How long a map is depends on its form: only one of them ends with its NUL. */
static void make_map(pmix_status_t (*make)(const char *, char **))
{
    char *map = NULL;
    pmix_status_t status = make(next_text(NULL), &map);
    if (status == PMIX_SUCCESS) {
        size_t len = strlen(map) + 1;
        if (strcmp(map, "blob:") == 0) {
            len += strlen(map + len) + 1;
            size_t body = strtoul(map + len + strlen("size="), NULL, 10);
            len += strlen(map + len) + 1 + body;
        }
        print_bytes(map, len, true);
        printf(" ");
    }
    free(map);
    end_answer(status);
}

static void deliver(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, strtoul(next_word(), NULL, 10));
    pmix_byte_object_t output = { .bytes = next_text(&output.size) };
    fflush(stdout);
    pmix_status_t status = PMIx_server_IOF_deliver(&proc, PMIX_FWD_STDOUT_CHANNEL, &output, NULL, 0, NULL, NULL);
    end_answer(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
}

static void log_text(void)
{
    pmix_info_t entry;
    char *key = next_word();
    PMIX_INFO_LOAD(&entry, key, next_text(NULL), PMIX_STRING);
    infos_t directives = next_infos();
    fflush(stdout);
    pmix_status_t status = PMIx_Log(&entry, 1, directives.items, directives.count);
    PMIX_INFO_DESTRUCT(&entry);
    end_answer(status);
}

static void start_rank(void)
{
    pmix_proc_t proc;
    const char *nspace = next_text(NULL);
    copy_name(&proc, nspace, strtoul(next_word(), NULL, 10));
    char *libraries = copy_text(next_text(NULL));
    pmix_status_t status;
    char **env = NULL;
    for (size_t i = 0; environ[i] != NULL; i++) {
        PMIX_ARGV_APPEND(status, env, environ[i]);
    }
    status = PMIx_server_setup_fork(&proc, &env);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_setup_fork", PMIx_Error_string(status));
    }
    PMIX_SETENV(status, "LD_LIBRARY_PATH", libraries, &env);
    for (char *name = next_word(); *name != '\0'; name = next_word()) {
        char *value = strchr(name, '=');
        *value++ = '\0';
        PMIX_SETENV(status, name, value, &env);
    }
    int questions = memfd_create("questions", MFD_CLOEXEC);
    char *line;
    while ((line = next_line()) != NULL && strcmp(line, "end") != 0) {
        dprintf(questions, "%s\n", line);
    }
    lseek(questions, 0, SEEK_SET);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *argv[] = { (char *) self, "ask", NULL };
        dup2(questions, STDIN_FILENO);
        execve(self, argv, env);
        _exit(72);
    }
    close(questions);
    int code = 0;
    if (child < 0 || waitpid(child, &code, 0) != child || code != 0) {
        fprintf(stderr, "registry: rank %u of %s ended with %#x\n", proc.rank, proc.nspace, code);
    }
    PMIX_ARGV_FREE(env);
    free(libraries);
    /* Where its answers end. */
    printf("rank ended with %d\n", code);
}

static void init(bool has_attributes)
{
    static pmix_server_module_t module;
    infos_t infos = { 0 };
    if (has_attributes) {
        infos = next_infos();
    }
    pmix_status_t status = PMIx_server_init(&module, infos.items, infos.count);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_server_init", PMIx_Error_string(status));
    }
    PMIX_INFO_FREE(infos.items, infos.count);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "ask") == 0) {
        alarm(300);
        return run_script(answer_line);
    }
    self = argv[0];
    char *line = next_line();
    const char *what = line == NULL ? "" : next_word();
    bool has_attributes = strcmp(what, "init") == 0;
    init(has_attributes);
    if (has_attributes) {
        line = next_line();
        what = line == NULL ? "" : next_word();
    }
    for (; line != NULL; line = next_line(), what = line == NULL ? "" : next_word()) {
        if (strcmp(what, "register") == 0) {
            register_nspace();
        } else if (strcmp(what, "client") == 0) {
            register_client();
        } else if (strcmp(what, "deregister") == 0) {
            PMIx_server_deregister_nspace(next_text(NULL), NULL, NULL);
        } else if (strcmp(what, "rank") == 0) {
            start_rank();
        } else if (strcmp(what, "resources") == 0) {
            change_resources(PMIx_server_register_resources);
        } else if (strcmp(what, "withdraw") == 0) {
            change_resources(PMIx_server_deregister_resources);
        } else if (strcmp(what, "session") == 0) {
            register_session();
        } else if (strcmp(what, "end-session") == 0) {
            deregister_session();
        } else if (strcmp(what, "deliver") == 0) {
            deliver();
        } else if (strcmp(what, "log") == 0) {
            log_text();
        } else if (strcmp(what, "nodemap") == 0) {
            make_map(PMIx_generate_regex);
        } else if (strcmp(what, "procmap") == 0) {
            make_map(PMIx_generate_ppn);
        } else if (!answer(what)) {
            fail("no such order", what);
        }
    }
    fflush(stdout);
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1;
}
