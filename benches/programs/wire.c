/* Wire-up of a rank under benches/programs/host.c: initialisation, a collecting fence, all peers' keys.
 *
 *   wire [--peers | --neighbours] [--direct] [--settled] [--memory] [--pages] [--len BYTES] [--keys N] [--fences F] [--more N] [--copy]
 *
 * Each rank prints times in milliseconds and memory in KiB:
 *
 *   rank INIT READY MEMORY PEERS      READY: from the host's first start of a rank to the end of the fence; MEMORY: private memory
 *                                     written until then, with --memory, which takes time; PEERS: with --peers
 *   fence N MILLISECONDS              with --fences: rank 0's time of commit and fence, after every rank has put one more key, or as
 *                                     many as --more says
 *   pages KIB                         with --pages: how much of libpmix.so.2 the process has written until then, loader included
 *   copy BEGUN ENDED                  with --copy, after the fences, in all ranks at once: a plain copy into new memory of this
 *                                     rank's part of the data that the last fence brought to its node; both times since the host
 *                                     began to start ranks
 *
 *   --neighbours   reads the keys of those 1, 2, 4, 8 ... ranks further on instead of all peers' keys
 *   --direct       the first fence brings no data: Gets ask for them (direct modex)
 *   --settled      all ranks are initialised before the first puts a value
 *   --len B    bytes of each of the N values (default: 8 values of 128 bytes); incompressible
 */
#define _GNU_SOURCE
#include <pmix.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "memory.h"

static pmix_proc_t me;

__attribute__((noreturn)) static void fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "rank %u: %s: %s (%d)\n", me.rank, what, PMIx_Error_string(status), status);
    exit(1);
}

static void put(int key, char *bytes, size_t len)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < len; i++) {
        state = state * 6364136223846793005 + 1442695040888963407 + me.rank;
        bytes[i] = (char) (state >> 56);
    }
    char name[32];
    snprintf(name, sizeof(name), "bench.%d", key);
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo = { .bytes = bytes, .size = len } };
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, name, &value);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Put", status);
    }
}

static void exchange(bool is_collecting)
{
    pmix_info_t collect;
    memset(&collect, 0, sizeof(collect));
    strcpy(collect.key, PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    pmix_status_t status = PMIx_Commit();
    if (status == PMIX_SUCCESS) {
        status = is_collecting ? PMIx_Fence(NULL, 0, &collect, 1) : PMIx_Fence(NULL, 0, NULL, 0);
    }
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Fence", status);
    }
}

static void barrier(void)
{
    pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Fence", status);
    }
}

/* Prints the times at which the copy began and ended. */
static void copy(size_t len, double begun)
{
    char *from = malloc(len);
    if (from == NULL) {
        fail("malloc", PMIX_ERR_NOMEM);
    }
    memset(from, (int) me.rank, len);
    barrier();
    double start = now();
    char *to = malloc(len);
    if (to == NULL) {
        fail("malloc", PMIX_ERR_NOMEM);
    }
    memcpy(to, from, len);
    /* Keeps the compiler from removing the copy. */
    __asm__ volatile("" : : "r"(to) : "memory");
    printf("copy %.3f %.3f\n", (start - begun) / 1e6, (now() - begun) / 1e6);
    free(to);
    free(from);
}

static void get(pmix_rank_t rank, const char *key, size_t len)
{
    pmix_proc_t proc = me;
    proc.rank = rank;
    pmix_value_t *value;
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value->type != PMIX_BYTE_OBJECT || value->data.bo.size != len) {
        fail("PMIx_Get", status);
    }
    free(value->data.bo.bytes);
    free(value);
}

static void get_all_of(pmix_rank_t rank, int keys, size_t len)
{
    for (int key = 0; key < keys; key++) {
        char name[32];
        snprintf(name, sizeof(name), "bench.%d", key);
        get(rank, name, len);
    }
}

/* Ranks are numbered node by node, and only the first ones of each node run. */
static uint32_t servers, clients, per_node;

static void read_shape(void)
{
    servers = atoi(getenv("BENCH_SERVERS"));
    clients = atoi(getenv("BENCH_CLIENTS"));
    per_node = atoi(getenv("BENCH_PER_NODE"));
}

static void read_peers(int keys, size_t len)
{
    for (uint32_t server = 0; server < servers; server++) {
        for (uint32_t client = 0; client < clients; client++) {
            get_all_of(server * per_node + client, keys, len);
        }
    }
}

static void read_neighbours(int keys, size_t len)
{
    uint32_t count = servers * clients, mine = me.rank / per_node * clients + me.rank % per_node;
    for (uint32_t step = 1; step < count; step *= 2) {
        uint32_t peer = (mine + step) % count;
        get_all_of(peer / clients * per_node + peer % clients, keys, len);
    }
}

int main(int argc, char **argv)
{
    bool peers = false, neighbours = false, is_direct = false, is_settled = false, is_counted = false, is_copied = false;
    bool has_pages = false;
    size_t len = 128;
    int keys = 8, fences = 0, more = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--peers") == 0) {
            peers = true;
        } else if (strcmp(argv[i], "--neighbours") == 0) {
            neighbours = true;
        } else if (strcmp(argv[i], "--direct") == 0) {
            is_direct = true;
        } else if (strcmp(argv[i], "--settled") == 0) {
            is_settled = true;
        } else if (strcmp(argv[i], "--memory") == 0) {
            is_counted = true;
        } else if (strcmp(argv[i], "--pages") == 0) {
            has_pages = true;
        } else if (strcmp(argv[i], "--copy") == 0) {
            is_copied = true;
        } else if (strcmp(argv[i], "--len") == 0 && i + 1 < argc) {
            len = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--keys") == 0 && i + 1 < argc) {
            keys = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--fences") == 0 && i + 1 < argc) {
            fences = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--more") == 0 && i + 1 < argc) {
            more = atoi(argv[++i]);
        } else {
            fprintf(stderr,
                    "usage: wire [--peers | --neighbours] [--direct] [--settled] [--memory] [--pages] [--len BYTES] [--keys N]"
                    " [--fences F] [--more N] [--copy]\n");
            return 64;
        }
    }
    /* Write whole lines: other ranks print, too. */
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    read_shape();
    double begun = atof(getenv("BENCH_BEGUN"));
    long memory = is_counted ? own_memory() : 0;
    double start = now();
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Init", status);
    }
    double init = (now() - start) / 1e6;
    char *bytes = malloc(len + 1);
    if (bytes == NULL) {
        fail("malloc", PMIX_ERR_NOMEM);
    }
    if (is_settled) {
        barrier();
    }
    double exchanged = now();
    for (int key = 0; key < keys; key++) {
        put(key, bytes, len);
    }
    exchange(!is_direct);
    double ready = (now() - begun) / 1e6, got = 0;
    memory = is_counted ? own_memory() - memory : 0;
    if (has_pages) {
        long of_library, all;
        own_memory_of_library(&of_library, &all);
        printf("pages %ld\n", of_library);
    }
    if (peers || neighbours) {
        start = now();
        (peers ? read_peers : read_neighbours)(keys, len);
        got = (now() - start) / 1e6;
    }
    if (is_settled) {
        printf("exchange %.3f %.3f\n", (exchanged - begun) / 1e6, (now() - begun) / 1e6);
        /* None ends while others read. */
        barrier();
    }
    for (int fence = 0; fence < fences; fence++) {
        for (int key = 0; key < more; key++) {
            put(keys + fence * more + key, bytes, len);
        }
        barrier();
        start = now();
        exchange(true);
        if (me.rank == 0) {
            printf("fence %d %.3f\n", fence, (now() - start) / 1e6);
        }
    }
    if (is_copied) {
        /* This rank's equal share of the bytes that all ranks have put. */
        copy(servers * more * len, begun);
    }
    printf("rank %.3f %.3f %ld %.3f\n", init, ready, memory, got);
    fflush(stdout);
    free(bytes);
    PMIx_Finalize(NULL, 0);
    return 0;
}
