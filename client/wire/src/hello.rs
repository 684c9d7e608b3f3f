//! The handshake: the first message of a connection and the answers to it.
//!
//! The fields of the hello are C strings and big-endian words. Only the header and the native credential are in the
//! sender's byte order. After the handshake both sides use the encoder and the buffer type that the hello names.

use pmix_dstore::codec::{BufferType, Dialect, Module, Packer, Unpacker};
use pmix_dstore::model::{Info, Nspace, Proc, Rank, Result, Status};

use super::Version;

/// Longest handshake message in bytes, without its header.
pub const HELLO_LEN_MAX: usize = 131_072;

/// The attribute of a client that connects again to a server of this library that was restarted: the index of its former connection, as
/// `uint32_t`.
pub const FORMER_INDEX: &str = "pmix.dstore.again";

/// Bytes of the NUL-padded namespace field in the answer to a tool.
const NSPACE_FIELD_LEN: usize = 256;

/// The kind of the connecting peer: the flag of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PeerKind {
    /// A process that a server launched.
    Client = 0,
    /// A tool of releases 2.x.
    LegacyTool = 1,
    /// A launcher of releases 2.x.
    LegacyLauncher = 2,
    /// A tool that requests an id.
    Tool = 3,
    /// A tool with an id of its own choice.
    ToolWithId = 4,
    /// A tool that a server launched.
    ToolClient = 5,
    /// A launcher that requests an id.
    Launcher = 6,
    /// A launcher with an id of its own choice.
    LauncherWithId = 7,
    /// A launcher that a server launched.
    LauncherClient = 8,
    /// A process that no host launched.
    Singleton = 9,
    /// A scheduler.
    Scheduler = 10,
}

impl PeerKind {
    const ALL: [PeerKind; 11] = [
        PeerKind::Client,
        PeerKind::LegacyTool,
        PeerKind::LegacyLauncher,
        PeerKind::Tool,
        PeerKind::ToolWithId,
        PeerKind::ToolClient,
        PeerKind::Launcher,
        PeerKind::LauncherWithId,
        PeerKind::LauncherClient,
        PeerKind::Singleton,
        PeerKind::Scheduler,
    ];

    /// The kind with this flag.
    pub fn from_flag(flag: u8) -> Option<PeerKind> {
        PeerKind::ALL.get(usize::from(flag)).copied()
    }

    /// Whether the message contains uid and gid in plain form.
    pub(crate) fn has_uid_gid(self) -> bool {
        self != PeerKind::Client
    }

    /// Whether the message contains namespace and rank.
    pub fn has_proc(self) -> bool {
        !matches!(self, PeerKind::LegacyTool | PeerKind::LegacyLauncher | PeerKind::Tool | PeerKind::Launcher)
    }

    /// Whether the server gives the peer its namespace and rank.
    pub fn wants_id(self) -> bool {
        matches!(self, PeerKind::Tool | PeerKind::Launcher)
    }
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// Security module: `native`, `munge`, `none` or our own.
    pub psec: String,
    /// Its credential.
    pub credential: Vec<u8>,
    /// The flag: a [`PeerKind`].
    pub flag: u8,
    /// Effective uid and gid; present unless the peer is a client.
    pub uid_gid: Option<(u32, u32)>,
    /// The peer's id; absent for peers that get one from the server.
    pub proc: Option<Proc>,
    /// Release of the peer's library.
    pub version: String,
    /// The encoder of all later messages.
    pub module: Module,
    /// The buffer type of all later messages.
    pub buffer: BufferType,
    /// The data store that the peer uses with this server.
    pub gds: String,
    /// Further attributes of the peer; released clients before 6.0 send none.
    pub infos: Vec<Info>,
}

impl Hello {
    /// The dialect of all later messages on this connection. `peer` is the release of the library at the other end.
    pub fn dialect(&self, peer: Version) -> Dialect {
        Dialect::new(self.module, self.buffer).with_untyped(peer.untyped_arrays())
    }

    /// The release of the sender's library; ours if `version` does not parse.
    pub fn release(&self) -> Version {
        Version::parse(&self.version).unwrap_or(Version::OURS)
    }

    /// The credential of the `native` security module.
    pub fn native_credential(uid: u32, gid: u32) -> Vec<u8> {
        [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
    }

    /// Uid and gid of a credential of the `native` security module.
    pub fn read_native_credential(credential: &[u8]) -> Option<(u32, u32)> {
        let (uid, gid) = credential.split_first_chunk::<4>()?;
        Some((u32::from_ne_bytes(*uid), u32::from_ne_bytes(gid.try_into().ok()?)))
    }

    /// The credential of the `munge` security module, for munge's text.
    pub fn munge_credential(mut text: Vec<u8>) -> Vec<u8> {
        text.push(0);
        text
    }

    /// What this library adds to a munge credential: the server that it is for, by its URI. So a server that gets it
    /// cannot show it to another one. Released libraries add nothing.
    pub fn munge_payload(server: &str) -> Vec<u8> {
        format!("pmix-dstore {server}").into_bytes()
    }

    /// The whole message, its header included.
    ///
    /// # Errors
    /// `BAD_PARAM` if fields and flag do not match, or a name contains a NUL; errors of packing the infos.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let kind = PeerKind::from_flag(self.flag).ok_or(Status::ERR_BAD_PARAM)?;
        if kind.has_uid_gid() != self.uid_gid.is_some() || kind.has_proc() != self.proc.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut out = vec![0; 16];
        put_str(&mut out, self.psec.as_bytes())?;
        let len = u32::try_from(self.credential.len()).map_err(|_| Status::ERR_BAD_PARAM)?;
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&self.credential);
        out.push(self.flag);
        if let Some((uid, gid)) = self.uid_gid {
            out.extend_from_slice(&uid.to_be_bytes());
            out.extend_from_slice(&gid.to_be_bytes());
        }
        if let Some(proc) = &self.proc {
            put_str(&mut out, proc.nspace.as_bytes())?;
            out.extend_from_slice(&proc.rank.0.to_be_bytes());
        }
        put_str(&mut out, self.version.as_bytes())?;
        put_str(&mut out, self.module.name().as_bytes())?;
        out.push(self.buffer as u8);
        put_str(&mut out, self.gds.as_bytes())?;
        if !self.infos.is_empty() {
            let mut packer = Packer::new(self.dialect(self.release()));
            packer.infos(&self.infos)?;
            out.extend_from_slice(packer.as_bytes());
        }
        let len = out.len() - 16;
        if len > HELLO_LEN_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        out[..4].copy_from_slice(&(-1i32).to_ne_bytes());
        out[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        out[8..12].copy_from_slice(&(len as u32).to_ne_bytes());
        Ok(out)
    }

    /// The number of bytes after a handshake's header.
    ///
    /// # Errors
    /// `BAD_PARAM` if the header announces more than [`HELLO_LEN_MAX`]. A header in a foreign byte order does.
    pub fn payload_len(header: &[u8; 16]) -> Result<usize> {
        let len = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        if len > HELLO_LEN_MAX { Err(Status::ERR_BAD_PARAM) } else { Ok(len) }
    }

    /// The message of these bytes, which follow its header.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for an unknown encoder or an unknown kind of peer; otherwise the bytes are malformed.
    pub fn decode(payload: &[u8]) -> Result<Hello> {
        let mut fields = Fields(payload);
        let psec = fields.text()?;
        let len = fields.word()? as usize;
        let credential = fields.bytes(len)?.to_vec();
        let [flag] = fields.array()?;
        let kind = PeerKind::from_flag(flag).ok_or(Status::ERR_NOT_SUPPORTED)?;
        let uid_gid = if kind.has_uid_gid() { Some((fields.word()?, fields.word()?)) } else { None };
        let proc = if kind.has_proc() {
            let nspace = Nspace::new(fields.c_str()?).map_err(|_| Status::ERR_UNPACK_FAILURE)?;
            Some(Proc::new(nspace, Rank(fields.word()?)))
        } else {
            None
        };
        let version = fields.text()?;
        let mut hello = Hello {
            psec,
            credential,
            flag,
            uid_gid,
            proc,
            version,
            module: Module::V20,
            buffer: BufferType::NonDescribed,
            gds: "ds12,hash".into(),
            infos: Vec::new(),
        };
        if fields.0.is_empty() {
            // A 2.0 peer sends no further fields.
            return Ok(hello);
        }
        hello.module = Module::from_name(fields.c_str()?).ok_or(Status::ERR_NOT_SUPPORTED)?;
        let [buffer] = fields.array()?;
        hello.buffer = BufferType::from_code(buffer).ok_or(Status::ERR_UNPACK_FAILURE)?;
        hello.gds = fields.text()?;
        // Debian's 4.2.2 sends one NUL too many after the store's name.
        if fields.0.iter().any(|byte| *byte != 0) {
            hello.infos = Unpacker::new(hello.dialect(hello.release()), fields.0).infos()?;
        }
        Ok(hello)
    }
}

/// The answer to a client, and to a singleton of 5.0.9 or later, but not of 6.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientReply {
    /// 0, or the reason for which the server refuses the connection.
    pub status: Status,
    /// The index for the headers of this client; only sent with status 0.
    pub index: u32,
}

impl ClientReply {
    /// Bytes of the answer with status 0; a refusal has only the 4 bytes of the status.
    pub const LEN: usize = 8;

    /// The answer's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.status.0.to_be_bytes().to_vec();
        if self.status == Status::SUCCESS {
            out.extend_from_slice(&self.index.to_be_bytes());
        }
        out
    }

    /// The answer of these bytes.
    ///
    /// # Errors
    /// `UNPACK_READ_PAST_END_OF_BUFFER` if it is not complete.
    pub fn decode(bytes: &[u8]) -> Result<ClientReply> {
        let mut fields = Fields(bytes);
        let status = Status(fields.word()? as i32);
        let index = if status == Status::SUCCESS { fields.word()? } else { 0 };
        Ok(ClientReply { status, index })
    }
}

/// The answer to an accepted tool, launcher or scheduler, and to a singleton of a release before 5.0.9 or of 6.0.
///
/// A refusal is the status alone: 4 bytes, big-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    /// The id that the server gave the peer, if [`PeerKind::wants_id`].
    pub assigned: Option<Proc>,
    /// The server's own id.
    pub server: Proc,
    /// 0, or the status of the security module.
    pub security: Status,
}

impl ToolReply {
    /// Bytes of the answer to this kind of peer, unless it is refused.
    pub fn len(kind: PeerKind) -> usize {
        4 + (NSPACE_FIELD_LEN + 4) * (1 + usize::from(kind.wants_id())) + 4
    }

    /// The answer's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Status::SUCCESS.0.to_be_bytes().to_vec();
        for proc in self.assigned.iter().chain([&self.server]) {
            let start = out.len();
            out.extend_from_slice(proc.nspace.as_bytes());
            out.resize(start + NSPACE_FIELD_LEN, 0);
            out.extend_from_slice(&proc.rank.0.to_be_bytes());
        }
        out.extend_from_slice(&self.security.0.to_be_bytes());
        out
    }

    /// The answer of these bytes to a peer of this kind.
    ///
    /// # Errors
    /// The status of a refusal; otherwise the bytes are malformed or incomplete.
    pub fn decode(kind: PeerKind, bytes: &[u8]) -> Result<ToolReply> {
        let mut fields = Fields(bytes);
        let status = Status(fields.word()? as i32);
        if status != Status::SUCCESS {
            return Err(status);
        }
        let assigned = if kind.wants_id() { Some(fields.proc()?) } else { None };
        Ok(ToolReply { assigned, server: fields.proc()?, security: Status(fields.word()? as i32) })
    }
}

fn put_str(out: &mut Vec<u8>, text: &[u8]) -> Result<()> {
    if text.contains(&0) {
        return Err(Status::ERR_BAD_PARAM);
    }
    out.extend_from_slice(text);
    out.push(0);
    Ok(())
}

/// The unread fields of a handshake.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn word(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn c_str(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    fn text(&mut self) -> Result<String> {
        String::from_utf8(self.c_str()?.to_vec()).map_err(|_| Status::ERR_UNPACK_FAILURE)
    }

    fn proc(&mut self) -> Result<Proc> {
        let field = self.bytes(NSPACE_FIELD_LEN)?;
        let name = field.split(|byte| *byte == 0).next().unwrap_or_default();
        let nspace = Nspace::new(name).map_err(|_| Status::ERR_UNPACK_FAILURE)?;
        Ok(Proc::new(nspace, Rank(self.word()?)))
    }
}
