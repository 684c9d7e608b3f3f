//! A C host whose ranks make the checks of `tests/programs/client.c`.

use crate::build::program_with;
use crate::{Ended, Library, Run};

/// One run of the host.
#[derive(Debug)]
pub struct Checked {
    servers: u32,
    ranks_per_server: u32,
    host: Library,
    /// The library of the second server, where it is another one.
    second: Option<Library>,
    /// The libraries of the ranks, in turn.
    ranks: Vec<Library>,
    /// The headers with which host and ranks are compiled.
    headers: Library,
    host_args: &'static str,
    client_args: &'static str,
}

impl Checked {
    /// So many servers with so many ranks each.
    pub fn new(servers: u32, ranks_per_server: u32, host: Library, ranks: &[Library]) -> Checked {
        let headers = Library::Stock;
        Checked {
            servers,
            ranks_per_server,
            host,
            second: None,
            ranks: ranks.to_vec(),
            headers,
            host_args: "",
            client_args: "--reput",
        }
    }

    /// Compiles host and ranks with the headers of this library.
    pub fn headers(self, headers: Library) -> Checked {
        Checked { headers, ..self }
    }

    /// Options of the host.
    pub fn host_args(self, host_args: &'static str) -> Checked {
        Checked { host_args, ..self }
    }

    /// Options of the ranks.
    pub fn client_args(self, client_args: &'static str) -> Checked {
        Checked { client_args, ..self }
    }

    fn size(&self) -> u32 {
        self.servers * self.ranks_per_server
    }

    /// The library of the second server.
    pub fn second(self, second: Library) -> Checked {
        Checked { second: Some(second), ..self }
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// As [`Run::run`].
    pub fn run(&self) -> Ended {
        let libraries: Vec<_> = self.ranks.iter().map(|library| library.directory().display().to_string()).collect();
        let run = Run::new(program_with("host", self.headers), self.host)
            .args(&format!("-s {} -n {} --timeout 100 {}", self.servers, self.ranks_per_server, self.host_args));
        let run = match self.second {
            Some(library) => run.arg("--second-lib").arg(library.directory()),
            None => run,
        };
        run.arg("--rank-lib")
            .arg(libraries.join(","))
            .arg(program_with("client", self.headers))
            .args(self.client_args)
            .run()
    }

    /// Runs; asserts that every rank passed all checks and that the host got the expected upcalls.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn pass(&self) -> Ended {
        let ended = self.run();
        assert_eq!(ended.code(), 0, "{ended}");
        assert_eq!(ended.count("FAIL"), 0, "{ended}");
        assert_eq!(ended.count(" checks, 0 failed"), self.size() as usize, "{ended}");
        let told = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).count();
        for event in ["connected", "finalized"] {
            for rank in 0..self.size() {
                assert_eq!(told(&format!(": {event} {rank} object right")), 1, "{event} {rank}: {ended}");
            }
        }
        // 7.0 has no variables for this.
        let set_up = match self.host {
            Library::Ours(_) | Library::Stock => "1 variables, -157 -157 -157",
            Library::Other(_) | Library::Former(_) => "",
        };
        assert_eq!(told(&format!(": set up: {set_up}")), self.servers as usize, "{ended}");
        for line in ended.stderr.lines().filter(|line| line.contains(": library ")) {
            let is_second = line.starts_with("host 1: ");
            let library = self.second.filter(|_| is_second).unwrap_or(self.host);
            assert!(library.is_named_in(line), "{ended}");
        }
        assert!(!ended.left, "processes were left behind: {ended}");
        let hosts_are_ours = [Some(self.host), self.second].iter().flatten().all(|library| library.is_ours());
        if hosts_are_ours && self.ranks.iter().all(|library| library.is_ours()) {
            // Ours prints nothing on success. (The host or the server prints what ranks log.) One Get of each rank is to time out.
            let is_expected = |line: &str| {
                line.starts_with("host ")
                    || line.starts_with("logged by ")
                    || line.contains(" timed out; missing: key t.never of ")
            };
            let unasked = ended.stderr.lines().find(|line| !is_expected(line));
            assert_eq!(unasked, None, "{ended}");
        }
        ended
    }
}
