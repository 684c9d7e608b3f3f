/* What this machine can do: lookups as a plain program writes them, with nothing of the library.
 *
 *   limit [--cpu C]
 *
 * Prints, for one call, nanoseconds: limit NAME MEDIAN P99 MIN
 *
 *   lookup     a value of 64 bytes by rank and string in a hash table of 1024 entries in a mapped file
 *   copy       the same, and a copy of the value from malloc, which is freed
 *   cold       a lookup and copy by rank in 1,048,576 values, each depending on the one before
 *   array      an array of 16 names of 260 bytes copied from a ready one, from malloc and freed
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, BATCHES = 2000, VALUE_LEN = 64, SLOTS = 1024, COLD = 1 << 20 };

typedef struct {
    uint64_t hash;
    uint32_t rank, used;
    char key[48];
    char value[VALUE_LEN];
} slot_t;

static slot_t *table;
static char *cold;
static const char *keys[8] = { "bench.0", "bench.1", "bench.2", "bench.3", "bench.4", "bench.5", "bench.6", "bench.7" };

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

/* In a file, as a program has it that shares it with others. */
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

static volatile uint64_t sink;

static void lookup(uint32_t turn) { sink += find(turn % 64, keys[turn % 8])->value[0]; }

static void copy(uint32_t turn)
{
    slot_t *slot = find(turn % 64, keys[turn % 8]);
    /* A structure and what it points to. */
    char **value = malloc(32);
    *value = malloc(VALUE_LEN);
    memcpy(*value, slot->value, VALUE_LEN);
    sink += **value;
    free(*value);
    free(value);
}

static uint64_t next = 1;

static void cold_copy(uint32_t turn)
{
    (void) turn;
    char *at = cold + next % COLD * VALUE_LEN;
    char *value = malloc(VALUE_LEN);
    memcpy(value, at, VALUE_LEN);
    uint64_t read;
    memcpy(&read, value, sizeof(read));
    next = read;
    free(value);
}

static char names[16][260];

static void array(uint32_t turn)
{
    char *copied = malloc(sizeof(names));
    memcpy(copied, names, sizeof(names));
    sink += copied[turn % sizeof(names)];
    free(copied);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(uint32_t))
{
    static double times[BATCHES];
    uint32_t turn = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now();
        for (int i = 0; i < BATCH; i++) {
            call(turn++);
        }
        times[batch] = (now() - start) / BATCH;
    }
    qsort(times, BATCHES, sizeof(times[0]), compare);
    printf("limit %s %.2f %.2f %.2f\n", name, times[BATCHES / 2], times[BATCHES * 99 / 100], times[0]);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--cpu") == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(atoi(argv[2]), &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    table = mapped(SLOTS * sizeof(slot_t));
    cold = mapped((size_t) COLD * VALUE_LEN);
    for (uint32_t rank = 0; rank < 64; rank++) {
        for (int key = 0; key < 8; key++) {
            slot_t *slot = find(rank, keys[key]);
            *slot = (slot_t) { .hash = hash_of(rank, keys[key]), .rank = rank, .used = 1 };
            strcpy(slot->key, keys[key]);
            memset(slot->value, key, VALUE_LEN);
        }
    }
    /* One cycle through all of them, which no prefetcher foresees. */
    for (uint64_t i = 0; i < COLD; i++) {
        uint64_t to = (i * 1664525 + 1013904223) % COLD;
        memcpy(cold + i * VALUE_LEN, &to, sizeof(to));
    }
    measure("lookup", lookup);
    measure("copy", copy);
    measure("cold", cold_copy);
    measure("array", array);
    return 0;
}
