/* Values put repeatedly while threads read them: no value is torn, and none is older than the last fence.
 *
 *   generations GENERATIONS THREADS [MAPPED]
 *
 * Each rank puts its values once for each generation, commits, and enters a fence; every third fence collects no data, because a value
 * that is put again is published with its commit. THREADS of each rank read the values of all ranks meanwhile, by copy, by pointer and
 * as numbers into a structure of their own; from shared memory never an older value than before. Each value contains its rank, its
 * generation, and the sum of its bytes. Values read by pointer are checked again much later. Each rank prints one
 * line and exits with 0, or prints the wrong value.
 *
 * With MAPPED each thread reads few values by pointer, at equal distances, and keeps all of these to the end. At no fence may more than MAPPED
 * segments be mapped.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

#define KEYS 3
#define THREADS_MAX 16
/* Pointers that a thread keeps before it looks at the oldest again. */
#define PINNED 128
/* Pointers that a thread reads with MAPPED. */
#define KEPT 8

static pmix_proc_t me;
static uint32_t rank_count, generations, mapped_max;
/* The generation that a fence has made known to all, and whether there will be another one. */
static atomic_uint known;
static atomic_bool is_over;
/* Between two fences the answers of a server, which threads read in any order, may overtake each other. */
static bool keeps_order;

typedef struct {
    uint32_t rank, key, generation, words;
    uint64_t sum;
    uint64_t contents[];
} block_t;

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDERR_FILENO, format, args);
    va_end(args);
    _exit(1);
}

static void expect(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        wrong("rank %u: %s: %s (%d)", me.rank, what, PMIx_Error_string(status), status);
    }
}

/* A number that depends on rank, key, generation and place. */
static uint64_t word(const block_t *block, uint32_t place)
{
    uint64_t seed = ((uint64_t) block->rank << 48) ^ ((uint64_t) block->key << 40) ^ ((uint64_t) block->generation << 16);
    return (seed + place) * 0x9e3779b97f4a7c15;
}

/* The longest have pages of their own; from one generation to the next each has another length. */
static uint32_t words_of(uint32_t key, uint32_t generation)
{
    static const uint32_t least[KEYS] = { 1, 40, 1500 };
    return least[key] + (generation * 7 + key) % (least[key] + 3);
}

static void put(uint32_t key, uint32_t generation)
{
    uint32_t words = words_of(key, generation);
    size_t len = sizeof(block_t) + words * sizeof(uint64_t);
    block_t *block = need(calloc(1, len));
    *block = (block_t) { .rank = me.rank, .key = key, .generation = generation, .words = words };
    for (uint32_t place = 0; place < words; place++) {
        block->sum += block->contents[place] = word(block, place);
    }
    char name[32];
    snprintf(name, sizeof(name), "gen.block.%u", key);
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT, .data.bo = { .bytes = (char *) block, .size = len } };
    expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, name, &value));
    free(block);
}

/* The generation of a value that is whole. */
static uint32_t check(const char *how, uint32_t rank, uint32_t key, const char *bytes, size_t len)
{
    block_t head;
    if (len < sizeof(head)) {
        wrong("rank %u, %s: %zu bytes of rank %u, key %u", me.rank, how, len, rank, key);
    }
    memcpy(&head, bytes, sizeof(head));
    bool is_whole = head.rank == rank && head.key == key && head.words == words_of(key, head.generation)
                    && len == sizeof(head) + head.words * sizeof(uint64_t);
    uint64_t sum = 0;
    for (uint32_t place = 0; is_whole && place < head.words; place++) {
        uint64_t found;
        memcpy(&found, bytes + sizeof(head) + place * sizeof(found), sizeof(found));
        sum += found;
        is_whole = found == word(&head, place);
    }
    if (!is_whole || sum != head.sum) {
        wrong("rank %u, %s: torn value of rank %u, key %u: it says rank %u, key %u, generation %u", me.rank, how, rank, key,
              head.rank, head.key, head.generation);
    }
    return head.generation;
}

typedef struct {
    const pmix_value_t *value;
    uint32_t rank, key, generation;
} pinned_t;

static void look_again(const pinned_t *pinned)
{
    if (pinned->value == NULL) {
        return;
    }
    const pmix_byte_object_t *bytes = &pinned->value->data.bo;
    uint32_t generation = check("a pointer of before", pinned->rank, pinned->key, bytes->bytes, bytes->size);
    if (generation != pinned->generation) {
        wrong("rank %u: a pointer to generation %u of rank %u, key %u has become one to %u", me.rank, pinned->generation,
              pinned->rank, pinned->key, generation);
    }
}

/* Reads one value in one of three ways; returns its generation. */
static uint32_t read_one(int how, uint32_t rank, uint32_t key, pinned_t *pinned)
{
    pmix_proc_t proc = me;
    proc.rank = rank;
    char name[32];
    snprintf(name, sizeof(name), "gen.block.%u", key);
    if (how == 0) {
        pmix_value_t *value;
        expect("PMIx_Get", PMIx_Get(&proc, name, NULL, 0, &value));
        uint32_t generation = check("a copy", rank, key, value->data.bo.bytes, value->data.bo.size);
        PMIX_VALUE_RELEASE(value);
        return generation;
    }
    pmix_info_t option = { .value = value_bool(true) };
    if (how == 1) {
        pmix_value_t *value = NULL;
        strcpy(option.key, PMIX_GET_POINTER_VALUES);
        expect("PMIx_Get by pointer", PMIx_Get(&proc, name, &option, 1, &value));
        look_again(pinned);
        uint32_t generation = check("a pointer", rank, key, value->data.bo.bytes, value->data.bo.size);
        *pinned = (pinned_t) { .value = value, .rank = rank, .key = key, .generation = generation };
        return generation;
    }
    pmix_value_t own, *value = &own;
    memset(&own, 0, sizeof(own));
    strcpy(option.key, PMIX_GET_STATIC_VALUES);
    expect("PMIx_Get of a number", PMIx_Get(&proc, "gen.number", &option, 1, &value));
    return (uint32_t) own.data.uint64;
}

static void *read_all(void *argument)
{
    uint64_t state = (uintptr_t) argument + me.rank * THREADS_MAX + 1;
    uint32_t (*seen)[KEYS + 1] = need(calloc(rank_count, sizeof(*seen)));
    pinned_t *pinned = need(calloc(PINNED, sizeof(*pinned)));
    uintptr_t reads = 0;
    uint32_t kept = 0;
    /* At least once after the last fence. */
    for (bool is_last = false; !is_last; reads++) {
        is_last = atomic_load_explicit(&is_over, memory_order_acquire);
        uint32_t least = atomic_load_explicit(&known, memory_order_acquire);
        state = state * 6364136223846793005 + 1442695040888963407;
        int how = reads % 3;
        uint32_t rank = (state >> 33) % rank_count, key = how == 2 ? KEYS : (state >> 60) % KEYS;
        uintptr_t place = reads / 3;
        if (how == 1 && mapped_max != 0) {
            bool is_time = kept < KEPT && (uint64_t) kept * generations <= (uint64_t) least * KEPT;
            how = is_time ? 1 : 0;
            place = is_time ? kept++ : 0;
        }
        uint32_t generation = read_one(how, rank, key, &pinned[place % PINNED]);
        if (generation < least) {
            wrong("rank %u: generation %u of rank %u, key %u after the fence of generation %u", me.rank, generation, rank, key,
                  least);
        }
        if (keeps_order && generation < seen[rank][key]) {
            wrong("rank %u: generation %u of rank %u, key %u after generation %u", me.rank, generation, rank, key,
                  seen[rank][key]);
        }
        seen[rank][key] = generation;
    }
    for (int i = 0; i < PINNED; i++) {
        look_again(&pinned[i]);
    }
    free(pinned);
    free(seen);
    return (void *) reads;
}

/* The segments that this process maps, including those whose files are removed. */
static uint32_t count_segments(void)
{
    char line[4096];
    FILE *maps = need(fopen("/proc/self/maps", "r"));
    uint32_t count = 0;
    while (fgets(line, sizeof(line), maps) != NULL) {
        count += strstr(line, "pmix-dstore-") != NULL && strstr(line, "/segment-") != NULL;
    }
    fclose(maps);
    return count;
}

int main(int argc, char **argv)
{
    uint32_t threads = argc >= 3 ? atoi(argv[2]) : 0, most = 0;
    generations = argc >= 3 ? atoi(argv[1]) : 0;
    mapped_max = argc == 4 ? atoi(argv[3]) : 0;
    if (argc > 4 || generations < 1 || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: generations GENERATIONS THREADS [MAPPED]\n");
        return 64;
    }
    const char *shared = getenv("PMIX_DSTORE_SHM");
    keeps_order = shared == NULL || strcmp(shared, "0") != 0;
    expect("PMIx_Init", PMIx_Init(&me, NULL, 0));
    pmix_proc_t job = me;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t *size;
    expect("PMIx_Get of the job's size", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size));
    rank_count = size->data.uint32;
    PMIX_VALUE_RELEASE(size);

    pthread_t readers[THREADS_MAX];
    for (uint32_t generation = 1; generation <= generations; generation++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            put(key, generation);
        }
        pmix_value_t number = value_uint64(generation);
        expect("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "gen.number", &number));
        expect("PMIx_Commit", PMIx_Commit());
        expect("PMIx_Fence", generation % 3 == 0 ? PMIx_Fence(NULL, 0, NULL, 0) : collecting_fence());
        atomic_store_explicit(&known, generation, memory_order_release);
        if (mapped_max != 0) {
            uint32_t mapped = count_segments();
            most = mapped > most ? mapped : most;
            if (most > mapped_max) {
                wrong("rank %u: %u segments are mapped in generation %u", me.rank, most, generation);
            }
        }
        /* There is something to read from the first fence on. */
        for (uintptr_t i = 0; generation == 1 && i < threads; i++) {
            if (pthread_create(&readers[i], NULL, read_all, (void *) i) != 0) {
                wrong("rank %u: no thread", me.rank);
            }
        }
    }
    atomic_store_explicit(&is_over, true, memory_order_release);
    uintptr_t reads = 0;
    for (uint32_t i = 0; i < threads; i++) {
        void *of_one;
        pthread_join(readers[i], &of_one);
        reads += (uintptr_t) of_one;
    }
    expect("PMIx_Finalize", finalize_together());
    if (mapped_max > 0) {
        say("rank %u: %u generations, read %ju times, at most %u segments seen", me.rank, generations, (uintmax_t) reads, most);
    } else {
        say("rank %u: %u generations, read %ju times", me.rank, generations, (uintmax_t) reads);
    }
    return 0;
}
