//! What the infos of a registration, and those of an event, say about who is to hear what.

use pmix_dstore::model::{Info, Proc, Rank, Result, Status, Value, keys};

use super::range;

/// `PMIX_RANGE`, by the key that it has on the wire.
const RANGE: &str = keys::RANGE;

/// Where a handler is put among those of its category.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChainPosition {
    /// Not said: before those registered earlier.
    #[default]
    Newest,
    /// In front of all handlers, for the library itself: it is no part of the chain, and cannot end it.
    Observer,
    /// Before all handlers of all categories.
    FirstOverall,
    /// After all handlers of all categories.
    LastOverall,
    /// Always first of its category.
    First,
    /// Always last of its category.
    Last,
    /// Before the others, if not before one that is always first.
    Prepend,
    /// After the others, if not after one that is always last.
    Append,
    /// Just before the handler of this name.
    Before(Vec<u8>),
    /// Just after the handler of this name.
    After(Vec<u8>),
}

/// The infos of a registration.
#[derive(Clone, Debug, Default)]
pub struct Directives {
    /// Where it goes.
    pub place: ChainPosition,
    /// What it is called, as given.
    pub name: Option<Value>,
    /// `PMIX_EVENT_RETURN_OBJECT`, as given.
    pub object: Option<Value>,
    /// From where events are wanted: a `pmix_data_range_t`.
    pub range: u8,
    /// From whom events are wanted where the range is custom.
    pub sources: Vec<Proc>,
    /// Only events that affect one of these, if there are any.
    pub affected: Vec<Proc>,
    /// Called once, then gone.
    pub is_oneshot: bool,
    /// What the server is told with the codes.
    pub for_server: Vec<Info>,
}

impl Directives {
    /// Reads the infos of a registration.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for one that has the wrong type.
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

    /// Whether events from `source` are wanted by a handler of the process `me`.
    pub fn wants_source(&self, source: &Proc, me: &Proc) -> bool {
        let among = |procs: &[Proc]| procs.iter().any(|proc| proc.covers(source));
        match self.range {
            range::NAMESPACE if self.sources.is_empty() => source.nspace == me.nspace,
            range::NAMESPACE => self.sources.iter().any(|proc| proc.nspace == source.nspace),
            range::CUSTOM => among(&self.sources),
            range::PROC_LOCAL => source == me,
            // The session and the node are the server's to know.
            _ => self.sources.is_empty() || among(&self.sources),
        }
    }

    /// Whether an event that affects these processes (none: not said) is wanted.
    pub fn wants_affected(&self, affected: &[Proc]) -> bool {
        let wanted = |proc: &Proc| self.affected.iter().any(|mine| mine.covers(proc) || proc.covers(mine));
        self.affected.is_empty() || affected.is_empty() || affected.iter().any(wanted)
    }
}

/// The infos of an event that decide who is called.
#[derive(Clone, Debug, Default)]
pub struct Addressees {
    /// Only these processes are meant, where there are any.
    pub targets: Vec<Proc>,
    /// Who is affected.
    pub affected: Vec<Proc>,
    /// Handlers for all events are not to be called.
    pub skips_default: bool,
}

impl Addressees {
    /// Reads the infos of an event. What has the wrong type is passed over.
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

/// Whether a process stands for `me`. What comes from a server names ranks; the ranks of the node are named by this process.
pub(crate) fn is_meant(target: &Proc, me: &Proc) -> bool {
    match target.rank {
        Rank::LOCAL_NODE => true,
        Rank::LOCAL_PEERS => target.nspace == me.nspace,
        _ => target.covers(me),
    }
}

/// One process, or an array of nothing else.
fn procs(value: &Value) -> Result<Vec<Proc>> {
    let count = if let Value::DataArray(array) = value { array.items.len() } else { 1 };
    let procs: Vec<Proc> = value.iter_procs().cloned().collect();
    if procs.len() == count { Ok(procs) } else { Err(Status::ERR_BAD_PARAM) }
}
