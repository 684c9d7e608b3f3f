//! The page of `pmixbench report`: plots and tables of documents, in one file without references to others.

mod comparison;
mod page;
mod plot;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::comparison::Comparison;
use super::document::{FORMAT, text};

/// A document is smaller: a job of a million ranks has less.
const FILE_MAX: u64 = 1 << 30;

/// Writes the page of the documents in `files`.
///
/// # Errors
/// The file, and why it cannot be read or written.
pub fn write(files: &[PathBuf], page: &Path) -> Result<(), String> {
    let documents = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let html = page::html(&Comparison::of(&documents), &documents)?;
    fs::write(page, html).map_err(|error| format!("{}: {error}", page.display()))
}

fn read(file: &Path) -> Result<Value, String> {
    let said = |reason: &dyn std::fmt::Display| format!("{}: {reason}", file.display());
    let size = fs::metadata(file).map_err(|error| said(&error))?.len();
    if size > FILE_MAX {
        return Err(said(&"this file is too large to be one of pmixbench"));
    }
    let content = fs::read(file).map_err(|error| said(&error))?;
    let document: Value = serde_json::from_slice(&content)
        .map_err(|error| said(&format!("no JSON: {error}; pmixbench get --json writes such files")))?;
    match (document["format"].as_u64(), document["figures"].as_array()) {
        (Some(FORMAT), Some(_)) if text(&document, "program").starts_with("pmixbench ") => Ok(document),
        (Some(other), _) if other != FORMAT => {
            Err(said(&format!("format {other} of pmixbench; this one reads format {FORMAT}: measure anew")))
        }
        _ => Err(said(&"no document of pmixbench; pmixbench get --json writes such files")),
    }
}
