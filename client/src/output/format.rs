//! The formatting directives of output, and the text that they add to a line.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pmix_dstore::model::{Info, InfoFlags, Proc, Result, Status, Value, keys};

use super::{STDERR, STDOUT};

/// The formatting directives of a pull, a spawn, or the start of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    tag: Tag,
    timestamp: bool,
    xml: bool,
    /// Write bytes as they arrive; do not wait for whole lines.
    pub(crate) raw: bool,
    /// Write stderr to the destination of stdout.
    pub(crate) merge: bool,
    file: Option<Target>,
    /// Write to files only; `None` without a directive.
    file_only: Option<bool>,
    /// Whether output is also written to this process's own stdout and stderr; `None` without a directive.
    local: Option<bool>,
}

/// What the prefix of a line contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
enum Tag {
    #[default]
    Nothing,
    Rank,
    /// Rank, and the part of the namespace after its last `@`.
    Name,
    /// Rank and namespace.
    FullName,
    /// As [`Tag::Name`], with host and process id.
    Detailed,
    /// As [`Tag::FullName`], with host and process id.
    FullyDetailed,
}

/// The path of output files.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    /// `NAME.NSPACE.RANK.stdout`
    File(PathBuf),
    /// `DIRECTORY/NSPACE/rank.RANK/stdout`
    Directory(PathBuf),
    /// A pattern with `%n` for the namespace and `%r` for the rank; `.stdout` is appended.
    Pattern(String),
}

/// Whether output to files goes there only, without a directive.
static FILES_ONLY: AtomicBool = AtomicBool::new(false);

/// Makes output to files go there only where no directive says otherwise. That is the default of releases from 7.0 on.
pub fn default_to_files_only() {
    FILES_ONLY.store(true, Ordering::Relaxed);
}

/// Host name and process id of a source, for the detailed prefix.
pub(crate) type Details = (Option<String>, Option<String>);

/// Directives for the server's buffer. Stock servers pass over them.
const BUFFERING: [&str; 5] = [
    keys::IOF_BUFFERING_SIZE,
    keys::IOF_BUFFERING_TIME,
    keys::IOF_CACHE_SIZE,
    keys::IOF_DROP_OLDEST,
    keys::IOF_DROP_NEWEST,
];

/// Directives for output that the library itself writes.
const WRITING: [&str; 12] = [
    keys::IOF_TAG_OUTPUT,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_TAG_FULLNAME_OUTPUT,
    keys::IOF_RANK_OUTPUT,
    keys::IOF_TIMESTAMP_OUTPUT,
    keys::IOF_XML_OUTPUT,
    keys::IOF_OUTPUT_RAW,
    keys::IOF_MERGE_STDERR_STDOUT,
    keys::IOF_OUTPUT_TO_FILE,
    keys::IOF_OUTPUT_TO_DIRECTORY,
    keys::IOF_FILE_ONLY,
    keys::IOF_LOCAL_OUTPUT,
];

/// Refuses required directives that would have no effect: those for the server's buffer if the server is not ours
/// (`buffers`), and those for the library's own writing if a handler takes the output.
///
/// # Errors
/// `NOT_SUPPORTED`.
pub(crate) fn check(infos: &[Info], has_handler: bool, buffers: bool) -> Result<()> {
    let is_ignored =
        |info: &Info| !buffers && is_for_buffer(info) || has_handler && WRITING.iter().any(|key| info.key.is(key));
    let mut required = infos.iter().filter(|info| info.flags & InfoFlags::REQUIRED != 0);
    if required.any(is_ignored) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// Whether a directive is for the server's buffer.
pub(crate) fn is_for_buffer(info: &Info) -> bool {
    BUFFERING.iter().any(|key| info.key.is(key))
}

impl Format {
    /// Reads the formatting directives; ignores other infos.
    ///
    /// # Errors
    /// `BAD_PARAM` for a file or directory name that is not text, and for a pattern with an unknown placeholder.
    pub fn read(infos: &[Info]) -> Result<Format> {
        let mut format = Format::default();
        let path = |info: &Info| {
            let text = info.value.as_text().and_then(|text| std::str::from_utf8(text).ok());
            text.filter(|text| !text.is_empty()).map(PathBuf::from).ok_or(Status::ERR_BAD_PARAM)
        };
        let (mut is_pattern, mut is_full) = (false, false);
        for info in infos {
            let is = |keys: &[&str]| keys.iter().any(|key| info.key.is(key));
            let is_true = info.value.is_true();
            let tag = [
                (keys::IOF_RANK_OUTPUT, Tag::Rank),
                (keys::IOF_TAG_OUTPUT, Tag::Name),
                (keys::TAG_OUTPUT, Tag::Name),
                (keys::IOF_TAG_FULLNAME_OUTPUT, Tag::FullName),
                (keys::IOF_TAG_DETAILED_OUTPUT, Tag::Detailed),
            ];
            if let Some((_, tag)) = tag.iter().find(|(key, _)| info.key.is(key)).filter(|_| is_true) {
                is_full |= *tag == Tag::FullName;
                // The most detailed tag wins.
                format.tag = if *tag > format.tag { *tag } else { format.tag };
            } else if is(&[keys::IOF_TIMESTAMP_OUTPUT, keys::TIMESTAMP_OUTPUT]) {
                format.timestamp = is_true;
            } else if is(&[keys::IOF_XML_OUTPUT]) {
                format.xml = is_true;
            } else if is(&[keys::IOF_OUTPUT_RAW]) {
                format.raw = is_true;
            } else if is(&[keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT]) {
                format.merge = is_true;
            } else if is(&[keys::IOF_OUTPUT_TO_FILE, keys::OUTPUT_TO_FILE]) {
                format.file = Some(Target::File(path(info)?));
            } else if is(&[keys::IOF_OUTPUT_TO_DIRECTORY, keys::OUTPUT_TO_DIRECTORY]) {
                format.file = Some(Target::Directory(path(info)?));
            } else if is(&[keys::IOF_FILE_PATTERN]) {
                is_pattern = is_true;
            } else if is(&[keys::IOF_FILE_ONLY, keys::OUTPUT_NOCOPY]) {
                format.file_only = Some(is_true);
            } else if is(&[keys::IOF_LOCAL_OUTPUT]) {
                format.local = Some(is_true);
            }
        }
        if is_full && format.tag == Tag::Detailed {
            format.tag = Tag::FullyDetailed;
        }
        if is_pattern && let Some(Target::File(file)) = &format.file {
            let pattern = file.to_str().ok_or(Status::ERR_BAD_PARAM)?.to_owned();
            fill_in(&pattern, "", "").ok_or(Status::ERR_BAD_PARAM)?;
            format.file = Some(Target::Pattern(pattern));
        }
        Ok(format)
    }

    /// Whether output goes to this process's own stdout and stderr; `default` without a directive.
    pub(crate) fn is_local(&self, default: bool) -> bool {
        self.is_copied(FILES_ONLY.load(Ordering::Relaxed)) && self.local.unwrap_or(default)
    }

    /// Whether output may go elsewhere than to files; `files_only` is the default.
    fn is_copied(&self, files_only: bool) -> bool {
        self.file.is_none() || !self.file_only.unwrap_or(files_only)
    }

    /// Whether the prefix needs more than the source's name.
    pub(crate) fn wants_details(&self) -> bool {
        self.tag >= Tag::Detailed
    }

    /// The file for a channel of a process, if there is one.
    pub(crate) fn path(&self, source: &Proc, channel: u16) -> Option<PathBuf> {
        let stream = if self.merge || channel & STDOUT != 0 { "stdout" } else { "stderr" };
        let (nspace, rank) = (name_of_file(source), source.rank.to_string());
        Some(match self.file.as_ref()? {
            Target::File(file) => {
                let mut name = file.as_os_str().to_owned();
                name.push(format!(".{nspace}.{rank}.{stream}"));
                name.into()
            }
            Target::Directory(directory) => directory.join(&nspace).join(format!("rank.{rank}")).join(stream),
            Target::Pattern(pattern) => Path::new(&format!("{}.{stream}", fill_in(pattern, &nspace, &rank)?)).into(),
        })
    }

    /// A line (or a piece of one) of a process with its prefix, or its XML element.
    pub(crate) fn format_line(&self, source: &Proc, channel: u16, line: &[u8], details: &Details) -> Vec<u8> {
        let stream = match channel {
            channel if channel & STDOUT != 0 => "stdout",
            channel if channel & STDERR != 0 => "stderr",
            _ => "stddiag",
        };
        self.format_at(source, stream, line, details, SystemTime::now())
    }

    /// The same of any stream by its name, with a time that the process may have chosen.
    pub fn format_named(&self, source: &Proc, stream: &str, line: &[u8], time: SystemTime) -> Vec<u8> {
        self.format_at(source, stream, line, &(None, None), time)
    }

    fn format_at(&self, source: &Proc, stream: &str, line: &[u8], details: &Details, time: SystemTime) -> Vec<u8> {
        if !self.xml && !self.timestamp && self.tag == Tag::Nothing {
            return line.to_vec();
        }
        let nspace = String::from_utf8_lossy(source.nspace.as_bytes());
        let job = nspace.rsplit('@').next().unwrap_or(&nspace);
        let rank = source.rank;
        let (host, pid) = (details.0.as_deref().unwrap_or("unknown"), details.1.as_deref().unwrap_or("unknown"));
        let time = if self.timestamp { text_of(time) } else { String::new() };
        if self.xml {
            let mut formatted = format!("<{stream}").into_bytes();
            let mut attribute = |name: &str, value: &str| {
                formatted.extend_from_slice(format!(" {name}=\"").as_bytes());
                escape(value.as_bytes(), &mut formatted);
                formatted.push(b'"');
            };
            match self.tag {
                Tag::Name if job != nspace => attribute("jobid", job),
                Tag::Name | Tag::FullName | Tag::Detailed | Tag::FullyDetailed => attribute("nspace", &nspace),
                Tag::Nothing | Tag::Rank => {}
            }
            attribute("rank", &rank.to_string());
            if self.wants_details() {
                attribute("hostname", host);
                attribute("pid", pid);
            }
            if self.timestamp {
                attribute("timestamp", &time);
            }
            formatted.push(b'>');
            escape(line, &mut formatted);
            formatted.extend_from_slice(format!("</{stream}>\n").as_bytes());
            return formatted;
        }
        let name = match self.tag {
            Tag::Nothing => String::new(),
            Tag::Rank => format!("[{rank}]"),
            Tag::Name => format!("[{job},{rank}]"),
            Tag::FullName => format!("[{nspace},{rank}]"),
            Tag::Detailed => format!("[{job},{rank}][{host}:{pid}]"),
            Tag::FullyDetailed => format!("[{nspace},{rank}][{host}:{pid}]"),
        };
        let time = if self.timestamp { format!("[{time}]") } else { time };
        let mut formatted = format!("{time}{name}<{stream}>: ").into_bytes();
        formatted.extend_from_slice(line);
        formatted
    }
}

/// A namespace as a part of a file name. Replaces `/`, `.` and `..`, which would lead to another directory.
fn name_of_file(source: &Proc) -> String {
    let name = String::from_utf8_lossy(source.nspace.as_bytes()).replace('/', "_");
    if matches!(name.as_str(), "." | "..") { name.replace('.', "_") } else { name }
}

/// A pattern with its placeholders filled in; `None` if it has unknown ones.
fn fill_in(pattern: &str, nspace: &str, rank: &str) -> Option<String> {
    let mut filled = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => match letters.next()? {
                'n' => filled.push_str(nspace),
                'r' => filled.push_str(rank),
                '%' => filled.push('%'),
                _ => return None,
            },
            letter => filled.push(letter),
        }
    }
    Some(filled)
}

/// Appends text to `into`, escaped for XML.
fn escape(text: &[u8], into: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => into.extend_from_slice(b"&amp;"),
            b'<' => into.extend_from_slice(b"&lt;"),
            b'>' => into.extend_from_slice(b"&gt;"),
            b'"' => into.extend_from_slice(b"&quot;"),
            b' '..=b'~' | 0x80.. => into.push(*byte),
            control => into.extend_from_slice(format!("&#{control:03};").as_bytes()),
        }
    }
}

/// A time, as `ctime` writes it.
pub fn text_of(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut text = [0; 64];
    // SAFETY: `ctime_r` writes at most 26 bytes; the buffer has 64.
    let written = unsafe { libc::ctime_r(&(seconds as libc::time_t), text.as_mut_ptr()) };
    if written.is_null() {
        return seconds.to_string();
    }
    // SAFETY: `ctime_r` has written a C string into the buffer.
    unsafe { CStr::from_ptr(written) }.to_string_lossy().trim_end().to_owned()
}

/// The text of a host name or process id.
pub(crate) fn detail(value: &Value) -> Option<String> {
    match value {
        Value::Pid(pid) => Some(pid.to_string()),
        other => match other.as_text() {
            Some(text) => Some(String::from_utf8_lossy(text).into_owned()),
            None => other.as_u64().map(|number| number.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn source() -> Proc {
        Proc::new(Nspace::new("job@1").unwrap(), Rank(7))
    }

    fn flags(keys: &[&'static str]) -> Vec<Info> {
        keys.iter().map(|key| Info::new(*key, Value::Bool(true))).collect()
    }

    fn formatted(keys: &[&'static str], channel: u16) -> String {
        let format = Format::read(&flags(keys)).unwrap();
        let details = (Some("node".to_owned()), Some("12".to_owned()));
        String::from_utf8(format.format_line(&source(), channel, b"a<b\n", &details)).unwrap()
    }

    #[test]
    fn lines_are_marked_as_asked() {
        assert_eq!(formatted(&[], STDOUT), "a<b\n");
        assert_eq!(formatted(&[keys::IOF_RANK_OUTPUT], STDOUT), "[7]<stdout>: a<b\n");
        assert_eq!(formatted(&[keys::IOF_TAG_OUTPUT], STDERR), "[1,7]<stderr>: a<b\n");
        assert_eq!(formatted(&[keys::IOF_TAG_FULLNAME_OUTPUT], 8), "[job@1,7]<stddiag>: a<b\n");
        assert_eq!(
            formatted(&[keys::IOF_TAG_DETAILED_OUTPUT, keys::IOF_RANK_OUTPUT], STDOUT),
            "[1,7][node:12]<stdout>: a<b\n"
        );
        for detailed in [
            [keys::IOF_TAG_DETAILED_OUTPUT, keys::IOF_TAG_FULLNAME_OUTPUT],
            [keys::IOF_TAG_FULLNAME_OUTPUT, keys::IOF_TAG_DETAILED_OUTPUT],
        ] {
            assert_eq!(formatted(&detailed, STDOUT), "[job@1,7][node:12]<stdout>: a<b\n");
        }
        assert_eq!(formatted(&[keys::IOF_XML_OUTPUT], STDOUT), "<stdout rank=\"7\">a&lt;b&#010;</stdout>\n");
        assert_eq!(
            formatted(&[keys::IOF_XML_OUTPUT, keys::IOF_TAG_OUTPUT], STDOUT),
            "<stdout jobid=\"1\" rank=\"7\">a&lt;b&#010;</stdout>\n"
        );
        let timed = formatted(&[keys::IOF_TIMESTAMP_OUTPUT, keys::IOF_RANK_OUTPUT], STDOUT);
        assert!(timed.starts_with('[') && timed.ends_with("][7]<stdout>: a<b\n") && timed.len() > 40, "{timed}");
    }

    #[test]
    fn output_is_copied_unless_a_directive_or_the_default_says_files_only() {
        let file = || Info::new(keys::IOF_OUTPUT_TO_FILE, Value::string("f"));
        let only = |is_only| Info::new(keys::IOF_FILE_ONLY, Value::Bool(is_only));
        let is_copied = |infos: &[Info], files_only| Format::read(infos).unwrap().is_copied(files_only);
        assert_eq!([false, true].map(|default| is_copied(&[file()], default)), [true, false]);
        assert_eq!([false, true].map(|default| is_copied(&[file(), only(true)], default)), [false, false]);
        assert_eq!([false, true].map(|default| is_copied(&[file(), only(false)], default)), [true, true]);
        assert_eq!([false, true].map(|default| is_copied(&[only(true)], default)), [true, true], "without a file");
    }

    #[test]
    fn files_have_the_names_of_the_standard() {
        let path = |infos: &[Info], channel| Format::read(infos).unwrap().path(&source(), channel).unwrap();
        let to = |key: &'static str, value: &str| Info::new(key, Value::string(value));
        assert_eq!(path(&[to(keys::IOF_OUTPUT_TO_FILE, "/d/f")], STDOUT), Path::new("/d/f.job@1.7.stdout"));
        assert_eq!(path(&[to(keys::IOF_OUTPUT_TO_FILE, "/d/f")], STDERR), Path::new("/d/f.job@1.7.stderr"));
        assert_eq!(path(&[to(keys::IOF_OUTPUT_TO_DIRECTORY, "/d")], 8), Path::new("/d/job@1/rank.7/stderr"));
        let mut infos = flags(&[keys::IOF_FILE_PATTERN, keys::IOF_MERGE_STDERR_STDOUT]);
        infos.push(to(keys::IOF_OUTPUT_TO_FILE, "/d/%r-%n%%"));
        assert_eq!(path(&infos, STDERR), Path::new("/d/7-job@1%.stdout"));
        infos[2] = to(keys::IOF_OUTPUT_TO_FILE, "/d/%x");
        assert_eq!(Format::read(&infos), Err(Status::ERR_BAD_PARAM));
        let elsewhere = Proc::new(Nspace::new("../x").unwrap(), Rank(0));
        let format = Format::read(&[to(keys::IOF_OUTPUT_TO_DIRECTORY, "/d")]).unwrap();
        assert_eq!(format.path(&elsewhere, STDOUT).unwrap(), Path::new("/d/.._x/rank.0/stdout"));
    }

    #[test]
    fn required_directives_are_honoured_or_refused() {
        let required = |key: &'static str| Info { flags: InfoFlags::REQUIRED, ..Info::new(key, Value::Bool(true)) };
        for key in BUFFERING {
            assert_eq!(check(&[required(key)], false, false), Err(Status::ERR_NOT_SUPPORTED), "{key}");
            assert_eq!(check(&[required(key)], false, true), Ok(()), "{key}");
            assert_eq!(check(&flags(&[key]), false, false), Ok(()), "{key}");
        }
        assert_eq!(check(&[required(keys::IOF_TAG_OUTPUT)], true, true), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(check(&[required(keys::IOF_TAG_OUTPUT)], false, true), Ok(()));
    }
}
