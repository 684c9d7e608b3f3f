/* An idle process: the cost of starting as many processes without PMIx, under benches/programs/host.c.
 *
 * It prints when its `main` began, in milliseconds since the host began to start ranks, as wire.c does:
 *
 *   rank 0 READY
 *
 * With -DLINKED it is linked to the library but calls nothing. Started without the host, it prints nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

#ifdef LINKED
#include <pmix.h>
const char *(*const needed)(void) = PMIx_Get_version;
#endif

int main(void)
{
    const char *begun = getenv("BENCH_BEGUN");
    if (begun != NULL) {
        printf("rank 0 %.3f\n", (now() - atof(begun)) / 1e6);
    }
    return 0;
}
