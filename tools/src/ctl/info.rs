//! `pmixctl info`: this installation, and what programs of this machine would load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_dstore::segment::FORMAT_VERSION;
use serde_json::json;

use super::Printout;
use crate::prrte::{self, Kind};
use crate::table::Table;

/// The name that programs ask for.
const LIBRARY: &str = "libpmix.so.2";

/// A library that the loader would take.
struct Found {
    /// Why it is looked for there.
    by: &'static str,
    path: PathBuf,
    /// Whether it is this project's, or what is wrong with it.
    kind: Result<Kind, String>,
}

/// Describes the installation.
pub fn info(json: bool) -> Printout {
    let own = std::env::current_exe().unwrap_or_default();
    let prefix = own.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    let installed = prefix.join("lib").join(LIBRARY);
    let libraries = loaded();
    let settings = settings();
    if json {
        let one = |found: &Found| json!({ "by": found.by, "file": found.path, "library": word(&found.kind) });
        let value = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "segment_format": FORMAT_VERSION,
            "program": own,
            "library": installed.exists().then_some(&installed),
            "would_load": libraries.iter().map(one).collect::<Vec<_>>(),
            "settings": settings,
        });
        return Printout::good(format!("{value:#}\n"));
    }
    let mut text = format!("pmix-dstore {}, segment format {FORMAT_VERSION}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("program  {}\n", own.display());
    let state = if installed.exists() { "" } else { " (not there)" };
    text += &format!(
        "library  {}{state}\n\nA program that is started here and asks for {LIBRARY} gets:\n",
        installed.display()
    );
    let mut table = Table::new(&["", "FOUND BY", "FILE", "LIBRARY"]);
    for (number, found) in libraries.iter().enumerate() {
        let order = if number == 0 { "first" } else { "then" };
        table.row([order.into(), found.by.into(), found.path.display().to_string(), word(&found.kind)]);
    }
    text += &if table.len() == 0 { "nothing: no directory of the loader has it\n".to_owned() } else { table.text() };
    text += "\nPMIx variables that are set here:\n";
    for (name, value) in &settings {
        text += &format!("{name}={}{}\n", crate::value::escaped(value), remark(name));
    }
    text += if settings.is_empty() { "none\n" } else { "" };
    Printout::good(text)
}

fn word(kind: &Result<Kind, String>) -> String {
    match kind {
        Ok(Kind::Ours) => "this library".into(),
        Ok(Kind::Both) => "this library, with the stock one beside it".into(),
        Ok(Kind::Stock) => "the stock library".into(),
        Err(reason) => reason.clone(),
    }
}

/// The files that the loader would find, in its order: the directories of the environment, then its cache.
fn loaded() -> Vec<Found> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).map(|directory| ("LD_LIBRARY_PATH", directory.join(LIBRARY)));
    let files =
        directories.filter(|(_, file)| file.exists()).chain(cached().into_iter().map(|file| ("ldconfig", file)));
    let found = |(by, path): (&'static str, PathBuf)| {
        let path = path.canonicalize().unwrap_or(path);
        let kind = prrte::kind_of(&path);
        Found { by, path, kind }
    };
    files.map(found).collect()
}

/// The files of the loader's cache. None where there is no `ldconfig`.
fn cached() -> Vec<PathBuf> {
    let listed = ["/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .iter()
        .find_map(|program| Command::new(program).arg("-p").output().ok());
    let Some(listed) = listed else { return Vec::new() };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let of_line = |line: &str| {
        let (name, file) = line.trim().split_once(" => ")?;
        let rest = name.strip_prefix(LIBRARY)?;
        rest.starts_with(' ').then(|| PathBuf::from(file))
    };
    text.lines().filter_map(of_line).collect()
}

/// The variables that this library or the stock one reads, but for those that a server gives its ranks, among them a secret.
fn settings() -> BTreeMap<String, String> {
    const GIVEN: [&str; 4] = ["PMIX_DSTORE_SEGMENTS", "PMIX_DSTORE_INODE", "PMIX_DSTORE_SECRET", "PMIX_DSTORE_SERVER"];
    let is_setting = |name: &str| {
        ["PMIX_DSTORE_", "PMIX_MCA_"].iter().any(|start| name.starts_with(start)) && !GIVEN.contains(&name)
    };
    std::env::vars().filter(|(name, _)| is_setting(name)).collect()
}

/// What a reader of a setting should know.
fn remark(name: &str) -> &'static str {
    match name {
        "PMIX_MCA_gds" => {
            "   (the stock library's choice of a store; under a server of ours PMIX_DSTORE_SHM alone decides)"
        }
        _ => "",
    }
}
