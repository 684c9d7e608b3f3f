/* Six ranks form groups in the ways that need more than the names of all members.
 *
 *   groups bootstrap    leaders 0 and 3, each of which knows that there are two and adds a member: 5 and 4
 *   groups add          leaders 0 and 1, which know each other, add 2 and 3
 *   groups info         all ranks send each other a value, and read it by the group's context id
 *   groups late         a leader whose other one does not come, and the member that it adds
 *   groups refused      what no construct may say
 */
#include "common.h"

#ifndef PMIX_GROUP_BOOTSTRAP
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp"
#endif
#ifndef PMIX_GROUP_ADD_MEMBERS
#define PMIX_GROUP_ADD_MEMBERS "pmix.grp.add"
#endif
#ifndef PMIX_GROUP_INFO
#define PMIX_GROUP_INFO "pmix.grp.info"
#endif

static pmix_proc_t me;

static pmix_value_t value_size(size_t number)
{
    pmix_value_t value = { .type = PMIX_SIZE };
    value.data.size = number;
    return value;
}

/* The processes of these ranks as a value. */
static pmix_value_t value_procs(const pmix_rank_t *ranks, size_t count)
{
    pmix_data_array_t *array = need(calloc(1, sizeof(*array)));
    pmix_proc_t *procs = need(calloc(count, sizeof(*procs)));
    for (size_t i = 0; i < count; i++) {
        procs[i] = proc_of(me.nspace, ranks[i]);
    }
    *array = (pmix_data_array_t){ .type = PMIX_PROC, .size = count, .array = procs };
    pmix_value_t value = { .type = PMIX_DATA_ARRAY };
    value.data.darray = array;
    return value;
}

/* Forms the group and prints its members and whether it has a context id, which is returned. */
static size_t construct(const pmix_proc_t *procs, size_t count, infos_t *infos, pmix_status_t *status)
{
    pmix_info_t *results = NULL;
    size_t found = 0, context = SIZE_MAX;
    *status = PMIx_Group_construct("team", procs, count, infos->items, infos->count, &results, &found);
    char members[256] = "";
    for (size_t i = 0; i < found; i++) {
        if (strcmp(results[i].key, PMIX_GROUP_CONTEXT_ID) == 0) {
            context = results[i].value.data.size;
        } else if (strcmp(results[i].key, PMIX_GROUP_MEMBERSHIP) == 0) {
            const pmix_data_array_t *array = results[i].value.data.darray;
            const pmix_proc_t *all = array->array;
            for (size_t j = 0; j < array->size && strlen(members) < 200; j++) {
                sprintf(members + strlen(members), " %u", all[j].rank);
            }
        }
    }
    say("rank %u: construct %d, members%s, context id: %s", me.rank, *status, members, context == SIZE_MAX ? "no" : "yes");
    return context;
}

/* Uses the group if it is formed, and dissolves it. */
static void use_if(pmix_status_t formed)
{
    if (formed != PMIX_SUCCESS) {
        return;
    }
    pmix_proc_t team = proc_of("team", PMIX_RANK_WILDCARD);
    pmix_status_t fenced = PMIx_Fence(&team, 1, NULL, 0);
    say("rank %u: fence %d, destruct %d", me.rank, fenced, PMIx_Group_destruct("team", NULL, 0));
}

static void bootstrap(void)
{
    infos_t infos = { 0 };
    pmix_status_t status = PMIX_ERR_NOT_FOUND;
    if (me.rank == 0 || me.rank == 3) {
        pmix_rank_t added = me.rank == 0 ? 5 : 4;
        add(&infos, PMIX_GROUP_BOOTSTRAP, value_size(2));
        add(&infos, PMIX_GROUP_ADD_MEMBERS, value_procs(&added, 1));
        add(&infos, PMIX_GROUP_ASSIGN_CONTEXT_ID, value_bool(true));
        construct(&me, 1, &infos, &status);
    } else if (me.rank == 4 || me.rank == 5) {
        construct(NULL, 0, &infos, &status);
    }
    use_if(status);
}

static void add_members(void)
{
    infos_t infos = { 0 };
    pmix_status_t status = PMIX_ERR_NOT_FOUND;
    if (me.rank < 2) {
        pmix_proc_t leaders[] = { proc_of(me.nspace, 0), proc_of(me.nspace, 1) };
        pmix_rank_t added = me.rank + 2;
        add(&infos, PMIX_GROUP_ADD_MEMBERS, value_procs(&added, 1));
        construct(leaders, 2, &infos, &status);
    } else if (me.rank < 4) {
        construct(NULL, 0, &infos, &status);
    }
    use_if(status);
}

static void info(void)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    infos_t sent = { 0 }, infos = { 0 };
    add(&sent, "colour", value_size(100 + me.rank));
    add(&infos, PMIX_GROUP_INFO, value_infos(&sent));
    add(&infos, PMIX_GROUP_ASSIGN_CONTEXT_ID, value_bool(true));
    pmix_status_t formed;
    size_t context = construct(&all, 1, &infos, &formed);
    infos_t of_group = { 0 };
    add(&of_group, PMIX_GROUP_CONTEXT_ID, value_size(context));
    of_group.items[0].flags = PMIX_INFO_QUALIFIER;
    int right = 0;
    for (pmix_rank_t rank = 0; rank < 6; rank++) {
        pmix_proc_t other = proc_of(me.nspace, rank);
        pmix_value_t *value = NULL;
        pmix_status_t status = PMIx_Get(&other, "colour", of_group.items, of_group.count, &value);
        if (status == PMIX_SUCCESS && value->type == PMIX_SIZE && value->data.size == 100 + rank) {
            right++;
        } else {
            say("rank %u: Get of rank %u: %d", me.rank, rank, status);
        }
    }
    say("rank %u: %d values", me.rank, right);
    use_if(formed);
}

static void late(void)
{
    infos_t infos = { 0 };
    pmix_status_t status;
    if (me.rank == 0) {
        pmix_rank_t added[] = { 4, 5 };
        add(&infos, PMIX_GROUP_BOOTSTRAP, value_size(2));
        add(&infos, PMIX_GROUP_ADD_MEMBERS, value_procs(added, 2));
        add(&infos, PMIX_TIMEOUT, value_int(1));
        /* So that the other one has called before. */
        sleep(1);
        construct(&me, 1, &infos, &status);
    } else if (me.rank == 4) {
        construct(NULL, 0, &infos, &status);
    }
}

static void refused(void)
{
    if (me.rank != 0) {
        return;
    }
    pmix_status_t status;
    infos_t nobody = { 0 }, number = { 0 }, others = { 0 };
    add(&nobody, PMIX_GROUP_BOOTSTRAP, value_size(0));
    construct(&me, 1, &nobody, &status);
    add(&number, PMIX_GROUP_INFO, value_size(0));
    construct(&me, 1, &number, &status);
    infos_t sent = { 0 };
    pmix_proc_t other = proc_of(me.nspace, 1);
    add(&sent, PMIX_PROCID, value_proc(&other));
    add(&sent, "colour", value_size(1));
    add(&others, PMIX_GROUP_INFO, value_infos(&sent));
    construct(&me, 1, &others, &status);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        say("init %d", status);
        return 1;
    }
    if (strcmp(what, "bootstrap") == 0) {
        bootstrap();
    } else if (strcmp(what, "add") == 0) {
        add_members();
    } else if (strcmp(what, "info") == 0) {
        info();
    } else if (strcmp(what, "late") == 0) {
        late();
    } else if (strcmp(what, "refused") == 0) {
        refused();
    } else {
        fprintf(stderr, "groups bootstrap|add|info|late|refused\n");
        return 2;
    }
    return finalize_together() != PMIX_SUCCESS;
}
