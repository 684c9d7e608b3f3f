/* The placement of the synthetic job's ranks: each process computes the same one, without communication.
 *
 * Ranks are numbered node by node, or scattered over the nodes, so that no rule gives the node of a rank. Rank 0 is always the first one
 * of the first node, and the local ranks of a node are in the order of its ranks.
 */
#include <stdint.h>
#include <stdlib.h>

struct place {
    uint32_t node, local;
};

/* The places of all ranks, if they are scattered. */
static struct place *scattered;

/* False if memory cannot be allocated. */
static inline int scatter(uint32_t nodes, uint32_t per_node)
{
    uint32_t size = nodes * per_node;
    uint32_t *local = calloc(nodes, sizeof(*local));
    scattered = malloc(size * sizeof(*scattered));
    if (scattered == NULL || local == NULL) {
        return 0;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        scattered[rank].node = rank / per_node;
    }
    uint64_t state = 1;
    /* Shuffles all ranks except rank 0. */
    for (uint32_t left = size - 1; left > 1; left--) {
        state = state * 6364136223846793005 + 1442695040888963407;
        uint32_t other = 1 + (uint32_t) ((state >> 33) * left >> 31), node = scattered[left].node;
        scattered[left].node = scattered[other].node;
        scattered[other].node = node;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        scattered[rank].local = local[scattered[rank].node]++;
    }
    free(local);
    return 1;
}

static inline struct place place_of(uint32_t rank, uint32_t per_node)
{
    return scattered != NULL ? scattered[rank] : (struct place) { .node = rank / per_node, .local = rank % per_node };
}
