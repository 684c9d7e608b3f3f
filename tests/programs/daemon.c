/* A debugger's daemon, which a front end starts beside the ranks that it debugs (tests/programs/frontend.c): prints the processes of its
 * node to which it would attach.
 */
#include "common.h"

#include <pmix_tool.h>

int main(void)
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("daemon: no server: %d", status);
        return 1;
    }
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *target = NULL;
    status = PMIx_Get(&job, PMIX_DEBUG_TARGET, NULL, 0, &target);
    if (status != PMIX_SUCCESS) {
        say("daemon: no target: %d", status);
        return 1;
    }
    char *keys[] = { PMIX_QUERY_LOCAL_PROC_TABLE, NULL };
    pmix_info_t about = { .key = PMIX_NSPACE, .value = value_string(target->data.proc->nspace) };
    pmix_query_t query = { .keys = keys, .qualifiers = &about, .nqual = 1 };
    pmix_info_t *results = NULL;
    size_t count = 0;
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (status != PMIX_SUCCESS || count == 0) {
        say("daemon: no processes: %d", status);
        return 1;
    }
    const pmix_data_array_t *table = results[0].value.data.darray;
    const pmix_proc_info_t *rows = table->array;
    for (size_t i = 0; i < table->size; i++) {
        say("daemon: would attach to rank %u, pid %d", rows[i].proc.rank, rows[i].pid);
    }
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
