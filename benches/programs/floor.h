/* What the launcher `floor.c` and the library `floor-pmix.c` share: a file, mapped by all ranks. */
#ifndef FLOOR_H
#define FLOOR_H

#include <stdatomic.h>
#include <stdint.h>

/* More than Open MPI's shared-memory transport publishes, which is the longest that a rank puts. */
#define FLOOR_SLOT_BYTES 16384
/* For an XML of a large machine. */
#define FLOOR_TOPOLOGY_BYTES (1 << 20)

/* The names of the variables that a rank gets. */
#define FLOOR_FILE "FLOOR_FILE"
#define FLOOR_RANK "FLOOR_RANK"

/* What a rank has put: its length, then for each value an `floor_entry_t` with its bytes. Ranks read it behind a fence. */
typedef struct {
    uint32_t used;
    char bytes[FLOOR_SLOT_BYTES - sizeof(uint32_t)];
} floor_slot_t;

typedef struct {
    uint32_t size;
    /* Ranks that have entered the fence, and fences that are over, which ranks wait for by futex. */
    _Atomic uint32_t entered;
    _Atomic uint32_t fences;
    /* The node's topology as XML of hwloc 2, with its zero at the end; empty if ranks are to discover it. */
    char topology[FLOOR_TOPOLOGY_BYTES];
    floor_slot_t slots[];
} floor_t;

#endif
