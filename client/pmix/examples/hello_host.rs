//! A launcher of one node: `hello_host RANKS PROGRAM [ARGUMENT...]`.

use std::error::Error;
use std::process::{Child, Command};

use pmix::{Answers, Host};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ranks, program, rest @ ..] = arguments.as_slice() else { return Err("hello_host RANKS PROGRAM...".into()) };

    let answers = Answers::new().on_log(|rank, text| println!("{rank} logs {text}"));
    let host = Host::builder().upcalls(answers).start()?;
    let job = host.job("hello").ranks_here(ranks.parse()?).register()?;

    let mut children: Vec<Child> = Vec::new();
    for rank in job.ranks_here() {
        let mut command = Command::new(program);
        job.prepare(rank, command.args(rest))?;
        children.push(command.spawn()?);
    }
    let mut failed = 0;
    for child in &mut children {
        failed += u32::from(!child.wait()?.success());
    }

    job.deregister()?;
    host.finalize()?;
    if failed == 0 { Ok(()) } else { Err(format!("{failed} ranks failed").into()) }
}
