//! Tools without a server, and tools that try again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// How often a tool connects to a server that closes each connection.
fn tries(infos: &[(&'static str, u32)]) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    // Ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::AcqRel);
            drop(stream);
        }
    });
    let mut all: Vec<Info> = infos.iter().map(|(key, value)| Info::new(*key, Value::Uint32(*value))).collect();
    all.push(Info::new(keys::SERVER_URI, Value::string(format!("a.0;tcp4://{address}"))));
    let error = connect(Environment::from_lookup(|_| None).unwrap(), &all).err();
    assert_eq!(error, Some(Status::ERR_UNREACH));
    count.load(Ordering::Acquire)
}

#[test]
fn a_tool_tries_as_often_as_it_is_told() {
    assert_eq!(tries(&[]), 1);
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 3), (keys::CONNECT_RETRY_DELAY, 0)]), 4);
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 0), (keys::CONNECT_RETRY_DELAY, 0)]), 1);
    // Only the delay is given.
    assert_eq!(tries(&[(keys::CONNECT_RETRY_DELAY, 0)]), 11);
    // A delay beyond the time limit is not begun.
    assert_eq!(tries(&[(keys::CONNECT_MAX_RETRIES, 3), (keys::CONNECT_RETRY_DELAY, 100), (keys::TIMEOUT, 2)]), 1);
}

#[test]
fn a_tool_without_servers_uses_itself_and_cannot_leave_one() {
    let env = Environment::from_lookup(|_| None).unwrap();
    let (client, servers) = connect(env, &[Info::new(keys::TOOL_DO_NOT_CONNECT, Value::Bool(true))]).unwrap();
    let me = client.me().clone();
    assert_eq!(servers.choose(&me, &[]), Ok(()));
    let (other, unnamed) = (Proc::new(Nspace::new("other").unwrap(), Rank(0)), Nspace::new("").unwrap());
    assert_eq!(servers.choose(&other, &[]), Err(Status::ERR_UNREACH));
    let waits = [Info::new(keys::WAIT_FOR_CONNECTION, Value::Bool(true)), Info::new(keys::TIMEOUT, Value::Int(1))];
    assert_eq!(servers.choose(&other, &waits), Err(Status::ERR_TIMEOUT));
    assert_eq!(servers.leave(&other), Err(Status::ERR_NOT_FOUND));
    assert_eq!(servers.leave(&Proc::new(unnamed, Rank(0))), Err(Status::ERR_BAD_PARAM));
    servers.close();
}
