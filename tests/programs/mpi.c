/* The services that MPI programs use of a launcher; the first argument selects one.
 *
 *   hello                    only its line
 *   collectives              allreduce, alltoall, ring
 *   wait FILE                the same; before, FILE.R says that rank R waits outside the library until FILE is gone
 *   late                     collectives, but rank 0 starts after the others have requested its values
 *   apps N                   one of N applications of a job: prints which
 *   spawn N TIMES            spawns N processes TIMES times, each time merges with them and disconnects
 *   spawn-multiple           spawns two applications at once, 2 and 1 processes
 *   rendezvous               the first half accepts the second one, by a published name
 *   serve FILE, visit FILE   the same between two jobs; the name of the port is published, FILE says when
 *   visit-file FILE, serve-file FILE   the same without a name server: FILE holds the port
 *   meet-by-port             the first half of a job accepts the second one, by a port that is published nowhere
 *   segments PMIXCTL         looks for the addresses of all ranks in the segments of its node
 *   unpublish                publishes twice, unpublishes, looks up a missing name
 *   abort CODE               rank 1 calls MPI_Abort
 *   exit CODE                rank 1 ends without MPI_Finalize
 *   crash [SIGNAL]           rank 1 is ended by a signal
 *   early CODE               rank 1 ends before MPI_Init
 *   orphan                   rank 1 kills the daemon it came from, while the others wait for it in a barrier
 *   early-orphan             the same while they wait in MPI_Init
 *   stdin                    each rank reads its standard input to the end: prints the number of bytes and their sum
 *   say                      each rank writes a line to standard output and one to standard error
 *   zeros N                  each rank writes N zero bytes
 *   signal FILE              FILE.R says that rank R waits for SIGUSR1
 *   place                    each rank prints its number on its node and its processors
 *   survive                  rank 1 kills itself, and the others go on without it (ULFM)
 *
 * Every process prints "rank R of N: library DEV:INO daemon DEV:INO offers STORES on HOST": which libpmix it and its
 * parent have mapped, which data stores its server offers, and where it is.
 */
#include "mapped.h"

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures, rank, size;
static char role[64];

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("%s rank %d: FAIL %s\n", role, rank, what);
        fflush(stdout);
        failures++;
    }
}

static void introduce(void)
{
    char own[64], daemon[64], host[64] = "";
    mapped_library(getpid(), own, sizeof(own));
    mapped_library(getppid(), daemon, sizeof(daemon));
    gethostname(host, sizeof(host) - 1);
    const char *stores = getenv("PMIX_GDS_MODULE");
    printf("%s rank %d of %d: library %s daemon %s offers %s on %s\n", role, rank, size, own, daemon,
           stores ? stores : "nothing", host);
    fflush(stdout);
}

/* All ranks of a communicator exchange data. */
static void check_collectives(MPI_Comm comm, const char *what)
{
    int me, count;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &count);
    long mine = me + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
    check(sum == (long) count * (count + 1) / 2, what);
    int *out = malloc((size_t) count * sizeof(int)), *in = malloc((size_t) count * sizeof(int));
    for (int peer = 0; peer < count; peer++) {
        out[peer] = me * 1000 + peer;
        in[peer] = -1;
    }
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
    for (int peer = 0; peer < count; peer++) {
        check(in[peer] == peer * 1000 + me, what);
    }
    free(out);
    free(in);
    long token = 0;
    if (count > 1) {
        MPI_Sendrecv(&mine, 1, MPI_LONG, (me + 1) % count, 7, &token, 1, MPI_LONG, (me + count - 1) % count, 7, comm,
                     MPI_STATUS_IGNORE);
        check(token == (me + count - 1) % count + 1, what);
    }
}

/* Merges with the other side of an intercommunicator, of `expected` processes in all, and leaves it again. */
static void meet(MPI_Comm other, int high, int expected, const char *what)
{
    MPI_Comm all;
    int count;
    MPI_Intercomm_merge(other, high, &all);
    MPI_Comm_size(all, &count);
    check(count == expected, what);
    check_collectives(all, what);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
}

static void be_child(MPI_Comm parent, int argc, char **argv)
{
    int parents;
    snprintf(role, sizeof(role), "child %s", argc > 2 ? argv[2] : "?");
    MPI_Comm_remote_size(parent, &parents);
    meet(parent, 1, parents + size, "children and parents");
}

/* Launchers start children in the daemon's environment: these get the library of their parents. */
static char **child_arguments(char *program, char *which)
{
    static char library[8192];
    const char *path = getenv("LD_LIBRARY_PATH");
    snprintf(library, sizeof(library), "LD_LIBRARY_PATH=%s", path != NULL ? path : "");
    char **arguments = calloc(5, sizeof(char *));
    arguments[0] = library;
    arguments[1] = program;
    arguments[2] = "child";
    arguments[3] = which;
    return arguments;
}

static void spawn(char *program, int count, int times)
{
    char **arguments = child_arguments(program, "spawned");
    for (int time = 0; time < times; time++) {
        MPI_Comm children;
        int remote;
        int *errors = malloc((size_t) count * sizeof(int));
        MPI_Comm_spawn("env", arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors);
        MPI_Comm_remote_size(children, &remote);
        check(remote == count, "number of children");
        free(errors);
        meet(children, 0, size + count, "parents and children");
    }
    free(arguments);
}

static void spawn_multiple(char *program)
{
    char **arguments[] = {child_arguments(program, "first"), child_arguments(program, "second")};
    char *programs[] = {"env", "env"};
    int counts[] = {2, 1}, errors[3];
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;
    MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, &children, errors);
    meet(children, 0, size + 3, "parents and two kinds of children");
    free(arguments[0]);
    free(arguments[1]);
}

static void accept_or_connect(int accepts, const char *port, MPI_Comm half, int expected)
{
    MPI_Comm other;
    if (accepts) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
    }
    meet(other, !accepts, expected, accepts ? "those that accepted" : "those that connected");
}

/* The first half of a job accepts the second one: by a published name, or by the port alone. */
static void rendezvous(int by_name)
{
    static char name[] = "mpi.c half";
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half;
    int first, accepts = rank < (size + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, accepts, rank, &half);
    MPI_Comm_rank(half, &first);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    if (!by_name) {
        MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Publish_name(name, MPI_INFO_NULL, port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (by_name && !accepts && first == 0) {
        MPI_Lookup_name(name, MPI_INFO_NULL, port);
    }
    accept_or_connect(accepts, port, half, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        if (by_name) {
            MPI_Unpublish_name(name, MPI_INFO_NULL, port);
        }
        MPI_Close_port(port);
    }
    MPI_Comm_free(&half);
}

static void write_file(const char *path, const char *text)
{
    char part[4096];
    snprintf(part, sizeof(part), "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 || rename(part, path) != 0) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

/* Says that this rank has come here, and waits until the file is gone. */
static void wait_without(const char *path)
{
    char here[4096];
    snprintf(here, sizeof(here), "%s.%d", path, rank);
    write_file(here, "");
    while (access(path, F_OK) == 0) {
        usleep(20000);
    }
}

static void read_file(const char *path, char *text, int len)
{
    FILE *file;
    while ((file = fopen(path, "r")) == NULL) {
        usleep(10000);
    }
    check(fgets(text, len, file) != NULL, "file of the port");
    fclose(file);
}

/* One of two jobs, of the same size. */
static void between_jobs(int accepts, int by_name, const char *path)
{
    static char name[] = "mpi.c job";
    char port[MPI_MAX_PORT_NAME] = "", word[MPI_MAX_PORT_NAME];
    MPI_Info global;
    MPI_Info_create(&global);
    MPI_Info_set(global, "ompi_global_scope", "true");
    if (rank == 0 && accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        if (by_name) {
            MPI_Publish_name(name, global, port);
        }
        write_file(path, by_name ? "published\n" : port);
    } else if (rank == 0) {
        read_file(path, by_name ? word : port, MPI_MAX_PORT_NAME);
        if (by_name) {
            MPI_Lookup_name(name, global, port);
        }
    }
    accept_or_connect(accepts, port, MPI_COMM_WORLD, 2 * size);
    if (rank == 0 && accepts) {
        if (by_name) {
            MPI_Unpublish_name(name, global, port);
        }
        MPI_Close_port(port);
    }
    MPI_Info_free(&global);
}

/* Data of the initial modex can be read without a request to the server. */
static void look_into_segments(const char *pmixctl)
{
    char command[4096], line[16384];
    int addresses = 0;
    snprintf(command, sizeof(command), "'%s' inspect --all \"$PMIX_DSTORE_SEGMENTS\"", pmixctl);
    FILE *report = popen(command, "r");
    while (report != NULL && fgets(line, sizeof(line), report) != NULL) {
        addresses += strstr(line, "btl.tcp") != NULL && strstr(line, "BYTE_OBJECT") != NULL;
    }
    check(report != NULL && pclose(report) == 0, "report about the segments");
    check(addresses == size, "addresses of all ranks");
}

static void unpublish(void)
{
    static char name[] = "mpi.c name";
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        check(MPI_Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS, "publish");
        check(MPI_Lookup_name(name, MPI_INFO_NULL, found) == MPI_SUCCESS && strcmp(port, found) == 0, "lookup");
        check(MPI_Unpublish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS, "unpublish");
        check(MPI_Lookup_name(name, MPI_INFO_NULL, found) != MPI_SUCCESS, "lookup of what is gone");
        check(MPI_Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS, "publish again");
        check(MPI_Unpublish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS, "unpublish again");
        MPI_Close_port(port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Fowler, Noll and Vo's sum tells orders of bytes apart. */
static void read_stdin(void)
{
    static unsigned char piece[1 << 16];
    uint64_t sum = 0xcbf29ce484222325;
    size_t count, all = 0;
    while ((count = fread(piece, 1, sizeof(piece), stdin)) > 0) {
        for (size_t at = 0; at < count; at++) {
            sum = (sum ^ piece[at]) * 0x100000001b3;
        }
        all += count;
    }
    check(feof(stdin), "end of standard input");
    printf("rank %d read %zu bytes, sum %016llx\n", rank, all, (unsigned long long) sum);
    fflush(stdout);
}

static void say(void)
{
    printf("rank %d says this\n", rank);
    fflush(stdout);
    fprintf(stderr, "rank %d complains\n", rank);
}

static void write_zeros(size_t count)
{
    static const char piece[1 << 16];
    for (size_t left = count, part; left > 0; left -= part) {
        part = left < sizeof(piece) ? left : sizeof(piece);
        check(fwrite(piece, 1, part, stdout) == part, "output of zeros");
    }
    printf("\n");
    fflush(stdout);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void) number;
    signals++;
}

static void wait_for_signal(const char *path)
{
    char here[4096];
    signal(SIGUSR1, count_signal);
    snprintf(here, sizeof(here), "%s.%d", path, rank);
    write_file(here, "");
    while (signals == 0) {
        usleep(20000);
    }
    printf("rank %d has got the signal\n", rank);
    fflush(stdout);
    check_collectives(MPI_COMM_WORLD, "after the signal");
}

static void show_place(void)
{
    char line[4096];
    int local;
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_free(&node);
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
            printf("rank %d is %d on its node, %s", rank, local, line);
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    fflush(stdout);
}

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
static void survive(void)
{
    MPI_Comm rest;
    int class, count;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        raise(SIGKILL);
    }
    MPI_Error_class(MPI_Barrier(MPI_COMM_WORLD), &class);
    check(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "barrier without rank 1");
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    check(MPIX_Comm_shrink(MPI_COMM_WORLD, &rest) == MPI_SUCCESS, "communicator without rank 1");
    MPI_Comm_size(rest, &count);
    check(count == size - 1, "number of those that are left");
    check_collectives(rest, "those that are left");
    MPI_Comm_free(&rest);
}
#else
static void survive(void)
{
    check(0, "an MPI library with ULFM");
}
#endif

static int rank_by_launcher(void)
{
    const char *text = getenv("PMIX_RANK");
    return text != NULL ? atoi(text) : -1;
}

/* Waits until all ranks are here, if possible without connections between ranks: Open MPI 6 aborts a rank whose connection to
 * another one closes, and may do so before mpirun learns why the other one ended. Open MPI 4 keeps PMIx to itself. */
static void wait_for_all(void)
{
    int (*fence)(const void *, size_t, const void *, size_t);
    *(void **)&fence = dlsym(RTLD_DEFAULT, "PMIx_Fence");
    if (fence == NULL) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (fence(NULL, 0, NULL, 0) != 0) {
        printf("FAIL PMIx_Fence\n");
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "hello";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(kind, "early") == 0 && rank_by_launcher() == 1) {
        exit(number);
    }
    if (strcmp(kind, "late") == 0 && rank_by_launcher() == 0) {
        usleep(1000000);
    }
    if (strcmp(kind, "early-orphan") == 0 && rank_by_launcher() == 1) {
        usleep(300000);
        kill(getppid(), SIGKILL);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    snprintf(role, sizeof(role), "%s", kind);
    introduce();
    if (strcmp(kind, "abort") == 0 || strcmp(kind, "exit") == 0 || strcmp(kind, "crash") == 0) {
        /* The tests look at the line of each rank, which a rank that is killed too early has not written. */
        wait_for_all();
    }
    if (parent != MPI_COMM_NULL) {
        be_child(parent, argc, argv);
    } else if (strcmp(kind, "collectives") == 0 || strcmp(kind, "late") == 0) {
        check_collectives(MPI_COMM_WORLD, "all");
    } else if (strcmp(kind, "wait") == 0) {
        wait_without(argv[2]);
        check_collectives(MPI_COMM_WORLD, "all");
    } else if (strcmp(kind, "apps") == 0) {
        int *appnum, found;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
        check(found, "MPI_APPNUM");
        printf("rank %d is of application %d of %d\n", rank, found ? *appnum : -1, number);
        check_collectives(MPI_COMM_WORLD, "all applications");
    } else if (strcmp(kind, "spawn") == 0) {
        spawn(argv[0], number, argc > 3 ? atoi(argv[3]) : 1);
    } else if (strcmp(kind, "spawn-multiple") == 0) {
        spawn_multiple(argv[0]);
    } else if (strcmp(kind, "rendezvous") == 0) {
        rendezvous(1);
    } else if (strncmp(kind, "serve", 5) == 0 || strncmp(kind, "visit", 5) == 0) {
        between_jobs(kind[0] == 's', strstr(kind, "-file") == NULL, argv[2]);
    } else if (strcmp(kind, "segments") == 0) {
        look_into_segments(argv[2]);
    } else if (strcmp(kind, "unpublish") == 0) {
        unpublish();
    } else if (strcmp(kind, "meet-by-port") == 0) {
        rendezvous(0);
    } else if (strcmp(kind, "stdin") == 0) {
        read_stdin();
    } else if (strcmp(kind, "say") == 0) {
        say();
    } else if (strcmp(kind, "zeros") == 0) {
        write_zeros((size_t) number);
    } else if (strcmp(kind, "signal") == 0) {
        wait_for_signal(argv[2]);
    } else if (strcmp(kind, "place") == 0) {
        show_place();
    } else if (strcmp(kind, "survive") == 0) {
        survive();
    } else if (strcmp(kind, "abort") == 0 && rank == 1) {
        MPI_Abort(MPI_COMM_WORLD, number);
    } else if (strcmp(kind, "exit") == 0 && rank == 1) {
        exit(number);
    } else if (strcmp(kind, "crash") == 0 && rank == 1) {
        raise(number != 0 ? number : SIGSEGV);
    } else if (strcmp(kind, "orphan") == 0) {
        if (rank == 1) {
            kill(getppid(), SIGKILL);
            pause();
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (failures == 0) {
        printf("%s rank %d done\n", role, rank);
    }
    MPI_Finalize();
    return failures != 0;
}
