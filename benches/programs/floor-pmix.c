/* A libpmix.so.2 that answers each call of an Open MPI 4.1 rank out of a table in the process, for a floor beneath whole jobs: no
 * server, no thread, no socket, no cleaning up. `floor.c` starts the ranks. It has what Open MPI calls between MPI_Init and
 * MPI_Finalize of a job that neither spawns nor fails, and nothing else: an unknown key is not found, a full slot ends the process.
 *
 * Values that a rank puts are visible to all ranks at once; a fence is a counter in the shared file, for which ranks sleep by futex
 * inside the call. */
#define _GNU_SOURCE
#include "floor.h"

#include <errno.h>
#include <linux/futex.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A value in a slot; its bytes follow. */
typedef struct {
    char key[64];
    uint32_t len;
    pmix_data_type_t type;
} floor_entry_t;

/* A value that the process has stored for itself. */
typedef struct internal {
    struct internal *next;
    pmix_rank_t rank;
    char key[64];
    pmix_value_t value;
} internal_t;

static floor_t *table;
static pmix_rank_t own;
static int inits;
static internal_t *internals;

static void fail(const char *what)
{
    fprintf(stderr, "floor-pmix: %s: %s\n", what, strerror(errno));
    abort();
}

const char *PMIx_Get_version(void)
{
    /* Open MPI reads the number in it. */
    return "OpenPMIx 4.2.2 (floor)";
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t *info, size_t ninfo)
{
    (void) info, (void) ninfo;
    if (inits++ == 0) {
        const char *file = getenv(FLOOR_FILE), *rank = getenv(FLOOR_RANK);
        struct stat status;
        if (file == NULL || rank == NULL || fstat(atoi(file), &status) != 0) {
            return PMIX_ERR_UNREACH;
        }
        own = (pmix_rank_t) atoi(rank);
        table = mmap(NULL, (size_t) status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(file), 0);
        if (table == MAP_FAILED) {
            fail("mmap");
        }
    }
    if (proc != NULL) {
        memset(proc, 0, sizeof(*proc));
        strcpy(proc->nspace, "floor.job");
        proc->rank = own;
    }
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t *info, size_t ninfo)
{
    (void) info, (void) ninfo;
    inits--;
    return PMIX_SUCCESS;
}

/* The bytes of a value of the types that Open MPI puts or stores. */
static const void *bytes_of(const pmix_value_t *value, uint32_t *len)
{
    switch (value->type) {
    case PMIX_STRING:
        *len = (uint32_t) strlen(value->data.string) + 1;
        return value->data.string;
    case PMIX_BYTE_OBJECT:
        *len = (uint32_t) value->data.bo.size;
        return value->data.bo.bytes;
    default:
        *len = sizeof(value->data);
        return &value->data;
    }
}

static void set_value(pmix_value_t *value, pmix_data_type_t type, const void *bytes, uint32_t len)
{
    value->type = type;
    if (type == PMIX_STRING) {
        value->data.string = strdup(bytes);
    } else if (type == PMIX_BYTE_OBJECT) {
        value->data.bo.bytes = memcpy(malloc(len), bytes, len);
        value->data.bo.size = len;
    } else {
        memcpy(&value->data, bytes, len);
    }
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    (void) scope;
    floor_slot_t *slot = &table->slots[own];
    floor_entry_t entry = { .type = value->type };
    const void *bytes = bytes_of(value, &entry.len);
    if (strlen(key) >= sizeof(entry.key) || slot->used + sizeof(entry) + entry.len > sizeof(slot->bytes)) {
        errno = ENOSPC;
        fail(key);
    }
    strcpy(entry.key, key);
    memcpy(slot->bytes + slot->used, &entry, sizeof(entry));
    memcpy(slot->bytes + slot->used + sizeof(entry), bytes, entry.len);
    slot->used += (uint32_t) sizeof(entry) + entry.len;
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Store_internal(const pmix_proc_t *proc, const char key[], pmix_value_t *value)
{
    internal_t *new = calloc(1, sizeof(*new));
    uint32_t len;
    const void *bytes = bytes_of(value, &len);
    if (strlen(key) >= sizeof(new->key)) {
        errno = ENOSPC;
        fail(key);
    }
    new->next = internals;
    new->rank = proc->rank;
    strcpy(new->key, key);
    set_value(&new->value, value->type, bytes, len);
    internals = new;
    return PMIX_SUCCESS;
}

static bool get_internal(pmix_rank_t rank, const char *key, pmix_value_t *value)
{
    for (const internal_t *it = internals; it != NULL; it = it->next) {
        if (it->rank == rank && strcmp(it->key, key) == 0) {
            uint32_t len;
            const void *bytes = bytes_of(&it->value, &len);
            set_value(value, it->value.type, bytes, len);
            return true;
        }
    }
    return false;
}

static bool get_put(pmix_rank_t rank, const char *key, pmix_value_t *value)
{
    if (rank >= table->size) {
        return false;
    }
    const floor_slot_t *slot = &table->slots[rank];
    for (uint32_t at = 0; at < slot->used;) {
        floor_entry_t entry;
        memcpy(&entry, slot->bytes + at, sizeof(entry));
        if (strcmp(entry.key, key) == 0) {
            set_value(value, entry.type, slot->bytes + at + sizeof(entry), entry.len);
            return true;
        }
        at += (uint32_t) sizeof(entry) + entry.len;
    }
    return false;
}

static char *all_ranks(void)
{
    char *text = malloc(12 * (size_t) table->size), *end = text;
    for (uint32_t rank = 0; rank < table->size; rank++) {
        end += sprintf(end, rank == 0 ? "%u" : ",%u", rank);
    }
    return text;
}

/* What a launcher knows of a job on one node. */
static bool get_of_job(const char *key, pmix_value_t *value)
{
    static const char *const sizes[] = { PMIX_MAX_PROCS, PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_UNIV_SIZE };
    if (strcmp(key, PMIX_LOCAL_RANK) == 0 || strcmp(key, PMIX_NODE_RANK) == 0) {
        value->type = PMIX_UINT16;
        value->data.uint16 = (uint16_t) own;
        return true;
    }
    if (strcmp(key, PMIX_APPNUM) == 0 || strcmp(key, PMIX_NUM_NODES) == 0) {
        value->type = PMIX_UINT32;
        value->data.uint32 = strcmp(key, PMIX_NUM_NODES) == 0;
        return true;
    }
    if (strcmp(key, PMIX_LOCAL_PEERS) == 0) {
        value->type = PMIX_STRING;
        value->data.string = all_ranks();
        return true;
    }
    if (strcmp(key, PMIX_HWLOC_XML_V2) == 0 && table->topology[0] != 0) {
        value->type = PMIX_STRING;
        value->data.string = strdup(table->topology);
        return true;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (strcmp(key, sizes[i]) == 0) {
            value->type = PMIX_UINT32;
            value->data.uint32 = table->size;
            return true;
        }
    }
    return false;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo, pmix_value_t **value)
{
    (void) info, (void) ninfo;
    pmix_rank_t rank = proc != NULL ? proc->rank : own;
    pmix_value_t *found = calloc(1, sizeof(*found));
    if (get_internal(rank, key, found) || get_put(rank, key, found) || get_of_job(key, found)) {
        *value = found;
        return PMIX_SUCCESS;
    }
    free(found);
    *value = NULL;
    return PMIX_ERR_NOT_FOUND;
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done,
                            void *object)
{
    (void) procs, (void) nprocs, (void) info, (void) ninfo;
    uint32_t now = table->fences;
    if (atomic_fetch_add(&table->entered, 1) + 1 == table->size) {
        table->entered = 0;
        table->fences = now + 1;
        syscall(SYS_futex, &table->fences, FUTEX_WAKE, table->size, NULL, NULL, 0);
    }
    while (table->fences == now) {
        syscall(SYS_futex, &table->fences, FUTEX_WAIT, now, NULL, NULL, 0);
    }
    done(PMIX_SUCCESS, object);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[], size_t ninfo,
                                          pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t done, void *object)
{
    static size_t handlers;
    (void) codes, (void) ncodes, (void) info, (void) ninfo, (void) handler;
    /* No event ever comes. */
    done(PMIX_SUCCESS, handlers++, object);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Deregister_event_handler(size_t handler, pmix_op_cbfunc_t done, void *object)
{
    (void) handler;
    if (done != NULL) {
        done(PMIX_SUCCESS, object);
    }
    return PMIX_SUCCESS;
}

/* Open MPI asks that its files are removed when it dies, and does not start without a yes. Nobody does it here: ranks of the floor end by
 * themselves. */
pmix_status_t PMIx_Job_control_nb(const pmix_proc_t targets[], size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                  pmix_info_cbfunc_t done, void *object)
{
    (void) targets, (void) ntargets, (void) directives, (void) ndirs;
    if (done != NULL) {
        done(PMIX_SUCCESS, NULL, 0, object, NULL, NULL);
    }
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Info_load(pmix_info_t *info, const char *key, const void *data, pmix_data_type_t type)
{
    /* Directives, which this library does not read; no value that would have to be freed. */
    (void) data, (void) type;
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    return PMIX_SUCCESS;
}

void PMIx_Value_destruct(pmix_value_t *value)
{
    if (value->type == PMIX_STRING) {
        free(value->data.string);
    } else if (value->type == PMIX_BYTE_OBJECT) {
        free(value->data.bo.bytes);
    }
    value->type = PMIX_UNDEF;
}
