//! A rank that tells the others its process id, and hears theirs.

use pmix_client::{Client, Environment};
use pmix_dstore::model::{Proc, Rank, Result, Scope, Value, attributes};

fn main() -> Result<()> {
    let client = Client::connect(&Environment::from_process()?, &[])?;
    let me = client.me().clone();
    let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
    let size = client.get_attribute(&job, attributes::JOB_SIZE)?;

    // What the others are to know goes to the server, and after the fence to everybody.
    client.put(Scope::Global, "hello.pid".into(), Value::Uint32(std::process::id()))?;
    client.commit()?;
    client.fence(&[], vec![attributes::COLLECT_DATA.info(true)]).wait()?;

    for rank in 0..size {
        let peer = Proc::new(me.nspace.clone(), Rank(rank));
        let pid = client.get_value(&peer, "hello.pid", &[])?;
        let host = client.get_attribute(&peer, attributes::HOSTNAME)?;
        println!("rank {} of {size}: rank {rank} is process {} of {host}", me.rank, pid.as_u32().unwrap_or_default());
    }
    client.finalize(&[])
}
