//! The report of `pmixrun --report`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use pmix_server::Stats;
use serde_json::json;

use super::args::{Args, Library, Report};
use super::ranks;
use crate::mapped;
use crate::prrte::Kind;
use crate::usage::is_written;

/// The result of a job.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The launcher's exit status.
    pub exit_status: i32,
    /// The number of ranks that other processes have spawned.
    pub spawned: u32,
    /// The time from the first fork to the end of the last rank.
    pub runtime: Duration,
    /// The time from the first fork to the last one.
    pub forked: Duration,
    /// The PMIx libraries that ranks had mapped when they connected.
    pub libraries: BTreeMap<Vec<String>, Mapped>,
    /// The number of ranks that have connected by PMI-1.
    pub pmi_ranks: u32,
}

/// What ranks had mapped of PMIx.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// The number of these ranks.
    pub ranks: u32,
    /// The files, which are read when the job has ended: to look at them while ranks start would change the times of the report.
    files: Vec<Option<File>>,
}

impl Mapped {
    /// Keeps the files of a process open, which may be gone when they are read.
    pub fn open(pid: i32, paths: &[String]) -> Mapped {
        Mapped { ranks: 0, files: paths.iter().map(|path| mapped::open(pid, Path::new(path))).collect() }
    }
}

/// The PMIx libraries of the ranks: by path what each is and how many ranks have it.
type Libraries = BTreeMap<String, (Option<Kind>, u32)>;

fn libraries(ended: &Ended) -> Libraries {
    let mut libraries = Libraries::new();
    for (paths, mapped) in &ended.libraries {
        let kinds = mapped.files.iter().map(|file| mapped::kind_of(file.as_ref()?));
        let files: Vec<(&String, Option<Kind>)> = paths.iter().zip(kinds).collect();
        // The library of lib/prrte brings the two others along.
        let chosen = files.iter().find(|(_, kind)| *kind == Some(Kind::Both)).or(files.first());
        if let Some((path, kind)) = chosen {
            libraries.entry((*path).clone()).or_insert((*kind, 0)).1 += mapped.ranks;
        }
    }
    libraries
}

fn is_ours(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::Ours | Kind::Both))
}

/// Prints or writes the report. Returns whether that succeeded.
pub(super) fn print(args: &Args, stats: &Stats, ended: &Ended) -> bool {
    let text = match args.report {
        Some(Report::Json) => as_json(args, stats, ended),
        _ => as_text(args, stats, ended),
    };
    match &args.report_to {
        // A closed stderr is ignored.
        None => is_written(&io::stderr().write_all(text.as_bytes())),
        Some(path) => {
            let written = fs::write(path, text);
            if let Err(error) = &written {
                super::complain(&format!("cannot write the report to {}: {error}", path.display()));
            }
            written.is_ok()
        }
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn as_json(args: &Args, stats: &Stats, ended: &Ended) -> String {
    let libraries = libraries(ended);
    let report = json!({
        "ranks": args.ranks(),
        "spawned": ended.spawned,
        "exit_status": ended.exit_status,
        "forked_ms": ms(ended.forked),
        "connected_ms": stats.connected.map(ms),
        "wireup_ms": stats.wireup.map(ms),
        "runtime_ms": ms(ended.runtime),
        "fences": stats.fences,
        "gets_over_socket": stats.gets,
        "clients_shared_memory": stats.clients_shared,
        "clients_socket_only": stats.clients_socket,
        "clients_pmi": ended.pmi_ranks,
        "segments": stats.segments,
        "job_segment_bytes": stats.job_segment_bytes,
        "modex_segment_bytes": stats.modex_segment_bytes,
        "libraries": libraries.iter().map(|(path, (_, ranks))| (path, ranks)).collect::<BTreeMap<_, _>>(),
        "own_library_ranks": libraries.values().filter(|(kind, _)| is_ours(*kind)).map(|(_, ranks)| ranks).sum::<u32>(),
    });
    format!("{report}\n")
}

fn as_text(args: &Args, stats: &Stats, ended: &Ended) -> String {
    let time = |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{:.3} ms", ms(time)));
    let spawned = if ended.spawned == 0 { String::new() } else { format!(" and {} spawned ones", ended.spawned) };
    let mut lines = vec![
        format!("pmixrun report: {} ranks{spawned}, exit status {}", args.ranks(), ended.exit_status),
        format!("  all forked            {}", time(Some(ended.forked))),
        format!("  all connected         {}", time(stats.connected)),
        format!(
            "  wired up              {}   (first fork to the end of the first collecting fence)",
            time(stats.wireup)
        ),
        format!("  ran                   {}", time(Some(ended.runtime))),
        format!("  fences                {}", stats.fences),
        format!(
            "  clients               {} of {} in shared memory, {} over the socket only",
            stats.clients_shared,
            args.ranks() + ended.spawned,
            stats.clients_socket
        ),
        format!("  Gets over the socket  {}", stats.gets),
        format!(
            "  store                 {} segments: job {} bytes, modex {} bytes",
            stats.segments, stats.job_segment_bytes, stats.modex_segment_bytes
        ),
    ];
    if ended.pmi_ranks > 0 {
        lines.push(format!("  clients by PMI-1      {}", ended.pmi_ranks));
    }
    let libraries = libraries(ended);
    for (path, (kind, ranks)) in &libraries {
        let what = match kind {
            Some(Kind::Ours) => ": this library",
            Some(Kind::Both) => ": this library and the stock one, by lib/prrte",
            Some(Kind::Stock) => ": a stock library",
            None => "",
        };
        lines.push(format!("  PMIx library          {path} ({ranks} ranks){what}"));
    }
    let own = libraries.iter().find(|(_, (kind, _))| is_ours(*kind));
    if let Some((path, _)) = own.filter(|_| args.library == Library::System) {
        let path = Path::new(path).canonicalize().ok();
        let mut chosen = args.apps.iter().filter_map(|app| ranks::chosen_library(&app.variables)?.canonicalize().ok());
        let why = if chosen.any(|chosen| Some(chosen) == path) {
            "LD_LIBRARY_PATH leads to it: unset it for the stock library"
        } else {
            "the program's run path or the loader's configuration leads to it: pmix-dstore-switch status"
        };
        lines.push(format!("  --lib system          the loader has chosen this library; {why}"));
    }
    lines.push(String::new());
    lines.join("\n")
}
