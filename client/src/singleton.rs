//! The job of a singleton: one process, on this node.

use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{Key, Proc, Value, keys};

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
