/* The release whose interface this is.
 * Later releases add to it; programs that ask for features by release see this one. */
#ifndef PMIX_DSTORE_PMIX_VERSION_H
#define PMIX_DSTORE_PMIX_VERSION_H

#define PMIX_VERSION_MAJOR 4
#define PMIX_VERSION_MINOR 2
#define PMIX_VERSION_RELEASE 2
#define PMIX_NUMERIC_VERSION 0x00040202

/* Tells this library from the stock one at compile time. */
#define PMIX_DSTORE 1

#endif
