//! What the launcher answers to queries: its ranks' processes and the state of the job.
//!
//! Other keys, and other jobs, are left to the server.

use std::ffi::CString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use pmix_dstore::model::proc_state as state;
use pmix_dstore::model::{DataArray, DataType, Info, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Value, keys};

use super::control::may_control;

/// The keys of [`Table::answer`].
const ANSWERED: [&str; 4] =
    [keys::QUERY_PROC_TABLE, keys::QUERY_LOCAL_PROC_TABLE, keys::QUERY_JOB_STATUS, keys::QUERY_DEBUG_SUPPORT];

/// Whether the launcher knows something that is asked for.
pub(super) fn is_asked(queries: &[Query]) -> bool {
    let is_answered = |key: &CString| ANSWERED.iter().any(|answered| answered.as_bytes() == key.as_bytes());
    queries.iter().any(|query| query.keys.iter().any(is_answered))
}

/// Qualifiers that do not narrow the answers.
const PASSED_OVER: [&str; 4] = [keys::NSPACE, keys::USERID, keys::GRPID, keys::TIMEOUT];

/// A rank.
#[derive(Clone)]
pub(super) struct Row {
    /// Its process.
    pub pid: i32,
    /// The file of its program.
    pub executable: CString,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Whether it has finalized.
    pub is_finalized: bool,
    /// How it ended, if it has.
    pub ended: Option<ExitStatus>,
    /// Whether a tool has killed it.
    pub is_killed_by_command: bool,
}

impl Row {
    /// There is no state for a process that is paused.
    fn state(&self) -> u8 {
        match self.ended {
            None if self.is_connected => state::CONNECTED,
            None => state::RUNNING,
            Some(status) => match status.code() {
                None if self.is_killed_by_command => state::KILLED_BY_COMMAND,
                None => state::ABORTED_BY_SIGNAL,
                Some(0) if self.is_connected => state::TERMINATED_WITHOUT_FINALIZE,
                Some(0) => state::TERMINATED,
                Some(_) => state::TERMINATED_NON_ZERO,
            },
        }
    }

    /// As in the launcher's own exit status: 128 and the signal for a killed rank.
    fn exit_code(&self) -> i32 {
        let signal = || self.ended.and_then(|status| status.signal());
        self.ended.and_then(|status| status.code()).or_else(|| Some(128 + signal()?)).unwrap_or(0)
    }
}

/// The job at one time.
pub(super) struct Table<'a> {
    /// Its namespace.
    pub job: &'a Nspace,
    /// The node's name.
    pub hostname: &'a str,
    /// The ranks.
    pub rows: Vec<Row>,
    /// The failure for which the job ends, or `READY_FOR_DEBUG` while it waits for a debugger.
    pub status: Option<Status>,
    /// The attributes for debuggers that the launcher supports.
    pub for_debuggers: &'a [&'a str],
    /// Whether queries that name no job are about this one.
    pub is_default: bool,
}

/// Answers what the launcher knows of its jobs. The server answers the rest: all keys after `ERR_NOT_SUPPORTED`, and after
/// `QUERY_PARTIAL_SUCCESS` those that are missing.
pub(super) fn answer(tables: &[Table<'_>], queries: &[Query]) -> (Status, Vec<Info>) {
    let mut infos = Vec::new();
    let mut is_whole = true;
    for Query { keys, qualifiers } in queries {
        let about = tables.iter().find(|table| table.is_meant(qualifiers)).filter(|_| may_control(qualifiers));
        for key in keys {
            let value = about.and_then(|table| key.to_str().ok().and_then(|key| table.value(key)));
            match value.and_then(|value| Some(Info { key: Key::new(key.to_bytes()).ok()?, flags: 0, value })) {
                Some(info) => infos.push(info),
                None => is_whole = false,
            }
        }
    }
    let status = match is_whole {
        true => Status::SUCCESS,
        false if infos.is_empty() => Status::ERR_NOT_SUPPORTED,
        false => Status::QUERY_PARTIAL_SUCCESS,
    };
    (status, infos)
}

impl Table<'_> {
    /// Whether a query is about this job as a whole. One that names no job is about the launched one.
    fn is_meant(&self, qualifiers: &[Info]) -> bool {
        let nspace = Info::find(qualifiers, keys::NSPACE).and_then(Value::as_text).unwrap_or_default();
        let is_job = nspace == self.job.as_bytes() || nspace.is_empty() && self.is_default;
        is_job && qualifiers.iter().all(|info| PASSED_OVER.iter().any(|key| info.key.is(key)))
    }

    fn value(&self, key: &str) -> Option<Value> {
        match key {
            // All ranks are on this node.
            keys::QUERY_PROC_TABLE | keys::QUERY_LOCAL_PROC_TABLE => {
                let items = self.proc_infos().into_iter().map(|info| Value::ProcInfo(Box::new(info))).collect();
                Some(Value::DataArray(Box::new(DataArray { ty: DataType::PROC_INFO, items })))
            }
            keys::QUERY_JOB_STATUS => {
                state::status_of_job(self.rows.iter().map(Row::state), self.status).map(Value::Status)
            }
            keys::QUERY_DEBUG_SUPPORT => Some(Value::string(self.for_debuggers.join(","))),
            _ => None,
        }
    }

    /// The ranks as queries know them, by rank.
    pub fn proc_infos(&self) -> Vec<ProcInfo> {
        let info = |(row, rank): (&Row, u32)| ProcInfo {
            proc: Proc::new(self.job.clone(), Rank(rank)),
            hostname: CString::new(self.hostname).ok(),
            executable: Some(row.executable.clone()),
            pid: row.pid,
            exit_code: row.exit_code(),
            state: row.state(),
        };
        self.rows.iter().zip(0..).map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::geteuid;

    use super::*;

    fn row(ended: Option<i32>) -> Row {
        Row {
            pid: 7,
            executable: c"/bin/sh".into(),
            is_connected: false,
            is_finalized: false,
            ended: ended.map(ExitStatus::from_raw),
            is_killed_by_command: false,
        }
    }

    fn answer(words: &[&str], qualifiers: &[Info]) -> (Status, Vec<Info>) {
        let job = Nspace::new("job").unwrap();
        let spawned = Nspace::new("spawned").unwrap();
        let table = |job, rows, is_default| {
            let for_debuggers = &["pmix.dbg.init"];
            Table { job, hostname: "here", rows, status: None, for_debuggers, is_default }
        };
        let tables = [table(&job, vec![row(None), row(Some(0))], true), table(&spawned, vec![row(None)], false)];
        let keys = words.iter().map(|word| CString::new(*word).unwrap()).collect();
        super::answer(&tables, &[Query { keys, qualifiers: qualifiers.to_vec() }])
    }

    #[test]
    fn states_and_exit_codes_follow_the_end_of_a_process() {
        let told = |row: Row| (row.state(), row.exit_code());
        assert_eq!(told(row(None)), (5, 0));
        assert_eq!(told(Row { is_connected: true, ..row(None) }), (6, 0));
        assert_eq!(told(row(Some(0))), (20, 0));
        assert_eq!(told(Row { is_connected: true, ..row(Some(0)) }), (55, 0));
        assert_eq!(told(row(Some(3 << 8))), (62, 3));
        assert_eq!(told(row(Some(11))), (54, 139));
        assert_eq!(told(Row { is_killed_by_command: true, ..row(Some(9)) }), (51, 137));
    }

    #[test]
    fn the_server_answers_the_rest() {
        let (table, status) = (keys::QUERY_PROC_TABLE, keys::QUERY_JOB_STATUS);
        let of = |words: &[&str], qualifiers: &[Info]| {
            let (status, infos) = answer(words, qualifiers);
            (status, infos.len())
        };
        let named = |name: &str| Info::new(keys::NSPACE, Value::string(name));
        assert_eq!(of(&[table, status], &[named("job")]), (Status::SUCCESS, 2));
        assert_eq!(of(&[table], &[]), (Status::SUCCESS, 1));
        let Value::DataArray(array) = &answer(&[table], &[named("spawned")]).1[0].value else { panic!() };
        assert_eq!(array.items.len(), 1, "the ranks of the spawned job");
        assert_eq!(of(&[table, keys::QUERY_NAMESPACES], &[]), (Status::QUERY_PARTIAL_SUCCESS, 1));
        let rank = Info::new(keys::RANK, Value::Rank(Rank(1)));
        let stranger = Info::new(keys::USERID, Value::Uint32(geteuid().as_raw() + 1));
        for qualifier in [named("other"), rank, stranger] {
            assert_eq!(of(&[table], &[qualifier]), (Status::ERR_NOT_SUPPORTED, 0));
        }
        let value = &answer(&[status], &[]).1[0].value;
        assert_eq!(*value, Value::Status(Status::OPERATION_IN_PROGRESS));
        let Value::DataArray(array) = &answer(&[table], &[]).1[0].value else { panic!() };
        let Value::ProcInfo(info) = &array.items[1] else { panic!() };
        assert_eq!((info.proc.rank, info.pid, info.executable.as_deref()), (Rank(1), 7, Some(c"/bin/sh")));
    }
}
