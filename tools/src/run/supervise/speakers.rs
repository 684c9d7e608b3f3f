//! Ranks that speak PMI-1 instead of PMIx.

use std::ffi::CString;

use pmix_dstore::model::Status;
use pmix_server::Waiting;

use super::super::host::Event;
use super::super::pmi::{News, Pmi, What};
use super::Supervisor;

impl Supervisor<'_> {
    /// The PMI-1 server of a job, if it has one.
    fn pmi(&mut self, job: u32) -> Option<&mut Pmi> {
        self.jobs.get_mut(&job)?.pmi.as_mut()
    }

    /// Answers what the ranks of a job have asked.
    pub(super) fn answer_pmi(&mut self, job: u32) {
        let Some(news) = self.pmi(job).map(Pmi::turn) else { return };
        self.take_pmi_news(job, news);
    }

    /// Answers what a rank that has ended asked before.
    pub(super) fn take_rest(&mut self, number: u32) {
        let Some(job) = self.job_of(number) else { return };
        let Some(news) = self.pmi(job).map(|pmi| pmi.read_rest(number - job)) else { return };
        self.take_pmi_news(job, news);
    }

    /// Handles the end of a rank, once it is known whether it is a failure by itself.
    pub(super) fn pmi_rank_ended(&mut self, number: u32) {
        let Some(job) = self.job_of(number) else { return };
        let Some(news) = self.pmi(job).and_then(|pmi| pmi.has_ended(number - job)) else { return };
        self.take_pmi_news(job, vec![news]);
    }

    /// What the ranks wait for, by PMIx and by PMI-1.
    pub(super) fn waiting(&self) -> Waiting {
        let mut waiting = self.server.waiting();
        let barriers = self.jobs.values().filter_map(|job| job.pmi.as_ref()?.barrier(job.nspace()));
        waiting.collectives.extend(barriers);
        waiting
    }

    fn take_pmi_news(&mut self, job: u32, news: Vec<News>) {
        for News { rank, what } in news {
            let number = job + rank;
            // One that was asked for and whose start the watchdog has not confirmed: the job is ending.
            let Some(state) = self.rank(number) else { continue };
            let tree = self.jobs[&job].tree;
            match what {
                What::Connected => {
                    self.pmi_ranks += u32::from(!state.connected);
                    self.take_event(Event::Connected(number));
                }
                What::Finalized => self.take_event(Event::Finalized(number)),
                What::Abort { status, message } => {
                    let Some(by) = self.proc(number) else { continue };
                    let message = message.and_then(|text| CString::new(text).ok());
                    self.take_event(Event::Abort { rank: Some(number), by, status, message });
                }
                What::Broken(why) => {
                    let said = format!("{} sent by PMI-1 what is not understood: {why}", self.name(number));
                    self.fail(tree, 1, Status::ERR_JOB_ABORTED, &said);
                }
                What::NeverComes => {
                    let said = format!("{} ended before a PMI barrier, in which others wait", self.name(number));
                    self.fail(tree, 1, Status::ERR_JOB_TERM_WO_SYNC, &said);
                }
            }
        }
    }
}
