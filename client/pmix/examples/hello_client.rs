//! A rank: it tells the others its process id, reads theirs, and hears an event.

use std::time::Duration;

use pmix::{Client, Key, Range, Result, Scope, Status, attributes};

/// A key of this program. The compiler checks that its values are `u32`.
const PID: Key<u32> = Key::own("hello.pid");
/// An event of this program.
const GREETING: Status = Status(Status::EXTERNAL_ERR_BASE.0 - 1);

fn main() -> Result<()> {
    let client = Client::connect()?;
    let size = client.get(&client.job(), attributes::JOB_SIZE)?;
    let greetings = client.events(&[GREETING])?;

    // What the others are to know goes to the server, and with the fence to everybody.
    client.put(Scope::Global, PID, std::process::id())?;
    client.commit()?;
    client.fence().collect_data().wait()?;

    for rank in 0..size {
        let pid = client.get(&client.peer(rank), PID)?;
        println!("rank {} of {size}: rank {rank} is process {pid}", client.rank());
    }

    // Everybody listens since before the fence.
    if client.rank() == 0 {
        client.notify(GREETING, Range::Namespace, vec![attributes::EVENT_TEXT_MESSAGE.info("good morning")])?;
    }
    let greeting = greetings.recv_timeout(Duration::from_secs(60))?;
    let text = attributes::EVENT_TEXT_MESSAGE.find(&greeting.infos).unwrap_or_default();
    println!("rank {} of {size}: {} says {text}", client.rank(), greeting.source);
    client.finalize()
}
