//! Resource usage of processes, the node, its disks and its networks, from `/proc`.
//!
//! A read of `/proc` does not wait for a device, so the server's thread reads it itself. One value is costly, the proportional
//! share of memory: for it the kernel walks all mappings of a process. It is read only if it is requested by name.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};
use pmix_dstore::model::{Info, Key, Proc, Value, keys};

/// Ticks per second in the kernel's times, on all architectures that PMIx runs on.
const TICKS: u64 = 100;
/// Upper limit of a read; more than any of these files contains.
const FILE_MAX: u64 = 1 << 20;

/// The subject of a usage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Processes,
    /// With its disks and networks.
    Node,
    Disks,
    Networks,
}

/// The requested values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Usage {
    pub subject: Subject,
    /// Only these; without any, all.
    pub fields: Vec<Key>,
    /// Only devices of these names; without any, all.
    pub disks: Vec<Vec<u8>>,
    pub networks: Vec<Vec<u8>>,
}

/// A process to read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub proc: Proc,
    pub pid: i32,
    /// The expected uid of the process: another process may have the pid by now.
    pub uid: u32,
}

/// The key of a column in a line of `/proc/diskstats`.
fn disk_column(place: usize) -> Option<&'static str> {
    Some(match place {
        3 => keys::DISK_READ_COMPLETED,
        4 => keys::DISK_READ_MERGED,
        5 => keys::DISK_READ_SECTORS,
        6 => keys::DISK_READ_MILLISEC,
        7 => keys::DISK_WRITE_COMPLETED,
        8 => keys::DISK_WRITE_MERGED,
        9 => keys::DISK_WRITE_SECTORS,
        10 => keys::DISK_WRITE_MILLISEC,
        11 => keys::DISK_IO_IN_PROGRESS,
        12 => keys::DISK_IO_MILLISEC,
        13 => keys::DISK_IO_WEIGHTED,
        _ => return None,
    })
}

/// The key of a column after the name in a line of `/proc/net/dev`.
fn network_column(place: usize) -> Option<&'static str> {
    Some(match place {
        0 => keys::NET_RECVD_BYTES,
        1 => keys::NET_RECVD_PCKTS,
        2 => keys::NET_RECVD_ERRS,
        8 => keys::NET_SENT_BYTES,
        9 => keys::NET_SENT_PCKTS,
        10 => keys::NET_SENT_ERRS,
        _ => return None,
    })
}

/// Of `/proc/loadavg`.
const LOAD: [&str; 3] = [keys::NODE_LOAD_AVG, keys::NODE_LOAD_AVG5, keys::NODE_LOAD_AVG15];
/// Of `/proc/meminfo`.
const MEMORY: [(&str, &str); 8] = [
    (keys::NODE_MEM_TOTAL, "MemTotal"),
    (keys::NODE_MEM_FREE, "MemFree"),
    (keys::NODE_MEM_BUFFERS, "Buffers"),
    (keys::NODE_MEM_CACHED, "Cached"),
    (keys::NODE_MEM_SWAP_CACHED, "SwapCached"),
    (keys::NODE_SWAP_TOTAL, "SwapTotal"),
    (keys::NODE_MEM_SWAP_FREE, "SwapFree"),
    (keys::NODE_MEM_MAPPED, "Mapped"),
];
/// Of a process's `status`.
const PROCESS_MEMORY: [(&str, &str); 3] =
    [(keys::PROC_PEAK_VSIZE, "VmPeak"), (keys::PROC_VSIZE, "VmSize"), (keys::PROC_RSS, "VmRSS")];
/// Devices in `/proc/diskstats` that are memory, or files of others.
const NO_DISKS: [&str; 3] = ["loop", "ram", "zram"];

impl Usage {
    /// Reads the present usage: one info for each process, disk and network, or one for the node. Ended processes are left out.
    pub fn read(&self, targets: &[Target], hostname: &str) -> Vec<Info> {
        pmix_dstore::file_ban::check();
        match self.subject {
            Subject::Processes => targets.iter().filter_map(|target| self.process(target, hostname)).collect(),
            Subject::Node => self.node(hostname).into_iter().collect(),
            Subject::Disks => self.disks(&text("/proc/diskstats")),
            Subject::Networks => self.networks(&text("/proc/net/dev")),
        }
    }

    fn wants(&self, key: &str) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|field| field.is(key))
    }

    fn push(&self, infos: &mut Vec<Info>, key: &'static str, value: Option<Value>) {
        infos.extend(value.filter(|_| self.wants(key)).map(|value| Info::new(key, value)));
    }

    fn process(&self, target: &Target, hostname: &str) -> Option<Info> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        // Reads through the descriptor concern this process, even if another one gets its pid.
        let directory = open(Path::new(&format!("/proc/{}", target.pid)), flags, Mode::empty()).ok()?;
        if fstat(&directory).ok()?.st_uid != target.uid {
            return None;
        }
        let mut infos = vec![
            Info::new(keys::PROCID, Value::Proc(target.proc.clone())),
            Info::new(keys::PROC_PID, Value::Pid(target.pid)),
            Info::new(keys::HOSTNAME, Value::string(hostname)),
        ];
        self.process_times(&mut infos, &text_in(&directory, "stat")?, &text("/proc/uptime"))?;
        let status = text_in(&directory, "status").unwrap_or_default();
        for (key, name) in PROCESS_MEMORY {
            self.push(&mut infos, key, megabytes(&status, name));
        }
        if self.fields.iter().any(|field| field.is(keys::PROC_PSS)) {
            let sums = text_in(&directory, "smaps_rollup").unwrap_or_default();
            self.push(&mut infos, keys::PROC_PSS, megabytes(&sums, "Pss"));
        }
        infos.push(now(keys::PROC_SAMPLE_TIME));
        Some(Info::new(keys::PROC_RESOURCE_USAGE, Value::infos(infos)))
    }

    /// Reads a process's `stat`; the first number of `uptime` is the time since the node's boot.
    fn process_times(&self, infos: &mut Vec<Info>, stat: &str, uptime: &str) -> Option<()> {
        // The name may hold parentheses and spaces, too.
        let (open, close) = (stat.find('(')?, stat.rfind(')')?);
        let name = stat.get(open + 1..close)?;
        let fields: Vec<&str> = stat.get(close + 1..)?.split_whitespace().collect();
        // Numbers as in proc(5), where the state is the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |place: usize| field(place).and_then(|field| field.parse::<u64>().ok());
        let small = |place: usize| number(place).map(|number| Value::Uint16(u16::try_from(number).unwrap_or(u16::MAX)));
        let ticks = number(14)?.saturating_add(number(15)?);
        let (sec, usec) = ((ticks / TICKS) as i64, (ticks % TICKS * (1_000_000 / TICKS)) as i64);
        let up: Option<f64> = uptime.split_whitespace().next().and_then(|up| up.parse().ok());
        let age = up.zip(number(22)).map(|(up, start)| up - start as f64 / TICKS as f64).filter(|age| *age > 0.0);
        let share = age.map(|age| Value::Float((ticks as f64 / TICKS as f64 / age * 100.0) as f32));
        self.push(infos, keys::CMD_LINE, Some(Value::string(name)));
        self.push(infos, keys::PROC_OS_STATE, field(3).map(Value::string));
        self.push(infos, keys::PROC_TIME, Some(Value::Timeval { sec, usec }));
        self.push(infos, keys::PROC_PERCENT_CPU, share);
        self.push(infos, keys::PROC_PRIORITY, field(18).and_then(|field| field.parse().ok()).map(Value::Int32));
        self.push(infos, keys::PROC_NUM_THREADS, small(20));
        self.push(infos, keys::PROC_CPU, small(39));
        Some(())
    }

    /// The values of the node; `None` if none of them is requested.
    fn node(&self, hostname: &str) -> Option<Info> {
        let mut infos = vec![Info::new(keys::HOSTNAME, Value::string(hostname))];
        self.node_numbers(&mut infos, &text("/proc/loadavg"), &text("/proc/meminfo"));
        infos.extend(self.networks(&text("/proc/net/dev")));
        infos.extend(self.disks(&text("/proc/diskstats")));
        if infos.len() == 1 {
            return None;
        }
        infos.push(now(keys::NODE_SAMPLE_TIME));
        Some(Info::new(keys::NODE_RESOURCE_USAGE, Value::infos(infos)))
    }

    fn node_numbers(&self, infos: &mut Vec<Info>, load: &str, memory: &str) {
        for (key, average) in LOAD.into_iter().zip(load.split_whitespace()) {
            self.push(infos, key, average.parse().ok().map(Value::Float));
        }
        for (key, name) in MEMORY {
            self.push(infos, key, megabytes(memory, name));
        }
    }

    fn disks(&self, text: &str) -> Vec<Info> {
        let disk = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let name = fields.get(2)?;
            let is_meant = match self.disks.is_empty() {
                true => !NO_DISKS.iter().any(|kind| name.starts_with(kind)),
                false => self.disks.iter().any(|disk| disk == name.as_bytes()),
            };
            let numbers = self.columns(disk_column, &fields).filter(|_| is_meant && fields.len() > 13)?;
            Some(device(keys::DISK_RESOURCE_USAGE, (keys::DISK_ID, name), numbers, keys::DISK_SAMPLE_TIME))
        };
        text.lines().filter_map(disk).collect()
    }

    fn networks(&self, text: &str) -> Vec<Info> {
        let network = |line: &str| {
            let (name, numbers) = line.rsplit_once(':')?;
            let name = name.trim();
            let is_meant = self.networks.is_empty() || self.networks.iter().any(|network| network == name.as_bytes());
            let fields: Vec<&str> = numbers.split_whitespace().collect();
            let numbers = self.columns(network_column, &fields).filter(|_| is_meant)?;
            Some(device(keys::NETWORK_RESOURCE_USAGE, (keys::NETWORK_ID, name), numbers, keys::NET_SAMPLE_TIME))
        };
        text.lines().filter_map(network).collect()
    }

    /// The requested numbers of a line.
    fn columns(&self, key_of: fn(usize) -> Option<&'static str>, fields: &[&str]) -> Option<Vec<Info>> {
        let mut infos = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            if let Some(key) = key_of(place) {
                self.push(&mut infos, key, field.parse().ok().map(Value::Uint64));
            }
        }
        (!infos.is_empty()).then_some(infos)
    }
}

/// A device's numbers between its name and the time.
fn device(key: &'static str, (id, name): (&'static str, &str), numbers: Vec<Info>, time: &'static str) -> Info {
    let name = [Info::new(id, Value::string(name))];
    Info::new(key, Value::infos(name.into_iter().chain(numbers).chain([now(time)])))
}

/// The time of a sample.
fn now(key: &'static str) -> Info {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Info::new(key, Value::Time(since.as_secs() as i64))
}

/// The value of a line `name: N kB`.
fn megabytes(text: &str, name: &str) -> Option<Value> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Value::Float((kilobytes / 1024.0) as f32))
}

/// The resident memory of this process.
pub(crate) fn own_memory() -> Option<Value> {
    megabytes(&text("/proc/self/status"), "VmRSS")
}

/// A file's text; empty if it cannot be read.
fn text(path: &str) -> String {
    File::open(path).map(whole).unwrap_or_default()
}

fn text_in(directory: &OwnedFd, name: &str) -> Option<String> {
    let file = openat(directory, Path::new(name), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    Some(whole(file.into())).filter(|text| !text.is_empty())
}

fn whole(file: File) -> String {
    let mut bytes = Vec::new();
    // A process that ends during the read has no values.
    let _ = file.take(FILE_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Nspace, Rank};

    use super::*;

    fn usage(subject: Subject, fields: &[&'static str]) -> Usage {
        let fields = fields.iter().map(|key| Key::from(*key)).collect();
        Usage { subject, fields, disks: Vec::new(), networks: Vec::new() }
    }

    fn inner(info: &Info) -> Vec<Info> {
        info.value.iter_infos().cloned().collect()
    }

    fn own(uid: u32) -> Target {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(3));
        Target { proc, pid: std::process::id() as i32, uid }
    }

    fn us() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    #[test]
    fn a_process_is_told_of_with_its_name_first() {
        let told = usage(Subject::Processes, &[]).read(&[own(us())], "here");
        assert_eq!(told.len(), 1);
        assert!(told[0].key.is(keys::PROC_RESOURCE_USAGE));
        let infos = inner(&told[0]);
        assert!(infos[0].key.is(keys::PROCID) && infos[0].value == Value::Proc(own(0).proc));
        for key in [keys::PROC_TIME, keys::PROC_PERCENT_CPU, keys::PROC_NUM_THREADS, keys::PROC_SAMPLE_TIME] {
            assert!(Info::find(&infos, key).is_some(), "{key}");
        }
        let Some(Value::Float(rss)) = Info::find(&infos, keys::PROC_RSS) else { panic!("{infos:?}") };
        assert!(*rss > 0.1 && *rss < 100_000.0, "{rss} megabytes");
        assert!(Info::find(&infos, keys::PROC_PSS).is_none(), "it is dear, and was not asked for by name");
        let told = usage(Subject::Processes, &[keys::PROC_PSS]).read(&[own(us())], "here");
        let infos = inner(&told[0]);
        assert!(Info::find(&infos, keys::PROC_PSS).is_some() && Info::find(&infos, keys::PROC_RSS).is_none());
    }

    #[test]
    fn another_users_process_with_the_number_is_not_told_of() {
        assert_eq!(usage(Subject::Processes, &[]).read(&[own(us() + 1)], "here"), []);
        let gone = Target { pid: i32::MAX, ..own(us()) };
        assert_eq!(usage(Subject::Processes, &[]).read(&[gone], "here"), []);
    }

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let mut infos = Vec::new();
        let stat =
            "7 (a ) (b) R 1 7 7 0 -1 4 5 0 0 0 150 50 0 0 20 0 3 0 1000 99 1 2 3 4 5 6 7 8 9 10 11 12 13 14 17 5 0";
        usage(Subject::Processes, &[]).process_times(&mut infos, stat, "30.00 10.0").unwrap();
        let expected = [
            (keys::CMD_LINE, Value::string("a ) (b")),
            (keys::PROC_OS_STATE, Value::string("R")),
            (keys::PROC_TIME, Value::Timeval { sec: 2, usec: 0 }),
            (keys::PROC_PERCENT_CPU, Value::Float(10.0)),
            (keys::PROC_PRIORITY, Value::Int32(20)),
            (keys::PROC_NUM_THREADS, Value::Uint16(3)),
            (keys::PROC_CPU, Value::Uint16(5)),
        ];
        assert_eq!(infos, expected.map(|(key, value)| Info::new(key, value)));
        assert!(usage(Subject::Processes, &[]).process_times(&mut infos, "7 (cut) R 1", "").is_none());
    }

    #[test]
    fn disks_and_networks_are_told_of_by_name() {
        let disks = " 7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n 8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13\n 8 16 sdb 1 2\n";
        let ids = |infos: &[Info]| infos.iter().map(|info| inner(info)[0].value.clone()).collect::<Vec<_>>();
        let all = usage(Subject::Disks, &[]);
        let told = all.disks(disks);
        assert_eq!(ids(&told), [Value::string("sda")]);
        assert_eq!(Info::find(&inner(&told[0]), keys::DISK_IO_WEIGHTED), Some(&Value::Uint64(11)));
        let named = Usage { disks: vec![b"loop0".to_vec()], ..all.clone() };
        assert_eq!(ids(&named.disks(disks)), [Value::string("loop0")], "what is named is told of, whatever it is");
        let text = "Inter-| Receive\n face |bytes\n  lo: 10 20 30 0 0 0 0 0 40 50 60 0 0 0 0 0\neth0:1 2 3 0 0 0 0 0 4 5 6 0 0\n";
        let told = all.networks(text);
        assert_eq!(ids(&told), [Value::string("lo"), Value::string("eth0")]);
        assert_eq!(Info::find(&inner(&told[0]), keys::NET_SENT_ERRS), Some(&Value::Uint64(60)));
        assert_eq!(usage(Subject::Networks, &[keys::NODE_MEM_FREE]).networks(text), []);
    }

    #[test]
    fn node_statistics_hold_the_requested_fields() {
        let told = usage(Subject::Node, &[]).read(&[], "here");
        let infos = inner(&told[0]);
        assert!(infos[0].key.is(keys::HOSTNAME) && infos[0].value == Value::string("here"));
        assert!(
            Info::find(&infos, keys::NODE_LOAD_AVG).is_some() && Info::find(&infos, keys::NODE_MEM_TOTAL).is_some()
        );
        assert!(Info::find(&infos, keys::NETWORK_RESOURCE_USAGE).is_some(), "loopback at least");
        let told = usage(Subject::Node, &[keys::NODE_MEM_TOTAL]).read(&[], "here");
        assert_eq!(inner(&told[0]).len(), 3, "name, number and time: {told:?}");
    }
}
