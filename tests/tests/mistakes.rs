//! What people get to read for typical mistakes: exit status and the whole of standard error, by `mistakes.tsv`.
//!
//! Its columns are a group, a shell command, the exit status and the lines, with ` / ` between them. In commands `$RUN` is pmixrun, `$CTL`
//! pmixctl, `$STUCK` is a program with PMIx, and the directory has the files below. In lines `D` is that directory, `TMPDIR` the one
//! for temporary files, `HOST` the machine, and `N` a process. `PMIX_TEST_BLESS=1` writes the last two columns anew; read what it has written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{geteuid, gethostname};
use pmix_tests::{Ended, Library, Run, Traces, left_out, pmixrun, program, repository};

/// Files with these texts and modes.
const FILES: [(&str, &str, u32); 6] = [
    ("script", "#!/no/such/interpreter\n", 0o755),
    ("plain", "a text\n", 0o755),
    ("noexec", "a text\n", 0o644),
    ("lib/libpmix.so.2", "no library\n", 0o755),
    ("secret/file", "a text\n", 0o600),
    ("hosts", "localhost\n", 0o644),
];

/// Whatever a group needs at least.
const ROWS_MIN: usize = 6;

/// How a command ended, and the directory for temporary files that it had.
fn ended(directory: &Path, command: &str) -> (Ended, PathBuf) {
    for (name, text, mode) in FILES {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    fs::set_permissions(directory.join("secret"), fs::Permissions::from_mode(0o700)).expect("a mode");
    let traces = Traces::begin();
    let run = Run::new("/bin/sh", Library::ours())
        .traced(&traces)
        .env("RUN", pmixrun())
        .env("CTL", pmixrun().with_file_name("pmixctl"))
        .env("STUCK", program("stuck"))
        .env("D", directory)
        .arg("-c")
        .arg(format!("cd $D; {command}"));
    let ended = run.run();
    traces.assert_none_left(&ended);
    let temporary = traces.directory();
    (ended, temporary)
}

/// What differs from run to run is replaced.
fn normal(text: &str, directory: &Path, temporary: &Path) -> String {
    let host = gethostname().expect("a name").to_string_lossy().into_owned();
    let text = text.replace(&temporary.display().to_string(), "TMPDIR");
    let text = words_replaced(&text.replace(&directory.display().to_string(), "D"), &host, "HOST");
    let mut text = text.replace(&repository().display().to_string(), "SOURCE");
    for before in ["pid ", "process ", "run-HOST-", "server ", "tool ", "client "] {
        text = without(&text, before, |byte| byte.is_ascii_digit());
    }
    text = without(&text, "are needed, ", |byte| byte.is_ascii_digit());
    text = without(&text, "pmixrun.", |byte| byte.is_ascii_hexdigit());
    text = without(&text, "pmix-dstore-", |byte| byte.is_ascii_hexdigit() || byte == b'-');
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}

/// The text with another word in the place of each that stands alone: a host may have the name of a part of a word.
fn words_replaced(text: &str, word: &str, by: &str) -> String {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let (mut made, mut rest) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let (before, after) = (text[..at].as_bytes().last(), text.as_bytes().get(at + word.len()));
        if at >= rest && !is_part(before) && !is_part(after) {
            made += &[&text[rest..at], by].concat();
            rest = at + word.len();
        }
    }
    made + &text[rest..]
}

/// The text with `N` for a number of these digits after each `before`.
fn without(text: &str, before: &str, is_digit: impl Fn(u8) -> bool) -> String {
    let mut parts = text.split(before);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let len = part.bytes().take_while(|byte| is_digit(*byte)).count();
        let number = if len > 0 { "N" } else { "" };
        made += &[before, number, &part[len..]].concat();
    }
    made
}

#[test]
fn mistakes_are_told_with_what_to_do_next() {
    let path = repository().join("tests/tests/mistakes.tsv");
    let table = fs::read_to_string(&path).expect("the table");
    let is_blessed = std::env::var_os("PMIX_TEST_BLESS").is_some();
    let (mut blessed, mut wrong) = (String::new(), String::new());
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for row in table.lines() {
        let mut columns = row.split('\t');
        let (group, command) = (columns.next().unwrap_or_default(), columns.next().expect("a command"));
        *groups.entry(group).or_default() += 1;
        if command.contains("setpriv") && !geteuid().is_root() {
            left_out("root", format_args!("only root can act as another user: {command}"));
            blessed += &format!("{row}\n");
            continue;
        }
        let directory = tempfile::tempdir().expect("a directory");
        // Another user may come here.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let (ended, temporary) = ended(directory.path(), command);
        let lines = normal(&ended.stderr, directory.path(), &temporary);
        let told = format!("{group}\t{command}\t{}\t{lines}", ended.code());
        if told != row {
            wrong += &format!("expected {row}\n     got {told}\n\n");
        }
        blessed += &format!("{told}\n");
    }
    if is_blessed {
        fs::write(&path, blessed).expect("the table");
        return;
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(groups.values().all(|count| *count >= ROWS_MIN), "{groups:?}");
}
