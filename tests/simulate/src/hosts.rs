//! What hosts do by themselves: they define sets of processes, register values of all jobs and of sessions, register jobs and processes again,
//! and ask for reports.

use std::ffi::CString;

use pmix_dstore::model::{DataType, Info, Key, Proc, Regattr, Status, Value, keys};

use crate::invariant::Invariant;
use crate::queries::{OF_SESSION, RESOURCE, SESSION};
use crate::rank::Role;
use crate::world::{SERVERS, World, node};

/// The kinds of calls.
pub(crate) const CALLS: u8 = 22;

impl World {
    pub(crate) fn host_call(&mut self, server: usize, kind: u8, rank: usize) {
        let (proc, job, now) = (self.ranks[rank].proc.clone(), self.ranks[rank].job, self.time());
        let is_rank = self.ranks[rank].role == Role::Rank;
        let knows = self.jobs[job].servers.contains(&server);
        let may_know = knows || self.described.contains(&(server, job));
        let engine = &mut self.servers[server];
        let mut status = Status::SUCCESS;
        match kind {
            0 | 1 => engine.set_process_set(c"set".to_owned(), Some(vec![proc])),
            2 => engine.set_process_set(c"set".to_owned(), None),
            3 => engine.set_process_set(CString::new(format!("set{rank}")).unwrap_or_default(), Some(Vec::new())),
            4 | 5 => {
                status = engine.register_resources(vec![Info::new(RESOURCE, Value::string("all"))]);
            }
            6 => status = engine.deregister_resources(&[Info::new(RESOURCE, Value::Undef)]),
            7 => {
                status = engine.register_session(SESSION, vec![Info::new(OF_SESSION, Value::string("session"))]);
                if engine.register_session(u32::MAX, Vec::new()) != Status::ERR_BAD_PARAM {
                    self.violated(Invariant::NamedCause, "a session without a number was registered".into());
                }
            }
            8 => {
                status = engine.deregister_session(SESSION);
                let _ = engine.deregister_session(u32::MAX);
            }
            // A job again, with more values.
            9 if is_rank && knows => {
                let nspace = proc.nspace.clone();
                let infos = [
                    Info::new("sim.more", Value::string("more")),
                    Info::new(keys::SESSION_ID, Value::Uint32(SESSION)),
                    Info::new(keys::CMD_LINE, Value::string("program argument")),
                ];
                engine.register_nspace(&nspace, 0, &infos);
            }
            // A process again, with its user.
            10 if is_rank && knows && self.ranks[rank].server == server && self.ranks[rank].lives => {
                let user = self.ranks[rank].user;
                engine.register_client(&proc, (user, user));
            }
            11 => {
                let known = Regattr {
                    name: Some(c"SIM_KNOWN".to_owned()),
                    key: Key::from("sim.known"),
                    ty: DataType::BOOL,
                    description: Vec::new(),
                };
                // The second time it is refused.
                let first = engine.register_attributes(c"PMIx_Get".to_owned(), vec![known]);
                if !matches!(first, Status::SUCCESS | Status::ERR_REPEAT_ATTR_REGISTRATION) {
                    status = first;
                }
            }
            12 if is_rank => engine.note_pid(&proc, 4000 + rank as i32),
            13 if is_rank => {
                let packed = engine.collect_job_info(std::slice::from_ref(&proc));
                let is_right = packed.as_ref().is_ok_and(|bytes| if bytes.is_empty() { !knows } else { may_know });
                if !is_right || engine.collect_job_info(&[]) != Err(Status::ERR_BAD_PARAM) {
                    self.violated(Invariant::OwnAnswer, format!("the data of {} are {packed:?}", proc.nspace));
                }
            }
            14 => {
                let (collectives, gets) = engine.waiting(now);
                let kept = engine.kept();
                if (collectives, gets) != (kept.collectives, kept.gets) {
                    self.violated(Invariant::OwnAnswer, format!("the report lacks some of {kept:?}"));
                }
            }
            15 => _ = engine.stats(),
            // Values of a group, which the host has from other servers.
            16 if is_rank => {
                let of = Info::new(keys::PROCID, Value::Proc(proc));
                let value = Info::new("sim.group", Value::string("of the group"));
                let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(1));
                let infos = vec![Info::new(keys::GROUP_INFO, Value::infos([of, value])), context];
                status = engine.register_resources(infos);
            }
            // A job that is registered at another server, described by one that is registered here.
            18 if is_rank && !knows => {
                let nspace = proc.nspace.clone();
                let size = self.jobs[job].ranks.len() as u32;
                let by = self.jobs.iter().find(|job| job.servers.contains(&server)).map(|job| job.nspace.clone());
                let infos = [Info::new(keys::JOB_SIZE, Value::Uint32(size))];
                if let Some(by) = by {
                    self.servers[server].describe_nspace(&nspace, &infos, &by);
                    self.described.insert((server, job));
                }
            }
            // It is registered here, too.
            19 if is_rank && !knows => {
                let nspace = proc.nspace.clone();
                let names: Vec<String> = (0..SERVERS).map(node).collect();
                let on = |server: usize| {
                    let there = self.jobs[job].ranks.iter().map(|rank| &self.ranks[*rank]);
                    let there = there.filter(|rank| rank.server == server);
                    there.map(|rank| rank.proc.rank.to_string()).collect::<Vec<_>>().join(",")
                };
                let ranks: Vec<String> = (0..SERVERS).map(on).collect();
                let infos = [
                    Info::new(keys::NODE_MAP, Value::string(names.join(","))),
                    Info::new(keys::PROC_MAP, Value::string(ranks.join(";"))),
                    Info::new(keys::USERID, Value::Uint32(self.jobs[job].user)),
                ];
                self.servers[server].register_nspace(&nspace, 0, &infos);
                self.jobs[job].servers.push(server);
            }
            // Its processes end soon.
            21 => engine.announce_end(&proc.nspace),
            20 => {
                let registered = self.jobs.iter().filter(|job| job.servers.contains(&server)).count();
                let known = engine.jobs();
                if known < registered {
                    self.violated(Invariant::OwnAnswer, format!("server {server} knows {known} of {registered} jobs"));
                }
            }
            17 => {
                // Of a name that is no process's.
                let nobody = Proc::new(proc.nspace, pmix_dstore::model::Rank::WILDCARD);
                engine.register_client(&nobody, (1, 1));
                engine.prepare_client(&nobody);
            }
            _ => {}
        }
        if !status.is_success() {
            self.violated(Invariant::NamedCause, format!("call {kind} of the host of server {server}: {status}"));
        }
        self.evicts = matches!(kind, 18 | 19).then_some(server);
        self.take_from(server);
        self.evicts = None;
    }
}
