/* A program of PMI-2, as those that are linked to Slurm's libpmi2: each rank puts values, and reads those of all others. Exits with 9 if
 * something is wrong. With the argument "abort" rank 2 ends the job. The prototypes stand here: no header is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int PMI2_Init(int *spawned, int *size, int *rank, int *appnum);
int PMI2_Finalize(void);
int PMI2_Initialized(void);
int PMI2_Abort(int flag, const char message[]);
int PMI2_Job_GetId(char id[], int length);
int PMI2_Job_GetRank(int *rank);
int PMI2_Info_GetSize(int *size);
int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
int PMI2_KVS_Get(const char *job, int rank, const char key[], char value[], int max, int *length);
int PMI2_Info_GetJobAttr(const char name[], char value[], int length, int *found);
int PMI2_Info_PutNodeAttr(const char name[], const char value[]);

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
    int spawned = 7, size, appnum, again, local, length, found;
    char id[256], key[64], value[1024], wanted[64];
    check(PMI2_Initialized() == 0, "PMI2_Initialized before");
    check(PMI2_Init(&spawned, &size, &rank, &appnum) == 0 && spawned == 0 && appnum == 0, "PMI2_Init");
    check(PMI2_Initialized() == 1, "PMI2_Initialized");
    check(PMI2_Job_GetRank(&again) == 0 && again == rank, "PMI2_Job_GetRank");
    check(PMI2_Job_GetId(id, sizeof(id)) == 0 && id[0] != 0, "PMI2_Job_GetId");
    check(PMI2_Info_GetSize(&local) == 0 && local == size, "PMI2_Info_GetSize");
    if (argc > 1 && strcmp(argv[1], "abort") == 0 && rank == 2) {
        PMI2_Abort(1, "no more");
    }
    for (int round = 0; round < 2; round++) {
        snprintf(key, sizeof(key), "address-%d-%d", round, rank);
        snprintf(value, sizeof(value), "of %d in %d", rank, round);
        check(PMI2_KVS_Put(key, value) == 0 && PMI2_KVS_Fence() == 0, "put and fence");
        for (int other = 0; other < size; other++) {
            const char *job = other % 2 == 0 ? id : NULL;
            snprintf(key, sizeof(key), "address-%d-%d", round, other);
            snprintf(wanted, sizeof(wanted), "of %d in %d", other, round);
            check(PMI2_KVS_Get(job, -1, key, value, sizeof(value), &length) == 0 && strcmp(value, wanted) == 0, "a value of any rank");
            check(PMI2_KVS_Get(job, other, key, value, sizeof(value), &length) == 0 && strcmp(value, wanted) == 0, "a value of a rank");
            check(length == (int)strlen(wanted), "its length");
        }
        check(PMI2_KVS_Get(NULL, -1, "none", value, sizeof(value), &length) != 0, "a key that nobody has put");
    }
    snprintf(wanted, sizeof(wanted), "(vector,(0,1,%d))", size);
    check(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof(value), &found) == 0 && found == 1, "PMI_process_mapping");
    check(strcmp(value, wanted) == 0, "its value");
    check(PMI2_Info_GetJobAttr("none", value, sizeof(value), &found) == 0 && found == 0, "an attribute that is not there");
    check(PMI2_Info_PutNodeAttr("name", "value") != 0, "a refused attribute of a node");
    check(PMI2_Finalize() == 0, "PMI2_Finalize");
    printf("rank %d of %d done\n", rank, size);
    return 0;
}
