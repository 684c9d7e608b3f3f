//! Messages that a server sends without a request.

use pmix_dstore::codec::{Dialect, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{DataType, Info, Key, Proc, Result, Scope, Status};

use super::{Command, Version, packer};

/// An event, on [`TAG_NOTIFY`](super::TAG_NOTIFY).
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// The event's code.
    pub status: Status,
    /// The process that caused it.
    pub source: Proc,
    /// Infos about it.
    pub infos: Vec<Info>,
    /// The range of the event. Servers before 4.0 do not send it, and later ones leave it out of cached events that
    /// they send to a newly connected peer. No client needs it.
    pub range: Option<u8>,
}

impl Notification {
    /// The payload for a client of this version.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if an info has a type that the client's encoder does not know.
    pub fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.command(Command::NOTIFY.0);
        packer.status(self.status);
        packer.proc(&self.source);
        packer.infos(&self.infos)?;
        if let Some(range) = self.range {
            packer.code(DataType::DATA_RANGE, range.into());
        }
        Ok(packer.into_bytes())
    }

    /// The notification of a payload.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<Notification> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        unpacker.command()?;
        Ok(Notification {
            status: unpacker.status()?,
            source: unpacker.proc()?,
            infos: unpacker.infos()?,
            range: if unpacker.is_empty() { None } else { Some(unpacker.code(DataType::DATA_RANGE)? as u8) },
        })
    }
}

/// Output of a process, on [`TAG_IOF`](super::TAG_IOF).
#[derive(Clone, Debug, PartialEq)]
pub struct IoDelivery {
    /// The process that wrote the output.
    pub source: Proc,
    /// The channel: 1 stdin, 2 stdout, 4 stderr, 8 diagnostics.
    pub channel: u16,
    /// The id that the receiver gave its handler; 0 is a tool's default one.
    pub handler: u64,
    /// Infos about it.
    pub infos: Vec<Info>,
    /// The bytes; none at the end of the stream.
    pub data: Vec<u8>,
}

impl IoDelivery {
    /// The payload.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if an info has a type that the client's encoder does not know.
    pub fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.proc(&self.source);
        packer.code(DataType::IOF_CHANNEL, self.channel.into());
        packer.size(self.handler);
        packer.infos(&self.infos)?;
        packer.byte_object(&self.data)?;
        Ok(packer.into_bytes())
    }

    /// The output of a payload.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<IoDelivery> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        Ok(IoDelivery {
            source: unpacker.proc()?,
            channel: unpacker.code(DataType::IOF_CHANNEL)? as u16,
            handler: unpacker.size()?,
            infos: unpacker.infos()?,
            data: fallible_alloc::copy(unpacker.byte_object()?)?,
        })
    }
}

/// Pauses or resumes input, on [`TAG_FLOW_CONTROL`](super::TAG_FLOW_CONTROL).
#[derive(Clone, Debug, PartialEq)]
pub struct FlowControl {
    /// The process that reads the input; the wildcard rank of the empty namespace means all processes.
    pub source: Proc,
    /// Channels; only the bit of stdin matters.
    pub channel: u16,
    /// Whether to pause sending.
    pub is_off: bool,
    /// Infos about it.
    pub infos: Vec<Info>,
}

impl FlowControl {
    /// The payload.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if an info has a type that the client's encoder does not know.
    pub fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.proc(&self.source);
        packer.code(DataType::IOF_CHANNEL, self.channel.into());
        packer.bool(self.is_off);
        packer.infos(&self.infos)?;
        Ok(packer.into_bytes())
    }

    /// The flow control of a payload.
    ///
    /// # Errors
    /// Malformed bytes.
    pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<FlowControl> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        Ok(FlowControl {
            source: unpacker.proc()?,
            channel: unpacker.code(DataType::IOF_CHANNEL)? as u16,
            is_off: unpacker.bool()?,
            infos: unpacker.infos()?,
        })
    }
}

/// A process has deleted a key, on [`TAG_DELETED`](super::TAG_DELETED): clients remove cached values of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The process that owns the key.
    pub proc: Proc,
    /// The scope from which the key is deleted.
    pub scope: Scope,
    /// The key.
    pub key: Key,
}

impl Deletion {
    /// The payload.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn encode(&self, dialect: Dialect, to: Version) -> Result<Vec<u8>> {
        let mut packer = packer(dialect, to);
        packer.proc(&self.proc);
        packer.code(DataType::SCOPE, self.scope.deletion_code().into());
        packer.string(Some(self.key.as_bytes()))?;
        Ok(packer.into_bytes())
    }

    /// The deletion of a payload.
    ///
    /// # Errors
    /// Malformed bytes, or a scope that is not a deleting one.
    pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<Deletion> {
        let mut unpacker = Unpacker::new(dialect, bytes);
        Ok(Deletion {
            proc: unpacker.proc()?,
            scope: Scope::of_deletion(unpacker.code(DataType::SCOPE)? as u8).ok_or(Status::ERR_UNPACK_FAILURE)?,
            key: unpacker.key()?,
        })
    }
}
