//! The state of processes that hang.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;

/// Bytes that a process takes within this time count as read.
const READS_WITHIN: Duration = Duration::from_millis(500);

/// The state of a socket that listens, in `/proc/net/tcp`. Its queue holds connections instead of bytes.
const LISTENS: &str = "0A";

/// A process of a command that hangs; zombies are left out.
pub(crate) struct Standing {
    pub(crate) name: String,
    pub(crate) words: String,
    /// The number of its threads in the system call that waits for locks.
    pub(crate) at_locks: usize,
    /// The number of its TCP connections, over IPv4, with received bytes that it does not read.
    pub(crate) unread: usize,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}), {} threads wait for locks, {} connections have bytes that it does not read",
            self.name,
            self.words.trim_end(),
            self.at_locks,
            self.unread
        )
    }
}

impl Standing {
    /// The processes of the group and their descendants.
    pub(crate) fn of_group(group: Pid) -> Vec<Standing> {
        let mut found = vec![group.as_raw()];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let children = entries(&format!("/proc/{parent}/task")).into_iter().flat_map(|thread| {
                let children = fs::read_to_string(format!("/proc/{parent}/task/{thread}/children"));
                children
                    .unwrap_or_default()
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok())
                    .collect::<Vec<_>>()
            });
            found.extend(children);
            next += 1;
        }
        let before: Vec<_> = found.iter().map(|pid| unread(*pid)).collect();
        thread::sleep(READS_WITHIN);
        found.iter().zip(before).filter_map(|(pid, before)| Standing::of(*pid, &before)).collect()
    }

    /// `before` is what the process had [not read](unread) a while ago.
    fn of(pid: i32, before: &HashMap<u64, u64>) -> Option<Standing> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        // Zombies have no command line.
        let words = read("cmdline").filter(|words| !words.is_empty())?.replace('\0', " ");
        let lock = format!("{} ", nix::libc::SYS_futex);
        let at_lock =
            |thread: &i32| read(&format!("task/{thread}/syscall")).is_some_and(|call| call.starts_with(&lock));
        let at_locks = entries(&format!("/proc/{pid}/task")).iter().filter(|thread| at_lock(thread)).count();
        let unread = unread(pid).iter().filter(|(inode, bytes)| before.get(inode) == Some(bytes)).count();
        Some(Standing { name: read("comm")?.trim_end().to_owned(), words, at_locks, unread })
    }
}

/// The process's TCP connections over IPv4, by inode, with received bytes that it has not read yet, and the number of these bytes.
fn unread(pid: i32) -> HashMap<u64, u64> {
    let own: HashSet<u64> = entries(&format!("/proc/{pid}/fd"))
        .iter()
        .filter_map(|fd| {
            let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect();
    let connections = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let waiting = connections.lines().skip(1).filter_map(|line| {
        // Number, local and remote address, state, lengths of the queues for sending and receiving, timers, retransmissions, user,
        // timeout, inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, received) = fields.get(4)?.split_once(':')?;
        let bytes = u64::from_str_radix(received, 16).ok().filter(|bytes| *bytes > 0 && fields[3] != LISTENS)?;
        Some((fields.get(9)?.parse().ok()?, bytes))
    });
    waiting.filter(|(inode, _)| own.contains(inode)).collect()
}

/// The entries of a directory that are numbers.
fn entries(directory: &str) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn connections_with_bytes_that_are_not_read_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut writer = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (mut reader, _) = listener.accept().expect("a connection");
        // Waits to be accepted, which is no byte.
        let _waits = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let me = std::process::id() as i32;
        // Other tests of this process have connections, too.
        let inode = |of: &dyn AsFd| fstat(of.as_fd()).expect("a descriptor").st_ino;
        let both = [inode(&listener), inode(&reader)];
        let of_this_test =
            || -> HashMap<u64, u64> { unread(me).into_iter().filter(|(inode, _)| both.contains(inode)).collect() };
        assert!(of_this_test().is_empty());
        writer.write_all(&[0; 18]).expect("space for 18 bytes");
        let before = of_this_test();
        assert_eq!(before, HashMap::from([(both[1], 18)]));
        assert_eq!(Standing::of(me, &before).expect("this process").unread, 1);
        reader.read_exact(&mut [0; 17]).expect("17 bytes");
        assert_eq!(Standing::of(me, &before).expect("this process").unread, 0, "it still reads");
    }
}
