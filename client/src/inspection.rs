//! What a server of this library tells of itself to tools: queries that no other library answers.
//!
//! A tool asks with `PMIx_Query_info` for the keys below. Each answer is an array of infos, one for each element, so that a C program
//! can read it, too. A server shows a process only what concerns jobs that the process may see.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use pmix_dstore::model::{DataArray, DataType, Info, Proc, Value, keys};
use pmix_dstore::segment::FileId;

/// The collectives that are not over: an array of [`Collective`].
pub const COLLECTIVES: &str = "pmix.dstore.collectives";
/// The Gets that wait: an array of [`Wait`].
pub const WAITS: &str = "pmix.dstore.waits";
/// The keys that processes waited for in vain: an array of [`Missed`].
pub const MISSED: &str = "pmix.dstore.missed";
/// The connected processes: an array of [`Connection`].
pub const CONNECTIONS: &str = "pmix.dstore.connections";
/// The processes of this node that the server has lost: an array of [`Lost`].
pub const LOST: &str = "pmix.dstore.lost";

/// Where the segments of a job are, whose name is the qualifier `PMIX_NSPACE`: an array of one [`JobDirectory`], or of none. No
/// process of another host is told.
pub const DIRECTORY: &str = "pmix.dstore.directory";

/// Most participants of a collective that an answer names.
pub const PROCS_MAX: usize = 64;

// Names of the infos in an element.
const OPERATION: &str = "pmix.dstore.operation";
const AGE: &str = "pmix.dstore.age";
const ENTERED: &str = "pmix.dstore.entered";
const ABSENT: &str = "pmix.dstore.absent";
const AT_HOST: &str = "pmix.dstore.at_host";
const ASKER: &str = "pmix.dstore.asker";
const KEY: &str = "pmix.dstore.key";
const COUNT: &str = "pmix.dstore.count";
const SHARED: &str = "pmix.dstore.shared";
const TOOL: &str = "pmix.dstore.tool";
const PATH: &str = "pmix.dstore.path";
const ID: &str = "pmix.dstore.id";

/// A fence, connect, disconnect or group operation that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Its name: `fence`, `connect`, `disconnect`, `group construction`, `group destruction`.
    pub operation: String,
    /// The participants, as the first process named them; the first [`PROCS_MAX`] if it named more.
    pub procs: Vec<Proc>,
    /// How many it named.
    pub named: u64,
    /// The time since the first process entered, in milliseconds precisely.
    pub age: Duration,
    /// The processes of this node that have entered.
    pub entered: Vec<Proc>,
    /// The processes of this node that have not entered and can.
    pub absent: Vec<Proc>,
    /// All processes of this node have entered, and the host has not answered.
    pub at_host: bool,
}

/// A Get that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The process that waits.
    pub asker: Proc,
    /// The process whose value it wants.
    pub of: Proc,
    /// The key; `None` for all values.
    pub key: Option<String>,
    /// The time since the request.
    pub age: Duration,
    /// The host has been asked for the values.
    pub at_host: bool,
}

/// A key that processes waited for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The process that has not put it.
    pub of: Proc,
    /// The key.
    pub key: String,
    /// How many Gets failed.
    pub count: u64,
}

/// A connected process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name.
    pub proc: Proc,
    /// Its process on this node, if known.
    pub pid: Option<i32>,
    /// The release of its library, as it says.
    pub release: String,
    /// It reads the segments.
    pub is_shared: bool,
    /// No host launched it.
    pub is_tool: bool,
}

/// A process whose connection ended without a finalize, and which the host has not deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub proc: Proc,
}

/// The directory with a job's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDirectory {
    /// Its path.
    pub path: PathBuf,
    /// What proves that it is the one.
    pub id: FileId,
}

/// An element of an answer.
pub trait Element: Sized {
    /// The key of the query.
    const KEY: &'static str;

    /// Its infos.
    fn infos(&self) -> Vec<Info>;

    /// Reads its infos; `None` if one is missing or has another type.
    fn read(infos: &[Info]) -> Option<Self>;
}

/// The value of an answer.
pub fn answer<T: Element>(elements: impl IntoIterator<Item = T>) -> Value {
    let one = |element: T| Value::Info(Box::new(Info::new(T::KEY, Value::infos(element.infos()))));
    Value::DataArray(Box::new(DataArray { ty: DataType::INFO, items: elements.into_iter().map(one).collect() }))
}

/// The elements in the infos of an answer; none if the server is not this library's, or answers what this release cannot read.
pub fn elements<T: Element>(infos: &[Info]) -> Vec<T> {
    let Some(Value::DataArray(array)) = Info::find(infos, T::KEY) else { return Vec::new() };
    let one = |item: &Value| {
        let Value::Info(info) = item else { return None };
        T::read(&infos_of(&info.value)?)
    };
    array.items.iter().filter_map(one).collect()
}

fn infos_of(value: &Value) -> Option<Vec<Info>> {
    let Value::DataArray(array) = value else { return None };
    let one = |item: &Value| if let Value::Info(info) = item { Some((**info).clone()) } else { None };
    array.items.iter().map(one).collect()
}

fn text(key: &'static str, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn procs(key: &'static str, procs: &[Proc]) -> Info {
    Info::new(key, Value::procs(procs.iter().cloned()))
}

fn age(age: Duration) -> Info {
    Info::new(AGE, Value::Uint64(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
}

fn flag(key: &'static str, is_set: bool) -> Info {
    Info::new(key, Value::Bool(is_set))
}

fn read_text(infos: &[Info], key: &str) -> Option<String> {
    Some(String::from_utf8_lossy(Info::find(infos, key)?.as_text()?).into_owned())
}

fn read_procs(infos: &[Info], key: &str) -> Option<Vec<Proc>> {
    Some(Info::find(infos, key)?.iter_procs().cloned().collect())
}

fn read_age(infos: &[Info]) -> Option<Duration> {
    Some(Duration::from_millis(Info::find(infos, AGE)?.as_u64()?))
}

fn read_proc(infos: &[Info], key: &str) -> Option<Proc> {
    Info::find(infos, key)?.iter_procs().next().cloned()
}

impl Element for Collective {
    const KEY: &'static str = COLLECTIVES;

    fn infos(&self) -> Vec<Info> {
        vec![
            text(OPERATION, &self.operation),
            procs(keys::GROUP_MEMBERSHIP, &self.procs),
            Info::new(COUNT, Value::Uint64(self.named)),
            age(self.age),
            procs(ENTERED, &self.entered),
            procs(ABSENT, &self.absent),
            flag(AT_HOST, self.at_host),
        ]
    }

    fn read(infos: &[Info]) -> Option<Collective> {
        Some(Collective {
            operation: read_text(infos, OPERATION)?,
            procs: read_procs(infos, keys::GROUP_MEMBERSHIP)?,
            named: Info::find(infos, COUNT)?.as_u64()?,
            age: read_age(infos)?,
            entered: read_procs(infos, ENTERED)?,
            absent: read_procs(infos, ABSENT)?,
            at_host: Info::is_set(infos, AT_HOST),
        })
    }
}

impl Element for Wait {
    const KEY: &'static str = WAITS;

    fn infos(&self) -> Vec<Info> {
        let mut infos =
            vec![procs(ASKER, std::slice::from_ref(&self.asker)), procs(keys::PROCID, std::slice::from_ref(&self.of))];
        infos.extend(self.key.as_deref().map(|key| text(KEY, key)));
        infos.extend([age(self.age), flag(AT_HOST, self.at_host)]);
        infos
    }

    fn read(infos: &[Info]) -> Option<Wait> {
        Some(Wait {
            asker: read_proc(infos, ASKER)?,
            of: read_proc(infos, keys::PROCID)?,
            key: read_text(infos, KEY),
            age: read_age(infos)?,
            at_host: Info::is_set(infos, AT_HOST),
        })
    }
}

impl Element for Missed {
    const KEY: &'static str = MISSED;

    fn infos(&self) -> Vec<Info> {
        let of = procs(keys::PROCID, std::slice::from_ref(&self.of));
        vec![of, text(KEY, &self.key), Info::new(COUNT, Value::Uint64(self.count))]
    }

    fn read(infos: &[Info]) -> Option<Missed> {
        Some(Missed {
            of: read_proc(infos, keys::PROCID)?,
            key: read_text(infos, KEY)?,
            count: Info::find(infos, COUNT)?.as_u64()?,
        })
    }
}

impl Element for Connection {
    const KEY: &'static str = CONNECTIONS;

    fn infos(&self) -> Vec<Info> {
        let mut infos = vec![procs(keys::PROCID, std::slice::from_ref(&self.proc))];
        infos.extend(self.pid.map(|pid| Info::new(keys::PROC_PID, Value::Pid(pid))));
        infos.extend([text(keys::VERSION_INFO, &self.release), flag(SHARED, self.is_shared), flag(TOOL, self.is_tool)]);
        infos
    }

    fn read(infos: &[Info]) -> Option<Connection> {
        Some(Connection {
            proc: read_proc(infos, keys::PROCID)?,
            pid: match Info::find(infos, keys::PROC_PID) {
                Some(Value::Pid(pid)) => Some(*pid),
                _ => None,
            },
            release: read_text(infos, keys::VERSION_INFO)?,
            is_shared: Info::is_set(infos, SHARED),
            is_tool: Info::is_set(infos, TOOL),
        })
    }
}

impl Element for Lost {
    const KEY: &'static str = LOST;

    fn infos(&self) -> Vec<Info> {
        vec![procs(keys::PROCID, std::slice::from_ref(&self.proc))]
    }

    fn read(infos: &[Info]) -> Option<Lost> {
        Some(Lost { proc: read_proc(infos, keys::PROCID)? })
    }
}

impl Element for JobDirectory {
    const KEY: &'static str = DIRECTORY;

    fn infos(&self) -> Vec<Info> {
        vec![Info::new(PATH, Value::string(self.path.as_os_str().as_bytes())), text(ID, &self.id.to_string())]
    }

    fn read(infos: &[Info]) -> Option<JobDirectory> {
        let path = Info::find(infos, PATH)?.as_text()?;
        Some(JobDirectory { path: OsStr::from_bytes(path).into(), id: read_text(infos, ID)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    /// Elements of an answer are read as they were written.
    fn survives<T: Element + PartialEq + std::fmt::Debug + Clone>(elements: &[T]) {
        let infos = [Info::new(T::KEY, answer(elements.to_vec()))];
        assert_eq!(super::elements::<T>(&infos), elements);
    }

    #[test]
    fn answers_are_read_as_written() {
        let collective = Collective {
            operation: "fence".into(),
            procs: vec![proc(u32::MAX - 1)],
            named: 1,
            age: Duration::from_millis(1500),
            entered: vec![proc(0), proc(2)],
            absent: Vec::new(),
            at_host: true,
        };
        survives(&[collective.clone(), Collective { absent: vec![proc(1)], at_host: false, ..collective }]);
        let wait = Wait { asker: proc(1), of: proc(2), key: Some("k".into()), age: Duration::ZERO, at_host: false };
        survives(&[wait.clone(), Wait { key: None, at_host: true, ..wait }]);
        survives(&[Missed { of: proc(3), key: "k".into(), count: 7 }]);
        survives(&[Lost { proc: proc(3) }]);
        let path = PathBuf::from(OsStr::from_bytes(b"/tmp/no text \xff"));
        survives(&[JobDirectory { path, id: "fd00:12ab".parse().unwrap() }]);
        let connection =
            Connection { proc: proc(0), pid: Some(5), release: "4.2.2".into(), is_shared: true, is_tool: false };
        survives(&[connection.clone(), Connection { pid: None, is_shared: false, is_tool: true, ..connection }]);
    }

    #[test]
    fn strange_answers_have_no_elements() {
        let of = |value| super::elements::<Missed>(&[Info::new(MISSED, value)]);
        assert_eq!(super::elements::<Missed>(&[]), []);
        assert_eq!(of(Value::Bool(true)), []);
        let nameless = vec![Info::new(KEY, Value::string("k"))];
        let element = Value::Info(Box::new(Info::new(MISSED, Value::infos(nameless))));
        assert_eq!(
            of(Value::DataArray(Box::new(DataArray { ty: DataType::INFO, items: vec![element, Value::Bool(true)] }))),
            []
        );
    }
}
