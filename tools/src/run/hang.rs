//! What the ranks of a job wait for, in words, when somebody asks or ends the job from outside.

use std::collections::{BTreeMap, BTreeSet};

use pmix_client::inspection::Collective;
use pmix_dstore::model::{Proc, ProcInfo};
use pmix_server::Waiting;

use super::table::{Row, Table};
use crate::waits::{self, JobProcess, Processes};

/// No more collectives, and no more Gets, are told.
const LINES_MAX: usize = 8;

/// A line for each collective and each Get that waits, and one for each group of other ranks that have not ended.
pub(super) fn explained(tables: &[Table<'_>], waiting: &Waiting) -> Vec<String> {
    let of_jobs: Vec<Vec<(ProcInfo, &Row)>> =
        tables.iter().map(|table| table.proc_infos().into_iter().zip(&table.rows).collect()).collect();
    let known = |(process, row): &(ProcInfo, &Row)| {
        (process.proc.clone(), JobProcess { process: process.clone(), is_connected: row.is_connected })
    };
    let processes: Processes = of_jobs.iter().flatten().map(known).collect();
    let collectives = waiting.collectives.iter().map(|collective| waits::of_collective(collective, &processes));
    let gets = waiting.gets.iter().map(|get| waits::of_wait(get, &processes));
    let mut lines = first(collectives.collect());
    lines.extend(first(gets.collect()));
    let told = told_of(waiting);
    let mut others = Vec::new();
    for (table, ranks) in tables.iter().zip(&of_jobs) {
        let is_elsewhere = |(process, row): &&(ProcInfo, &Row)| row.ended.is_none() && !told.contains(&process.proc);
        // The job that was started from outside is the first, and the only one in most cases.
        let of = if table.job == tables[0].job { String::new() } else { format!(" of {}", table.job) };
        others.extend(elsewhere(ranks.iter().filter(is_elsewhere), &of));
    }
    lines.extend(first(others));
    lines
}

/// The processes that the lines about what waits name.
fn told_of(waiting: &Waiting) -> BTreeSet<&Proc> {
    fn of(collective: &Collective) -> impl Iterator<Item = &Proc> {
        collective.entered.iter().chain(&collective.absent)
    }
    waiting.collectives.iter().flat_map(of).chain(waiting.gets.iter().map(|get| &get.asker)).collect()
}

/// Where ranks are that are in no call that waits; `of` names their job.
fn elsewhere<'r>(ranks: impl Iterator<Item = &'r (ProcInfo, &'r Row)>, of: &str) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&ProcInfo>> = BTreeMap::new();
    for (process, row) in ranks {
        let what = match (row.is_connected, row.is_finalized) {
            (true, _) => "connected, and in no call that waits: computing, or waiting for something else",
            (false, true) => "finalized, and not ended",
            (false, false) => "not connected: before PMIx_Init, or without PMIx",
        };
        groups.entry(what).or_default().push(process);
    }
    groups.into_iter().map(|(what, ranks)| format!("{} {what}", named(&ranks, of))).collect()
}

fn first(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// "rank 3 (process 17):", or "ranks 0, 1 and 2 more:".
fn named(ranks: &[&ProcInfo], of: &str) -> String {
    match ranks {
        [one] => format!("rank {}{of} (process {}):", one.proc.rank, one.pid),
        some => {
            format!("ranks {}{of}:", waits::shortened(some.iter().map(|rank| rank.proc.rank.to_string()).collect()))
        }
    }
}
