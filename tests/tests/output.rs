//! Output of processes, and input for them, between a host and tools, with our library on both sides or on one and
//! Debian's on the other. The host receives the input for its process, and the process echoes it.

use pmix_tests::{Ended, Library, Traces, beside_host, program};

/// Server and tool: ours on both sides or on one.
fn pairs() -> [(Library, Library); 3] {
    [(Library::ours(), Library::ours()), (Library::ours(), Library::Stock), (Library::Stock, Library::ours())]
}

/// Runs `tests/programs/tool.c` with these words.
fn tool(server: Library, library: Library, words: &str) -> Ended {
    let traces = Traces::begin();
    let (directory, program) = (library.directory(), program("tool"));
    let line = format!("LD_LIBRARY_PATH={} {} --pid $PPID {words}", directory.display(), program.display());
    let ended = beside_host(server, &traces, "--tools name", &line);
    assert_eq!(lines(&ended, "init: 0").len(), 1, "{ended}");
    ended
}

/// The lines of the tool that begin with `start`.
fn lines<'a>(ended: &'a Ended, start: &str) -> Vec<&'a str> {
    ended.stdout.lines().filter(|line| line.starts_with(start)).collect()
}

/// The received output, without the number of the pull.
fn taken(ended: &Ended) -> Vec<&str> {
    ended.stdout.lines().filter_map(|line| line.split_once(" took ")).map(|(_, taken)| taken.trim_end()).collect()
}

#[test]
fn output_reaches_its_puller_with_earlier_output() {
    for (server, library) in pairs() {
        let ended = tool(
            server,
            library,
            "say=test-job:0:first 'say=test-job:0:!second' say=test-job:1:other pull=test-job:0 take=2 \
             say=test-job:0:third take=3 stop say=test-job:0:fourth pull=test-job:4294967294 take=5",
        );
        let expected = [
            "of 2 from test-job:0: first",
            "of 4 from test-job:0: !second",
            "of 2 from test-job:0: third",
            "of 2 from test-job:1: other",
            "of 2 from test-job:0: fourth",
        ];
        assert_eq!(taken(&ended), expected, "{ended}");
        assert_eq!(lines(&ended, "say: 0").len(), 5, "{ended}");
        assert_eq!(lines(&ended, "pull: -").len() + lines(&ended, "pull: 0").len(), 0, "{ended}");
        assert_eq!(lines(&ended, "stop: "), ["stop: 0"], "{ended}");
        let told = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).count();
        assert_eq!(
            told(": pull of 1, first test-job:0, channels 6, given"),
            1 + usize::from(server.is_ours()),
            "{ended}"
        );
        assert_eq!(told("pmix.iof.stop"), 1, "{ended}");
    }
}

/// By size, at the end of the pull, by time, and with a cache that is too small.
#[test]
fn output_is_held_back_as_a_pull_says() {
    let words = "buffer=test-job:0:12:0:0: say=test-job:0:one say=test-job:0:two say=test-job:0:six take=1 say=test-job:0:rest cease \
                 buffer=test-job:0:1000:1:0: say=test-job:0:by say=test-job:0:time take=3 cease \
                 buffer=test-job:0:1000:0:5:pmix.iof.old say=test-job:0:lost say=test-job:0:kept cease \
                 buffer=test-job:0:1000:0:5:pmix.iof.new say=test-job:0:kept say=test-job:0:lost cease";
    let ended = tool(Library::ours(), Library::ours(), words);
    let ids: Vec<i64> = lines(&ended, "pull: ").iter().map(|line| line[6..].parse().unwrap()).collect();
    let got = |at: usize, text: &str| format!("{} took of 2 from test-job:0: {text}", ids[at]);
    let expected = [
        got(0, "one"),
        "two".into(),
        "six".into(),
        got(0, "rest"),
        "cease: 0".into(),
        got(1, "by"),
        "time".into(),
        "cease: 0".into(),
        got(2, "kept"),
        "cease: 0".into(),
        got(3, "kept"),
        "cease: 0".into(),
    ];
    let is_ours = |line: &&str| {
        !["init", "me", "say", "pull", "taken", "finalize"].iter().any(|word| line.starts_with(&format!("{word}: ")))
    };
    let found: Vec<&str> = ended.stdout.lines().filter(is_ours).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, expected, "{ended}");
    assert_eq!(lines(&ended, "taken: "), ["taken: 1", "taken: 3"], "{ended}");

    // A stock server does not know of it.
    let ended = tool(Library::Stock, Library::ours(), "buffer=test-job:0:12:0:0:");
    assert_eq!(lines(&ended, "pull: "), ["pull: -47"], "{ended}");
}

#[test]
fn a_pull_may_be_refused_and_ends_once() {
    for (server, library) in pairs() {
        let ended = tool(server, library, "pull=nobody:0 pull=test-job:0 stop stop stop=77");
        let (refused, number) = lines(&ended, "pull: ").split_first().map(|(a, b)| (*a, b.len())).unwrap();
        assert_eq!((refused, number), ("pull: -46", 1), "{ended}");
        assert_eq!(lines(&ended, "stop: "), ["stop: 0", "stop: -27", "stop: -27"], "{ended}");
    }
}

/// Each line has the requested tag. The pull with a handler is the second: the library has written its output before.
#[test]
fn the_library_writes_output_without_a_handler() {
    for server in [Library::ours(), Library::Stock] {
        let words = "show=test-job:0:pmix.iof.tag show=test-job:0:pmix.iof.xml pull=test-job:0 \
                     'say=test-job:0:a<b' take=1 say=test-job:0:last take=2";
        let ended = tool(server, Library::ours(), words);
        for text in ["a<b", "last"] {
            assert_eq!(lines(&ended, &format!("[test-job,0]<stdout>: {text}")).len(), 1, "{ended}");
        }
        assert_eq!(lines(&ended, "<stdout rank=\"0\">a&lt;b&#010;</stdout>").len(), 1, "{ended}");
    }
}

#[test]
fn input_reaches_the_host() {
    for (server, library) in pairs() {
        let words = "pull=test-job:0 input=test-job:0:text take=1 'input=test-job:0:!more' take=2";
        let ended = tool(server, library, words);
        assert_eq!(taken(&ended), ["of 2 from test-job:0: text", "of 4 from test-job:0: !more"], "{ended}");
        let told =
            ended.stderr.lines().filter(|line| line.contains(": input of ") && line.contains(" from tool-1:0 for 1,"));
        assert_eq!(told.count(), 2, "{ended}");
    }
}

/// A tool forwards its input and then the end of file; under back-pressure it waits.
#[test]
fn a_tool_collects_its_input() {
    for server in [Library::ours(), Library::Stock] {
        let first = if server.is_ours() { "~one" } else { "one" };
        let traces = Traces::begin();
        let (directory, program) = (Library::ours().directory(), program("tool"));
        // The second line is written when the first one has arrived.
        let line = format!(
            "go=$PMIX_SYSTEM_TMPDIR/go; mkfifo $go; {{ echo '{first}'; read line <$go; echo two; }} | LD_LIBRARY_PATH={} {} \
             --pid $PPID pull=test-job:0 stdin=test-job:0 take=3 | while read line; do echo \"$line\"; \
             case \"$line\" in *one) echo >$go ;; esac; done; rm $go",
            directory.display(),
            program.display()
        );
        let ended = beside_host(server, &traces, "--tools name", &line);
        let expected = [
            format!("of 2 from test-job:0: {first}"),
            "of 2 from test-job:0: two".into(),
            "of 2 from test-job:0:".into(),
        ];
        assert_eq!(taken(&ended), expected, "{ended}");
        let resumed = ended.stderr.lines().filter(|line| line.contains(": resume: ")).count();
        assert_eq!(resumed, usize::from(server.is_ours()), "{ended}");
        let said = ended.stderr.lines().filter(|line| line.contains("input of ") && line.contains("pmix.iof.stdin"));
        assert_eq!(said.count(), 3, "{ended}");
    }
}

/// After the library has stopped forwarding stdin, the tool itself reads further input.
#[test]
fn a_tool_keeps_its_input_again() {
    const LINES: usize = 20;
    let traces = Traces::begin();
    let (directory, program) = (Library::ours().directory(), program("tool"));
    let line = format!(
        "go=$PMIX_SYSTEM_TMPDIR/go; mkfifo $go; {{ echo first; read line <$go; for line in $(seq {LINES}); do echo own; done; }} | \
         LD_LIBRARY_PATH={} {} --pid $PPID pull=test-job:0 stdin=test-job:0 take=1 keep | \
         while read line; do echo \"$line\"; case \"$line\" in *complete*) echo >$go ;; esac; done; rm $go",
        directory.display(),
        program.display()
    );
    let ended = beside_host(Library::ours(), &traces, "--tools name", &line);
    assert_eq!(taken(&ended), ["of 2 from test-job:0: first"], "{ended}");
    assert_eq!(lines(&ended, "complete: "), ["complete: -157"], "{ended}");
    assert_eq!(lines(&ended, "kept: "), [format!("kept: {LINES}")], "{ended}");
}

#[test]
fn a_tool_becomes_a_server() {
    let ended = tool(Library::ours(), Library::ours(), "serve get=test-job:4294967294:pmix.job.size");
    assert_eq!(lines(&ended, "serve: "), ["serve: 0 -157 -157 0, named after the tool: 1"], "{ended}");
    assert_eq!(lines(&ended, "get pmix.job.size: 0, 1").len(), 1, "{ended}");
    assert_eq!(lines(&ended, "finalize: 0").len(), 1, "{ended}");
}
