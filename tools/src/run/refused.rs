//! What `pmixrun` refuses for what it is, and the line that tells its user why.

use pmix_dstore::model::{Info, Status, Value, keys};

use crate::value::name_of;

/// What a process gets, by its name alone.
pub(super) fn named(status: Status) -> &'static str {
    status.name().unwrap_or("an error")
}

/// Why there is no allocation to change, for the line that names who has asked. `directive` is a `pmix_alloc_directive_t`.
pub(super) fn allocation(directive: u8, infos: &[Info]) -> String {
    let what = match directive {
        1 => "asks for a new allocation".to_owned(),
        2 => "asks for more of an allocation".to_owned(),
        3 => "gives back resources".to_owned(),
        4 => "takes back resources".to_owned(),
        other => format!("asks for directive {other} of PMIx_Allocation_request"),
    };
    let number = |key| Info::find(infos, key).and_then(Value::as_u64);
    let amounts = [(keys::ALLOC_NUM_NODES, "nodes"), (keys::ALLOC_NUM_CPUS, "CPUs")];
    let amounts = amounts.into_iter().filter_map(|(key, of)| number(key).map(|count| format!("{of}: {count}")));
    let amounts: Vec<String> = amounts.collect();
    let amounts = if amounts.is_empty() { String::new() } else { format!(" ({})", amounts.join(", ")) };
    format!(
        "{what}{amounts}, and gets PMIX_ERR_NOT_SUPPORTED: pmixrun has this node alone and no resource manager; run the job \
         under one that changes allocations, or start it with as many ranks as it needs"
    )
}

/// Directives of `PMIx_Job_control` that need what `pmixrun` does not have, and why it has not.
const NOT_HERE: [(&str, &str); 5] = [
    (keys::JOB_CTRL_CANCEL, NO_QUEUE),
    (keys::JOB_CTRL_RESTART, NO_RESTART),
    (keys::JOB_CTRL_PROVISION, NO_IMAGES),
    (keys::JOB_CTRL_PROVISION_IMAGE, NO_IMAGES),
    (keys::JOB_CTRL_PREEMPTIBLE, NO_QUEUE),
];

const NO_CHECKPOINTER: &str = "pmixrun has no checkpointer; let the program write its own state, and ask for it by an event \
                               (PMIX_JOB_CTRL_CHECKPOINT_EVENT) or a signal (PMIX_JOB_CTRL_CHECKPOINT_SIGNAL)";
const NO_RESTART: &str = "pmixrun starts no process anew, and does not know where a program keeps its state; end the job and run it again, \
                          with its state";
const NO_QUEUE: &str = "pmixrun carries out each request at once and runs no job instead of another; end a job with \
                        PMIX_JOB_CTRL_TERMINATE";
const NO_IMAGES: &str = "pmixrun runs on this node as it is; prepare the node before the job starts";

/// Why there is no checkpoint without an event or a signal: of the request, nor as the job's ranks want to be asked.
pub(super) fn checkpoint() -> String {
    format!("asks for PMIX_JOB_CTRL_CHECKPOINT, and gets PMIX_ERR_NOT_SUPPORTED: {NO_CHECKPOINTER}")
}

/// Why a request that was not supported is refused, if it is for one of its directives.
pub(super) fn control(directives: &[Info]) -> Option<String> {
    let asked = |(key, why): &(&str, _)| Some((&directives.iter().find(|info| info.key.is(key))?.key, *why));
    let (key, why) = NOT_HERE.iter().find_map(asked)?;
    Some(format!("asks for {}, and gets PMIX_ERR_NOT_SUPPORTED: {why}", name_of(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_refused_by_its_name() {
        let ask = |key: &'static str| {
            control(&[Info::new(keys::USERID, Value::Uint32(0)), Info::new(key, Value::Bool(true))])
        };
        let why = ask(keys::JOB_CTRL_RESTART).unwrap();
        assert!(why.starts_with("asks for PMIX_JOB_CTRL_RESTART, and gets PMIX_ERR_NOT_SUPPORTED: "), "{why}");
        assert_eq!(ask(keys::JOB_CTRL_KILL), None);
    }

    #[test]
    fn the_line_says_what_was_asked_for() {
        let nodes =
            [Info::new(keys::ALLOC_NUM_NODES, Value::Uint64(2)), Info::new(keys::ALLOC_NUM_CPUS, Value::Uint64(8))];
        assert!(allocation(1, &nodes).starts_with("asks for a new allocation (nodes: 2, CPUs: 8), and gets PMIX_ERR_"));
        assert!(allocation(3, &[]).starts_with("gives back resources, and gets PMIX_ERR_"));
        assert!(allocation(200, &[]).starts_with("asks for directive 200 of PMIx_Allocation_request, and "));
    }
}
