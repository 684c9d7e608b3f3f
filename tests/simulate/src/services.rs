//! Requests that a server passes to its host. Each carries a number, and the host answers with what the number determines: nobody gets the
//! answer to another one's request, and nobody's claim of its user reaches the host.

use std::ffi::CString;

use pmix_dstore::model::{Info, Key, Nspace, Proc, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_wire::reply::{CredentialReply, InfosReply, StatusReply};
use pmix_wire::{Reply, Request, Version};

use crate::calls::{NUMBER, TIMEOUT};
use crate::invariant::Invariant;
use crate::rank::{Call, Role};
use crate::world::{GATEWAY, World};

/// The kinds of requests.
pub(crate) const KINDS: u8 = 28;
/// A line for the log.
const LOG: u8 = 1;
/// Files to be removed: the server itself answers.
const CLEANUP: u8 = 4;
/// An abort of another user's process.
const ABORT_OF_OTHER: u8 = 12;
/// A request that nobody knows.
const UNKNOWN: u8 = 13;
/// A clean-up that names a relative path.
const BAD_CLEANUP: u8 = 14;
/// There is no memory for it.
pub(crate) const REFUSED: u8 = 15;
/// From here on requests that are wrong, each with the status that it must get.
const WRONG: u8 = 16;
/// All but this one: it is right.
const INVITED: u8 = 11;

/// The host's answer to the request of a number.
fn status_of(number: u32) -> Status {
    match number % 4 {
        0 => Status(-5000 - (number % 1000) as i32),
        1 => Status::OPERATION_SUCCEEDED,
        _ => Status::SUCCESS,
    }
}

/// The number that an info carries.
pub(crate) fn number_in(infos: &[Info]) -> Option<u32> {
    Info::find(infos, NUMBER).and_then(Value::as_u32)
}

/// Infos with a number and a claim, and for a request that is lost with a time-out.
pub(crate) fn numbered(number: u32, is_lost: bool) -> Vec<Info> {
    // What a process claims of itself.
    let claim = Info::new(keys::USERID, Value::Uint32(0));
    let timeout = is_lost.then(|| Info::new(keys::TIMEOUT, Value::Int(TIMEOUT)));
    [Info::new(NUMBER, Value::Uint32(number)), claim].into_iter().chain(timeout).collect()
}

impl World {
    pub(crate) fn service(&self, rank: usize, kind: u8, number: u32, is_lost: bool) -> Request {
        let infos = numbered(number, is_lost);
        let me = || self.ranks[rank].proc.clone();
        let text = || CString::new(format!("number {number}")).ok();
        match kind {
            0 => Request::Unpublish { uid: 0, keys: vec![Key::from("sim.never")], infos },
            LOG => {
                let data = vec![Info::new(keys::LOG_STDOUT, Value::string(format!("line {number}")))];
                Request::Log { timestamp: Some(i64::from(number)), data, directives: infos }
            }
            2 => Request::Allocate { directive: 1, infos },
            3 => Request::JobControl { targets: vec![me()], directives: infos },
            CLEANUP | BAD_CLEANUP => {
                let path = if kind == CLEANUP { format!("/nowhere/{number}") } else { "here".to_owned() };
                let key = if number.is_multiple_of(2) { keys::REGISTER_CLEANUP } else { keys::REGISTER_CLEANUP_DIR };
                let targets = match number % 3 {
                    0 => vec![me()],
                    1 => vec![Proc::new(me().nspace, Number::WILDCARD)],
                    _ => Vec::new(),
                };
                Request::JobControl { targets, directives: vec![Info::new(key, Value::string(path))] }
            }
            5 => Request::GetCredential { infos },
            6 => Request::ValidateCredential { credential: number.to_le_bytes().into(), infos },
            7 => Request::FabricRegister { infos },
            8 => Request::FabricUpdate { index: number.into() },
            9 => Request::SessionControl { session: 7, infos },
            10 => Request::ResourceBlock { directive: 1, block: text(), units: vec![(1, 2)], infos },
            ABORT_OF_OTHER if let Some(other) = self.other_users(rank, number) => {
                Request::Abort { status: Status(number as i32), message: text(), procs: vec![other] }
            }
            11 | ABORT_OF_OTHER => Request::Abort { status: Status(number as i32), message: text(), procs: Vec::new() },
            REFUSED => Request::Publish { uid: 0, infos },
            WRONG.. => self.wrong(rank, kind, number),
            _ => Request::Unknown { command: 250, rest: Vec::new() },
        }
    }

    /// A request that is wrong.
    fn wrong(&self, rank: usize, kind: u8, number: u32) -> Request {
        let me = self.ranks[rank].proc.clone();
        let nobody = Proc::new(me.nspace.clone(), Number(700));
        let group = CString::new(format!("wrong{number}")).ok();
        let of_job = CString::new(self.jobs[0].nspace.as_bytes()).ok();
        let construct = |group, procs, infos| Request::GroupConstruct { group, procs, infos };
        match kind - WRONG {
            // Of a scope that there is not.
            0 => Request::Commit { parts: vec![(99, Vec::new())] },
            // Without itself. It succeeds, and counts for nothing.
            1 => Request::Fence { procs: vec![nobody], infos: Vec::new() },
            2 => Request::Connect { procs: vec![nobody], infos: Vec::new(), extra: Vec::new() },
            3 => construct(group, vec![nobody], Vec::new()),
            // Of what was never connected.
            4 => {
                let other = Nspace::new("nobody").map_or(nobody, |nspace| Proc::new(nspace, Number(0)));
                Request::Disconnect { procs: vec![me, other], infos: Vec::new() }
            }
            5 => Request::GroupDestruct { group, procs: Vec::new(), infos: Vec::new() },
            // By the name of a job.
            6 => construct(of_job, vec![me], Vec::new()),
            7 => construct(group, vec![me], vec![Info::new(keys::GROUP_BOOTSTRAP, Value::Size(0))]),
            8 => construct(group, vec![me], vec![Info::new(keys::GROUP_ADD_MEMBERS, Value::procs([]))]),
            9 => construct(group, vec![me], vec![Info::new(keys::GROUP_INFO, Value::Bool(true))]),
            // A leader says that those whom it has invited have formed a group.
            // That of a server's own process would stay as long as the server.
            INVITED if self.ranks[rank].role == Role::Server => {
                Request::Notify { status: Status::GROUP_CONSTRUCT_COMPLETE, range: 6, infos: Vec::new() }
            }
            INVITED => {
                let infos = vec![
                    Info::new(keys::GROUP_ID, Value::string(format!("invited{number}"))),
                    Info::new(keys::EVENT_CUSTOM_RANGE, Value::procs([me])),
                ];
                Request::Notify { status: Status::GROUP_CONSTRUCT_COMPLETE, range: 6, infos }
            }
            // In the name of another one.
            _ => {
                let other = Info::new(keys::PROCID, Value::Proc(nobody));
                construct(group, vec![me], vec![Info::new(keys::GROUP_INFO, Value::infos([other]))])
            }
        }
    }

    /// The status that it must get.
    fn status_of_wrong(kind: u8) -> Status {
        match kind - WRONG {
            // An event without a number is answered with success.
            1 | INVITED => Status::SUCCESS,
            3 => Status::ERR_NOT_A_MEMBER,
            4 => Status::ERR_INVALID_OPERATION,
            5 => Status::ERR_NOT_FOUND,
            9 => Status::ERR_TYPE_MISMATCH,
            _ => Status::ERR_BAD_PARAM,
        }
    }

    /// A process of another user, whose job this rank's server knows.
    fn other_users(&self, rank: usize, number: u32) -> Option<Proc> {
        let one = &self.ranks[rank];
        let is_other = |other: &&usize| {
            let other = &self.ranks[**other];
            other.role == Role::Rank && other.user != one.user && self.jobs[other.job].servers.contains(&one.server)
        };
        let others: Vec<usize> = (0..self.ranks.len()).filter(|other| is_other(&other)).collect();
        let chosen = others.get(number as usize % others.len().max(1)).filter(|_| one.role != Role::Server);
        chosen.map(|other| self.ranks[*other].proc.clone())
    }

    /// The reply to a service.
    pub(crate) fn served(&mut self, rank: usize, call: &Call, bytes: &[u8]) -> Option<()> {
        let Call::Serve { kind, number, is_lost } = *call else { return None };
        let dialect = self.ranks[rank].dialect();
        let can_be_lost = !matches!(kind, CLEANUP | BAD_CLEANUP | 8 | 11 | ABORT_OF_OTHER | UNKNOWN | REFUSED..);
        let of_host = match status_of(number) {
            Status::OPERATION_SUCCEEDED => Status::SUCCESS,
            other => other,
        };
        let expected = match kind {
            CLEANUP => Status::SUCCESS,
            BAD_CLEANUP => Status::ERR_BAD_PARAM,
            UNKNOWN => Status::ERR_NOT_SUPPORTED,
            REFUSED => Status::ERR_NOMEM,
            // The gateway's host writes it by itself.
            LOG if self.ranks[rank].role == Role::Server && self.ranks[rank].server == GATEWAY => Status::SUCCESS,
            // The namespace of a tool, or of a server's own process, may be known here, or not.
            WRONG.. if self.ranks[rank].role != Role::Rank => return Some(()),
            WRONG.. => World::status_of_wrong(kind),
            // Only what is there now is another user's: jobs may have come since.
            ABORT_OF_OTHER if self.other_users(rank, number).is_some() => Status::ERR_NO_PERMISSIONS,
            _ if is_lost && can_be_lost => Status::ERR_TIMEOUT,
            _ => of_host,
        };
        let (status, told) = match kind {
            5 => {
                let reply = CredentialReply::decode(dialect, Version::OURS, bytes).ok()?;
                let told = reply.credential.as_ref().map(|(bytes, _)| bytes.clone());
                (reply.status, told.and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?))))
            }
            2 | 3 | 6 | 7 | 8 | 9 => {
                let reply = InfosReply::decode(dialect, Version::OURS, bytes).ok()?;
                (reply.status, reply.infos.as_deref().and_then(number_in))
            }
            _ => (StatusReply::decode(dialect, Version::OURS, bytes).ok()?.status, None),
        };
        let may_be_both = kind == ABORT_OF_OTHER && status == of_host;
        if status != expected && !may_be_both || told.is_some_and(|told| told != number) {
            let what = format!("{call:?} of rank {rank} was answered with {status} and {told:?}, not with {expected}");
            self.violated(Invariant::OwnAnswer, what);
        }
        Some(())
    }

    /// A host is asked to abort processes: only those that the asker may reach.
    pub(crate) fn check_aborted(&mut self, server: usize, asker: &Proc, procs: &[Proc]) {
        let Some(user) = self.find(asker).map(|rank| self.ranks[rank].user) else { return };
        for target in procs.iter().filter_map(|target| self.find(target)).collect::<Vec<_>>() {
            let (job, other) = (self.ranks[target].job, self.ranks[target].user);
            // A server knows the user of a job that has ranks there.
            let is_known = self.jobs[job].ranks.iter().any(|rank| self.ranks[*rank].server == server);
            if is_known && !self.has_consented(user, other) {
                self.violated(Invariant::MayRead, format!("{asker} may abort rank {target} of another user"));
            }
        }
    }

    /// A server asks its host for a service.
    pub(crate) fn asked_service(
        &mut self,
        server: usize,
        id: u64,
        slot: &'static str,
        proc: Option<Proc>,
        infos: &[Info],
    ) {
        let number = match (number_in(infos), Info::find(infos, keys::FABRIC_INDEX)) {
            (Some(number), _) => number,
            (None, Some(index)) => index.as_u64().unwrap_or_default() as u32,
            (None, None) => 2,
        };
        if let Some(proc) = proc.filter(|_| !matches!(slot, "client_connected" | "client_finalized" | "fabric")) {
            self.check_signed(&proc, infos);
        }
        let (status, told) = (status_of(number), vec![Info::new(NUMBER, Value::Uint32(number))]);
        let answer = match slot {
            "get_credential" if status.is_success() || status == Status::OPERATION_SUCCEEDED => {
                UpcallResult::Credential(status, (number.to_le_bytes().into(), told))
            }
            // Some hosts answer with a status alone.
            "allocate" | "job_control" | "validate_credential" | "fabric" | "session_control"
                if !number.is_multiple_of(3) =>
            {
                UpcallResult::Infos(status, told)
            }
            "register_events" => UpcallResult::Op(match self.kind_of_answer(3) {
                0 => Status::ERR_NOT_SUPPORTED,
                _ => Status::SUCCESS,
            }),
            "deregister_events" | "client_finalized" => UpcallResult::Op(Status::SUCCESS),
            "monitor" => match number % 5 {
                0 => UpcallResult::Infos(Status::SUCCESS, Vec::new()),
                _ => UpcallResult::Op(Status::ERR_NOT_SUPPORTED),
            },
            "push_stdin" => self.input_answer(server, number),
            _ => UpcallResult::Op(status),
        };
        let is_lost = infos.iter().any(|info| info.key.is(keys::TIMEOUT));
        self.answer_or_lose(server, id, answer, is_lost);
    }
}
