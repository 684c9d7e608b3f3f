//! Queries: the host's matter, and ours where the host does not answer.
//!
//! A host knows more than one server does: other nodes, jobs that are waiting. So it is asked first. Of process sets only the
//! server knows, to whom the host has told them; and what the host does not answer at all is looked up in what it
//! has registered.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

use pmix_client::GetOptions;
use pmix_client::wire::reply::InfosReply;
use pmix_dstore::model::{DataArray, DataType, Info, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Value, keys};
use pmix_dstore::rules::Caller;

use super::apart::{Actor, sign};
use super::attributes;
use super::nspaces::NspaceState;
use super::peers::{Peer, PeerId};
use super::{Engine, Then};
use crate::completion::Answer;
use crate::upcall::Upcall;

/// A query that is with the host.
pub(super) struct Asked {
    id: PeerId,
    tag: u32,
    asker: Actor,
    queries: Vec<Query>,
    /// What was known without the host.
    infos: Vec<Info>,
}

/// Process sets by their names.
pub(super) type ProcessSets = BTreeMap<CString, Vec<Proc>>;

impl Engine {
    /// The host defines a set of processes, or deletes one.
    pub fn set_process_set(&mut self, name: CString, members: Option<Vec<Proc>>) {
        match members {
            Some(members) => drop(self.psets.insert(name, members)),
            None => drop(self.psets.remove(&name)),
        }
    }

    /// A client asks.
    pub(super) fn query(
        &mut self,
        id: PeerId,
        tag: u32,
        queries: Vec<Query>,
        (time, now): (Option<Duration>, Instant),
    ) {
        let Some(asker) = self.peers.get(&id).map(Peer::actor) else { return };
        let mut infos = Vec::new();
        let mut left = Vec::new();
        for Query { keys, qualifiers } in queries {
            let mut others = Vec::new();
            for key in keys {
                match self.of_process_sets(&key, &qualifiers, &asker).or_else(|| self.of_attributes(&key, &qualifiers))
                {
                    Some(info) => infos.push(info),
                    None => others.push(key),
                }
            }
            if !others.is_empty() {
                left.push(Query { keys: others, qualifiers });
            }
        }
        if left.is_empty() && !infos.is_empty() {
            return self.reply(id, tag, &InfosReply { status: Status::SUCCESS, infos: Some(infos) });
        }
        let proc = asker.proc.clone();
        let signed = left.iter().map(|query| {
            let mut query = query.clone();
            sign(&mut query.qualifiers, asker.user);
            query
        });
        let signed = signed.collect();
        let asked = Asked { id, tag, asker, queries: left, infos };
        self.upcall_within(Then::Query(Box::new(asked)), Upcall::Query { proc, queries: signed }, time, now);
    }

    /// The host has answered a query, or has not.
    pub(super) fn query_answered(&mut self, asked: Asked, answer: Answer) {
        let Asked { id, tag, asker, queries, mut infos } = asked;
        let count = queries.iter().map(|query| query.keys.len()).sum();
        let had = infos.len();
        let status = match answer.status() {
            status @ (Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND) => {
                for Query { keys, qualifiers } in &queries {
                    infos.extend(keys.iter().filter_map(|key| self.known_of(key, qualifiers, &asker)));
                }
                match infos.len() - had {
                    0 if had == 0 => status,
                    found if found == count => Status::SUCCESS,
                    _ => Status::QUERY_PARTIAL_SUCCESS,
                }
            }
            status => {
                let succeeded = matches!(status, Status::SUCCESS | Status::OPERATION_SUCCEEDED);
                if let Answer::Infos(_, told) = answer {
                    infos.extend(told);
                }
                match status {
                    _ if succeeded => Status::SUCCESS,
                    _ if had > 0 => Status::QUERY_PARTIAL_SUCCESS,
                    failed => failed,
                }
            }
        };
        self.reply(id, tag, &InfosReply { status, infos: Some(infos) });
    }

    /// Which attributes are supported.
    fn of_attributes(&self, key: &CString, qualifiers: &[Info]) -> Option<Info> {
        let key = key.to_str().ok().filter(|key| *key == keys::QUERY_ATTRIBUTE_SUPPORT)?;
        info(key, attributes::support(qualifiers, &self.host_attributes)?)
    }

    /// What is asked of process sets, where there are any.
    fn of_process_sets(&self, key: &CString, qualifiers: &[Info], asker: &Actor) -> Option<Info> {
        if self.psets.is_empty() {
            return None;
        }
        let sees = |member: &&Proc| self.sees(&asker.proc, asker.user, &member.nspace);
        let is_seen = |members: &Vec<Proc>| members.is_empty() || members.iter().any(|member| sees(&member));
        let seen = || self.psets.iter().filter(|(_, members)| is_seen(members));
        let key = key.to_str().ok()?;
        let value = match key {
            keys::QUERY_NUM_PSETS => Value::Size(seen().count() as u64),
            keys::QUERY_PSET_NAMES => list(seen().map(|(name, _)| name.as_bytes())),
            keys::QUERY_PSET_MEMBERSHIP => {
                let name = Info::find(qualifiers, keys::PSET_NAME)?.as_text()?;
                let members = self.psets.get(&CString::new(name).ok()?)?;
                Value::procs(members.iter().filter(sees).cloned())
            }
            _ => return None,
        };
        info(key, value)
    }

    /// What was registered about what is asked.
    fn known_of(&self, key: &CString, qualifiers: &[Info], asker: &Actor) -> Option<Info> {
        let key = key.to_str().ok()?;
        let named = |wanted: &str| Info::find(qualifiers, wanted);
        let sees = |nspace: &Nspace| self.sees(&asker.proc, asker.user, nspace);
        let jobs = || {
            let mut jobs: Vec<_> = self
                .nspaces
                .iter()
                .filter(|(_, state)| state.complete && !state.is_of_tools)
                .filter(|(nspace, _)| sees(nspace))
                .collect();
            jobs.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
            jobs.into_iter()
        };
        let nspace = match named(keys::NSPACE) {
            Some(name) => Nspace::new(name.as_text()?).ok()?,
            None => asker.proc.nspace.clone(),
        };
        // What is out of reach is not there.
        let state = self.nspaces.get(&nspace).filter(|_| sees(&nspace));
        let value = match key {
            keys::QUERY_SUPPORTED_KEYS | keys::QUERY_SUPPORTED_QUALIFIERS => attributes::supported(key)?,
            keys::QUERY_NAMESPACES => list(jobs().map(|(nspace, _)| nspace.as_bytes())),
            keys::QUERY_NAMESPACE_INFO => {
                let items = jobs().map(|(nspace, state)| {
                    let mut items =
                        vec![Value::Info(Box::new(Info::new(keys::NSPACE, Value::string(nspace.as_bytes()))))];
                    let of_job = [keys::JOB_SIZE, keys::CMD_LINE];
                    let told =
                        of_job.iter().filter_map(|key| self.of_job(state, Rank::WILDCARD, key, qualifiers, asker));
                    items.extend(told.map(|info| Value::Info(Box::new(info))));
                    info(keys::JOB_INFO_ARRAY, array(DataType::INFO, items)).map(|info| Value::Info(Box::new(info)))
                });
                array(DataType::INFO, items.collect::<Option<_>>()?)
            }
            keys::QUERY_PROC_TABLE | keys::QUERY_LOCAL_PROC_TABLE => {
                let state = state.filter(|state| state.complete)?;
                let is_wanted = |rank: &Rank| key == keys::QUERY_PROC_TABLE || state.is_local(*rank);
                let ranks = (0..state.job.size()).map(Rank).filter(is_wanted);
                array(DataType::PROC_INFO, ranks.map(|rank| self.proc_info(&nspace, state, rank, asker)).collect())
            }
            _ => {
                let rank = match named(keys::RANK) {
                    Some(Value::Rank(rank)) => *rank,
                    Some(other) => Rank(other.as_u32()?),
                    None => Rank::WILDCARD,
                };
                return self.of_job(state?, rank, key, qualifiers, asker);
            }
        };
        info(key, value)
    }

    /// A value of a job as a Get finds it.
    fn of_job(&self, state: &NspaceState, rank: Rank, key: &str, qualifiers: &[Info], asker: &Actor) -> Option<Info> {
        let caller = Caller { rank: None, hostname: self.config.hostname.as_bytes() };
        let selector = GetOptions::from_infos(qualifiers).selector;
        let name = Key::new(key).ok()?;
        let value = self.registered(state, rank, &name, &selector, &caller, asker)?;
        info(key, value.ok()?)
    }

    fn proc_info(&self, nspace: &Nspace, state: &NspaceState, rank: Rank, asker: &Actor) -> Value {
        let find = |key| self.of_job(state, rank, key, &[], asker).map(|info| info.value);
        let text = |key| find(key).and_then(|value| CString::new(value.as_text()?).ok());
        let pid = match find(keys::PROC_PID) {
            Some(Value::Pid(pid)) => pid,
            _ => 0,
        };
        Value::ProcInfo(Box::new(ProcInfo {
            proc: Proc::new(nspace.clone(), rank),
            hostname: text(keys::HOSTNAME),
            executable: text(keys::APP_ARGV).or_else(|| text(keys::CMD_LINE)),
            pid,
            exit_code: 0,
            state: 0,
        }))
    }
}

fn info(key: &str, value: Value) -> Option<Info> {
    Some(Info { key: Key::new(key).ok()?, flags: 0, value })
}

/// Names, with commas between them.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a [u8]>) -> Value {
    Value::string(names.collect::<Vec<_>>().join(&b','))
}

fn array(ty: DataType, items: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { ty, items }))
}
