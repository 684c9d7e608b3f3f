//! Tools of both libraries, `pmixctl` and the programs of `libpmix-bin` at the servers of `prterun`, in the root directories of
//! `openmpi5.rs`: each gets the same answer from our server as from the stock one of the release. `docs/interop.md` has the table.

use std::collections::BTreeMap;

use pmix_tests::sides::with_roots;
use pmix_tests::{Ended, Library, Pair, Root, Traces, left_out};

/// Asks the server of an mpirun about its job, whose ranks wait. `$1` is a directory of the test's own, `$2` that of the daemon's library.
/// Each answer is a line `tool: question: answer`; the job is called `JOB`, and `PID` stands for each number of a process.
const ASK: &str = r#"
cd "$1"
ulimit -c 0
touch gate
LD_LIBRARY_PATH=$2 mpirun --oversubscribe -np 2 sh -c 'echo "$PMIX_NAMESPACE" >ns.$PMIX_RANK; while test -e "$0"; do sleep 0.05; done' "$1/gate" &
mpirun=$!
until test -s ns.0 && test -s ns.1; do kill -0 $mpirun || exit 1; sleep 0.05; done
job=$(cat ns.0)
say() { sed "s/$job/JOB/g; s/pid [0-9]*/pid PID/; s/^/$1: /"; }
ask() {
    LD_LIBRARY_PATH=$2 /mnt/bin/tool --pid $mpirun "get=$job:4294967294:pmix.job.size" "get=$job:4294967294:pmix.num.nodes" \
        "get=$job:4294967294:pmix.no.such" "get=:4294967294:pmix.job.size" "table=$job" "status=$job" 2>/dev/null |
        grep -v -e ^init -e ^me -e ^final | say "$1"
}
ask ours /mnt/lib
ask stock /usr/lib/x86_64-linux-gnu/pmix2/lib
own() { echo "pmixctl: $1: $(/mnt/bin/pmixctl "$2" --pid $mpirun "$job" '*' "$3" 2>&1 | sed 's/.*PMIX_ERR_NOT_FOUND.*/-46/')"; }
own "get pmix.job.size" get pmix.job.size
own "get pmix.num.nodes" get pmix.num.nodes
own "get pmix.no.such" get pmix.no.such
/mnt/bin/pmixctl query --pid $mpirun pmix.qry.ns | tail -n 1 | sed "s/.*  $job.*/pmixctl: names JOB/"
/mnt/bin/pmixctl ps --pid $mpirun | awk -v job="$job" '$1 == job { print "pmixctl: row " $2 ": " $5 " " $NF }'
run() {
    name=$1 only=$2
    shift 2
    said=$(timeout 20 "$name" "$@" 2>&1 </dev/null)
    code=$?
    echo "$name: $code $(echo "$said" | grep -o "$only" | sort | sed 's/  */ /g' | tr '\n' ',')"
}
run pps 'Rank.*\|/usr/bin/.*' --pid $mpirun
run pquery 'Value: .*' --pid $mpirun "PMIX_JOB_SIZE[PMIX_NSPACE=$job]"
run pquery 'Value: .*' --pid $mpirun PMIX_JOB_SIZE
run plookup 'no answer' --pid $mpirun no.such
run pattrs 'PMIx_.*' --pid $mpirun --host-fns
run pattrs '^PMIX_[A-Z_]*' --pid $mpirun --client PMIx_Get
run palloc 'granted\|NOT_SUPPORTED' --pid $mpirun --nodes 2
LD_LIBRARY_PATH=/mnt/lib /mnt/bin/tool --pid $mpirun await=-231 >heard &
tool=$!
while kill -0 $tool 2>/dev/null; do
    sleep 0.2
    pevent --pid $mpirun --range session PMIX_EVENT_NODE_DOWN </dev/null
done
wait $tool
sed -n 's/^event/pevent/p' heard
rm gate
wait $mpirun
echo "mpirun: $?"
"#;

fn ask(root: &Root, server: Library) -> Ended {
    let traces = Traces::begin();
    let run = root.enter().traced(&traces).args("sh -c").arg(ASK).arg("ask").arg(traces.own());
    let ended = run.arg(Root::directory_for_prrte(server)).run();
    assert_eq!((ended.code(), ended.count("mpirun: 0")), (0, 1), "{server:?}: {ended}");
    traces.assert_none_left(&ended);
    ended
}

/// What each tool has said, in order.
fn said(ended: &Ended) -> BTreeMap<&str, Vec<&str>> {
    let mut said: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tool, answer) in ended.stdout.lines().filter_map(|line| line.split_once(": ")) {
        said.entry(tool).or_default().push(answer);
    }
    said
}

#[test]
fn tools_get_the_same_answers_from_both_servers() {
    with_roots(|root| {
        if !root.path().join("usr/bin/pps").exists() {
            return left_out("openmpi5", "libpmix-bin is not installed in the root");
        }
        let [both, _, ranks] = Pair::all();
        let [at_ours, at_stock] = [both.server, ranks.server].map(|server| ask(root, server));
        let [ours, stock] = [&at_ours, &at_stock].map(said);
        // PRRTE has no answer about the job's status; our server has one of its own.
        let status = |answer: &&str| answer.starts_with("status: ") || answer.starts_with("about pmix.qry.jst: ");
        for (tool, answers) in &stock {
            let without =
                |answers: &[&str]| answers.iter().filter(|one| !status(one)).map(|one| (*one).to_owned()).collect();
            let (wanted, got): (Vec<String>, Vec<String>) = (without(answers), without(&ours[tool]));
            assert_eq!(got, wanted, "{tool}: {at_ours}{at_stock}");
        }
        let expected = [
            "get pmix.job.size: 0, 2",
            "get pmix.num.nodes: 0, 1",
            "get pmix.no.such: -46",
            "get pmix.job.size: 0, 1",
            "row 0: state 5, pid PID, /usr/bin/sh on",
            "row 1: state 5, pid PID, /usr/bin/sh on",
            "status: -156",
        ];
        for tool in ["ours", "stock"] {
            let is_as_expected = ours[tool].iter().zip(expected).all(|(answer, wanted)| answer.starts_with(wanted));
            assert!(is_as_expected && ours[tool].len() == expected.len(), "{tool}: {at_ours}");
        }
        let of_pmixctl = [
            "get pmix.job.size: 2",
            "get pmix.num.nodes: 1",
            "get pmix.no.such: -46",
            "names JOB",
            "row 0: running /usr/bin/sh",
            "row 1: running /usr/bin/sh",
        ];
        assert_eq!(ours["pmixctl"], of_pmixctl, "{at_ours}");
        let is_7 = root.generation() >= 6;
        let of_stock = if is_7 { "about pmix.qry.jst: -47" } else { "about pmix.qry.jst: -46" };
        assert_eq!((at_stock.count(of_stock), at_ours.count("status: -156")), (2, 2), "{at_stock}{at_ours}");
        // What 5.0.7's pps asks PRRTE 3.0 does not answer, and 7.0's pquery refuses its own words.
        let rows = ours["pps"][0].matches("/usr/bin/sh").count();
        assert_eq!((rows, ours["pps"][0].starts_with("0 ")), (if is_7 { 2 } else { 0 }, true), "{at_ours}");
        let of_pquery = if is_7 { ["229 ", "229 "] } else { ["0 Value: 2,", "0 Value: 1,"] };
        assert_eq!(ours["pquery"], of_pquery, "{at_ours}");
        assert_eq!((&*ours["plookup"], &*ours["pevent"]), (&["210 "][..], &["-231"][..]), "{at_ours}");
        assert!(ours["pattrs"].iter().all(|answer| answer.starts_with("0 PMI")), "{at_ours}");
    });
}
