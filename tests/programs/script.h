/* The scripts of test programs: words, texts, values, infos; parsed from lines, and printed in the same form.
 *
 * Words are separated by blanks. In names and texts every byte but letters, digits and "._-" is %XX; "-" alone is NULL. Infos are
 * written one after the other, "KEY TYPE VALUE", with the types of the table below; an array of infos is "KEY ( INFOS )", one of
 * anything else "KEY array TYPE COUNT VALUE VALUE ...". A process is "NSPACE RANK", a distance "UUID NAME MIN MAX". A program that includes
 * this file defines its name as PROGRAM.
 */
#ifndef PMIX_TEST_SCRIPT_H
#define PMIX_TEST_SCRIPT_H

#include "common.h"

#include <pmix_server.h>

__attribute__((noreturn)) static void fail(const char *what, const char *detail)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", what, detail);
    _exit(71);
}

/* ---- words --------------------------------------------------------------------------------------------------- */

static char *rest; /* of the line being read */

static char *next_line(void)
{
    static char *line;
    static size_t room;
    ssize_t len = getline(&line, &room, stdin);
    if (len <= 0) {
        return NULL;
    }
    line[strcspn(line, "\n")] = '\0';
    rest = line;
    return line;
}

static char *next_word(void)
{
    while (*rest == ' ') {
        rest++;
    }
    char *word = rest;
    while (*rest != ' ' && *rest != '\0') {
        rest++;
    }
    if (*rest == ' ') {
        *rest++ = '\0';
    }
    return word;
}

/* Takes a word; undoes its %XX in place. NULL for "-". The length is that without the NUL that follows. */
static char *next_text(size_t *len)
{
    char *word = next_word(), *to = word;
    if (strcmp(word, "-") == 0) {
        return NULL;
    }
    for (const char *from = word; *from != '\0';) {
        if (*from == '%') {
            char digits[3] = { from[1], from[2], '\0' };
            *to++ = (char) strtol(digits, NULL, 16);
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    if (len != NULL) {
        *len = to - word;
    }
    return word;
}

static void print_bytes(const char *bytes, size_t len, bool all)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = bytes[i];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                     byte == '.' || byte == '_' || byte == '-';
        if (plain && !all) {
            putchar(byte);
        } else {
            printf("%%%02X", byte);
        }
    }
}

static void print_text(const char *text)
{
    if (text == NULL) {
        printf("NULL");
    } else {
        print_bytes(text, strlen(text), false);
    }
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static infos_t next_infos(void);

/* A type by its name in scripts; size is that of an item of an array. */
typedef struct {
    const char *name;
    pmix_data_type_t type;
    size_t size;
} kind_t;

static const kind_t kinds[] = {
    { "undef", PMIX_UNDEF, 0 },
    { "bool", PMIX_BOOL, sizeof(bool) },
    { "string", PMIX_STRING, sizeof(char *) },
    { "size", PMIX_SIZE, sizeof(size_t) },
    { "pid", PMIX_PID, sizeof(pid_t) },
    { "int", PMIX_INT, sizeof(int) },
    { "uint16", PMIX_UINT16, sizeof(uint16_t) },
    { "uint32", PMIX_UINT32, sizeof(uint32_t) },
    { "uint64", PMIX_UINT64, sizeof(uint64_t) },
    { "float", PMIX_FLOAT, sizeof(float) },
    { "time", PMIX_TIME, sizeof(time_t) },
    { "status", PMIX_STATUS, sizeof(pmix_status_t) },
    { "range", PMIX_DATA_RANGE, sizeof(pmix_data_range_t) },
    { "persistence", PMIX_PERSIST, sizeof(pmix_persistence_t) },
    { "rank", PMIX_PROC_RANK, sizeof(pmix_rank_t) },
    { "proc", PMIX_PROC, sizeof(pmix_proc_t) },
    { "regex", PMIX_REGEX, sizeof(pmix_byte_object_t) },
    { "bytes", PMIX_BYTE_OBJECT, sizeof(pmix_byte_object_t) },
    { "cpuset", PMIX_PROC_CPUSET, sizeof(pmix_cpuset_t) },
    { "distance", PMIX_DEVICE_DIST, sizeof(pmix_device_distance_t) },
};

static const kind_t *kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    fail("no such type", name);
}

static long long next_number(void) { return strtoll(next_word(), NULL, 10); }

static char *next_copy(void)
{
    const char *text = next_text(NULL);
    return text == NULL ? NULL : copy_text(text);
}

/* Parses one item of an array, or the item behind the pointer of a value. */
static void next_item(const kind_t *kind, void *item)
{
    switch (kind->type) {
    case PMIX_BOOL: *(bool *) item = next_number() != 0; break;
    case PMIX_STRING: *(char **) item = next_copy(); break;
    case PMIX_FLOAT: *(float *) item = strtof(next_word(), NULL); break;
    case PMIX_PROC: {
        const char *nspace = next_text(NULL);
        *(pmix_proc_t *) item = proc_of(nspace, next_number());
        break;
    }
    case PMIX_REGEX:
    case PMIX_BYTE_OBJECT: {
        size_t len = 0;
        const char *bytes = next_text(&len);
        *(pmix_byte_object_t *) item = value_bytes(bytes == NULL ? "" : bytes, len).data.bo;
        break;
    }
    case PMIX_PROC_CPUSET: {
        const char *text = next_text(NULL);
        pmix_status_t status = PMIx_Parse_cpuset_string(text, item);
        if (status != PMIX_SUCCESS) {
            fail(text, PMIx_Error_string(status));
        }
        break;
    }
    case PMIX_DEVICE_DIST: {
        pmix_device_distance_t *distance = item;
        *distance = (pmix_device_distance_t){ .type = PMIX_DEVTYPE_NETWORK };
        distance->uuid = next_copy();
        distance->osname = next_copy();
        distance->mindist = next_number();
        distance->maxdist = next_number();
        break;
    }
    default: {
        long long number = next_number();
        /* The numbers are as wide as the type says, and the lowest byte comes first. */
        memcpy(item, &number, kind->size);
        break;
    }
    }
}

/* Whether a value of the type holds a pointer to the item. */
static bool is_behind_pointer(pmix_data_type_t type)
{
    return type == PMIX_PROC || type == PMIX_PROC_CPUSET;
}

static pmix_value_t next_array(void)
{
    const kind_t *kind = kind_named(next_word());
    pmix_data_array_t *array = need(calloc(1, sizeof(*array)));
    array->type = kind->type;
    array->size = next_number();
    array->array = need(calloc(array->size, kind->size));
    for (size_t i = 0; i < array->size; i++) {
        next_item(kind, (char *) array->array + i * kind->size);
    }
    pmix_value_t value = { .type = PMIX_DATA_ARRAY };
    value.data.darray = array;
    return value;
}

static pmix_value_t next_value(void)
{
    const char *type = next_word();
    if (strcmp(type, "(") == 0) {
        infos_t inner = next_infos();
        return value_infos(&inner);
    }
    if (strcmp(type, "array") == 0) {
        return next_array();
    }
    const kind_t *kind = kind_named(type);
    pmix_value_t value = { .type = kind->type };
    void *item = &value.data;
    if (is_behind_pointer(kind->type)) {
        item = value.data.ptr = need(calloc(1, kind->size));
    }
    next_item(kind, item);
    return value;
}

static infos_t next_infos(void)
{
    infos_t infos = { 0 };
    for (;;) {
        char *key = next_text(NULL);
        if (key == NULL || *key == '\0' || strcmp(key, ")") == 0) {
            return infos;
        }
        bool qualifies = *key == '~';
        add(&infos, key + qualifies, next_value());
        infos.items[infos.count - 1].flags = qualifies ? PMIX_INFO_QUALIFIER : 0;
    }
}

static void print_value(const pmix_value_t *value);

static int by_key(const void *a, const void *b)
{
    return strcmp(((const pmix_info_t *) a)->key, ((const pmix_info_t *) b)->key);
}

static void print_infos(pmix_info_t *infos, size_t count)
{
    qsort(infos, count, sizeof(*infos), by_key);
    printf("(");
    for (size_t i = 0; i < count; i++) {
        printf(" ");
        print_text(infos[i].key);
        printf(" ");
        print_value(&infos[i].value);
    }
    printf(" )");
}

static void print_item(pmix_data_type_t type, const void *item)
{
    switch (type) {
    case PMIX_BOOL: printf("%d", *(const bool *) item); break;
    case PMIX_STRING: print_text(*(char *const *) item); break;
    case PMIX_SIZE: printf("%zu", *(const size_t *) item); break;
    case PMIX_INT:
    case PMIX_PID:
    case PMIX_STATUS: printf("%d", *(const int *) item); break;
    case PMIX_UINT16: printf("%u", *(const uint16_t *) item); break;
    case PMIX_UINT32:
    case PMIX_PROC_RANK: printf("%u", *(const uint32_t *) item); break;
    case PMIX_UINT64: printf("%lu", *(const uint64_t *) item); break;
    case PMIX_FLOAT: printf("%g", *(const float *) item); break;
    case PMIX_TIME: printf("%ld", *(const time_t *) item); break;
    case PMIX_DATA_RANGE:
    case PMIX_PERSIST: printf("%u", *(const uint8_t *) item); break;
    case PMIX_PROC: {
        const pmix_proc_t *proc = item;
        print_text(proc->nspace);
        printf(" %u", proc->rank);
        break;
    }
    case PMIX_REGEX:
    case PMIX_BYTE_OBJECT: {
        const pmix_byte_object_t *object = item;
        print_bytes(object->bytes, object->size, false);
        break;
    }
    case PMIX_PROC_CPUSET: {
        char *text = NULL;
        pmix_status_t status = PMIx_server_generate_cpuset_string(item, &text);
        print_text(status == PMIX_SUCCESS ? text : PMIx_Error_string(status));
        free(text);
        break;
    }
    case PMIX_DEVICE_DIST: {
        const pmix_device_distance_t *distance = item;
        print_text(distance->uuid);
        printf(" ");
        print_text(distance->osname);
        printf(" %u %u", distance->mindist, distance->maxdist);
        break;
    }
    default: break;
    }
}

static void print_array(const pmix_data_array_t *array)
{
    if (array != NULL && array->type == PMIX_INFO) {
        print_infos(array->array, array->size);
        return;
    }
    const pmix_regattr_t *attributes = array == NULL ? NULL : array->array;
    if (array != NULL && array->type == PMIX_REGATTR) {
        printf("attributes");
        for (size_t i = 0; i < array->size; i++) {
            printf(" %s %s %d", attributes[i].name, attributes[i].string, attributes[i].type);
        }
        return;
    }
    for (size_t k = 0; array != NULL && k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (kinds[k].type == array->type) {
            printf("array %s %zu", kinds[k].name, array->size);
            for (size_t i = 0; i < array->size; i++) {
                printf(" ");
                print_item(array->type, (const char *) array->array + i * kinds[k].size);
            }
            return;
        }
    }
    printf("array of type %d", array == NULL ? 0 : array->type);
}

static void print_value(const pmix_value_t *value)
{
    if (value->type == PMIX_DATA_ARRAY) {
        print_array(value->data.darray);
        return;
    }
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (kinds[k].type == value->type) {
            printf(value->type == PMIX_UNDEF ? "%s" : "%s ", kinds[k].name);
            print_item(value->type, is_behind_pointer(value->type) ? value->data.ptr : (const void *) &value->data);
            return;
        }
    }
    printf("type %d", value->type);
}

/* ---- a rank ----------------------------------------------------------------------------------------------------- */

/* Main function of a rank that executes its script line by line. */
static int run_script(void (*line)(const char *what))
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fail("PMIx_Init", PMIx_Error_string(status));
    }
    while (next_line() != NULL) {
        line(next_word());
    }
    fflush(stdout);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}

#endif
