//! A launcher: `host RANKS PROGRAM [ARGUMENT...]`.

use std::error::Error;
use std::process::{Child, Command};
use std::sync::Arc;

use nix::unistd::{getegid, geteuid};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Status, attributes};
use pmix_server::{Completion, Host, Server};

/// A host that prints what its clients log. What it does not answer is not supported, which on one node is enough.
struct Launcher;

impl Host for Launcher {
    fn log(&self, proc: &Proc, data: &[Info], _directives: &[Info], _done: Completion<Status>) -> Status {
        for info in data {
            println!("{proc} logs {:?}", info.value);
        }
        Status::OPERATION_SUCCEEDED
    }
}

/// Without a callback, calls are over when they return, and say so.
fn done(status: Status) -> Result<(), Status> {
    if status == Status::OPERATION_SUCCEEDED { Ok(()) } else { status.ok() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ranks, program, rest @ ..] = arguments.as_slice() else { return Err("usage: host RANKS PROGRAM...".into()) };
    let ranks: u32 = ranks.parse()?;

    let hostname = attributes::HOSTNAME.info("localhost");
    let server = Server::init(Arc::new(Launcher), &[hostname])?;

    // What is known of the job: where its ranks are, and how many. The rest follows from that.
    let job = Nspace::new(format!("job.{}", std::process::id()))?;
    let list: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let infos = vec![
        attributes::JOB_SIZE.info(ranks),
        attributes::NODE_MAP.info("localhost"),
        attributes::PROC_MAP.info(list.join(",")),
    ];
    done(server.register_nspace(job.clone(), ranks as i32, infos, None))?;

    let mut children: Vec<Child> = Vec::new();
    for rank in 0..ranks {
        let proc = Proc::new(job.clone(), Rank(rank));
        done(server.register_client(proc.clone(), geteuid().as_raw(), getegid().as_raw(), 0, None))?;
        // By its environment a process finds the server, and shows who it is.
        children.push(Command::new(program).args(rest).envs(server.setup_fork(&proc)?).spawn()?);
    }
    let mut failed = 0;
    for child in &mut children {
        failed += u32::from(!child.wait()?.success());
    }
    done(server.deregister_nspace(&job, None))?;
    done(server.finalize())?;
    if failed == 0 { Ok(()) } else { Err(format!("{failed} ranks failed").into()) }
}
