//! `--host`: `pmixrun` starts ranks on this node alone.

use std::net::IpAddr;

/// The slots of all entries `HOST[:SLOTS]`; `None` without entries.
///
/// # Errors
/// A message for the user: an entry that is not this node.
pub(super) fn slots(entries: &[String]) -> Result<Option<u32>, String> {
    let mut sum = None;
    for entry in entries {
        // An IPv6 address has colons, too.
        let (host, slots) = match entry.rsplit_once(':').filter(|_| entry.parse::<IpAddr>().is_err()) {
            None => (entry.as_str(), Some(1)),
            Some((host, count)) => (host, count.parse().ok().filter(|count| *count > 0)),
        };
        let slots: u32 = slots.ok_or_else(|| format!("--host {entry}: it is HOST:SLOTS, with a number of slots"))?;
        if !is_here(host) {
            return Err(format!(
                "--host {host}: {host} is not this node, and pmixrun starts ranks on this node alone; mpirun, prterun and srun start them on others"
            ));
        }
        sum = Some(sum.unwrap_or(0_u32).saturating_add(slots));
    }
    Ok(sum)
}

fn is_here(host: &str) -> bool {
    let own = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let short = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    host == "localhost"
        || is_loopback
        || host.eq_ignore_ascii_case(&own)
        || host.parse::<IpAddr>().is_err() && short(host) == short(&own)
}

#[cfg(test)]
mod tests {
    use super::slots;

    #[test]
    fn slots_of_this_node_add_up() {
        let sum = |list: &[&str]| slots(&list.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>());
        let own = nix::unistd::gethostname().unwrap().into_string().unwrap();
        assert_eq!(sum(&[]), Ok(None));
        assert_eq!(sum(&["localhost", "127.0.0.1:3", "::1", &own]), Ok(Some(6)));
        for wrong in ["localhost:0", "localhost:x", "localhost:", "192.0.2.1:2", ""] {
            assert!(sum(&[wrong]).is_err(), "{wrong}");
        }
    }
}
