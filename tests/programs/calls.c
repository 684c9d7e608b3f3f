/* Calls of the library's functions that need no peer, and their results, a line for each call or few: two libraries with the same
 * lines behave alike.
 *
 *   calls fixed                        every type, every code, edge values
 *   calls generated SEED FIRST COUNT   calls with arguments that a seed and the number of the case determine
 *   calls null                         NULL for each required pointer in turn, as a host;
 *                                      functions without a status: for each pointer. ANSWERS is "success", "error", "returned"
 *   calls before                       every function that needs an initialised library, before PMIx_Init; ANSWERS is the
 *                                      status, or "returned"
 *   calls after                        the same after PMIx_Finalize
 *
 * The first line is the library's version. Others are "NUMBER WHAT [MADE]: ANSWERS", where MADE lists those
 * arguments that libraries are known to treat differently, as names of types without PMIX_. ANSWERS is "crash" where the
 * library crashed, "hang" where the call did not return, and
 * "absent NAME" where it lacks a function. Cases run in children; after a crash a new child continues with the next case;
 * with CALLS_ALONE=1 in the environment all run in one process, which frees everything at its end.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <pmix_server.h>

#include "objects.h"
#include "shapes.h"

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* State of the current case, in memory shared with the parent. */
typedef struct {
    uint64_t number;
    char what[200];
} place_t;

static place_t *place;
static uint64_t first_case, next_case;
static jmp_buf absent;
static const unsigned hang_seconds = 10;

static void *library;

static void *function(const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        said_len = 0;
        put("absent %s", name);
        longjmp(absent, 1);
    }
    return found;
}

/* A function of the library, which need not have it. */
#define LIB(name) ((__typeof__(PMIx_##name) *) function("PMIx_" #name))

/* Types that MADE names. */
static const pmix_data_type_t notable[] = {
    PMIX_POINTER, PMIX_DATA_RANGE, PMIX_DATA_TYPE, PMIX_DOUBLE, PMIX_TIMEVAL, PMIX_STATUS, PMIX_INFO, PMIX_APP, PMIX_QUERY,
    PMIX_REGATTR, PMIX_REGEX, PMIX_PROC_INFO, PMIX_BYTE_OBJECT, PMIX_COMPRESSED_STRING, PMIX_COMPRESSED_BYTE_OBJECT,
    PMIX_DEVTYPE, PMIX_DATA_BUFFER, PMIX_PROC_STATS, PMIX_DISK_STATS, PMIX_NET_STATS, PMIX_NODE_STATS, PMIX_DEVICE,
    PMIX_RESBLOCK_DIRECTIVE, PMIX_RESOURCE_UNIT, PMIX_NODE_PID, PMIX_REGEX2, PMIX_ALLOC_INHERIT, PMIX_DATA_ARRAY,
    PMIX_PROC_CPUSET,
};

static void print_case(const char *answers)
{
    printf("%" PRIu64 " %s [%s", place->number, place->what, is_inexact ? "inexact " : "");
    for (size_t i = 0; i < sizeof(notable) / sizeof(notable[0]); i++) {
        if (is_made[notable[i]]) {
            printf("%s ", type_of(notable[i])->name);
        }
    }
    printf("]: %s\n", answers);
    fflush(stdout);
}

typedef void (*body_t)(intptr_t a, intptr_t b);

__attribute__((format(printf, 4, 5))) static void check(body_t body, intptr_t a, intptr_t b, const char *format, ...)
{
    uint64_t number = next_case++;
    if (number < first_case) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(place->what, sizeof(place->what), format, args);
    va_end(args);
    place->number = number;
    said_len = 0;
    said[0] = '\0';
    is_inexact = false;
    is_for_packing = false;
    memset(is_made, 0, sizeof(is_made));
    alarm(hang_seconds);
    if (setjmp(absent) == 0) {
        body(a, b);
    }
    print_case(said);
    alarm(hang_seconds);
}

/* Forwards the lines of a child until it ends. Returns the number of the last line, or `first` - 1. */
static uint64_t pass_on(int from, uint64_t first)
{
    FILE *lines = need(fdopen(from, "r"));
    char *line = NULL;
    size_t room = 0;
    uint64_t last = first - 1;
    for (ssize_t len; (len = getline(&line, &room, lines)) > 0;) {
        /* A line without an end is of a case that has none either. */
        if (line[len - 1] == '\n') {
            last = strtoull(line, NULL, 10);
            fputs(line, stdout);
        }
    }
    free(line);
    fclose(lines);
    return last;
}

/* Runs all cases from `first` on, in as many children as needed. A crash after a case has reported, in another thread for example,
 * is not an answer: a child may end between two cases, and the next child continues after the last reported case. */
static void run_all(void (*cases)(void), uint64_t first)
{
    const int early_end_count_max = 3;
    int early_end_count = 0;
    for (bool is_done = false; !is_done;) {
        int ends[2];
        fflush(stdout);
        place->number = first - 1;
        if (pipe(ends) != 0) {
            abort();
        }
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
            first_case = first;
            /* Stock servers lock themselves up now and then, before the first case and behind the last. */
            alarm(hang_seconds);
            cases();
            _exit(0);
        }
        close(ends[1]);
        uint64_t told = pass_on(ends[0], first);
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        is_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!is_done && place->number == first - 1) {
            fprintf(stderr, "a child ended with %d before its first case\n", status);
            if (++early_end_count > early_end_count_max) {
                exit(1);
            }
            continue;
        }
        if (!is_done && place->number != told) {
            is_inexact = false;
            memset(is_made, 0, sizeof(is_made));
            print_case(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hang" : "crash");
        }
        first = place->number + 1;
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static void put_buffer(const pmix_data_buffer_t *buffer)
{
    put(" %zu:", buffer->bytes_used);
    put_bytes(buffer->bytes_used == 0 ? "" : buffer->base_ptr, buffer->bytes_used);
    put(" at %zd,%zd", buffer->pack_ptr - buffer->base_ptr, buffer->unpack_ptr - buffer->base_ptr);
}

static void pack_objects(const type_t *type, pmix_data_buffer_t *buffer, char *items, int32_t count)
{
    put("%d", LIB(Data_pack)(NULL, buffer, items, count, type->code));
    put_buffer(buffer);
}

static void unpack_objects(const type_t *type, pmix_data_buffer_t *buffer, int32_t room)
{
    int32_t count = room;
    char *items = need(calloc((size_t) room + 1, type->size));
    pmix_status_t status = LIB(Data_unpack)(NULL, buffer, items, &count, type->code);
    put(" -> %d %d@%zd", status, count, buffer->unpack_ptr - buffer->base_ptr);
    for (int32_t i = 0; i < count && i < room && status == PMIX_SUCCESS; i++) {
        put(" ");
        type->show(items + (size_t) i * type->size);
    }
    for (int32_t i = 0; i < room; i++) {
        type->discard(items + (size_t) i * type->size);
    }
    free(items);
}

static char *filled(const type_t *type, size_t count, int depth)
{
    char *items = need(calloc(count + 1, type->size));
    for (size_t i = 0; i < count; i++) {
        fill(type, items + i * type->size, depth);
    }
    is_made[type->code] = true;
    return items;
}

static void discard_filled(const type_t *type, char *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        type->discard(items + i * type->size);
    }
    free(items);
}

static void body_pack(intptr_t of, intptr_t unused)
{
    const type_t *type = packed((const type_t *) of);
    int32_t count = one_in(3) ? (int32_t) below(5) : 1;
    pmix_data_buffer_t buffer = { 0 };
    (void) unused;
    is_for_packing = true;
    char *items = filled(type, (size_t) count, 3);
    pack_objects(type, &buffer, items, count);
    if (buffer.bytes_used > 0) {
        unpack_objects(type, &buffer, count + (int32_t) below(2));
    }
    discard_filled(type, items, (size_t) count);
    free(buffer.base_ptr);
}

/* Fewer places than there are objects. */
static void body_unpack_less(intptr_t of, intptr_t unused)
{
    const type_t *type = packed((const type_t *) of);
    int32_t count = 2 + (int32_t) below(3);
    pmix_data_buffer_t buffer = { 0 };
    (void) unused;
    is_for_packing = true;
    char *items = filled(type, (size_t) count, 2);
    if (LIB(Data_pack)(NULL, &buffer, items, count, type->code) == PMIX_SUCCESS) {
        unpack_objects(type, &buffer, (int32_t) below((uint64_t) count));
    }
    discard_filled(type, items, (size_t) count);
    free(buffer.base_ptr);
}

/* A buffer that ends too early. */
static void body_unpack_cut(intptr_t of, intptr_t unused)
{
    const type_t *type = packed((const type_t *) of);
    pmix_data_buffer_t buffer = { 0 };
    (void) unused;
    is_for_packing = true;
    char *items = filled(type, 1, 2);
    if (LIB(Data_pack)(NULL, &buffer, items, 1, type->code) == PMIX_SUCCESS && buffer.bytes_used > 1) {
        size_t len = below(buffer.bytes_used - 1);
        char *cut = need(malloc(len + 1));
        memcpy(cut, buffer.base_ptr, len);
        pmix_data_buffer_t short_one = { .base_ptr = cut, .unpack_ptr = cut, .pack_ptr = cut + len,
                                         .bytes_allocated = len, .bytes_used = len };
        char *room = need(calloc(1, type->size));
        int32_t one = 1;
        put("%d", LIB(Data_unpack)(NULL, &short_one, room, &one, type->code));
        type->discard(room);
        free(room);
        free(cut);
    }
    discard_filled(type, items, 1);
    free(buffer.base_ptr);
}

/* Several operations in one buffer, which goes through the functions that move buffers. */
static void body_sequence(intptr_t unused, intptr_t unused_too)
{
    const type_t *kinds[4];
    pmix_data_buffer_t buffer = { 0 }, other = { 0 };
    size_t count = 1 + below(4);
    (void) unused;
    (void) unused_too;
    is_for_packing = true;
    for (size_t i = 0; i < count; i++) {
        kinds[i] = packed(any_type());
        char *items = filled(kinds[i], 1, 2);
        put("%s ", kinds[i]->name);
        pmix_status_t status = LIB(Data_pack)(NULL, &buffer, items, 1, kinds[i]->code);
        discard_filled(kinds[i], items, 1);
        if (status != PMIX_SUCCESS) {
            put("%d", status);
            free(buffer.base_ptr);
            return;
        }
    }
    size_t begun = below(count);
    for (size_t i = 0; i < begun; i++) {
        unpack_objects(kinds[i], &buffer, 1);
    }
    pmix_byte_object_t bytes = { 0 };
    switch (below(6)) {
    case 0:
        put(" copy %d", LIB(Data_copy_payload)(&other, &buffer));
        put_buffer(&other);
        put_buffer(&buffer);
        break;
    case 1:
        put(" unload %d", LIB(Data_unload)(&buffer, &bytes));
        show_bo(&bytes);
        put_buffer(&buffer);
        put(" load %d", LIB(Data_load)(&other, &bytes));
        put_buffer(&other);
        put("%s %zu", bytes.bytes == NULL ? "" : " kept", bytes.size);
        break;
    case 2:
        bytes = (pmix_byte_object_t) { .bytes = buffer.base_ptr, .size = buffer.bytes_used };
        put(" embed %d", LIB(Data_embed)(&other, &bytes));
        put_buffer(&other);
        begun = 0;
        bytes = (pmix_byte_object_t) { 0 };
        break;
    case 3: {
        char *at = NULL;
        size_t size = 0;
        LIB(Data_buffer_unload)(&buffer, &at, &size);
        put(" %zu:", size);
        put_bytes(size == 0 ? "" : at, size);
        put_buffer(&buffer);
        LIB(Data_buffer_load)(&other, at, size);
        put_buffer(&other);
        break;
    }
    default:
        other = buffer;
        buffer = (pmix_data_buffer_t) { 0 };
    }
    for (size_t i = begun; i < count; i++) {
        unpack_objects(kinds[i], &other, 1);
    }
    free(bytes.bytes);
    free(buffer.base_ptr);
    free(other.base_ptr);
}

/* ---- single objects ---------------------------------------------------------------------------------------------- */

/* Texts and maps: the pointer itself is copied, printed and loaded. */
static const void *itself(const type_t *type, void *item)
{
    return type->code == PMIX_STRING || type->code == PMIX_REGEX ? *(void **) item : item;
}

/* Loading also takes a pointer itself, not its address. */
static const void *loaded_from(const type_t *type, void *item)
{
    return type->code == PMIX_POINTER ? *(void **) item : itself(type, item);
}

static void body_copy(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    char *item = filled(type, 1, 3);
    void *copy = NULL;
    (void) unused;
    pmix_status_t status = LIB(Data_copy)(&copy, (void *) itself(type, item), type->code);
    put("%d ", status);
    if (copy == NULL || status != PMIX_SUCCESS) {
        put(copy == NULL ? "NULL" : "something");
    } else if (type->code == PMIX_STRING || type->code == PMIX_REGEX) {
        put_text(copy);
        free(copy);
    } else {
        type->show(copy);
        type->discard(copy);
        free(copy);
    }
    discard_filled(type, item, 1);
}

static void body_print(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    char *item = filled(type, 1, 2), *text = NULL;
    (void) unused;
    const char *prefix = one_in(2) ? NULL : "  -- ";
    put("%d ", LIB(Data_print)(&text, (char *) prefix, (void *) itself(type, item), type->code));
    put_text(text);
    free(text);
    discard_filled(type, item, 1);
}

/* ---- values and infos -------------------------------------------------------------------------------------------- */

static void body_xfer(intptr_t of, intptr_t unused)
{
    pmix_value_t value, other;
    memset(&other, 0, sizeof(other));
    (void) unused;
    fill_value_of(&value, (const type_t *) of, 3);
    put("%d ", LIB(Value_xfer)(&other, &value));
    show_value(&other);
    put(" %d", LIB(Value_compare)(&value, &other));
    discard_value(&value);
    discard_value(&other);
}

static void body_value_size(intptr_t of, intptr_t unused)
{
    pmix_value_t value;
    size_t size = 0;
    (void) unused;
    fill_value_of(&value, (const type_t *) of, 3);
    put("%d", LIB(Value_get_size)(&value, &size));
    put(" %zu", size);
    discard_value(&value);
}

static void body_compare(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    pmix_value_t one, other;
    (void) unused;
    fill_value_of(&one, type, 2);
    fill_value_of(&other, one_in(6) ? any_held_type() : type, 2);
    put("%d %d", LIB(Value_compare)(&one, &other), LIB(Value_compare)(&other, &one));
    discard_value(&one);
    discard_value(&other);
}

static void body_number(intptr_t of, intptr_t to)
{
    const type_t *target = (const type_t *) to;
    pmix_value_t value;
    char *room = need(calloc(1, 64));
    fill_value_of(&value, (const type_t *) of, 1);
    pmix_status_t status = LIB(Value_get_number)(&value, room, target->code);
    put("%d ", status);
    if (status == PMIX_SUCCESS) {
        target->show(room);
    }
    free(room);
    discard_value(&value);
}

static void body_truth(intptr_t unused, intptr_t unused_too)
{
    static const char *const words[] = { "yes", "no", "true", "FALSE", "T", "f", "y", "N", "1", "0", " 00", "10", "-1",
                                         "none", "enable", "Disabled", "maybe", "", " ", "truely", "yess" };
    pmix_info_t info = { .flags = 0 };
    (void) unused;
    (void) unused_too;
    if (one_in(2)) {
        fill_value_of(&info.value, type_of(PMIX_STRING), 1);
        free(info.value.data.string);
        info.value.data.string = copy_text(words[below(sizeof(words) / sizeof(words[0]))]);
        put_text(info.value.data.string);
    } else {
        fill_value_of(&info.value, any_held_type(), 1);
        show_value(&info.value);
    }
    put(" %d", LIB(Value_true)(&info.value));
    put(" %d", LIB(Info_true)(&info));
    discard_value(&info.value);
}

static void body_value_text(intptr_t of, intptr_t unused)
{
    pmix_value_t value;
    (void) unused;
    fill_value_of(&value, (const type_t *) of, 2);
    char *text = LIB(Value_string)(&value);
    put_text(text);
    free(text);
    discard_value(&value);
}

static void body_info_text(intptr_t of, intptr_t unused)
{
    pmix_info_t info = { .flags = 0 };
    (void) unused;
    any_name(info.key, sizeof(info.key));
    fill_flags(&info.flags, 0);
    fill_value_of(&info.value, (const type_t *) of, 2);
    char *text = LIB(Info_string)(&info);
    put_text(text);
    free(text);
    discard_value(&info.value);
}

/* The result of `PMIx_Value_unload` for a value of a type. */
static void unload_value(const type_t *type, pmix_value_t *value)
{
    void *room = need(calloc(1, 1024)), *data = room;
    size_t size = 0;
    pmix_status_t status = LIB(Value_unload)(value, &data, &size);
    put(" unload %d %zu ", status, size);
    bool is_bytes = type->show == show_bo && type->held == INSIDE;
    if (status != PMIX_SUCCESS) {
        data = room;
    } else if (type->code == PMIX_STRING) {
        put_text(data == room ? "unchanged" : data);
    } else if (is_bytes) {
        put_bytes(data, size);
    } else if (data == NULL) {
        put("NULL");
    } else if (type->code == PMIX_POINTER) {
        put("%p", data);
    } else {
        type->show(data);
    }
    if (data != room && !is_bytes && type->code != PMIX_POINTER) {
        if (type->code != PMIX_STRING) {
            type->discard(data);
        }
        free(data);
    }
    free(room);
}

static void body_load(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    char *item = filled(type, 1, 3);
    pmix_value_t value;
    (void) unused;
    memset(&value, 0xa5, sizeof(value));
    const void *source = loaded_from(type, item);
    pmix_status_t status = LIB(Value_load)(&value, source, type->code);
    put("%d ", status);
    if (status == PMIX_SUCCESS && type->held != NOWHERE) {
        show_value(&value);
        unload_value(type, &value);
        discard_value(&value);
    }
    discard_filled(type, item, 1);
}

static void body_destruct(intptr_t of, intptr_t unused)
{
    pmix_value_t value;
    (void) unused;
    fill_value_of(&value, (const type_t *) of, 3);
    LIB(Value_destruct)(&value);
    put("%u", value.type);
    LIB(Value_destruct)(&value);
    put(" %u", value.type);
}

static void body_info(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    char *item = filled(type, 1, 2);
    pmix_info_t info, other;
    pmix_key_t key;
    (void) unused;
    any_name(key, sizeof(key));
    memset(&info, 0xa5, sizeof(info));
    memset(&other, 0, sizeof(other));
    const void *source = loaded_from(type, item);
    pmix_status_t status = LIB(Info_load)(&info, key, source, type->code);
    put("%d ", status);
    if (status == PMIX_SUCCESS) {
        show_info(&info);
        fill_flags(&info.flags, 0);
        put(" %d ", LIB(Info_xfer)(&other, &info));
        show_info(&other);
        discard_info(&info);
        discard_info(&other);
    }
    discard_filled(type, item, 1);
}

static void body_info_size(intptr_t of, intptr_t unused)
{
    pmix_info_t info;
    size_t size = 0;
    (void) unused;
    any_name(info.key, sizeof(info.key));
    info.flags = 0;
    fill_value_of(&info.value, (const type_t *) of, 2);
    put("%d", LIB(Info_get_size)(&info, &size));
    put(" %zu", size);
    discard_info(&info);
}

static void body_flags(intptr_t unused, intptr_t unused_too)
{
    pmix_info_t info = { .flags = 0 };
    (void) unused;
    (void) unused_too;
    for (int i = 0; i < 4; i++) {
        switch (below(6)) {
        case 0: LIB(Info_required)(&info); break;
        case 1: LIB(Info_optional)(&info); break;
        case 2: LIB(Info_processed)(&info); break;
        case 3: LIB(Info_set_end)(&info); break;
        case 4: LIB(Info_qualifier)(&info); break;
        default: LIB(Info_persistent)(&info);
        }
        put("%x %d%d%d%d%d%d ", info.flags, LIB(Info_is_required)(&info), LIB(Info_is_optional)(&info),
            LIB(Info_was_processed)(&info), LIB(Info_is_end)(&info), LIB(Info_is_qualifier)(&info),
            LIB(Info_is_persistent)(&info));
    }
    char *text = LIB(Info_directives_string)(info.flags);
    put_text(text);
    free(text);
}

static void body_info_list(intptr_t unused, intptr_t unused_too)
{
    static const char *const keys[] = { "a", "b", "pmix.c" };
    void *list = LIB(Info_list_start)();
    (void) unused;
    (void) unused_too;
    for (size_t i = below(6); i > 0; i--) {
        const char *key = keys[below(3)];
        pmix_info_t info = { .flags = 0 };
        fill(type_of(PMIX_VALUE), &info.value, 2);
        strcpy(info.key, key);
        fill_flags(&info.flags, 0);
        uint32_t number = (uint32_t) any_number();
        bool overwrite = one_in(2);
        pmix_status_t status;
        switch (below(8)) {
        case 0: status = LIB(Info_list_add)(list, key, &number, PMIX_UINT32); break;
        case 1: status = LIB(Info_list_add)(list, key, "text", PMIX_STRING); break;
        case 2: status = LIB(Info_list_xfer)(list, &info); break;
        case 3: status = LIB(Info_list_prepend)(list, key, &number, PMIX_UINT32); break;
        case 4: status = LIB(Info_list_add_unique)(list, key, &number, PMIX_UINT32, overwrite); break;
        case 5: status = LIB(Info_list_add_value)(list, key, &info.value); break;
        case 6: status = LIB(Info_list_add_value_unique)(list, key, &info.value, overwrite); break;
        default: status = LIB(Info_list_xfer_unique)(list, &info, overwrite);
        }
        put("%d ", status);
        discard_info(&info);
    }
    pmix_data_array_t array = { 0 };
    pmix_status_t status = LIB(Info_list_convert)(list, &array);
    put("= %d ", status);
    if (status == PMIX_SUCCESS) {
        show_darray(&array);
        discard_darray(&array);
    }
    LIB(Info_list_release)(list);
}

/* ---- lists of strings, names, environments ----------------------------------------------------------------------- */

static void body_argv(intptr_t unused, intptr_t unused_too)
{
    static const char delimiters[] = ",;: ab";
    char **list = NULL, *text;
    int delimiter = delimiters[below(sizeof(delimiters) - 1)];
    (void) unused;
    (void) unused_too;
    for (size_t i = 1 + below(4); i > 0; i--) {
        text = some_text();
        switch (below(8)) {
        case 0: case 1: put("%d ", LIB(Argv_append_nosize)(&list, text)); break;
        case 2: put("%d ", LIB(Argv_prepend_nosize)(&list, text)); break;
        case 3: put("%d ", LIB(Argv_append_unique_nosize)(&list, list != NULL ? list[0] : text)); break;
        case 4: discard_list(list); list = LIB(Argv_split)(text, delimiter); break;
        case 5: discard_list(list); list = LIB(Argv_split_with_empty)(text, delimiter); break;
        case 6: discard_list(list); list = LIB(Argv_split_inter)(text, delimiter, one_in(2)); break;
        default: {
            char **copy = LIB(Argv_copy)(list);
            discard_list(list);
            list = copy;
        }
        }
        free(text);
        put_list(list);
        put(" %d ", LIB(Argv_count)(list));
    }
    text = LIB(Argv_join)(list, delimiter);
    put_text(text);
    free(text);
    LIB(Argv_free)(list);
}

static void body_setenv(intptr_t unused, intptr_t unused_too)
{
    static const char *const names[] = { "A", "AB", "B", "", "A=B" };
    char **env = NULL;
    (void) unused;
    (void) unused_too;
    for (size_t i = 1 + below(5); i > 0; i--) {
        char *text = any_text();
        put("%d ", LIB(Setenv)(names[below(one_in(9) ? 5 : 3)], text, one_in(2), &env));
        free(text);
    }
    put_list(env);
    discard_list(env);
}

static void body_names(intptr_t unused, intptr_t unused_too)
{
    pmix_nspace_t a, b, c;
    pmix_key_t key, other;
    pmix_proc_t one, two;
    (void) unused;
    (void) unused_too;
    char *text = some_text();
    memset(key, 0x55, sizeof(key));
    memset(a, 0x55, sizeof(a));
    LIB(Load_key)(key, text);
    LIB(Load_nspace)(a, text);
    put_text(key);
    put_text(a);
    any_name(b, sizeof(b));
    any_name(other, sizeof(other));
    if (one_in(2)) {
        strcpy(b, one_in(2) ? a : "");
        memcpy(other, key, sizeof(other));
    }
    put(" %d%d%d", LIB(Check_key)(key, other), LIB(Check_nspace)(a, b), LIB(Check_reserved_key)(key));
    put("%d%d", LIB(Nspace_invalid)(a), LIB(Nspace_invalid)(b));
    pmix_rank_t ranks[2];
    fill_rank(&ranks[0], 0);
    fill_rank(&ranks[1], 0);
    if (one_in(3)) {
        ranks[1] = ranks[0];
    }
    put(" %u %u %d%d ", ranks[0], ranks[1], LIB(Check_rank)(ranks[0], ranks[1]), LIB(Rank_valid)(ranks[0]));
    memset(&one, 0x55, sizeof(one));
    memset(&two, 0x55, sizeof(two));
    LIB(Load_procid)(&one, a, ranks[0]);
    LIB(Proc_load)(&two, b, ranks[1]);
    show_proc(&one);
    show_proc(&two);
    put(" %d%d%d", LIB(Check_procid)(&one, &two), LIB(Procid_invalid)(&one), LIB(Procid_invalid)(&two));
    LIB(Xfer_procid)(&two, &one);
    show_proc(&two);
    char *shown = LIB(Proc_string)(&one);
    put_text(shown);
    free(shown);
    free(text);
    memset(c, 0x55, sizeof(c));
    LIB(Multicluster_nspace_construct)(c, a, b);
    put_text(c);
    LIB(Multicluster_nspace_parse)(c, a, b);
    put_text(a);
    put_text(b);
}

/* ---- texts of codes ---------------------------------------------------------------------------------------------- */

typedef const char *(*code_text_t)(uint64_t code);
#define CODE_TEXT(name, type) static const char *text_##name(uint64_t code) { return LIB(name)((type) code); }
CODE_TEXT(Error_string, pmix_status_t) CODE_TEXT(Proc_state_string, pmix_proc_state_t)
CODE_TEXT(Scope_string, pmix_scope_t) CODE_TEXT(Persistence_string, pmix_persistence_t)
CODE_TEXT(Data_range_string, pmix_data_range_t) CODE_TEXT(Data_type_string, pmix_data_type_t)
CODE_TEXT(Alloc_directive_string, pmix_alloc_directive_t) CODE_TEXT(IOF_channel_string, pmix_iof_channel_t)
CODE_TEXT(Job_state_string, pmix_job_state_t) CODE_TEXT(Link_state_string, pmix_link_state_t)
CODE_TEXT(Device_type_string, pmix_device_type_t) CODE_TEXT(Value_comparison_string, pmix_value_cmp_t)
CODE_TEXT(Alloc_inheritance_string, pmix_alloc_inheritance_t)
CODE_TEXT(Resource_block_directive_string, pmix_resource_block_directive_t)
CODE_TEXT(Group_operation_string, pmix_group_operation_t)

/* From where to where codes are looked at one after the other. */
static const struct {
    const char *name;
    code_text_t text;
    int64_t from, to;
} code_texts[] = {
    { "Error_string", text_Error_string, -1500, 20 },
    { "Proc_state_string", text_Proc_state_string, 0, 255 },
    { "Scope_string", text_Scope_string, 0, 255 },
    { "Persistence_string", text_Persistence_string, 0, 255 },
    { "Data_range_string", text_Data_range_string, 0, 255 },
    { "Data_type_string", text_Data_type_string, 0, 520 },
    { "Alloc_directive_string", text_Alloc_directive_string, 0, 255 },
    { "IOF_channel_string", text_IOF_channel_string, 0, 20 },
    { "Job_state_string", text_Job_state_string, 0, 255 },
    { "Link_state_string", text_Link_state_string, 0, 255 },
    { "Device_type_string", text_Device_type_string, 0, 1100 },
    { "Value_comparison_string", text_Value_comparison_string, -2, 10 },
    { "Alloc_inheritance_string", text_Alloc_inheritance_string, 0, 255 },
    { "Resource_block_directive_string", text_Resource_block_directive_string, 0, 255 },
    { "Group_operation_string", text_Group_operation_string, -2, 10 },
};
#define CODE_TEXT_COUNT (sizeof(code_texts) / sizeof(code_texts[0]))

static void body_code_text(intptr_t which, intptr_t code)
{
    put_text(code_texts[which].text((uint64_t) code));
}

static void body_error_code(intptr_t code, intptr_t unused)
{
    (void) unused;
    const char *name = LIB(Error_string)((pmix_status_t) code);
    put_text(name);
    char *text = copy_text(name);
    if (one_in(3)) {
        for (char *at = text; *at != '\0'; at++) {
            *at = (char) (*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
        }
    }
    put(" %d", LIB(Error_code)(text));
    free(text);
}

/* ---- structures that are made ------------------------------------------------------------------------------------ */

static void body_made_array(intptr_t of, intptr_t unused)
{
    const type_t *type = (const type_t *) of;
    size_t count = below(4);
    pmix_data_array_t array;
    (void) unused;
    is_made[type->code] = true;
    memset(&array, 0xa5, sizeof(array));
    LIB(Data_array_construct)(&array, count, type->code);
    show_darray(&array);
    if (one_in(2)) {
        for (size_t i = 0; i < array.size && array.array != NULL; i++) {
            void *at = (char *) array.array + i * type->size;
            type->discard(at);
            memset(at, 0, type->size);
            fill(type, at, 2);
        }
    }
    LIB(Data_array_destruct)(&array);
    put(" %zu%s", array.size, array.array == NULL ? "NULL" : "");
    pmix_data_array_t *made = LIB(Data_array_create)(count, type->code);
    if (made == NULL) {
        put(" NULL");
    } else {
        put(" ");
        show_darray(made);
        LIB(Data_array_free)(made);
    }
}

static void body_loaded(intptr_t unused, intptr_t unused_too)
{
    char *a = any_text(), *b = any_text(), *c = any_text();
    (void) unused;
    (void) unused_too;
    switch (below(4)) {
    case 0: {
        pmix_envar_t envar = { 0 };
        LIB(Envar_load)(&envar, a, b, (char) any());
        show_envar(&envar);
        discard_envar(&envar);
        break;
    }
    case 1: {
        pmix_regattr_t one, other;
        memset(&one, 0, sizeof(one));
        memset(&other, 0, sizeof(other));
        LIB(Regattr_load)(&one, a, b == NULL ? "" : b, (pmix_data_type_t) below(80), c);
        show_regattr(&one);
        LIB(Regattr_xfer)(&other, &one);
        put(" ");
        show_regattr(&other);
        discard_regattr(&one);
        discard_regattr(&other);
        break;
    }
    case 2: {
        pmix_pdata_t one, other;
        pmix_proc_t proc;
        fill_proc(&proc, 0);
        memset(&one, 0, sizeof(one));
        memset(&other, 0, sizeof(other));
        LIB(Pdata_load)(&one, &proc, a == NULL ? "" : a, b, PMIX_STRING);
        show_pdata(&one);
        LIB(Pdata_xfer)(&other, &one);
        put(" ");
        show_pdata(&other);
        discard_pdata(&one);
        discard_pdata(&other);
        break;
    }
    default: {
        pmix_app_t app;
        memset(&app, 0, sizeof(app));
        fill(type_of(PMIX_APP), &app, 2);
        char *text = LIB(App_string)(&app);
        put_text(text);
        free(text);
        discard_app(&app);
    }
    }
    free(a);
    free(b);
    free(c);
}

static void body_compress(intptr_t unused, intptr_t unused_too)
{
    size_t len = one_in(2) ? below(200) : 3900 + below(9000);
    uint8_t *bytes = need(malloc(len + 1)), *packed = NULL, *plain = NULL;
    size_t packed_len = 0, plain_len = 0;
    uint64_t kinds = 1 + below(250);
    (void) unused;
    (void) unused_too;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t) below(kinds);
    }
    bool is_packed = LIB(Data_compress)(bytes, len, &packed, &packed_len);
    put("%zu %d", len, is_packed);
    if (is_packed) {
        bool is_plain = LIB(Data_decompress)(packed, packed_len, &plain, &plain_len);
        put(" %d %zu %d", is_plain, plain_len, is_plain && plain_len == len && memcmp(plain, bytes, len) == 0);
    }
    free(plain);
    free(packed);
    pmix_byte_object_t by_hand;
    compress_by_hand(&by_hand, (char *) bytes, (uint16_t) len);
    plain = NULL;
    bool is_plain = LIB(Data_decompress)((uint8_t *) by_hand.bytes, by_hand.size, &plain, &plain_len);
    put(" %d ", is_plain);
    if (is_plain) {
        put_bytes(plain, plain_len);
        free(plain);
    }
    /* Callers free what they are given, whatever the answer is. */
    if (by_hand.size > 16) {
        uint8_t *cut = bytes;
        size_t cut_len = 1;
        bool is_cut = LIB(Data_decompress)((uint8_t *) by_hand.bytes, by_hand.size / 2, &cut, &cut_len);
        put(" %d %d %zu", is_cut, cut == NULL, cut_len);
    }
    discard_bo(&by_hand);
    free(bytes);
}

/* ---- generated cases --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    body_t body;
    /* Of any type, of one that a value holds, of a number, of none. */
    enum { ANY, HELD, NUMBERS, NONE } of;
    int weight;
} operations[] = {
    { "pack", body_pack, ANY, 24 }, { "unpack-less", body_unpack_less, ANY, 2 }, { "unpack-cut", body_unpack_cut, ANY, 3 },
    { "sequence", body_sequence, NONE, 8 }, { "copy", body_copy, ANY, 8 }, { "print", body_print, ANY, 8 },
    { "xfer", body_xfer, HELD, 8 }, { "value-size", body_value_size, HELD, 4 }, { "compare", body_compare, HELD, 5 },
    { "number", body_number, NUMBERS, 6 }, { "truth", body_truth, NONE, 2 }, { "value-text", body_value_text, HELD, 5 },
    { "info-text", body_info_text, HELD, 3 }, { "load", body_load, HELD, 8 }, { "destruct", body_destruct, HELD, 3 },
    { "info", body_info, HELD, 5 }, { "info-size", body_info_size, HELD, 2 }, { "flags", body_flags, NONE, 1 },
    { "info-list", body_info_list, NONE, 6 }, { "argv", body_argv, NONE, 4 }, { "setenv", body_setenv, NONE, 2 },
    { "names", body_names, NONE, 3 }, { "made-array", body_made_array, ANY, 3 }, { "loaded", body_loaded, NONE, 3 },
    { "compress", body_compress, NONE, 1 },
};
#define OPERATION_COUNT (sizeof(operations) / sizeof(operations[0]))

static uint64_t generated_seed, generated_end;

static void generated_case(uint64_t number)
{
    seed = generated_seed * 0x2545f4914f6cdd1du + number * 0x9e3779b97f4a7c15u;
    uint64_t weights = 0, choice;
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        weights += (uint64_t) operations[i].weight;
    }
    choice = below(weights);
    size_t at = 0;
    while (choice >= (uint64_t) operations[at].weight) {
        choice -= (uint64_t) operations[at++].weight;
    }
    const type_t *type = operations[at].of == ANY ? any_type() : any_held_type();
    const type_t *other = operations[at].of == NUMBERS ? any_held_type() : NULL;
    switch (operations[at].of) {
    case NONE: check(operations[at].body, 0, 0, "%s", operations[at].name); break;
    case NUMBERS:
        check(operations[at].body, (intptr_t) type, (intptr_t) other, "%s %s %s", operations[at].name, type->name,
              other->name);
        break;
    default: check(operations[at].body, (intptr_t) type, 0, "%s %s", operations[at].name, type->name);
    }
}

static void generated(void)
{
    next_case = first_case;
    for (uint64_t number = first_case; number < generated_end; number++) {
        generated_case(number);
    }
}

/* ---- constructors ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    pmix_data_type_t code;
} constructed[] = {
    { "App", PMIX_APP }, { "Byte_object", PMIX_BYTE_OBJECT }, { "Coord", PMIX_COORD }, { "Cpuset", PMIX_PROC_CPUSET },
    { "Data_buffer", PMIX_DATA_BUFFER }, { "Device", PMIX_DEVICE }, { "Device_distance", PMIX_DEVICE_DIST },
    { "Disk_stats", PMIX_DISK_STATS }, { "Endpoint", PMIX_ENDPOINT }, { "Envar", PMIX_ENVAR },
    { "Geometry", PMIX_GEOMETRY }, { "Info", PMIX_INFO }, { "Net_stats", PMIX_NET_STATS },
    { "Node_pid", PMIX_NODE_PID }, { "Node_stats", PMIX_NODE_STATS }, { "Pdata", PMIX_PDATA }, { "Proc", PMIX_PROC },
    { "Proc_info", PMIX_PROC_INFO }, { "Proc_stats", PMIX_PROC_STATS }, { "Query", PMIX_QUERY },
    { "Regattr", PMIX_REGATTR }, { "Regex2", PMIX_REGEX2 }, { "Resource_unit", PMIX_RESOURCE_UNIT },
    { "Value", PMIX_VALUE },
};
#define CONSTRUCTED_COUNT (sizeof(constructed) / sizeof(constructed[0]))

/* One of the functions for a structure. */
static void *function_for(const char *name, const char *what)
{
    static char whole[80];
    snprintf(whole, sizeof(whole), "PMIx_%s_%s", name, what);
    return function(whole);
}

/* Constructors, on memory with arbitrary contents. */
static void body_construct(intptr_t which, intptr_t unused)
{
    const type_t *type = type_of(constructed[which].code);
    void (*construct)(void *) = (void (*)(void *)) function_for(constructed[which].name, "construct");
    void (*destruct)(void *) = (void (*)(void *)) function_for(constructed[which].name, "destruct");
    char *object = need(malloc(type->size));
    (void) unused;
    memset(object, 0xa5, type->size);
    construct(object);
    type->show(object);
    destruct(object);
    put(" ");
    type->show(object);
    construct(object);
    fill(type, object, 2);
    destruct(object);
    free(object);
}

static void body_create(intptr_t which, intptr_t count)
{
    const type_t *type = type_of(constructed[which].code);
    void *(*create)(size_t) = (void *(*)(size_t)) function_for(constructed[which].name, "create");
    void (*let_go)(void *, size_t) = (void (*)(void *, size_t)) function_for(constructed[which].name, "free");
    char *objects = create((size_t) count);
    put(objects == NULL ? "NULL" : "");
    for (intptr_t i = 0; i < count && objects != NULL; i++) {
        type->show(objects + (size_t) i * type->size);
        put(" ");
        fill(type, objects + (size_t) i * type->size, 2);
    }
    let_go(objects, (size_t) count);
}

/* ---- topologies -------------------------------------------------------------------------------------------------- */

/* Synthetic topologies of hwloc; the result is the same on every machine. */
static const char *const descriptions[] = { "pu:1", "core:2 pu:2" };
#define DESCRIPTION_COUNT (sizeof(descriptions) / sizeof(descriptions[0]))

static struct {
    int (*init)(void **);
    int (*describe)(void *, const char *);
    int (*load)(void *);
    int (*export)(void *, char **, int *, unsigned long);
    void (*free_text)(void *, char *);
    void (*destroy)(void *);
} hwloc;

static void open_hwloc(void)
{
    void *opened = need(dlopen("libhwloc.so.15", RTLD_NOW));
    hwloc.init = (__typeof__(hwloc.init)) need(dlsym(opened, "hwloc_topology_init"));
    hwloc.describe = (__typeof__(hwloc.describe)) need(dlsym(opened, "hwloc_topology_set_synthetic"));
    hwloc.load = (__typeof__(hwloc.load)) need(dlsym(opened, "hwloc_topology_load"));
    hwloc.export = (__typeof__(hwloc.export)) need(dlsym(opened, "hwloc_topology_export_xmlbuffer"));
    hwloc.free_text = (__typeof__(hwloc.free_text)) need(dlsym(opened, "hwloc_free_xmlbuffer"));
    hwloc.destroy = (__typeof__(hwloc.destroy)) need(dlsym(opened, "hwloc_topology_destroy"));
}

static pmix_topology_t described(intptr_t which)
{
    pmix_topology_t topology = { .source = copy_text("hwloc") };
    if (hwloc.init(&topology.topology) != 0 || hwloc.describe(topology.topology, descriptions[which]) != 0
        || hwloc.load(topology.topology) != 0) {
        abort();
    }
    return topology;
}

/* Prints a topology as XML, and frees it. */
static void show_and_discard(pmix_topology_t *topology)
{
    char *text = NULL;
    int len = 0;
    put_text(topology->source);
    if (topology->topology != NULL && hwloc.export(topology->topology, &text, &len, 0) == 0) {
        put_bytes(text, (size_t) len);
        hwloc.free_text(topology->topology, text);
        hwloc.destroy(topology->topology);
    }
    free(topology->source);
}

static void body_topology_pack(intptr_t which, intptr_t unused)
{
    pmix_topology_t topology = described(which), unpacked = { 0 };
    pmix_data_buffer_t buffer = { 0 };
    uint32_t behind = 7;
    int32_t one = 1;
    (void) unused;
    put("%d", LIB(Data_pack)(NULL, &buffer, &topology, 1, PMIX_TOPO));
    put(" %d", LIB(Data_pack)(NULL, &buffer, &behind, 1, PMIX_UINT32));
    put_buffer(&buffer);
    put(" -> %d ", LIB(Data_unpack)(NULL, &buffer, &unpacked, &one, PMIX_TOPO));
    show_and_discard(&unpacked);
    behind = 0;
    put(" %d", LIB(Data_unpack)(NULL, &buffer, &behind, &one, PMIX_UINT32));
    put(" %u ", behind);
    show_and_discard(&topology);
    free(buffer.base_ptr);
}

static void body_topology_copy(intptr_t which, intptr_t unused)
{
    pmix_topology_t topology = described(which);
    void *copy = NULL;
    (void) unused;
    put("%d ", LIB(Data_copy)(&copy, &topology, PMIX_TOPO));
    if (copy != NULL) {
        show_and_discard(copy);
        free(copy);
    }
    show_and_discard(&topology);
}

static void body_topology_value(intptr_t which, intptr_t unused)
{
    pmix_topology_t topology = described(which);
    pmix_value_t value, other = { .type = PMIX_UNDEF };
    (void) unused;
    put("%d", LIB(Value_load)(&value, &topology, PMIX_TOPO));
    put(" %d %u ", LIB(Value_xfer)(&other, &value), value.type);
    show_and_discard(value.data.topo);
    show_and_discard(other.data.topo);
    free(value.data.topo);
    free(other.data.topo);
    show_and_discard(&topology);
}

/* ---- fixed cases ------------------------------------------------------------------------------------------------- */

static void fixed(void)
{
    next_case = 0;
    for (size_t i = 0; i < CODE_TEXT_COUNT; i++) {
        for (int64_t code = code_texts[i].from; code <= code_texts[i].to; code++) {
            check(body_code_text, (intptr_t) i, (intptr_t) code, "%s %" PRId64, code_texts[i].name, code);
        }
    }
    for (intptr_t code = -420; code <= 10; code++) {
        seed = (uint64_t) code;
        check(body_error_code, code, 0, "Error_code %d", (int) code);
    }
    open_hwloc();
    for (size_t i = 0; i < DESCRIPTION_COUNT; i++) {
        check(body_topology_pack, (intptr_t) i, 0, "pack a topology %d", (int) i);
        check(body_topology_copy, (intptr_t) i, 0, "copy a topology %d", (int) i);
        check(body_topology_value, (intptr_t) i, 0, "a value of a topology %d", (int) i);
    }
    for (size_t i = 0; i < CONSTRUCTED_COUNT; i++) {
        seed = i;
        check(body_construct, (intptr_t) i, 0, "construct %s", constructed[i].name);
        /* Buffers are made one by one, coordinates with their dimensions. */
        bool is_created = constructed[i].code != PMIX_DATA_BUFFER && constructed[i].code != PMIX_COORD;
        for (intptr_t count = 0; count < 4 && is_created; count++) {
            check(body_create, (intptr_t) i, count, "create %s %d", constructed[i].name, (int) count);
        }
    }
}

/* ---- NULL -------------------------------------------------------------------------------------------------------- */

static void *start_list(void) { return LIB(Info_list_start)(); }

static void body_null(intptr_t which, intptr_t null)
{
    const char *shape = functions[which].shape;
    pmix_proc_t me = proc_of("calls", 0);
    intptr_t a[ARGUMENT_COUNT_MAX] = { 0 };
    any_function called = (any_function) (uintptr_t) function(functions[which].name);
    fill_arguments(a, shape + 2, (int) null, &me);
    intptr_t answer = called(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    bool is_success = (pmix_status_t) answer == PMIX_SUCCESS || (pmix_status_t) answer == PMIX_OPERATION_SUCCEEDED;
    put(shape[0] != 's' ? "returned" : is_success ? "success" : "error");
}

static pmix_server_module_t no_module;

static void start_server(void)
{
    if (LIB(server_init)(&no_module, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_server_init\n");
        _exit(1);
    }
}

/* Functions that wait for a thread of the library's need one, which a child does not have that another process has begun. */
static void null(void)
{
    next_case = 0;
    start_server();
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const char *shape = functions[i].shape;
        for (int at = 0; shape[2 + at] != '\0'; at++) {
            char letter = shape[2 + at];
            if (is_pointer(letter) && (shape[0] != 's' || letter < 'a')) {
                check(body_null, (intptr_t) i, at, "%s argument %d", functions[i].name, at + 1);
            }
        }
    }
    LIB(server_finalize)();
}

/* ---- before the library has begun, and after its end -------------------------------------------------------------- */

static void body_status(intptr_t which, intptr_t unused)
{
    const char *shape = functions[which].shape;
    pmix_proc_t me = proc_of("calls", 0);
    intptr_t a[ARGUMENT_COUNT_MAX] = { 0 };
    any_function called = (any_function) (uintptr_t) function(functions[which].name);
    (void) unused;
    fill_arguments(a, shape + 2, -1, &me);
    int before = callback_count;
    intptr_t answer = called(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    if (shape[0] == 's' || strcmp(functions[which].name, "PMIx_Register_event_handler") == 0) {
        put("%d", (pmix_status_t) answer);
    } else {
        put("returned");
    }
    /* Who is refused may wait for a callback all the same. */
    if (callback_count > before) {
        put(", and the callback came");
    }
}

/* Functions that begin are no part of it. */
static void statuses(const char *when)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const char *name = functions[i].name;
        if (strcasecmp(name + strlen(name) - strlen("_init"), "_init") != 0) {
            check(body_status, (intptr_t) i, 0, "%s %s", name, when);
        }
    }
}

static void before(void)
{
    next_case = 0;
    statuses("before");
}

static void after(void)
{
    next_case = 0;
    start_server();
    LIB(server_finalize)();
    statuses("after");
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    setenv("TZ", "UTC", 1);
    const char *mode = argc > 1 ? argv[1] : "";
    void (*cases)(void) = NULL;
    uint64_t first = 0;
    if (strcmp(mode, "fixed") == 0) {
        cases = fixed;
    } else if (strcmp(mode, "null") == 0) {
        cases = null;
    } else if (strcmp(mode, "before") == 0) {
        cases = before;
    } else if (strcmp(mode, "after") == 0) {
        cases = after;
    } else if (strcmp(mode, "generated") == 0 && argc == 5) {
        cases = generated;
        generated_seed = strtoull(argv[2], NULL, 10);
        first = strtoull(argv[3], NULL, 10);
        generated_end = first + strtoull(argv[4], NULL, 10);
    }
    library = dlopen("libpmix.so.2", RTLD_NOW);
    place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cases == NULL || library == NULL || place == MAP_FAILED) {
        fprintf(stderr, "usage: %s fixed | generated SEED FIRST COUNT | null | before | after; with a libpmix.so.2\n", argv[0]);
        return 64;
    }
    bool is_server = cases == fixed || cases == generated;
    if (is_server) {
        start_server();
    }
    printf("%s\n", LIB(Get_version)());
    if (getenv("CALLS_ALONE") != NULL) {
        first_case = first;
        cases();
        alarm(0);
    } else {
        run_all(cases, first);
    }
    if (is_server) {
        LIB(server_finalize)();
    }
    printf("done\n");
    return 0;
}
