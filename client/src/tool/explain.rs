//! What a tool's user is told if no server is found. The log escapes control characters, which names of files may hold.

use std::path::Path;

use super::find::{Candidate, ToolTarget};
use crate::Environment;
use crate::discovery::scan::Found;
use crate::rendezvous::{Contact, ContactFile, Unusable, date};
use crate::trusted::{LIST, Trusted};

/// The number of files that are named.
const FILES_MAX: usize = 8;

/// Lines about the servers that could be meant, if there are several, or about the files that lead to no server.
pub(super) fn lines(wanted: &ToolTarget, env: &Environment, trusted: &Trusted) -> Vec<String> {
    let nodes = wanted.search_nodes(env, trusted);
    let sessions = match wanted.candidates(env).contains(&Candidate::Session) {
        true => wanted.search_sessions(env, trusted, Found::default()),
        false => Found::default(),
    };
    match sessions.distinct() {
        several if several.len() > 1 => {
            let heading = format!("not connected: {} servers could be meant; choose one:", several.len());
            let choices = several.iter().map(|contact| choice(contact, &several, &sessions));
            std::iter::once(heading).chain(choices).collect()
        }
        _ => ignored(&[nodes, sessions]),
    }
}

/// A line about a server, and how to choose it.
fn choice(contact: &Contact, several: &[&Contact], found: &Found) -> String {
    let nspace = contact.uri.proc.nspace.to_string();
    let same = found.usable().filter(|other| other.uri == contact.uri);
    let files: Vec<&Path> = same.filter_map(|other| Some(other.file.as_ref()?.path.as_path())).collect();
    // Only with a file of that name a search finds the server by it.
    let has_file_of = |name: &str| {
        let end = format!(".tool.{name}");
        files.iter().any(|path| path.to_string_lossy().ends_with(&end))
    };
    let (mut about, mut ways) = (Vec::new(), Vec::new());
    if let Some(pid) = contact.pid {
        about.push(format!("process {pid}"));
        if has_file_of(&pid.to_string()) {
            ways.push(format!("PMIX_SERVER_PIDINFO={pid}"));
        }
    }
    if let Some(ContactFile { owner, written, .. }) = &contact.file {
        about.push(format!("user {owner}"));
        about.extend(written.map(|written| format!("started {} UTC", date(written))));
    }
    about.push(format!("namespace {}", nspace));
    let is_unique = several.iter().filter(|other| other.uri.proc.nspace == contact.uri.proc.nspace).count() == 1;
    if is_unique && has_file_of(&nspace) {
        ways.push(format!("PMIX_SERVER_NSPACE={}", nspace));
    }
    if let Some(path) = files.iter().min() {
        ways.push(format!("PMIX_SERVER_URI=file:{0} or PMIX_TOOL_ATTACHMENT_FILE={0}", path.display()));
    }
    format!("{}: {}", about.join(", "), ways.join(" or "))
}

/// Lines about files that lead to no server.
fn ignored(found: &[Found]) -> Vec<String> {
    let mut all: Vec<(&Path, &Unusable)> = Vec::new();
    for Found { servers, unusable, .. } in found {
        let of_servers = servers.iter().filter_map(|(contact, why)| Some((contact.file.as_ref()?, why.as_ref()?)));
        let of_servers = of_servers.map(|(file, why)| (file.path.as_path(), why));
        all.extend(of_servers.chain(unusable.iter().map(|(path, why)| (path.as_path(), why))));
    }
    let line = |(path, why): &(&Path, &Unusable)| {
        let help = match why {
            Unusable::NotTrusted(_) => format!("; trusted are root, this user and the users listed in {LIST}"),
            Unusable::Ended(_) | Unusable::NobodyListens(_) | Unusable::OtherProcess(..) => "; remove it".to_owned(),
            _ => String::new(),
        };
        format!("{} is ignored: {why}{help}", path.display())
    };
    let mut lines: Vec<String> = all.iter().take(FILES_MAX).map(line).collect();
    if all.len() > FILES_MAX {
        lines.push(format!("{} more files are ignored", all.len() - FILES_MAX));
    }
    lines
}
