//! The report of `pmixrun --report`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use pmix_server::Stats;
use serde_json::json;

use super::args::{Args, Report};
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
    /// The PMIx libraries that ranks had mapped when they connected, with the number of ranks.
    pub libraries: BTreeMap<String, u32>,
    /// The number of ranks that have connected by PMI-1.
    pub pmi_ranks: u32,
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
        "libraries": ended.libraries,
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
    for (library, ranks) in &ended.libraries {
        lines.push(format!("  PMIx library          {library} ({ranks} ranks)"));
    }
    lines.push(String::new());
    lines.join("\n")
}
