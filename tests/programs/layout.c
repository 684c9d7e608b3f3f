/* A rank that reads its job's layout, which may be large: all nodes, and the ranks of the last one.
 *
 *   layout
 */
#include "common.h"

int main(void)
{
    pmix_proc_t me;
    char *nodes = NULL;
    pmix_proc_t *peers = NULL;
    size_t count = 0, peer_count = 0;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Resolve_nodes(me.nspace, &nodes);
    }
    const char *last = nodes;
    for (const char *at = nodes; at != NULL && *at != '\0'; at++) {
        count += *at == ',';
        last = *at == ',' ? at + 1 : last;
    }
    if (status == PMIX_SUCCESS) {
        status = PMIx_Resolve_peers(last, me.nspace, &peers, &peer_count);
    }
    if (status != PMIX_SUCCESS || peer_count == 0) {
        say("rank %u: %s (%d)", me.rank, PMIx_Error_string(status), status);
        return 1;
    }
    say("rank %u: %zu nodes, on %s ranks %u to %u", me.rank, count + 1, last, peers[0].rank, peers[peer_count - 1].rank);
    free(peers);
    free(nodes);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
