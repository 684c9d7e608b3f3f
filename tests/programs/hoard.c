/* A rank that floods its server with data, without waiting where possible.
 *
 *   hoard log COUNT      COUNT texts of 64 KiB by PMIx_Log_nb at once, as many again by PMIx_Log
 *   hoard publish        values of 64 KiB until one is refused with an error; then again after all were unpublished
 *
 * Standard output has only the logged texts; standard error has the number of accepted texts, and the launcher's
 * peak memory.
 */
#include "common.h"

#include <stdatomic.h>

#define LEN (1 << 16)

static atomic_int_fast32_t answered, taken;

static void done(pmix_status_t status, void *cbdata)
{
    (void) cbdata;
    if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) {
        taken++;
    } else if (status != PMIX_ERR_OUT_OF_RESOURCE) {
        fprintf(stderr, "PMIx_Log_nb: %s\n", PMIx_Error_string(status));
        _exit(1);
    }
    answered++;
}

static void must(const char *what, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        _exit(1);
    }
}

/* A number from /proc/PID/status. */
static long status_of(int pid, const char *format)
{
    char path[64], line[256];
    long number = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL && sscanf(line, format, &number) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return number;
}

/* The launcher is the parent of the process that starts the ranks. */
static int launcher(void) { return (int) status_of(getppid(), "PPid: %ld"); }

static char text[LEN + 1];

static void log_all(int count)
{
    memset(text, 'x', LEN - 1);
    text[LEN - 1] = '\n';
    pmix_info_t info = {.key = PMIX_LOG_STDOUT, .value = {.type = PMIX_STRING, .data.string = text}};
    for (int i = 0; i < count; i++) {
        must("PMIx_Log_nb", PMIx_Log_nb(&info, 1, NULL, 0, done, NULL));
    }
    for (int i = 0; i < count; i++) {
        pmix_status_t status;
        // While the non-blocking ones fill the queue.
        while ((status = PMIx_Log(&info, 1, NULL, 0)) == PMIX_ERR_OUT_OF_RESOURCE) {
            usleep(1000);
        }
        must("PMIx_Log", status);
        taken++;
    }
    while (answered < count) {
        usleep(1000);
    }
}

static int publish_all(const char *prefix)
{
    int count = 0;
    for (pmix_status_t status = PMIX_SUCCESS; status != PMIX_ERR_OUT_OF_RESOURCE; count++) {
        pmix_info_t info = {.value = {.type = PMIX_BYTE_OBJECT, .data.bo = {.bytes = text, .size = LEN}}};
        snprintf(info.key, sizeof(info.key), "%s.%d", prefix, count);
        status = PMIx_Publish(&info, 1);
        if (status != PMIX_ERR_OUT_OF_RESOURCE) {
            must("PMIx_Publish", status);
        }
        if (count > 16384) {
            fprintf(stderr, "a gibibyte was taken\n");
            _exit(1);
        }
    }
    return count - 1;
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    if (argc == 3 && strcmp(argv[1], "log") == 0) {
        log_all(atoi(argv[2]));
    } else if (argc == 2 && strcmp(argv[1], "publish") == 0) {
        int first = publish_all("first");
        must("PMIx_Unpublish", PMIx_Unpublish(NULL, NULL, 0));
        int second = publish_all("second");
        if (first == 0 || second != first) {
            fprintf(stderr, "%d values were taken, and %d\n", first, second);
            return 1;
        }
        taken = first + second;
    } else {
        fprintf(stderr, "usage: hoard log COUNT | hoard publish\n");
        return 2;
    }
    fprintf(stderr, "taken %d, launcher %ld KiB\n", (int) taken, status_of(launcher(), "VmHWM: %ld"));
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
