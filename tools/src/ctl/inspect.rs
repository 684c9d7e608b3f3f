//! `pmixctl inspect`: segments and directories of namespaces.

use std::path::{Path, PathBuf};

use pmix_dstore::segment::{InspectOptions, Report, inspect_directory, inspect_segment};

use super::Printout;

/// Prints files and directories.
pub fn inspect(paths: &[PathBuf], json: bool, options: &InspectOptions) -> Printout {
    let mut answer = Printout::good(String::new());
    for path in paths {
        match report_of(path, options) {
            Ok(report) => {
                answer.is_good &= !is_damaged(&report);
                answer.text += &if json { format!("{:#}\n", to_json(&report)) } else { report.to_text() };
            }
            Err(error) => {
                super::complain(&format!("{}: {error}", path.display()));
                answer.is_good = false;
            }
        }
    }
    answer
}

fn report_of(path: &Path, options: &InspectOptions) -> std::io::Result<Report> {
    let kind = std::fs::metadata(path)?;
    if kind.is_dir() {
        // The outer directory of a namespace is accepted, too.
        let inner = path.join("s");
        let is_outer = !path.join("page-0").exists() && inner.join("page-0").exists();
        inspect_directory(if is_outer { &inner } else { path }, options)
    } else if kind.is_file() {
        Ok(inspect_segment(&std::fs::read(path)?, options))
    } else {
        Err(std::io::Error::other("neither a file nor a directory"))
    }
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
