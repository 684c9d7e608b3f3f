//! Decodes recorded job-info replies to job data and encodes them again.

use pmix_dstore::codec::{Dialect, Unpacker};
use pmix_dstore::job::JobData;
use pmix_dstore::model::{Kval, Rank, Value, keys};
use pmix_wire::jobinfo::{self, Recipient};
use pmix_wire::reply::JobInfoReply;
use pmix_wire::{Command, Reply};

use crate::all_messages;
use crate::message::{Form, Message};

fn replies() -> Vec<Message> {
    let mut messages = all_messages();
    messages.retain(|message| message.form == Form::Reply(Command::JOB_INFO));
    assert!(messages.len() > 15);
    messages
}

/// The reply's values as sorted lines, so that the writer's order does not matter. Nested buffers are expanded.
fn normal(dialect: Dialect, kvals: Vec<Kval>) -> Vec<String> {
    let mut lines: Vec<String> = kvals
        .into_iter()
        .map(|Kval { key, value }| match value {
            Value::ByteObject(bytes) if key.is(keys::PROC_BLOB) => {
                let mut blob = Unpacker::new(dialect, &bytes);
                let rank = blob.rank().unwrap();
                format!("rank {rank}: {:?}", normal(dialect, blob.kvals().unwrap()))
            }
            Value::DataArray(_) => {
                let mut infos: Vec<_> =
                    value.iter_infos().map(|info| format!("{:?} {:?}", info.key, info.value)).collect();
                infos.sort();
                format!("{key}: {infos:?}")
            }
            other => format!("{key}: {other:?}"),
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn our_replies_equal_the_recorded_ones() {
    for message in replies() {
        let JobInfoReply { nspace, kvals } =
            JobInfoReply::decode(message.dialect, message.server, &message.bytes).unwrap();
        let job = jobinfo::decode(message.dialect, &message.bytes).unwrap();
        assert_eq!(jobinfo::from_kvals(nspace, message.dialect, kvals.clone()).as_ref(), Ok(&job));
        let to = Recipient { dialect: message.dialect, version: message.client, version_text: "", hostname: b"vm" };
        let ours = jobinfo::encode(&job, &to, jobinfo::all_ranks(&job)).unwrap();
        let ours = JobInfoReply::decode(message.dialect, message.server, &ours).unwrap();
        assert_eq!(normal(message.dialect, ours.kvals), normal(message.dialect, kvals), "{}", message.exchange);
    }
}

#[test]
fn recorded_replies_are_sorted_into_realms() {
    let text = |value: Option<&Value>| value.and_then(Value::as_text).map(<[u8]>::to_vec);
    let mut seen = 0;
    for message in replies().iter().filter(|message| message.exchange.ends_with("basic.jobinfo")) {
        let job: JobData = jobinfo::decode(message.dialect, &message.bytes).unwrap();
        assert_eq!(job.size(), 3, "{}", message.exchange);
        assert_eq!(text(job.job.get(keys::NODE_LIST.as_bytes())), Some(b"vm,other".to_vec()));
        let names: Vec<_> = job.nodes.iter().map(|node| node.hostname.as_slice()).collect();
        assert_eq!(names, [b"vm".as_slice(), b"other"]);
        assert_eq!(text(job.nodes[0].values.get(keys::LOCAL_PEERS.as_bytes())), Some(b"0,1".to_vec()));
        assert_eq!(job.nodes[1].nodeid, Some(1));
        assert_eq!(
            job.procs.get(Rank(2), keys::HOSTNAME.as_bytes()).and_then(|name| name.as_text()),
            Some(&b"other"[..])
        );
        assert_eq!(job.procs.get(Rank(1), keys::LOCAL_RANK.as_bytes()), Some((&Value::Uint16(1)).into()));
        let univ = keys::UNIV_SIZE.as_bytes();
        assert_eq!(job.session.get(univ).or(job.job.get(univ)), Some(&Value::Uint32(3)));
        seen += 1;
    }
    assert!(seen >= 9);
}
