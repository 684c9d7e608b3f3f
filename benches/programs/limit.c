/* The limits of this machine: lookups as a plain program writes them, without the library.
 *
 *   limit [--turns | --threads N] [--cpu C]
 *
 * Prints nanoseconds for one call: limit NAME MEDIAN P99 MIN. With --turns it makes calls on command
 * (turns.h); with --threads it measures two threads at once with the first three (together.h).
 *
 *   lookup     a value of 64 bytes by rank and string in a hash table of 1024 entries in a mapped file
 *   allocate   a structure and 64 bytes copied from malloc, both freed
 *   copy       lookup and allocate
 *   cold       a lookup and copy by rank in 1,048,576 values
 *   array      an array of 16 names of 260 bytes copied from a ready one, from malloc and freed
 *   list       a text of 64 names, of 10 bytes each, copied from a ready one, from malloc and freed
 *   page       4 KiB written to a new page of a file in memory, out of 32 MiB
 *   infos      a host's 8 infos of one rank, 552 bytes each, read once, out of 144 MiB
 *
 * Each lookup is random and depends on the value before, so that lookups do not overlap.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "turns.h"

#include "together.h"

enum { BATCHES = 2000, VALUE_LEN = 64, RANKS = 64, KEYS = 16, SLOTS = 2 * RANKS * KEYS, COLD = 1 << 20 };
enum { PAGE = 4096, PAGES = 8192, INFOS = 8, INFO_LEN = 552, INFO_VALUE = 520, HOST_RANKS = 1 << 15 };

typedef struct {
    uint64_t hash;
    uint32_t rank, used;
    char key[48];
    char value[VALUE_LEN];
} slot_t;

static slot_t *table;
static char *cold;
static char keys[KEYS][48];

static uint64_t hash_of(uint32_t rank, const char *key)
{
    uint64_t hash = 0xcbf29ce484222325 ^ rank;
    for (; *key != 0; key++) {
        hash = (hash ^ (unsigned char) *key) * 0x100000001b3;
    }
    return hash ^ hash >> 29;
}

static slot_t *find(uint32_t rank, const char *key)
{
    uint64_t hash = hash_of(rank, key);
    for (uint64_t i = hash;; i++) {
        slot_t *slot = &table[i & (SLOTS - 1)];
        if (!slot->used || (slot->hash == hash && slot->rank == rank && strcmp(slot->key, key) == 0)) {
            return slot;
        }
    }
}

/* In a file, as in a program that shares it with others. */
static void *mapped(size_t len)
{
    int fd = memfd_create("limit", 0);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, len) == 0) {
        at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    if (at == MAP_FAILED) {
        perror("limit: no memory");
        exit(1);
    }
    close(fd);
    return at;
}

/* One for each thread. */
static __thread volatile uint64_t sink;
static __thread uint32_t drawn = 1;

/* The next requested entry; `read` is 0, and depends on the previous value. */
static slot_t *next_slot(uint64_t read)
{
    drawn = (drawn + (uint32_t) read) * 1664525 + 1013904223;
    return find(drawn >> 26 & (RANKS - 1), keys[drawn >> 20 & (KEYS - 1)]);
}

static __thread uint64_t before;

static bool lookup(uint32_t turn)
{
    (void) turn;
    before = next_slot(before)->value[0];
    return true;
}

static uint64_t copied(const char *from)
{
    char **value = malloc(32);
    *value = malloc(VALUE_LEN);
    memcpy(*value, from, VALUE_LEN);
    uint64_t read = **value;
    free(*value);
    free(value);
    return read;
}

static bool allocate(uint32_t turn)
{
    sink += copied(table[turn % SLOTS].value);
    return true;
}

static bool copy(uint32_t turn)
{
    (void) turn;
    before = copied(next_slot(before)->value);
    return true;
}

static uint64_t next = 1;

static bool cold_copy(uint32_t turn)
{
    (void) turn;
    char *at = cold + next % COLD * VALUE_LEN;
    char *value = malloc(VALUE_LEN);
    memcpy(value, at, VALUE_LEN);
    uint64_t read;
    memcpy(&read, value, sizeof(read));
    next = read;
    free(value);
    return true;
}

static char names[16][260];

static bool array(uint32_t turn)
{
    char *copied = malloc(sizeof(names));
    memcpy(copied, names, sizeof(names));
    sink += copied[turn % sizeof(names)];
    free(copied);
    return true;
}

static char list_text[64 * 10 + 1];

static bool list(uint32_t turn)
{
    char *copied = strdup(list_text);
    sink += copied[turn % sizeof(list_text)];
    free(copied);
    return true;
}

static int file;
static char page_bytes[PAGE];

static bool page(uint32_t turn)
{
    /* Full: begin again with new pages. */
    if (turn % PAGES == 0 && (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0)) {
        return false;
    }
    return write(file, page_bytes, PAGE) == PAGE;
}

static char *host_infos;

static bool infos(uint32_t turn)
{
    char *of_rank = host_infos + (size_t) (turn % HOST_RANKS) * INFOS * INFO_LEN;
    for (int info = 0; info < INFOS; info++) {
        char *at = of_rank + info * INFO_LEN;
        uint64_t read;
        memcpy(&read, at + INFO_VALUE, sizeof(read));
        before += hash_of(0, at) + read;
    }
    return true;
}

static const struct {
    const char *name;
    call_t call;
} limits[] = {
    { "lookup", lookup }, { "allocate", allocate }, { "copy", copy }, { "cold", cold_copy },
    { "array", array },   { "list", list },         { "page", page }, { "infos", infos },
};
enum { LIMITS = sizeof(limits) / sizeof(limits[0]), OF_THREADS = 3 };

static call_t named(const char *name)
{
    for (int i = 0; i < LIMITS; i++) {
        if (strcmp(limits[i].name, name) == 0) {
            return limits[i].call;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bool in_turns = false;
    int turns = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--turns") == 0) {
            in_turns = true;
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            turns = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(atoi(argv[++i]), &set);
            sched_setaffinity(0, sizeof(set), &set);
        } else {
            fprintf(stderr, "usage: limit [--turns | --threads N] [--cpu C]\n");
            return 64;
        }
    }
    table = mapped(SLOTS * sizeof(slot_t));
    cold = mapped((size_t) COLD * VALUE_LEN);
    for (int key = 0; key < KEYS; key++) {
        sprintf(keys[key], "btl.endpoint.%d", key);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (int key = 0; key < KEYS; key++) {
            slot_t *slot = find(rank, keys[key]);
            *slot = (slot_t) { .hash = hash_of(rank, keys[key]), .rank = rank, .used = 1 };
            strcpy(slot->key, keys[key]);
        }
    }
    /* One cycle through all entries, which no prefetcher predicts. */
    for (uint64_t i = 0; i < COLD; i++) {
        uint64_t to = (i * 1664525 + 1013904223) % COLD;
        memcpy(cold + i * VALUE_LEN, &to, sizeof(to));
    }
    memset(list_text, 'n', sizeof(list_text) - 1);
    memset(page_bytes, 1, sizeof(page_bytes));
    file = memfd_create("limit", 0);
    host_infos = calloc((size_t) HOST_RANKS * INFOS, INFO_LEN);
    if (file < 0 || host_infos == NULL) {
        perror("limit: no memory");
        return 1;
    }
    for (size_t i = 0; i < (size_t) HOST_RANKS * INFOS; i++) {
        strcpy(host_infos + i * INFO_LEN, "pmix.lrank");
    }
    if (in_turns) {
        take_turns(named);
    }
    for (int i = 0; turns > 0 && i < OF_THREADS; i++) {
        if (!measure_together(limits[i].name, limits[i].call, turns)) {
            return 1;
        }
    }
    static double times[BATCHES];
    for (int i = 0; !in_turns && turns == 0 && i < LIMITS; i++) {
        if (!time_batches(limits[i].call, BATCHES, times)) {
            perror(limits[i].name);
            return 1;
        }
        qsort(times, BATCHES, sizeof(times[0]), compare_times);
        printf("limit %s %.2f %.2f %.2f\n", limits[i].name, times[BATCHES / 2], times[BATCHES * 99 / 100], times[0]);
    }
    return 0;
}
