//! The last steps of ranks, as their recorders' files have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pmix_dstore::model::Status;
use pmix_dstore::rank_file::now;
use pmix_dstore::recorder::{self, FileError, History, Past, Phase, Record, Seconds};
use serde_json::{Value, json};

use crate::table::Table;
use crate::value::escaped;

/// Steps that are over and are told of a rank.
const BEFORE_MAX: usize = 3;
/// Ranks that are told of each job.
const RANKS_MAX: usize = 8;

/// The last steps of a rank.
pub struct LastSteps {
    job: String,
    rank: u32,
    /// What the rank does and did, or why that is not known.
    told: Result<Told, String>,
}

struct Told {
    pid: u32,
    in_calls: Vec<String>,
    before: Vec<String>,
}

/// The directory around a namespace's directory, or the directory itself if it is that already.
pub fn outer_of(directory: &Path) -> PathBuf {
    if directory.join("page-0").exists() { directory.join("..") } else { directory.to_owned() }
}

/// The last steps of ranks of a job: of those in `wanted`, or of all if there is none. `directory` is the one around the namespace's.
///
/// # Errors
/// The directory cannot be read.
pub fn of_job(directory: &Path, job: Option<&str>, wanted: Option<&BTreeSet<u32>>) -> std::io::Result<Vec<LastSteps>> {
    let found = recorder::files_in(directory, |rank| wanted.is_none_or(|wanted| wanted.contains(&rank)))?;
    let one = |(rank, history): (u32, Result<History, FileError>)| {
        let in_file = history.as_ref().map_or_else(|_| String::new(), |history| history.nspace.clone());
        let told = history.map(|history| told(&history.past(), history.pid)).map_err(|error| error.to_string());
        LastSteps { job: job.map_or(in_file, str::to_owned), rank, told }
    };
    Ok(found.files.into_iter().map(one).collect())
}

fn told(past: &Past<'_>, pid: u32) -> Told {
    let now = now();
    let words = |record: &&Record| record.in_words(now).to_string();
    Told {
        pid,
        in_calls: past.open.iter().map(words).collect(),
        before: past.over.iter().take(BEFORE_MAX).map(words).collect(),
    }
}

/// The steps as lines.
pub fn as_text(all: &[LastSteps]) -> String {
    let one = |LastSteps { job, rank, told }: &LastSteps| match told {
        Ok(Told { pid, in_calls, before }) => {
            let calls = if in_calls.is_empty() { "in no call that waits".to_owned() } else { in_calls.join(", ") };
            let before = if before.is_empty() { "nothing".to_owned() } else { before.join("; ") };
            format!("  rank {rank} of {} (process {pid}): {calls}; before: {before}\n", escaped(job))
        }
        Err(why) => format!("  rank {rank} of {}: {why}\n", escaped(job)),
    };
    let mut text: String = all.iter().take(RANKS_MAX).map(one).collect();
    if !text.is_empty() {
        text.insert_str(0, "last steps:\n");
    }
    if all.len() > RANKS_MAX {
        text +=
            &format!("  and of at least {} more ranks: pmixctl inspect prints their files\n", all.len() - RANKS_MAX);
    }
    text
}

/// The steps for programs.
pub fn as_json(all: &[LastSteps]) -> Value {
    let one = |LastSteps { job, rank, told }: &LastSteps| match told {
        Ok(Told { pid, in_calls, before }) => {
            json!({ "nspace": job, "rank": rank, "pid": pid, "in": in_calls, "before": before })
        }
        Err(why) => json!({ "nspace": job, "rank": rank, "problem": why }),
    };
    all.iter().map(one).collect()
}

/// Whether a file begins as one of the recorder.
pub fn is_recorder(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|word| u64::from_ne_bytes(*word) == recorder::MAGIC)
}

/// All steps of a file, as a table or as JSON, and whether all of it is whole.
///
/// # Errors
/// It is none.
pub fn of_file(bytes: &[u8], as_json: bool) -> Result<(String, bool), FileError> {
    let history = History::parse(bytes)?;
    let text = if as_json { format!("{:#}\n", file_json(&history)) } else { file_text(&history) };
    Ok((text, history.damaged == 0))
}

fn file_text(history: &History) -> String {
    let History { nspace, rank, pid, records, damaged, .. } = history;
    let mut text = format!("steps of rank {rank} of {nspace}, process {pid}, oldest first\n\n");
    let mut table = Table::new(&[">AGO", "STEP", ">TOOK", "STATUS"]);
    let (past, now) = (history.past(), now());
    let is_open = |record: &Record| past.open.iter().any(|open| open.serial == record.serial);
    for record in records.iter().filter(|record| record.phase != Phase::Begun || is_open(record)) {
        let ago = Seconds(now.saturating_sub(record.time)).to_string();
        let (took, status) = match record.phase {
            Phase::Begun => ("waits".to_owned(), String::new()),
            Phase::Ended => (Seconds(record.took).to_string(), status(record.status)),
            Phase::Happened => (String::new(), status(record.status)),
        };
        table.row([ago, record.details().to_string(), took, status]);
    }
    text += &table.text();
    if *damaged > 0 {
        text += &format!("\n{damaged} records are damaged\n");
    }
    text
}

fn status(status: Status) -> String {
    status.name().map_or_else(|| status.0.to_string(), str::to_owned)
}

fn file_json(history: &History) -> Value {
    let phase = |phase| match phase {
        Phase::Begun => "begun",
        Phase::Ended => "ended",
        Phase::Happened => "happened",
    };
    let one = |record: &Record| {
        json!({
            "serial": record.serial,
            "time": record.time.as_secs_f64(),
            "step": record.note.step.name(),
            "phase": phase(record.phase),
            "begun": record.begun,
            "took": record.took.as_secs_f64(),
            "status": record.status.0,
            "number": record.note.number,
            "text": String::from_utf8_lossy(&record.note.text().collect::<Vec<u8>>()),
        })
    };
    let History { nspace, rank, pid, time, records, damaged } = history;
    json!({
        "nspace": nspace, "rank": rank, "pid": pid, "time": time.as_secs_f64(), "damaged": damaged,
        "steps": records.iter().map(one).collect::<Vec<_>>(),
    })
}
