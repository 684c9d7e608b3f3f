//! The job of a singleton, or of a tool that no host has registered: one process, on this node.

use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{Key, Proc, Result, Value, keys};

/// The values that a singleton can get about itself.
pub fn job(me: &Proc, hostname: &[u8]) -> JobData {
    let mut job = JobData::new(me.nspace.clone());
    let one = || Value::Uint32(1);
    let name = || Value::string(hostname);
    for key in [keys::JOB_SIZE, keys::UNIV_SIZE, keys::NUM_NODES, keys::MAX_PROCS, keys::JOB_NUM_APPS] {
        job.job.insert(key.into(), one());
    }
    job.job.insert(keys::JOBID.into(), Value::string(me.nspace.as_bytes()));
    job.job.insert(keys::NODE_LIST.into(), name());
    let peers = Value::string(me.rank.to_string());
    let values: [(Key, Value); 6] = [
        (keys::HOSTNAME.into(), name()),
        (keys::NODEID.into(), Value::Uint32(0)),
        (keys::LOCAL_PEERS.into(), peers),
        (keys::LOCAL_SIZE.into(), one()),
        (keys::NODE_SIZE.into(), one()),
        (keys::LOCALLDR.into(), Value::Rank(me.rank)),
    ];
    job.nodes.push(Node { nodeid: Some(0), hostname: hostname.to_vec(), values: values.into(), ..Node::default() });
    job.apps.insert(0, [(keys::APP_SIZE.into(), one()), (keys::APPLDR.into(), Value::Rank(me.rank))].into());
    let mine: [(&'static str, Value); 9] = [
        (keys::RANK, Value::Rank(me.rank)),
        (keys::PROCID, Value::Proc(me.clone())),
        (keys::GLOBAL_RANK, Value::Rank(me.rank)),
        (keys::APP_RANK, Value::Rank(me.rank)),
        (keys::LOCAL_RANK, Value::Uint16(0)),
        (keys::NODE_RANK, Value::Uint16(0)),
        (keys::APPNUM, Value::Uint32(0)),
        (keys::HOSTNAME, name()),
        (keys::NODEID, Value::Uint32(0)),
    ];
    for (key, value) in mine {
        // This fails only for an absurdly large rank, whose Gets then find fewer values.
        let _ = job.procs.set(me.rank, key.into(), value);
    }
    job
}

/// The job of a tool, with what the tool knows itself and no host has registered.
///
/// # Errors
/// As [`ProcTable::set`](pmix_dstore::job::ProcTable::set).
pub fn complete(mut registered: JobData, me: &Proc, hostname: &[u8]) -> Result<JobData> {
    if registered.size() == 0 {
        let mut alone = job(me, hostname);
        alone.job.extend(registered.job);
        return Ok(alone);
    }
    if registered.nodes.is_empty() && registered.procs.get(me.rank, keys::HOSTNAME.as_bytes()).is_none() {
        registered.procs.set(me.rank, keys::HOSTNAME.into(), Value::string(hostname))?;
    }
    Ok(registered)
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    #[test]
    fn what_a_host_has_registered_of_a_tool_stands() {
        let me = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
        let registered = |size| {
            let mut job = JobData::new(me.nspace.clone());
            job.job.insert(keys::JOBID.into(), Value::string("7"));
            job.job
                .extend(Some(size).filter(|size| *size > 0).map(|size| (keys::JOB_SIZE.into(), Value::Uint32(size))));
            job
        };
        for (size, known) in [(0, 1), (3, 3)] {
            let job = complete(registered(size), &me, b"here").unwrap();
            assert_eq!(job.size(), known);
            assert_eq!(job.job.get(keys::JOBID.as_bytes()), Some(&Value::string("7")));
            assert!(job.procs.get(me.rank, keys::HOSTNAME.as_bytes()).is_some());
            assert_eq!(job.nodes.is_empty(), size > 0, "the nodes of a registered job are the host's to tell");
        }
    }
}
