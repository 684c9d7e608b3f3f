/* Objects of every type of data: filled from a seed, shown as text, compared by that text, and freed.
 *
 * All of it is the program's own code, field by field, with memory from malloc: so two libraries' treatment of the
 * same objects can be compared.
 */
#ifndef PMIX_TEST_OBJECTS_H
#define PMIX_TEST_OBJECTS_H

#include <inttypes.h>
#include <math.h>

#include "common.h"

/* ---- the output of a case ----------------------------------------------------------------------------------------- */

static char said[1 << 18];
static size_t said_len;

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(said) - said_len;
    int len = vsnprintf(said + said_len, room, format, args);
    va_end(args);
    if (len > 0) {
        said_len += (size_t) len < room ? (size_t) len : room - 1;
    }
}

static void put_bytes(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = 1469598103934665603u;
    if (at == NULL) {
        put("NULL+%zu", len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * 1099511628211u;
        if (i < 200) {
            put("%02x", at[i]);
        }
    }
    put(len > 200 ? "...%zu=%016" PRIx64 : "", len, hash);
}

/* Of longer texts the length is shown. */
#define TEXT_SHOWN_MAX 30000

static void put_text(const char *text)
{
    if (text == NULL) {
        put("NULL");
        return;
    }
    put("\"");
    size_t len = strlen(text);
    for (size_t i = 0; i < len && i < TEXT_SHOWN_MAX; i++) {
        unsigned char c = (unsigned char) text[i];
        put(c >= ' ' && c < 0x7f && c != '"' && c != '\\' ? "%c" : "\\x%02x", c);
    }
    put(len > TEXT_SHOWN_MAX ? "\"+%zu" : "\"", len);
}

/* ---- numbers that a seed decides --------------------------------------------------------------------------------- */

static uint64_t seed;
/* Whether a number was made that needs more than six decimals. */
static bool is_inexact;
/* The types of the objects that were made. */
static bool is_made[128];

static uint64_t any(void)
{
    uint64_t mixed = seed += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static uint64_t below(uint64_t end) { return any() % end; }
static bool one_in(uint64_t many) { return below(many) == 0; }

static uint64_t any_number(void)
{
    static const uint64_t edges[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff,
                                      0x80000000, 0xffffffff, 0x100000000, 1ul << 53, INT64_MAX, 1ul << 63, UINT64_MAX - 1,
                                      UINT64_MAX };
    switch (below(4)) {
    case 0: return edges[below(sizeof(edges) / sizeof(edges[0]))];
    case 1: return any() >> below(64);
    case 2: return -(any() >> (1 + below(63)));
    default: return below(12);
    }
}

static double any_real(void)
{
    static const double odd[] = { 0.1, 1e300, -1e-300, 3.4028234e38, 1e-7, 123456789.123456789, 4.9e-324 };
    static const double edges[] = { 0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, 1e15, 255.0, 256.0, -128.0, -129.0, 65535.5,
                                    2147483647.0, 2147483648.0, 4294967296.0, 9223372036854775808.0,
                                    18446744073709551616.0 };
    switch (below(8)) {
    case 0: is_inexact = true; return odd[below(sizeof(odd) / sizeof(odd[0]))];
    case 1: case 2: return edges[below(sizeof(edges) / sizeof(edges[0]))];
    default: return (double) ((int64_t) below(1 << 20) - (1 << 19)) / 64;
    }
}

/* A text in new memory: plain, odd or long. */
static char *some_text(void)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static const char odd[] = " \t\n,;:=%\"\\/[]\xc3\xa9\x80\xff\x01";
    size_t len = one_in(60) ? below(5000) : below(one_in(3) ? 40 : 10);
    char *text = need(malloc(len + 1));
    bool is_odd = one_in(4);
    for (size_t i = 0; i < len; i++) {
        text[i] = is_odd && one_in(2) ? odd[below(sizeof(odd) - 1)] : plain[below(sizeof(plain) - 1)];
    }
    text[len] = '\0';
    return text;
}

static char *any_text(void) { return one_in(6) ? NULL : some_text(); }

/* A NUL-padded name in a field of `size` bytes. */
static void any_name(char *at, size_t size)
{
    memset(at, 0, size);
    if (one_in(40)) {
        memset(at, 'n', size - 1);
        return;
    }
    char *text = some_text();
    strncpy(at, text, size - 1);
    free(text);
}

static char **any_list(void)
{
    size_t len = below(4);
    if (len == 0) {
        return NULL;
    }
    char **list = need(calloc(len + 1, sizeof(char *)));
    for (size_t i = 0; i < len; i++) {
        list[i] = some_text();
    }
    return list;
}

static void put_list(char *const *list)
{
    if (list == NULL) {
        put("NULL");
        return;
    }
    put("[");
    for (; *list != NULL; list++) {
        put_text(*list);
        put(" ");
    }
    put("]");
}

static void discard_list(char **list)
{
    for (char **at = list; list != NULL && *at != NULL; at++) {
        free(*at);
    }
    free(list);
}

static char *any_bytes(size_t *len)
{
    *len = one_in(4) ? 0 : below(one_in(30) ? 6000 : 20);
    char *bytes = *len == 0 ? NULL : need(malloc(*len));
    for (size_t i = 0; i < *len; i++) {
        bytes[i] = (char) any();
    }
    return bytes;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef struct {
    pmix_data_type_t code;
    const char *name;
    size_t size;
    void (*fill)(void *at, int depth);
    void (*show)(const void *at);
    void (*discard)(void *at);
    /* How a value holds it: in itself, by a pointer, not at all. */
    enum { INSIDE, BEHIND, NOWHERE } held;
} type_t;

static const type_t *type_of(pmix_data_type_t code);

/* Fills an object, and remembers that there is one of its type. */
static void fill(const type_t *type, void *at, int depth)
{
    is_made[type->code] = true;
    type->fill(at, depth);
}

#define FILL(name) static void fill_##name(void *object, int depth)
#define SHOW(name) static void show_##name(const void *object)
#define DISCARD(name) static void discard_##name(void *object)

static void discard_nothing(void *object) { (void) object; }

#define NUMBER(width)                                                                                                      \
    FILL(n##width) { uint64_t number = any_number(); (void) depth; memcpy(object, &number, width); }                       \
    SHOW(n##width) { uint64_t number = 0; memcpy(&number, object, width); put("0x%" PRIx64, number); }
NUMBER(1) NUMBER(2) NUMBER(4) NUMBER(8)

FILL(bool) { (void) depth; *(unsigned char *) object = one_in(2); }
FILL(code) { (void) depth; *(unsigned char *) object = (unsigned char) (one_in(3) ? any() : below(70)); }
/* Bit masks of eight bytes, whose texts name single bits. */
FILL(mask) { (void) depth; uint64_t mask = one_in(3) ? any_number() : 1ul << below(12); memcpy(object, &mask, 8); }
FILL(status) { (void) depth; *(int32_t *) object = one_in(5) ? (int32_t) any_number() : -(int32_t) below(420); }
FILL(type) { (void) depth; *(uint16_t *) object = (uint16_t) (one_in(5) ? any_number() : below(80)); }
FILL(rank)
{
    (void) depth;
    *(pmix_rank_t *) object = (pmix_rank_t) (one_in(3) ? PMIX_RANK_UNDEF - below(60) : any_number());
}
FILL(flags) { (void) depth; *(uint32_t *) object = one_in(8) ? (uint32_t) any_number() & ~PMIX_INFO_PERSISTENT
                                                             : (uint32_t) below(16); }
/* Within the years that the C library has names for. */
FILL(time) { (void) depth; *(time_t *) object = (time_t) (any() >> (30 + below(34))); }

FILL(float) { (void) depth; *(float *) object = (float) any_real(); }
FILL(double) { (void) depth; *(double *) object = any_real(); }
SHOW(float) { put("%.9g", *(const float *) object); }
SHOW(double) { put("%.17g", *(const double *) object); }

FILL(timeval)
{
    struct timeval *tv = object;
    (void) depth;
    tv->tv_sec = (time_t) any_number();
    tv->tv_usec = (suseconds_t) any_number();
}
SHOW(timeval)
{
    const struct timeval *tv = object;
    put("%ld.%ld", (long) tv->tv_sec, (long) tv->tv_usec);
}

FILL(string) { (void) depth; *(char **) object = any_text(); }
SHOW(string) { put_text(*(char *const *) object); }
DISCARD(string) { free(*(char **) object); }

FILL(nspace) { (void) depth; any_name(object, sizeof(pmix_nspace_t)); }
SHOW(nspace) { put_text(object); }

FILL(proc)
{
    pmix_proc_t *proc = object;
    any_name(proc->nspace, sizeof(proc->nspace));
    fill_rank(&proc->rank, depth);
}
SHOW(proc)
{
    const pmix_proc_t *proc = object;
    put_text(proc->nspace);
    put(".%u", proc->rank);
}

FILL(bo)
{
    pmix_byte_object_t *bo = object;
    (void) depth;
    bo->bytes = any_bytes(&bo->size);
}
SHOW(bo)
{
    const pmix_byte_object_t *bo = object;
    put("%zu:", bo->size);
    put_bytes(bo->size == 0 ? "" : bo->bytes, bo->size);
}
DISCARD(bo) { free(((pmix_byte_object_t *) object)->bytes); }

/* The length and a zlib stream of stored blocks: the form of compressed values. */
static void compress_by_hand(pmix_byte_object_t *bo, const char *plain, uint16_t len)
{
    uint32_t a = 1, b = 0;
    unsigned char *at = need(malloc(4u + 11u + len));
    bo->bytes = (char *) at;
    bo->size = 4u + 11u + len;
    uint32_t whole = len;
    memcpy(at, &whole, 4);
    memcpy(at + 4, "\x78\x01\x01", 3);
    uint16_t other = (uint16_t) ~len;
    memcpy(at + 7, &len, 2);
    memcpy(at + 9, &other, 2);
    memcpy(at + 11, plain, len);
    for (uint16_t i = 0; i < len; i++) {
        a = (a + (unsigned char) plain[i]) % 65521;
        b = (b + a) % 65521;
    }
    unsigned char check[] = { (unsigned char) (b >> 8), (unsigned char) b, (unsigned char) (a >> 8), (unsigned char) a };
    memcpy(at + 11 + len, check, 4);
}
FILL(compressed)
{
    (void) depth;
    char *text = some_text();
    compress_by_hand(object, text, (uint16_t) strlen(text));
    free(text);
}

/* Stock libraries crash if a map in an unknown form, the last one, is packed as a text. */
static const char *const maps[] = { "raw:a,b,c", "pmix[odin[3:1-3,7]]", "raw:", "x" };
#define KNOWN_MAPS 3
FILL(regex)
{
    pmix_byte_object_t *bo = object;
    (void) depth;
    bo->bytes = copy_text(maps[below(KNOWN_MAPS + 1)]);
    bo->size = strlen(bo->bytes) + 1;
}

FILL(envar)
{
    pmix_envar_t *envar = object;
    (void) depth;
    envar->envar = any_text();
    envar->value = any_text();
    envar->separator = (char) (one_in(2) ? ':' : any());
}
SHOW(envar)
{
    const pmix_envar_t *envar = object;
    put_text(envar->envar);
    put("=");
    put_text(envar->value);
    put("/%02x", (unsigned char) envar->separator);
}
DISCARD(envar)
{
    pmix_envar_t *envar = object;
    free(envar->envar);
    free(envar->value);
}

FILL(value);
SHOW(value);
DISCARD(value);

FILL(info)
{
    pmix_info_t *info = object;
    any_name(info->key, sizeof(info->key));
    fill_flags(&info->flags, depth);
    fill_value(&info->value, depth);
}
SHOW(info)
{
    const pmix_info_t *info = object;
    put("{");
    put_text(info->key);
    put("/%x ", info->flags);
    show_value(&info->value);
    put("}");
}
DISCARD(info) { discard_value(&((pmix_info_t *) object)->value); }

/* A map is packed and copied as its text; in a value it is a byte object. Releases pack arrays of maps as
 * texts, too, but free and compare them as byte objects. */
FILL(map_text)
{
    (void) depth;
    *(char **) object = copy_text(maps[below(KNOWN_MAPS)]);
}
static const type_t map_text = { PMIX_REGEX, "REGEX", sizeof(char *), fill_map_text, show_string, discard_string, NOWHERE };
static const type_t *packed(const type_t *type) { return type->code == PMIX_REGEX ? &map_text : type; }
/* Whether arrays are made to be packed. */
static bool is_for_packing;
static const type_t *element_of(pmix_data_type_t code)
{
    return is_for_packing ? packed(type_of(code)) : type_of(code);
}

/* An array of structures of one type inside another structure. */
static void *any_array(pmix_data_type_t code, size_t *count, int depth)
{
    const type_t *type = element_of(code);
    *count = depth > 0 ? below(4) : 0;
    char *items = *count == 0 ? NULL : need(calloc(*count, type->size));
    for (size_t i = 0; i < *count; i++) {
        fill(type, items + i * type->size, depth - 1);
    }
    return items;
}
static void put_array(pmix_data_type_t code, const void *items, size_t count)
{
    const type_t *type = element_of(code);
    put("%zu(", count);
    for (size_t i = 0; i < count && items != NULL; i++) {
        put(i == 0 ? "" : " ");
        type->show((const char *) items + i * type->size);
    }
    put(items == NULL ? "NULL)" : ")");
}
static void discard_array(pmix_data_type_t code, void *items, size_t count)
{
    const type_t *type = element_of(code);
    for (size_t i = 0; i < count && items != NULL; i++) {
        type->discard((char *) items + i * type->size);
    }
    free(items);
}

FILL(pdata)
{
    pmix_pdata_t *pdata = object;
    fill_proc(&pdata->proc, depth);
    any_name(pdata->key, sizeof(pdata->key));
    fill_value(&pdata->value, depth);
}
SHOW(pdata)
{
    const pmix_pdata_t *pdata = object;
    show_proc(&pdata->proc);
    put(" ");
    put_text(pdata->key);
    put(" ");
    show_value(&pdata->value);
}
DISCARD(pdata) { discard_value(&((pmix_pdata_t *) object)->value); }

FILL(app)
{
    pmix_app_t *app = object;
    app->cmd = any_text();
    app->argv = any_list();
    app->env = any_list();
    app->cwd = any_text();
    app->maxprocs = (int) any_number();
    app->info = any_array(PMIX_INFO, &app->ninfo, depth);
}
SHOW(app)
{
    const pmix_app_t *app = object;
    put_text(app->cmd);
    put_list(app->argv);
    put_list(app->env);
    put_text(app->cwd);
    put(" %d ", app->maxprocs);
    put_array(PMIX_INFO, app->info, app->ninfo);
}
DISCARD(app)
{
    pmix_app_t *app = object;
    free(app->cmd);
    discard_list(app->argv);
    discard_list(app->env);
    free(app->cwd);
    discard_array(PMIX_INFO, app->info, app->ninfo);
}

FILL(query)
{
    pmix_query_t *query = object;
    query->keys = any_list();
    query->qualifiers = any_array(PMIX_INFO, &query->nqual, depth);
}
SHOW(query)
{
    const pmix_query_t *query = object;
    put_list(query->keys);
    put_array(PMIX_INFO, query->qualifiers, query->nqual);
}
DISCARD(query)
{
    pmix_query_t *query = object;
    discard_list(query->keys);
    discard_array(PMIX_INFO, query->qualifiers, query->nqual);
}

FILL(pinfo)
{
    pmix_proc_info_t *info = object;
    fill_proc(&info->proc, depth);
    info->hostname = any_text();
    info->executable_name = any_text();
    info->pid = (pid_t) any_number();
    info->exit_code = (int) any_number();
    fill_code(&info->state, depth);
}
SHOW(pinfo)
{
    const pmix_proc_info_t *info = object;
    show_proc(&info->proc);
    put_text(info->hostname);
    put_text(info->executable_name);
    put(" %d %d %u", info->pid, info->exit_code, info->state);
}
DISCARD(pinfo)
{
    pmix_proc_info_t *info = object;
    free(info->hostname);
    free(info->executable_name);
}

FILL(regattr)
{
    pmix_regattr_t *regattr = object;
    regattr->name = any_text();
    any_name(regattr->string, sizeof(regattr->string));
    fill_type(&regattr->type, depth);
    regattr->description = any_list();
}
SHOW(regattr)
{
    const pmix_regattr_t *regattr = object;
    put_text(regattr->name);
    put_text(regattr->string);
    put("%u", regattr->type);
    put_list(regattr->description);
}
DISCARD(regattr)
{
    pmix_regattr_t *regattr = object;
    free(regattr->name);
    discard_list(regattr->description);
}

FILL(coord)
{
    pmix_coord_t *coord = object;
    (void) depth;
    coord->view = (pmix_coord_view_t) below(4);
    coord->dims = below(4);
    coord->coord = coord->dims == 0 ? NULL : need(calloc(coord->dims, sizeof(uint32_t)));
    for (size_t i = 0; i < coord->dims; i++) {
        coord->coord[i] = (uint32_t) any_number();
    }
}
SHOW(coord)
{
    const pmix_coord_t *coord = object;
    put("%u%s", coord->view, coord->coord == NULL && coord->dims > 0 ? "NULL" : "");
    for (size_t i = 0; i < coord->dims && coord->coord != NULL; i++) {
        put(",%u", coord->coord[i]);
    }
}
DISCARD(coord) { free(((pmix_coord_t *) object)->coord); }

FILL(geometry)
{
    pmix_geometry_t *geometry = object;
    (void) depth;
    geometry->fabric = any_number();
    geometry->uuid = any_text();
    geometry->osname = any_text();
    geometry->coordinates = any_array(PMIX_COORD, &geometry->ncoords, 1);
}
SHOW(geometry)
{
    const pmix_geometry_t *geometry = object;
    put("%zu", geometry->fabric);
    put_text(geometry->uuid);
    put_text(geometry->osname);
    put_array(PMIX_COORD, geometry->coordinates, geometry->ncoords);
}
DISCARD(geometry)
{
    pmix_geometry_t *geometry = object;
    free(geometry->uuid);
    free(geometry->osname);
    discard_array(PMIX_COORD, geometry->coordinates, geometry->ncoords);
}

FILL(devdist)
{
    pmix_device_distance_t *distance = object;
    distance->uuid = any_text();
    distance->osname = any_text();
    fill_mask(&distance->type, depth);
    distance->mindist = (uint16_t) any_number();
    distance->maxdist = (uint16_t) any_number();
}
SHOW(devdist)
{
    const pmix_device_distance_t *distance = object;
    put_text(distance->uuid);
    put_text(distance->osname);
    put("%" PRIx64 " %u %u", distance->type, distance->mindist, distance->maxdist);
}
DISCARD(devdist)
{
    pmix_device_distance_t *distance = object;
    free(distance->uuid);
    free(distance->osname);
}

FILL(device)
{
    pmix_device_t *device = object;
    device->uuid = any_text();
    device->osname = any_text();
    fill_mask(&device->type, depth);
}
SHOW(device)
{
    const pmix_device_t *device = object;
    put_text(device->uuid);
    put_text(device->osname);
    put("%" PRIx64, device->type);
}
DISCARD(device)
{
    pmix_device_t *device = object;
    free(device->uuid);
    free(device->osname);
}

/* Bitmaps are hwloc's, which the library makes and frees. */
FILL(cpuset)
{
    static const char *const texts[] = { "hwloc:0", "hwloc:0-3,8", "hwloc:1,3,5-63", "hwloc:100-200", "hwloc:0-" };
    (void) depth;
    /* Stock libraries write into the text. */
    char *text = copy_text(texts[below(sizeof(texts) / sizeof(texts[0]))]);
    PMIx_Parse_cpuset_string(text, object);
    free(text);
}
SHOW(cpuset)
{
    const pmix_cpuset_t *cpuset = object;
    char *text = NULL;
    if (cpuset->source == NULL || cpuset->bitmap == NULL || PMIx_server_generate_cpuset_string(cpuset, &text) != 0) {
        put_text(cpuset->source);
    }
    put_text(text);
    free(text);
}
DISCARD(cpuset)
{
    PMIx_Cpuset_destruct(object);
}

FILL(endpoint)
{
    pmix_endpoint_t *endpoint = object;
    endpoint->uuid = any_text();
    endpoint->osname = any_text();
    fill_bo(&endpoint->endpt, depth);
}
SHOW(endpoint)
{
    const pmix_endpoint_t *endpoint = object;
    put_text(endpoint->uuid);
    put_text(endpoint->osname);
    show_bo(&endpoint->endpt);
}
DISCARD(endpoint)
{
    pmix_endpoint_t *endpoint = object;
    free(endpoint->uuid);
    free(endpoint->osname);
    free(endpoint->endpt.bytes);
}

FILL(unit)
{
    pmix_resource_unit_t *unit = object;
    fill_mask(&unit->type, depth);
    unit->count = any_number();
}
SHOW(unit)
{
    const pmix_resource_unit_t *unit = object;
    put("%" PRIx64 " %zu", unit->type, unit->count);
}

FILL(nodepid)
{
    pmix_node_pid_t *process = object;
    (void) depth;
    process->hostname = any_text();
    process->nodeid = (uint32_t) any_number();
    process->pid = (pid_t) any_number();
}
SHOW(nodepid)
{
    const pmix_node_pid_t *process = object;
    put_text(process->hostname);
    put("%u %d", process->nodeid, process->pid);
}
DISCARD(nodepid) { free(((pmix_node_pid_t *) object)->hostname); }

FILL(regex2)
{
    pmix_regex2_t *regex = object;
    (void) depth;
    regex->type = any_text();
    regex->bytes = (uint8_t *) any_bytes(&regex->len);
}
SHOW(regex2)
{
    const pmix_regex2_t *regex = object;
    put_text(regex->type);
    put("%zu:", regex->len);
    put_bytes(regex->len == 0 ? (uint8_t *) "" : regex->bytes, regex->len);
}
DISCARD(regex2)
{
    pmix_regex2_t *regex = object;
    free(regex->type);
    free(regex->bytes);
}

FILL(pstats)
{
    pmix_proc_stats_t *stats = object;
    stats->node = any_text();
    fill_proc(&stats->proc, depth);
    stats->pid = (pid_t) any_number();
    stats->cmd = any_text();
    stats->state = (char) ('A' + below(26));
    fill_timeval(&stats->time, depth);
    float *sizes[] = { &stats->percent_cpu, &stats->pss, &stats->vsize, &stats->rss, &stats->peak_vsize };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill_float(sizes[i], depth);
    }
    stats->priority = (int32_t) any_number();
    stats->num_threads = (uint16_t) any_number();
    stats->processor = (uint16_t) any_number();
    fill_timeval(&stats->sample_time, depth);
}
SHOW(pstats)
{
    const pmix_proc_stats_t *stats = object;
    put_text(stats->node);
    show_proc(&stats->proc);
    put(" %d ", stats->pid);
    put_text(stats->cmd);
    put(" %c ", stats->state);
    show_timeval(&stats->time);
    put(" %.9g %d %u %.9g %.9g %.9g %.9g %u ", stats->percent_cpu, stats->priority, stats->num_threads, stats->pss,
        stats->vsize, stats->rss, stats->peak_vsize, stats->processor);
    show_timeval(&stats->sample_time);
}
DISCARD(pstats)
{
    pmix_proc_stats_t *stats = object;
    free(stats->node);
    free(stats->cmd);
}

FILL(dkstats)
{
    pmix_disk_stats_t *stats = object;
    (void) depth;
    stats->disk = any_text();
    for (uint64_t *at = &stats->num_reads_completed; at <= &stats->weighted_milliseconds_io; at++) {
        *at = any_number();
    }
}
SHOW(dkstats)
{
    const pmix_disk_stats_t *stats = object;
    put_text(stats->disk);
    for (const uint64_t *at = &stats->num_reads_completed; at <= &stats->weighted_milliseconds_io; at++) {
        put(" %" PRIu64, *at);
    }
}
DISCARD(dkstats) { free(((pmix_disk_stats_t *) object)->disk); }

FILL(netstats)
{
    pmix_net_stats_t *stats = object;
    (void) depth;
    stats->net_interface = any_text();
    for (uint64_t *at = &stats->num_bytes_recvd; at <= &stats->num_send_errs; at++) {
        *at = any_number();
    }
}
SHOW(netstats)
{
    const pmix_net_stats_t *stats = object;
    put_text(stats->net_interface);
    for (const uint64_t *at = &stats->num_bytes_recvd; at <= &stats->num_send_errs; at++) {
        put(" %" PRIu64, *at);
    }
}
DISCARD(netstats) { free(((pmix_net_stats_t *) object)->net_interface); }

FILL(ndstats)
{
    pmix_node_stats_t *stats = object;
    stats->node = any_text();
    for (float *at = &stats->la; at <= &stats->mapped; at++) {
        fill_float(at, depth);
    }
    fill_timeval(&stats->sample_time, depth);
    stats->diskstats = any_array(PMIX_DISK_STATS, &stats->ndiskstats, 1);
    stats->netstats = any_array(PMIX_NET_STATS, &stats->nnetstats, 1);
}
SHOW(ndstats)
{
    const pmix_node_stats_t *stats = object;
    put_text(stats->node);
    for (const float *at = &stats->la; at <= &stats->mapped; at++) {
        put(" %.9g", *at);
    }
    show_timeval(&stats->sample_time);
    put_array(PMIX_DISK_STATS, stats->diskstats, stats->ndiskstats);
    put_array(PMIX_NET_STATS, stats->netstats, stats->nnetstats);
}
DISCARD(ndstats)
{
    pmix_node_stats_t *stats = object;
    free(stats->node);
    discard_array(PMIX_DISK_STATS, stats->diskstats, stats->ndiskstats);
    discard_array(PMIX_NET_STATS, stats->netstats, stats->nnetstats);
}

FILL(dbuf)
{
    pmix_data_buffer_t *buffer = object;
    (void) depth;
    buffer->base_ptr = any_bytes(&buffer->bytes_used);
    buffer->bytes_allocated = buffer->bytes_used;
    buffer->pack_ptr = buffer->base_ptr == NULL ? NULL : buffer->base_ptr + buffer->bytes_used;
    buffer->unpack_ptr = buffer->base_ptr;
}
SHOW(dbuf)
{
    const pmix_data_buffer_t *buffer = object;
    put("%zu", buffer->bytes_used);
    put(buffer->pack_ptr == NULL ? "+NULL" : "+%zd", buffer->pack_ptr - buffer->base_ptr);
    put(buffer->unpack_ptr == NULL ? "-NULL:" : "-%zd:", buffer->unpack_ptr - buffer->base_ptr);
    put_bytes(buffer->bytes_used == 0 ? "" : buffer->base_ptr, buffer->bytes_used);
}
DISCARD(dbuf) { free(((pmix_data_buffer_t *) object)->base_ptr); }

FILL(darray);
SHOW(darray)
{
    const pmix_data_array_t *array = object;
    put("%u*", array->type);
    if (type_of(array->type) == NULL) {
        put("%zu%s", array->size, array->array == NULL ? "NULL" : "");
    } else {
        put_array(array->type, array->array, array->size);
    }
}
DISCARD(darray)
{
    pmix_data_array_t *array = object;
    if (type_of(array->type) == NULL) {
        free(array->array);
    } else {
        discard_array(array->type, array->array, array->size);
    }
}

#define PLAIN(code, name, size, fill, show) { code, name, size, fill_##fill, show_##show, discard_nothing, INSIDE }
#define INLINE(code, name, c, x) { code, name, sizeof(c), fill_##x, show_##x, discard_##x, INSIDE }
#define POINTER(code, name, c, x) { code, name, sizeof(c), fill_##x, show_##x, discard_##x, BEHIND }
#define ELEMENT(code, name, c, x) { code, name, sizeof(c), fill_##x, show_##x, discard_##x, NOWHERE }
#define discard_nspace discard_nothing
#define discard_proc discard_nothing
#define discard_timeval discard_nothing
#define discard_unit discard_nothing

static const type_t types[] = {
    PLAIN(PMIX_BOOL, "BOOL", 1, bool, n1),
    PLAIN(PMIX_BYTE, "BYTE", 1, n1, n1),
    INLINE(PMIX_STRING, "STRING", char *, string),
    PLAIN(PMIX_SIZE, "SIZE", 8, n8, n8),
    PLAIN(PMIX_PID, "PID", 4, n4, n4),
    PLAIN(PMIX_INT, "INT", 4, n4, n4),
    PLAIN(PMIX_INT8, "INT8", 1, n1, n1),
    PLAIN(PMIX_INT16, "INT16", 2, n2, n2),
    PLAIN(PMIX_INT32, "INT32", 4, n4, n4),
    PLAIN(PMIX_INT64, "INT64", 8, n8, n8),
    PLAIN(PMIX_UINT, "UINT", 4, n4, n4),
    PLAIN(PMIX_UINT8, "UINT8", 1, n1, n1),
    PLAIN(PMIX_UINT16, "UINT16", 2, n2, n2),
    PLAIN(PMIX_UINT32, "UINT32", 4, n4, n4),
    PLAIN(PMIX_UINT64, "UINT64", 8, n8, n8),
    PLAIN(PMIX_FLOAT, "FLOAT", 4, float, float),
    PLAIN(PMIX_DOUBLE, "DOUBLE", 8, double, double),
    INLINE(PMIX_TIMEVAL, "TIMEVAL", struct timeval, timeval),
    PLAIN(PMIX_TIME, "TIME", 8, time, n8),
    PLAIN(PMIX_STATUS, "STATUS", 4, status, n4),
    PLAIN(PMIX_PERSIST, "PERSIST", 1, code, n1),
    PLAIN(PMIX_POINTER, "POINTER", 8, n8, n8),
    PLAIN(PMIX_SCOPE, "SCOPE", 1, code, n1),
    PLAIN(PMIX_DATA_RANGE, "DATA_RANGE", 1, code, n1),
    PLAIN(PMIX_PROC_STATE, "PROC_STATE", 1, code, n1),
    PLAIN(PMIX_PROC_RANK, "PROC_RANK", 4, rank, n4),
    PLAIN(PMIX_ALLOC_DIRECTIVE, "ALLOC_DIRECTIVE", 1, code, n1),
    PLAIN(PMIX_JOB_STATE, "JOB_STATE", 1, code, n1),
    PLAIN(PMIX_LINK_STATE, "LINK_STATE", 1, code, n1),
    PLAIN(PMIX_DEVTYPE, "DEVTYPE", 8, mask, n8),
    PLAIN(PMIX_LOCTYPE, "LOCTYPE", 2, n2, n2),
    PLAIN(PMIX_STOR_MEDIUM, "STOR_MEDIUM", 8, mask, n8),
    PLAIN(PMIX_STOR_ACCESS, "STOR_ACCESS", 8, mask, n8),
    PLAIN(PMIX_STOR_PERSIST, "STOR_PERSIST", 8, mask, n8),
    PLAIN(PMIX_STOR_ACCESS_TYPE, "STOR_ACCESS_TYPE", 2, n2, n2),
    PLAIN(PMIX_RESBLOCK_DIRECTIVE, "RESBLOCK_DIRECTIVE", 1, code, n1),
    PLAIN(PMIX_ALLOC_INHERIT, "ALLOC_INHERIT", 1, code, n1),
    INLINE(PMIX_BYTE_OBJECT, "BYTE_OBJECT", pmix_byte_object_t, bo),
    { PMIX_COMPRESSED_STRING, "COMPRESSED_STRING", 16, fill_compressed, show_bo, discard_bo, INSIDE },
    { PMIX_COMPRESSED_BYTE_OBJECT, "COMPRESSED_BYTE_OBJECT", 16, fill_compressed, show_bo, discard_bo, INSIDE },
    { PMIX_REGEX, "REGEX", 16, fill_regex, show_bo, discard_bo, INSIDE },
    INLINE(PMIX_ENVAR, "ENVAR", pmix_envar_t, envar),
    POINTER(PMIX_PROC, "PROC", pmix_proc_t, proc),
    POINTER(PMIX_PROC_NSPACE, "PROC_NSPACE", pmix_nspace_t, nspace),
    POINTER(PMIX_PROC_INFO, "PROC_INFO", pmix_proc_info_t, pinfo),
    POINTER(PMIX_DATA_ARRAY, "DATA_ARRAY", pmix_data_array_t, darray),
    POINTER(PMIX_COORD, "COORD", pmix_coord_t, coord),
    POINTER(PMIX_REGATTR, "REGATTR", pmix_regattr_t, regattr),
    POINTER(PMIX_GEOMETRY, "GEOMETRY", pmix_geometry_t, geometry),
    POINTER(PMIX_DEVICE_DIST, "DEVICE_DIST", pmix_device_distance_t, devdist),
    POINTER(PMIX_ENDPOINT, "ENDPOINT", pmix_endpoint_t, endpoint),
    POINTER(PMIX_PROC_CPUSET, "PROC_CPUSET", pmix_cpuset_t, cpuset),
    POINTER(PMIX_PROC_STATS, "PROC_STATS", pmix_proc_stats_t, pstats),
    POINTER(PMIX_DISK_STATS, "DISK_STATS", pmix_disk_stats_t, dkstats),
    POINTER(PMIX_NET_STATS, "NET_STATS", pmix_net_stats_t, netstats),
    POINTER(PMIX_NODE_STATS, "NODE_STATS", pmix_node_stats_t, ndstats),
    POINTER(PMIX_DATA_BUFFER, "DATA_BUFFER", pmix_data_buffer_t, dbuf),
    POINTER(PMIX_DEVICE, "DEVICE", pmix_device_t, device),
    POINTER(PMIX_RESOURCE_UNIT, "RESOURCE_UNIT", pmix_resource_unit_t, unit),
    POINTER(PMIX_NODE_PID, "NODE_PID", pmix_node_pid_t, nodepid),
    POINTER(PMIX_REGEX2, "REGEX2", pmix_regex2_t, regex2),
    /* Types that a value cannot hold. */
    { PMIX_INFO_DIRECTIVES, "INFO_DIRECTIVES", 4, fill_flags, show_n4, discard_nothing, NOWHERE },
    { PMIX_DATA_TYPE, "DATA_TYPE", 2, fill_type, show_n2, discard_nothing, NOWHERE },
    { PMIX_IOF_CHANNEL, "IOF_CHANNEL", 2, fill_n2, show_n2, discard_nothing, NOWHERE },
    ELEMENT(PMIX_VALUE, "VALUE", pmix_value_t, value),
    ELEMENT(PMIX_INFO, "INFO", pmix_info_t, info),
    ELEMENT(PMIX_PDATA, "PDATA", pmix_pdata_t, pdata),
    ELEMENT(PMIX_APP, "APP", pmix_app_t, app),
    ELEMENT(PMIX_QUERY, "QUERY", pmix_query_t, query),
};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

static const type_t *type_of(pmix_data_type_t code)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].code == code) {
            return &types[i];
        }
    }
    return NULL;
}

static const type_t *any_type(void) { return &types[below(TYPE_COUNT)]; }

/* A type that a value can hold. */
static const type_t *any_held_type(void)
{
    const type_t *type;
    do {
        type = any_type();
    } while (type->held == NOWHERE);
    return type;
}

/* A data array is of one type, which may be one of arrays. */
FILL(darray)
{
    pmix_data_array_t *array = object;
    const type_t *type = any_type();
    is_made[type->code] = true;
    array->type = type->code;
    array->array = any_array(type->code, &array->size, depth);
}

static void fill_value_of(pmix_value_t *value, const type_t *type, int depth)
{
    memset(value, 0, sizeof(*value));
    value->type = type->code;
    if (type->held == INSIDE) {
        fill(type, &value->data, depth);
    } else {
        value->data.ptr = need(calloc(1, type->size));
        fill(type, value->data.ptr, depth - 1);
    }
}
FILL(value)
{
    if (depth <= 0 || one_in(20)) {
        fill_value_of(object, type_of(one_in(2) ? PMIX_STRING : PMIX_UINT32), 0);
    } else {
        fill_value_of(object, any_held_type(), depth);
    }
}
SHOW(value)
{
    const pmix_value_t *value = object;
    const type_t *type = type_of(value->type);
    if (type == NULL || type->held == NOWHERE) {
        put("<%u>", value->type);
        return;
    }
    put("<%s ", type->name);
    if (type->held == INSIDE) {
        type->show(&value->data);
    } else if (value->data.ptr == NULL) {
        put("NULL");
    } else {
        type->show(value->data.ptr);
    }
    put(">");
}
DISCARD(value)
{
    pmix_value_t *value = object;
    const type_t *type = type_of(value->type);
    if (type == NULL || type->held == NOWHERE) {
        return;
    }
    if (type->held == INSIDE) {
        type->discard(&value->data);
    } else if (value->data.ptr != NULL) {
        type->discard(value->data.ptr);
        free(value->data.ptr);
    }
}

#endif
