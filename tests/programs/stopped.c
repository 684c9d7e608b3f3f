/* A rank that a debugger may stop in PMIx_Init.
 *
 *   stopped [SECONDS]     how long PMIx_Init may take
 *
 * Prints the status of PMIx_Init, and whether the rest succeeded.
 */
#include "common.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    pmix_proc_t me;
    pmix_info_t info = { .key = PMIX_TIMEOUT, .value = value_int(argc > 1 ? atoi(argv[1]) : 0) };
    pmix_status_t status = PMIx_Init(&me, argc > 1 ? &info : NULL, argc > 1);
    say("rank %s: %s (%d)", rank, PMIx_Error_string(status), status);
    if (status != PMIX_SUCCESS) {
        return 0;
    }
    status = PMIx_Fence(NULL, 0, NULL, 0);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Finalize(NULL, 0);
    }
    say("rank %s: %s", rank, status == PMIX_SUCCESS ? "through" : PMIx_Error_string(status));
    return status != PMIX_SUCCESS;
}
