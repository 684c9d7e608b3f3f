//! Clients and hosts in one process: wrong use gives errors that name operation, key and process; events; answers by closures.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};
use pmix::{
    Abort, Answers, Cause, Client, DataType, Environment, Error, Host, Job, KEPT_EVENTS, Key, Range, Result, Scope,
    Status, attributes,
};

const PORT: Key<u16> = Key::own("app.port");
/// The same key, with another type.
const PORT_AS_TEXT: Key<String> = Key::own("app.port");
const GREETING: Status = Status(Status::EXTERNAL_ERR_BASE.0 - 1);
/// No test waits that long but one that fails.
const LONG: Duration = Duration::from_secs(60);

/// A rank in this process, by the environment that a child would get.
fn rank(job: &Job, rank: u32) -> Result<Client> {
    let mut command = Command::new("unused");
    job.prepare(rank, &mut command)?;
    let set = command.get_envs().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_owned())));
    let variables: HashMap<String, OsString> = set.collect();
    let env = Environment::from_lookup(|name| variables.get(name).cloned()).expect("an environment");
    Client::connect_by(&env, &[])
}

fn text<T>(result: Result<T>) -> String {
    result.map(drop).expect_err("wrong use").to_string()
}

#[test]
fn a_clients_wrong_use_is_named() -> Result<()> {
    let host = Host::builder().hostname("n1").start()?;
    let job = host.job("a").node("n1", 0..2).register()?;
    let client = rank(&job, 0)?;
    client.put(Scope::Global, PORT, 80_u16)?;
    for (said, wanted) in [
        (
            text(client.put(Scope::Global, attributes::JOB_SIZE, 4_u32)),
            "put of pmix.job.size of a:0: keys that begin with `pmix` belong to the standard; put a key of your own (Key::own)",
        ),
        (
            text(client.get(&client.peer(0), PORT_AS_TEXT)),
            "get of app.port of a:0: the value is of type UINT16, the key is of type STRING; give the key the type with which the \
             value was put or registered",
        ),
        (
            text(client.get_with(&client.peer(1), PORT, &[attributes::OPTIONAL.info(true)])),
            "get of app.port of a:1: PMIX_ERR_NOT_FOUND (-46); the process has not put this key, has not committed it, or no fence came after \
             the commit",
        ),
        (
            text(client.get_within(&client.peer(1), PORT, Duration::from_millis(1))),
            "get of app.port of a:1: PMIX_ERR_TIMEOUT (-24)",
        ),
        (
            text(client.look_up(PORT)),
            "look-up of app.port: PMIX_ERR_NOT_SUPPORTED (-47); the host does not offer this: see its documentation",
        ),
        (
            text(client.publish(PORT, 80_u16)),
            "publish of app.port of a:0: PMIX_ERR_NOT_SUPPORTED (-47); the host does not offer this: see its documentation",
        ),
        (text(client.abort(1, "with\0a NUL")), "abort of a:0: the message holds a NUL"),
        (text(client.fence().timeout(Duration::from_millis(1)).wait()), "fence of a:wildcard: PMIX_ERR_TIMEOUT (-24)"),
    ] {
        assert_eq!(said, wanted);
    }
    let error: Error = client.get(&client.peer(0), PORT_AS_TEXT).expect_err("another type");
    assert_eq!((error.operation(), error.key(), error.process()), ("get", Some("app.port"), Some(&client.peer(0))));
    assert_eq!(*error.cause(), Cause::Type { wanted: DataType::STRING, found: DataType::UINT16 });
    assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);
    assert_eq!(client.get_optional(&client.peer(1), PORT)?, None);
    assert_eq!(client.get_optional(&client.peer(0), PORT)?, Some(80));
    client.finalize()?;
    host.finalize()
}

#[test]
fn a_hosts_wrong_use_is_named() -> Result<()> {
    let host = Host::builder().hostname("n1").start()?;
    let begin = || host.job("b");
    for (said, wanted) in [
        (text(begin().register()), "the job has no ranks; add a node with ranks"),
        (text(begin().node("n1", 0..2).node("n2", 1..3).register()), "rank 1 is on n1 and on n2"),
        (
            text(begin().node("n1", 0..2).node("n1", 2..3).register()),
            "node n1 is named twice; name it once, with all of its ranks",
        ),
        (text(begin().node("n1", [0, 2]).register()), "rank 1 is on no node; ranks are 0, 1, 2 and so on"),
        (text(begin().node("a,b", 0..2).register()), "\"a,b\" is no name of a node"),
    ] {
        assert_eq!(said, format!("registration of a job of b:wildcard: {wanted}"));
    }
    assert_eq!(text(host.job("a\0b").ranks_here(1).register()), "registration of a job: name holds a NUL byte");
    assert_eq!(
        text(host.job("").ranks_here(1).register()),
        "registration of a job of :wildcard: PMIX_ERR_BAD_PARAM (-27)"
    );

    let job = begin().node("n1", 0..2).node("n2", [2]).register()?;
    assert_eq!((job.size(), job.ranks_here().collect::<Vec<_>>()), (3, vec![0, 1]));
    let mut command = Command::new("unused");
    for (rank, wanted) in
        [(2, "the rank is on n2, this is n1: the host there starts it"), (3, "the job has the ranks 0 to 2")]
    {
        let said = text(job.prepare(rank, &mut command));
        assert_eq!(said, format!("preparation of a rank of b:{rank}: {wanted}"));
    }
    assert_eq!(command.get_envs().count(), 0);
    host.finalize()?;
    assert_eq!(
        text(job.prepare(0, &mut command)),
        "preparation of a rank of b:0: PMIX_ERR_INIT (-31); the client or server has been finalized"
    );
    Ok(())
}

#[test]
fn ranks_know_what_follows_from_their_nodes() -> Result<()> {
    let host = Host::builder().hostname("n1").start()?;
    let extra = attributes::UNIV_SIZE.info(9_u32);
    let job = host.job("c").node("n2", [1]).node("n1", [0, 2]).info(extra).register()?;
    let client = rank(&job, 2)?;
    let whole = client.job();
    assert_eq!(client.get(&whole, attributes::JOB_SIZE)?, 3);
    assert_eq!(client.get(&whole, attributes::UNIV_SIZE)?, 9);
    assert_eq!(client.get(&whole, attributes::MAX_PROCS)?, 3);
    assert_eq!(client.get(&whole, attributes::LOCAL_PEERS)?, "0,2");
    assert_eq!(client.get(client.me(), attributes::LOCAL_RANK)?, 1);
    assert_eq!(client.get(&client.peer(1), attributes::HOSTNAME)?, "n2");
    client.finalize()?;
    job.deregister()?;
    host.finalize()
}

#[test]
fn events_come_in_order_and_those_that_do_not_fit_are_counted() -> Result<()> {
    let client = Client::singleton()?;
    let greetings = client.events(&[GREETING])?;
    let last = client.events(&[Status::EXTERNAL_ERR_BASE])?;
    for number in 0..KEPT_EVENTS + 3 {
        client.notify(GREETING, Range::Process, vec![attributes::EVENT_TEXT_MESSAGE.info(number.to_string())])?;
    }
    client.notify(Status::EXTERNAL_ERR_BASE, Range::Process, Vec::new())?;
    last.recv_timeout(LONG)?;
    assert_eq!(greetings.missed(), 3);
    client.finalize()?;
    let numbers = greetings.map(|event| attributes::EVENT_TEXT_MESSAGE.find(&event.infos).unwrap_or_default());
    assert!(numbers.eq((0..KEPT_EVENTS).map(|number| number.to_string())));
    Ok(())
}

#[test]
fn a_host_notifies_the_ranks_of_one_job_alone() -> Result<()> {
    let host = Host::builder().hostname("n1").start()?;
    let jobs = [host.job("d").node("n1", [0]).register()?, host.job("e").node("n1", [0]).register()?];
    let clients = [rank(&jobs[0], 0)?, rank(&jobs[1], 0)?];
    let streams = [clients[0].events(&[GREETING])?, clients[1].events(&[])?];
    host.notify(GREETING, &jobs[0], vec![attributes::EVENT_TEXT_MESSAGE.info("first")])?;
    host.notify(GREETING, &jobs[1], vec![attributes::EVENT_TEXT_MESSAGE.info("second")])?;
    for (stream, wanted) in streams.iter().zip(["first", "second"]) {
        let event = stream.recv_timeout(LONG)?;
        assert_eq!((event.status, &event.source), (GREETING, host.server().me()));
        assert_eq!(attributes::EVENT_TEXT_MESSAGE.find(&event.infos).as_deref(), Some(wanted));
    }
    assert!(streams.iter().all(|stream| stream.try_recv().is_none()));

    // The end of the server ends the streams.
    host.finalize()?;
    for stream in &streams {
        let error = stream.recv().expect_err("no server");
        assert_eq!((error.operation(), error.status()), ("wait for an event", Status::ERR_LOST_CONNECTION));
    }
    Ok(())
}

/// A host whose answers come out of the channel, in words.
fn talkative() -> Result<(Host, Receiver<String>)> {
    let (told, heard) = unbounded();
    let tell = move || {
        let told = told.clone();
        move |words: String| told.send(words).expect("the test listens")
    };
    let (connected, finalized, logged, aborted) = (tell(), tell(), tell(), tell());
    let answers = Answers::new()
        .on_connected(move |rank| {
            connected(format!("{rank} connected"));
            if rank.rank.0 == 1 { Err(Status::ERR_NO_PERMISSIONS) } else { Ok(()) }
        })
        .on_finalized(move |rank| finalized(format!("{rank} finalized")))
        .on_log(move |rank, text| logged(format!("{rank} logs {text}")))
        .on_abort(move |rank, Abort { exit_status, message, processes }| {
            aborted(format!("{rank} aborts {processes:?} with {exit_status}: {message}"));
        });
    Ok((Host::builder().hostname("n1").upcalls(answers).start()?, heard))
}

#[test]
fn closures_answer_upcalls() -> Result<()> {
    let (host, heard) = talkative()?;
    let job = host.job("f").node("n1", 0..2).register()?;
    let client = rank(&job, 0)?;
    let refused = rank(&job, 1).err().expect("it is refused");
    assert_eq!((refused.operation(), refused.process()), ("connection", Some(&job.process(1))));
    let text = "good morning";
    client.log(text)?;
    client.abort(3, "no more work")?;
    client.finalize()?;
    let mut told: Vec<String> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
    // A rank that is refused tries the server's other socket.
    told.dedup();
    let wanted = [
        "f:0 connected",
        "f:1 connected",
        "f:0 logs good morning",
        "f:0 aborts [] with 3: no more work",
        "f:0 finalized",
    ];
    assert_eq!(told, wanted);
    host.finalize()?;

    // Without closures: not supported.
    let host = Host::builder().hostname("n1").start()?;
    let job = host.job("f").node("n1", 0..1).register()?;
    let client = rank(&job, 0)?;
    assert_eq!(client.log(text).expect_err("no closure").status(), Status::ERR_NOT_SUPPORTED);
    assert_eq!(client.abort(3, "no more work").expect_err("no closure").status(), Status::ERR_NOT_SUPPORTED);
    client.finalize()?;
    host.finalize()
}

#[test]
fn connected_processes_have_a_namespace() -> Result<()> {
    let host = Host::builder().hostname("n1").start()?;
    let jobs = [host.job("g").node("n1", 0..1).register()?, host.job("h").node("n1", 0..1).register()?];
    let everybody = [jobs[0].process(0), jobs[1].process(0)];
    let run = |job: &Job, other: &Job| -> Result<()> {
        let client = rank(job, 0)?;
        let expected = u32::from(job.process(0) > other.process(0));
        client.put(Scope::Global, PORT, 80 + expected as u16)?;
        client.commit()?;
        let greetings = client.events(&[GREETING])?;
        client.connect_all(everybody.clone()).exchange()?;
        let connection = client.connect_all(everybody.clone()).id("mine").timeout(LONG).wait()?;
        assert_eq!((connection.rank(), connection.size()?), (expected, 2));
        client.fence().of([connection.all()]).collect_data().wait()?;
        for member in 0..2 {
            assert_eq!(client.get(&connection.peer(member), PORT)?, 80 + member as u16);
        }
        if expected == 0 {
            connection.notify(GREETING, Vec::new())?;
        }
        // Looked at in the end: the other process waits for this one.
        let greeting = greetings.recv_timeout(LONG);
        let same = connection.clone();
        connection.disconnect()?;
        let error = same.disconnect().expect_err("it has ended");
        assert_eq!((error.operation(), error.status()), ("disconnect", Status::ERR_INVALID_NAMESPACE));
        let error = client.connect_all([other.process(0)]).wait().map(drop).expect_err("without itself");
        assert_eq!((error.operation(), error.status()), ("connect", Status::ERR_BAD_PARAM));
        client.finalize()?;
        assert_eq!(greeting?.source, everybody[0]);
        Ok(())
    };
    let [one, two] = &jobs;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(two, one));
        run(one, two)?;
        other.join().expect("no panic")
    })?;
    host.finalize()
}
