//! What processes have watched: their own heartbeats, files, usage. A monitor that goes on for ever ends before the run does.

use pmix_dstore::codec::Module;
use pmix_dstore::model::{DataArray, DataType, Info, Status, Value, keys};
use pmix_wire::reply::InfosReply;
use pmix_wire::{Notification, Reply, Request, Version};

use crate::invariant::Invariant;
use crate::rank::{Call, Rank, Role};
use crate::services::numbered;
use crate::world::{What, World};

/// No run is longer, in milliseconds, but for who waits for ever.
const LONGEST: u64 = 3_600_000;

/// What a sample has; not the number of a report, which is looked for in all events.
const USED: &str = "sim.used";

/// The kinds of monitors.
pub(crate) const KINDS: u8 = 13;
const HEARTBEAT: u8 = 0;
const FILE: u8 = 1;
const FILE_THAT_CHANGES: u8 = 2;
const USAGE: u8 = 3;
const USAGE_EACH_SECOND: u8 = 4;
const OF_NODE: u8 = 5;
const UNKNOWN: u8 = 6;
const NO_INTERVAL: u8 = 7;
const OF_OTHER: u8 = 8;
const ELSEWHERE: u8 = 9;
const BY_PID: u8 = 10;
const RELATIVE: u8 = 11;

impl World {
    pub(crate) fn watch(&mut self, rank: usize, kind: u8) -> Request {
        // Older libraries have no type for a process's number on a node.
        let kind = if kind == BY_PID && self.ranks[rank].dialect().module != Module::V61 { USAGE } else { kind };
        let mut directives = numbered(1 + u32::from(kind) % 4, false);
        directives.push(Info::new(keys::MONITOR_ID, Value::string(format!("{rank}"))));
        let mut say = |key: &'static str, value| directives.push(Info::new(key, value));
        let array = |ty, items| Value::DataArray(Box::new(DataArray { ty, items }));
        let fields = Value::infos([Info::new(keys::PROC_RSS, Value::Bool(true))]);
        let path = if kind == RELATIVE { "here" } else { "/sim/file" };
        let (monitor, code) = match kind {
            HEARTBEAT => {
                say(keys::MONITOR_HEARTBEAT_TIME, Value::Uint32(2));
                say(keys::MONITOR_HEARTBEAT_DROPS, Value::Uint32(1));
                (Info::new(keys::MONITOR_HEARTBEAT, Value::Bool(true)), Status::MONITOR_HEARTBEAT_ALERT)
            }
            FILE | FILE_THAT_CHANGES | RELATIVE => {
                say(keys::MONITOR_FILE_SIZE, Value::Bool(true));
                say(keys::MONITOR_FILE_CHECK_TIME, Value::Uint32(1));
                say(keys::MONITOR_FILE_DROPS, Value::Uint32(2));
                (Info::new(keys::MONITOR_FILE, Value::string(path)), Status::SUCCESS)
            }
            NO_INTERVAL => (Info::new(keys::MONITOR_HEARTBEAT, Value::Bool(true)), Status::SUCCESS),
            UNKNOWN => (Info::new("sim.monitor", Value::Bool(true)), Status::SUCCESS),
            OF_NODE => (Info::new(keys::MONITOR_NODE_RESOURCE_USAGE, fields), Status::SUCCESS),
            _ => {
                if kind == USAGE_EACH_SECOND {
                    say(keys::MONITOR_RESOURCE_RATE, Value::Uint32(1));
                }
                if kind == OF_OTHER || kind == USAGE_EACH_SECOND {
                    let other = Value::Proc(self.ranks[(rank + usize::from(kind)) % self.ranks.len()].proc.clone());
                    say(keys::MONITOR_TARGET_PROCS, array(DataType::PROC, vec![other]));
                }
                if kind == ELSEWHERE {
                    say(keys::MONITOR_TARGET_NODES, array(DataType::STRING, vec![Value::string("elsewhere")]));
                    say(keys::MONITOR_TARGET_NODEIDS, array(DataType::UINT32, vec![Value::Uint32(77)]));
                }
                if kind == BY_PID {
                    let pid = Value::NodePid { hostname: None, nodeid: self.ranks[rank].server as u32, pid: -1 };
                    say(keys::MONITOR_TARGET_PIDS, array(DataType::NODE_PID, vec![pid]));
                }
                (Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, fields), Status::SUCCESS)
            }
        };
        self.ranks[rank].watches = true;
        Request::Monitor { monitor, status: code, directives }
    }

    pub(crate) fn unwatch(&self, rank: usize) -> Request {
        let name = format!("{rank}");
        let all = self.ranks[rank].tag.is_multiple_of(2);
        let value = if all { Value::Undef } else { Value::string(name) };
        let monitor = Info::new(keys::MONITOR_CANCEL, value);
        Request::Monitor { monitor, status: Status::SUCCESS, directives: numbered(1, false) }
    }

    /// The reply to a monitor.
    pub(crate) fn watched(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let status = InfosReply::decode(self.ranks[rank].dialect(), Version::OURS, bytes).ok()?.status;
        let is_expected = match *call {
            Call::Unwatch => matches!(status, Status::SUCCESS | Status::ERR_NOT_FOUND),
            Call::Watch { kind } => match status {
                Status::SUCCESS => !matches!(kind, UNKNOWN | NO_INTERVAL | ELSEWHERE | RELATIVE),
                Status::ERR_BAD_PARAM => matches!(kind, NO_INTERVAL | RELATIVE),
                Status::ERR_NOT_SUPPORTED => matches!(kind, UNKNOWN | ELSEWHERE | USAGE..=BY_PID),
                Status::ERR_NO_PERMISSIONS => matches!(kind, OF_OTHER | USAGE_EACH_SECOND),
                _ => false,
            },
            _ => false,
        };
        if !is_expected {
            self.violated(Invariant::NamedCause, format!("{call:?} of rank {rank} was answered with {status}"));
        }
        Some(())
    }

    /// A server wants to know when the file was changed.
    pub(crate) fn look(&mut self, server: usize, monitor: u64) {
        let late = self.delay("look", server as u64, self.steps);
        self.after(late, What::Looked { server, monitor });
    }

    pub(crate) fn looked(&mut self, server: usize, monitor: u64) {
        // Files of even monitors change for a while, some are not there at first.
        let changes = (self.now < 3000 || monitor.is_multiple_of(2)) && self.now < 30_000;
        let time = if changes { self.now as i64 } else { 0 };
        let changed = (!monitor.is_multiple_of(5) || self.now > 5000).then_some(time);
        let now = self.time();
        self.servers[server].looked(monitor, changed, now);
        self.take_from(server);
    }

    /// A server wants usage.
    pub(crate) fn measure(&mut self, server: usize, monitor: u64) {
        let told = if monitor.is_multiple_of(3) { Vec::new() } else { vec![Info::new(USED, Value::Uint32(0))] };
        self.servers[server].measured(monitor, told);
    }

    /// An alert, or a sample: only of what the rank's own job has watched.
    pub(crate) fn check_alert(&mut self, rank: usize, event: &Notification) {
        let id = Info::find(&event.infos, keys::MONITOR_ID).and_then(Value::as_text).map(<[u8]>::to_vec);
        let of = id.and_then(|id| String::from_utf8(id).ok()?.parse::<usize>().ok());
        let Some(of) = of.filter(|of| *of < self.ranks.len()) else { return };
        let affected = Info::find(&event.infos, keys::EVENT_AFFECTED_PROC);
        let is_named = affected.is_none_or(|affected| *affected == Value::Proc(self.ranks[of].proc.clone()));
        // A tool may have the job's name, too.
        if self.ranks[of].proc.nspace != self.ranks[rank].proc.nspace || !is_named {
            let what = format!("rank {rank} got {} of rank {of}'s monitor", event.status);
            self.violated(Invariant::EventInRange, what);
        }
    }

    /// What is watched for ever ends.
    pub(crate) fn end_monitors(&mut self) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].lives && std::mem::take(&mut self.ranks[rank].watches) {
                // Twice: by its name, and all that is left.
                self.ranks[rank].program.extend([Call::Unwatch, Call::Unwatch, Call::Unwatch]);
                self.go_on(rank);
            }
        }
        // Who is busy may have something watched later.
        let is_busy = |rank: &Rank| rank.lives && (rank.watches || !rank.program.is_empty());
        if self.ranks.iter().any(is_busy) && self.now < LONGEST {
            self.after(10_000, What::EndMonitors);
        }
    }

    /// A process gives a sign of life.
    pub(crate) fn beat(&mut self, rank: usize) {
        let connection = if self.ranks[rank].role == Role::Server { 0 } else { self.connection(rank) };
        self.servers[self.ranks[rank].server].beat(connection);
    }

    /// The codes of alerts.
    pub(crate) fn alert(code: u8) -> Option<Status> {
        let codes = [
            Status::MONITOR_HEARTBEAT_ALERT,
            Status::MONITOR_FILE_ALERT,
            Status::MONITOR_RESUSAGE_UPDATE,
            Status::GROUP_LEFT,
            Status::GROUP_MEMBER_FAILED,
            Status::PROC_HAS_CONNECTED,
            Status::CONNECT_REQUESTED,
            Status::ERR_PROC_TERM_WO_SYNC,
        ];
        codes.get(usize::from(code.checked_sub(6)?)).copied()
    }
}
