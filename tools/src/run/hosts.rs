//! `--host` and `--hostfile`: `pmixrun` starts ranks on this node alone.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// The slots of all entries `HOST[:SLOTS]`; `None` without entries.
///
/// # Errors
/// A message for the user: an entry that is not this node.
pub(super) fn slots(entries: &[String]) -> Result<Option<u32>, String> {
    let mut sum = None;
    for entry in entries {
        let (host, slots) = host_and_slots(entry);
        let slots = slots.map_or(Some(1), count);
        let slots = slots.ok_or_else(|| format!("--host {entry}: it is HOST:SLOTS, with a number of slots"))?;
        if !is_here(host) {
            return Err(elsewhere(&format!("--host {host}"), host));
        }
        sum = Some(sum.unwrap_or(0_u32).saturating_add(slots));
    }
    Ok(sum)
}

fn elsewhere(place: &str, host: &str) -> String {
    format!(
        "{place}: {host} is not this node, and pmixrun starts ranks on this node alone; mpirun, prterun and srun start them on others"
    )
}

/// The slots of a hostfile: lines `HOST`, `HOST slots=N` as for `mpirun` and `HOST:N` as for `mpiexec` of MPICH. A host without a number has one
/// slot for each of its lines; a file with a single such line has as many as this process has processors.
///
/// # Errors
/// A message for the user: the file cannot be read, or a line is not of these forms or is not this node.
pub(super) fn slots_of_file(path: &Path) -> Result<u32, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("--hostfile {name}: {error}"))?;
    let (mut sum, mut lines, mut has_numbers) = (0_u32, 0, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let place = format!("--hostfile {name}, line {}", number + 1);
        let Some(Entry { host, slots }) = Entry::read(line).map_err(|why| format!("{place}: {why}"))? else { continue };
        if !is_here(&host) {
            return Err(elsewhere(&place, &host));
        }
        lines += 1;
        has_numbers |= slots.is_some();
        sum = sum.saturating_add(slots.unwrap_or(1));
    }
    match lines {
        0 => Err(format!("--hostfile {name}: there is no host in it; a line is HOST slots=N")),
        1 if !has_numbers => Ok(std::thread::available_parallelism().map_or(1, |count| count.get() as u32)),
        _ => Ok(sum),
    }
}

/// A line of a hostfile.
struct Entry {
    host: String,
    slots: Option<u32>,
}

impl Entry {
    /// `None` for an empty line.
    fn read(line: &str) -> Result<Option<Entry>, String> {
        let mut words = line.split_whitespace();
        let Some(word) = words.next() else { return Ok(None) };
        let (host, slots) = host_and_slots(word);
        let wrong = || format!("{word}: it is HOST:SLOTS, with a number of slots");
        let mut slots = slots.map(|number| count(number).ok_or_else(wrong)).transpose()?;
        for word in words {
            match word.split_once('=') {
                Some(("slots", number)) => {
                    slots = Some(count(number).ok_or_else(|| format!("{word}: a number of slots is expected"))?);
                }
                // Limits of oversubscription, which --oversubscribe decides here.
                Some(("max_slots" | "max-slots", _)) => {}
                _ => return Err(format!("{word} is not known; a line is HOST slots=N")),
            }
        }
        Ok(Some(Entry { host: host.to_owned(), slots }))
    }
}

/// The parts of `HOST[:SLOTS]`. An IPv6 address has colons, too.
pub(super) fn host_and_slots(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':').filter(|_| entry.parse::<IpAddr>().is_err()) {
        None => (entry, None),
        Some((host, slots)) => (host, Some(slots)),
    }
}

/// A number of slots.
fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count > 0)
}

fn is_here(host: &str) -> bool {
    is_named(&nix::unistd::gethostname().unwrap_or_default().to_string_lossy(), host)
}

/// Whether `host` names the node whose name is `own`: with or without a domain, or as localhost.
pub(super) fn is_named(own: &str, host: &str) -> bool {
    let short = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    host == "localhost"
        || is_loopback
        || host.eq_ignore_ascii_case(own)
        || host.parse::<IpAddr>().is_err() && short(host) == short(own)
}

#[cfg(test)]
mod tests {
    use super::{slots, slots_of_file};

    #[test]
    fn hostfiles_of_this_node_have_slots() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            slots_of_file(&path)
        };
        let own = nix::unistd::gethostname().unwrap().into_string().unwrap();
        assert_eq!(of(&format!("# nodes\n\nlocalhost slots=3 max_slots=4 # all\n{own}:2\n")), Ok(5));
        assert_eq!(of("localhost\nlocalhost\nlocalhost\n"), Ok(3));
        assert_eq!(of("127.0.0.1\n"), Ok(std::thread::available_parallelism().unwrap().get() as u32));
        for (text, word) in [
            ("", "no host"),
            ("localhost\nn7 slots=2\n", "line 2: n7 is not this node"),
            ("localhost slots=many\n", "slots=many"),
            ("localhost:0\n", "localhost:0"),
            ("localhost cpus=2\n", "cpus=2 is not known"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(slots_of_file(&directory.path().join("none")).unwrap_err().contains("No such file"));
    }

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
