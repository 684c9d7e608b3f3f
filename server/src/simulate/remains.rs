//! What a simulated server writes that may be restarted, and what is left of it when it is killed: bytes of journals, values of segments.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pmix_dstore::gather::Slices;
use pmix_dstore::model::{Nspace, Proc, Status};

use super::{NoSink, Simulation, configuration};
use crate::engine::{Batch, DirectoryNumber, Engine, JournalEntry, LiveSegment, Plan, Published, Work, Written};
use crate::restart::{Estate, Journal, Origin, Record, Segment, write_journal};

/// What is in the directory of a namespace.
pub struct Remains {
    nspace: Nspace,
    /// Its journal; none if it could not be written.
    journal: Option<Vec<u8>>,
    /// The values of its live segments, oldest first.
    segments: Vec<Segment>,
    /// The entries of its page.
    count: u64,
}

impl Remains {
    /// Its namespace.
    pub fn nspace(&self) -> &Nspace {
        &self.nspace
    }
}

/// All directories of a server.
#[derive(Default)]
pub(super) struct Files {
    /// Those that it has made or taken over.
    own: BTreeMap<DirectoryNumber, Remains>,
    /// Those of the server before, until their namespaces are registered again.
    inherited: Vec<Remains>,
    /// The namespaces whose sockets are bound.
    listens: HashSet<Nspace>,
}

impl Files {
    pub fn set_listening(&mut self, nspace: Nspace, listens: bool) {
        if listens {
            self.listens.insert(nspace);
        } else {
            self.listens.remove(&nspace);
        }
    }
}

/// How far a publication came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Nothing,
    Journal,
    All,
}

impl Simulation {
    /// A server that may be restarted: what it has taken over is `remains`, which is empty in its first life.
    ///
    /// # Errors
    /// Why a journal is refused.
    pub fn restartable(
        me: Proc,
        hostname: &str,
        user: (u32, u32),
        is_gateway: bool,
        patience: Duration,
        remains: Vec<Remains>,
    ) -> Result<Simulation, String> {
        let mut estates = Vec::new();
        let mut life = 0;
        for Remains { nspace, journal, segments, .. } in &remains {
            let Some(journal) = journal else { continue };
            let (mut estate, _) = Estate::read(journal).map_err(|why| format!("the journal of {nspace}: {why}"))?;
            life = life.max(estate.origin.life + 1);
            estate.segments = segments.clone();
            estates.push((nspace.clone(), estate));
        }
        let lasting_name = me.to_string();
        let config = configuration(me, hostname, user, is_gateway);
        let config = crate::config::Config { restart: Some(patience), life, lasting_name, ..config };
        let mut simulation = Simulation { life, ..Simulation::of(config, hostname) };
        simulation.engine.expect_again(estates);
        // A directory without a journal is swept.
        simulation.files.inherited = remains.into_iter().filter(|remains| remains.journal.is_some()).collect();
        Ok(simulation)
    }

    /// The number of the first connection of this life.
    pub fn first_connection(&self) -> u64 {
        u64::from(self.life) * crate::restart::CONNECTIONS_OF_LIFE
    }

    /// Whether processes of a namespace can connect over its socket.
    pub fn listens(&self, nspace: &Nspace) -> bool {
        self.files.listens.contains(nspace)
    }

    /// The server is killed. `draw` decides, below a limit, how far publications have come that are under way, and how much of the journals is
    /// written that should have been now.
    pub fn kill(mut self, mut draw: impl FnMut(u64) -> u64) -> Vec<Remains> {
        for (_, plan) in std::mem::take(&mut self.plans) {
            let reached = [Reached::Nothing, Reached::Journal, Reached::All, Reached::All][draw(4) as usize];
            self.perform(plan, reached);
        }
        let own = &self.files.own;
        let pending = self.engine.take_journal(|number| has_journal(own.get(&number)));
        let done = draw(pending.len() as u64 + 1) as usize;
        for (at, (number, entry)) in pending.into_iter().take(done + 1).enumerate() {
            match entry {
                entry if at < done => self.write_entry(number, entry),
                JournalEntry::Append(record) => {
                    let mut bytes = bytes_of(&record);
                    bytes.truncate(draw(bytes.len() as u64) as usize);
                    if let Some(journal) = self.journal(number) {
                        journal.extend(bytes);
                    }
                }
                // A rewritten one has another name until it is whole.
                _ => {}
            }
        }
        // Nobody answers what it has asked, and nobody gets what it would have said.
        drop(self.engine.shut_down());
        let files = std::mem::take(&mut self.files);
        files.own.into_values().chain(files.inherited).collect()
    }

    /// Writes to the journals what is to be there before the outputs are performed.
    pub(super) fn write_journals(&mut self) {
        let own = &self.files.own;
        for (number, entry) in self.engine.take_journal(|number| has_journal(own.get(&number))) {
            let is_over = matches!(entry, JournalEntry::Stop(_));
            self.write_entry(number, entry);
            if is_over {
                self.engine.journal_failed(number);
            }
        }
    }

    fn journal(&mut self, number: DirectoryNumber) -> Option<&mut Vec<u8>> {
        self.files.own.get_mut(&number)?.journal.as_mut()
    }

    fn write_entry(&mut self, number: DirectoryNumber, entry: JournalEntry) {
        let written = match entry {
            JournalEntry::Append(record) => {
                if let Some(journal) = self.journal(number) {
                    journal.extend(bytes_of(&record));
                }
                return;
            }
            JournalEntry::Rewrite(records) => self.encode(number, &records),
            JournalEntry::Stop(_) => None,
        };
        if let Some(files) = self.files.own.get_mut(&number) {
            files.journal = written;
        }
    }

    /// The result of a plan, as the engine is told it.
    pub(super) fn publish(&mut self, plan: Plan, has_failed: bool) -> Published {
        let directory = plan.directory;
        let written = if has_failed {
            self.files.own.remove(&directory);
            if let Work::Write(batch) = plan.work {
                self.files.inherited.retain(|files| files.nspace != batch.job.nspace);
            }
            None
        } else {
            self.perform(plan, Reached::All)
        };
        let log = if has_failed { vec!["no room".to_owned()] } else { Vec::new() };
        Published { directory, written, log }
    }

    /// Performs a plan as far as it comes; `None` if the directory is gone.
    fn perform(&mut self, plan: Plan, reached: Reached) -> Option<Written> {
        let number = plan.directory;
        let Work::Write(mut batch) = plan.work else {
            if reached == Reached::All {
                self.files.own.remove(&number);
            }
            return None;
        };
        if reached == Reached::Nothing {
            return None;
        }
        let mut written = Written::default();
        if batch.opens {
            self.open(number, &mut batch);
            written.opened = "1:1".parse().ok().map(|id| ("/nonexistent".into(), id, true));
        }
        if reached == Reached::Journal {
            return None;
        }
        let files = self.files.own.get_mut(&number)?;
        files.count += u64::from(batch.writes_job);
        if let Some(modex) = batch.modex {
            let keys = Arc::clone(&modex.keys);
            let len = |contents: &[_]| 64 * contents.len() as u64;
            let merged = modex.merge(|_, contents| Ok::<_, Status>(((), len(contents)))).ok()?;
            let bytes = len(&merged.contents);
            let mut live = merged.live;
            live.push(LiveSegment { place: files.count, bytes, contents: merged.contents });
            files.count += 1;
            let contents = |live: &LiveSegment| {
                let contents = live.contents.iter();
                contents
                    .map(|content| (content.rank, keys[content.key as usize].clone(), content.value.clone()))
                    .collect()
            };
            let segment =
                |live: &LiveSegment| Segment { place: live.place, bytes: live.bytes, contents: contents(live) };
            files.segments = live.iter().map(segment).collect();
            written.live = Some(live);
        }
        written.count = files.count;
        Some(written)
    }

    /// Makes a directory, or takes the inherited one; its journal is written anew.
    fn open(&mut self, number: DirectoryNumber, batch: &mut Batch) {
        let nspace = batch.job.nspace.clone();
        let at = self.files.inherited.iter().position(|files| files.nspace == nspace);
        let new = || Remains { nspace: nspace.clone(), journal: None, segments: Vec::new(), count: 0 };
        let files = at.map_or_else(new, |at| self.files.inherited.swap_remove(at));
        self.files.own.insert(number, files);
        let journal = batch.journal.take().and_then(Result::ok).and_then(|records| self.encode(number, &records));
        if let Some(files) = self.files.own.get_mut(&number) {
            files.journal = journal;
        }
    }

    /// A whole journal of a directory.
    fn encode(&self, number: DirectoryNumber, records: &[Record]) -> Option<Vec<u8>> {
        let files = self.files.own.get(&number)?;
        let (boot, directory) = (b"boot".to_vec(), files.nspace.as_bytes().to_vec());
        let origin = Origin { life: self.life, patience: 1, boot, directory, server: b"simulated".to_vec() };
        Some(bytes_of(&Journal::new(&files.nspace, &origin, records).ok()?))
    }

    /// A server of this configuration.
    pub(super) fn of(config: crate::config::Config, hostname: &str) -> Simulation {
        let sink: std::sync::Weak<dyn crate::completion::AnswerSink> = std::sync::Weak::<NoSink>::new();
        Simulation {
            engine: Engine::new(config, 1, sink),
            hostname: hostname.to_owned(),
            plans: BTreeMap::new(),
            memory: BTreeMap::new(),
            memory_last: 0,
            files: Files::default(),
            life: 0,
        }
    }
}

fn has_journal(files: Option<&Remains>) -> bool {
    files.is_some_and(|files| files.journal.is_some())
}

/// A record, or a whole journal, as it is in the file.
fn bytes_of(what: &impl Slices) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_journal(&mut bytes, what).expect("a vector takes all");
    bytes
}
