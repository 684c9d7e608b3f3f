/* Older names and functions.
 * Only what the library exports is declared. */
#ifndef PMIX_DSTORE_PMIX_DEPRECATED_H
#define PMIX_DSTORE_PMIX_DEPRECATED_H

#include <pmix_common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMIX_PROCID_XFER(a, b) PMIX_XFER_PROCID(a, b)
#define PMIX_CHECK_BOOL(a) PMIX_CHECK_TRUE(a)

/* tool */
PMIX_EXPORT pmix_status_t PMIx_tool_connect_to_server(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

#ifdef __cplusplus
}
#endif

#endif
