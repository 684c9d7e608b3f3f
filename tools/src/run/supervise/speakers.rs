//! Ranks that speak PMI-1 instead of PMIx.

use std::ffi::CString;

use pmix_dstore::model::Status;
use pmix_server::Waiting;

use super::super::host::Event;
use super::super::pmi::{News, What};
use super::Supervisor;

impl Supervisor<'_> {
    /// Answers what they have asked.
    pub(super) fn answer_pmi(&mut self) {
        let news = self.pmi.turn();
        self.take_pmi_news(news);
    }

    /// Answers what a rank that has ended asked before.
    pub(super) fn take_rest(&mut self, rank: u32) {
        let news = self.pmi.read_rest(rank);
        self.take_pmi_news(news);
    }

    /// Handles the end of a rank, once it is known whether it is a failure by itself.
    pub(super) fn pmi_rank_ended(&mut self, rank: u32) {
        let news = self.pmi.has_ended(rank);
        self.take_pmi_news(news.into_iter().collect());
    }

    /// What the ranks wait for, by PMIx and by PMI-1.
    pub(super) fn waiting(&self) -> Waiting {
        let mut waiting = self.server.waiting();
        waiting.collectives.extend(self.jobs.first().and_then(|launched| self.pmi.barrier(launched.nspace())));
        waiting
    }

    fn take_pmi_news(&mut self, news: Vec<News>) {
        for News { rank, what } in news {
            // One that was asked for and whose start the watchdog has not confirmed: the job is ending.
            let Some(state) = self.ranks.get(rank as usize) else { continue };
            match what {
                What::Connected => {
                    self.pmi_ranks += u32::from(!state.connected);
                    self.take_event(Event::Connected(rank));
                }
                What::Finalized => self.take_event(Event::Finalized(rank)),
                What::Abort { status, message } => {
                    let by = self.proc(rank as usize);
                    let message = message.and_then(|text| CString::new(text).ok());
                    self.take_event(Event::Abort { rank: Some(rank), by, status, message });
                }
                What::Broken(why) => {
                    let said = format!("{} sent by PMI-1 what is not understood: {why}", self.name(rank as usize));
                    self.fail(1, Status::ERR_JOB_ABORTED, &said);
                }
                What::NeverComes => {
                    let said = format!("{} ended before a PMI barrier, in which others wait", self.name(rank as usize));
                    self.fail(1, Status::ERR_JOB_TERM_WO_SYNC, &said);
                }
            }
        }
    }
}
