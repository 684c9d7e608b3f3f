//! Listeners for tools on other hosts, and munge, by which their users are known.
//!
//! They are made if two agree: the host asks with `PMIX_SERVER_REMOTE_CONNECTIONS`, and the administrator names
//! interfaces in a file of root's. An environment variable would not do: where a user starts the host, its environment is
//! the user's.

use std::cell::OnceCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use pmix_client::trusted::{entries, read_of_administrator};
use pmix_client::user_namespace::has_numbers_of_outside;
use pmix_munge::Decoded;

use crate::config::Config;

/// The administrator's file: an interface or an IPv4 address of this node on each line, and comments after `#`. Root must own
/// it, and no other user may have write permission.
pub(crate) const LIST: &str = "/etc/pmix-dstore/remote";
/// Addresses to listen at.
const LISTENERS_MAX: usize = 16;
/// How long the start of a server waits for munge.
const PROBE_WAIT: Duration = Duration::from_secs(5);

/// Whether munge works, asked at most once: a `munged` that is stopped holds each question for seconds.
pub(crate) struct Munge {
    ask: Box<dyn Fn() -> Result<(), String>>,
    answer: OnceCell<Result<(), String>>,
}

impl Munge {
    /// For a server of this user and group.
    pub fn new(uid: u32, gid: u32) -> Munge {
        Munge::with(move || munge_works(uid, gid))
    }

    fn with(ask: impl Fn() -> Result<(), String> + 'static) -> Munge {
        Munge { ask: Box::new(ask), answer: OnceCell::new() }
    }

    /// # Errors
    /// Why munge does not work, for the log.
    pub fn works(&self) -> Result<(), String> {
        self.answer.get_or_init(|| (self.ask)()).clone()
    }
}

/// Whether munge tells this process its own user and group. Then it tells those of others as well.
///
/// # Errors
/// Why not, for the log.
fn munge_works(own_uid: u32, own_gid: u32) -> Result<(), String> {
    if !has_numbers_of_outside() {
        // Munge tells the numbers that users have outside.
        return Err("users have other numbers in this user namespace than outside, where munge is".into());
    }
    let Decoded { uid, gid, .. } = pmix_munge::probe(PROBE_WAIT).map_err(|fault| fault.to_string())?;
    match (uid, gid) == (own_uid, own_gid) {
        true => Ok(()),
        false => Err(format!(
            "munge takes this process, of user {own_uid} and group {own_gid}, for one of user {uid} and group {gid}"
        )),
    }
}

/// The listeners for tools on other hosts; none if the host has not asked for them, or takes no tools at all, or the
/// administrator has not named an interface.
///
/// # Errors
/// Why there is none although both want one, for the log.
pub(crate) fn listen(
    config: &Config,
    munge: &Munge,
    list: &Path,
    log: impl Fn(String),
) -> Result<Vec<TcpListener>, String> {
    if !config.wants_remote || !config.rendezvous.wants_tools() {
        return Ok(Vec::new());
    }
    let failed = |error: io::Error| format!("{}: {error}", list.display());
    let text = match read_of_administrator(list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let addresses = addresses(&text, &of_this_node().map_err(failed)?, log);
    if addresses.is_empty() {
        return Err(format!("{} names no address of this node", list.display()));
    }
    munge.works()?;
    let bind = |address: &Ipv4Addr| {
        let listener = TcpListener::bind((*address, config.port));
        listener.map_err(|error| format!("listen at {address}, port {}: {error}", config.port))
    };
    addresses.iter().map(bind).collect()
}

/// The address of a listener.
pub(crate) fn address_of(listener: &TcpListener) -> Option<SocketAddr> {
    listener.local_addr().ok()
}

/// The interfaces that are up, with their IPv4 addresses.
fn of_this_node() -> io::Result<Vec<(String, Ipv4Addr)>> {
    let up = getifaddrs()?.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP));
    let named = up.filter_map(|interface| {
        let address = interface.address?.as_sockaddr_in()?.ip();
        Some((interface.interface_name, address))
    });
    Ok(named.collect())
}

/// The addresses that the administrator names, among those of this node.
fn addresses(text: &str, of_node: &[(String, Ipv4Addr)], log: impl Fn(String)) -> Vec<Ipv4Addr> {
    let mut found: Vec<Ipv4Addr> = Vec::new();
    for entry in entries(text) {
        let is_meant = |(name, address): &&(String, Ipv4Addr)| {
            name == entry || entry.parse::<IpAddr>().is_ok_and(|named| named == IpAddr::V4(*address))
        };
        let of_entry = of_node.iter().filter(is_meant).map(|(_, address)| *address);
        let of_entry: Vec<Ipv4Addr> = of_entry.filter(|address| !address.is_loopback()).collect();
        if of_entry.is_empty() {
            log(format!(
                "{LIST}: {entry} is ignored: it is no interface and no IPv4 address of this node, or is loopback"
            ));
        }
        for address in of_entry {
            if !found.contains(&address) && found.len() < LISTENERS_MAX {
                found.push(address);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::rc::Rc;

    use nix::unistd::geteuid;
    use parking_lot::Mutex;
    use pmix_dstore::model::{Info, Value, keys};

    use super::*;

    #[test]
    fn interfaces_and_addresses_of_this_node_are_taken() {
        let of_node =
            [("lo", [127, 0, 0, 1]), ("eth0", [10, 0, 0, 1]), ("eth0", [10, 0, 0, 2]), ("ib0", [10, 1, 0, 1])];
        let of_node = of_node.map(|(name, address)| (name.to_owned(), Ipv4Addr::from(address)));
        let told = Mutex::new(Vec::new());
        let read = |text: &str| -> Vec<String> {
            let found = addresses(text, &of_node, |line| told.lock().push(line));
            found.iter().map(Ipv4Addr::to_string).collect()
        };
        assert_eq!(read("# none\n\n"), [""; 0]);
        assert_eq!(read("eth0 # the cluster\n10.1.0.1\n10.0.0.2\n"), ["10.0.0.1", "10.0.0.2", "10.1.0.1"]);
        assert!(told.lock().is_empty());
        for other in ["lo", "127.0.0.1", "0.0.0.0", "eth", "10.0.0.3", "::1", "eth0,ib0"] {
            assert_eq!(read(other), [""; 0], "{other}");
            assert!(told.lock().pop().is_some_and(|line| line.contains(other)), "{other}");
        }
    }

    #[test]
    fn there_are_listeners_only_where_host_and_administrator_want_them() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("remote");
        let try_as = |wants: bool, takes_tools: bool| {
            let asks = [(keys::SERVER_REMOTE_CONNECTIONS, wants), (keys::SERVER_TOOL_SUPPORT, takes_tools)];
            let config = Config::read(&asks.map(|(key, is_set)| Info::new(key, Value::Bool(is_set)))).unwrap();
            listen(&config, &Munge::with(|| Ok(())), &list, |_| {}).map(|listeners| listeners.len())
        };
        let try_with = |wants| try_as(wants, true);
        assert_eq!(try_with(true), Ok(0), "there is no file");
        fs::write(&list, "lo\n").unwrap();
        fs::set_permissions(&list, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!((try_with(false), try_as(true, false)), (Ok(0), Ok(0)));
        if geteuid().is_root() {
            assert!(try_with(true).unwrap_err().ends_with("names no address of this node"));
        }
        // Another user could have written it.
        fs::set_permissions(&list, fs::Permissions::from_mode(0o666)).unwrap();
        let why = try_with(true).unwrap_err();
        assert!(why.contains("with mode 666; root must own it"), "{why}");
    }

    #[test]
    fn munge_is_asked_once_and_only_where_it_is_needed() {
        for answer in [Ok(()), Err("munged does not answer".to_owned())] {
            let asked = Rc::new(Cell::new(0));
            let (count, told) = (asked.clone(), answer.clone());
            let munge = Munge::with(move || {
                count.set(count.get() + 1);
                told.clone()
            });
            assert_eq!(asked.get(), 0);
            assert_eq!((munge.works(), munge.works()), (answer.clone(), answer.clone()));
            assert_eq!(asked.get(), 1);
        }
    }

    #[test]
    fn this_node_has_a_loopback_interface() {
        assert!(of_this_node().unwrap().iter().any(|(_, address)| address.is_loopback()));
    }
}
