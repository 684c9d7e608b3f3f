//! `pmixctl top` in a terminal that tmux provides.

use std::process::Command;

use pmix_tests::{Library, Traces, beside_job, left_out, pmixrun};

/// A job of two ranks with `top` in a terminal, whose script goes on with `script`. There, `screen` prints the terminal, and
/// `until_shown WORDS` waits for a text in it.
fn in_terminal(script: &str) -> Option<String> {
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
         until_shown 'q is pressed\\|running';",
        pmixctl = pmixctl.display()
    );
    let traces = Traces::begin();
    let ranks = "sh -c 'echo here > $TMPDIR/../own/here.$PMIX_RANK; . $WAIT'";
    let end = "terminal kill-server;";
    let ended = beside_job(Library::ours(), &traces, &format!("-n 2 {ranks}"), &format!("{begin} {script} {end}"));
    Some(ended.stdout)
}

#[test]
fn ranks_are_shown_live_until_the_user_ends_it() {
    let script = "screen; pmixctl pause --pid $P $J 1; until_shown stopped; screen; pmixctl resume --pid $P $J 1; \
                  terminal send-keys q; until_shown 'ended: 0'; until_shown 'icanon'; screen;";
    let Some(shown) = in_terminal(script) else { return };
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
    let Some(shown) = in_terminal("terminal send-keys C-c; until_shown 'ended: 0'; echo interrupted;") else { return };
    assert!(shown.contains("interrupted"), "{shown}");
    let Some(shown) = in_terminal("pmixctl kill --pid $P $J; until_shown 'ended: 1'; screen;") else { return };
    assert!(shown.contains("pmixctl: the server has ended"), "{shown}");
}
