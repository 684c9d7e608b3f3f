/* The library's view of the machine, as a host and as its client: a line for each result.
 *
 *   topology [share | given] CPUSET...
 *
 * CLIENT_LIBRARY is the directory of the client's library. HWLOC_SYNTHETIC and HWLOC_XMLFILE name another machine. With share the host passes
 * it to its client, whose environment then names none. With given the host provides a topology of its own.
 */
#include "common.h"

#include <pmix_server.h>

#include <dlfcn.h>
#include <sys/wait.h>

static void *hwloc(const char *name)
{
    static void *library;
    library = library != NULL ? library : need(dlopen("libhwloc.so.15", RTLD_NOW));
    return need(dlsym(library, name));
}

/* How many objects are on each level. */
static void say_levels(const char *who, void *topology)
{
    int (*levels)(void *) = (__typeof__(levels)) hwloc("hwloc_topology_get_depth");
    unsigned (*count)(void *, int) = (__typeof__(count)) hwloc("hwloc_get_nbobjs_by_depth");
    char line[256] = "";
    for (int level = 0; level < levels(topology); level++) {
        snprintf(line + strlen(line), sizeof(line) - strlen(line), " %u", count(topology, level));
    }
    say("%s levels:%s", who, line);
}

static void *load(const char *who)
{
    pmix_topology_t topology, again;
    PMIX_TOPOLOGY_CONSTRUCT(&topology);
    PMIX_TOPOLOGY_CONSTRUCT(&again);
    pmix_status_t status = PMIx_Load_topology(&topology);
    bool is_hwloc = topology.source != NULL && strncmp(topology.source, "hwloc", 5) == 0;
    pmix_status_t second = PMIx_Load_topology(&again);
    say("%s load: %d, hwloc %d, again %d, the same %d", who, status, is_hwloc, second,
        topology.topology != NULL && topology.topology == again.topology);
    if (topology.topology != NULL) {
        say_levels(who, topology.topology);
    }
    topology.source = copy_text("elsewhere");
    say("%s load from elsewhere fails: %d", who, PMIx_Load_topology(&topology) != PMIX_SUCCESS);
    return topology.topology;
}

/* The own topology as a value: the caller owns and frees it; it has as many objects as the loaded one. */
static void get(const char *who, const pmix_proc_t *me, void *loaded, const char *directive)
{
    pmix_value_t *value = NULL;
    infos_t infos = { 0 };
    if (directive != NULL) {
        add(&infos, directive, value_bool(true));
    }
    pmix_status_t status = PMIx_Get(me, PMIX_TOPOLOGY2, infos.items, infos.count, &value);
    bool is_topology = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_TOPO && value->data.topo != NULL;
    bool is_hwloc = is_topology && value->data.topo->source != NULL && strncmp(value->data.topo->source, "hwloc", 5) == 0;
    say("%s get own topology: %d, hwloc %d", who, status, is_hwloc);
    if (is_hwloc) {
        unsigned (*count)(void *, int) = (__typeof__(count)) hwloc("hwloc_get_nbobjs_by_depth");
        int (*levels)(void *) = (__typeof__(levels)) hwloc("hwloc_topology_get_depth");
        void *got = value->data.topo->topology;
        bool is_same = levels(got) == levels(loaded);
        for (int level = 0; is_same && level < levels(got); level++) {
            is_same = count(got, level) == count(loaded, level);
        }
        say("%s got topology: as loaded %d", who, is_same);
        PMIX_VALUE_RELEASE(value);
        // The loaded one is still there.
        say("%s has levels: %d", who, levels(loaded));
    }
    free_infos(&infos);
}

static volatile int got = 1;

static void take_topology(pmix_status_t status, pmix_value_t *value, void *cbdata)
{
    bool is_topology = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_TOPO;
    *(bool *) cbdata = is_topology && value->data.topo->topology != NULL;
    __atomic_store_n(&got, status, __ATOMIC_RELEASE);
}

/* The same with a callback, in a process that has asked for nothing of the kind. */
static void get_later(const char *who, const pmix_proc_t *me)
{
    bool is_topology = false;
    pmix_status_t status = PMIx_Get_nb(me, PMIX_TOPOLOGY2, NULL, 0, take_topology, &is_topology);
    while (status == PMIX_SUCCESS && __atomic_load_n(&got, __ATOMIC_ACQUIRE) == 1) {
        usleep(1000);
    }
    say("%s get own topology later: %d, %d, topology %d", who, status, got, is_topology);
}

static void say_text(void *loaded)
{
    pmix_topology_t topology = { .source = "hwloc", .topology = loaded };
    char *text = NULL;
    pmix_status_t status = PMIx_Data_print(&text, NULL, &topology, PMIX_TOPO);
    say("text: %d", status);
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        say("%s", line);
    }
    free(text);
}

/* A topology of the host's own: two packages of three processors. */
static void *make_topology(void)
{
    int (*init)(void **) = (__typeof__(init)) hwloc("hwloc_topology_init");
    int (*describe)(void *, const char *) = (__typeof__(describe)) hwloc("hwloc_topology_set_synthetic");
    int (*finish)(void *) = (__typeof__(finish)) hwloc("hwloc_topology_load");
    void *topology = NULL;
    int failed = init(&topology) | describe(topology, "package:2 pu:3") | finish(topology);
    return failed ? NULL : topology;
}

/* Distances of the network device with this name or identity, and of the device of any type. */
static void say_distances_of(const char *list, pmix_cpuset_t *cpuset, const char *id)
{
    pmix_device_distance_t *distances = NULL;
    size_t count = 0;
    infos_t infos = { 0 };
    add(&infos, PMIX_DEVICE_ID, value_string(id));
    pmix_status_t status = PMIx_Compute_distances(NULL, cpuset, infos.items, infos.count, &distances, &count);
    say("identified %s by %s: %d, %zu", list, id, status, count);
    pmix_value_t type = { .type = PMIX_DEVTYPE, .data.devtype = PMIX_DEVTYPE_NETWORK };
    add(&infos, PMIX_DEVICE_TYPE, type);
    status = PMIx_Compute_distances(NULL, cpuset, infos.items, infos.count, &distances, &count);
    say("distances %s of the network %s: %d, %zu", list, id, status, count);
    free_infos(&infos);
}

static void say_distances(const char *list, pmix_cpuset_t *cpuset)
{
    pmix_device_distance_t *distances = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Compute_distances(NULL, cpuset, NULL, 0, &distances, &count);
    say("distances %s: %d, %zu", list, status, count);
    for (size_t i = 0; i < count; i++) {
        say("distance %s: %s %s %lu, %u to %u", list, distances[i].uuid, distances[i].osname, (unsigned long) distances[i].type,
            distances[i].mindist, distances[i].maxdist);
        say_distances_of(list, cpuset, distances[i].osname);
        say_distances_of(list, cpuset, distances[i].uuid);
    }
    say_distances_of(list, cpuset, "nothing");
    pmix_info_t info;
    pmix_device_type_t type = PMIX_DEVTYPE_NETWORK;
    PMIX_INFO_LOAD(&info, PMIX_DEVICE_TYPE, &type, PMIX_DEVTYPE);
    status = PMIx_Compute_distances(NULL, cpuset, &info, 1, &distances, &count);
    say("distances %s of networks: %d, %zu", list, status, count);
    type = PMIX_DEVTYPE_BLOCK;
    PMIX_INFO_LOAD(&info, PMIX_DEVICE_TYPE, &type, PMIX_DEVTYPE);
    status = PMIx_Compute_distances(NULL, cpuset, &info, 1, &distances, &count);
    say("distances %s of disks: %d, %zu", list, status, count);
}

static void say_cpuset(const char *list)
{
    pmix_cpuset_t cpuset;
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    char *locality = NULL, *text = NULL;
    pmix_status_t status = PMIx_Parse_cpuset_string(list, &cpuset);
    say("parse %s: %d", list, status);
    if (status != PMIX_SUCCESS) {
        return;
    }
    status = PMIx_server_generate_cpuset_string(&cpuset, &text);
    say("write %s: %d %s", list, status, text);
    status = PMIx_server_generate_locality_string(&cpuset, &locality);
    say("locality %s: %d %s", list, status, locality != NULL ? locality : "none");
    say_distances(list, &cpuset);
}

static volatile int collected = 1;

/* Without a fabric there is nothing to collect. */
static void take_inventory(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *cbdata, pmix_release_cbfunc_t release,
                           void *release_cbdata)
{
    (void) info;
    (void) cbdata;
    if (release != NULL) {
        release(release_cbdata);
    }
    __atomic_store_n(&collected, ninfo == 0 ? status : 2, __ATOMIC_RELEASE);
}

static void say_inventory(void)
{
    pmix_status_t status = PMIx_server_collect_inventory(NULL, 0, take_inventory, NULL);
    for (int i = 0; i < 3000 && status == PMIX_SUCCESS && __atomic_load_n(&collected, __ATOMIC_ACQUIRE) == 1; i++) {
        usleep(10000);
    }
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_HOSTNAME, "node", PMIX_STRING);
    say("inventory: %d, %d, delivered %d", status, collected, PMIx_server_deliver_inventory(&info, 1, NULL, 0, NULL, NULL));
}

static int client(void)
{
    pmix_proc_t me, job;
    pmix_value_t *value = NULL;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        return 1;
    }
    job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    const char *keys[] = { PMIX_HWLOC_XML_V2, PMIX_HWLOC_XML_V1, PMIX_LOCAL_TOPO };
    for (int i = 0; i < 3; i++) {
        pmix_status_t status = PMIx_Get(&job, keys[i], NULL, 0, &value);
        bool is_xml = status == PMIX_SUCCESS && value->type == PMIX_STRING && strncmp(value->data.string, "<?xml", 5) == 0;
        say("client get %s: %d, xml %d, %zu bytes", keys[i], status, is_xml, is_xml ? strlen(value->data.string) : 0);
    }
    // Stock clients of 4.2 have none before it is loaded.
    void *loaded = load("client");
    get_later("client", &me);
    get("client", &me, loaded, NULL);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}

static void serve_client(char *program)
{
    char **env = NULL;
    pmix_proc_t rank = proc_of("job", 0);
    infos_t infos = { 0 };
    char *nodes = NULL, *ranks = NULL;
    char hostname[256];
    gethostname(hostname, sizeof(hostname));
    PMIx_generate_regex(hostname, &nodes);
    PMIx_generate_ppn("0", &ranks);
    add(&infos, PMIX_NODE_MAP, value_string(nodes));
    add(&infos, PMIX_PROC_MAP, value_string(ranks));
    add(&infos, PMIX_JOB_SIZE, value_uint32(1));
    PMIx_server_register_nspace(rank.nspace, 1, infos.items, infos.count, NULL, NULL);
    PMIx_server_register_client(&rank, geteuid(), getegid(), NULL, NULL, NULL);
    PMIx_server_setup_fork(&rank, &env);
    for (char **variable = env; variable != NULL && *variable != NULL; variable++) {
        putenv(*variable);
    }
    if (getenv("CLIENT_LIBRARY") != NULL) {
        setenv("LD_LIBRARY_PATH", getenv("CLIENT_LIBRARY"), 1);
    }
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    say("client ended: %d", status);
}

int main(int argc, char **argv)
{
    if (getenv("PMIX_NAMESPACE") != NULL) {
        return client();
    }
    pmix_server_module_t module = { 0 };
    bool shares = argc > 1 && strcmp(argv[1], "share") == 0;
    infos_t infos = { 0 };
    add(&infos, PMIX_SERVER_SHARE_TOPOLOGY, value_bool(shares));
    add(&infos, PMIX_SERVER_NSPACE, value_string("host"));
    pmix_value_t first = { .type = PMIX_PROC_RANK };
    add(&infos, PMIX_SERVER_RANK, first);
    bool gives = argc > 1 && strcmp(argv[1], "given") == 0;
    pmix_topology_t given = { .source = "hwloc" };
    if (gives) {
        given.topology = need(make_topology());
        pmix_value_t value = { .type = PMIX_TOPO, .data.topo = &given };
        add(&infos, PMIX_TOPOLOGY2, value);
    }
    pmix_status_t status = PMIx_server_init(&module, infos.items, infos.count);
    if (status != PMIX_SUCCESS) {
        say("init: %d", status);
        return 1;
    }
    void *loaded = load("host");
    if (gives) {
        say("given: the same %d", loaded == given.topology);
    }
    say_text(loaded);
    pmix_proc_t me = proc_of("host", 0);
    get("host", &me, loaded, NULL);
    get("host", &me, loaded, PMIX_OPTIONAL);
    for (int i = 1 + shares + gives; i < argc; i++) {
        say_cpuset(argv[i]);
    }
    say_distances("own", NULL);
    say_inventory();
    if (shares) {
        serve_client(argv[0]);
    }
    say("finalize: %d", PMIx_server_finalize());
    return 0;
}
