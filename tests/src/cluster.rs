//! Debian's unmodified Slurm, on nodes that are namespaces of this machine.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::build::{identity, link};
use crate::traces::{MARK, patiently};
use crate::{Ended, Library, Pair, Run, Traces, left_out, program, repository};

/// The superuser, which runs Slurm's daemons.
pub const ROOT: u32 = 0;
/// The two other users of a cluster. Each has a group with the same number.
pub const USERS: [u32; 2] = [60_001, 60_002];

/// The line that slurmd logs when the controller has registered it.
const REGISTERED: &str = "_handle_node_reg_resp:";

/// The command that a cluster runs during its life: it prints the directory of its files and waits. At the end of its input
/// it fails, and `cluster.sh` shows the daemons' logs.
/// What each srun is told.
const STEP: &str = "--quiet --mpi=pmix";
const WAIT: &str = r#"echo "${SLURM_CONF%/*}"; read -r _"#;

/// A private Slurm of the test (`tests/slurm/cluster.sh`), with a host `login` and the nodes `n0`, `n1` ...
///
/// It ends with [`Cluster::end`], and also when it is dropped or the test's process ends; in a failing test its daemons' logs are shown.
#[derive(Debug)]
pub struct Cluster {
    script: Child,
    input: Option<ChildStdin>,
    directory: PathBuf,
    /// A process in the namespaces of `login`.
    inside: u32,
    /// The daemons' own files.
    files_of_daemons: Vec<PathBuf>,
    traces: Traces,
}

impl Cluster {
    /// Starts a cluster. `None`, with a report, if this machine cannot run one.
    ///
    /// # Panics
    /// If the daemons do not start.
    pub fn start(nodes: usize) -> Option<Cluster> {
        Cluster::start_with(nodes, "")
    }

    /// As [`Cluster::start`], with a line for Slurm's `mpi.conf`.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_with(nodes: usize, mpi_conf: &str) -> Option<Cluster> {
        if !geteuid().is_root() {
            left_out("root", "starting Slurm's daemons takes root");
            return None;
        }
        for daemon in ["slurmctld", "slurmd", "munged"] {
            if let Err(error) = Command::new(daemon).arg("--version").output() {
                left_out("packages", format_args!("{daemon} of Debian's slurm-wlm and munge: {error}"));
                return None;
            }
        }
        let traces = Traces::begin();
        let mut command = Command::new(repository().join("tests/slurm/cluster.sh"));
        command.args(["--nodes", &nodes.to_string(), "--mpi-conf", mpi_conf, "sh", "-c", WAIT]);
        command.env(MARK, traces.mark());
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cluster.sh is started");
        let mut line = String::new();
        if let Some(stdout) = script.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).expect("cluster.sh says where its files are");
        }
        assert!(line.ends_with('\n'), "no cluster: its script says on stderr why");
        let inside = child_of(script.id()).expect("cluster.sh waits for its process 1");
        let directory = PathBuf::from(line.trim_end());
        let files_of_daemons = files_of_nodes(&directory);
        let input = script.stdin.take();
        let cluster = Cluster { script, input, directory, inside, files_of_daemons, traces };
        let open_to_all = fs::Permissions::from_mode(0o1777);
        fs::create_dir(cluster.scratch())
            .and_then(|()| fs::set_permissions(cluster.scratch(), open_to_all))
            .expect("a directory");
        Some(cluster)
    }

    /// The directory with the daemons' files: `slurmd.n0.log`, `slurmd.n0.pid`, `spool.n0`, `tmp.n0`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A directory for files of the test itself and of its programs, of all users; their `TMPDIR`.
    pub fn scratch(&self) -> PathBuf {
        self.directory.join("scratch")
    }

    /// Makes this library the one that Slurm's plugin opens on all nodes, in all steps that start from now on.
    ///
    /// # Panics
    /// If that fails.
    pub fn serve(&self, library: Library) {
        let opened = self.directory.join("opened/libpmix.so");
        link(&self.served(library), &opened);
        for node in (0..).map(|node| self.opened_on(node)).take_while(|on_node| on_node.is_symlink()) {
            link(&opened, &node);
        }
    }

    /// As [`Cluster::serve`], on one node, until the next `serve`.
    ///
    /// # Panics
    /// If that fails.
    pub fn serve_on(&self, node: usize, library: Library) {
        link(&self.served(library), &self.opened_on(node));
    }

    fn opened_on(&self, node: usize) -> PathBuf {
        self.directory.join(format!("opened.n{node}/libpmix.so"))
    }

    /// The file that Slurm's plugin opens.
    fn served(&self, library: Library) -> PathBuf {
        match library {
            Library::Ours(_) | Library::Other(_) | Library::Former(_) => library.directory().join("libpmix.so"),
            Library::Stock => self.directory_of(library).join("libpmix.so"),
        }
    }

    /// A library's directory, as seen inside the cluster.
    pub fn directory_of(&self, library: Library) -> PathBuf {
        match library {
            Library::Ours(_) | Library::Other(_) | Library::Former(_) => library.directory(),
            // A copy, because the bind mount hides the original.
            Library::Stock => self.directory.join("stock"),
        }
    }

    fn identity_of(&self, library: Library) -> String {
        identity(&self.directory_of(library).join("libpmix.so.2"))
    }

    /// A command on `login` as a user; ranks that it starts have the given library.
    pub fn command(&self, user: u32, name: impl AsRef<Path>, ranks: Library) -> Run {
        self.enter(self.inside, user, name, ranks)
    }

    /// As [`Cluster::command`], in the namespaces of a process of the cluster, for example a rank.
    pub fn enter(&self, process: u32, user: u32, name: impl AsRef<Path>, ranks: Library) -> Run {
        Run::new("nsenter", ranks)
            .traced(&self.traces)
            .env("SLURM_CONF", self.directory.join("slurm.conf"))
            .env("LD_LIBRARY_PATH", self.directory_of(ranks))
            .env("TMPDIR", self.scratch())
            .args(&format!("--target {process} --mount --net --uts --pid --"))
            .args(&format!("setpriv --reuid {user} --regid {user} --clear-groups"))
            .arg(name.as_ref())
    }

    /// A job of one step, by a user: `srun` with a layout (`-N 2 -n 5`). The caller adds the program. Steps with
    /// different servers do not run at the same time.
    pub fn srun(&self, pair: Pair, user: u32, layout: &str) -> Run {
        self.serve(pair.server);
        self.command(user, "srun", pair.ranks).args(STEP).args(layout)
    }

    /// As [`Cluster::srun`], where `starter` starts srun, for example a program that measures time.
    pub fn srun_by(&self, starter: impl AsRef<Path>, pair: Pair, user: u32, layout: &str) -> Run {
        self.serve(pair.server);
        self.command(user, starter, pair.ranks).arg("srun").args(STEP).args(layout)
    }

    /// As [`Cluster::srun`], for the program `mpi` with `args`.
    pub fn job(&self, pair: Pair, user: u32, layout: &str, args: &str) -> Run {
        self.srun(pair, user, layout).arg(program("mpi")).args(args)
    }

    /// Asserts that a job of `mpi` succeeded and printed nothing on stderr, and that its `count` ranks and their
    /// slurmstepd had these libraries mapped.
    ///
    /// # Panics
    /// If a rank reports another library.
    pub fn assert_well(&self, pair: Pair, user: u32, ended: &Ended, count: usize) {
        assert_eq!(ended.code(), 0, "{pair:?}: {ended}");
        assert_eq!(ended.stderr, "", "{pair:?}: {ended}");
        self.assert_mapped(pair, user, ended, count);
        assert_eq!(ended.count(" done"), count, "{pair:?}: {ended}");
        assert_eq!(ended.count("FAIL"), 0, "{pair:?}: {ended}");
    }

    /// Asserts that `count` ranks of `mpi` reported these libraries mapped in themselves and in their slurmstepd. Only root
    /// can read slurmstepd's mappings; other users see its environment.
    ///
    /// # Panics
    /// If a rank reports another library.
    pub fn assert_mapped(&self, pair: Pair, user: u32, ended: &Ended, count: usize) {
        let daemon = if user == ROOT { self.identity_of(pair.server) } else { "none".into() };
        let mapped = format!(": library {} daemon {daemon} offers", self.identity_of(pair.ranks));
        assert_eq!(ended.count(&mapped), count, "{pair:?}: {ended}");
        let offered = if pair.server == Library::Stock { 0 } else { count };
        assert_eq!(ended.count(" offers pmix-dstore"), offered, "{pair:?}: {ended}");
    }

    /// Files of steps in the spool and temporary directories of all nodes. They are removed when the steps end.
    pub fn files_of_steps(&self) -> Vec<PathBuf> {
        let mut files = files_of_nodes(&self.directory);
        files.retain(|file| !self.files_of_daemons.contains(file));
        files
    }

    /// Asserts that nothing is left of the steps that have ended: no file and no slurmstepd.
    ///
    /// # Panics
    /// If something is left.
    pub fn assert_no_steps(&self, context: impl std::fmt::Display) {
        let left = patiently(|| Some(self.files_of_steps()).filter(|left| !left.is_empty()));
        assert!(left.is_none(), "files of steps are left: {left:?}\n{context}");
        let left = patiently(|| Some(self.slurmstepds()).filter(|left| !left.is_empty()));
        assert!(left.is_none(), "slurmstepds are left: {left:?}\n{context}");
    }

    /// The processes that host servers.
    pub fn slurmstepds(&self) -> Vec<u32> {
        self.named("slurmstepd")
    }

    /// The daemons of all nodes.
    pub fn slurmds(&self) -> Vec<u32> {
        self.named("slurmd")
    }

    /// The number of lines so far with `text` in a node's log, which its slurmd and its steps write.
    ///
    /// # Panics
    /// If there is no log.
    pub fn said(&self, node: usize, text: &str) -> usize {
        let log = self.directory.join(format!("slurmd.n{node}.log"));
        let log = fs::read(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).count()
    }

    /// Kills a node's slurmd. It is not restarted until [`Down::ends`].
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill_slurmd(&self, node: usize) -> Down<'_> {
        let registered = self.said(node, REGISTERED);
        let file = self.directory.join(format!("slurmd.n{node}.down"));
        fs::write(&file, "").expect("a file");
        let killed = self.slurmds().into_iter().find(|slurmd| {
            // It was started as `slurmd -D -N n0`.
            fs::read(format!("/proc/{slurmd}/cmdline"))
                .is_ok_and(|line| line.ends_with(format!("\0n{node}\0").as_bytes()))
        });
        kill(Pid::from_raw(killed.expect("the node's slurmd runs") as i32), Signal::SIGKILL).expect("root may");
        Down { cluster: self, node, file, registered }
    }

    /// The processes with this name on the node of `process`.
    pub fn beside(&self, process: u32, name: &str) -> Vec<u32> {
        let node = |pid: u32| fs::metadata(format!("/proc/{pid}/ns/net")).map(|metadata| metadata.ino()).ok();
        let here = node(process);
        self.named(name).into_iter().filter(|pid| here.is_some() && node(*pid) == here).collect()
    }

    /// The processes of the cluster that have this name.
    fn named(&self, wanted: &str) -> Vec<u32> {
        let ours = fs::metadata(format!("/proc/{}/ns/pid", self.inside)).map(|metadata| metadata.ino()).ok();
        let is_one = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == wanted)
                && fs::metadata(format!("/proc/{pid}/ns/pid")).map(|metadata| metadata.ino()).ok() == ours
        };
        processes().filter(is_one).collect()
    }

    /// Ends the cluster and asserts that nothing of it is left.
    ///
    /// # Panics
    /// If something is left, or `cluster.sh` fails.
    pub fn end(mut self) {
        self.assert_no_steps("the cluster's end");
        if let Some(mut input) = self.input.take() {
            input.write_all(b"end\n").expect("the cluster waits");
        }
        let status = self.script.wait().expect("cluster.sh ends");
        assert!(status.success(), "cluster.sh: {status}");
        assert!(!self.directory.exists(), "{} is left", self.directory.display());
        self.traces.assert_none_left("the cluster's end");
    }
}

/// A node whose slurmd has been killed.
#[derive(Debug)]
#[must_use = "a node whose slurmd stays away runs no more steps"]
pub struct Down<'a> {
    cluster: &'a Cluster,
    node: usize,
    file: PathBuf,
    /// The number of the node's registrations before.
    registered: usize,
}

impl Down<'_> {
    /// Allows the restart of slurmd, and waits until the controller has registered it.
    ///
    /// # Panics
    /// If it does not register.
    pub fn ends(self) {
        fs::remove_file(&self.file).expect("the file that keeps slurmd away");
        let missing = patiently(|| Some(()).filter(|()| self.cluster.said(self.node, REGISTERED) == self.registered));
        assert!(missing.is_none(), "no slurmd on node {}", self.node);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.input.take());
        // After `end` the script has ended already.
        let _ = self.script.wait();
        if thread::panicking() {
            eprintln!("the cluster was in {}", self.directory.display());
        }
    }
}

/// The files in the spool and temporary directories of all nodes.
fn files_of_nodes(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_named = |path: &Path, names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.iter().any(|it| name.starts_with(it)))
    };
    let nodes = entries(directory).filter(|path| is_named(path, &["spool.n", "tmp.n"]));
    // slurmd rewrites its credential state at any time.
    nodes.flat_map(|node| entries(&node)).filter(|path| !is_named(path, &["cred_state"])).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn child_of(parent: u32) -> Option<u32> {
    let line = format!("PPid:\t{parent}");
    processes().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.lines().any(|found| found == line))
    })
}
