//! A tool with a scripted server and the segments of a real publisher.

use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{Proc, Rank};
use pmix_dstore::segment::{ModexBuilder, Publisher, SegmentKind, build_job};

use super::*;
use crate::client::tests::{Stage, flag, nspace, stage_that_maps};
use crate::other_jobs::AGAIN;

/// A job of two ranks on one node, in segments.
fn publish(directory: &tempfile::TempDir, name: &str) -> Publisher {
    let mut job = JobData::new(nspace(name));
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(2));
    let values = [(keys::LOCAL_PEERS.into(), Value::string("0,1")), (keys::HOSTNAME.into(), Value::string("n0"))];
    job.nodes.push(Node { hostname: b"n0".to_vec(), values: values.into(), ..Node::default() });
    let mut publisher = Publisher::create(directory.path(), &job.nspace, None).unwrap();
    publisher.publish(SegmentKind::Job, &build_job(&job, "test").unwrap()[..]).unwrap();
    put(&mut publisher, name, 1);
    publisher
}

/// Publishes a value of rank 1.
fn put(publisher: &mut Publisher, name: &str, value: u32) {
    let mut builder = ModexBuilder::new(nspace(name));
    let value = Value::Uint32(value);
    builder.add(Rank(1), &"key".into(), &value).unwrap();
    publisher.publish(SegmentKind::Modex, &builder.finish("test").unwrap()).unwrap();
}

impl Stage {
    /// The server's next answer tells of these directories.
    fn tells(&self, of: &[&Publisher]) {
        let one = |of: &&Publisher| JobDirectory { path: of.directory().into(), id: of.directory_id() };
        let infos = vec![Info::new(JobDirectory::KEY, inspection::answer(of.iter().map(one)))];
        self.answers(InfosReply { status: Status::SUCCESS, infos: Some(infos) });
    }

    fn key_of_other(&self, infos: &[Info]) -> Result<Value> {
        self.get_of(Some("other"), Rank(1), Some("key"), infos)
    }
}

fn tool() -> Stage {
    stage_that_maps(Version::OURS, false, true)
}

#[test]
fn a_tool_asks_for_the_segments_of_a_job_once() {
    let (directory, stage) = (tempfile::tempdir().unwrap(), tool());
    let mut publisher = publish(&directory, "other");
    stage.tells(&[&publisher]);
    assert_eq!(stage.key_of_other(&[]), Ok(Value::Uint32(1)));
    assert_eq!(stage.asked().len(), 1);
    // All of it is here now, also where the server must not be asked.
    assert_eq!(stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Ok(Value::Uint32(2)));
    assert_eq!(stage.get_of(Some("other"), Rank::UNDEF, Some("key"), &[]), Ok(Value::Uint32(1)));
    assert_eq!(stage.get_of(Some("other"), Rank(0), Some(keys::LOCAL_PEERS), &[]), Ok(Value::string("0,1")));
    let peers = stage.client.resolve_peers(None, Some(&nspace("other"))).unwrap();
    assert_eq!(peers, [0, 1].map(|rank| Proc::new(nspace("other"), Rank(rank))));
    assert_eq!(stage.client.resolve_nodes(Some(&nspace("other"))).unwrap().as_deref(), Some(&b"n0"[..]));
    put(&mut publisher, "other", 2);
    assert_eq!(stage.key_of_other(&[flag(keys::OPTIONAL)]), Ok(Value::Uint32(2)), "the newest value");
    assert_eq!(stage.asked(), []);
    // What is not there is asked for.
    stage.answers_values(&[("other", Rank(0), &[("late", Value::Int(3))])]);
    assert_eq!(stage.get_of(Some("other"), Rank(0), Some("late"), &[]), Ok(Value::Int(3)));
    assert_eq!(stage.asked().len(), 1);
}

#[test]
fn segments_that_the_server_has_given_up_are_not_read() {
    let (directory, stage) = (tempfile::tempdir().unwrap(), tool());
    let publisher = publish(&directory, "other");
    stage.tells(&[&publisher]);
    assert_eq!(stage.key_of_other(&[]), Ok(Value::Uint32(1)));
    drop(publisher);
    stage.asked();
    stage.tells(&[]);
    stage.answers(pmix_wire::reply::GetReply { status: Status::ERR_NOT_FOUND, objects: Vec::new() });
    assert_eq!(stage.get_of(Some("other"), Rank::WILDCARD, Some(keys::JOB_SIZE), &[]), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked().len(), 2);
    // A job of the same name begins.
    let again = tempfile::tempdir().unwrap();
    let mut publisher = publish(&again, "other");
    put(&mut publisher, "other", 5);
    stage.answers(pmix_wire::reply::GetReply { status: Status::ERR_NOT_FOUND, objects: Vec::new() });
    assert_eq!(stage.key_of_other(&[]), Err(Status::ERR_NOT_FOUND), "it was asked a moment ago");
    std::thread::sleep(AGAIN);
    stage.tells(&[&publisher]);
    assert_eq!(stage.key_of_other(&[]), Ok(Value::Uint32(5)));
}

#[test]
fn segments_of_another_job_or_in_another_directory_are_not_read() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (other, third) = (publish(&directory, "other"), publish(&elsewhere, "third"));
    for (path, id) in [(&third, &third), (&other, &third)] {
        let stage = tool();
        let one = JobDirectory { path: path.directory().into(), id: id.directory_id() };
        let infos = vec![Info::new(JobDirectory::KEY, inspection::answer([one]))];
        stage.answers(InfosReply { status: Status::SUCCESS, infos: Some(infos) });
        for rank in [0, 1] {
            stage.answers_values(&[("other", Rank(rank), &[("key", Value::Int(7))])]);
            assert_eq!(stage.get_of(Some("other"), Rank(rank), Some("key"), &[]), Ok(Value::Int(7)));
        }
        assert_eq!(stage.asked().len(), 3, "asked for the directory once");
    }
}

/// Another user could shorten the files, and root's tool would die of it.
#[test]
fn root_maps_no_files_of_another_user() {
    if !geteuid().is_root() {
        return crate::left_out::left_out("files of another user", "only root can make them");
    }
    let (directory, stage) = (tempfile::tempdir().unwrap(), tool());
    let publisher = publish(&directory, "other");
    for file in std::fs::read_dir(publisher.directory()).unwrap().map(|file| file.unwrap().path()) {
        std::os::unix::fs::chown(file, Some(65534), None).unwrap();
    }
    std::os::unix::fs::chown(publisher.directory(), Some(65534), None).unwrap();
    stage.tells(&[&publisher]);
    stage.answers_values(&[("other", Rank(1), &[("key", Value::Int(7))])]);
    assert_eq!(stage.key_of_other(&[]), Ok(Value::Int(7)));
}

#[test]
fn nobody_else_asks_for_segments() {
    let newer = Version::new(5, 0, 7);
    for (number, stage) in
        [stage_that_maps(Version::OURS, true, false), stage_that_maps(newer, false, true)].into_iter().enumerate()
    {
        stage.answers_values(&[("other", Rank(1), &[("key", Value::Int(7))])]);
        assert_eq!(stage.key_of_other(&[]), Ok(Value::Int(7)), "case {number}");
        assert_eq!(stage.asked().len(), 1, "case {number}");
    }
    // Nor does a Get that must not ask the server.
    let stage = tool();
    assert_eq!(stage.key_of_other(&[flag(keys::OPTIONAL)]), Err(Status::ERR_NOT_FOUND));
    assert_eq!(stage.asked(), []);
}

#[test]
fn a_server_that_does_not_answer_ends_the_get_in_time() {
    let stage = tool();
    stage.script_answers(Err(Status::ERR_TIMEOUT));
    assert_eq!(stage.key_of_other(&[Info::new(keys::TIMEOUT, Value::Int(1))]), Err(Status::ERR_TIMEOUT));
    assert_eq!(stage.asked().len(), 1);
}
