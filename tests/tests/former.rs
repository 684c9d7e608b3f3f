//! Jobs of two releases of this library: ranks of another commit under today's server, today's ranks under that server, servers of both in
//! one job, and the library file replaced while a job runs. `make test-former FORMER=COMMIT` builds the library of that commit and runs
//! these tests; `make test` leaves them out.
//!
//! Where the two write one version of the segment format, ranks must use shared memory; otherwise each refuses the segments in one line
//! and makes all calls over the socket.

use std::fs;

use pmix_dstore::segment::FORMAT_VERSION;
use pmix_tests::replaced::{Hosted, replace_under_job};
use pmix_tests::{Checked, Ended, Library, Pair, Run, Traces, pmixrun, pmixrun_of, program};

/// The version of the segment format that the former library writes.
fn former_format() -> u32 {
    let file = Library::former().directory().join("format");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.trim().parse().expect("a number")
}

/// What `tests/programs/client.c` is to find.
fn with_segments(shared: &'static str, unshared: &'static str) -> &'static str {
    if former_format() == FORMAT_VERSION { shared } else { unshared }
}

/// Today's library for the server and the former one for the ranks, and the reverse.
fn both_ways() -> [Pair; 2] {
    let (ours, former) = (Library::ours(), Library::former());
    [Pair { server: ours, ranks: former }, Pair { server: former, ranks: ours }]
}

/// Asserts that each of today's ranks has said in one line that it does not read the segments of a former server, if it does not. Former
/// ranks of this library have written such a line in pieces.
fn assert_told(ended: &Ended, ranks: usize) {
    let found = former_format();
    let why = format!(
        "segment-0: format version {found}, this build reads version {FORMAT_VERSION}: to read it, use the release that wrote it; values come over the socket"
    );
    let told =
        ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore client ") && line.ends_with(&why)).count();
    assert_eq!(told, if found == FORMAT_VERSION { 0 } else { ranks }, "{ended}");
}

#[test]
#[ignore = "make test-former"]
fn ranks_of_one_release_under_a_server_of_another() {
    let strict = with_segments("--strict --reput --shared", "--strict --reput --unshared");
    for Pair { server, ranks } in both_ways() {
        for (servers, count, host_args) in [(1, 4, ""), (2, 2, ""), (2, 3, "--map cyclic --answer mixed")] {
            let ended = Checked::new(servers, count, server, &[ranks]).host_args(host_args).client_args(strict).pass();
            if ranks.is_ours() {
                assert_told(&ended, (servers * count) as usize);
            }
        }
    }
}

#[test]
#[ignore = "make test-former"]
fn ranks_of_both_releases_in_one_job() {
    for server in [Library::ours(), Library::former()] {
        for (servers, count) in [(1, 4), (2, 2)] {
            let ranks = [Library::ours(), Library::former()];
            Checked::new(servers, count, server, &ranks).client_args("--strict --reput").pass();
        }
    }
}

/// Nodes that are upgraded one after the other: each rank has the release of its node.
#[test]
#[ignore = "make test-former"]
fn servers_of_both_releases_in_one_job() {
    for Pair { server: first, ranks: second } in both_ways() {
        let job = Checked::new(2, 2, first, &[first, second]).second(second);
        let ended = job.host_args("--map cyclic").client_args("--strict --reput --shared").pass();
        assert_told(&ended, 0);
    }
}

/// The checks under a launcher, of which some releases know no published values.
#[test]
#[ignore = "make test-former"]
fn ranks_of_one_release_under_the_launcher_of_another() {
    let strict = with_segments("--shared", "--unshared");
    for pair in both_ways() {
        let traces = Traces::begin();
        let run = Run::new(pmixrun_of(pair.server), pair.ranks).traced(&traces).args("-n 4");
        let ended = run.arg(program("client")).args("--strict --reput --no-publish").arg(strict).run();
        assert_eq!((ended.code(), ended.count("FAIL")), (0, 0), "{pair}: {ended}");
        assert_eq!(ended.count(" checks, 0 failed"), 4, "{pair}: {ended}");
        if pair.ranks.is_ours() {
            assert_told(&ended, 4);
        }
        traces.assert_none_left(&ended);
    }
}

/// What ranks of `tests/programs/replaced.c` say under a launcher, without the library's inode.
fn said(launcher: Library, ranks: Library) -> Vec<String> {
    let traces = Traces::begin();
    let run = Run::new(pmixrun_of(launcher), ranks).traced(&traces).args("-n 3");
    let ended = run.arg(program("replaced")).arg("true").run();
    traces.assert_none_left(&ended);
    let constant = |line: &&str| match line.split_once(": inode ") {
        Some((who, rest)) => format!("{who}: {}", rest.split_once(' ').map_or("", |(_, rest)| rest)),
        None => (*line).to_owned(),
    };
    ended.sorted_lines().iter().map(constant).collect()
}

/// Put, Get, fence, publish, look up, resolve, spawn, connect: what the launcher knows of these does not depend on the ranks' release.
#[test]
#[ignore = "make test-former"]
fn ranks_of_both_releases_hear_the_same_of_a_launcher() {
    let (ours, former) = (Library::ours(), Library::former());
    let all_succeeds =
        ["child 0: 0 failed", "child 1: 0 failed", "rank 0: 0 failed", "rank 1: 0 failed", "rank 2: 0 failed"];
    assert_eq!(said(ours, ours), all_succeeds);
    assert_eq!(said(ours, former), all_succeeds);
    // A rank that misses what the launcher does not have ends with status 1, and the launcher ends the others at some point.
    let of_rank_0 = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().filter(|line| line.starts_with("rank 0: FAIL") || line.starts_with("child ")).collect()
    };
    let heard = of_rank_0(said(former, former));
    assert!(!heard.is_empty(), "the former launcher starts no job");
    assert_eq!(of_rank_0(said(former, ours)), heard);
}

#[test]
#[ignore = "make test-former"]
fn mpi_jobs_of_two_releases() {
    for pair in both_ways() {
        for (size, args, count) in
            [(4, "collectives", 4), (2, "spawn 2 1", 4), (4, "rendezvous", 4), (2, "unpublish", 2)]
        {
            let (traces, ended) = pair.run(|traces| pair.job(traces, size, args));
            assert_eq!(
                (ended.code(), ended.count("FAIL"), ended.count(" done")),
                (0, 0, count),
                "{pair}: {args}: {ended}"
            );
            pair.assert_mapped(&ended, count);
            traces.assert_none_left(&ended);
        }
    }
}

/// An upgrade, and a way back, while a job runs: its ranks go on with the file that they have, and children that it starts afterwards have the
/// other release.
#[test]
#[ignore = "make test-former"]
fn a_library_is_replaced_by_another_release_under_a_running_job() {
    let (ours, former) = (Library::ours(), Library::former());
    for libraries in [(former, ours), (ours, former)] {
        let ended = replace_under_job(Hosted::ByHost, libraries, 3);
        if libraries.0 == former {
            assert_told(&ended, 2);
        }
    }
    replace_under_job(Hosted::ByLauncher, (ours, former), 3);
}

/// Shell functions: `host`, a C host with a library in the directory for servers, whose rank runs a command; `left`, the number of directories
/// there.
const FUNCTIONS: &str = r#"
mkdir $TMPDIR/servers
host() { HOST_DIRECTORY=$TMPDIR/servers LD_LIBRARY_PATH=$1 $HOST -s 1 -n 1 --timeout 100 --tools name --rank-lib $1 sh -c "$2" 2>/dev/null; }
left() { ls -d $TMPDIR/servers/pmix-dstore-* 2>/dev/null | wc -l; }
"#;

/// What a script says that begins with [`FUNCTIONS`].
fn script(script: &str) -> String {
    let traces = Traces::begin();
    let run = Run::new("/bin/sh", Library::ours())
        .traced(&traces)
        .env("HOST", program("host"))
        .env("CTL", pmixrun().with_file_name("pmixctl"))
        .env("OURS", Library::ours().directory())
        .env("FORMER", Library::former().directory());
    let ended = run.arg("-c").arg(format!("{FUNCTIONS}{script}; rm -r $TMPDIR/servers")).succeed();
    traces.assert_none_left(&ended);
    ended.stdout
}

/// A server that starts removes nothing of a living one. Former releases may remove nothing at all, so it is today's that removes what is
/// left of a dead one.
#[test]
#[ignore = "make test-former"]
fn a_server_removes_the_directories_of_dead_servers_of_another_release_alone() {
    const LIVING: &str = r#"
living() {
    host $1 'echo > $TMPDIR/here; while test -e $TMPDIR/here; do sleep 0.02; done; test -S $PMIX_DSTORE_SEGMENTS/sock && test -e $PMIX_DSTORE_SEGMENTS/segment-0' & P=$!
    until test -e $TMPDIR/here; do sleep 0.02; done
    host $2 true
    test $2 = $FORMER || $CTL clean --directory $TMPDIR/servers >/dev/null
    echo cleaned $?, living: $(left)
    rm $TMPDIR/here; wait $P; echo ended $?
}
living $FORMER $OURS
living $OURS $FORMER"#;
    assert_eq!(script(LIVING), "cleaned 0, living: 1\nended 0\n".repeat(2));
    const DEAD: &str = r#"
host $FORMER 'echo $PPID > $TMPDIR/server; echo $$ > $TMPDIR/rank; exec sleep 100' & P=$!
until test -s $TMPDIR/rank; do sleep 0.02; done
kill -9 $(cat $TMPDIR/server) $(cat $TMPDIR/rank); wait $P; rm $TMPDIR/server $TMPDIR/rank
echo dead: $(left)
host $OURS true
echo then: $(left)"#;
    assert_eq!(script(DEAD), "dead: 1\nthen: 0\n");
}

/// The tools of an installation that has been upgraded, while a server of the former one goes on.
#[test]
#[ignore = "make test-former"]
fn todays_tools_at_a_former_server() {
    const TOOLS: &str = r#"
export CTL
host $FORMER '
ctl() { env -i TMPDIR=$TMPDIR/servers PATH=$PATH $CTL "$@"; }
ctl ps | grep -c "^test-job  *0 "
ctl query PMIX_QUERY_NAMESPACES | grep -o test-job
ctl get test-job "*" PMIX_JOB_SIZE | grep -ow 1
ctl inspect $PMIX_DSTORE_SEGMENTS | grep -c "to read it, use the release that wrote it"
ctl inspect $PMIX_DSTORE_SEGMENTS >/dev/null; echo inspect $?'"#;
    let inspected = if former_format() == FORMAT_VERSION { "0\ninspect 0" } else { "1\ninspect 1" };
    assert_eq!(script(TOOLS), format!("1\ntest-job\n1\n{inspected}\n"));
}
