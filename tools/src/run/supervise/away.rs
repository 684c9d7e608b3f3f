//! Front ends that come again: what they must get when the server that they were connected with was killed.
//!
//! ```text
//!   front end                         launcher
//!   connection lost                   its tree keeps what is not acknowledged, its end, and reads no more than a window of output
//!   connects, with its former name
//!   spawn: "again for job J,      ->  forgets what is written, sends the rest, and the end if that has come
//!           N bytes written"
//!   event: "end heard"            ->  forgets the tree
//! ```

use std::time::{Duration, Instant};

use pmix_client::events::range;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Nspace, Proc, Status, Value, keys};

use super::super::acknowledged;
use super::super::host::Spawned;
use super::super::output::Stream;
use super::Supervisor;
use super::kept::Piece;
use super::tree::{Front, Tree};

impl Supervisor<'_> {
    fn front_of(&mut self, tree: u32) -> Option<&mut Front> {
        self.trees.get_mut(&tree)?.front.as_mut()
    }

    /// Whether output of a tree is kept until its front end has acknowledged it.
    pub(super) fn keeps_for_front(&self, tree: u32) -> bool {
        self.trees.get(&tree).is_some_and(|tree| tree.front.as_ref().is_some_and(|front| front.kept.is_some()))
    }

    /// Hands output to the front end that has started the tree, if it is there, and keeps it.
    pub(super) fn keep_and_deliver(&mut self, tree: u32, source: Proc, stream: Stream, bytes: Vec<u8>) {
        let root = self.trees.get(&tree).and_then(|tree| self.jobs.get(&tree.root)).map(|job| job.nspace().clone());
        let Some(front) = self.front_of(tree) else { return };
        let (life, Some(kept)) = (front.life, &mut front.kept) else { return };
        let source = match root.filter(|_| kept.has_come_back) {
            Some(nspace) => Proc { nspace, ..source },
            None => source,
        };
        // Without memory it is lost.
        let Ok(copy) = fallible_alloc::copy(&bytes) else { return };
        front.unacknowledged += bytes.len() as u64;
        kept.pieces.push_back(Piece { source: source.clone(), stream, bytes: copy });
        self.server.deliver_output_by(life, source, stream.channel(), bytes);
    }

    /// A job was started for a tool that comes again: tells it for how long it is waited for.
    pub(super) fn invite_again(&self, tool: &Proc) {
        let is_its =
            |tree: &&Tree| tree.front.as_ref().is_some_and(|front| front.tool == *tool && front.kept.is_some());
        let Some(seconds) = self.args.restart.filter(|_| self.trees.values().any(|tree| is_its(&tree))) else { return };
        self.tell_tool(tool, acknowledged::CODE, acknowledged::waiting(seconds, &self.server.uri()));
    }

    /// Sends a tool alone an event.
    fn tell_tool(&self, tool: &Proc, code: Status, mut infos: Vec<Info>) {
        infos.push(Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)));
        infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([tool.clone()])));
        self.server.notify_event(code, self.session.server.clone(), range::CUSTOM, infos);
    }

    /// A tool comes again for its job.
    pub(super) fn resume(&mut self, by: &Proc, job: &Nspace, written: u64, done: Spawned) {
        let life = self.server.life();
        if self.ended_lives + 1 < life {
            // It came to a server whose end is still to be taken notice of.
            return;
        }
        let is_its = |tree: &Tree| {
            let root = self.jobs.get(&tree.root).map(|job| job.nspace());
            root == Some(job) && tree.front.as_ref().is_some_and(|front| front.tool == *by && front.kept.is_some())
        };
        let found = self.trees.iter().find(|(_, tree)| is_its(tree)).map(|(id, _)| *id);
        let Some(id) = found else { return done.complete((Status::ERR_NOT_FOUND, None)) };
        let Some(front) = self.front_of(id) else { return };
        front.life = life;
        let is_told = front.is_told;
        let Some(kept) = &mut front.kept else { return };
        kept.resume(written);
        let left = kept.len();
        let pieces = kept
            .pieces
            .iter()
            .filter_map(|piece| Some((piece.source.clone(), piece.stream, fallible_alloc::copy(&piece.bytes).ok()?)));
        let pieces: Vec<_> = pieces.collect();
        front.unacknowledged = left;
        // First: the server directs the job's output to the tool by this answer.
        done.complete((Status::SUCCESS, Some(job.clone())));
        for (source, stream, bytes) in pieces {
            self.server.deliver_output_by(life, Proc { nspace: job.clone(), ..source }, stream.channel(), bytes);
        }
        if is_told {
            self.tell_front_of_end(id);
        }
    }

    /// Notices that a front end has lost its connection with the server that was killed, and gives it up when it has not come again in time.
    pub(super) fn tend_front(&mut self, id: u32, now: Instant) {
        let (life, seconds) = (self.server.life(), self.args.restart.unwrap_or_default());
        let Some(front) = self.front_of(id).filter(|front| front.life != life) else { return };
        let is_lost = match &mut front.kept {
            Some(kept) => {
                let until = kept.away_until.or_else(|| now.checked_add(Duration::from_secs(seconds.into())));
                kept.away_until = until;
                until.is_some_and(|until| until <= now)
            }
            // A tool of another kind, whose connection is lost as any.
            None => true,
        };
        if is_lost {
            front.life = life;
            let tool = front.tool.clone();
            self.tool_is_lost(&tool);
        }
    }

    /// Whether a tree whose processes have ended waits for its front end to hear of that.
    pub(super) fn has_told_front(&self, id: u32) -> bool {
        let front = self.trees.get(&id).and_then(|tree| tree.front.as_ref());
        front.is_some_and(|front| front.is_told && front.kept.is_some())
    }

    /// Tells the front end of a tree whose processes have ended, if it says when it has heard of it. Returns whether it does.
    pub(super) fn tell_front(&mut self, id: u32) -> bool {
        if !self.keeps_for_front(id) || self.trees.get(&id).is_none_or(|tree| !tree.is_started) {
            return false;
        }
        self.front_of(id).into_iter().for_each(|front| front.is_told = true);
        self.tell_front_of_end(id);
        true
    }

    fn tell_front_of_end(&self, id: u32) {
        let Some(tree) = self.trees.get(&id) else { return };
        let status = tree.failure.map_or(Status::SUCCESS, |failure| failure.status);
        self.tell_end(tree.root, status, Some(tree.failure.map_or(0, |failure| failure.exit)));
    }

    /// A front end has heard of the end of its job.
    pub(super) fn end_was_heard(&mut self, tool: &Proc) {
        let fronts = self.trees.values_mut().filter_map(|tree| tree.front.as_mut());
        fronts.filter(|front| front.tool == *tool && front.is_told).for_each(|front| front.kept = None);
    }
}
