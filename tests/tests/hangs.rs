//! A job that hangs says who waits for whom, when its time is over or somebody ends it or asks.

use pmix_tests::{Ended, Library, Traces, beside_job, program};

/// A job of four ranks whose rank 2 is stuck there, and a script beside it, in which `$ERR` is the launcher's standard error.
fn stuck(options: &str, stage: &str, script: &str) -> Ended {
    let job = format!("-n 4 {options} {} {stage} $TMPDIR/../own 2> $TMPDIR/../own/err", program("stuck").display());
    let script = format!("ERR=$TMPDIR/../own/err; {script} wait $P; echo \"exit: $?\"; sed 's/^/told: /' $ERR;");
    let ended = beside_job(Library::ours(), &Traces::begin(), &job, &script);
    // The launcher causes the losses itself.
    assert!(!ended.stdout.contains("pmix-dstore"), "{stage}: {ended}");
    ended
}

/// The launcher's lines behind the one with this text, with the process of rank 2 and the job named.
fn told(ended: &Ended, start: &str) -> Vec<String> {
    let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix("told: pmixrun: "));
    lines.skip_while(|line| !line.contains(start)).skip(1).map(named).collect()
}

/// Numbers and names that differ from run to run are replaced.
fn named(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let (core, rest) = word.split_at(word.trim_end_matches([',', ')', ':']).len());
        match core {
            job if job.starts_with("run-") && job.ends_with(".job") => format!("JOB{rest}"),
            job if job.starts_with("run-") => format!("JOB:{}{rest}", job.rsplit(':').next().unwrap_or_default()),
            number if number.len() > 1 && number.bytes().all(|byte| byte.is_ascii_digit()) => format!("N{rest}"),
            time if time.contains('.') && time.parse::<f64>().is_ok() => format!("T{rest}"),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What the launcher says of a rank that is stuck there.
const STAGES: [(&str, &[&str]); 5] = [
    ("init", &["fence of JOB since T s: entered 0, 1, 3; missing 2 (process N, not connected)"]),
    ("fence", &["fence of JOB since T s: entered 0, 1, 3; missing 2 (process N)"]),
    (
        "finalize",
        &["rank 2 (process N): connected, and in no call that waits: computing, or waiting for something else"],
    ),
    ("end", &["rank 2 (process N): finalized, and not ended"]),
    (
        "get",
        &[
            "JOB:0 waits since T s for key never.put of JOB:2 (process N)",
            "JOB:1 waits since T s for key never.put of JOB:2 (process N)",
            "JOB:3 waits since T s for key never.put of JOB:2 (process N)",
            "rank 2 (process N): connected, and in no call that waits: computing, or waiting for something else",
        ],
    ),
];

#[test]
fn the_guilty_rank_is_named_at_each_stage() {
    for (stage, lines) in STAGES {
        // Once all ranks can bear the signal, the launcher is asked until they are where they stay, and then ended.
        let here = "for R in 0 1 2 3; do until test -s $TMPDIR/../own/here.$R; do sleep 0.02; done; done;";
        let is_there = match stage {
            "init" | "fence" => "grep -q 'entered 0, 1, 3;' $ERR",
            "get" => "grep -q 'job:0 waits' $ERR && grep -q 'job:1 waits' $ERR && grep -q 'job:3 waits' $ERR",
            _ => {
                "! kill -0 $(cat $TMPDIR/../own/here.[013]) 2> $TMPDIR/../own/gone && test $(grep -c process $TMPDIR/../own/gone) = 3 && grep -q 'rank 2' $ERR"
            }
        };
        let asked = format!("{here} until {is_there}; do kill -USR1 $P; sleep 0.1; done; kill -INT $P;");
        let ended = stuck("", stage, &asked);
        assert!(ended.stdout.contains("exit: 130\n"), "{stage}: {ended}");
        let told = told(&ended, "SIGINT: ending the job");
        assert_eq!(told, lines, "{stage}: {ended}");
    }
}

#[test]
fn the_end_of_a_jobs_time_says_what_waits() {
    let ended = stuck("--timeout 3", "init", "");
    assert!(ended.stdout.contains("exit: 124\n"), "{ended}");
    assert_eq!(told(&ended, "its limit; ending the ranks that still run (4)"), STAGES[0].1, "{ended}");
}
