//! Front ends that reconnect: what they must get when the server that they were connected with was killed.
//!
//! ```text
//!   front end                         launcher
//!   connection lost                   its tree keeps what is not acknowledged, its end, and reads no more than a window of output
//!   connects, with its former name
//!   spawn: "resume job J,         ->  forgets what is written, sends the rest, and the end if that has come
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
        let source = match root.filter(|_| kept.has_reconnected) {
            Some(nspace) => Proc { nspace, ..source },
            None => source,
        };
        // Without memory it is lost.
        if kept.push(source.clone(), stream, &bytes).is_err() {
            return;
        }
        front.unacknowledged += bytes.len() as u64;
        self.server.deliver_output_by(life, source, stream.channel(), bytes);
    }

    /// A job was started for a tool that reconnects: tells it for how long the launcher waits.
    pub(super) fn invite_to_reconnect(&self, tool: &Proc) {
        let is_its =
            |tree: &&Tree| tree.front.as_ref().is_some_and(|front| front.tool == *tool && front.kept.is_some());
        let Some(seconds) = self.args.restart.filter(|_| self.trees.values().any(|tree| is_its(&tree))) else { return };
        self.tell_tool(tool, acknowledged::CODE, acknowledged::waiting(seconds, &self.server.uri()));
    }

    /// Sends a tool alone an event.
    fn tell_tool(&self, tool: &Proc, code: Status, mut infos: Vec<Info>) {
        infos.push(Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true)));
        // It would come before the output when the tool has reconnected.
        infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, Value::Bool(true)));
        infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([tool.clone()])));
        self.server.notify_event(code, self.session.server.clone(), range::CUSTOM, infos);
    }

    /// A tool has reconnected for its job.
    pub(super) fn resume(&mut self, by: &Proc, job: &Nspace, written: u64, done: Spawned) {
        let life = self.server.life();
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
        if self.is_ending {
            self.limit_wait_for_front(id);
        }
    }

    /// Notices that a front end has lost its connection with the server that was killed, and gives it up when its time is over.
    pub(super) fn tend_front(&mut self, id: u32, now: Instant) {
        let (life, seconds) = (self.server.life(), self.args.restart.unwrap_or_default());
        let Some(front) = self.front_of(id) else { return };
        let has_lost_server = front.life != life;
        let is_lost = match &mut front.kept {
            Some(kept) => {
                if has_lost_server && kept.until.is_none() {
                    kept.until = now.checked_add(Duration::from_secs(seconds.into()));
                }
                kept.until.is_some_and(|until| until <= now)
            }
            // A tool of another kind, whose connection is lost as any.
            None => has_lost_server,
        };
        if is_lost {
            front.life = life;
            let tool = front.tool.clone();
            self.tool_is_lost(&tool);
        }
    }

    /// The launcher ends: waits for the front end of a tree that has ended no longer than for ranks.
    pub(super) fn limit_wait_for_front(&mut self, id: u32) {
        let end = Instant::now().checked_add(self.args.grace);
        let Some(kept) = self.front_of(id).filter(|front| front.is_told).and_then(|front| front.kept.as_mut()) else {
            return;
        };
        kept.until = kept.until.into_iter().chain(end).min();
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
        if let Some(tree) = self.trees.get_mut(&id) {
            // Nothing runs any more that a limit could end.
            (tree.abort, tree.kill_at, tree.timeout_at) = (None, None, None);
            tree.front.iter_mut().for_each(|front| front.is_told = true);
        }
        let failure = self.trees.get(&id).and_then(|tree| tree.failure);
        let (status, exit) = failure.map_or((Status::SUCCESS, 0), |failure| (failure.status, failure.exit));
        let root = self.trees.get(&id).map_or(0, |tree| tree.root);
        self.tell_end(root, status, Some(exit));
        self.tell_front_of_end(id);
        if self.is_ending {
            self.limit_wait_for_front(id);
        }
        true
    }

    /// Tells it alone, after its output.
    fn tell_front_of_end(&self, id: u32) {
        let Some(tree) = self.trees.get(&id) else { return };
        if let Some(front) = &tree.front {
            let exit = tree.failure.map_or(0, |failure| failure.exit);
            self.tell_tool(&front.tool, acknowledged::CODE, acknowledged::end(exit));
        }
    }

    /// A front end has heard of the end of its job.
    pub(super) fn end_was_heard(&mut self, tool: &Proc) {
        let fronts = self.trees.values_mut().filter_map(|tree| tree.front.as_mut());
        fronts.filter(|front| front.tool == *tool && front.is_told).for_each(|front| front.kept = None);
    }
}
