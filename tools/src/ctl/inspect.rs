//! `pmixctl inspect`: segments and directories of namespaces, and files of ranks: recorders' and counts of Gets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pmix_dstore::segment::{InspectOptions, Report, inspect_directory, inspect_segment};

use super::{Printout, gets, steps};

/// Prints files and directories.
pub fn inspect(paths: &[PathBuf], json: bool, options: &InspectOptions) -> Printout {
    let mut answer = Printout::good(String::new());
    for path in paths {
        match printed(path, json, options) {
            Ok((text, is_good)) => {
                answer.is_good &= is_good;
                answer.text += &text;
            }
            Err(error) => {
                crate::usage::complain("pmixctl", &format!("cannot read {}: {error}", path.display()));
                answer.is_good = false;
            }
        }
    }
    answer
}

/// What a file or directory is, and whether it is whole.
fn printed(path: &Path, json: bool, options: &InspectOptions) -> io::Result<(String, bool)> {
    let kind = fs::metadata(path)?;
    let report = if kind.is_dir() {
        // The outer directory of a namespace is accepted, too.
        let inner = path.join("s");
        let is_outer = !path.join("page-0").exists() && inner.join("page-0").exists();
        inspect_directory(if is_outer { &inner } else { path }, options)?
    } else if kind.is_file() {
        let bytes = fs::read(path)?;
        if steps::is_recorder(&bytes) {
            return steps::of_file(&bytes, json).map_err(io::Error::other);
        }
        if gets::is_counts(&bytes) {
            return gets::of_file(&bytes, json).map(|text| (text, true));
        }
        inspect_segment(&bytes, options)
    } else {
        return Err(io::Error::other("neither a file nor a directory"));
    };
    let text = if json { format!("{:#}\n", to_json(&report)) } else { report.to_text() };
    Ok((text, !is_damaged(&report)))
}

/// Whether a report contains corruption anywhere.
fn is_damaged(report: &Report) -> bool {
    match report {
        Report::Map(parts) => parts.iter().any(|(name, part)| match name.as_str() {
            "problem" | "problems" => true,
            // The names below these entries come from the job, so they do not mark corruption.
            "values by row" | "values by rank" | "columns" => false,
            "content hash matches" | "as its entry says" => *part == Report::Bool(false),
            _ => is_damaged(part),
        }),
        _ => false,
    }
}

fn to_json(report: &Report) -> serde_json::Value {
    match report {
        Report::Number(number) => (*number).into(),
        Report::Bool(truth) => (*truth).into(),
        Report::Text(words) => words.as_str().into(),
        Report::List(items) => items.iter().map(to_json).collect(),
        Report::Map(parts) => parts.iter().map(|(name, part)| (name.clone(), to_json(part))).collect(),
    }
}
