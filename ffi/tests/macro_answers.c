/* Prints what the macros answer in ordinary and in odd cases, to be compared between headers. */
#include <stdio.h>
#include <string.h>

#include <pmix.h>
#include <pmix_server.h>

static void names(void)
{
    static const char *texts[] = { "", "job", "job2", "pmix.x", "pmi" };
    static const pmix_rank_t ranks[] = { 0, 1, PMIX_RANK_UNDEF, PMIX_RANK_WILDCARD, PMIX_RANK_LOCAL_NODE,
                                         PMIX_RANK_LOCAL_PEERS, PMIX_RANK_INVALID, PMIX_RANK_VALID - 1,
                                         PMIX_RANK_VALID, PMIX_RANK_VALID + 1 };
    size_t i, j;
    int code, system_events = 0;
    pmix_info_t info;
    pmix_proc_t a, b;
    pmix_nspace_t joined, cluster, nspace;
    for (i = 0; i < 5; i++) {
        PMIX_INFO_CONSTRUCT(&info);
        PMIX_LOAD_KEY(info.key, texts[i]);
        printf("%s: reserved %d invalid %d", texts[i], PMIX_CHECK_RESERVED_KEY(texts[i]) ? 1 : 0,
               PMIX_NSPACE_INVALID(texts[i]) ? 1 : 0);
        for (j = 0; j < 5; j++) {
            printf(" key %d nspace %d", PMIX_CHECK_KEY(&info, texts[j]) ? 1 : 0,
                   PMIX_CHECK_NSPACE(texts[i], texts[j]) ? 1 : 0);
        }
        printf("\n");
    }
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        PMIX_LOAD_PROCID(&a, "job", ranks[i]);
        printf("rank %u: valid %d invalid proc %d", ranks[i], PMIX_RANK_IS_VALID(ranks[i]) ? 1 : 0,
               PMIX_PROCID_INVALID(&a) ? 1 : 0);
        for (j = 0; j < sizeof(ranks) / sizeof(ranks[0]); j++) {
            PMIX_LOAD_PROCID(&b, "job", ranks[j]);
            printf(" %d%d", PMIX_CHECK_RANK(ranks[i], ranks[j]) ? 1 : 0, PMIX_CHECK_PROCID(&a, &b) ? 1 : 0);
        }
        printf("\n");
    }
    for (code = -500; code <= 0; code++) {
        system_events += PMIX_SYSTEM_EVENT(code) ? -code : 0;
    }
    printf("system events %d\n", system_events);
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(joined, "east", "job");
    /* The stock macro writes no end. */
    memset(cluster, 0, sizeof(cluster));
    memset(nspace, 0, sizeof(nspace));
    PMIX_MULTICLUSTER_NSPACE_PARSE(joined, cluster, nspace);
    printf("%s %s %s\n", joined, cluster, nspace);
    PMIX_LOAD_PROCID(&a, NULL, 4);
    printf("no nspace [%s] %u\n", a.nspace, a.rank);
}

static void lists(void)
{
    static const char *texts[] = { "", ",", "a", "a,", ",a", "a,b", "a,,b", ",,a,,", NULL };
    char **argv, **copy, *joined;
    int i, n, rc, count;
    for (i = 0; texts[i] != NULL; i++) {
        for (n = 0; n < 2; n++) {
            argv = n == 0 ? pmix_argv_split(texts[i], ',') : pmix_argv_split_with_empty(texts[i], ',');
            PMIX_ARGV_COUNT(count, argv);
            PMIX_ARGV_JOIN(joined, argv, '+');
            PMIX_ARGV_COPY(copy, argv);
            printf("[%s] %d [%s] copy %d\n", texts[i], count, joined, copy != NULL);
            free(joined);
            PMIX_ARGV_FREE(argv);
            PMIX_ARGV_FREE(copy);
        }
    }
    argv = NULL;
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "a");
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "a");
    PMIX_ARGV_PREPEND(rc, argv, "b");
    rc = pmix_setenv("N", "1", true, &argv);
    printf("set %d", rc);
    rc = pmix_setenv("N", "2", false, &argv);
    printf(" again %d", rc);
    rc = pmix_setenv("N", "3", true, &argv);
    printf(" over %d", rc);
    PMIX_ARGV_JOIN(joined, argv, ' ');
    printf(" [%s]", joined);
    free(joined);
    rc = pmix_setenv("N", NULL, true, &argv);
    PMIX_ARGV_JOIN(joined, argv, ' ');
    printf(" gone %d [%s]\n", rc, joined);
    free(joined);
    PMIX_ARGV_FREE(argv);
}

static void values(void)
{
    static const char *words[] = { "yes", "Yes", "y", "true", "TRUE", "t", "1", "0", "no", "n", "false", "F",
                                   "f",   "",    " ", "on",   "2",    " 1", "x" };
    static const pmix_data_type_t types[] = { PMIX_BOOL,  PMIX_BYTE,  PMIX_SIZE,   PMIX_PID,   PMIX_INT,    PMIX_INT8,
                                              PMIX_INT16, PMIX_INT32, PMIX_INT64,  PMIX_UINT,  PMIX_UINT8,  PMIX_UINT16,
                                              PMIX_UINT32, PMIX_UINT64, PMIX_FLOAT, PMIX_DOUBLE, PMIX_PROC_RANK,
                                              PMIX_STATUS, PMIX_TIME, PMIX_UNDEF, PMIX_POINTER };
    size_t i;
    pmix_value_t value;
    pmix_info_t *infos;
    pmix_data_array_t array;
    pmix_device_distance_t distance;
    pmix_proc_t *procs;
    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        PMIX_VALUE_CONSTRUCT(&value);
        PMIX_VALUE_LOAD(&value, words[i], PMIX_STRING);
        printf("[%s] %d\n", words[i], PMIX_CHECK_TRUE(&value) ? 1 : 0);
        PMIX_VALUE_DESTRUCT(&value);
    }
    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        pmix_status_t rc = 99;
        long number = 77;
        PMIX_VALUE_CONSTRUCT(&value);
        value.type = types[i];
        printf("type %d true %d", types[i], PMIX_CHECK_TRUE(&value) ? 1 : 0);
        PMIX_VALUE_GET_NUMBER(rc, &value, number, long);
        printf(" number %d %ld\n", rc, number);
    }
    PMIX_INFO_CREATE(infos, 3);
    printf("flags %x %x %x\n", infos[0].flags, infos[1].flags, infos[2].flags);
    PMIX_INFO_FREE(infos, 3);
    PMIX_PROC_CREATE(procs, 2);
    printf("rank %u\n", procs[1].rank);
    PMIX_PROC_FREE(procs, 2);
    PMIX_DATA_ARRAY_CONSTRUCT(&array, 0, PMIX_INFO);
    printf("array %d %zu %d\n", array.type, array.size, array.array == NULL);
    PMIX_DEVICE_DIST_CONSTRUCT(&distance);
    printf("distance %u %u\n", distance.mindist, distance.maxdist);
}

int main(void)
{
    names();
    lists();
    values();
    return 0;
}
