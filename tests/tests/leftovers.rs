//! Servers that end without `PMIx_server_finalize`: the next server, or `pmixctl clean`, removes what they have left.

use pmix_tests::{Ended, Library, Run, Traces, pmixrun, program};

/// Shell functions: `left`, the files of servers in `$TMPDIR`; `host`, a C host in that directory whose rank runs a command.
const FUNCTIONS: &str = r#"
left() { find $TMPDIR -mindepth 1 ! -path '*canary*' ! -name pmixrun.0123456789abcdef \( -name 'pmix-dstore-*' -o -name 'pmix.*' -o -name '.pmix.*' -o -name 'pmixrun.*' \) | sort; }
host() { HOST_DIRECTORY=$TMPDIR $HOST -s 1 -n 1 --tools accept --timeout 100 --rank-lib $LD_LIBRARY_PATH "$@" 2>/dev/null; }
clean() { $CTL clean --directory $TMPDIR "$@"; }
"#;

fn run(script: &str) -> Ended {
    let traces = Traces::begin();
    let run = Run::new("/bin/sh", Library::ours())
        .traced(&traces)
        .env("RUN", pmixrun())
        .env("CTL", pmixrun().with_file_name("pmixctl"))
        .env("HOST", program("host"))
        .arg("-c")
        .arg(format!("{FUNCTIONS}{script}"));
    let ended = run.run();
    traces.assert_none_left(&ended);
    assert_eq!(ended.code(), 0, "{ended}");
    ended
}

/// Kills a C host by SIGKILL that has a job, contact files and a rank, and then its rank.
const KILLED_HOST: &str = r#"
host sh -c 'echo $$ > $TMPDIR/rank; exec sleep 100' & SHELL_OF_HOST=$!
until test -s $TMPDIR/rank; do sleep 0.02; done
PID=$(sed -n 3p $TMPDIR/pmix.*.tool)
kill -9 $PID; wait $SHELL_OF_HOST; kill -9 $(cat $TMPDIR/rank); rm $TMPDIR/rank
echo left: $(left | wc -l)
"#;

/// Directory, three contact files of sessions and tools, one of the node, and the proof of each.
const LEFT: &str = "left: 9\n";

#[test]
fn the_next_server_removes_what_a_killed_host_has_left() {
    let ended = run(&format!("{KILLED_HOST} host true; echo then: $(left)"));
    assert_eq!(ended.stdout, format!("{LEFT}then:\n"), "{ended}");
}

#[test]
fn clean_removes_what_a_killed_host_has_left_and_nothing_of_a_living_one() {
    let living = "mkdir $TMPDIR/other; (TMPDIR=$TMPDIR/other; host sh -c 'echo > $TMPDIR/here; while test -e $TMPDIR/here; do sleep 0.02; done') & \
                  until test -e $TMPDIR/other/here; do sleep 0.02; done; BEFORE=$(cd $TMPDIR/other; ls -A | wc -l); ";
    let look = "clean --dry-run | grep -c ' found '; echo still: $(left | wc -l); clean --json > $TMPDIR/json; echo status $?; \
                grep -c '\"outcome\": \"removed\"' $TMPDIR/json; clean | sed s,$TMPDIR,D,; \
                test $(cd $TMPDIR/other; ls -A | wc -l) = $BEFORE; echo living: $?; rm $TMPDIR/other/here; wait; rm -r $TMPDIR/json $TMPDIR/other; echo then: $(left)";
    let ended = run(&format!("{KILLED_HOST}{living}{look}"));
    let expected = "9\nstill: 18\nstatus 0\n9\nnothing is left of servers that have ended in D\nliving: 0\nthen:\n";
    assert_eq!(ended.stdout, format!("{LEFT}{expected}"), "{ended}");
}

/// A launcher of this library and its watchdog, both killed: a C host's server is the next one.
#[test]
fn a_host_removes_what_a_killed_launcher_has_left() {
    let script = r#"
$RUN -n 1 sh -c 'cut -d" " -f4 /proc/$$/stat > $TMPDIR/watchdog; exec sleep 100' & P=$!
until test -s $TMPDIR/watchdog; do sleep 0.02; done
W=$(cat $TMPDIR/watchdog); rm $TMPDIR/watchdog
kill -STOP $W; kill -9 $P $W; wait $P; while kill -0 $W 2>/dev/null; do sleep 0.02; done
ls -d $TMPDIR/pmixrun.* | grep -vc 0123456789abcdef
clean --dry-run | grep -c 'its launcher has ended'
host true
echo then: $(left)
"#;
    let ended = run(script);
    assert_eq!(ended.stdout, "1\n1\nthen:\n", "{ended}");
}

/// A host that gives its server a directory which was there before, for tools and for the node. Stock 5.0.3 empties it.
#[test]
fn a_server_with_tool_support_removes_nothing_of_others() {
    let script = r#"
mkdir -p $TMPDIR/shared/directory/deep; cd $TMPDIR/shared
for file in file pmix.elsewhere.tool.1 pmix.sys.elsewhere pmix_dstor_1 pmix-dstore-0-0 directory/deep/file .hidden; do echo $file > $file; done
(TMPDIR=$PWD; host sh -c 'echo files of its own: $(ls $TMPDIR/../shared | grep -c "^pmix[.-]")' 2>&1)
echo status $?
for file in $(find . -type f | sort); do test "./$(cat $file)" = $file && echo $file; done
rm -r $TMPDIR/shared"#;
    let ended = run(script);
    let said: Vec<&str> = ended.stdout.lines().collect();
    let [own, rest @ ..] = &said[..] else { panic!("{ended}") };
    let own = own.strip_prefix("files of its own: ").and_then(|count| count.parse::<u32>().ok());
    assert!(own.is_some_and(|count| count > 3), "it has files there, too: {ended}");
    let stay = [
        "status 0",
        "./.hidden",
        "./directory/deep/file",
        "./file",
        "./pmix-dstore-0-0",
        "./pmix.elsewhere.tool.1",
        "./pmix.sys.elsewhere",
        "./pmix_dstor_1",
    ];
    assert_eq!(rest, stay, "{ended}");
}
