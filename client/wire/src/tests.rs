//! Tests of messages without a recording, and of properties that recordings cannot show.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use pmix_dstore::codec::{BufferType, Dialect, Module, Packer};
use pmix_dstore::compression::compress;
use pmix_dstore::job::{JobData, Node};
use pmix_dstore::model::{
    App, DataArray, DataType, Info, Key, Kval, Nspace, Pdata, Proc, Query, Rank, Status, Value, keys,
};

use super::blob::{self, Contribution, Form, Origin};
use super::jobinfo::{self, Recipient};
use super::reply::*;
use super::*;

const V41: Dialect = Dialect::plain(Module::V41);
const V3: Dialect = Dialect::plain(Module::V3);
const V61: Dialect = Dialect::plain(Module::V61);
const OLD: Version = Version::new(3, 1, 5);
const V6: Version = Version::new(6, 1, 0);

fn dialects() -> impl Iterator<Item = Dialect> {
    let buffers = [BufferType::NonDescribed, BufferType::Described];
    Module::ALL.into_iter().flat_map(move |module| buffers.map(|buffer| Dialect::new(module, buffer)))
}

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

fn proc(rank: u32) -> Proc {
    Proc::new(nspace("job"), Rank(rank))
}

fn kval(key: &'static str, value: Value) -> Kval {
    Kval { key: key.into(), value }
}

fn infos() -> Vec<Info> {
    vec![Info::new("pmix.timeout", Value::Int(3)), Info::new("pmix.hname", Value::String(None))]
}

fn requests() -> Vec<Request> {
    let (infos, procs) = (infos(), vec![proc(0), proc(1)]);
    let keys = vec![Key::from("a"), Key::from("b")];
    let group = Some(c"group".to_owned());
    let app = App {
        cmd: Some(c"prog".into()),
        argv: vec![c"prog".into()],
        env: Vec::new(),
        cwd: None,
        maxprocs: 2,
        infos: infos.clone(),
    };
    vec![
        Request::JobInfo,
        Request::Abort { status: Status(-1), message: None, procs: procs.clone() },
        Request::Commit { parts: Vec::new() },
        Request::Commit { parts: vec![(1, vec![kval("k", Value::Bool(true))]), (2, Vec::new())] },
        Request::Fence { procs: procs.clone(), infos: Vec::new() },
        Request::Get { nspace: nspace("job"), rank: Rank::UNDEF, infos: infos.clone(), key: Some("k".into()) },
        Request::Get { nspace: nspace(""), rank: Rank::WILDCARD, infos: Vec::new(), key: None },
        Request::Finalize,
        Request::Publish { uid: u32::MAX, infos: infos.clone() },
        Request::Lookup { uid: 0, keys: keys.clone(), infos: infos.clone() },
        Request::Unpublish { uid: 0, keys: Vec::new(), infos: infos.clone() },
        Request::Spawn { infos: infos.clone(), apps: vec![app] },
        Request::Spawn { infos: Vec::new(), apps: Vec::new() },
        Request::Connect { procs: procs.clone(), infos: infos.clone(), extra: infos.clone() },
        Request::Disconnect { procs: procs.clone(), infos: infos.clone() },
        Request::Notify { status: Status(-3456), range: 3, infos: infos.clone() },
        Request::RegisterEvents { codes: vec![Status(-1), Status(-2)], infos: infos.clone() },
        Request::RegisterEvents { codes: Vec::new(), infos: infos.clone() },
        Request::DeregisterEvents { codes: vec![Request::DEFAULT_HANDLER, Status(-2)] },
        Request::Query { queries: vec![Query { keys: vec![c"k".into()], qualifiers: infos.clone() }] },
        Request::Query { queries: Vec::new() },
        Request::Log { timestamp: Some(7), data: infos.clone(), directives: Vec::new() },
        Request::Allocate { directive: 1, infos: infos.clone() },
        Request::JobControl { targets: Vec::new(), directives: infos.clone() },
        Request::Monitor { monitor: infos[0].clone(), status: Status(-109), directives: infos.clone() },
        Request::GetCredential { infos: infos.clone() },
        Request::ValidateCredential { credential: b"cred".to_vec(), infos: infos.clone() },
        Request::IoPull { procs: procs.clone(), infos: infos.clone(), channels: 6, handler: Some(1) },
        Request::IoPull { procs: procs.clone(), infos: infos.clone(), channels: 6, handler: None },
        Request::IoPush { targets: procs.clone(), infos: infos.clone(), data: Some(b"input".to_vec()) },
        Request::IoPush { targets: procs.clone(), infos: infos.clone(), data: None },
        Request::GroupConstruct { group: group.clone(), procs: procs.clone(), infos: infos.clone() },
        Request::GroupLeave { group: group.clone(), infos: infos.clone() },
        Request::GroupDestruct { group: group.clone(), procs: Vec::new(), infos: infos.clone() },
        Request::GroupDestruct { group, procs, infos: infos.clone() },
        Request::IoDeregister { infos: infos.clone(), handler: 4 },
        Request::FabricRegister { infos: infos.clone() },
        Request::FabricUpdate { index: 9 },
        Request::RefreshCache { nspace: nspace("job"), rank: Rank(3) },
        Request::ResourceBlock {
            directive: 1,
            block: Some(c"b".into()),
            units: vec![(8, 2), (16, u64::MAX)],
            infos: infos.clone(),
        },
        Request::ResourceBlock { directive: 4, block: None, units: Vec::new(), infos: Vec::new() },
        Request::SessionControl { session: 3, infos },
        Request::ResolvePeers { node: Some(c"node".into()), nspace: None },
        Request::ResolvePeers { node: None, nspace: Some(nspace("job")) },
        Request::ResolveNodes { nspace: None },
        Request::JobInfoFallback { store: Some(c"hash".into()) },
        Request::Unknown { command: 25, rest: vec![1, 2, 3] },
        Request::Unknown { command: 77, rest: Vec::new() },
    ]
}

#[test]
fn requests_come_back_in_every_dialect() {
    for dialect in dialects() {
        for request in requests() {
            let bytes = request.encode(dialect, V6).unwrap();
            assert_eq!(Request::decode(dialect, V6, &bytes), Ok(request), "{dialect:?}");
        }
    }
}

#[test]
fn malformed_requests_cause_no_panic() {
    for dialect in dialects() {
        for request in requests() {
            let mut bytes = request.encode(dialect, V6).unwrap();
            for at in 0..bytes.len() {
                // A truncated request may still decode, as one with fewer fields, but never as the same one.
                assert_ne!(Request::decode(dialect, V6, &bytes[..at]).as_ref(), Ok(&request));
                let original = bytes[at];
                for changed in [original ^ 1, original ^ 0x80, 0, 0xff] {
                    bytes[at] = changed;
                    let _ = Request::decode(dialect, V6, &bytes);
                }
                bytes[at] = original;
            }
        }
    }
}

#[test]
fn every_request_has_its_number() {
    let mut numbers: Vec<u8> = requests().iter().map(|request| request.command().0).collect();
    numbers.dedup();
    let all = (0..25).chain([27, 28, 29, 30, 31, 33, 34, 35, 37, 38, 39, 25, 77]);
    assert_eq!(numbers, all.collect::<Vec<u8>>());
    assert_eq!(Command::GET.name(), "GET");
    assert_eq!(Command(77).name(), "UNKNOWN");
    assert!(
        requests().iter().all(|request| request.has_reply() != matches!(request, Request::DeregisterEvents { .. }))
    );
}

#[test]
fn requests_fit_the_server_that_gets_them() {
    let log = Request::Log { timestamp: Some(7), data: infos(), directives: Vec::new() };
    let (new, old) = (log.encode(V3, OLD).unwrap(), log.encode(V3, Version::new(2, 1, 0)).unwrap());
    assert_eq!(new.len(), old.len() + 4 + 8, "servers before 3.0 do not expect the time");
    let connect = Request::Connect { procs: vec![proc(0)], infos: Vec::new(), extra: infos() };
    let without = Request::Connect { procs: vec![proc(0)], infos: Vec::new(), extra: Vec::new() };
    assert_eq!(connect.encode(V41, Version::new(5, 0, 0)), without.encode(V41, V6));
    assert_ne!(connect.encode(V41, V6), without.encode(V41, V6));
}

fn check<R: Reply + PartialEq + std::fmt::Debug>(reply: R) {
    for dialect in dialects() {
        let bytes = reply.encode(dialect, V6).unwrap();
        assert_eq!(R::decode(dialect, V6, &bytes).as_ref(), Ok(&reply), "{dialect:?}");
    }
}

#[test]
fn replies_come_back_in_every_dialect() {
    let status = Status::SUCCESS;
    let kvals = vec![kval("k", Value::string("v")), kval("l", Value::Undef)];
    check(StatusReply { status: Status::ERR_NOT_FOUND });
    check(JobInfoReply { nspace: nspace("job"), kvals: kvals.clone() });
    check(FenceReply { status, segment_count: None });
    check(FenceReply { status, segment_count: Some(5) });
    check(GetReply { status, objects: vec![(proc(1), kvals.clone()), (proc(Rank::WILDCARD.0), Vec::new())] });
    check(LookupReply { status, data: vec![Pdata { proc: proc(0), key: "k".into(), value: Value::Int8(-1) }] });
    check(LookupReply { status, data: Vec::new() });
    check(InfosReply { status, infos: Some(infos()) });
    check(InfosReply { status, infos: Some(Vec::new()) });
    check(SpawnReply { status, nspace: Some(nspace("new")), kvals: kvals.clone() });
    check(ConnectReply { status, jobs: vec![(nspace("a"), kvals), (nspace("b"), Vec::new())] });
    check(CredentialReply { status, credential: Some((b"cred".to_vec(), infos())) });
    check(IoPullReply { status, handler: Some(3) });
    check(PeersReply { status, procs: Some(vec![proc(0), proc(1)]) });
    check(NodesReply { status, nodes: Some(c"a,b".into()) });
    for context in [None, Some(99)] {
        let group = Group { members: vec![proc(0)], context, infos: infos(), is_whole: false };
        check(GroupReply { status, group: Some(group) });
    }
}

#[test]
fn a_status_alone_is_a_reply_to_everything() {
    for dialect in dialects() {
        for status in [Status::SUCCESS, Status::ERR_NOT_SUPPORTED] {
            let bytes = StatusReply { status }.bytes(dialect);
            macro_rules! short {
                ($($reply:expr;)*) => {
                    $(let decoded = Reply::decode(dialect, Version::OURS, &bytes); assert_eq!(decoded, Ok($reply));)*
                };
            }
            short! {
                FenceReply { status, segment_count: None };
                GetReply { status, objects: Vec::new() };
                LookupReply { status, data: Vec::new() };
                InfosReply { status, infos: None };
                SpawnReply { status, nspace: None, kvals: Vec::new() };
                ConnectReply { status, jobs: Vec::new() };
                CredentialReply { status, credential: None };
                IoPullReply { status, handler: None };
                GroupReply { status, group: None };
                PeersReply { status, procs: None };
                NodesReply { status, nodes: None };
            }
        }
    }
}

#[test]
fn group_reply_has_the_form_of_the_clients_release() {
    let group = Group { members: vec![proc(0)], context: Some(99), infos: infos(), is_whole: false };
    let reply = GroupReply { status: Status::SUCCESS, group: Some(group) };
    let old = reply.encode(V41, Version::OURS).unwrap();
    let GroupReply { group: Some(read), .. } = Reply::decode(V41, Version::OURS, &old).unwrap() else { panic!() };
    assert_eq!((read.context, read.infos.len()), (Some(99), 0));
    assert_eq!(old[old.len() - 2..], [2, 99]);
    let none = GroupReply { status: Status::SUCCESS, group: Some(Group { context: None, ..read }) };
    let bytes = none.encode(V41, Version::OURS).unwrap();
    assert_eq!(Reply::decode(V41, Version::OURS, &bytes), Ok(none));
    // What the request does not tell follows where released libraries do not read, and only there.
    let group = Group { members: vec![proc(0)], context: Some(99), infos: infos(), is_whole: true };
    let whole = GroupReply { status: Status::SUCCESS, group: Some(group) };
    let bytes = whole.encode(V41, Version::OURS).unwrap();
    assert_eq!((&bytes[..old.len()], Reply::decode(V41, Version::OURS, &bytes)), (&old[..], Ok(whole.clone())));
    let later = Version::new(4, 2, 9);
    assert_eq!(whole.encode(V41, later), reply.encode(V41, later));
}

#[test]
fn old_clients_get_compressed_strings_expanded() {
    let text = "q".repeat(9000);
    let value = Value::CompressedString(compress(text.as_bytes()).unwrap().into());
    let reply = GetReply { status: Status::SUCCESS, objects: vec![(proc(0), vec![kval("k", value)])] };
    let bytes = reply.encode(V41, Version::new(4, 2, 9)).unwrap();
    let read = GetReply::decode(V41, V6, &bytes).unwrap();
    assert_eq!(read.objects[0].1[0].value, Value::string(&text));
    let bytes = reply.encode(V41, Version::new(5, 0, 0)).unwrap();
    assert_eq!(GetReply::decode(V41, V6, &bytes), Ok(reply));
}

#[test]
fn unsolicited_messages_come_back() {
    let data = b"line\n".to_vec();
    let output = IoDelivery { source: proc(1), channel: 2, handler: 0, infos: infos(), data };
    let mut event = Notification { status: Status(-3456), source: proc(1), infos: infos(), range: Some(3) };
    for dialect in dialects() {
        let bytes = output.encode(dialect, V6).unwrap();
        assert_eq!(IoDelivery::decode(dialect, &bytes).as_ref(), Ok(&output));
        for range in [None, Some(5)] {
            event.range = range;
            let bytes = event.encode(dialect, V6).unwrap();
            assert_eq!(Notification::decode(dialect, &bytes).as_ref(), Ok(&event));
        }
    }
}

#[test]
fn versions() {
    let parse = |text| Version::parse(text).map(|version| version.to_string());
    assert_eq!(parse("4.2.2rc2").as_deref(), Some("4.2.2"));
    assert_eq!(parse("v6.1.0").as_deref(), Some("6.1.0"));
    assert_eq!(parse("7.0.0a1\n").as_deref(), Some("7.0.0"));
    assert_eq!(parse("5").as_deref(), Some("5.0.0"));
    assert_eq!(parse("3.1.100").as_deref(), Some("3.1.100"));
    assert_eq!(parse("").as_deref(), None);
    assert_eq!(parse("release").as_deref(), None);
    assert_eq!(parse("99999999999.1").as_deref(), None);
    assert!(Version::new(3, 1, 100) > OLD && OLD < Version::new(3, 2, 0));
}

fn hello(kind: PeerKind) -> Hello {
    Hello {
        psec: "native".into(),
        credential: Hello::native_credential(1000, 100),
        flag: kind as u8,
        uid_gid: kind.has_uid_gid().then_some((1000, 100)),
        proc: kind.has_proc().then(|| proc(3)),
        version: "4.2.2".into(),
        module: Module::V41,
        buffer: BufferType::NonDescribed,
        gds: "hash".into(),
        infos: Vec::new(),
    }
}

#[test]
fn handshakes_come_back() {
    for flag in 0..=10 {
        let kind = PeerKind::from_flag(flag).unwrap();
        assert_eq!(kind as u8, flag);
        for dialect in dialects() {
            for infos in [Vec::new(), infos()] {
                let hello = Hello { module: dialect.module, buffer: dialect.buffer, infos, ..hello(kind) };
                let message = hello.encode().unwrap();
                let header = message.first_chunk().unwrap();
                assert_eq!(Hello::payload_len(header), Ok(message.len() - 16));
                assert_eq!(Hello::decode(&message[16..]), Ok(hello));
            }
        }
        let reply = ToolReply {
            assigned: kind.wants_id().then(|| proc(7)),
            server: Proc::new(nspace(&"s".repeat(255)), Rank(0)),
            security: Status::SUCCESS,
        };
        let bytes = reply.encode();
        assert_eq!(bytes.len(), ToolReply::len(kind));
        assert_eq!(ToolReply::decode(kind, &bytes), Ok(reply));
        assert_eq!(ToolReply::decode(kind, &bytes[..bytes.len() - 1]), Err(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER));
        assert_eq!(ToolReply::decode(kind, &(-25i32).to_be_bytes()), Err(Status::ERR_UNREACH));
    }
    assert_eq!(PeerKind::from_flag(11), None);
    for status in [Status::SUCCESS, Status::ERR_INVALID_CRED] {
        let reply = ClientReply { status, index: if status == Status::SUCCESS { 5 } else { 0 } };
        assert_eq!(ClientReply::decode(&reply.encode()), Ok(reply));
    }
    assert_eq!(Hello::read_native_credential(&Hello::native_credential(7, 9)), Some((7, 9)));
    assert_eq!(Hello::read_native_credential(&[0; 7]), None);
    assert_eq!(Hello::read_native_credential(&[0; 9]), None);
}

#[test]
fn inconsistent_handshakes_are_refused() {
    let message = hello(PeerKind::Client).encode().unwrap();
    let payload = &message[16..];
    let version_end = payload.windows(6).position(|bytes| bytes == b"4.2.2\0").unwrap() + 6;
    for end in 0..payload.len() {
        match Hello::decode(&payload[..end]) {
            // A 2.0 peer sends nothing after its version.
            Ok(hello) => assert_eq!((end, hello.module), (version_end, Module::V20)),
            Err(_) => assert_ne!(end, version_end),
        }
    }
    let mut huge = [0; 16];
    huge[8..12].copy_from_slice(&(HELLO_LEN_MAX as u32 + 1).to_ne_bytes());
    assert_eq!(Hello::payload_len(&huge), Err(Status::ERR_BAD_PARAM));
    let refused = |change: &dyn Fn(&mut Hello)| {
        let mut hello = hello(PeerKind::Client);
        change(&mut hello);
        hello.encode().is_err()
    };
    assert!(refused(&|hello| hello.flag = 11));
    assert!(refused(&|hello| hello.flag = PeerKind::Tool as u8), "a tool sends its uid");
    assert!(refused(&|hello| hello.gds = "a\0b".into()));
    assert!(refused(&|hello| hello.credential = vec![0; HELLO_LEN_MAX]));
    let renamed = |from: &[u8], to: &[u8]| {
        let at = payload.windows(from.len()).position(|bytes| bytes == from).unwrap();
        let mut bytes = payload.to_vec();
        bytes[at..at + from.len()].copy_from_slice(to);
        Hello::decode(&bytes)
    };
    assert_eq!(renamed(b"v41", b"v99"), Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(renamed(b"v41\0\x01", b"v41\0\x03"), Err(Status::ERR_UNPACK_FAILURE));
    assert_eq!(renamed(b"hash", b"ha\xffh"), Err(Status::ERR_UNPACK_FAILURE));
}

#[test]
fn fence_contributions_of_both_forms_mix() {
    let kvals = |value: i32| vec![kval("key-of-some-length", Value::Int(value)), kval("other", Value::Bool(true))];
    let old = Contribution::encode(V41, true, &[(Rank(0), kvals(0)), (Rank(1), kvals(1))]).unwrap();
    let single = Contribution::encode(V41, true, &[(Rank(2), kvals(2))]).unwrap();
    let nothing = Contribution::encode(V41, true, &[]).unwrap();
    assert_eq!(nothing, [2, 2, 2, 1], "an info byte and no ranks");
    let new = |compressed| Contribution {
        form: Form::Procs { compressed },
        collected: true,
        ranks: vec![(Origin::Proc(proc(4)), kvals(4)), (Origin::Proc(proc(5)), Vec::new())],
    };
    for described in [BufferType::NonDescribed, BufferType::Described] {
        let dialect = Dialect::new(Module::V41, described);
        for compressed in [false, true] {
            let bytes = new(compressed).encode_again(dialect).unwrap();
            assert_eq!(blob::decode_fence(dialect, &bytes), Ok(vec![new(compressed)]));
        }
    }
    let all = [old, single, nothing, new(true).encode_again(V41).unwrap(), new(false).encode_again(V41).unwrap()];
    let read = blob::decode_fence(V41, &all.concat()).unwrap();
    let forms: Vec<_> = read.iter().map(|contribution| contribution.form).collect();
    let relative = |key_map| Form::Relative { key_map };
    let procs = |compressed| Form::Procs { compressed };
    assert_eq!(forms, [relative(true), relative(false), relative(false), procs(true), procs(false)]);
    assert_eq!(read[0].ranks[1], (Origin::Relative(Rank(1)), kvals(1)));
    assert_eq!(read[1].ranks, [(Origin::Relative(Rank(2)), kvals(2))]);
    assert_eq!(blob::decode_fence(V41, &[]), Ok(Vec::new()));
    // The contribution of a 6.x server to a fence that collects no data.
    let empty = blob::decode_fence(V61, &[2, 6, 2, 0, 2, 2, 2, 0]).unwrap();
    assert_eq!((empty[0].collected, empty[0].ranks.len()), (false, 0));
    assert!(blob::decode_fence(V41, &[2, 2, 2, 4]).is_err(), "an info byte with unknown bits");
    assert!(blob::decode_fence(V41, b"no envelope").is_err());
    assert_eq!(Contribution { form: relative(false), ..new(false) }.encode_again(V41), Err(Status::ERR_BAD_PARAM));
    // A number outside the key map.
    let mut object = Packer::new(V41);
    object.rank(Rank(0));
    object.uint32(1);
    object.value(&Value::Bool(true)).unwrap();
    let mut body = Packer::new(V41);
    body.byte(3);
    body.uint32(1);
    body.strings(&["only"]).unwrap();
    body.byte_object(object.as_bytes()).unwrap();
    let mut envelope = Packer::new(V41);
    envelope.byte_object(body.as_bytes()).unwrap();
    assert!(blob::decode_fence(V41, envelope.as_bytes()).is_err());
}

#[test]
fn an_empty_envelope_before_the_contributions_is_skipped() {
    for described in [BufferType::NonDescribed, BufferType::Described] {
        let dialect = Dialect::new(Module::V41, described);
        let mut packer = Packer::new(dialect);
        packer.byte_object(&[]).unwrap();
        let empty = packer.into_bytes();
        let kvals = vec![kval("key", Value::Int(1))];
        let contribution = Contribution::encode(dialect, true, &[(Rank(0), kvals.clone())]).unwrap();
        let read = blob::decode_fence(dialect, &[&empty[..], &contribution].concat()).unwrap();
        assert_eq!(read.len(), 1, "{described:?}");
        assert_eq!(read[0].ranks, [(Origin::Relative(Rank(0)), kvals)]);
        assert_eq!(blob::decode_fence(dialect, &empty), Ok(Vec::new()));
        assert!(
            blob::decode_fence(dialect, &[&contribution[..], &empty].concat()).is_err(),
            "one between contributions"
        );
    }
}

fn job(ranks: u32, nodes: u32) -> JobData {
    let mut job = JobData::new(nspace("job"));
    job.session.insert(keys::UNIV_SIZE.into(), Value::Uint32(ranks));
    job.job.insert(keys::JOB_SIZE.into(), Value::Uint32(ranks));
    job.job.insert(keys::BFROPS_MODULE.into(), Value::string("4.2.2"));
    job.apps.entry(0).or_default().insert(keys::APPNUM.into(), Value::Uint32(0));
    job.apps.entry(0).or_default().insert(keys::APP_SIZE.into(), Value::Uint32(ranks));
    for id in 0..nodes {
        let hostname = format!("node{id}").into_bytes();
        let mut node = Node { nodeid: Some(id), hostname: hostname.clone(), ..Node::default() };
        node.values.insert(keys::HOSTNAME.into(), Value::string(&hostname));
        node.values.insert(keys::NODEID.into(), Value::Uint32(id));
        node.values.insert(keys::LOCAL_PEERS.into(), Value::string(format!("{id}")));
        job.nodes.push(node);
    }
    for rank in 0..ranks {
        let mut set = |key: &'static str, value| job.procs.set(Rank(rank), key.into(), value).unwrap();
        set(keys::GLOBAL_RANK, Value::Uint32(rank));
        set(keys::LOCAL_RANK, Value::Uint16(0));
        set(keys::NODEID, Value::Uint32(rank % nodes));
        set(keys::HOSTNAME, Value::string(format!("node{}", rank % nodes)));
    }
    job
}

fn recipient(dialect: Dialect, version: Version) -> Recipient<'static> {
    Recipient { dialect, version, version_text: "4.2.2", hostname: b"node1" }
}

#[test]
fn job_data_comes_back() {
    let mut job = job(5, 2);
    job.nodes[0].aliases = vec![b"alias".to_vec(), b"10.0.0.1".to_vec()];
    job.nodes[0].values.insert(keys::HOSTNAME_ALIASES.into(), Value::string("alias,10.0.0.1"));
    for dialect in dialects() {
        let bytes = jobinfo::encode(&job, &recipient(dialect, V6), jobinfo::all_ranks(&job)).unwrap();
        assert_eq!(jobinfo::decode(dialect, &bytes).as_ref(), Ok(&job), "{dialect:?}");
    }
    // Too long with all ranks, so with the local ones only.
    let all = jobinfo::encode(&job, &recipient(V41, V6), jobinfo::all_ranks(&job)).unwrap();
    let within = |len_max| jobinfo::encode_within(&job, &recipient(V41, V6), len_max, [Rank(1)].into_iter()).unwrap();
    assert_eq!(within(all.len()), all);
    assert_eq!(within(all.len() - 1), jobinfo::encode(&job, &recipient(V41, V6), [Rank(1)].into_iter()).unwrap());
    // Only some ranks, one of them unknown.
    let bytes = jobinfo::encode(&job, &recipient(V41, V6), [Rank(1), Rank(9)].into_iter()).unwrap();
    let read = jobinfo::decode(V41, &bytes).unwrap();
    assert_eq!(read.procs.get(Rank(1), keys::GLOBAL_RANK.as_bytes()), Some((&Value::Uint32(1)).into()));
    assert_eq!(read.procs.get(Rank(0), keys::GLOBAL_RANK.as_bytes()), None);
}

#[test]
fn old_clients_get_plain_values() {
    let job = job(2, 2);
    let bytes = jobinfo::encode(&job, &recipient(V3, OLD), jobinfo::all_ranks(&job)).unwrap();
    let reply = JobInfoReply::decode(V3, OLD, &bytes).unwrap();
    let names: Vec<_> = reply.kvals.iter().map(|kval| kval.key.to_string()).collect();
    assert!(names.contains(&keys::UNIV_SIZE.to_string()), "session values come as job values: {names:?}");
    assert!(names.contains(&"node0".to_string()) && names.contains(&"node1".to_string()));
    assert!(!names.contains(&keys::NODE_INFO_ARRAY.to_string()));
    assert_eq!(
        names.iter().filter(|name| *name == keys::LOCAL_PEERS).count(),
        1,
        "those of its own node a second time"
    );
    // Our client reads this form of reply, too.
    let read = jobinfo::decode(V3, &bytes).unwrap();
    assert_eq!(read.nodes, job.nodes);
    assert_eq!(read.job.get(keys::LOCAL_PEERS.as_bytes()), Some(&Value::string("1")));
}

#[test]
fn values_unknown_to_the_clients_release_are_left_out() {
    let mut job = job(1, 1);
    let unknown = || Value::NodePid { hostname: None, nodeid: 0, pid: 1 };
    job.job.insert("new".into(), unknown());
    job.job.insert(keys::NODE_MAP.into(), Value::Regex(b"pmix[a]\0".to_vec().into()));
    job.job.insert("other.regex".into(), Value::Regex(b"raw:a\0".to_vec().into()));
    job.nodes[0].values.insert("new".into(), Value::Value(Box::new(unknown())));
    job.procs.set(Rank(0), "new".into(), Value::infos([Info::new("deep", unknown())])).unwrap();
    let bytes = jobinfo::encode(&job, &recipient(V41, V6), jobinfo::all_ranks(&job)).unwrap();
    let read = jobinfo::decode(V41, &bytes).unwrap();
    assert_eq!(read.job.keys().map(Key::to_string).collect::<Vec<_>>(), [keys::BFROPS_MODULE, keys::JOB_SIZE]);
    assert!(!read.nodes[0].values.contains_key(b"new".as_slice()));
    assert_eq!(read.nodes[0].values.len(), 3);
    assert_eq!(read.procs.get(Rank(0), b"new"), None);
    let bytes = jobinfo::encode(&job, &recipient(V61, V6), jobinfo::all_ranks(&job)).unwrap();
    let read = jobinfo::decode(V61, &bytes).unwrap();
    assert!(read.job.contains_key(b"new".as_slice()) && read.procs.get(Rank(0), b"new").is_some());
}

#[test]
fn every_form_of_job_info_is_read() {
    let mut map = Packer::new(V41);
    map.size(2);
    map.kval(&"left".into(), &Value::string("0,2")).unwrap();
    map.kval(&"right".into(), &Value::string("1,x,")).unwrap();
    let proc_infos = [Info::new(keys::RANK, Value::Rank(Rank(1))), Info::new("p", Value::Bool(true))];
    let node = [Info::new(keys::HOSTNAME, Value::string("left")), Info::new(keys::NODEID, Value::Uint32(4))];
    let more = [Info::new(keys::NODEID, Value::Uint32(4)), Info::new("n", Value::Bool(true))];
    let app = [Info::new(keys::APPNUM, Value::Uint32(7)), Info::new("a", Value::Bool(true))];
    let nested = [
        Info::new("j", Value::Bool(true)),
        Info::new(keys::NODE_INFO_ARRAY, Value::infos(more)),
        Info::new(keys::PROC_INFO_ARRAY, Value::infos(proc_infos)),
    ];
    let session = [
        Info::new(keys::SESSION_ID, Value::Uint32(12)),
        Info::new("s", Value::Bool(true)),
        Info::new(keys::APP_INFO_ARRAY, Value::infos(app)),
    ];
    let numbers = DataArray { ty: DataType::UINT32, items: vec![Value::Uint32(1)] };
    let kvals = vec![
        kval(keys::MAP_BLOB, Value::ByteObject(map.into_bytes().into())),
        kval(keys::NODE_INFO_ARRAY, Value::infos(node)),
        kval(keys::JOB_INFO_ARRAY, Value::infos(nested)),
        kval(keys::SESSION_INFO_ARRAY, Value::infos(session)),
        kval(keys::QUALIFIED_VALUE, Value::infos(infos())),
        kval("plain.array", Value::DataArray(Box::new(numbers.clone()))),
    ];
    let job = jobinfo::from_kvals(nspace("job"), V41, kvals).unwrap();
    assert_eq!(job.job.keys().map(Key::to_string).collect::<Vec<_>>(), ["j", "plain.array", keys::QUALIFIED_VALUE]);
    assert_eq!(job.session.keys().map(Key::to_string).collect::<Vec<_>>(), [keys::SESSION_ID, "s"]);
    assert_eq!(job.apps[&7].len(), 2);
    let names: Vec<_> = job.nodes.iter().map(|node| (node.hostname.as_slice(), node.nodeid)).collect();
    assert_eq!(names, [(b"left".as_slice(), Some(4)), (b"right", None)]);
    assert!(job.nodes[0].values.contains_key(b"n".as_slice()), "found again by its number");
    assert_eq!(job.nodes[0].values.get(keys::LOCAL_PEERS.as_bytes()), Some(&Value::string("0,2")));
    assert_eq!(job.procs.get(Rank(2), keys::HOSTNAME.as_bytes()), Some((&Value::string("left")).into()));
    assert_eq!(job.procs.get(Rank(1), b"p"), Some((&Value::Bool(true)).into()));
}

#[test]
fn ranks_out_of_proportion_are_refused() {
    let mut packer = Packer::new(V41);
    packer.string(Some(b"job")).unwrap();
    let mut row = packer.nested();
    row.rank(Rank(1 << 27));
    row.kval(&"k".into(), &Value::Bool(true)).unwrap();
    packer.kval_bytes(keys::PROC_BLOB, row.as_bytes()).unwrap();
    assert_eq!(jobinfo::decode(V41, packer.as_bytes()), Err(Status::ERR_UNPACK_FAILURE));
    let mut packer = Packer::new(V41);
    packer.kval(&"node".into(), &Value::string("134217728")).unwrap();
    let mut map = Packer::new(V41);
    map.size(1);
    map.raw(packer.as_bytes()).unwrap();
    let kvals = vec![kval(keys::MAP_BLOB, Value::ByteObject(map.into_bytes().into()))];
    assert_eq!(jobinfo::from_kvals(nspace("job"), V41, kvals), Err(Status::ERR_UNPACK_FAILURE));
}

/// The calling thread's processor time: independent of the machine's load.
fn processor_time() -> TimeSpec {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap()
}

#[test]
fn cost_of_job_info_grows_with_the_job_and_not_faster() {
    let took = |ranks: u32| {
        let job = job(ranks, ranks);
        let once = || {
            let start = processor_time();
            let bytes = jobinfo::encode(&job, &recipient(V41, Version::OURS), jobinfo::all_ranks(&job)).unwrap();
            assert_eq!(jobinfo::decode(V41, &bytes).unwrap(), job);
            processor_time() - start
        };
        once().min(once()).min(once())
    };
    let (small, large) = (took(1_000), took(32_000));
    // Were a part of it quadratic, that part would cost 1024 times as much. The bound leaves room for cold caches.
    assert!(large < small * 100, "{small:?} for 1000 ranks, {large:?} for 32000");
}
