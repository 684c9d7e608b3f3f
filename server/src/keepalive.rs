//! The pipe from the process that started this server: it ends with that process.

use pmix_client::Event;
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, Value, keys};

/// The variable with the descriptor's number. Events about the starter name it as the affected process.
pub const KEEPALIVE_VARIABLE: &str = "PMIX_KEEPALIVE_PIPE";

/// The event for this process's own handlers when the starter has ended.
pub(crate) fn ended(me: Proc) -> Event {
    let mut infos = vec![Info::new(keys::EVENT_NON_DEFAULT, Value::Bool(true))];
    if let Ok(nspace) = Nspace::new(KEEPALIVE_VARIABLE) {
        infos.push(Info::new(keys::EVENT_AFFECTED_PROC, Value::Proc(Proc::new(nspace, Rank::UNDEF))));
    }
    Event::new(Status::ERR_JOB_TERMINATED, me, infos)
}
