//! One rank of a job: what every rank of a parallel program does at its start, with checks.
//!
//! Run it under any PMIx server: `pmixrun -n 2 target/debug/examples/rank`.

use std::ffi::CString;
use std::time::Duration;

use crossbeam::channel::unbounded;
use pmix_client::{Client, Environment, Event};
use pmix_dstore::model::{DataType, Info, Key, Proc, Rank, Result, Scope, Status, Value, keys};

fn get(client: &Client, rank: Rank, key: &str, infos: &[Info]) -> Result<Value> {
    client.get_value(&Proc::new(client.me().nspace.clone(), rank), key, infos)
}

fn main() -> Result<()> {
    let env = Environment::from_process()?;
    let client = Client::connect(&env, &[])?;
    let me = client.me().clone();
    let size = get(&client, Rank::WILDCARD, keys::JOB_SIZE, &[])?.as_u32().expect("a number");
    println!("{me}: of {size}, shared memory {}", client.view().is_some());

    let (sender, events) = unbounded();
    let code = Status(-3456);
    let handler = move |_, event: Event, _| sender.send(event).expect("the receiver is there");
    let id = client.register_event_handler(vec![code], Vec::new(), std::sync::Arc::new(handler)).wait()?;

    client.put(Scope::Global, "rank-number".into(), Value::Uint32(me.rank.0))?;
    client.put(Scope::Local, "rank-text".into(), Value::string(format!("text of {}", me.rank)))?;
    client.put(Scope::Remote, "rank-far".into(), Value::ByteObject(vec![1, 2, 3].into()))?;
    client.commit()?;
    let collect = || vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))];
    client.fence(&[], collect()).wait()?;
    for rank in 0..size {
        assert_eq!(get(&client, Rank(rank), "rank-number", &[])?, Value::Uint32(rank));
        assert_eq!(get(&client, Rank(rank), "rank-text", &[])?, Value::string(format!("text of {rank}")));
    }
    let optional = [Info::new(keys::OPTIONAL, Value::Bool(true))];
    assert_eq!(get(&client, Rank(0), "nobody-has-this", &optional), Err(Status::ERR_NOT_FOUND));

    // Put again, when everybody has read: the others see it after the next fence.
    client.fence(&[], Vec::new()).wait()?;
    client.put(Scope::Global, "rank-number".into(), Value::Uint32(me.rank.0 + 100))?;
    client.commit()?;
    let (done, fenced) = unbounded();
    client.fence(&[], collect()).start(Box::new(move |result| done.send(result).expect("it is awaited")))?;
    fenced.recv().expect("the callback is called")?;
    for rank in 0..size {
        assert_eq!(get(&client, Rank(rank), "rank-number", &[])?, Value::Uint32(rank + 100));
    }
    println!(
        "{me}: peers {:?}, nodes {:?}",
        client.resolve_peers(None, None),
        client.resolve_nodes(None).map(|nodes| nodes.map(|nodes| String::from_utf8_lossy(&nodes).into_owned()))
    );

    if me.rank == Rank(0) {
        let infos = vec![Info::new("ev.extra", Value::string("payload"))];
        client.notify_event(code, me.clone(), pmix_client::events::range::NAMESPACE, infos).wait()?;
    }
    let event = events.recv_timeout(Duration::from_secs(20)).expect("the event");
    assert_eq!((event.status, event.source.rank), (code, Rank(0)));
    assert!(event.infos.iter().any(|info| info.key.is("ev.extra") && info.value.data_type() == DataType::STRING));
    client.deregister_event_handler(id).wait()?;

    publish_and_look_up(&client, size)?;
    client.finalize(&[])?;
    println!("{me}: done");
    Ok(())
}

/// Not every host keeps published data.
fn publish_and_look_up(client: &Client, size: u32) -> Result<()> {
    let key = |rank: u32| format!("published-by-{rank}");
    let own = Key::new(key(client.me().rank.0)).expect("a short key");
    match client.publish(vec![Info::new(own, Value::Int(7))]).wait() {
        Err(Status::ERR_NOT_SUPPORTED) => return Ok(()),
        result => result?,
    }
    client.fence(&[], Vec::new()).wait()?;
    let last = CString::new(key(size - 1)).expect("no NUL");
    let found = client.lookup(vec![last], Vec::new()).wait()?;
    assert_eq!((found[0].proc.rank, &found[0].value), (Rank(size - 1), &Value::Int(7)));
    Ok(())
}
