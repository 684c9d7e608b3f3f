/* Rank 0 gets a credential, and the last rank has it validated, twice; each prints the answers.
 *
 *   credentials [TYPE]     of this type
 */
#include "common.h"

#include <inttypes.h>

static void validate(const char *what, pmix_byte_object_t *credential)
{
    pmix_info_t *infos = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Validate_credential(credential, NULL, 0, &infos, &count);
    char text[2048] = "";
    for (size_t i = 0; i < count; i++) {
        size_t end = strlen(text);
        const char *key = infos[i].key;
        if (strcmp(key, PMIX_USERID) == 0 || strcmp(key, PMIX_GRPID) == 0) {
            snprintf(text + end, sizeof(text) - end, " %s %" PRIu32, key, infos[i].value.data.uint32);
        } else if (strcmp(key, PMIX_CRED_TYPE) == 0) {
            snprintf(text + end, sizeof(text) - end, " %s %s", key, infos[i].value.data.string);
        }
    }
    say("%s: %d%s", what, status, text);
}

int main(int argc, char **argv)
{
    pmix_proc_t me, first, job;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("init: %d", status);
        return 1;
    }
    first = proc_of(me.nspace, 0);
    job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *size = NULL;
    PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size);
    infos_t infos = { 0 };
    if (argc > 1) {
        add(&infos, PMIX_CRED_TYPE, value_string(argv[1]));
    }
    pmix_byte_object_t credential = { 0 };
    if (me.rank == 0) {
        status = PMIx_Get_credential(infos.items, infos.count, &credential);
        say("get: %d%s", status, status == PMIX_SUCCESS && credential.size > 0 ? " with bytes" : "");
        pmix_value_t value = value_bytes(credential.bytes, credential.size);
        PMIx_Put(PMIX_GLOBAL, "credential", &value);
    }
    status = commit_and_collect();
    pmix_value_t *value = NULL;
    if (size != NULL && me.rank == size->data.uint32 - 1 && PMIx_Get(&first, "credential", NULL, 0, &value) == PMIX_SUCCESS &&
        value->data.bo.size > 0) {
        validate("validate", &value->data.bo);
        validate("validate again", &value->data.bo);
        pmix_byte_object_t other = { .bytes = "no credential", .size = 13 };
        validate("validate something else", &other);
    }
    free_infos(&infos);
    status = finalize_together();
    return status != PMIX_SUCCESS;
}
