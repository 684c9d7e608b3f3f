//! `pmixctl clean`: removes what servers and launchers of this user have left that ended without removing it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pmix_client::Environment;
use pmix_server::leftovers::{Leftover, Outcome, Search};
use serde_json::json;

use super::Printout;
use crate::table::Table;
use crate::value::escaped;

/// Where servers put their files when nothing else is set.
const USUAL: [&str; 2] = ["/tmp", "/dev/shm"];

/// Looks in the directories, and without any in those where servers of this environment put their files.
pub fn clean(directories: &[PathBuf], dry_run: bool, json: bool) -> Result<Printout, String> {
    let env = Environment::from_process().map_err(|status| format!("the PMIX_ variables of this process: {status}"))?;
    let mut search = Search::new(&String::from_utf8_lossy(&env.hostname), !dry_run);
    let mut unread = Vec::new();
    let looked = if directories.is_empty() { usual(&env) } else { directories.to_vec() };
    for directory in &looked {
        if let Err(error) = search.look_below(directory) {
            unread.push(format!("{}: {error}", directory.display()));
        }
    }
    if search.is_cut() {
        unread.push("there are too many directories; --directory names one to look in".to_owned());
    }
    if !unread.is_empty() && looked.len() == unread.len() {
        return Err(unread.join("; "));
    }
    let found = search.found();
    let is_good =
        unread.is_empty() && found.iter().all(|left| matches!(left.outcome, Outcome::Found | Outcome::Removed));
    let text = if json { as_json(&looked, &found, &unread) } else { as_text(&looked, &found, &unread) };
    Ok(Printout { text, is_good })
}

/// The directories that exist, each once.
fn usual(env: &Environment) -> Vec<PathBuf> {
    let named = [env.server_tmpdir.clone(), Some(env.system_tmpdir.clone())].into_iter().flatten();
    let mut known = BTreeSet::new();
    let real = |path: PathBuf| path.canonicalize().ok().filter(|path| path.is_dir());
    named.chain(USUAL.map(PathBuf::from)).filter_map(real).filter(|path| known.insert(path.clone())).collect()
}

fn names(directories: &[PathBuf]) -> Vec<String> {
    directories.iter().map(|path| name(path)).collect()
}

fn name(path: &Path) -> String {
    escaped(&path.display().to_string())
}

fn as_text(looked: &[PathBuf], found: &[Leftover], unread: &[String]) -> String {
    let mut text = if found.is_empty() {
        format!("nothing is left of servers that have ended in {}\n", names(looked).join(", "))
    } else {
        let mut table = Table::new(&["FILE", "KIND", "OUTCOME", "REASON"]);
        for Leftover { path, kind, reason, outcome } in found {
            table.row([name(path), kind.code().into(), escaped(&outcome.to_string()), escaped(reason)]);
        }
        table.text()
    };
    for line in unread {
        text += &format!("not looked at: {}\n", escaped(line));
    }
    text
}

fn as_json(looked: &[PathBuf], found: &[Leftover], unread: &[String]) -> String {
    let left = |Leftover { path, kind, reason, outcome }: &Leftover| {
        let (word, error) = match outcome {
            Outcome::Failed(error) => ("failed".to_owned(), Some(error)),
            other => (other.to_string(), None),
        };
        json!({ "path": path.to_string_lossy(), "kind": kind.code(), "reason": reason, "outcome": word, "error": error })
    };
    let left: Vec<_> = found.iter().map(left).collect();
    let looked: Vec<_> = looked.iter().map(|path| path.to_string_lossy()).collect();
    format!("{:#}\n", json!({ "directories": looked, "left": left, "not_looked_at": unread }))
}
