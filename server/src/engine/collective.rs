//! A fence, connect, disconnect or group operation that is going on: its operation, its participants, and who has arrived.

use std::collections::HashSet;
use std::ffi::CString;
use std::time::Instant;

use pmix_client::connect_id;
use pmix_dstore::model::{Info, Nspace, Proc, Status, keys};

use super::peer::PeerId;

/// The operation of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A barrier; with `collect` it also exchanges values.
    Fence,
    /// Exchange the data of the participants' jobs.
    Connect,
    /// End a connection that a connect made.
    Disconnect,
    /// Form the group of this name.
    Construct(CString),
    /// Dissolve it.
    Destruct(CString),
}

impl Kind {
    /// Whether it is a fence that exchanges the participants' values.
    pub fn collects(&self, infos: &[Info]) -> bool {
        *self == Kind::Fence && Info::is_set(infos, keys::COLLECT_DATA)
    }

    /// The host's function for it.
    pub fn slot(&self) -> &'static str {
        match self {
            Kind::Fence => "fence_nb",
            Kind::Connect => "connect",
            Kind::Disconnect => "disconnect",
            Kind::Construct(_) | Kind::Destruct(_) => "group",
        }
    }

    /// Its name in the log.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Fence => "fence",
            Kind::Connect => "connect",
            Kind::Disconnect => "disconnect",
            Kind::Construct(_) => "group construction",
            Kind::Destruct(_) => "group destruction",
        }
    }
}

/// What RFC0003 lets a process say of a connect, and of later collectives of the connected processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// The operation's identifier: collectives of the same processes with other ones are others.
    pub id: Option<Vec<u8>>,
    /// A connect exchanges data, and connects nobody.
    pub is_exchange_only: bool,
    /// Processes that end before they connect are no failure.
    pub is_optional: bool,
    /// Processes may end without a disconnect.
    pub lets_end: bool,
}

impl Terms {
    /// Reads the infos of a request.
    ///
    /// # Errors
    /// `BAD_PARAM` for an identifier that is no string, or is longer than a namespace.
    pub fn read(kind: &Kind, infos: &[Info]) -> Result<Terms, Status> {
        if !matches!(kind, Kind::Fence | Kind::Connect | Kind::Disconnect) {
            return Ok(Terms::default());
        }
        Ok(Terms {
            id: connect_id(infos)?,
            is_exchange_only: Info::is_set(infos, keys::CONNECT_XCHG_ONLY),
            is_optional: Info::is_set(infos, keys::CONNECT_OPTIONAL),
            lets_end: Info::is_set(infos, keys::CONNECT_EARLY_TERM_ALLOWED),
        })
    }
}

/// One collective that is going on.
pub(super) struct Collective {
    pub kind: Kind,
    /// The participants, as the first one named them.
    pub procs: Vec<Proc>,
    /// The participants, sorted: together with the kind it identifies a collective.
    pub signature: Vec<Proc>,
    pub infos: Vec<Info>,
    /// The identifier among these belongs to the collective's identity, too.
    pub terms: Terms,
    /// Processes that have not come have been asked to.
    pub has_asked: bool,
    /// A fence that exchanges the participants' values.
    pub collect: bool,
    /// When its first process entered.
    pub since: Instant,
    pub arrived: Vec<Arrival>,
    /// The processes that have arrived: each enters a collective once.
    pub present: HashSet<Proc>,
    /// The upcall has been made; no process can join any more.
    pub at_host: bool,
    /// When that was.
    pub asked: Option<Instant>,
    /// First failure among the local participants.
    pub status: Status,
    /// The first loss of a participant has been logged.
    pub is_loss_logged: bool,
    pub deadline: Option<Instant>,
    /// A construct of which each process is told to the host by itself: leaders that do not know each other, and added members.
    pub is_joined: bool,
    /// The bytes that its processes on this node send each other.
    pub sent: Sent,
    /// What the host says of a group.
    pub formed: FormedByHost,
    /// This server's contribution.
    pub contributed: Contributed,
}

/// The bytes that the processes of a node send to a group.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    /// Of `PMIX_GROUP_INFO`.
    pub infos: usize,
    /// Of endpoint data, which libraries add by themselves.
    pub endpoints: usize,
}

/// The host's answer about a group.
#[derive(Clone, Default)]
pub(super) struct FormedByHost {
    /// Its context id.
    pub context: Option<u64>,
    /// Its members; empty if the host does not name them.
    pub members: Vec<Proc>,
    /// What its members sent each other (`PMIX_GROUP_INFO`).
    pub infos: Vec<Info>,
}

/// A server's contribution to a fence.
#[derive(Default)]
pub(super) struct Contributed {
    /// Its bytes.
    pub len: usize,
    /// The number of each namespace's changes that it covers, earlier fences included.
    pub changes: Vec<(Nspace, u64)>,
}

impl Collective {
    /// A collective that a process is about to enter.
    pub fn new(
        kind: Kind,
        (procs, signature): (Vec<Proc>, Vec<Proc>),
        infos: Vec<Info>,
        terms: Terms,
        now: Instant,
    ) -> Collective {
        Collective {
            has_asked: false,
            terms,
            collect: kind.collects(&infos),
            kind,
            procs,
            signature,
            infos,
            since: now,
            arrived: Vec::new(),
            present: HashSet::new(),
            at_host: false,
            asked: None,
            status: Status::SUCCESS,
            is_loss_logged: false,
            deadline: None,
            is_joined: false,
            sent: Sent::default(),
            formed: FormedByHost::default(),
            contributed: Contributed::default(),
        }
    }

    /// Whether a participant of this node has set a time-out.
    pub fn may_expire(&self) -> bool {
        self.deadline.is_some()
    }

    /// The peers that wait for its end, with the tags for their replies.
    pub fn participants(&self) -> impl Iterator<Item = (PeerId, u32)> + use<> {
        self.arrived.iter().map(|arrival| (arrival.peer, arrival.tag)).collect::<Vec<_>>().into_iter()
    }
}

/// A process that has entered a collective.
pub(super) struct Arrival {
    pub peer: PeerId,
    pub tag: u32,
    pub proc: Proc,
}
