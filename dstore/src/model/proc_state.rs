//! States of a process: `pmix_proc_state_t` (standard, section 3.4.1), and what they say of a job.

use super::Status;

/// Nothing is known.
pub const UNDEFINED: u8 = 0;
/// The host is about to launch it.
pub const PREPPED: u8 = 1;
/// It runs.
pub const RUNNING: u8 = 5;
/// It is connected to its server.
pub const CONNECTED: u8 = 6;
/// It has ended; this and all higher states are of processes that are over.
pub const TERMINATED: u8 = 20;
/// It was killed on request.
pub const KILLED_BY_COMMAND: u8 = 51;
/// A signal ended it.
pub const ABORTED_BY_SIGNAL: u8 = 54;
/// It ended without a finalize.
pub const TERMINATED_WITHOUT_FINALIZE: u8 = 55;
/// Its exit status is not 0.
pub const TERMINATED_NON_ZERO: u8 = 62;

/// The status of a job (`PMIX_QUERY_JOB_STATUS`), from the states of its processes: `OPERATION_IN_PROGRESS` until all of them have ended; then
/// `SUCCESS`, or why one of them failed. A launcher knows more: that the job waits for a debugger, or the failure for which it ends the
/// job. `None` without a process.
pub fn status_of_job(states: impl IntoIterator<Item = u8>, of_launcher: Option<Status>) -> Option<Status> {
    let of_process = |state| match state {
        // Not known, so that it may run.
        0..TERMINATED => Status::OPERATION_IN_PROGRESS,
        TERMINATED => Status::SUCCESS,
        KILLED_BY_COMMAND => Status::ERR_JOB_KILLED_BY_CMD,
        ABORTED_BY_SIGNAL => Status::ERR_JOB_ABORTED_BY_SIG,
        TERMINATED_WITHOUT_FINALIZE => Status::ERR_JOB_TERM_WO_SYNC,
        TERMINATED_NON_ZERO => Status::ERR_JOB_NON_ZERO_TERM,
        _ => Status::ERR_JOB_ABORTED,
    };
    let worse = |job, process| match (job, process) {
        (Status::OPERATION_IN_PROGRESS, _) | (_, Status::SUCCESS) => job,
        (Status::SUCCESS, _) | (_, Status::OPERATION_IN_PROGRESS) => process,
        (first, _) => first,
    };
    let of_processes = states.into_iter().map(of_process).reduce(worse)?;
    Some(of_launcher.unwrap_or(of_processes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobs_status_follows_from_its_processes() {
        let of = |states: &[u8]| status_of_job(states.iter().copied(), None);
        let is = Some;
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[TERMINATED_NON_ZERO, TERMINATED, RUNNING]), is(Status::OPERATION_IN_PROGRESS));
        assert_eq!(of(&[UNDEFINED, TERMINATED]), is(Status::OPERATION_IN_PROGRESS));
        assert_eq!(of(&[TERMINATED, TERMINATED]), is(Status::SUCCESS));
        assert_eq!(of(&[TERMINATED, TERMINATED_NON_ZERO, ABORTED_BY_SIGNAL]), is(Status::ERR_JOB_NON_ZERO_TERM));
        for (state, status) in [
            (KILLED_BY_COMMAND, Status::ERR_JOB_KILLED_BY_CMD),
            (ABORTED_BY_SIGNAL, Status::ERR_JOB_ABORTED_BY_SIG),
            (TERMINATED_WITHOUT_FINALIZE, Status::ERR_JOB_TERM_WO_SYNC),
            (TERMINATED + 1, Status::ERR_JOB_ABORTED),
        ] {
            assert_eq!(of(&[TERMINATED, state]), is(status));
        }
        assert_eq!(status_of_job([RUNNING], is(Status::READY_FOR_DEBUG)), is(Status::READY_FOR_DEBUG));
    }
}
