//! The connection to the server that the command line means.

use std::io::ErrorKind;
use std::time::Duration;

use pmix_client::inspection::{self, elements};
use pmix_client::rendezvous::Contact;
use pmix_client::tool::FoundServer;
use pmix_client::{Client, Environment, tool};
use pmix_dstore::model::{DataArray, Info, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Value, keys};

use super::args::Server;
use super::servers;
use crate::value::{escaped, info_of};
use crate::waits::{JobProcess, Processes};

/// A connection as a tool.
pub struct Connection {
    client: Client,
    timeout: u32,
}

const SERVERS_ARE_LISTED: &str = "pmixctl servers lists the servers, with --json their files";

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// What is wrong and what to do, in words.
    pub fn open(server: &Server) -> Result<Connection, String> {
        if let Some(file) = &server.file {
            // Named by the user: a reason why it cannot be read says more than that there is no server.
            Contact::read(file).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => {
                    let file = file.display();
                    format!("--file {file}: no file with a server's address ({error}); {SERVERS_ARE_LISTED}")
                }
                _ => format!("--file {}: {error}; {SERVERS_ARE_LISTED}", file.display()),
            })?;
        }
        let env =
            Environment::from_process().map_err(|status| format!("the PMIX_ variables of this process: {status}"))?;
        let (client, _) = tool::connect(env, &infos_of(server)).map_err(|status| refused(server, status))?;
        Ok(Connection { client, timeout: server.timeout })
    }

    /// This process as the server's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The time limit.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// The time limit, as a directive of operations.
    pub fn limit(&self) -> Info {
        Info::new(keys::TIMEOUT, Value::Int(i32::try_from(self.timeout).unwrap_or(i32::MAX)))
    }

    /// Asks for keys with qualifiers.
    ///
    /// # Errors
    /// The status of the server or its host.
    pub fn query(&self, keys: &[&str], mut qualifiers: Vec<Info>) -> Result<Vec<Info>, Status> {
        qualifiers.push(self.limit());
        let keys = keys.iter().filter_map(|key| std::ffi::CString::new(*key).ok()).collect();
        self.client.query(vec![Query { keys, qualifiers }]).wait().map(|reply| reply.infos)
    }

    /// The namespaces that the server knows, sorted.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn namespaces(&self) -> Result<Vec<String>, Status> {
        let infos = self.query(&[keys::QUERY_NAMESPACES], Vec::new())?;
        let list = Info::find(&infos, keys::QUERY_NAMESPACES).and_then(Value::as_text).unwrap_or_default();
        let list = String::from_utf8_lossy(list);
        let mut names: Vec<String> = list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// The processes of a namespace, by rank.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn processes(&self, nspace: &str) -> Result<Vec<ProcInfo>, Status> {
        let of = || vec![Info::new(keys::NSPACE, Value::string(nspace))];
        let infos = self.query(&[keys::QUERY_PROC_TABLE], of())?;
        let Some(Value::DataArray(array)) = Info::find(&infos, keys::QUERY_PROC_TABLE) else {
            return Err(Status::ERR_NOT_FOUND);
        };
        let DataArray { items, .. } = &**array;
        let one = |item: &Value| if let Value::ProcInfo(proc) = item { Some((**proc).clone()) } else { None };
        let mut procs: Vec<ProcInfo> = items.iter().filter_map(one).collect();
        procs.sort_by_key(|proc| proc.proc.rank);
        Ok(procs)
    }

    /// What a server of this library tells of itself; nothing of one that is another library's.
    pub fn inspected(&self) -> Inspected {
        let keys =
            [inspection::COLLECTIVES, inspection::WAITS, inspection::MISSED, inspection::CONNECTIONS, inspection::LOST];
        let infos = self.query(&keys, Vec::new()).unwrap_or_default();
        Inspected {
            collectives: elements(&infos),
            waits: elements(&infos),
            missed: elements(&infos),
            connections: elements(&infos),
            lost: elements(&infos),
        }
    }

    /// Ends the connection.
    pub fn close(self) {
        // The answer has been printed; a server that is lost meanwhile changes nothing.
        let _ = self.client.finalize(&[]);
    }
}

/// What a server tells of itself.
#[derive(Default)]
pub struct Inspected {
    /// Collectives that are not over.
    pub collectives: Vec<inspection::Collective>,
    /// Gets that wait.
    pub waits: Vec<inspection::Wait>,
    /// Keys that did not come.
    pub missed: Vec<inspection::Missed>,
    /// Connected processes.
    pub connections: Vec<inspection::Connection>,
    /// Processes that the server has lost.
    pub lost: Vec<inspection::Lost>,
}

impl Inspected {
    /// Rows of the process table, with what the server says of connections.
    pub fn known(&self, processes: impl IntoIterator<Item = ProcInfo>) -> Processes {
        let one = |process: ProcInfo| {
            let is_connected = self.connections.iter().any(|connection| connection.proc == process.proc);
            (process.proc.clone(), JobProcess { process, is_connected })
        };
        processes.into_iter().map(one).collect()
    }
}

/// The attributes of `PMIx_tool_init` that choose the server.
fn infos_of(server: &Server) -> Vec<Info> {
    let mut infos = vec![Info::new(keys::TIMEOUT, Value::Int(i32::try_from(server.timeout).unwrap_or(i32::MAX)))];
    if let Some(pid) = server.pid {
        infos.push(Info::new(keys::SERVER_PIDINFO, Value::Pid(pid.cast_signed())));
    }
    if let Some(nspace) = &server.server_nspace {
        infos.push(Info::new(keys::SERVER_NSPACE, Value::string(nspace)));
    }
    if let Some(uri) = &server.uri {
        infos.push(Info::new(keys::SERVER_URI, Value::string(uri)));
    }
    if let Some(file) = &server.file {
        infos.push(Info::new(keys::TOOL_ATTACHMENT_FILE, Value::string(file.as_os_str().as_encoded_bytes())));
    }
    if server.system {
        infos.push(Info::new(keys::CONNECT_TO_SYSTEM, Value::Bool(true)));
    }
    let mut number =
        |key, number: Option<u32>| infos.extend(number.map(|number| Info::new(key, Value::Uint32(number))));
    number(keys::CONNECT_MAX_RETRIES, server.retries);
    number(keys::CONNECT_RETRY_DELAY, server.delay);
    infos
}

/// Why there is no connection, and what to do.
fn refused(server: &Server, status: Status) -> String {
    let mut is_named = true;
    let named = match server {
        Server { pid: Some(pid), .. } => format!("the server of process {pid}"),
        Server { server_nspace: Some(nspace), .. } => format!("the server of namespace {nspace}"),
        Server { uri: Some(uri), .. } => format!("the server at {uri}"),
        Server { file: Some(file), .. } => format!("the server of {}", file.display()),
        Server { system: true, .. } => "the server of this node".to_owned(),
        _ => {
            is_named = false;
            "a PMIx server of this user on this node".to_owned()
        }
    };
    let choice;
    let next = match status {
        Status::ERR_UNREACH if is_named => {
            "It is not there or takes no tools, as those of mpirun 4 and Slurm; pmixctl servers lists those that do"
        }
        Status::ERR_UNREACH => {
            choice = servers::found()
                .map_or_else(|why| format!("The servers cannot be listed: {why}"), |found| choose(&found));
            &choice
        }
        Status::ERR_BAD_PARAM if server.uri.is_some() => {
            "An address is NSPACE.RANK;tcp4://HOST:PORT, as pmixrun --report-uri writes it, or file:FILE with it in the first line"
        }
        Status::ERR_TIMEOUT => {
            "It did not answer, or the files of servers were not read, in time; --timeout SECONDS waits longer"
        }
        _ => "pmixctl servers lists the servers",
    };
    format!("cannot reach {named}: {status}. {next}.")
}

/// How to choose one of the servers that were found.
fn choose(found: &[FoundServer]) -> String {
    let usable: Vec<&FoundServer> = found.iter().filter(|server| server.unusable.is_none()).collect();
    let option = |server: &&FoundServer| match (server.pid, server.files.first(), &server.uri) {
        (Some(pid), ..) => Some(format!("--pid {pid}")),
        (None, Some(file), _) => Some(format!("--file {}", escaped(&file.display().to_string()))),
        (None, None, Some(uri)) => Some(format!("--uri '{}'", escaped(&uri.to_string()))),
        _ => None,
    };
    match usable.as_slice() {
        [] => "None takes tools. Those of mpirun 4 and Slurm never do: there pmixctl inspect reads a job's segments, whose directory \
               is PMIX_DSTORE_SEGMENTS in a rank's environment (/proc/PID/environ)"
            .to_owned(),
        [_] => "pmixctl servers shows it; it did not accept this tool".to_owned(),
        several => {
            let options: Vec<String> = several.iter().filter_map(option).collect();
            format!("{} could be meant; choose one: {}", several.len(), options.join(" or "))
        }
    }
}

/// Qualifiers from the command line.
///
/// # Errors
/// What is wrong with one.
pub fn qualifiers(texts: &[String]) -> Result<Vec<Info>, String> {
    texts.iter().map(|text| info_of(text)).collect()
}

/// A process from the command line: `NSPACE:RANK`, in which `*` stands for all ranks.
///
/// # Errors
/// What is wrong with it.
pub fn process(text: &str) -> Result<Proc, String> {
    let (job, rank) = text.rsplit_once(':').ok_or_else(|| format!("{text}: a process is named NSPACE:RANK"))?;
    Ok(Proc::new(nspace(job)?, self::rank(rank)?))
}

/// A rank from the command line; `*` stands for all ranks, or for values of the job.
///
/// # Errors
/// What is wrong with it.
pub fn rank(text: &str) -> Result<Rank, String> {
    match text {
        "*" | "all" => Ok(Rank::WILDCARD),
        number => number.parse().map(Rank).map_err(|_| {
            format!("rank {number}: no rank; give a number, or * for all ranks and for values of the job")
        }),
    }
}

/// A namespace from the command line.
///
/// # Errors
/// What is wrong with it.
pub fn nspace(text: &str) -> Result<Nspace, String> {
    Nspace::new(text).map_err(|error| format!("namespace {text}: {error}"))
}

/// A key from the command line: an attribute's name, or a key.
///
/// # Errors
/// What is wrong with it.
pub fn key(text: &str) -> Result<Key, String> {
    Key::new(crate::value::key_of(text)).map_err(|error| format!("key {text}: {error}"))
}
