//! A PMI job over PMIx.

use std::collections::HashMap;
use std::ffi::CStr;

use pmix_client::{Client, GetRequest, process};
use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank, Scope, Status, Value, attributes};

use crate::mapping;

/// The longest name of a key-value space, of a job, a service or a port, with its NUL.
pub const NAME_LEN_MAX: usize = 256;
/// The longest key, with its NUL.
pub const KEY_LEN_MAX: usize = 256;
/// The longest value, with its NUL.
pub const VALUE_LEN_MAX: usize = 1024;
/// The key of which programs learn who is on which node.
const MAPPING: &[u8] = b"PMI_process_mapping";
/// The most ranks whose nodes are looked at.
const RANKS_MAX: u32 = 1 << 20;

/// Why a call fails. Both interfaces have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    Fail = -1,
    Init = 1,
    Argument = 2 + 1,
    KeyLength = 5,
    ValueLength = 7,
    Length = 8,
    Space = 14,
}

pub type Result<T> = std::result::Result<T, Error>;

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        if status == Status::ERR_INIT { Error::Init } else { Error::Fail }
    }
}

/// This process in its job.
pub struct Job(Client);

/// Connects this process to its PMIx server, or counts one more.
pub fn begin() -> Result<Job> {
    let is_set = |name| std::env::var_os(name).is_some();
    if process::count() == 0 && is_set("PMI_FD") && !is_set("PMIX_NAMESPACE") {
        say(
            "PMI_FD is set, and PMIX_NAMESPACE is not: this launcher serves PMI-1 or PMI-2 and no PMIx, over which this library works. \
             Start the job with pmixrun, mpirun or srun --mpi=pmix, or let the program load the launcher's own libpmi",
        );
        return Err(Error::Fail);
    }
    match process::init(&[]) {
        // Its job is not known, so that it is no job of one. Why, the log says.
        Err(Status::ERR_UNREACH) if process::is_unreached() => {
            process::finalize(&[])?;
            Err(Error::Init)
        }
        // A process that nobody launched is a job of one.
        Ok(_) | Err(Status::ERR_UNREACH) => current(),
        Err(status) => {
            say(&format!("cannot connect to the PMIx server: {status}"));
            Err(Error::Fail)
        }
    }
}

/// The job of a process that has begun.
pub fn current() -> Result<Job> {
    process::hold().map(Job).ok_or(Error::Init)
}

/// Whether this process has begun.
pub fn has_begun() -> bool {
    process::count() > 0
}

/// Undoes one [`begin`].
pub fn end() -> Result<()> {
    Ok(process::finalize(&[])?)
}

#[expect(clippy::print_stderr, reason = "an error that C programs often do not show")]
fn say(text: &str) {
    eprintln!("libpmi of pmix-dstore, process {}: {text}", std::process::id());
}

impl Job {
    fn wildcard(&self) -> Proc {
        Proc::new(self.0.me().nspace.clone(), Rank::WILDCARD)
    }

    /// The job's name, and that of its key-value space.
    pub fn name(&self) -> &Nspace {
        &self.0.me().nspace
    }

    pub fn rank(&self) -> u32 {
        self.0.me().rank.0
    }

    pub fn size(&self) -> Result<u32> {
        Ok(self.0.get_attribute(&self.wildcard(), attributes::JOB_SIZE)?)
    }

    /// How many processes there may be in all. A host that starts more than it has slots for tells fewer than there are.
    pub fn universe_size(&self) -> Result<u32> {
        let told = self.0.get_attribute(&self.wildcard(), attributes::UNIV_SIZE).unwrap_or(0);
        Ok(told.max(self.size()?))
    }

    pub fn app_number(&self) -> u32 {
        self.0.get_attribute(self.0.me(), attributes::APPNUM).unwrap_or(0)
    }

    /// Whether another job has started this one.
    pub fn is_spawned(&self) -> bool {
        self.0.get_attribute(self.0.me(), attributes::SPAWNED).unwrap_or(false)
    }

    /// The ranks of this node, in their order.
    pub fn peers(&self) -> Result<Vec<u32>> {
        if self.0.is_singleton() {
            return Ok(vec![self.rank()]);
        }
        let mut ranks: Vec<u32> =
            self.0.resolve_peers(None, Some(self.name()))?.into_iter().map(|proc| proc.rank.0).collect();
        ranks.sort_unstable();
        Ok(ranks)
    }

    /// A name is that of the job's own space, or there is no such space.
    pub fn check_space(&self, name: &CStr) -> Result<()> {
        if name.to_bytes() == self.name().as_bytes() { Ok(()) } else { Err(Error::Space) }
    }

    pub fn put(&self, key: &CStr, value: &CStr) -> Result<()> {
        let value = value.to_bytes();
        if value.len() >= VALUE_LEN_MAX {
            return Err(Error::ValueLength);
        }
        Ok(self.0.put(Scope::Global, own_key(key)?, Value::string(value))?)
    }

    pub fn commit(&self) -> Result<()> {
        Ok(self.0.commit()?)
    }

    /// Waits for all ranks, and brings what they have committed.
    pub fn fence(&self) -> Result<()> {
        Ok(self.0.fence(&[], vec![attributes::COLLECT_DATA.info(true)]).wait()?)
    }

    /// What a rank, or any, has put under a key.
    pub fn get(&self, rank: Option<u32>, key: &CStr) -> Result<Vec<u8>> {
        if key.to_bytes() == MAPPING {
            return self.mapping();
        }
        let key = own_key(key)?;
        let rank = rank.map_or(Rank::UNDEF, Rank);
        let proc = Proc::new(self.name().clone(), rank);
        // A value comes with a fence: nobody waits for one that has not.
        let now = [attributes::IMMEDIATE.info(true)];
        let key = std::str::from_utf8(key.as_bytes()).map_err(|_| Error::Argument)?;
        let value = self.0.get(&GetRequest::new(&proc, key, &now), |value| value.to_value())??;
        value.as_text().map(<[u8]>::to_vec).ok_or(Error::Fail)
    }

    /// Who is on which node. Nodes are numbered as the ranks come to them.
    fn mapping(&self) -> Result<Vec<u8>> {
        let size = self.size()?;
        if size > RANKS_MAX {
            return Err(Error::Fail);
        }
        let mut nodes = vec![None; size as usize];
        if self.0.is_singleton() {
            nodes.fill(Some(0));
        } else {
            let names = self.0.resolve_nodes(Some(self.name()))?.ok_or(Error::Fail)?;
            for (number, name) in names.split(|byte| *byte == b',').enumerate() {
                for proc in self.0.resolve_peers(Some(name), Some(self.name()))? {
                    *nodes.get_mut(proc.rank.0 as usize).ok_or(Error::Fail)? = Some(number);
                }
            }
        }
        let nodes: Vec<usize> = nodes.into_iter().collect::<Option<_>>().ok_or(Error::Fail)?;
        let mut numbers = HashMap::new();
        let number = |node| {
            let next = numbers.len() as u32;
            *numbers.entry(node).or_insert(next)
        };
        let vector = mapping::vector(&nodes.into_iter().map(number).collect::<Vec<u32>>());
        if vector.len() < VALUE_LEN_MAX { Ok(vector.into_bytes()) } else { Err(Error::Fail) }
    }

    /// Ends the job with this status, and this process.
    pub fn abort(&self, status: i32, message: Option<&CStr>) -> ! {
        let status = if status & 0xff == 0 { 1 } else { status };
        // Whatever the answer is: this process is to end.
        let _ = self.0.abort(Status(status), message, &[]);
        leave(status)
    }

    pub fn publish(&self, service: &CStr, port: &CStr) -> Result<()> {
        Ok(self
            .0
            .publish(vec![Info { key: own_key(service)?, flags: 0, value: Value::string(port.to_bytes()) }])
            .wait()?)
    }

    pub fn unpublish(&self, service: &CStr) -> Result<()> {
        let key = own_key(service)?;
        Ok(self.0.unpublish(vec![c_key(&key)?], Vec::new()).wait()?)
    }

    /// The port of a service.
    pub fn look_up(&self, service: &CStr) -> Result<Vec<u8>> {
        let found = self.0.lookup(vec![c_key(&own_key(service)?)?], Vec::new()).wait()?;
        let value = found.first().and_then(|data| data.value.as_text());
        value.map(<[u8]>::to_vec).ok_or(Error::Fail)
    }
}

/// Ends this process at once, as after an abort: nothing of the program's own end runs.
pub fn leave(status: i32) -> ! {
    // SAFETY: the call ends the process and touches no memory.
    unsafe { libc::_exit(status & 0xff) }
}

/// The PMIx key of a key of PMI, which may not be a reserved one.
fn own_key(key: &CStr) -> Result<Key> {
    let key = key.to_bytes();
    if key.is_empty() || key.len() >= KEY_LEN_MAX {
        return Err(Error::KeyLength);
    }
    Key::new([b"pmi.", key].concat()).map_err(|_| Error::KeyLength)
}

fn c_key(key: &Key) -> Result<std::ffi::CString> {
    std::ffi::CString::new(key.as_bytes()).map_err(|_| Error::Argument)
}
