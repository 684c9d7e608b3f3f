//! Output that the library itself writes: whole lines, to this process's stdout and stderr and to files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pmix_dstore::model::{Proc, Result, Status};

use super::STDOUT;
use super::format::{Details, Format};

/// The most bytes of an incomplete line that are held back.
const LINE_MAX: usize = 1 << 20;

/// Writes the output of processes.
pub struct Writer {
    format: Format,
    /// Whether output goes to this process's own stdout and stderr if the format does not say.
    is_local: bool,
    /// Incomplete lines.
    rests: HashMap<(Proc, u16), Vec<u8>>,
    /// Open files; `None` for those that could not be created or written.
    files: HashMap<PathBuf, Option<File>>,
}

impl Writer {
    /// A writer. `is_local`: write to this process's own stdout and stderr, unless the format says otherwise.
    pub fn new(format: Format, is_local: bool) -> Writer {
        Writer { format, is_local, rests: HashMap::new(), files: HashMap::new() }
    }

    /// Whether it writes nowhere.
    pub fn is_idle(&self) -> bool {
        !self.format.is_local(self.is_local) && self.format == Format::default()
    }

    /// Whether [`Writer::write`] needs `details` of the source.
    pub(crate) fn wants_details(&self) -> bool {
        self.format.wants_details()
    }

    /// Writes the complete lines and holds the rest back. Empty `data` ends the stream and writes the rest.
    ///
    /// # Errors
    /// `IOF_FAILURE` if a file cannot be written; reported once for each file.
    pub(crate) fn write(&mut self, source: &Proc, channel: u16, data: &[u8], details: &Details) -> Result<()> {
        let key = (source.clone(), channel);
        let rest = self.rests.entry(key.clone()).or_default();
        let before = rest.len();
        rest.extend_from_slice(data);
        // What was held back has no end of a line: looking at it once more with each piece would cost the square of a long line.
        let whole = match data.iter().rposition(|byte| *byte == b'\n') {
            _ if data.is_empty() || self.format.raw || rest.len() > LINE_MAX => rest.len(),
            Some(end) => before + end + 1,
            None => return Ok(()),
        };
        let incomplete = rest.split_off(whole);
        let held = std::mem::replace(rest, incomplete);
        if rest.is_empty() {
            self.rests.remove(&key);
        }
        let mut text = Vec::with_capacity(held.len());
        for line in held.split_inclusive(|byte| *byte == b'\n' && !self.format.raw) {
            text.extend_from_slice(&self.format.format_line(source, channel, line, details));
        }
        self.put(source, channel, &text)
    }

    /// Writes incomplete lines.
    pub(crate) fn flush(&mut self) {
        let left: Vec<(Proc, u16)> = self.rests.keys().cloned().collect();
        for (source, channel) in left {
            // Ignore errors: there is no caller left to report them to.
            let _ = self.write(&source, channel, &[], &Details::default());
        }
    }

    fn put(&mut self, source: &Proc, channel: u16, text: &[u8]) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.format.is_local(self.is_local) {
            let is_output = channel & STDOUT != 0 || self.format.merge;
            if is_output { all_to(io::stdout().as_fd(), text) } else { all_to(io::stderr().as_fd(), text) }
        }
        let Some(path) = self.format.path(source, channel) else { return Ok(()) };
        let is_new = !self.files.contains_key(&path);
        let created = |path: &PathBuf| create(path).ok();
        let file = self.files.entry(path).or_insert_with_key(created);
        match file.as_mut().map(|file| file.write_all(text)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                *file = None;
                Err(Status::ERR_IOF_FAILURE)
            }
            None if is_new => Err(Status::ERR_IOF_FAILURE),
            None => Ok(()),
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(directory)?;
    }
    File::create(path)
}

/// Writes all bytes, even if the application has made the descriptor non-blocking. Ignores errors: the reader is gone.
fn all_to(to: BorrowedFd<'_>, mut text: &[u8]) {
    while !text.is_empty() {
        match nix::unistd::write(to, text) {
            Ok(len) => text = &text[len..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(to, PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Info, Nspace, Rank, Value, keys};

    use super::super::STDERR;
    use super::*;

    #[test]
    fn lines_are_waited_for_and_files_hold_them_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let source = Proc::new(Nspace::new("job").unwrap(), Rank(1));
        let text = directory.path().join("out").to_str().unwrap().to_owned();
        let infos = [
            Info::new(keys::IOF_OUTPUT_TO_FILE, Value::string(text.as_str())),
            Info::new(keys::IOF_RANK_OUTPUT, Value::Bool(true)),
        ];
        let mut writer = Writer::new(Format::read(&infos).unwrap(), false);
        let read = |stream: &str| fs::read_to_string(format!("{text}.job.1.{stream}")).unwrap_or_default();
        let mut write = |channel, data: &[u8]| writer.write(&source, channel, data, &Details::default()).unwrap();
        write(STDOUT, b"one\ntw");
        write(STDERR, b"error");
        assert_eq!((read("stdout").as_str(), read("stderr").as_str()), ("[1]<stdout>: one\n", ""));
        write(STDOUT, b"o\n");
        write(STDERR, b"");
        assert_eq!(read("stdout"), "[1]<stdout>: one\n[1]<stdout>: two\n");
        assert_eq!(read("stderr"), "[1]<stderr>: error");
        write(STDOUT, b"three");
        writer.flush();
        assert_eq!(read("stdout"), "[1]<stdout>: one\n[1]<stdout>: two\n[1]<stdout>: three");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_once() {
        let source = Proc::new(Nspace::new("job").unwrap(), Rank(1));
        let infos = [Info::new(keys::IOF_OUTPUT_TO_FILE, Value::string("/dev/null/nowhere"))];
        let mut writer = Writer::new(Format::read(&infos).unwrap(), false);
        let mut write = || writer.write(&source, STDOUT, b"line\n", &Details::default());
        assert_eq!((write(), write()), (Err(Status::ERR_IOF_FAILURE), Ok(())));
    }
}
