//! When, where and of what figures are.

use std::process::Command;

use pmix_tests::repository;
use pmix_tools::machine::{Machine, now};

use crate::results::Contender;

/// The facts that belong to the figures of a run.
pub struct Origin {
    date: String,
    /// Of the source; `unknown` where there is no git, as in another release's root.
    commit: String,
    machine: Machine,
    /// The libraries' names with their releases.
    releases: Vec<(String, String)>,
}

impl Origin {
    pub fn now(contenders: &[Contender]) -> Origin {
        let releases = contenders.iter().map(|contender| (contender.name.clone(), contender.release.clone()));
        Origin { date: now(), commit: commit(), machine: Machine::here(), releases: releases.collect() }
    }

    /// In a line for each fact.
    pub fn text(&self) -> String {
        let Machine { processor, processors, kernel, .. } = &self.machine;
        let releases: String = self.releases.iter().map(|(name, release)| format!("{name}: {release}\n")).collect();
        let (date, commit) = (&self.date, &self.commit);
        format!("run of {date}, commit {commit}\n{processor}, {processors} processors, Linux {kernel}\n{releases}")
    }

    /// As a JSON object.
    pub fn json(&self) -> String {
        let Machine { processor, processors, kernel, .. } = &self.machine;
        let releases: Vec<_> = self.releases.iter().map(|(name, release)| format!("{name:?}:{release:?}")).collect();
        format!(
            "{{\"date\":{:?},\"commit\":{:?},\"processor\":{processor:?},\"processors\":{processors},\"kernel\":{kernel:?},\
             \"releases\":{{{}}}}}",
            self.date,
            self.commit,
            releases.join(",")
        )
    }
}

/// The source's commit, with a mark if files have been changed since.
fn commit() -> String {
    let said =
        Command::new("git").current_dir(repository()).args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    let said = said.ok().filter(|said| said.status.success());
    said.map_or("unknown".into(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
