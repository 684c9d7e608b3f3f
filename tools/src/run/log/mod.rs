//! `PMIx_Log`: where ranks and tools have texts written, and in which form.

mod record;
mod syslog;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use pmix_client::output::Format;
use pmix_dstore::fallible_alloc;
use pmix_dstore::log::escaped;
use pmix_dstore::model::{Info, InfoFlags, Key, Proc, Status, Value, keys};

use super::output::Stream;
use super::refused::named;
use crate::value::name_of;

/// Where the node's syslog service listens.
pub const SYSLOG: &str = "/dev/log";
/// The longest text that is taken apart into lines, and the most lines of it: each of them becomes longer.
const TEXT_LEN_MAX: usize = 1 << 20;
const LINES_MAX: usize = 4096;

/// Where texts go beside the launcher's own streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlets {
    /// The socket of the syslog service.
    pub syslog: PathBuf,
    /// The job's record.
    pub record: Option<PathBuf>,
}

impl Outlets {
    /// Checks that records can be written.
    ///
    /// # Errors
    /// A message for the user.
    pub fn check(&self) -> Result<(), String> {
        let of_record =
            |path: &PathBuf| record::check(path).map_err(|error| format!("--log-file {}: {error}", path.display()));
        self.record.as_ref().map_or(Ok(()), of_record)
    }
}

/// What a process logs.
#[derive(Debug)]
pub(super) struct Request {
    by: Proc,
    entries: Vec<Entry>,
    /// To the first channel that takes it, and to no other.
    is_once: bool,
    time: SystemTime,
    priority: u64,
    /// How lines for the streams are marked, if they are.
    marks: Option<Format>,
    of_record: Format,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    channel: Channel,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Channel {
    Stream(Stream),
    Syslog,
    Record,
    /// None of ours, and why not.
    Foreign(&'static str),
}

/// What is left to do for a request: texts to print, among them why channels did not take theirs, and the answer.
#[derive(Debug, PartialEq)]
pub(super) struct Logged {
    pub texts: Vec<(Stream, Vec<u8>)>,
    pub status: Status,
}

/// Why a channel does not take a text: the status for the caller, and the reason for the launcher's user.
type Refusal = (Status, String);

const CHANNELS: [(&str, Channel); 9] = [
    (keys::LOG_STDOUT, Channel::Stream(Stream::Out)),
    (keys::LOG_STDERR, Channel::Stream(Stream::Err)),
    (keys::LOG_MSG, Channel::Stream(Stream::Err)),
    // There is one node, whose service is the global one, too.
    (keys::LOG_SYSLOG, Channel::Syslog),
    (keys::LOG_LOCAL_SYSLOG, Channel::Syslog),
    (keys::LOG_GLOBAL_SYSLOG, Channel::Syslog),
    (keys::LOG_JOB_RECORD, Channel::Record),
    (keys::LOG_EMAIL, Channel::Foreign("pmixrun sends no mail; log to a stream, syslog or the job's record")),
    (keys::LOG_GLOBAL_DATASTORE, Channel::Foreign(NO_STORE)),
];

const NO_STORE: &str = "pmixrun has no data store; log to the job's record (PMIX_LOG_JOB_RECORD, pmixrun --log-file)";
const UNKNOWN: &str = "pmixrun knows no such channel; log to a stream, syslog or the job's record";

/// The directives that are obeyed, or that say who asks.
const DIRECTIVES: [&str; 11] = [
    keys::LOG_SYSLOG_PRI,
    keys::LOG_ONCE,
    keys::LOG_SOURCE,
    keys::LOG_TIMESTAMP,
    keys::LOG_GENERATE_TIMESTAMP,
    keys::LOG_TAG_OUTPUT,
    keys::LOG_TIMESTAMP_OUTPUT,
    keys::LOG_XML_OUTPUT,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
];

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a text or a priority of another type or size, and where there is nothing to log; `ERR_NOT_SUPPORTED` for an
    /// unknown directive that is required; `ERR_NOMEM`.
    pub fn read(by: &Proc, data: &[Info], directives: &[Info]) -> Result<Request, Status> {
        let is_known = |info: &Info| DIRECTIVES.iter().any(|key| info.key.is(key));
        if directives.iter().any(|info| info.flags & InfoFlags::REQUIRED != 0 && !is_known(info)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let mut entries = Vec::new();
        for info in data {
            let Some((_, channel)) = CHANNELS.iter().find(|(key, _)| info.key.is(key)) else { continue };
            entries.push(Entry { key: info.key.clone(), channel: *channel, text: text_of(info, *channel)? });
        }
        if entries.is_empty() {
            // What goes with a text is passed over; alone it names a channel that nobody has.
            let info = data.first().ok_or(Status::ERR_BAD_PARAM)?;
            entries.push(Entry { key: info.key.clone(), channel: Channel::Foreign(UNKNOWN), text: Vec::new() });
        }
        let priority = match Info::find(directives, keys::LOG_SYSLOG_PRI) {
            Some(asked) => asked.as_u64().and_then(syslog::priority).ok_or(Status::ERR_BAD_PARAM)?,
            None => syslog::DEFAULT,
        };
        let is = |key| Info::is_set(directives, key);
        let stamp =
            Info::find(directives, keys::LOG_TIMESTAMP).map(|stamp| stamp.as_u64().ok_or(Status::ERR_BAD_PARAM));
        let stamp = stamp.transpose()?.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let is_timed = stamp.is_some() || is(keys::LOG_GENERATE_TIMESTAMP) || is(keys::LOG_TIMESTAMP_OUTPUT);
        let (is_tagged, is_xml) = (is(keys::LOG_TAG_OUTPUT), is(keys::LOG_XML_OUTPUT));
        let marks = (is_timed || is_tagged || is_xml).then(|| format(is_timed, is_tagged, is_xml)).transpose()?;
        Ok(Request {
            by: by.clone(),
            entries,
            is_once: is(keys::LOG_ONCE),
            time: stamp.unwrap_or_else(SystemTime::now),
            priority,
            marks,
            // Records of several processes, jobs and days are in one file.
            of_record: format(true, true, is_xml)?,
        })
    }

    /// Whether to write it may take a while.
    pub fn may_wait(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.channel, Channel::Syslog | Channel::Record))
    }

    /// Writes what is not for the launcher's streams.
    pub fn perform(self, outlets: &Outlets) -> Logged {
        let (mut texts, mut refusals, mut taken) = (Vec::new(), Vec::new(), 0);
        for entry in &self.entries {
            match self.write(entry, outlets, &mut texts) {
                Ok(()) => taken += 1,
                Err(refusal) => refusals.push((&entry.key, refusal)),
            }
            if self.is_once && taken > 0 {
                refusals.clear();
                break;
            }
        }
        let status = match refusals.first() {
            None => Status::SUCCESS,
            Some(_) if taken > 0 => Status::ERR_PARTIAL_SUCCESS,
            Some((_, (status, _))) => *status,
        };
        let by = &self.by;
        for (key, (_, why)) in refusals {
            let (channel, answer) = (name_of(key), named(status));
            let line = format!("pmixrun: {by} logs to {channel}, and gets {answer}: {why}\n");
            texts.push((Stream::Err, line.into_bytes()));
        }
        Logged { texts, status }
    }

    fn write(&self, entry: &Entry, outlets: &Outlets, texts: &mut Vec<(Stream, Vec<u8>)>) -> Result<(), Refusal> {
        let by = &self.by;
        match entry.channel {
            Channel::Stream(stream) => {
                let text = match &self.marks {
                    None => fallible_alloc::copy(&entry.text).map_err(|status| (status, "no memory".to_owned()))?,
                    Some(marks) => self.marked(marks, stream, &entry.text)?,
                };
                texts.push((stream, text));
            }
            Channel::Syslog => {
                let lines = lines(&entry.text)?;
                let lines: Vec<String> = lines.iter().map(|line| format!("{by}: {line}")).collect();
                syslog::send(&outlets.syslog, self.priority, self.time, &lines)
                    .map_err(|error| of_syslog(&outlets.syslog, &error))?;
            }
            Channel::Record => {
                let Some(path) = &outlets.record else {
                    let why = "this job keeps no record; pmixrun --log-file FILE names one";
                    return Err((Status::ERR_NOT_SUPPORTED, why.to_owned()));
                };
                let mut record = String::new();
                for line in lines(&entry.text)? {
                    let line = self.of_record.format_named(&self.by, "record", line.as_bytes(), self.time);
                    record += String::from_utf8_lossy(&line).trim_end_matches('\n');
                    record.push('\n');
                }
                record::append(path, record).map_err(|error| of_record(path, &error))?;
            }
            Channel::Foreign(why) => return Err((Status::ERR_NOT_SUPPORTED, why.to_owned())),
        }
        Ok(())
    }

    /// The lines of a text for a stream, each with its marks.
    fn marked(&self, marks: &Format, stream: Stream, text: &[u8]) -> Result<Vec<u8>, Refusal> {
        check_size(text)?;
        let mut marked = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            marked.extend_from_slice(&marks.format_named(&self.by, stream.name(), line, self.time));
        }
        if marked.last().is_some_and(|last| *last != b'\n') {
            marked.push(b'\n');
        }
        Ok(marked)
    }
}

/// The form of marks: that of output, by its own directives.
fn format(is_timed: bool, is_tagged: bool, is_xml: bool) -> Result<Format, Status> {
    let marks =
        [(keys::IOF_TIMESTAMP_OUTPUT, is_timed), (keys::IOF_TAG_OUTPUT, is_tagged), (keys::IOF_XML_OUTPUT, is_xml)];
    Format::read(&marks.map(|(key, is_set)| Info::new(key, Value::Bool(is_set))))
}

fn text_of(info: &Info, channel: Channel) -> Result<Vec<u8>, Status> {
    match (&info.value, channel) {
        (_, Channel::Foreign(_)) => Ok(Vec::new()),
        (Value::ByteObject(bytes), _) => fallible_alloc::copy(bytes),
        (other, _) => fallible_alloc::copy(other.as_text().ok_or(Status::ERR_BAD_PARAM)?),
    }
}

fn check_size(text: &[u8]) -> Result<(), Refusal> {
    if text.len() > TEXT_LEN_MAX || text.iter().filter(|byte| **byte == b'\n').count() >= LINES_MAX {
        let why = format!("a text has at most {LINES_MAX} lines and {TEXT_LEN_MAX} bytes; log it in parts");
        return Err((Status::ERR_OUT_OF_RESOURCE, why));
    }
    Ok(())
}

/// The lines of a text, fit for a terminal: no process forges another one's line.
fn lines(text: &[u8]) -> Result<Vec<String>, Refusal> {
    check_size(text)?;
    let text = String::from_utf8_lossy(text);
    let shown =
        |line: &str| line.chars().map(|char| if char == '\t' { "\t".to_owned() } else { escaped(char) }).collect();
    Ok(text.strip_suffix('\n').unwrap_or(&text).split('\n').map(shown).collect())
}

fn of_syslog(path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    let (status, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
            Status::ERR_NOT_FOUND,
            "start a syslog service on this node, name its socket (pmixrun --syslog), or log to \
                                     PMIX_LOG_STDERR",
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            (Status::ERR_TIMEOUT, "the service does not read; look whether it is stopped")
        }
        io::ErrorKind::PermissionDenied => {
            (Status::ERR_NO_PERMISSIONS, "give this user access, or log to PMIX_LOG_STDERR")
        }
        _ => (Status::ERROR, "look at the syslog service, or log to PMIX_LOG_STDERR"),
    };
    (status, format!("the syslog service at {path}: {error}; {remedy}"))
}

fn of_record(path: &Path, error: &io::Error) -> Refusal {
    let path = path.display();
    let is_full = matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOSPC | Errno::EDQUOT));
    let status = match error.kind() {
        io::ErrorKind::StorageFull => Status::ERR_OUT_OF_RESOURCE,
        _ if is_full => Status::ERR_OUT_OF_RESOURCE,
        io::ErrorKind::PermissionDenied => Status::ERR_NO_PERMISSIONS,
        _ => Status::ERROR,
    };
    (status, format!("the record {path}: {error}; make room or name another file (pmixrun --log-file)"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn me() -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(7))
    }

    fn text(key: &'static str, text: &str) -> Info {
        Info::new(key, Value::string(text))
    }

    fn switch(key: &'static str) -> Info {
        Info::new(key, Value::Bool(true))
    }

    fn outlets(directory: &Path) -> Outlets {
        Outlets { syslog: directory.join("syslog"), record: Some(directory.join("record")) }
    }

    fn logged(data: &[Info], directives: &[Info], outlets: &Outlets) -> (Status, String) {
        let logged = Request::read(&me(), data, directives).unwrap().perform(outlets);
        let texts: Vec<u8> = logged.texts.into_iter().flat_map(|(_, text)| text).collect();
        (logged.status, String::from_utf8(texts).unwrap())
    }

    #[test]
    fn a_text_for_a_stream_is_as_it_came_or_marked() {
        let none = Outlets { syslog: PathBuf::from("/nonexistent"), record: None };
        let stdout = |directives: &[Info]| logged(&[text(keys::LOG_STDOUT, "a\nb<")], directives, &none).1;
        assert_eq!(stdout(&[]), "a\nb<");
        assert_eq!(stdout(&[switch(keys::LOG_TAG_OUTPUT)]), "[job,7]<stdout>: a\n[job,7]<stdout>: b<\n");
        let xml = stdout(&[switch(keys::LOG_XML_OUTPUT)]);
        assert_eq!(xml, "<stdout rank=\"7\">a&#010;</stdout>\n<stdout rank=\"7\">b&lt;</stdout>\n");
        let stamp = Info::new(keys::LOG_TIMESTAMP, Value::Time(86_400 * 200));
        let timed = stdout(&[stamp]);
        assert!(timed.starts_with("[") && timed.contains(" 1970]<stdout>: a\n["), "{timed}");
        for generated in [keys::LOG_GENERATE_TIMESTAMP, keys::LOG_TIMESTAMP_OUTPUT] {
            let timed = stdout(&[switch(generated)]);
            assert!(timed.contains("]<stdout>: a\n[") && !timed.contains(" 1970"), "{timed}");
        }
    }

    #[test]
    fn each_channel_gets_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let outlets = outlets(directory.path());
        let service = UnixDatagram::bind(&outlets.syslog).unwrap();
        let data = [
            text(keys::LOG_SYSLOG, "to\x1bsys\nlog\n"),
            text(keys::LOG_JOB_RECORD, "r\r\ns"),
            text(keys::LOG_STDERR, "e"),
        ];
        let priority = Info::new(keys::LOG_SYSLOG_PRI, Value::Int(6));
        assert_eq!(logged(&data, &[priority], &outlets), (Status::SUCCESS, "e".to_owned()));
        let mut buffer = [0; 256];
        for said in ["]: job:7: to\\u{1b}sys", "]: job:7: log"] {
            let len = service.recv(&mut buffer).unwrap();
            let record = String::from_utf8_lossy(&buffer[..len]);
            assert!(record.starts_with("<14>") && record.ends_with(said), "{record}");
        }
        let record = std::fs::read_to_string(directory.path().join("record")).unwrap();
        let lines: Vec<&str> = record.lines().map(|line| line.split_once("][job,7]<record>: ").unwrap().1).collect();
        assert_eq!(lines, ["r\\r", "s"], "{record}");
    }

    #[test]
    fn what_logs_once_takes_the_first_channel_that_can() {
        let directory = tempfile::tempdir().unwrap();
        let outlets = outlets(directory.path());
        let data = [
            text(keys::LOG_EMAIL, "mail"),
            text(keys::LOG_SYSLOG, "sys"),
            text(keys::LOG_STDOUT, "out"),
            text(keys::LOG_STDERR, "err"),
        ];
        assert_eq!(logged(&data, &[switch(keys::LOG_ONCE)], &outlets), (Status::SUCCESS, "out".to_owned()));
        let (status, texts) = logged(&data[..2], &[switch(keys::LOG_ONCE)], &outlets);
        assert_eq!((status, texts.lines().count()), (Status::ERR_NOT_SUPPORTED, 2), "{texts}");
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let none = Outlets { record: None, ..outlets(directory.path()) };
        let told = |key| logged(&[text(key, "x")], &[], &none);
        let (status, line) = told(keys::LOG_EMAIL);
        assert_eq!(status, Status::ERR_NOT_SUPPORTED);
        assert!(line.starts_with("pmixrun: job:7 logs to PMIX_LOG_EMAIL, and gets PMIX_ERR_NOT_SUPPORTED: "), "{line}");
        let (status, line) = told(keys::LOG_SYSLOG);
        assert_eq!(status, Status::ERR_NOT_FOUND);
        assert!(line.contains("PMIX_ERR_NOT_FOUND: the syslog service at ") && line.contains("/syslog: "), "{line}");
        assert_eq!(told(keys::LOG_JOB_RECORD).0, Status::ERR_NOT_SUPPORTED);
        assert!(told("a.b").1.contains(" logs to a.b, and gets PMIX_ERR_NOT_SUPPORTED: "));
        let (status, texts) = logged(&[text(keys::LOG_EMAIL, "x"), text(keys::LOG_STDOUT, "y\n")], &[], &none);
        assert_eq!((status, texts.lines().next()), (Status::ERR_PARTIAL_SUCCESS, Some("y")));
    }

    #[test]
    fn a_wrong_request_logs_nothing() {
        let read = |data: &[Info], directives: &[Info]| Request::read(&me(), data, directives).map(drop);
        let number = Info::new(keys::LOG_STDOUT, Value::Int(1));
        assert_eq!(read(&[number], &[]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(read(&[], &[]), Err(Status::ERR_BAD_PARAM));
        let out = [text(keys::LOG_STDOUT, "x")];
        for wrong in [Value::Int(-1), Value::Int(192), Value::string("err")] {
            assert_eq!(read(&out, &[Info::new(keys::LOG_SYSLOG_PRI, wrong)]), Err(Status::ERR_BAD_PARAM));
        }
        let required = Info { flags: InfoFlags::REQUIRED, ..switch("a.b") };
        assert_eq!(read(&out, &[required]), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(read(&out, &[switch("a.b")]), Ok(()));
        let many = "\n".repeat(LINES_MAX);
        let (status, _) =
            logged(&[text(keys::LOG_STDOUT, &many)], &[switch(keys::LOG_TAG_OUTPUT)], &outlets(Path::new("/")));
        assert_eq!(status, Status::ERR_OUT_OF_RESOURCE);
    }
}
