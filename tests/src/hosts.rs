//! Two hosts with munge, which are namespaces of this machine.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns};
use nix::unistd::geteuid;

use crate::{Library, Run, left_out, repository};

/// One of the two hosts. They share all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The one with the server.
    Server,
    /// The other one.
    Other,
}

/// Two hosts and their munge (`tests/remote/hosts.sh`), until this is dropped or the test's process ends.
#[derive(Debug)]
pub struct Hosts {
    script: Child,
    input: Option<ChildStdin>,
    other: u32,
    munged: u32,
}

impl Hosts {
    /// Starts them. `None`, with a report, if this machine cannot.
    ///
    /// # Panics
    /// If the script fails.
    pub fn start() -> Option<Hosts> {
        if !geteuid().is_root() {
            left_out("root", "making hosts out of namespaces takes root");
            return None;
        }
        for program in ["munge", "ip"] {
            if let Err(error) = Command::new(program).arg("-V").output() {
                left_out("packages", format_args!("{program} of Debian's munge and iproute2: {error}"));
                return None;
            }
        }
        if !Command::new("unshare").args(["--mount", "--net", "true"]).status().is_ok_and(|status| status.success()) {
            left_out("kernel", "no namespaces of the network can be made");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--propagation", "private"]).arg(repository().join("tests/remote/hosts.sh"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().expect("hosts.sh is started");
        let mut line = String::new();
        if let Some(stdout) = script.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).expect("hosts.sh tells its processes");
        }
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [other, munged] = numbers[..] else { panic!("no hosts: the script says on stderr why") };
        let input = script.stdin.take();
        Some(Hosts { script, input, other, munged })
    }

    /// The process of munge on both hosts.
    pub fn munged(&self) -> u32 {
        self.munged
    }

    /// The words of a shell that run the command after them on a host.
    pub fn words(&self, host: Host) -> String {
        let net = if host == Host::Server { self.script.id() } else { self.other };
        format!("nsenter --mount=/proc/{}/ns/mnt --net=/proc/{net}/ns/net --", self.script.id())
    }

    /// A command on a host as a user and the group with the same number.
    pub fn run(&self, host: Host, user: u32, program: impl AsRef<Path>, library: Library) -> Run {
        let words = self.words(host);
        let (first, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let as_user = format!("setpriv --reuid {user} --regid {user} --clear-groups");
        Run::new(first, library).args(rest).args(&as_user).arg(program.as_ref())
    }

    /// A munge credential of a user with added bytes, as a peer shows it. `options` are those of `munge`.
    ///
    /// # Panics
    /// If there is none.
    pub fn credential(&self, user: u32, payload: &[u8], options: &str) -> Vec<u8> {
        let run = self.run(Host::Other, user, "munge", Library::Stock).args(options).input(payload.to_vec());
        let mut text = run.succeed().stdout.trim_end().as_bytes().to_vec();
        text.push(0);
        text
    }

    /// Runs `action` in a thread on the network of a host.
    ///
    /// # Panics
    /// As `action`.
    pub fn on<T: Send>(&self, host: Host, action: impl FnOnce() -> T + Send) -> T {
        let process = if host == Host::Server { self.script.id() } else { self.other };
        let network = File::open(format!("/proc/{process}/ns/net")).expect("the host's network");
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&network, CloneFlags::CLONE_NEWNET).expect("root may enter it");
                action()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends what it has started.
        let _ = self.script.wait();
    }
}
