//! `pmixctl top` in a terminal that tmux provides.

use std::process::Command;

use pmix_tests::{Library, Traces, beside_job, left_out, pmixrun, program};

/// A job of two `ranks` with `top` in a terminal, whose script goes on with `script`. There, `screen` prints the terminal, and
/// `until_shown WORDS` waits for a text in it.
fn in_terminal(ranks: &str, script: &str) -> Option<String> {
    if Command::new("tmux").arg("-V").output().is_err() {
        left_out("packages", "tmux is not installed");
        return None;
    }
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let begin = format!(
        "OWN=$TMPDIR/../own; pmixctl() {{ {pmixctl} \"$@\"; }}; terminal() {{ tmux -S $OWN/tmux -f /dev/null \"$@\"; }}; \
         screen() {{ terminal capture-pane -p; }}; until_shown() {{ until screen | grep -q \"$1\"; do sleep 0.05; done; }}; \
         for rank in 0 1; do while test ! -s $OWN/here.$rank; do sleep 0.02; done; done; \
         terminal new-session -d -x 150 -y 30 \"{pmixctl} top --pid $P --interval 0.2; echo ended: \\$?; stty -a; sleep 60\"; \
         until_shown 'VALUES BY';",
        pmixctl = pmixctl.display()
    );
    let traces = Traces::begin();
    let end = "terminal kill-server;";
    let ended = beside_job(Library::ours(), &traces, ranks, &format!("{begin} {script} {end}"));
    Some(ended.stdout)
}

/// Ranks that wait.
const RANKS: &str = "-n 2 sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; . $WAIT'";

#[test]
fn ranks_are_shown_live_until_the_user_ends_it() {
    let script = "screen; pmixctl pause --pid $P $J 1; until_shown stopped; screen; pmixctl resume --pid $P $J 1; \
                  terminal send-keys q; until_shown 'ended: 0'; until_shown 'icanon'; screen;";
    let Some(shown) = in_terminal(RANKS, script) else { return };
    assert!(shown.contains("1 job, 2 ranks, 1 tool; segments "), "{shown}");
    let states = |word: &str| shown.lines().filter(|line| line.contains(".job ") && line.contains(word)).count();
    assert_eq!((states(" running "), states(" stopped ")), (3, 1), "{shown}");
    // The terminal is as before: the other screen is gone, lines are edited and echoed.
    let after = shown.split("ended: 0").nth(1).unwrap_or_default();
    assert!(after.contains(" icanon") && after.contains(" echo "), "{shown}");
    assert!(!after.contains("-echo ") && !after.contains("MEMORY"), "{shown}");
}

#[test]
fn an_interrupt_and_the_end_of_the_server_end_it() {
    let Some(shown) = in_terminal(RANKS, "terminal send-keys C-c; until_shown 'ended: 0'; echo interrupted;") else {
        return;
    };
    assert!(shown.contains("interrupted"), "{shown}");
    let Some(shown) = in_terminal(RANKS, "pmixctl kill --pid $P $J; until_shown 'ended: 1'; screen;") else { return };
    assert!(shown.contains("pmixctl: the server has ended"), "{shown}");
}

#[test]
fn gets_are_shown_by_class_and_source_while_ranks_run() {
    let ranks = format!(
        "sh -c 'export PMIX_DSTORE_STATS=$((1 - $PMIX_RANK / 2)); dirname $PMIX_DSTORE_SEGMENTS > $TMPDIR/../own/outer; \
         echo here > $TMPDIR/../own/here.$PMIX_RANK; exec {} --between \". $WAIT\"'",
        program("recorded").display()
    );
    // The third rank counts nothing; what lies in its file's place is another process's.
    let script = "until_shown 'put by others  *2 '; screen; cp $(cat $OWN/outer)/gets-1 $(cat $OWN/outer)/gets-2; echo json:; pmixctl top --json --pid $P; \
                  echo file:; pmixctl inspect $(cat $OWN/outer)/gets-1; pmixctl inspect --json $(cat $OWN/outer)/gets-1;";
    let Some(shown) = in_terminal(&format!("-n 3 {ranks}"), script) else { return };
    let row = |columns: &[&str]| {
        let is_row =
            |line: &&str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).eq(columns.iter().copied());
        shown.lines().filter(is_row).count()
    };
    let titles = ["GETS OF KEYS", "ALL", "OWN VALUES", "JOB SEGMENT", "MODEX SEGMENT", "NOT FOUND"];
    assert_eq!(row(&titles), 2, "{shown}");
    for (class, [of_two, of_one]) in [
        ("job", [["2", "0", "2", "0", "0"], ["1", "0", "1", "0", "0"]]),
        ("own process", [["2", "2", "0", "0", "0"], ["1", "1", "0", "0", "0"]]),
        ("reserved, of others", [["2", "0", "2", "0", "0"], ["1", "0", "1", "0", "0"]]),
        ("put by others", [["2", "0", "0", "2", "0"], ["1", "0", "0", "1", "0"]]),
    ] {
        for numbers in [of_two, of_one] {
            assert_eq!(row(&[&[class], &numbers[..]].concat()), 1, "{class}: {shown}");
        }
    }
    assert!(shown.contains("1 rank does not count its Gets, or its file cannot be read"), "{shown}");
    let (_, json) = shown.split_once("json:").expect("JSON");
    let json = json.split("file:").next().unwrap_or_default();
    assert_eq!(json.matches("\"modex_segment\": 1").count(), 2, "{shown}");
    assert_eq!(json.matches("\"gets\": null").count(), 1, "{shown}");
    assert_eq!(shown.matches("\"put_by_others\"").count(), 3, "{shown}");
}
