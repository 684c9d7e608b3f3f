//! Who comes beside the ranks: tools, and those who must be refused; ranks that send what nobody can read.

use pmix_dstore::model::{Info, Nspace, Proc, Rank as Number, Status, Value, keys};
use pmix_server::UpcallResult;
use pmix_server::simulate::{SECURITY, STORE, Word};
use pmix_wire::{Hello, PeerKind};

use crate::calls::NUMBER;
use crate::invariant::Invariant;
use crate::rank::{Rank, Role};
use crate::world::{Job, What, World};

/// Connections from here on are those of intruders.
pub(crate) const INTRUDERS: u64 = 1 << 40;
/// A user without any process.
const STRANGER: u32 = 3000;
/// The ways of intruders.
const WAYS: u8 = 24;

/// The kinds of tools: what they say they are, and whether they have a name.
const TOOLS: [(PeerKind, bool); 6] = [
    (PeerKind::Tool, false),
    (PeerKind::ToolWithId, true),
    (PeerKind::Launcher, false),
    (PeerKind::LauncherWithId, true),
    (PeerKind::Scheduler, true),
    (PeerKind::Singleton, true),
];

impl World {
    /// A tool comes.
    pub(crate) fn start_tool(&mut self, server: usize, user: u32, form: u8) {
        let number = self.jobs.len();
        let is_elsewhere = |job: &&Job| !job.is_of_tool && job.user == user && !job.servers.contains(&server);
        let job = self.jobs.iter().find(is_elsewhere).filter(|_| form.is_multiple_of(2)).map(|job| job.nspace.clone());
        let (nspace, proc, form) = match job {
            // By the name of a job of its user that this server has not heard of.
            Some(nspace) => (nspace.clone(), Proc::new(nspace, Number(500 + number as u32)), 1),
            None => {
                let Ok(nspace) = Nspace::new(format!("tool{number}")) else { return };
                (nspace.clone(), Proc::new(nspace, Number(u32::from(form) % 3)), form)
            }
        };
        let rank = self.ranks.len();
        self.ranks.push(Rank::tool(proc, number, server, user, form));
        self.jobs.push(Job {
            nspace,
            user,
            ranks: vec![rank],
            servers: Vec::new(),
            is_of_tool: true,
            infos: Vec::new(),
        });
        let late = self.delay("start", rank as u64, 1);
        self.after(late, What::Hello(rank));
    }

    /// The handshake of a tool, and by whose word it is somebody.
    pub(crate) fn tool_hello(&self, rank: usize, form: u8) -> (Word, Hello) {
        let (kind, is_named) = TOOLS[usize::from(form) % TOOLS.len()];
        let one = &self.ranks[rank];
        let user = (one.user, one.user);
        // From another host munge alone counts.
        let comes_by_itself = kind != PeerKind::Singleton;
        let (word, psec) = match form / 8 % 4 {
            0 => (Word::Claim, "native"),
            1 if comes_by_itself => (Word::Munge { user, is_remote: true, is_bound: true }, "munge"),
            2 => (Word::Munge { user, is_remote: false, is_bound: false }, "munge"),
            3 => (Word::Kernel(one.user), "munge"),
            _ => (Word::Kernel(one.user), "native"),
        };
        let hello = Hello {
            psec: psec.into(),
            flag: kind as u8,
            uid_gid: Some(user),
            proc: is_named.then(|| one.proc.clone()),
            infos: vec![Info::new(NUMBER, Value::Uint32(rank as u32))],
            ..one.hello()
        };
        (word, hello)
    }

    /// A host names a tool, or lets it in as it is, or does not.
    pub(crate) fn asked_tool(&mut self, server: usize, id: u64, infos: &[Info]) {
        let rank = Info::find(infos, NUMBER).and_then(Value::as_u32).map_or(usize::MAX, |rank| rank as usize);
        if self.ranks.get(rank).is_none_or(|rank| !matches!(rank.role, Role::Tool(_))) {
            return self.violated(Invariant::Signed, format!("a tool is not told: {infos:?}"));
        }
        let proc = self.ranks[rank].proc.clone();
        self.check_signed(&proc, infos);
        let is_named = Info::find(infos, keys::NSPACE).is_some();
        let answer = match self.ranks[rank].role {
            Role::Tool(form) if form % 16 == 15 => UpcallResult::Op(Status::ERR_NO_PERMISSIONS),
            Role::Tool(form) if form % 16 == 9 && is_named => UpcallResult::Op(Status::ERR_NOT_SUPPORTED),
            _ => UpcallResult::Name(Status::SUCCESS, Some(proc).filter(|_| !is_named)),
        };
        self.answer(server, id, answer);
    }

    /// A connection is dropped.
    pub(crate) fn closed(&mut self, server: usize, peer: u64) {
        if peer >= INTRUDERS {
            self.refused.insert(peer);
            return;
        }
        let rank = World::rank_of(peer);
        if self.is_too_early(server, rank) {
            return;
        }
        let one = &self.ranks[rank];
        let is_refusable = match one.role {
            // The host refuses some, and a server those whose user has no process there.
            Role::Tool(form) => {
                // With a job's name it is let in or not, and evicted when the job is registered.
                let is_job = |job: &Job| !job.is_of_tool && job.nspace == one.proc.nspace;
                let is_evicted = self.jobs.iter().any(is_job) || self.evicts == Some(server);
                is_evicted || !one.is_admitted && (form % 16 == 15 || !self.has_process(one.user, server))
            }
            _ => false,
        };
        if !is_refusable && !one.is_garbling {
            let what = format!("server {server} dropped {}, which said nothing wrong", one.proc);
            return self.violated(Invariant::AnsweredOnce, what);
        }
        self.kill_now(rank);
    }

    /// Whether a user has a rank at a server.
    fn has_process(&self, user: u32, server: usize) -> bool {
        let is_its = |rank: &Rank| rank.role == Role::Rank && rank.user == user && rank.server == server;
        self.ranks.iter().any(|rank| is_its(rank) && rank.lives && rank.is_admitted)
    }

    /// Somebody comes who must be refused.
    pub(crate) fn intrude(&mut self, server: usize, way: u8) {
        let ranks: Vec<usize> = (0..self.ranks.len())
            .filter(|rank| self.ranks[*rank].role == Role::Rank && self.ranks[*rank].server == server)
            .collect();
        let Some(rank) = ranks.get(usize::from(way / WAYS) % ranks.len().max(1)).copied() else { return };
        let one = &self.ranks[rank];
        let (user, proc, hello) = (one.user, one.proc.clone(), one.hello());
        let Ok(nobody) = Nspace::new("nobody") else { return };
        let nobody = Proc::new(nobody, proc.rank);
        let tool = |kind: PeerKind, named: Option<&Proc>| Hello {
            flag: kind as u8,
            uid_gid: Some((user, user)),
            proc: named.cloned(),
            ..hello.clone()
        };
        let stranger = |hello: Hello| Hello {
            credential: Hello::native_credential(STRANGER, STRANGER),
            uid_gid: hello.uid_gid.map(|_| (STRANGER, STRANGER)),
            ..hello
        };
        let munge = |user, is_remote| Word::Munge { user: (user, user), is_remote, is_bound: true };
        let with = |psec: &str, hello: Hello| Hello { psec: psec.into(), ..hello };
        let own = Word::Kernel(user);
        let (word, hello) = match way % WAYS {
            0 => (own, Hello { proc: Some(nobody), ..hello }),
            1 => (own, Hello { proc: Some(Proc::new(proc.nspace, Number(999))), ..hello }),
            2 => (Word::Kernel(STRANGER), hello),
            3 => (Word::Claim, stranger(hello)),
            4 => (own, with("none", hello)),
            5 => (own, Hello { proc: None, ..hello }),
            6 => (Word::Nobody, hello),
            7 => (Word::Claim, Hello { credential: b"x".to_vec(), ..hello }),
            8 => (Word::Unix(user, user, 1), with(SECURITY, Hello { credential: b"guess".to_vec(), ..hello })),
            9 => (Word::Unix(user, user, 1), hello),
            10 => (Word::Kernel(STRANGER), stranger(tool(PeerKind::Tool, None))),
            11 => (own, tool(PeerKind::LegacyTool, None)),
            12 => (own, tool(PeerKind::LegacyLauncher, None)),
            13 => (Word::Nobody, tool(PeerKind::Tool, None)),
            14 => (Word::Unix(user, user, 1), tool(PeerKind::Tool, None)),
            15 => (own, with(SECURITY, tool(PeerKind::Tool, None))),
            16 => (own, tool(PeerKind::ToolWithId, Some(&proc))),
            17 => (munge(STRANGER, true), with("munge", tool(PeerKind::Tool, None))),
            18 => (own, with("none", tool(PeerKind::Tool, None))),
            19 => (Word::Claim, Hello { uid_gid: Some((STRANGER, 1)), ..tool(PeerKind::Tool, None) }),
            20 => (Word::Claim, with("munge", hello)),
            21 => (Word::Claim, with("munge", tool(PeerKind::Tool, None))),
            22 => (munge(STRANGER, false), with("munge", hello)),
            _ => (Word::Kernel(STRANGER), stranger(tool(PeerKind::ToolClient, Some(&proc)))),
        };
        // Those whose user has nobody here are not even read.
        let of_stranger = matches!(word, Word::Kernel(STRANGER));
        if of_stranger && !self.servers[server].is_nobody(Some(STRANGER)) || self.servers[server].is_nobody(None) {
            let what = format!("server {server} does not know who is nobody, way {}", way % WAYS);
            self.violated(Invariant::Refused, what);
        }
        self.intruders += 1;
        let connection = INTRUDERS + self.intruders;
        self.servers[server].hello_by(connection, word, hello);
        self.take_from(server);
        if !self.refused.contains(&connection) {
            self.violated(
                Invariant::Refused,
                format!("server {server} did not refuse an intruder, way {}", way % WAYS),
            );
        }
        let now = self.time();
        self.servers[server].disconnected(connection, now);
    }

    /// A rank sends what nobody can read, and is dropped for it; the host takes it for lost.
    pub(crate) fn garble(&mut self, rank: usize) {
        let one = &mut self.ranks[rank];
        if !one.lives || !one.is_admitted || one.role == Role::Server {
            return;
        }
        one.is_garbling = true;
        let (tag, bytes) = (one.tag, b"\xff\x00nonsense".to_vec());
        one.tag += 1;
        let time = self.arrival(rank, 0);
        self.at(time, What::Up { rank, tag, bytes });
    }

    /// What a rank's handshake is, over the Unix socket of its job where it has one.
    pub(crate) fn rank_hello(&mut self, rank: usize) -> (Word, Hello) {
        let (server, proc, user) = (self.ranks[rank].server, self.ranks[rank].proc.clone(), self.ranks[rank].user);
        let hello = self.ranks[rank].hello();
        let environment = self.servers[server].setup_fork(&proc);
        let secret = environment.into_iter().find(|(name, _)| name == "PMIX_DSTORE_SECRET");
        let secret = secret.and_then(|(_, secret)| secret.into_string().ok()).map(String::into_bytes);
        let secret = self.first_secret(rank, secret);
        if !self.is_without_host(rank) && self.servers[server].is_nobody(Some(user)) {
            self.violated(Invariant::Refused, format!("server {server} takes {proc} for nobody"));
        }
        let shares = hello.gds == STORE;
        let secret = secret.filter(|_| shares);
        self.ranks[rank].is_ours = secret.is_some();
        match secret {
            Some(credential) => {
                let hello = self.with_former(rank, Hello { psec: SECURITY.into(), credential, ..hello });
                (Word::Unix(user, user, 100 + rank as i32), hello)
            }
            None if rank.is_multiple_of(4) => (Word::Kernel(user), hello),
            None if rank % 4 == 1 => (
                Word::Munge { user: (user, user), is_remote: false, is_bound: false },
                Hello { psec: "munge".into(), ..hello },
            ),
            None => {
                let infos = vec![Info::new(keys::PROC_PID, Value::Pid(100 + rank as i32))];
                (Word::Claim, Hello { infos, ..hello })
            }
        }
    }
}
