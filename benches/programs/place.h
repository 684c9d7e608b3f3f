/* The placement of the synthetic job's ranks: each process computes the same one, without communication.
 *
 * Ranks are numbered node by node, and all nodes have as many, unless a shape says otherwise:
 *
 *   scattered                          no rule gives the node of a rank
 *   odd-first, odd-middle, odd-last    one node has two ranks
 *   groups-N                           N groups of nodes, of which no two neighbours have as many ranks
 *   dealt, dealt-groups                ranks are dealt to the nodes in turn; to two groups of nodes
 *   sockets                            the same, two ranks at a time
 *   holes                              the same as dealt; in sixteen of the turns one node is left out
 *
 * Rank 0 is always the first one of the first node, and the local ranks of a node are in the order of its ranks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct place {
    uint32_t node, local;
};

/* The places of all ranks, if there is a shape. */
static struct place *placed;

/* Shuffles all ranks except rank 0. */
static inline void scatter(uint32_t size)
{
    uint64_t state = 1;
    for (uint32_t left = size - 1; left > 1; left--) {
        state = state * 6364136223846793005 + 1442695040888963407;
        uint32_t other = 1 + (uint32_t) ((state >> 33) * left >> 31), node = placed[left].node;
        placed[left].node = placed[other].node;
        placed[other].node = node;
    }
}

/* How many ranks a node has. */
static inline uint32_t room_of(const char *shape, uint32_t node, uint32_t nodes, uint32_t per_node)
{
    if (strncmp(shape, "odd-", 4) == 0) {
        uint32_t odd = strcmp(shape, "odd-first") == 0 ? 0 : strcmp(shape, "odd-last") == 0 ? nodes - 1 : nodes / 2;
        return node == odd ? 2 : per_node;
    }
    const char *count = strstr(shape, "groups");
    if (count == NULL) {
        return per_node;
    }
    uint32_t groups = count[6] == '-' ? (uint32_t) atoi(count + 7) : 2;
    uint32_t group = (uint32_t) ((uint64_t) node * groups / nodes), more = per_node * (group / 2 + 1) / (groups + 2);
    return group % 2 == 0 ? per_node + more : per_node - more;
}

/* Places the ranks of the nodes in this shape. Returns their number, 0 if memory cannot be allocated. */
static inline uint32_t place(const char *shape, uint32_t nodes, uint32_t per_node)
{
    if (*shape == 0) {
        return nodes * per_node;
    }
    uint32_t at_once = strcmp(shape, "sockets") == 0 ? 2 : strstr(shape, "dealt") || strcmp(shape, "holes") == 0 ? 1 : UINT32_MAX;
    uint32_t *left = malloc(nodes * sizeof(*left)), *local = calloc(nodes, sizeof(*local)), size = 0;
    if (left == NULL || local == NULL) {
        return 0;
    }
    for (uint32_t node = 0; node < nodes; node++) {
        left[node] = room_of(shape, node, nodes, per_node);
        size += left[node];
    }
    placed = malloc(size * sizeof(*placed));
    if (placed == NULL) {
        return 0;
    }
    uint32_t rank = 0;
    for (uint32_t turn = 0; rank < size; turn++) {
        uint32_t hole = strcmp(shape, "holes") == 0 && turn % 4 == 3 && turn < 64 ? turn * 2654435761u % nodes : nodes;
        for (uint32_t node = 0; node < nodes; node++) {
            for (uint32_t more = node == hole ? 0 : left[node] < at_once ? left[node] : at_once; more > 0; more--) {
                left[node]--;
                placed[rank++].node = node;
            }
        }
    }
    if (strcmp(shape, "scattered") == 0) {
        scatter(size);
    }
    for (rank = 0; rank < size; rank++) {
        placed[rank].local = local[placed[rank].node]++;
    }
    free(left);
    free(local);
    return size;
}

static inline struct place place_of(uint32_t rank, uint32_t per_node)
{
    return placed != NULL ? placed[rank] : (struct place) { .node = rank / per_node, .local = rank % per_node };
}
