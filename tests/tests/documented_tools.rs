//! The examples of docs/tools.md: each command prints what stands there.
//!
//! All run beside one job of `pmixrun`; those that name `job.uri` or `steps-` beside a second one, whose ranks record their steps. What differs between runs and machines is replaced: process numbers, the host's name,
//! directories, sizes. Runs of blanks count as one, since columns are as wide as their contents.
//! `PMIX_TEST_BLESS=1` writes the document's outputs anew.

use std::collections::BTreeMap;
use std::fs;

use pmix_tests::{Library, Traces, beside_job, pmixrun, program, repository};

/// A command of the document and its output there.
struct Example {
    command: String,
    output: String,
}

/// The document's blocks of commands, in order.
fn examples(document: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut is_inside = false;
    for line in document.lines() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => is_inside = line == "```console",
            Some(command) if is_inside => found.push(Example { command: command.into(), output: String::new() }),
            _ if is_inside => {
                let example = found.last_mut().expect("a block begins with a command");
                example.output += &format!("{line}\n");
            }
            _ => {}
        }
    }
    found
}

/// The document with other outputs.
fn with_outputs(document: &str, outputs: &[String]) -> String {
    let (mut text, mut outputs, mut is_inside) = (String::new(), outputs.iter(), false);
    for line in document.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && !line.starts_with("$ ") {
            continue;
        }
        text += &format!("{line}\n");
        if is_inside && line.starts_with("$ ") {
            text += outputs.next().expect("an output for each command");
        }
    }
    text
}

/// Where the outputs of two commands meet.
const END: &str = "--- end of output";

/// Starts the second job, in a directory of its own, in which the first job's tools do not look for servers. Rank 1 waits in a fence for
/// rank 0. `$Q` is its pmixrun; its commands are run in the directory `$D`.
fn recorded_job() -> String {
    let rank = "echo $$ > $D/pid.$PMIX_RANK; ln -sf $(dirname $PMIX_DSTORE_SEGMENTS)/steps-1 $(dirname $PMIX_DSTORE_SEGMENTS)/gets-1 $D; exec";
    format!(
        "export D=$(cd $TMPDIR/../own; pwd)/second; mkdir $D; echo > $D/gate; \
         PMIX_DSTORE_RECORD=1 PMIX_DSTORE_STATS=1 $RUN --tmpdir $D --report-uri $D/job.uri -n 2 sh -c '{rank} {} --between \"while test -e $D/gate; do sleep 0.02; done\"' \
         > $D/output & Q=$!; echo pmixrun: $Q; \
         for rank in 0 1; do while test ! -s $D/pid.$rank; do sleep 0.02; done; echo rank: $(cat $D/pid.$rank); done; \
         until test -s $D/job.uri && {} doctor --uri file:$D/job.uri | grep -q 'since [1-9]'; do kill -0 $Q || exit 1; sleep 0.1; done; ",
        program("recorded").display(),
        pmixrun().with_file_name("pmixctl").display()
    )
}

/// The script that runs all commands. `$P` is pmixrun, `$H` the host.
fn script(examples: &[Example]) -> String {
    let pmixctl = pmixrun().with_file_name("pmixctl");
    let mut script = format!(
        "H=$(hostname -s); pmixctl() {{ {} \"$@\"; }}; echo host: $H; echo pmixrun: $P; \
         for rank in 0 1; do while test ! -s $TMPDIR/../own/pid.$rank; do sleep 0.02; done; \
         echo rank: $(cat $TMPDIR/../own/pid.$rank); done; {} \
         {} --pid $P publish=colour >/dev/null; echo '{END}'; ",
        pmixctl.display(),
        recorded_job(),
        program("tool").display()
    );
    for Example { command, .. } in examples {
        let command = command.replace("40711", "$P").replace("-n1-", "-$H-");
        if command.starts_with("pmixctl events") {
            let notify = "pmixctl notify --event PMIX_EVENT_NODE_DOWN PMIX_HOSTNAME=n7; sleep 0.1";
            script +=
                &format!("{{ {command}; }} 2>&1 & E=$!; while kill -0 $E 2>/dev/null; do {notify}; done; wait $E; ");
        } else if command.contains("job.uri") || command.contains("steps-") || command.contains("gets-") {
            script += &format!("(cd $D; {command}) 2>&1; ");
        } else {
            script += &format!("{{ {command}; }} 2>&1; ");
        }
        script += &format!("echo '{END}'; ");
    }
    script + "rm $D/gate; wait $Q; "
}

/// The output with the document's names and numbers.
fn as_documented(output: &str, replacements: &BTreeMap<String, String>) -> String {
    let mut text = output.to_owned();
    // The longest first: one number may begin another.
    let mut names: Vec<_> = replacements.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, documented) in names {
        text = with_word_replaced(&text, name, documented);
    }
    text.lines().map(|line| line_as_documented(line) + "\n").collect()
}

/// Replaces a text where it is no part of a longer word.
fn with_word_replaced(text: &str, word: &str, by: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let is_part = before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        done += before;
        done += if is_part && word.chars().all(char::is_alphanumeric) { word } else { by };
        rest = after;
    }
    done + rest
}

/// A line in which sizes and the tools' numbers are the document's.
fn line_as_documented(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 0..words.len() {
        if at > 0 && words[at] == "MiB" {
            words[at - 1] = "1.7".into();
        }
        if at > 0 && words[at] == "KiB" {
            words[at - 1] = "196".into();
        }
        // Calls took a part of a second, and are some seconds old.
        let unit = words[at].trim_end_matches([';', ',', ':']);
        if at > 0 && matches!(unit, "s" | "ms") && words[at - 1].contains('.') {
            let is_part = unit == "ms" || words[at - 1].starts_with("0.");
            let rest = words[at][unit.len()..].to_owned();
            words[at - 1] = if is_part { "0.2" } else { "4.0" }.into();
            words[at] = format!("{}{rest}", if is_part { "ms" } else { "s" });
        }
        // What `top` says of a wait, in whole seconds.
        if at > 0 && words[at] == "s" && words[at - 1].bytes().all(|byte| byte.is_ascii_digit()) {
            words[at - 1] = "4".into();
        }
        if at > 0 && words[at - 1] == "\"memory_kib\":" {
            words[at] = "1700,".into();
        }
        if let Some((_, rest)) = words[at].split_once("/pmixrun.") {
            // The launcher's directory has a random name, in one of the test's.
            let end = rest.find('/').map_or("", |end| &rest[end..]);
            words[at] = format!("/tmp/pmixrun.821847d285759234{end}");
        }
        if let Some(start) = words[at].find(".tool-") {
            let end = words[at][start..].find(':').map_or(words[at].len(), |end| start + end);
            words[at].replace_range(start..end, ".tool-1");
        }
    }
    words.join(" ")
}

fn with_single_blanks(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn examples_print_what_stands_in_the_document() {
    let path = repository().join("docs/tools.md");
    let document = fs::read_to_string(&path).expect("the document");
    let examples = examples(&document);
    assert!(examples.len() > 10, "the document has examples");
    let traces = Traces::begin();
    let job = "-n 2 sh -c 'echo $$ > $TMPDIR/../own/pid.$PMIX_RANK; . $WAIT'";
    let ended = beside_job(Library::ours(), &traces, job, &script(&examples));
    let end = format!("{END}\n");
    let mut outputs = ended.stdout.split(&end);
    let mut replacements = BTreeMap::new();
    let mut number = 40711;
    for line in outputs.next().expect("the names").lines() {
        match line.split_once(": ").expect("a name") {
            ("host", host) => drop(replacements.insert(host.to_owned(), "n1".to_owned())),
            (_, pid) => {
                replacements.insert(pid.to_owned(), number.to_string());
                number += 1;
            }
        }
    }
    let tools = pmixrun();
    let prefix = tools.parent().and_then(|bin| bin.parent()).expect("a directory");
    replacements.insert(format!("{}/", tools.parent().expect("a directory").display()), "/opt/pmix-dstore/bin/".into());
    replacements.insert(
        format!("{}/lib/libpmix.so.2 (not there)", prefix.display()),
        "/opt/pmix-dstore/lib/libpmix.so.2".into(),
    );
    replacements.insert(
        Library::Stock.file().display().to_string(),
        "/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2.6.2".into(),
    );
    replacements.insert(" /bin/sh".into(), " /usr/bin/sh".into());
    replacements.insert("\"/bin/sh\"".into(), "\"/usr/bin/sh\"".into());
    replacements.insert(Library::ours().file().display().to_string(), "/opt/pmix-dstore/lib/libpmix.so.2".into());
    let outputs: Vec<String> =
        outputs.take(examples.len()).map(|output| as_documented(output, &replacements)).collect();
    if std::env::var_os("PMIX_TEST_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, with_outputs(&document, &outputs)).expect("the document");
        return;
    }
    for (example, output) in examples.iter().zip(&outputs) {
        assert_eq!(with_single_blanks(output), with_single_blanks(&example.output), "{}", example.command);
    }
    assert_eq!(outputs.len(), examples.len(), "{ended}");
}
