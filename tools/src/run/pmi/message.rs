//! The lines of PMI-1, as MPICH's ranks write them to the descriptor in `PMI_FD`: `cmd=NAME KEY=VALUE ...`.
//!
//! A line comes from a rank, which may write anything: it is read here without trust.

/// The longest name of a key-value space, with the NUL that C puts behind it.
pub(super) const NAME_LEN_MAX: usize = 256;
/// The longest key, with its NUL.
pub(super) const KEY_LEN_MAX: usize = 64;
/// The longest value, with its NUL. Ranks of MPICH 4.0 read a line of at most 1023 bytes; the answer to a get holds 38 more.
pub(super) const VALUE_LEN_MAX: usize = 960;
/// The longest line that is read.
pub(super) const LINE_LEN_MAX: usize = 8192;

/// The version of the protocol.
const VERSION: u32 = 1;
/// Its subversion: groups of a barrier, which came with 1.2, are not there.
const SUBVERSION: u32 = 1;

/// What a rank asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'l> {
    /// To begin, in this version.
    Init(u32),
    /// The longest names, keys and values.
    Maxes,
    UniverseSize,
    AppNumber,
    /// The name of the job's key-value space.
    SpaceName,
    Put {
        space: &'l [u8],
        key: &'l [u8],
        value: &'l [u8],
    },
    Get {
        space: &'l [u8],
        key: &'l [u8],
    },
    Barrier,
    Finalize,
    /// To end the job.
    Abort {
        status: i32,
        message: Option<&'l [u8]>,
    },
    /// To publish, look up or remove a name; the word begins the name of the answer.
    Name(&'static str),
    /// A line of the description of processes to start.
    SpawnLine,
    /// The last line of the last description.
    Spawn,
}

/// Why a line is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not begin with a command.
    NoCommand,
    /// There is no such command.
    Unknown(String),
    /// The command lacks this, or its value is too long or no number.
    Without(&'static str),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NoCommand => write!(f, "a line without a command"),
            Refusal::Unknown(name) => write!(f, "the unknown command {name}"),
            Refusal::Without(field) => write!(f, "a command without a proper {field}"),
        }
    }
}

/// Reads the lines of one rank.
#[derive(Default)]
pub(super) struct Reader {
    /// The rank describes processes to start, in several lines.
    spawn: Option<Spawn>,
}

/// Where a description of processes is.
#[derive(Default)]
struct Spawn {
    /// How many descriptions there will be, and the number of this one.
    of: u32,
    at: u32,
}

impl Reader {
    /// The request of a line, which has lost its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read<'l>(&mut self, line: &'l [u8]) -> Result<Request<'l>, Refusal> {
        if let Some(spawn) = &mut self.spawn {
            return Ok(match spawn.line(line) {
                false => Request::SpawnLine,
                true => {
                    let is_last = spawn.at >= spawn.of;
                    self.spawn = None;
                    if is_last { Request::Spawn } else { Request::SpawnLine }
                }
            });
        }
        if line == b"mcmd=spawn" {
            self.spawn = Some(Spawn::default());
            return Ok(Request::SpawnLine);
        }
        let (command, rest) = cut(line.strip_prefix(b"cmd=").ok_or(Refusal::NoCommand)?);
        let number = |name| field(rest, name).and_then(|text| std::str::from_utf8(text).ok()?.parse::<i32>().ok());
        let short = |name, max: usize| {
            field(rest, name).filter(|text| !text.is_empty() && text.len() < max).ok_or(Refusal::Without(name))
        };
        let space = || short("kvsname", NAME_LEN_MAX);
        let key = || short("key", KEY_LEN_MAX);
        Ok(match command {
            b"init" => {
                let version = number("pmi_version").and_then(|version| u32::try_from(version).ok());
                Request::Init(version.ok_or(Refusal::Without("pmi_version"))?)
            }
            b"get_maxes" => Request::Maxes,
            b"get_universe_size" => Request::UniverseSize,
            b"get_appnum" => Request::AppNumber,
            b"get_my_kvsname" => Request::SpaceName,
            b"put" => {
                let value = field(rest, "value").filter(|value| value.len() < VALUE_LEN_MAX);
                Request::Put { space: space()?, key: key()?, value: value.ok_or(Refusal::Without("value"))? }
            }
            b"get" => Request::Get { space: space()?, key: key()? },
            b"barrier_in" => Request::Barrier,
            b"finalize" => Request::Finalize,
            b"abort" => Request::Abort { status: number("exitcode").unwrap_or(1), message: tail(rest, b"message=") },
            b"publish_name" => Request::Name("publish"),
            b"unpublish_name" => Request::Name("unpublish"),
            b"lookup_name" => Request::Name("lookup"),
            other => return Err(Refusal::Unknown(shown(other))),
        })
    }
}

impl Spawn {
    /// Takes a line of a description. Returns whether it is its last one.
    fn line(&mut self, line: &[u8]) -> bool {
        let number = |name: &[u8]| std::str::from_utf8(line.strip_prefix(name)?).ok()?.parse().ok();
        self.of = number(b"totspawns=").unwrap_or(self.of);
        self.at = number(b"spawnssofar=").unwrap_or(self.at);
        line == b"endcmd"
    }
}

/// The first word, and what is behind the blank after it.
fn cut(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// The value of a field; there are no blanks in values.
fn field<'l>(fields: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let value = |word: &'l [u8]| word.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    fields.split(|byte| *byte == b' ').find_map(value)
}

/// What is behind these bytes to the end of the line: a text in words.
fn tail<'l>(fields: &'l [u8], start: &[u8]) -> Option<&'l [u8]> {
    let at = fields.windows(start.len()).position(|window| window == start)?;
    Some(&fields[at + start.len()..]).filter(|text| !text.is_empty())
}

/// A few bytes of a rank's, for a line of the launcher's.
pub(super) fn shown(bytes: &[u8]) -> String {
    const LEN_MAX: usize = 200;
    bytes[..bytes.len().min(LEN_MAX)].escape_ascii().to_string()
}

/// The answer to [`Request::Init`] of this version.
pub(super) fn init(version: u32) -> Vec<u8> {
    let rc = if version == VERSION { 0 } else { -1 };
    format!("cmd=response_to_init pmi_version={VERSION} pmi_subversion={SUBVERSION} rc={rc}\n").into()
}

/// Whether a rank that asks for this version is served.
pub(super) fn is_served(version: u32) -> bool {
    version == VERSION
}

pub(super) fn maxes() -> Vec<u8> {
    format!("cmd=maxes rc=0 kvsname_max={NAME_LEN_MAX} keylen_max={KEY_LEN_MAX} vallen_max={VALUE_LEN_MAX}\n").into()
}

pub(super) fn universe_size(size: u32) -> Vec<u8> {
    format!("cmd=universe_size rc=0 size={size}\n").into()
}

/// There is one application.
pub(super) fn app_number() -> Vec<u8> {
    b"cmd=appnum rc=0 appnum=0\n".to_vec()
}

pub(super) fn space_name(name: &str) -> Vec<u8> {
    format!("cmd=my_kvsname rc=0 kvsname={name}\n").into()
}

/// The answer to a put: success, or a word that says why not.
pub(super) fn put(result: Result<(), &str>) -> Vec<u8> {
    let (rc, word) = result.err().map_or((0, "success"), |word| (-1, word));
    format!("cmd=put_result rc={rc} msg={word}\n").into()
}

/// The answer to a get: the value, if there is one.
pub(super) fn get(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        Some(value) => [b"cmd=get_result rc=0 msg=success value=", value, b"\n"].concat(),
        None => b"cmd=get_result rc=-1 msg=key_not_found value=unknown\n".to_vec(),
    }
}

pub(super) fn barrier() -> Vec<u8> {
    b"cmd=barrier_out rc=0\n".to_vec()
}

pub(super) fn finalize() -> Vec<u8> {
    b"cmd=finalize_ack rc=0\n".to_vec()
}

/// Refuses a request about published names.
pub(super) fn no_names(word: &str) -> Vec<u8> {
    format!("cmd={word}_result rc=-1 info=not_supported msg=not_supported port=unknown\n").into()
}

/// Refuses to start processes.
pub(super) fn no_spawn() -> Vec<u8> {
    b"cmd=spawn_result rc=-1 msg=not_supported\n".to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Result<Request<'_>, Refusal> {
        Reader::default().read(line)
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(read(b"cmd=init pmi_version=1 pmi_subversion=1"), Ok(Request::Init(1)));
        assert_eq!(read(b"cmd=get_maxes"), Ok(Request::Maxes));
        assert_eq!(read(b"cmd=barrier_in "), Ok(Request::Barrier));
        let put = Request::Put { space: b"job", key: b"-bcast-1-0", value: b"2F=6" };
        assert_eq!(read(b"cmd=put kvsname=job key=-bcast-1-0 value=2F=6"), Ok(put));
        // A value may be empty, a key may not.
        let put = Request::Put { space: b"job", key: b"k", value: b"" };
        assert_eq!(read(b"cmd=put value= key=k kvsname=job"), Ok(put));
        assert_eq!(read(b"cmd=get kvsname=job key=k"), Ok(Request::Get { space: b"job", key: b"k" }));
        assert_eq!(read(b"cmd=abort exitcode=-7"), Ok(Request::Abort { status: -7, message: None }));
        let abort = Request::Abort { status: 3, message: Some(b"no more = no") };
        assert_eq!(read(b"cmd=abort exitcode=3 message=no more = no"), Ok(abort));
        assert_eq!(read(b"cmd=lookup_name service=a"), Ok(Request::Name("lookup")));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (line, refusal) in [
            (&b""[..], Refusal::NoCommand),
            (b"\0\xff", Refusal::NoCommand),
            (b"    43cmd=fullinit;pmirank=0;", Refusal::NoCommand),
            (b"cmd=", Refusal::Unknown(String::new())),
            (b"cmd=initack pmiid=1", Refusal::Unknown("initack".into())),
            (b"cmd=g\xff", Refusal::Unknown("g\\xff".into())),
            (b"cmd=init", Refusal::Without("pmi_version")),
            (b"cmd=init pmi_version=-1", Refusal::Without("pmi_version")),
            (b"cmd=init pmi_version=99999999999", Refusal::Without("pmi_version")),
            (b"cmd=get kvsname=job", Refusal::Without("key")),
            (b"cmd=get kvsname=job key=", Refusal::Without("key")),
            (b"cmd=get key=k", Refusal::Without("kvsname")),
            (b"cmd=put kvsname=job key=k", Refusal::Without("value")),
        ] {
            assert_eq!(read(line), Err(refusal), "{}", line.escape_ascii());
        }
        let line = |key: usize, value: usize| {
            format!("cmd=put kvsname=job key={} value={}", "k".repeat(key), "v".repeat(value))
        };
        assert!(read(line(KEY_LEN_MAX - 1, VALUE_LEN_MAX - 1).as_bytes()).is_ok());
        assert_eq!(read(line(KEY_LEN_MAX, 1).as_bytes()), Err(Refusal::Without("key")));
        assert_eq!(read(line(1, VALUE_LEN_MAX).as_bytes()), Err(Refusal::Without("value")));
        assert_eq!(shown(&[0; 9999]).len(), 800);
    }

    #[test]
    fn the_longest_answer_fits_into_a_ranks_buffer() {
        assert!(get(Some(&[b'v'; VALUE_LEN_MAX - 1])).len() < 1023);
    }

    #[test]
    fn a_description_of_processes_is_one_request() {
        let mut reader = Reader::default();
        let mut lines = |text: &str| {
            let read = |line: &str| reader.read(line.as_bytes()).unwrap() == Request::Spawn;
            text.lines().map(read).collect::<Vec<_>>()
        };
        assert_eq!(lines("mcmd=spawn\nnprocs=1\ntotspawns=1\nspawnssofar=1\ncmd=finalize\nendcmd").last(), Some(&true));
        let first = lines("mcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd");
        assert!(!first.contains(&true));
        assert_eq!(lines("mcmd=spawn\ntotspawns=2\nspawnssofar=2\nendcmd"), [false, false, false, true]);
        assert_eq!(reader.read(b"cmd=finalize"), Ok(Request::Finalize));
    }
}
