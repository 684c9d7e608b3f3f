/* Uses every family of macros of the headers once, and checks what it gives. Runs without a server. */
#include <assert.h>

#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>

/* Creates, destroys and frees three objects, then destroys a constructed one. */
#define FAMILY(NAME, type)              \
    do {                                \
        type *many;                     \
        type one;                       \
        PMIX_##NAME##_CREATE(many, 3);  \
        assert(many != NULL);           \
        PMIX_##NAME##_FREE(many, 3);    \
        assert(many == NULL);           \
        PMIX_##NAME##_CONSTRUCT(&one);  \
        PMIX_##NAME##_DESTRUCT(&one);   \
    } while (0)

static void families(void)
{
    pmix_coord_t *coords;
    pmix_data_buffer_t *buffer;
    FAMILY(VALUE, pmix_value_t);
    FAMILY(INFO, pmix_info_t);
    FAMILY(PROC, pmix_proc_t);
    FAMILY(PROC_INFO, pmix_proc_info_t);
    FAMILY(PDATA, pmix_pdata_t);
    FAMILY(APP, pmix_app_t);
    FAMILY(QUERY, pmix_query_t);
    FAMILY(REGATTR, pmix_regattr_t);
    FAMILY(BYTE_OBJECT, pmix_byte_object_t);
    FAMILY(ENVAR, pmix_envar_t);
    FAMILY(ENDPOINT, pmix_endpoint_t);
    FAMILY(GEOMETRY, pmix_geometry_t);
    FAMILY(DEVICE_DIST, pmix_device_distance_t);
    FAMILY(PROC_STATS, pmix_proc_stats_t);
    FAMILY(DISK_STATS, pmix_disk_stats_t);
    FAMILY(NET_STATS, pmix_net_stats_t);
    FAMILY(NODE_STATS, pmix_node_stats_t);
    PMIX_COORD_CREATE(coords, 2, 3);
    assert(coords[1].dims == 3 && coords[1].coord[2] == 0);
    PMIX_COORD_FREE(coords, 2);
    PMIX_DATA_BUFFER_CREATE(buffer);
    PMIX_DATA_BUFFER_RELEASE(buffer);
}

static void names(void)
{
    pmix_proc_t a, b;
    pmix_nspace_t joined, cluster, nspace;
    PMIX_LOAD_PROCID(&a, "job", 3);
    PMIX_LOAD_PROCID(&b, "job", PMIX_RANK_WILDCARD);
    assert(PMIX_CHECK_PROCID(&a, &b) && !PMIX_CHECK_NSPACE(a.nspace, "other"));
    assert(!PMIX_PROCID_INVALID(&a) && PMIX_NSPACE_INVALID(""));
    PMIX_XFER_PROCID(&b, &a);
    assert(b.rank == 3 && PMIX_CHECK_RANK(a.rank, b.rank) && PMIX_RANK_IS_VALID(a.rank));
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(joined, "east", "job");
    PMIX_MULTICLUSTER_NSPACE_PARSE(joined, cluster, nspace);
    assert(strcmp(joined, "east:job") == 0 && strcmp(cluster, "east") == 0 && strcmp(nspace, "job") == 0);
}

static void strings(void)
{
    char **argv = NULL, **copy, *joined;
    int rc, count;
    PMIX_ARGV_APPEND(rc, argv, "b");
    assert(rc == PMIX_SUCCESS);
    PMIX_ARGV_PREPEND(rc, argv, "a");
    PMIX_ARGV_APPEND_UNIQUE(rc, &argv, "b");
    PMIX_ARGV_COUNT(count, argv);
    assert(count == 2);
    PMIX_ARGV_COPY(copy, argv);
    PMIX_ARGV_JOIN(joined, copy, ',');
    assert(strcmp(joined, "a,b") == 0);
    free(joined);
    PMIX_ARGV_FREE(copy);
    PMIX_ARGV_FREE(argv);
    PMIX_ARGV_SPLIT(argv, ",x,,y", ',');
    assert(pmix_argv_count(argv) == 2 && strcmp(argv[1], "y") == 0);
    PMIX_ARGV_FREE(argv);
    argv = pmix_argv_split_with_empty("x,,y", ',');
    assert(pmix_argv_count(argv) == 3 && argv[1][0] == '\0');
    PMIX_SETENV(rc, "NAME", "1", &argv);
    PMIX_SETENV(rc, "NAME", "2", &argv);
    assert(rc == PMIX_SUCCESS && pmix_argv_count(argv) == 4 && strcmp(argv[3], "NAME=2") == 0);
    PMIX_ARGV_FREE(argv);
}

static void values(void)
{
    pmix_value_t value = PMIX_VALUE_STATIC_INIT, *copy = NULL;
    pmix_status_t rc;
    int number = -7;
    double read = 0;
    PMIX_VALUE_LOAD(&value, &number, PMIX_INT);
    PMIX_VALUE_GET_NUMBER(rc, &value, read, double);
    assert(rc == PMIX_SUCCESS && read == -7.0);
    PMIX_VALUE_XFER(rc, copy, &value);
    assert(rc == PMIX_SUCCESS && copy->type == PMIX_INT && copy->data.integer == -7);
    PMIX_VALUE_RELEASE(copy);
    assert(copy == NULL);
    PMIX_VALUE_LOAD(&value, "yes", PMIX_STRING);
    assert(PMIX_CHECK_TRUE(&value));
    PMIX_VALUE_DESTRUCT(&value);
}

static void infos(void)
{
    pmix_info_t *infos, *array;
    pmix_data_array_t *converted, other;
    void *list;
    pmix_status_t rc;
    bool flag = true;
    PMIX_INFO_CREATE(infos, 2);
    assert(!PMIX_INFO_IS_END(&infos[0]) && PMIX_INFO_IS_END(&infos[1]));
    PMIX_INFO_LOAD(&infos[0], PMIX_WAIT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_HOSTNAME, "n1", PMIX_STRING);
    assert(PMIX_INFO_TRUE(&infos[0]) && PMIX_CHECK_KEY(&infos[1], PMIX_HOSTNAME));
    PMIX_INFO_REQUIRED(&infos[0]);
    assert(PMIX_INFO_IS_REQUIRED(&infos[0]) && PMIX_INFO_IS_OPTIONAL(&infos[1]));
    PMIX_INFO_LIST_START(list);
    PMIX_INFO_LIST_ADD(rc, list, PMIX_IMMEDIATE, &flag, PMIX_BOOL);
    PMIX_INFO_LIST_XFER(rc, list, &infos[1]);
    assert(rc == PMIX_SUCCESS);
    converted = (pmix_data_array_t *) calloc(1, sizeof(*converted));
    PMIX_INFO_LIST_CONVERT(rc, list, converted);
    PMIX_INFO_LIST_RELEASE(list);
    array = (pmix_info_t *) converted->array;
    assert(rc == PMIX_SUCCESS && converted->size == 2 && strcmp(array[1].value.data.string, "n1") == 0);
    PMIX_DATA_ARRAY_FREE(converted);
    PMIX_DATA_ARRAY_CONSTRUCT(&other, 2, PMIX_PROC);
    assert(other.size == 2 && ((pmix_proc_t *) other.array)[1].rank == 0);
    PMIX_DATA_ARRAY_DESTRUCT(&other);
    PMIX_INFO_FREE(infos, 2);
}

static void attributes(void)
{
    pmix_regattr_t one, two = PMIX_REGATTR_STATIC_INIT;
    pmix_pdata_t found;
    pmix_proc_t me = PMIX_PROC_STATIC_INIT;
    PMIX_REGATTR_LOAD(&one, "PMIX_X", "pmix.x", PMIX_INT, "a number");
    PMIX_REGATTR_XFER(&two, &one);
    assert(strcmp(two.description[0], "a number") == 0 && two.type == PMIX_INT);
    PMIX_REGATTR_DESTRUCT(&one);
    PMIX_REGATTR_DESTRUCT(&two);
    PMIX_PDATA_LOAD(&found, &me, "k", "v", PMIX_STRING);
    assert(strcmp(found.key, "k") == 0 && found.proc.rank == PMIX_RANK_UNDEF);
    PMIX_PDATA_DESTRUCT(&found);
}

static void before_init(void)
{
    pmix_value_t *value = NULL;
    pmix_server_module_t module = {0};
    (void) module;
    assert(PMIx_Initialized() == 0);
    assert(PMIx_Get(NULL, "key", NULL, 0, &value) == PMIX_ERR_INIT);
    assert(PMIx_Commit() == PMIX_ERR_INIT && PMIx_server_finalize() == PMIX_ERR_INIT);
    assert(PMIx_Fence(NULL, 0, NULL, 0) == PMIX_ERR_INIT);
    assert(strcmp(PMIx_Get_attribute_string("PMIX_JOB_SIZE"), PMIX_JOB_SIZE) == 0);
    assert(strcmp(PMIx_Scope_string(PMIX_GLOBAL), "SHARE ACROSS ALL NODES") == 0);
    assert(strcmp(PMIx_Error_string(PMIX_ERR_NOT_FOUND), "PMIX_ERR_NOT_FOUND") == 0);
}

int main(void)
{
    families();
    names();
    strings();
    values();
    infos();
    attributes();
    before_init();
    puts(PMIx_Get_version());
    return 0;
}
