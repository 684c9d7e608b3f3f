//! `pmixctl ps`: the ranks of jobs.

use pmix_dstore::model::{ProcInfo, Status, proc_state};
use serde_json::json;

use super::Printout;
use super::args::Server;
use super::connection::Connection;
use crate::table::Table;
use crate::value::{escaped, of_process, state};

/// Lists the ranks of a job, or of all that the server knows.
pub fn ps(server: &Server, nspace: Option<&str>, json: bool) -> Result<Printout, String> {
    let connection = Connection::open(server)?;
    let names = match nspace {
        Some(name) => vec![name.to_owned()],
        None => connection.namespaces().map_err(|status| format!("the server does not list its jobs: {status}"))?,
    };
    let host = connection.client().hostname();
    let mut procs = Vec::new();
    for name in &names {
        match connection.processes(name) {
            Ok(found) => procs.extend(found),
            // A job that has ended meanwhile, or one that the server knows by name only.
            Err(Status::ERR_NOT_FOUND) if nspace.is_none() => {}
            Err(status) => return Err(format!("job {name}: {status}")),
        }
    }
    connection.close();
    let is_empty = procs.is_empty();
    let text = if json { as_json(&procs, &host) } else { as_table(&procs, &host) };
    Ok(Printout { text, is_good: !is_empty })
}

fn as_table(procs: &[ProcInfo], host: &str) -> String {
    let mut table = Table::new(&["JOB", ">RANK", "NODE", ">PID", "STATE", ">MEMORY", "PROGRAM"]);
    for proc in procs {
        let text = |text: &Option<std::ffi::CString>| {
            text.as_ref().map_or_else(String::new, |text| escaped(&text.to_string_lossy()))
        };
        let memory = memory_of(proc, host).map_or_else(String::new, |kib| format!("{:.1} MiB", kib as f64 / 1024.0));
        let pid = if proc.pid > 0 { proc.pid.to_string() } else { String::new() };
        let nspace = escaped(&proc.proc.nspace.to_string());
        let rank = proc.proc.rank.to_string();
        table.row([nspace, rank, text(&proc.hostname), pid, state_of(proc, host), memory, text(&proc.executable)]);
    }
    if table.len() == 0 { "no ranks\n".to_owned() } else { table.text() }
}

fn as_json(procs: &[ProcInfo], host: &str) -> String {
    let one = |proc: &ProcInfo| {
        let mut fields = of_process(proc);
        fields["memory_kib"] = memory_of(proc, host).into();
        fields["state"] = state_of(proc, host).into();
        fields
    };
    format!("{:#}\n", json!({ "ranks": procs.iter().map(one).collect::<Vec<_>>() }))
}

/// The state as the server has it; `stopped` where the process is of this host and the kernel says so, for which PMIx has no state.
pub fn state_of(proc: &ProcInfo, host: &str) -> String {
    match of_kernel(proc, host, "State:") {
        Some(word) if word.starts_with('T') => "stopped".to_owned(),
        _ => state(proc.state),
    }
}

/// The memory of a process of this host that is in RAM, in KiB, shared pages included; `None` where it cannot be read.
pub fn memory_of(proc: &ProcInfo, host: &str) -> Option<u64> {
    of_kernel(proc, host, "VmRSS:")?.trim_end_matches("kB").trim().parse().ok()
}

/// Whether the process is over, so that its number may be another one's by now.
pub fn has_ended(proc: &ProcInfo) -> bool {
    proc.state >= proc_state::TERMINATED
}

/// What the kernel says of a process of this host.
fn of_kernel(proc: &ProcInfo, host: &str, name: &str) -> Option<String> {
    if has_ended(proc) || proc.pid <= 0 || proc.hostname.as_ref()?.to_bytes() != host.as_bytes() {
        return None;
    }
    let status = std::fs::read(format!("/proc/{}/status", proc.pid)).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}
