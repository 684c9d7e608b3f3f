/* A program of PMI-1, as those that are linked to Slurm's libpmi: each rank puts values, and reads those of all others. Exits with 9 if
 * something is wrong. With the argument "abort" rank 2 ends the job with status 7. On several nodes MAPPING in the environment says who is on
 * which, and CLIQUE how many are on each; NO_NAMES says that the server publishes none. The prototypes stand here: no header is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int PMI_Init(int *spawned);
int PMI_Initialized(int *initialized);
int PMI_Finalize(void);
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);
int PMI_Barrier(void);
int PMI_Abort(int status, const char message[]);
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);
int PMI_KVS_Get_my_name(char name[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_KVS_Create(char name[], int length);
int PMI_KVS_Put(const char name[], const char key[], const char value[]);
int PMI_KVS_Commit(const char name[]);
int PMI_KVS_Get(const char name[], const char key[], char value[], int length);
int PMI_Publish_name(const char service[], const char port[]);
int PMI_Lookup_name(const char service[], char port[]);
int PMI_Unpublish_name(const char service[]);

static int rank = -1;

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("rank %d: FAIL %s\n", rank, what);
        exit(9);
    }
}

int main(int argc, char **argv)
{
    int spawned = 7, is_there = 7, size, universe, appnum, clique, longest, ranks[64];
    char name[256], key[64], value[1024], wanted[64], mapping[64];
    check(PMI_Initialized(&is_there) == 0 && is_there == 0, "PMI_Initialized before");
    check(PMI_Get_rank(&rank) == 1, "PMI_ERR_INIT before PMI_Init");
    check(PMI_Init(&spawned) == 0 && spawned == 0, "PMI_Init");
    check(PMI_Initialized(&is_there) == 0 && is_there == 1, "PMI_Initialized");
    check(PMI_Get_rank(&rank) == 0 && PMI_Get_size(&size) == 0, "rank and size");
    check(PMI_Get_rank(NULL) == 3, "PMI_ERR_INVALID_ARG for NULL");
    check(PMI_Get_universe_size(&universe) == 0 && universe >= size, "PMI_Get_universe_size");
    check(PMI_Get_appnum(&appnum) == 0 && appnum == 0, "PMI_Get_appnum");
    check(PMI_KVS_Get_name_length_max(&longest) == 0 && longest == 256, "the longest name");
    check(PMI_KVS_Get_key_length_max(&longest) == 0 && longest == 256, "the longest key");
    check(PMI_KVS_Get_value_length_max(&longest) == 0 && longest == 1024, "the longest value");
    check(PMI_KVS_Get_my_name(name, sizeof(name)) == 0 && name[0] != 0, "PMI_KVS_Get_my_name");
    check(PMI_KVS_Get_my_name(name, 1) == 8, "PMI_ERR_INVALID_LENGTH");
    check(PMI_KVS_Create(value, sizeof(value)) != 0, "a refused space");
    if (argc > 1 && strcmp(argv[1], "abort") == 0 && rank == 2) {
        PMI_Abort(7, "no more");
    }
    for (int round = 0; round < 2; round++) {
        snprintf(key, sizeof(key), "address-%d-%d", round, rank);
        snprintf(value, sizeof(value), "of %d in %d", rank, round);
        check(PMI_KVS_Put("other", key, value) == 14, "PMI_ERR_INVALID_KVS");
        check(PMI_KVS_Put(name, key, value) == 0 && PMI_KVS_Commit(name) == 0, "put and commit");
        check(PMI_Barrier() == 0, "PMI_Barrier");
        for (int other = 0; other < size; other++) {
            snprintf(key, sizeof(key), "address-%d-%d", round, other);
            snprintf(wanted, sizeof(wanted), "of %d in %d", other, round);
            check(PMI_KVS_Get(name, key, value, sizeof(value)) == 0 && strcmp(value, wanted) == 0, "a value of another rank");
        }
        check(PMI_KVS_Get(name, key, value, 3) == 8, "a value without room");
        check(PMI_KVS_Get(name, "none", value, sizeof(value)) != 0, "a key that nobody has put");
    }
    int of_node = getenv("CLIQUE") != NULL ? atoi(getenv("CLIQUE")) : size, first = rank / of_node * of_node;
    check(PMI_Get_clique_size(&clique) == 0 && clique == of_node, "PMI_Get_clique_size");
    check(PMI_Get_clique_ranks(ranks, 64) == 0 && ranks[0] == first && ranks[clique - 1] == first + clique - 1, "PMI_Get_clique_ranks");
    if (getenv("MAPPING") != NULL) {
        snprintf(mapping, sizeof(mapping), "%s", getenv("MAPPING"));
    } else {
        snprintf(mapping, sizeof(mapping), "(vector,(0,1,%d))", size);
    }
    check(PMI_KVS_Get(name, "PMI_process_mapping", value, sizeof(value)) == 0 && strcmp(value, mapping) == 0, "PMI_process_mapping");
    if (rank == 0 && getenv("NO_NAMES") == NULL && size > 1) {
        char port[256];
        check(PMI_Publish_name("service", "port 1") == 0 && PMI_Lookup_name("service", port) == 0, "publish and lookup");
        check(strcmp(port, "port 1") == 0 && PMI_Unpublish_name("service") == 0, "the port, and unpublish");
    }
    check(PMI_Finalize() == 0, "PMI_Finalize");
    printf("rank %d of %d done\n", rank, size);
    return 0;
}
