//! `pmixctl servers`: the servers that a tool of this user could reach on this node.

use std::path::PathBuf;

use pmix_client::Environment;
use pmix_client::rendezvous::date;
use pmix_client::tool::{self, FoundServer};
use serde_json::json;

use super::Printout;
use crate::table::Table;
use crate::value::escaped;

/// All servers and rendezvous files of this node.
///
/// # Errors
/// What is wrong with the environment.
pub fn found() -> Result<Vec<FoundServer>, String> {
    Ok(tool::servers(&environment()?))
}

fn environment() -> Result<Environment, String> {
    Environment::from_process().map_err(|status| format!("the PMIX_ variables of this process: {status}"))
}

/// Which jobs have no such server.
const NO_TOOLS: &str = "; those of mpirun 4 and Slurm take no tools";

/// Lists the servers, and the files that lead to none.
pub fn servers(json: bool) -> Result<Printout, String> {
    let (found, left_out) = tool::servers_and_left_out(&environment()?);
    let is_good = found.iter().any(|server| server.unusable.is_none());
    if json {
        let list: Vec<_> = found.iter().map(as_json).collect();
        return Ok(Printout {
            text: format!("{:#}\n", json!({ "servers": list, "left_out_of_other_users": left_out })),
            is_good,
        });
    }
    let mut usable = Table::new(&["SERVER", ">PID", ">USER", "RELEASE", "STARTED (UTC)", "FOUND AS"]);
    let mut others = Table::new(&["FILE", "LEADS TO NO SERVER, SINCE"]);
    for server in &found {
        match &server.unusable {
            None => usable.row(cells(server)),
            Some(reason) => {
                let file = |file: &PathBuf| escaped(&file.display().to_string());
                others.row([server.files.first().map_or_else(String::new, file), escaped(&reason.to_string())]);
            }
        }
    }
    let mut text =
        if usable.len() == 0 { format!("no server that a tool could reach{NO_TOOLS}\n") } else { usable.text() };
    if others.len() > 0 {
        text += &format!("\n{}", others.text());
    }
    match left_out {
        0 => {}
        1 => text += "\n1 rendezvous file of another user is left out: run pmixctl as that user to see its server\n",
        _ => {
            text += &format!(
                "\n{left_out} rendezvous files of other users are left out: run pmixctl as these users to see their servers\n"
            );
        }
    }
    Ok(Printout { text, is_good })
}

fn cells(server: &FoundServer) -> [String; 6] {
    let kinds: Vec<_> = server.kinds.iter().map(|kind| kind.code()).collect();
    let optional = |number: Option<String>| number.unwrap_or_default();
    [
        optional(server.uri.as_ref().map(|uri| escaped(&uri.proc.to_string()))),
        optional(server.pid.map(|pid| pid.to_string())),
        optional(server.user.map(|user| user.to_string())),
        escaped(&server.release),
        optional(server.started.map(date)),
        kinds.join(", "),
    ]
}

fn as_json(server: &FoundServer) -> serde_json::Value {
    json!({
        "nspace": server.uri.as_ref().map(|uri| uri.proc.nspace.to_string()),
        "rank": server.uri.as_ref().map(|uri| uri.proc.rank.0),
        "uri": server.uri.as_ref().map(ToString::to_string),
        "pid": server.pid,
        "user": server.user,
        "release": server.release,
        "started": server.started.map(date),
        "found_as": server.kinds.iter().map(|kind| kind.code()).collect::<Vec<_>>(),
        "files": server.files,
        "unusable": server.unusable.as_ref().map(|reason| json!({ "code": reason.code(), "text": reason.to_string() })),
    })
}
