/* What this library alone has: RFC0003's connect, which gives the connected processes a namespace of their own, and
 * servers that are restarted.
 *
 * The RFC calls these functions PMIx_Connect and PMIx_Disconnect. The standard gave those names to functions with other
 * parameters, which pmix.h declares. A program that also runs on other libraries looks these up with dlsym. */
#ifndef PMIX_DSTORE_H
#define PMIX_DSTORE_H

#include <pmix.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Directives of a connect, also of PMIx_Connect, with the strings of release 3.0. */
#define PMIX_CONNECT_NOTIFY_EACH "pmix.cnct.each"
#define PMIX_CONNECT_NOTIFY_REQ "pmix.cnct.req"
#define PMIX_CONNECT_OPTIONAL "pmix.cnt.opt"
#define PMIX_CONNECT_XCHG_ONLY "pmix.cnt.xchg"
#define PMIX_CONNECT_ID "pmix.cnt.id"
/* No release had a string for this one. */
#define PMIX_CONNECT_EARLY_TERM_ALLOWED "pmix.dstore.cnt.early"

/* Of PMIx_server_init: the seconds (uint32_t) for which clients of a server that was killed wait for the one that is
 * started in its place. */
#define PMIX_DSTORE_RESTART "pmix.dstore.restart"

/* The event of a disconnect. No release had a number for it; -148 to -150 are taken. */
#define PMIX_PROC_HAS_DISCONNECTED -1149

/* Takes the new namespace and the caller's rank in it. The name may be gone when the callback has returned. */
typedef void (*pmix_dstore_connect_cbfunc_t)(pmix_status_t status, char nspace[], int rank, void *cbdata);

/* Connects processes. nspace has room for PMIX_MAX_NSLEN + 1 bytes; with PMIX_CONNECT_XCHG_ONLY it gets the empty string
 * and newrank PMIX_RANK_UNDEF. */
PMIX_EXPORT pmix_status_t pmix_dstore_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char nspace[], pmix_rank_t *newrank);
PMIX_EXPORT pmix_status_t pmix_dstore_connect_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, pmix_dstore_connect_cbfunc_t cbfunc, void *cbdata);

/* Disconnects from a namespace that a connect has returned. All its processes call it. */
PMIX_EXPORT pmix_status_t pmix_dstore_disconnect(const char nspace[], const pmix_info_t info[], size_t ninfo);
PMIX_EXPORT pmix_status_t pmix_dstore_disconnect_nb(const char nspace[], const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

#ifdef __cplusplus
}
#endif

#endif
