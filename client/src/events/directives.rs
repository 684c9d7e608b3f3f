//! The infos of a registration and of an event that decide which handlers run.

use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use super::range;

/// `PMIX_RANGE`.
const RANGE: &str = keys::RANGE;

/// The position of a handler within its category.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChainPosition {
    /// The default: before those registered earlier.
    #[default]
    Newest,
    /// The library's own handler, before all others. It is not part of the chain and cannot end it.
    Observer,
    /// Before all handlers of all categories.
    FirstOverall,
    /// After all handlers of all categories.
    LastOverall,
    /// Always first of its category.
    First,
    /// Always last of its category.
    Last,
    /// Before the others, but after one that is always first.
    Prepend,
    /// After the others, but before one that is always last.
    Append,
    /// Just before the handler of this name.
    Before(Vec<u8>),
    /// Just after the handler of this name.
    After(Vec<u8>),
}

/// The infos of a registration.
#[derive(Clone, Debug, Default)]
pub struct Directives {
    /// Its position.
    pub place: ChainPosition,
    /// Its name, as given.
    pub name: Option<Value>,
    /// `PMIX_EVENT_RETURN_OBJECT`, as given.
    pub object: Option<Value>,
    /// The range from which events are accepted: a `pmix_data_range_t`.
    pub range: u8,
    /// The processes from which events are accepted, if the range is custom.
    pub sources: Vec<Proc>,
    /// Only events that affect one of these, if there are any.
    pub affected: Vec<Proc>,
    /// Called once, then removed.
    pub is_oneshot: bool,
    /// The infos that the registration request carries to the server.
    pub for_server: Vec<Info>,
}

impl Directives {
    /// Reads the infos of a registration.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an info of the wrong type.
    pub fn read(infos: Vec<Info>) -> Result<Directives> {
        let mut directives = Directives::default();
        for info in infos {
            let yes = info.value.is_true();
            let name = || info.value.as_text().map(<[u8]>::to_vec).ok_or(Status::ERR_BAD_PARAM);
            let Ok(key) = std::str::from_utf8(info.key.as_bytes()) else {
                directives.for_server.push(info);
                continue;
            };
            match key {
                keys::EVENT_HDLR_FIRST if yes => directives.place = ChainPosition::FirstOverall,
                keys::EVENT_HDLR_LAST if yes => directives.place = ChainPosition::LastOverall,
                keys::EVENT_HDLR_FIRST_IN_CATEGORY if yes => directives.place = ChainPosition::First,
                keys::EVENT_HDLR_LAST_IN_CATEGORY if yes => directives.place = ChainPosition::Last,
                keys::EVENT_HDLR_PREPEND if yes => directives.place = ChainPosition::Prepend,
                keys::EVENT_HDLR_APPEND if yes => directives.place = ChainPosition::Append,
                keys::EVENT_HDLR_FIRST
                | keys::EVENT_HDLR_LAST
                | keys::EVENT_HDLR_FIRST_IN_CATEGORY
                | keys::EVENT_HDLR_LAST_IN_CATEGORY
                | keys::EVENT_HDLR_PREPEND
                | keys::EVENT_HDLR_APPEND => {}
                keys::EVENT_HDLR_BEFORE => directives.place = ChainPosition::Before(name()?),
                keys::EVENT_HDLR_AFTER => directives.place = ChainPosition::After(name()?),
                keys::EVENT_HDLR_NAME => directives.name = Some(info.value),
                keys::EVENT_RETURN_OBJECT => directives.object = Some(info.value),
                keys::EVENT_ONESHOT => directives.is_oneshot = yes,
                RANGE => {
                    let code = match info.value {
                        Value::Code { bits, .. } => bits,
                        ref other => other.as_u64().ok_or(Status::ERR_BAD_PARAM)?,
                    };
                    directives.range = code.try_into().map_err(|_| Status::ERR_BAD_PARAM)?;
                }
                keys::EVENT_CUSTOM_RANGE => directives.sources = procs(&info.value)?,
                keys::EVENT_AFFECTED_PROC | keys::EVENT_AFFECTED_PROCS => {
                    directives.affected = procs(&info.value)?;
                    directives.for_server.push(info);
                }
                _ => directives.for_server.push(info),
            }
        }
        Ok(directives)
    }

    /// Whether a handler of the process `me` accepts events from `source`.
    pub fn wants_source(&self, source: &Proc, me: &Proc) -> bool {
        let among = |procs: &[Proc]| procs.iter().any(|proc| proc.covers(source));
        match self.range {
            range::NAMESPACE if self.sources.is_empty() => source.nspace == me.nspace,
            range::NAMESPACE => self.sources.iter().any(|proc| proc.nspace == source.nspace),
            range::CUSTOM => among(&self.sources),
            range::PROC_LOCAL => source == me,
            // This process does not know which sources are in its session or on its node: accept all of them.
            _ => self.sources.is_empty() || among(&self.sources),
        }
    }

    /// Whether the handler accepts an event that affects these processes. An empty list means that the event names
    /// none.
    pub fn wants_affected(&self, affected: &[Proc]) -> bool {
        let wanted = |proc: &Proc| self.affected.iter().any(|mine| mine.covers(proc) || proc.covers(mine));
        self.affected.is_empty() || affected.is_empty() || affected.iter().any(wanted)
    }
}

/// The infos of an event that decide which handlers are called.
#[derive(Clone, Debug, Default)]
pub struct Addressees {
    /// The processes to which the event is addressed; empty for all.
    pub targets: Vec<Proc>,
    /// The affected processes.
    pub affected: Vec<Proc>,
    /// Do not call handlers that are registered for all events.
    pub skips_default: bool,
}

impl Addressees {
    /// Reads the infos of an event. Ignores infos of the wrong type.
    pub fn read(infos: &[Info]) -> Addressees {
        let mut addressees = Addressees::default();
        for info in infos {
            if info.key.is(keys::EVENT_CUSTOM_RANGE) {
                addressees.targets = info.value.iter_procs().cloned().collect();
            } else if info.key.is(keys::EVENT_AFFECTED_PROC) || info.key.is(keys::EVENT_AFFECTED_PROCS) {
                addressees.affected.extend(info.value.iter_procs().cloned());
            } else if info.key.is(keys::EVENT_NON_DEFAULT) {
                addressees.skips_default = info.value.is_true();
            }
        }
        addressees
    }
}

/// Whether the target of an event denotes `me`. A server sends plain ranks; `LOCAL_NODE` and `LOCAL_PEERS` come only
/// from this process itself.
pub(crate) fn is_meant(target: &Proc, me: &Proc) -> bool {
    match target.rank {
        Rank::LOCAL_NODE => true,
        Rank::LOCAL_PEERS => target.nspace == me.nspace,
        _ => target.covers(me),
    }
}

/// The processes in a value: one process, or an array of processes only.
fn procs(value: &Value) -> Result<Vec<Proc>> {
    let count = if let Value::DataArray(array) = value { array.items.len() } else { 1 };
    let procs: Vec<Proc> = value.iter_procs().cloned().collect();
    if procs.len() == count { Ok(procs) } else { Err(Status::ERR_BAD_PARAM) }
}
