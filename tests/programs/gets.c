/* Logs the values that a process requests from libpmix and passes to it, and the answers: a shared object for LD_PRELOAD, before
 * any libpmix.so.2. Calls that a libpmix makes to itself are left out. Nothing is written unless GETS_LOG names a
 * file; each line ends up in GETS_LOG.PID, in one write:
 *
 *   PROCESS FUNCTION KEY of TARGET [INFO=VALUE ...]: STATUS TYPE VALUE
 *
 * Lines leave out everything that differs from run to run: processes are "job N rank R" of their mpirun or step, or "host"; of
 * values that processes make themselves, such as addresses with ports, only the type and, for bytes, the size; a path is
 * "a path", and a topology, which may name the process that made it, "of many lines".
 */
#include "common.h"

#include <dlfcn.h>
#include <fcntl.h>

/* The function of this name behind this one. */
static void *behind(const char *name)
{
    void *library = dlopen("libpmix.so.2", RTLD_LAZY);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        fprintf(stderr, "gets: %s: %s\n", name, dlerror());
        abort();
    }
    return found;
}

/* Whether a call comes from outside of libpmix and is to be written. */
static bool is_wanted(const void *caller)
{
    Dl_info object;
    return getenv("GETS_LOG") != NULL &&
           (dladdr(caller, &object) == 0 || object.dli_fname == NULL || strstr(object.dli_fname, "/libpmix.so") == NULL);
}

typedef struct {
    char text[2048];
    size_t len;
} line_t;

__attribute__((format(printf, 2, 3))) static void append(line_t *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line->text + line->len, sizeof(line->text) - line->len, format, args);
    va_end(args);
    if (len > 0) {
        line->len += len;
    }
    if (line->len >= sizeof(line->text)) {
        line->len = sizeof(line->text) - 1;
    }
}

/* Open MPI's namespaces are numbers, whose lower half counts the jobs of an mpirun; others have such a number at their end. */
static void append_nspace(line_t *line, const char *nspace)
{
    char *end;
    unsigned long number = strtoul(nspace, &end, 10);
    if (*nspace != 0 && *end == 0) {
        append(line, "job %lu", number & 0xffff);
    } else {
        append(line, "job %s", strrchr(nspace, '.') != NULL ? strrchr(nspace, '.') + 1 : nspace);
    }
}

static void append_proc(line_t *line, const pmix_proc_t *proc)
{
    if (proc == NULL) {
        append(line, "nobody");
        return;
    }
    append_nspace(line, proc->nspace);
    if (proc->rank == PMIX_RANK_WILDCARD) {
        append(line, " rank all");
    } else {
        append(line, " rank %u", proc->rank);
    }
}

static void append_value(line_t *line, const char *key, const pmix_value_t *value)
{
    if (value == NULL) {
        append(line, "nothing");
        return;
    }
    append(line, "%s", PMIx_Data_type_string(value->type));
    bool is_told = strncmp(key, "pmix.", 5) == 0;
    switch (value->type) {
    case PMIX_BOOL: append(line, " %d", value->data.flag); break;
    case PMIX_INT: append(line, " %d", value->data.integer); break;
    case PMIX_UINT16: append(line, " %u", value->data.uint16); break;
    case PMIX_UINT32: append(line, " %u", value->data.uint32); break;
    case PMIX_UINT64: append(line, " %llu", (unsigned long long) value->data.uint64); break;
    case PMIX_PROC_RANK: append(line, " %u", value->data.rank); break;
    case PMIX_BYTE_OBJECT: append(line, " %zu", value->data.bo.size); break;
    case PMIX_PROC:
        append(line, " ");
        append_proc(line, value->data.proc);
        break;
    case PMIX_STRING:
        if (is_told && value->data.string != NULL) {
            const char *text = value->data.string;
            append(line, " %s", *text == '/' ? "a path" : strchr(text, '\n') != NULL ? "of many lines" : text);
        }
        break;
    default: break;
    }
}

static void begin(line_t *line, const char *function, const char *key, const pmix_proc_t *target, const pmix_info_t info[],
                  size_t ninfo)
{
    const char *nspace = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    line->len = 0;
    if (nspace != NULL && rank != NULL) {
        append_nspace(line, nspace);
        append(line, " rank %s ", rank);
    } else {
        append(line, "host ");
    }
    append(line, "%s %s", function, key != NULL ? key : "everything");
    if (target != NULL) {
        append(line, " of ");
        append_proc(line, target);
    }
    for (size_t i = 0; i < ninfo; i++) {
        append(line, " %s=", info[i].key);
        append_value(line, info[i].key, &info[i].value);
    }
    append(line, ":");
}

/* As a number: libraries have names of their own for it. */
static void end(line_t *line, pmix_status_t status)
{
    append(line, " %d\n", status);
}

static void write_line(const line_t *line)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.%d", getenv("GETS_LOG"), (int) getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line->text, line->len) != (ssize_t) line->len) {
        perror(path);
        abort();
    }
    close(fd);
}

/* A line with an answer: its status, and the value if there is one. */
static void answered(line_t *line, const char *key, pmix_status_t status, const pmix_value_t *value)
{
    if (status == PMIX_SUCCESS && value != NULL) {
        append(line, " %d ", status);
        append_value(line, key != NULL ? key : "", value);
        append(line, "\n");
    } else {
        end(line, status);
    }
    write_line(line);
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo, pmix_value_t **val)
{
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) =
        behind("PMIx_Get");
    pmix_status_t status = get(proc, key, info, ninfo, val);
    if (is_wanted(__builtin_return_address(0))) {
        line_t line;
        begin(&line, "PMIx_Get", key, proc, info, ninfo);
        answered(&line, key, status, status == PMIX_SUCCESS ? *val : NULL);
    }
    return status;
}

typedef struct {
    line_t line;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_value_cbfunc_t cbfunc;
    void *cbdata;
} pending_t;

static void get_answered(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    pending_t *pending = cbdata;
    answered(&pending->line, pending->key, status, value);
    pending->cbfunc(status, value, pending->cbdata);
    free(pending);
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo,
                          pmix_value_cbfunc_t cbfunc, void *cbdata)
{
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_cbfunc_t, void *) =
        behind("PMIx_Get_nb");
    pending_t *pending = is_wanted(__builtin_return_address(0)) ? calloc(1, sizeof(*pending)) : NULL;
    if (pending == NULL) {
        return get(proc, key, info, ninfo, cbfunc, cbdata);
    }
    begin(&pending->line, "PMIx_Get_nb", key, proc, info, ninfo);
    strncpy(pending->key, key != NULL ? key : "", PMIX_MAX_KEYLEN);
    pending->cbfunc = cbfunc;
    pending->cbdata = cbdata;
    pmix_status_t status = get(proc, key, info, ninfo, get_answered, pending);
    if (status != PMIX_SUCCESS) {
        end(&pending->line, status);
        write_line(&pending->line);
        free(pending);
    }
    return status;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = behind("PMIx_Put");
    pmix_status_t status = put(scope, key, value);
    if (is_wanted(__builtin_return_address(0))) {
        line_t line;
        begin(&line, "PMIx_Put", key, NULL, NULL, 0);
        append(&line, " %s ", PMIx_Scope_string(scope));
        append_value(&line, key, value);
        end(&line, status);
        write_line(&line);
    }
    return status;
}

pmix_status_t PMIx_Store_internal(const pmix_proc_t *proc, const char key[], pmix_value_t *value)
{
    pmix_status_t (*store)(const pmix_proc_t *, const char *, pmix_value_t *) = behind("PMIx_Store_internal");
    pmix_status_t status = store(proc, key, value);
    if (is_wanted(__builtin_return_address(0))) {
        line_t line;
        begin(&line, "PMIx_Store_internal", key, proc, NULL, 0);
        append(&line, " ");
        append_value(&line, key, value);
        end(&line, status);
        write_line(&line);
    }
    return status;
}
