//! Leftovers of a test: files, processes, and resources of processes that keep running.
//!
//! A test takes [`Traces`] at its start, runs its commands with [`Run::traced`](crate::Run::traced), and asserts at the
//! end that nothing is left. The commands have a directory of their own for temporary files. Around and in it are
//! canaries, which must stay unchanged. The commands also have an environment variable that all their descendants
//! inherit. By it the test finds its own processes, and only these, in any session or group.
//!
//! [`Living`] is for an attacked process that keeps running: it may hold no more resources afterwards than before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::{Debug, Display, Write};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::deadline::Deadline;

/// The environment variable that marks processes of a test.
pub(crate) const MARK: &str = "TRACED_BY";
/// The time that a leftover may take to disappear. A killed process does not end at once, and machines are slow. A
/// leftover after this time is permanent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `attempt` until it returns `None`. After [`PATIENCE`], returns its last answer.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let mut deadline = Deadline::new(PATIENCE);
    loop {
        let answer = attempt()?;
        if !deadline.pause() {
            return Some(answer);
        }
    }
}

/// The state before a test, and the marks by which leftovers are found afterwards.
#[derive(Debug)]
pub struct Traces {
    /// Holds the canaries, the directory for temporary files, and the test's own directory.
    home: TempDir,
    mark: String,
    canaries: BTreeMap<PathBuf, Canary>,
    elsewhere: BTreeSet<PathBuf>,
}

impl Traces {
    /// Makes the directories and the canaries.
    ///
    /// # Panics
    /// If that fails.
    pub fn begin() -> Traces {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let home = tempfile::Builder::new().prefix("traces-").tempdir().expect("a temporary directory");
        let mut traces = Traces { home, mark, canaries: BTreeMap::new(), elsewhere: elsewhere() };
        for directory in [traces.directory(), traces.own()] {
            fs::create_dir(directory).expect("a directory");
        }
        for place in [traces.home.path().to_owned(), traces.directory()] {
            // Some have names in the form of the library's and the launcher's: a name alone must not make them remove a
            // file.
            for name in ["canary", "pmixrun.0123456789abcdef/job/canary", "pmix-dstore-canary-0/0/segment-0"] {
                let file = place.join(name);
                fs::create_dir_all(file.parent().unwrap_or(&place)).expect("a directory");
                fs::write(&file, "alive").expect("a canary");
            }
            symlink("canary", place.join("canary-link")).expect("a canary");
        }
        traces.canaries = traces.look_at_canaries();
        traces
    }

    /// The directory for temporary files: the `TMPDIR` of the test's commands.
    pub fn directory(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    /// A directory for files of the test itself. Leftovers in it are allowed.
    pub fn own(&self) -> PathBuf {
        self.home.path().join("own")
    }

    /// The value of the variable [`MARK`] in the test's commands.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// The running processes of this test: their numbers and command lines.
    pub fn processes(&self) -> BTreeMap<u32, String> {
        let marked = format!("{MARK}={}", self.mark);
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // If the environment is unreadable, the process belongs to another user or has just ended. Neither is of
            // this test.
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes()) {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.insert(pid, String::from_utf8_lossy(&words).replace('\0', " "));
            }
        }
        found
    }

    /// Asserts that no process and no file of this test remains and that the canaries are unchanged. Waits for processes that are
    /// ending. A failure shows `context`, usually the command's output.
    ///
    /// # Panics
    /// If something remains or a canary has changed.
    pub fn assert_none_left(&self, context: impl Display) {
        self.assert_no_process_left(&context);
        let files = patiently(|| Some(self.files()).filter(|found| !found.is_empty()));
        assert!(files.is_none(), "files are left: {files:?}\n{context}");
        assert_same("canaries", &self.canaries, &self.look_at_canaries(), &context);
    }

    /// Asserts that no process of this test remains; files may.
    ///
    /// # Panics
    /// If one remains.
    pub fn assert_no_process_left(&self, context: impl Display) {
        let processes = patiently(|| Some(self.processes()).filter(|found| !found.is_empty()));
        assert!(processes.is_none(), "processes are left: {processes:?}\n{context}");
    }

    /// What remains of this test's processes and files after `patience`; none if nothing does and the canaries are unchanged.
    pub fn remains(&self, patience: Duration) -> Option<String> {
        let mut deadline = Deadline::new(patience);
        loop {
            let (processes, files) = (self.processes(), self.files());
            if processes.is_empty() && files.is_empty() {
                let changed = self.canaries != self.look_at_canaries();
                return changed.then(|| "canaries have changed".to_owned());
            }
            if !deadline.pause() {
                return Some(format!("processes {processes:?}, files {files:?}"));
            }
        }
    }

    /// New files among the canaries, and files elsewhere with our names.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found: BTreeSet<PathBuf> =
            self.look_at_canaries().into_keys().filter(|path| !self.canaries.contains_key(path)).collect();
        let new: Vec<PathBuf> = elsewhere().difference(&self.elsewhere).cloned().collect();
        if !new.is_empty() {
            // No process of this test is left, so an open file belongs to another job, which need not be a test.
            let open = open_files();
            found.extend(
                new.into_iter().filter(|path| !open.iter().any(|file| file.starts_with(path.as_os_str().as_bytes()))),
            );
        }
        found
    }

    fn look_at_canaries(&self) -> BTreeMap<PathBuf, Canary> {
        let mut seen = BTreeMap::new();
        let ours = [self.directory(), self.own()];
        let mut directories = vec![self.home.path().to_owned(), self.directory()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                // Do not compare directories: they change with their contents.
                if ours.contains(&path) {
                    continue;
                }
                let Some(canary) = Canary::look(&path) else { continue };
                if canary.is_directory() {
                    directories.push(path.clone());
                }
                seen.insert(path, canary);
            }
        }
        seen
    }
}

/// The open files of all processes that this user may inspect.
fn open_files() -> Vec<Vec<u8>> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let descriptors = processes.flat_map(|process| fs::read_dir(process.path().join("fd"))).flatten().flatten();
    let files = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    files.map(|path| path.into_os_string().into_vec()).collect()
}

/// Files with names of ours in the directories that all processes of this machine share. The random end of a job
/// directory's name is left out: a job that had files before has others now, and is not of this test.
fn elsewhere() -> BTreeSet<PathBuf> {
    let is_ours = |name: &OsString| [&b"pmixrun."[..], b"pmix-dstore-"].iter().any(|p| name.as_bytes().starts_with(p));
    let shared = [std::env::temp_dir(), "/dev/shm".into()];
    let entries = shared.iter().flat_map(fs::read_dir).flatten().flatten();
    let ours = entries.filter(|entry| is_ours(&entry.file_name())).map(|entry| entry.path());
    ours.map(|path| path.to_str().and_then(|path| path.rsplit_once('-')).map_or(path.clone(), |(job, _)| job.into()))
        .collect()
}

/// The properties of a file that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Canary {
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
}

impl Canary {
    fn look(path: &Path) -> Option<Canary> {
        let status = fs::symlink_metadata(path).ok()?;
        let content = if status.is_symlink() {
            fs::read_link(path).ok()?.into_os_string().as_bytes().to_vec()
        } else if status.is_file() {
            fs::read(path).ok()?
        } else {
            Vec::new()
        };
        Some(Canary {
            inode: status.ino(),
            mode: status.mode(),
            owner: (status.uid(), status.gid()),
            modified: (status.mtime(), status.mtime_nsec()),
            changed: (status.ctime(), status.ctime_nsec()),
            content,
        })
    }

    fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// A process that keeps running while it is attacked, usually a server.
#[derive(Debug)]
pub struct Living {
    pid: u32,
    before: Held,
}

impl Living {
    /// Records the resources of the process `pid`.
    pub fn watch(pid: u32) -> Living {
        Living { pid, before: Held::by(pid) }
    }

    /// Asserts that the process holds no more descriptors, threads and mappings of files than before. Gives it time to
    /// notice that its peers have closed their connections.
    ///
    /// # Panics
    /// If it holds more, or has ended.
    pub fn assert_holds_no_more(&self) {
        let more = patiently(|| Held::by(self.pid).more_than(&self.before));
        assert!(more.is_none(), "process {} holds more than before:\n{}", self.pid, more.unwrap_or_default());
    }
}

/// Amounts of resources that a process holds, by name. Files are identified by device and inode: a name may be changed or
/// removed.
#[derive(Debug)]
struct Held(BTreeMap<String, (usize, String)>);

impl Held {
    fn by(pid: u32) -> Held {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut held = BTreeMap::new();
        let mut count = |what: String, name: &str| {
            held.entry(what).or_insert_with(|| (0, name.to_owned())).0 += 1;
        };
        let descriptors = fs::read_dir(process.join("fd")).unwrap_or_else(|error| panic!("process {pid}: {error}"));
        for descriptor in descriptors.flatten().map(|entry| entry.path()) {
            let Ok(target) = fs::read_link(&descriptor) else { continue };
            let target = target.to_string_lossy();
            match fs::metadata(&descriptor) {
                Ok(file) if target.starts_with('/') => {
                    count(format!("descriptor {}:{}", file.dev(), file.ino()), &format!("descriptor {target}"));
                }
                // Sockets and pipes have unique numbers: count them by kind.
                _ => {
                    let kind = format!("descriptor {}", target.split_once(":[").map_or(&*target, |(kind, _)| kind));
                    count(kind.clone(), &kind);
                }
            }
        }
        for _ in fs::read_dir(process.join("task")).into_iter().flatten() {
            count("thread".into(), "thread");
        }
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        // Long published values are only in their segment, which the server maps once. A removed segment has no name.
        let mut published = BTreeSet::new();
        let mut is_published = |name: &str| {
            name.contains("/s/segment-") && !name.ends_with(" (deleted)") && published.insert(name.to_owned())
        };
        for (line, at) in maps.lines().filter_map(|line| Some((line, line.find('/')?))) {
            if is_published(&line[at..]) {
                continue;
            }
            // Range, rights and offset precede the device's and the file's number.
            let numbers: Vec<&str> = line[..at].split_whitespace().skip(3).collect();
            count(format!("mapping {}", numbers.join(":")), &format!("mapping {}", &line[at..]));
        }
        Held(held)
    }

    /// The resources that have grown, a line for each.
    fn more_than(&self, before: &Held) -> Option<String> {
        let mut lines = String::new();
        for (what, (count, name)) in &self.0 {
            let earlier = before.0.get(what).map_or(0, |(count, _)| *count);
            if *count > earlier {
                // Writing to a string does not fail.
                let _ = writeln!(lines, "{name}: {earlier} before, {count} now");
            }
        }
        Some(lines).filter(|lines| !lines.is_empty())
    }
}

/// Asserts that two maps are equal, and names the differences.
fn assert_same<T: PartialEq + Debug>(
    what: &str,
    before: &BTreeMap<PathBuf, T>,
    after: &BTreeMap<PathBuf, T>,
    context: &impl Display,
) {
    for (path, then) in before {
        let now = after.get(path);
        assert!(now == Some(then), "{what}: {} was {then:?} and is {now:?}\n{context}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{Library, Run};

    fn shell(traces: &Traces, script: &str) {
        Run::new("/bin/sh", Library::ours()).traced(traces).arg("-c").arg(script).succeed();
    }

    #[test]
    fn touched_and_leftover_files_are_found() {
        let traces = Traces::begin();
        shell(&traces, "echo > $TMPDIR/passing; rm $TMPDIR/passing");
        traces.assert_none_left("");
        let look = || traces.look_at_canaries();
        for script in [
            "cd $TMPDIR/..; echo dead > canary",
            "cd $TMPDIR/..; touch -r canary x; echo ALIVE > canary; touch -r x canary; rm x",
            "cd $TMPDIR; chmod 600 canary",
            "cd $TMPDIR; ln -sf /etc/passwd canary-link",
            "cd $TMPDIR; rm pmixrun.0123456789abcdef/job/canary",
        ] {
            let before = look();
            shell(&traces, script);
            assert_ne!(before, look(), "{script}");
        }
        assert!(catch_unwind(AssertUnwindSafe(|| traces.assert_none_left(""))).is_err());
        let traces = Traces::begin();
        // Other jobs may make and remove files in the shared directories.
        let home = traces.home.path().canonicalize().unwrap();
        let files = || -> BTreeSet<_> { traces.files().into_iter().filter(|path| path.starts_with(&home)).collect() };
        assert_eq!(files(), BTreeSet::new());
        shell(&traces, "cd $TMPDIR; mkdir -p new/deep; touch pmixrun.0123456789abcdef/job/new ../new");
        let found = ["new", "new/deep", "pmixrun.0123456789abcdef/job/new", "../new"];
        let found = found.iter().map(|name| traces.directory().join(name).canonicalize().unwrap());
        assert_eq!(files(), found.collect::<BTreeSet<_>>());
    }

    #[test]
    fn shared_memory_files_belong_to_the_process_that_has_them_open() {
        let traces = Traces::begin();
        // A name that no other run of this test has. Of names that differ only after the last dash, only one is
        // compared.
        let name = format!("pmix-dstore-traces.{}.", std::process::id());
        let shared = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir().unwrap();
        let job = shared.path().with_file_name(name);
        let is_found = || traces.files().contains(&job);
        assert!(is_found());
        let open = fs::File::create(shared.path().join("file")).unwrap();
        assert!(!is_found());
        drop(open);
        assert!(is_found());
    }

    #[test]
    fn processes_are_found_wherever_they_are() {
        let (traces, other) = (Traces::begin(), Traces::begin());
        let gate = traces.own().join("gate");
        fs::write(&gate, "").unwrap();
        // A process in a session and a group of its own, whose parent has ended, and without open files of ours.
        let stay = "touch \"$0.there\"; while test -e \"$0\"; do sleep 0.01; done";
        let script = "setsid sh -c \"$1\" \"$0\" < /dev/null > /dev/null 2>&1 & \
                      until test -e \"$0.there\"; do sleep 0.01; done";
        Run::new("/bin/sh", Library::ours()).traced(&traces).arg("-c").arg(script).arg(&gate).arg(stay).succeed();
        assert!(!traces.processes().is_empty());
        assert_eq!(other.processes(), BTreeMap::new());
        fs::remove_file(&gate).unwrap();
        traces.assert_none_left("");
    }

    #[test]
    fn resources_of_a_process_are_counted() {
        let traces = Traces::begin();
        let file = traces.own().join("file");
        fs::write(&file, "content").unwrap();
        let before = Held::by(std::process::id());
        let open = (fs::File::open(&file).unwrap(), fs::File::open(&file).unwrap());
        let more = Held::by(std::process::id()).more_than(&before).unwrap();
        assert!(more.contains(&format!("descriptor {}: 0 before, 2 now", file.display())), "{more}");
        drop(open);
        // Other tests in this process open files, too.
        assert!(
            patiently(|| Held::by(std::process::id()).more_than(&before).filter(|m| m.contains("/own/file"))).is_none()
        );
    }
}
