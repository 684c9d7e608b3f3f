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
    FAMILY(DEVICE, pmix_device_t);
    FAMILY(NODE_PID, pmix_node_pid_t);
    FAMILY(RESOURCE_UNIT, pmix_resource_unit_t);
    FAMILY(TOPOLOGY, pmix_topology_t);
    FAMILY(CPUSET, pmix_cpuset_t);
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

/* Every static initialiser; what they leave can be destructed. */
static void initialisers(void)
{
    static pmix_coord_t coord = PMIX_COORD_STATIC_INIT;
    static pmix_cpuset_t cpuset = PMIX_CPUSET_STATIC_INIT;
    static pmix_topology_t topology = PMIX_TOPOLOGY_STATIC_INIT;
    static pmix_geometry_t geometry = PMIX_GEOMETRY_STATIC_INIT;
    static pmix_device_t device = PMIX_DEVICE_STATIC_INIT;
    static pmix_resource_unit_t unit = PMIX_RESOURCE_UNIT_STATIC_INIT;
    static pmix_device_distance_t distance = PMIX_DEVICE_DIST_STATIC_INIT;
    static pmix_node_pid_t node_pid = PMIX_NODE_PID_STATIC_INIT;
    static pmix_byte_object_t object = PMIX_BYTE_OBJECT_STATIC_INIT;
    static pmix_regex2_t regex = PMIX_REGEX2_STATIC_INIT;
    static pmix_endpoint_t endpoint = PMIX_ENDPOINT_STATIC_INIT;
    static pmix_envar_t envar = PMIX_ENVAR_STATIC_INIT;
    static pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    static pmix_proc_t proc = PMIX_PROC_STATIC_INIT;
    static pmix_proc_info_t proc_info = PMIX_PROC_INFO_STATIC_INIT;
    static pmix_data_array_t array = PMIX_DATA_ARRAY_STATIC_INIT;
    static pmix_value_t value = PMIX_VALUE_STATIC_INIT;
    static pmix_info_t info = PMIX_INFO_STATIC_INIT;
    static pmix_pdata_t pdata = PMIX_LOOKUP_STATIC_INIT;
    static pmix_app_t app = PMIX_APP_STATIC_INIT;
    static pmix_query_t query = PMIX_QUERY_STATIC_INIT;
    static pmix_regattr_t regattr = PMIX_REGATTR_STATIC_INIT;
    static pmix_fabric_t fabric = PMIX_FABRIC_STATIC_INIT;
    static pmix_proc_stats_t proc_stats = PMIX_PROC_STATS_STATIC_INIT;
    static pmix_disk_stats_t disk_stats = PMIX_DISK_STATS_STATIC_INIT;
    static pmix_net_stats_t net_stats = PMIX_NET_STATS_STATIC_INIT;
    static pmix_node_stats_t node_stats = PMIX_NODE_STATS_STATIC_INIT;
    assert(proc.rank == PMIX_RANK_UNDEF && distance.mindist == UINT16_MAX && fabric.module == NULL);
    assert(regex.len == 0 && unit.count == 0 && node_pid.pid == 0 && proc_stats.processor == 0);
    PMIX_COORD_DESTRUCT(&coord);
    PMIX_CPUSET_DESTRUCT(&cpuset);
    PMIX_TOPOLOGY_DESTRUCT(&topology);
    PMIX_GEOMETRY_DESTRUCT(&geometry);
    PMIX_DEVICE_DESTRUCT(&device);
    PMIX_BYTE_OBJECT_DESTRUCT(&object);
    PMIX_ENDPOINT_DESTRUCT(&endpoint);
    PMIX_ENVAR_DESTRUCT(&envar);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_PROC_INFO_DESTRUCT(&proc_info);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_PDATA_DESTRUCT(&pdata);
    PMIX_APP_DESTRUCT(&app);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_REGATTR_DESTRUCT(&regattr);
    PMIX_DISK_STATS_DESTRUCT(&disk_stats);
    PMIX_NET_STATS_DESTRUCT(&net_stats);
    PMIX_NODE_STATS_DESTRUCT(&node_stats);
}

/* The functions that only release 4.2.2 has beside the macros. */
static void arrays(void)
{
    pmix_proc_stats_t *procs;
    pmix_disk_stats_t *disks;
    pmix_net_stats_t *nets;
    pmix_node_stats_t *nodes;
    pmix_app_t *apps;
    pmix_pdata_t *found;
    PMIX_PROC_STATS_CREATE(procs, 2);
    PMIX_DISK_STATS_CREATE(disks, 2);
    PMIX_NET_STATS_CREATE(nets, 2);
    PMIX_NODE_STATS_CREATE(nodes, 2);
    PMIX_APP_CREATE(apps, 2);
    PMIX_PDATA_CREATE(found, 2);
    pmix_proc_stats_free(procs, 2);
    pmix_disk_stats_free(disks, 2);
    pmix_net_stats_free(nets, 2);
    pmix_node_stats_free(nodes, 2);
    pmix_app_free(apps, 2);
    pmix_pdata_free(found, 2);
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
    PMIX_INFO_LIST_PREPEND(rc, list, PMIX_OPTIONAL, &flag, PMIX_BOOL);
    assert(rc == PMIX_SUCCESS);
    converted = (pmix_data_array_t *) calloc(1, sizeof(*converted));
    PMIX_INFO_LIST_CONVERT(rc, list, converted);
    PMIX_INFO_LIST_RELEASE(list);
    array = (pmix_info_t *) converted->array;
    assert(rc == PMIX_SUCCESS && converted->size == 3 && strcmp(array[2].value.data.string, "n1") == 0);
    assert(PMIX_CHECK_KEY(&array[0], PMIX_OPTIONAL));
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
    initialisers();
    arrays();
    names();
    strings();
    values();
    infos();
    attributes();
    before_init();
    puts(PMIx_Get_version());
    return 0;
}
