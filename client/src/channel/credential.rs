//! Security modules and credentials for servers over TCP.

use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};
use pmix_dstore::model::{Result, Status};
use pmix_munge::Fault;
use pmix_wire::Hello;

use super::OUR_SECURITY;
use crate::Environment;
use crate::env::ServerUri;

/// A security module's name, and the credential for it.
pub type Credential = (&'static str, Vec<u8>);

/// How long a process waits for a credential of munge.
const MUNGE_TIME: Duration = Duration::from_secs(5);

/// The name of munge's security module.
const MUNGE: &str = "munge";

fn native() -> Credential {
    ("native", Hello::native_credential(geteuid().as_raw(), getegid().as_raw()))
}

/// A credential of munge for a server.
///
/// # Errors
/// Why there is none.
fn of_munge(server: &ServerUri, deadline: Instant) -> std::result::Result<Credential, Fault> {
    let limit = deadline.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), MUNGE_TIME);
    let text = pmix_munge::encode(&Hello::munge_payload(&server.to_string()), limit)?;
    Ok((MUNGE, Hello::munge_credential(text)))
}

/// What a launched client shows: the credential of the first of the server's modules that this library has, and munge's
/// only if there is no other. Opening libmunge would be a part of each rank's start.
///
/// # Errors
/// `INIT` if there is none. `complain` gets a line if that is for lack of munge.
pub fn of_client(
    env: &Environment,
    server: &ServerUri,
    deadline: Instant,
    complain: impl FnOnce(String),
) -> Result<Credential> {
    let Some(modules) = &env.security else { return Ok(native()) };
    let known = modules.iter().find_map(|module| match module.trim() {
        "native" => Some(native()),
        "none" => Some(("none", Vec::new())),
        _ => None,
    });
    match known {
        Some(known) => Ok(known),
        None if modules.iter().any(|module| module.trim() == MUNGE) => of_munge(server, deadline).map_err(|fault| {
            complain(format!("the server at {} takes munge alone: {fault}", server.address));
            Status::ERR_INIT
        }),
        None => Err(Status::ERR_INIT),
    }
}

/// What a tool shows to a server, one after the other until one is taken; `proof` is that server's secret, if this process
/// may read it. `complain` gets a line if munge would be needed and there is none.
///
/// On loopback the kernel tells the server whose the tool is, and a server that needs munge says so in the environment.
/// A server of this library takes nothing but munge from another host, and never sees its secret go over the network.
/// Released servers may take a claim.
pub fn of_tool(
    env: &Environment,
    server: &ServerUri,
    proof: Option<String>,
    deadline: Instant,
    complain: impl FnOnce(String),
) -> Result<Vec<Credential>> {
    if !server.address.ip().is_loopback() {
        let munge = of_munge(server, deadline).map_err(|fault| {
            let address = server.address;
            complain(format!("no munge credential for the server at {address}, which may take nothing else: {fault}"));
        });
        return Ok(munge.into_iter().chain([native()]).collect());
    }
    match proof {
        Some(proof) => Ok(vec![(OUR_SECURITY, proof.into_bytes())]),
        None => of_client(env, server, deadline, complain).map(|credential| vec![credential]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(modules: Option<&str>, uri: &str, proof: Option<&str>) -> (Result<Vec<&'static str>>, Option<String>) {
        let env = Environment::from_lookup(|name| match name {
            "PMIX_SERVER_URI41" => Some(uri.into()),
            "PMIX_SECURITY_MODE" => modules.map(Into::into),
            _ => None,
        });
        let env = env.unwrap();
        let (server, mut told) = (env.server.clone().unwrap(), None);
        // munge is not asked: its time is over.
        let proof = proof.map(str::to_owned);
        let shown = of_tool(&env, &server, proof, Instant::now(), |line| told = Some(line));
        (shown.map(|shown| shown.into_iter().map(|(module, _)| module).filter(|name| *name != MUNGE).collect()), told)
    }

    const HERE: &str = "host.0;tcp4://127.0.0.1:4711";
    const ELSEWHERE: &str = "host.0;tcp4://10.255.255.1:4711";

    #[test]
    fn on_loopback_a_tool_shows_the_proof_or_what_the_server_takes_without_munge() {
        assert_eq!(shown(None, HERE, None), (Ok(vec!["native"]), None));
        assert_eq!(shown(Some("munge,native"), HERE, None), (Ok(vec!["native"]), None));
        assert_eq!(shown(Some("munge, none"), HERE, None), (Ok(vec!["none"]), None));
        assert_eq!(shown(Some("munge"), HERE, Some("secret")), (Ok(vec![OUR_SECURITY]), None));
        assert_eq!(shown(Some("other"), HERE, None), (Err(Status::ERR_INIT), None));
    }

    #[test]
    fn the_secret_of_a_server_is_not_shown_over_the_network() {
        let (modules, _) = shown(Some("native"), ELSEWHERE, Some("secret"));
        assert_eq!(modules, Ok(vec!["native"]));
    }
}
