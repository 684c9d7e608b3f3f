/* Shared by the test programs: making values without the library's help, and reporting checks.
 *
 * The programs are compiled against the stock headers and run with whichever libpmix.so.2 the loader finds, so they
 * use few of the library's helper functions: a value is filled in field by field, from malloc.
 */
#ifndef PMIX_TEST_COMMON_H
#define PMIX_TEST_COMMON_H

#define _GNU_SOURCE
#include <pmix.h>

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        _exit(70);
    }
    return memory;
}

static inline char *copy_text(const char *text) { return need(strdup(text)); }

/* One write per line, so that the lines of several processes do not mix. */
static inline void print_line(int fd, const char *format, va_list args)
{
    char line[2048];
    int len = vsnprintf(line, sizeof(line) - 1, format, args);
    if (len < 0) {
        return;
    }
    if (len > (int) sizeof(line) - 2) {
        len = sizeof(line) - 2;
    }
    line[len++] = '\n';
    ssize_t written = write(fd, line, len);
    (void) written;
}

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDOUT_FILENO, format, args);
    va_end(args);
}

/* ---- values ------------------------------------------------------------------------------------------------- */

static inline pmix_value_t value_string(const char *text)
{
    pmix_value_t value = { .type = PMIX_STRING };
    value.data.string = copy_text(text);
    return value;
}

static inline pmix_value_t value_uint32(uint32_t number)
{
    pmix_value_t value = { .type = PMIX_UINT32 };
    value.data.uint32 = number;
    return value;
}

static inline pmix_value_t value_uint16(uint16_t number)
{
    pmix_value_t value = { .type = PMIX_UINT16 };
    value.data.uint16 = number;
    return value;
}

static inline pmix_value_t value_uint64(uint64_t number)
{
    pmix_value_t value = { .type = PMIX_UINT64 };
    value.data.uint64 = number;
    return value;
}

static inline pmix_value_t value_int(int number)
{
    pmix_value_t value = { .type = PMIX_INT };
    value.data.integer = number;
    return value;
}

static inline pmix_value_t value_rank(pmix_rank_t rank)
{
    pmix_value_t value = { .type = PMIX_PROC_RANK };
    value.data.rank = rank;
    return value;
}

static inline pmix_value_t value_bool(bool flag)
{
    pmix_value_t value = { .type = PMIX_BOOL };
    value.data.flag = flag;
    return value;
}

static inline pmix_value_t value_bytes(const void *bytes, size_t len)
{
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
    value.data.bo.bytes = need(malloc(len ? len : 1));
    memcpy(value.data.bo.bytes, bytes, len);
    value.data.bo.size = len;
    return value;
}

static inline pmix_value_t value_proc(const pmix_proc_t *proc)
{
    pmix_value_t value = { .type = PMIX_PROC };
    value.data.proc = need(malloc(sizeof(*proc)));
    *value.data.proc = *proc;
    return value;
}

/* ---- lists of infos ----------------------------------------------------------------------------------------- */

typedef struct {
    pmix_info_t *items;
    size_t count;
} infos_t;

static inline void add(infos_t *list, const char *key, pmix_value_t value)
{
    list->items = need(realloc(list->items, (list->count + 1) * sizeof(pmix_info_t)));
    pmix_info_t *info = &list->items[list->count++];
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value = value;
}

/* The list as a value; the value takes the items over. */
static inline pmix_value_t value_infos(infos_t *list)
{
    pmix_data_array_t *array = need(calloc(1, sizeof(*array)));
    array->type = PMIX_INFO;
    array->size = list->count;
    array->array = list->items;
    pmix_value_t value = { .type = PMIX_DATA_ARRAY };
    value.data.darray = array;
    list->items = NULL;
    list->count = 0;
    return value;
}

static inline void free_value(pmix_value_t *value);

static inline void free_infos(infos_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free_value(&list->items[i].value);
    }
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

/* Frees a value that the functions above made. */
static inline void free_value(pmix_value_t *value)
{
    if (value->type == PMIX_STRING) {
        free(value->data.string);
    } else if (value->type == PMIX_BYTE_OBJECT) {
        free(value->data.bo.bytes);
    } else if (value->type == PMIX_PROC) {
        free(value->data.proc);
    } else if (value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_INFO) {
        infos_t inner = { .items = value->data.darray->array, .count = value->data.darray->size };
        free_infos(&inner);
        free(value->data.darray);
    }
    value->type = PMIX_UNDEF;
}

static inline pmix_proc_t proc_of(const char *nspace, pmix_rank_t rank)
{
    pmix_proc_t proc;
    memset(&proc, 0, sizeof(proc));
    strncpy(proc.nspace, nspace, PMIX_MAX_NSLEN);
    proc.rank = rank;
    return proc;
}

/* ---- the calls of most ranks ------------------------------------------------------------------------------------- */

/* A fence of all ranks, with or without collecting their committed data. */
static inline pmix_status_t fence_of_all(bool collects)
{
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = value_bool(collects) };
    return PMIx_Fence(NULL, 0, &collect, 1);
}

/* A fence of all ranks that collects their committed data. */
static inline pmix_status_t collecting_fence(void)
{
    return fence_of_all(true);
}

/* Commits and fences: afterwards all ranks can read each other's puts. */
static inline pmix_status_t commit_and_collect(void)
{
    pmix_status_t status = PMIx_Commit();
    return status == PMIX_SUCCESS ? collecting_fence() : status;
}

/* Ends when all ranks have come so far. */
static inline pmix_status_t finalize_together(void)
{
    pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
    return status == PMIX_SUCCESS ? PMIx_Finalize(NULL, 0) : status;
}

/* The number of entries in a directory, for example of a process's descriptors or threads. */
static inline int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

/* ---- the layout of the job, which the host passes to its ranks in the environment ------------------------------ */

#define NODE_COUNT_MAX 8
#define RANK_COUNT_MAX 512

typedef struct {
    int node_count;
    char *nodes[NODE_COUNT_MAX];
    int rank_count;
    int node_of[RANK_COUNT_MAX];
    int local_rank_of[RANK_COUNT_MAX];
    int local_count[NODE_COUNT_MAX];
} layout_t;

#endif
