//! The end of a server.

use std::sync::atomic::Ordering;

use pmix_dstore::model::Status;

use super::Server;
use crate::engine::Output;
use crate::own_requests::OwnRequests;
use crate::rendezvous::Rendezvous;

impl Server {
    /// Ends the server: clients see a lost connection, files are removed, the thread ends. Messages that have arrived are handled before:
    /// the host's handlers may still be called for the last lost process, which would go unreported otherwise. After the return no
    /// function of the host is called any more, but for the callback of its own spawn where it answers that one at this moment.
    ///
    /// In a forked child it ends only the child's copy of the state: thread and files belong to the parent.
    pub fn finalize(&self) -> Status {
        if self.shared.stop.swap(true, Ordering::AcqRel) {
            return Status::ERR_INIT;
        }
        if !self.is_of_this_process() {
            // Forgotten, because a drop would remove the parent's files. `try_lock`, because a thread that held the lock does not exist here.
            if let Some(mut rendezvous) = self.rendezvous.try_lock() {
                std::mem::forget(std::mem::take(&mut *rendezvous));
            }
            return Status::SUCCESS;
        }
        *self.rendezvous.lock() = Rendezvous::default();
        self.shared.wake();
        let thread = self.thread.lock().take();
        if !self.shared.is_own_thread()
            && let Some(thread) = thread
        {
            thread.join();
        }
        self.shared.publishers.finish();
        // The own client's link is this server: the call cannot fail.
        let _ = self.client.finalize(&[]);
        let mut rest = self.shared.engine.lock().shut_down();
        OwnRequests::close(&self.shared.own);
        self.shared.run_last_held();
        loop {
            for output in rest {
                match output {
                    Output::CleanUp((uid, gid), cleanup) => cleanup.run(uid, gid),
                    Output::Show(output) => self.shared.show(output),
                    Output::Call(call) => call(),
                    Output::Log(reason, line) => self.shared.log_for(reason, &line),
                    Output::Publish(directory) => {
                        let plan = self.shared.engine.lock().take_plan(directory);
                        plan.into_iter().for_each(|plan| self.shared.publish(plan));
                    }
                    _ => {}
                }
            }
            self.shared.run_last_held();
            self.shared.await_threads_of_host();
            // Outputs that these calls have produced.
            rest = self.shared.engine.lock().take_last_outputs();
            if rest.is_empty() {
                self.shared.publishers.disinherit();
                self.shared.log_withheld(None);
                return Status::SUCCESS;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.finalize();
    }
}
