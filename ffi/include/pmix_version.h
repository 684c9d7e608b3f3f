/* The release whose interface this is.
 * Later releases add to it; programs that ask for features by release see this one. */
#ifndef PMIX_DSTORE_PMIX_VERSION_H
#define PMIX_DSTORE_PMIX_VERSION_H

#define PMIX_VERSION_MAJOR 4
#define PMIX_VERSION_MINOR 2
#define PMIX_VERSION_RELEASE 2
#define PMIX_NUMERIC_VERSION 0x00040202

/* What later releases announce, of the interface as they declare it; all of it is declared here, too. */
#define PMIX_CAP_BASE 0
#define PMIX_CAP_LTO 1
#define PMIX_CAP_INMEMHELP 2
#define PMIX_CAP_UPCALLS2 3
#define PMIX_CAP_STOP_PRGTHRD 4
#define PMIX_CAP_GET_NUMBER_FN 5
#define PMIX_CAP_REGEX2 6
#define PMIX_CAP_GROUP_FT 7
#define PMIX_CAP_CLI_QUAL_VALUE 8
#define PMIX_CAP_IOF_FILE_PATTERN 9
#define PMIX_CAP_CLI_ORDER 10
#define PMIX_CAP_TOOL_FINALIZED 11
#define PMIX_CAP_IOF_DELIVER_LOCAL 12
#define PMIX_CAP_GROUP_JOIN_COMPLETES 13
#define PMIX_CAP_IOF_FLOW_CONTROL 14
#define PMIX_CAP_DEVICE_ENUM 15
#define PMIX_CAP_MCA_FW_VERSION 16
#define PMIX_CAP_DATA_DELETE 17
#define PMIX_CAPABILITIES (PMIX_CAP_BASE | PMIX_CAP_LTO | PMIX_CAP_INMEMHELP)

/* Tells this library from the stock one at compile time. */
#define PMIX_DSTORE 1

#endif
