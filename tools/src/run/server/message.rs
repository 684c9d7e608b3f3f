//! What the launcher and its server's process tell each other: frames of a code, a number and the rest.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pmix_dstore::codec::{Packer, Unpacker};
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Nspace, Proc, Result, Status};
use pmix_server::{Stats, UpcallResult, Waiting};

use super::super::frame::{framed, whole};
use super::calls::Call;
use super::fields::{object, pack_nspace, pack_text, text};
use super::results;

/// What the launcher wants of the server: its functions of the same names, but for the first and the last ones. The number is that of the
/// reply; with 0 there is none.
#[derive(Debug, PartialEq)]
pub(in super::super) enum Order {
    /// Start, with these attributes.
    Begin {
        infos: Vec<Info>,
    },
    RegisterNspace {
        nspace: Nspace,
        size: u32,
        infos: Vec<Info>,
    },
    RegisterClient {
        proc: Proc,
        uid: u32,
        gid: u32,
        object: u64,
    },
    DeregisterClient {
        proc: Proc,
    },
    DeregisterNspace {
        nspace: Nspace,
    },
    SetupFork {
        proc: Proc,
    },
    DefineSet {
        name: CString,
        members: Vec<Proc>,
    },
    DeleteSet {
        name: CString,
    },
    Notify {
        code: Status,
        source: Proc,
        range: u8,
        infos: Vec<Info>,
    },
    ForgetEvents {
        code: Status,
    },
    AnnounceEnd {
        nspace: Nspace,
    },
    Deliver {
        source: Proc,
        channel: u16,
        data: Vec<u8>,
    },
    /// A process that pushes input may go on.
    ResumeInput {
        by: Proc,
    },
    Waiting,
    Stats,
    ReportUri {
        target: String,
    },
    /// The answer to an upcall, of that number.
    Answer {
        result: UpcallResult,
    },
    /// Reply when all before this is done.
    Settle,
    Finalize,
}

/// What the server's process tells the launcher.
#[derive(Debug, PartialEq)]
pub(super) enum ServerMessage {
    /// The reply to an order.
    Reply(Reply),
    /// An upcall; with 0 for its number nobody waits for an answer.
    Upcall(Call),
    /// An event that the launcher listens for.
    Event { code: Status, source: Proc, infos: Vec<Info> },
    /// The server has done something for its processes: it does not end each time before.
    Achieved,
}

/// The reply to an order.
#[derive(Debug, PartialEq)]
pub(in super::super) enum Reply {
    Status(Status),
    /// Variables for a rank.
    Variables(Vec<(String, OsString)>),
    Waiting(Waiting),
    Stats(Stats),
    /// The server has started, and has this address.
    Started {
        uri: String,
    },
    /// Why it has not, or what else has failed.
    Failed(String),
}

impl Order {
    /// The frame of this order.
    ///
    /// # Errors
    /// Those of packing, and of a message that is too long.
    pub fn frame(&self, id: u64) -> Result<Vec<u8>> {
        framed(|to| {
            to.byte(self.code());
            to.uint64(id);
            self.pack(to)
        })
    }

    fn code(&self) -> u8 {
        match self {
            Order::Begin { .. } => 0,
            Order::RegisterNspace { .. } => 1,
            Order::RegisterClient { .. } => 2,
            Order::DeregisterClient { .. } => 3,
            Order::DeregisterNspace { .. } => 4,
            Order::SetupFork { .. } => 5,
            Order::DefineSet { .. } => 6,
            Order::DeleteSet { .. } => 7,
            Order::Notify { .. } => 8,
            Order::ForgetEvents { .. } => 9,
            Order::AnnounceEnd { .. } => 10,
            Order::Deliver { .. } => 11,
            Order::ResumeInput { .. } => 12,
            Order::Waiting => 13,
            Order::Stats => 14,
            Order::ReportUri { .. } => 15,
            Order::Answer { .. } => 16,
            Order::Settle => 17,
            Order::Finalize => 18,
        }
    }

    fn pack(&self, to: &mut Packer) -> Result<()> {
        match self {
            Order::Begin { infos } => to.infos(infos)?,
            Order::RegisterNspace { nspace, size, infos } => {
                pack_nspace(to, nspace)?;
                to.uint32(*size);
                to.infos(infos)?;
            }
            Order::RegisterClient { proc, uid, gid, object } => {
                to.proc(proc);
                to.uint32(*uid);
                to.uint32(*gid);
                to.uint64(*object);
            }
            Order::DeregisterClient { proc } | Order::SetupFork { proc } | Order::ResumeInput { by: proc } => {
                to.proc(proc);
            }
            Order::DeregisterNspace { nspace } | Order::AnnounceEnd { nspace } => pack_nspace(to, nspace)?,
            Order::DefineSet { name, members } => {
                to.c_string(Some(name))?;
                to.procs(members)?;
            }
            Order::DeleteSet { name } => to.c_string(Some(name))?,
            Order::Notify { code, source, range, infos } => {
                to.status(*code);
                to.proc(source);
                to.byte(*range);
                to.infos(infos)?;
            }
            Order::ForgetEvents { code } => to.status(*code),
            Order::Deliver { source, channel, data } => {
                to.proc(source);
                to.uint32((*channel).into());
                to.byte_object(data)?;
            }
            Order::ReportUri { target } => pack_text(to, target)?,
            Order::Answer { result } => results::pack_upcall(to, result)?,
            Order::Waiting | Order::Stats | Order::Settle | Order::Finalize => {}
        }
        Ok(())
    }

    /// Reads an order without its length; returns it with its number.
    ///
    /// # Errors
    /// Those of unpacking, for everything that is not exactly one order.
    pub fn read(bytes: &[u8]) -> Result<(u64, Order)> {
        whole(bytes, |from| {
            let code = from.byte()?;
            Ok((from.uint64()?, Order::unpack(code, from)?))
        })
    }

    fn unpack(code: u8, from: &mut Unpacker<'_>) -> Result<Order> {
        let name = |from: &mut Unpacker<'_>| from.string()?.ok_or(Status::ERR_UNPACK_FAILURE);
        Ok(match code {
            0 => Order::Begin { infos: from.infos()? },
            1 => Order::RegisterNspace { nspace: from.nspace()?, size: from.uint32()?, infos: from.infos()? },
            2 => Order::RegisterClient {
                proc: from.proc()?,
                uid: from.uint32()?,
                gid: from.uint32()?,
                object: from.uint64()?,
            },
            3 => Order::DeregisterClient { proc: from.proc()? },
            4 => Order::DeregisterNspace { nspace: from.nspace()? },
            5 => Order::SetupFork { proc: from.proc()? },
            6 => Order::DefineSet { name: name(from)?, members: from.procs()? },
            7 => Order::DeleteSet { name: name(from)? },
            8 => {
                Order::Notify { code: from.status()?, source: from.proc()?, range: from.byte()?, infos: from.infos()? }
            }
            9 => Order::ForgetEvents { code: from.status()? },
            10 => Order::AnnounceEnd { nspace: from.nspace()? },
            11 => Order::Deliver {
                source: from.proc()?,
                channel: from.uint32()?.try_into().map_err(|_| Status::ERR_UNPACK_FAILURE)?,
                data: object(from)?,
            },
            12 => Order::ResumeInput { by: from.proc()? },
            13 => Order::Waiting,
            14 => Order::Stats,
            15 => Order::ReportUri { target: text(from)? },
            16 => Order::Answer { result: results::upcall(from)? },
            17 => Order::Settle,
            18 => Order::Finalize,
            _ => return Err(Status::ERR_UNPACK_FAILURE),
        })
    }
}

impl ServerMessage {
    /// The frame of this message.
    ///
    /// # Errors
    /// Those of packing, and of a message that is too long.
    pub fn frame(&self, id: u64) -> Result<Vec<u8>> {
        framed(|to| match self {
            ServerMessage::Reply(reply) => {
                to.byte(0);
                to.uint64(id);
                reply.pack(to)
            }
            ServerMessage::Upcall(call) => {
                to.byte(1);
                to.uint64(id);
                call.pack(to)
            }
            ServerMessage::Event { code, source, infos } => {
                to.byte(2);
                to.uint64(id);
                to.status(*code);
                to.proc(source);
                to.infos(infos)
            }
            ServerMessage::Achieved => {
                to.byte(3);
                to.uint64(id);
                Ok(())
            }
        })
    }

    /// Reads a message without its length; returns it with its number.
    ///
    /// # Errors
    /// Those of unpacking, for everything that is not exactly one message.
    pub fn read(bytes: &[u8]) -> Result<(u64, ServerMessage)> {
        whole(bytes, |from| {
            let code = from.byte()?;
            let id = from.uint64()?;
            let said = match code {
                0 => ServerMessage::Reply(Reply::unpack(from)?),
                1 => ServerMessage::Upcall(Call::unpack(from)?),
                2 => ServerMessage::Event { code: from.status()?, source: from.proc()?, infos: from.infos()? },
                3 => ServerMessage::Achieved,
                _ => return Err(Status::ERR_UNPACK_FAILURE),
            };
            Ok((id, said))
        })
    }
}

impl Reply {
    fn pack(&self, to: &mut Packer) -> Result<()> {
        match self {
            Reply::Status(status) => {
                to.byte(0);
                to.status(*status);
            }
            Reply::Variables(variables) => {
                to.byte(1);
                to.size(variables.len() as u64);
                for (name, value) in variables {
                    pack_text(to, name)?;
                    to.byte_object(value.as_bytes())?;
                }
            }
            Reply::Waiting(waiting) => {
                to.byte(2);
                results::pack_waiting(to, waiting)?;
            }
            Reply::Stats(stats) => {
                to.byte(3);
                results::pack_stats(to, stats);
            }
            Reply::Started { uri } => {
                to.byte(4);
                pack_text(to, uri)?;
            }
            Reply::Failed(why) => {
                to.byte(5);
                to.byte_object(why.as_bytes())?;
            }
        }
        Ok(())
    }

    fn unpack(from: &mut Unpacker<'_>) -> Result<Reply> {
        Ok(match from.byte()? {
            0 => Reply::Status(from.status()?),
            1 => {
                let count = from.count()?;
                let mut variables = Vec::new();
                for _ in 0..count {
                    let variable = (text(from)?, OsString::from_vec(object(from)?));
                    fallible_alloc::push(&mut variables, variable)?;
                }
                Reply::Variables(variables)
            }
            2 => Reply::Waiting(results::waiting(from)?),
            3 => Reply::Stats(results::stats(from)?),
            4 => Reply::Started { uri: text(from)? },
            5 => Reply::Failed(String::from_utf8_lossy(&object(from)?).into_owned()),
            _ => return Err(Status::ERR_UNPACK_FAILURE),
        })
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
