//! The client of a process: it is counted, can be found, and is freed after the last finalize.
//!
//! There is only one test, because a process has only one instance. The process is a singleton, so the test needs no
//! server.

use std::collections::BTreeSet;

use pmix_client::process;
use pmix_client::{Client, Environment, GetRequest};
use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{Key, Proc, Rank, Scope, Status, Value};

fn get(client: &Client, key: &str) -> Result<Value, Status> {
    client.get_value(client.me(), key, &[])
}

fn open_descriptors() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).filter(|target| !target.ends_with("/fd")).collect()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Readers without a lock see complete values, and never an older one after a newer one.
fn own_values_are_replaced_under_their_readers(me: &Proc) {
    const NUMBERS: i32 = 4000;
    let text = |number: i32| format!("{number:08}").repeat(1 + number as usize % 40);
    let read = |value: ValueRef<'_>| -> i32 {
        let bytes = value.as_text().expect("a string");
        let number = std::str::from_utf8(&bytes[..8]).unwrap().parse().expect("a number");
        assert_eq!(bytes, text(number).as_bytes());
        number
    };
    let put = |key: String, number: i32| {
        process::hold().unwrap().put(Scope::Internal, Key::new(key).unwrap(), Value::string(text(number))).unwrap();
    };
    put("replaced".into(), 0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut latest = 0;
                while latest < NUMBERS - 1 {
                    process::with_current(|client, shielded| {
                        // The first call of a thread has no pin token yet.
                        let Some(shielded) = shielded else { return };
                        let request = GetRequest::new(me, "replaced", &[]);
                        let number = client.get_pinned(shielded, &request, read).expect("it is there");
                        assert!(number >= latest);
                        latest = number;
                    });
                }
            });
        }
        for number in 1..NUMBERS {
            put("replaced".into(), number);
            // Put other keys too, so that the table grows.
            put(format!("other-{}", number % 500), number);
        }
    });
}

#[test]
fn the_instance_is_counted_and_can_come_again() {
    let (descriptors, threads_before) = (open_descriptors(), threads());
    assert!(process::with_current(|_, _| ()).is_none() && process::hold().is_none());
    assert_eq!(process::finalize(&[]), Err(Status::ERR_INIT));

    for round in 0..3 {
        assert_eq!(process::init(&[]), Err(Status::ERR_UNREACH), "this process has no server");
        let client = process::hold().expect("it is initialised nevertheless");
        client.put(Scope::Internal, "round".into(), Value::Int(round)).unwrap();
        // A second library in the process is counted and gets the same client.
        assert_eq!(process::init(&[]).as_ref(), Ok(client.me()));
        assert_eq!(process::count(), 2);
        let handler = std::sync::Arc::new(|_, _, _| {});
        client.register_event_handler(vec![Status(-1)], Vec::new(), handler).wait().unwrap();
        assert_eq!(process::finalize(&[]), Ok(()));
        // One use nested in another.
        let found = process::with_current(|_, _| process::with_current(|client, _| get(client, "round")));
        assert_eq!(found, Some(Some(Ok(Value::Int(round)))));
        assert_eq!(process::finalize(&[]), Ok(()));
        assert_eq!(process::count(), 0);
        assert!(process::with_current(|_, _| ()).is_none() && process::hold().is_none());
        assert_eq!(get(&client, "round"), Ok(Value::Int(round)), "a call that outlasts the last finalize");
        assert_eq!(process::finalize(&[]), Err(Status::ERR_INIT));
    }

    let env = Environment::from_lookup(|_| None).unwrap();
    let client = || Client::connect(&env, &[]).unwrap();
    let me: Proc = client().me().clone();
    assert_eq!(process::install(client()), Ok(()));
    assert_eq!(process::install(client()), Err(Status::ERR_EXISTS));
    assert_eq!(process::init(&[]), Ok(me.clone()));
    own_values_are_replaced_under_their_readers(&me);
    assert_eq!((process::finalize(&[]), process::finalize(&[])), (Ok(()), Ok(())));
    assert_eq!(me.rank, Rank(0));
    // A thread that has been joined may still be listed for a moment.
    while threads() != threads_before {
        std::thread::yield_now();
    }
    assert_eq!(open_descriptors(), descriptors, "no descriptor stays open");
}
