//! What two launchers tell each other: frames of a length and a message.

use pmix_dstore::codec::{Packer, Unpacker};
use pmix_dstore::model::{Info, Nspace, Proc, Result, Status};

use super::super::frame::{framed, whole};
use super::rounds::{Operation, Round};

pub(super) use super::super::frame::{FRAME_MAX, HEAD};

/// The form of the messages, with which each side begins.
const FORM: &str = "pmixrun partner 1";

/// A message. All names in it have their cluster. A fence whose data make it too long fails.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// The first one of each side: its cluster.
    Hello { cluster: Vec<u8> },
    /// A job is about to start.
    Job { nspace: Nspace, size: u32, infos: Vec<Info> },
    /// All processes of a job have ended.
    JobEnded { nspace: Nspace },
    /// One of them has.
    ProcessEnded { proc: Proc },
    /// A process publishes values for the other cluster, too. The result is wanted unless `id` is 0.
    Publish { id: u64, proc: Proc, infos: Vec<Info> },
    /// A process takes values back; all if it names none.
    Unpublish { proc: Proc, keys: Vec<Vec<u8>> },
    /// All processes of a cluster have entered a fence, connect or disconnect.
    Enter { id: u64, round: Round, status: Status, is_excused: bool, data: Vec<u8> },
    /// Its launcher waits no longer.
    Withdraw { id: u64 },
    /// A process wants the values of one of the other cluster.
    Modex { id: u64, proc: Proc },
    /// What has become of a request of the other side.
    Result { id: u64, status: Status, data: Vec<u8> },
    /// An event for processes of the other cluster.
    Event { code: Status, source: Proc, infos: Vec<Info> },
}

impl Message {
    /// The frame of a message.
    ///
    /// # Errors
    /// Those of packing; `ERR_OUT_OF_RESOURCE` for one that is too long.
    pub fn frame(&self) -> Result<Vec<u8>> {
        framed(|packer| self.pack(packer))
    }

    fn pack(&self, to: &mut Packer) -> Result<()> {
        match self {
            Message::Hello { cluster } => {
                to.byte(0);
                to.string(Some(FORM.as_bytes()))?;
                to.string(Some(cluster))
            }
            Message::Job { nspace, size, infos } => {
                to.byte(1);
                to.string(Some(nspace.as_bytes()))?;
                to.uint32(*size);
                to.infos(infos)
            }
            Message::JobEnded { nspace } => {
                to.byte(2);
                to.string(Some(nspace.as_bytes()))
            }
            Message::ProcessEnded { proc } => {
                to.byte(3);
                to.proc(proc);
                Ok(())
            }
            Message::Publish { id, proc, infos } => {
                to.byte(4);
                to.uint64(*id);
                to.proc(proc);
                to.infos(infos)
            }
            Message::Unpublish { proc, keys } => {
                to.byte(5);
                to.proc(proc);
                to.size(keys.len() as u64);
                to.strings(keys)
            }
            Message::Enter { id, round, status, is_excused, data } => {
                to.byte(6);
                to.uint64(*id);
                to.byte(round.operation as u8);
                to.procs(&round.procs)?;
                to.string(round.id.as_deref())?;
                to.status(*status);
                to.bool(*is_excused);
                to.byte_object(data)
            }
            Message::Withdraw { id } => {
                to.byte(7);
                to.uint64(*id);
                Ok(())
            }
            Message::Modex { id, proc } => {
                to.byte(8);
                to.uint64(*id);
                to.proc(proc);
                Ok(())
            }
            Message::Result { id, status, data } => {
                to.byte(9);
                to.uint64(*id);
                to.status(*status);
                to.byte_object(data)
            }
            Message::Event { code, source, infos } => {
                to.byte(10);
                to.status(*code);
                to.proc(source);
                to.infos(infos)
            }
        }
    }

    /// Reads a message, without its length.
    ///
    /// # Errors
    /// Those of unpacking, for everything that is not exactly one message of this form.
    pub fn read(bytes: &[u8]) -> Result<Message> {
        whole(bytes, Message::unpack)
    }

    fn unpack(from: &mut Unpacker<'_>) -> Result<Message> {
        Ok(match from.byte()? {
            0 => {
                if from.bytes()? != Some(FORM.as_bytes()) {
                    return Err(Status::ERR_NOT_SUPPORTED);
                }
                Message::Hello { cluster: from.bytes()?.unwrap_or_default().to_vec() }
            }
            1 => Message::Job { nspace: from.nspace()?, size: from.uint32()?, infos: from.infos()? },
            2 => Message::JobEnded { nspace: from.nspace()? },
            3 => Message::ProcessEnded { proc: from.proc()? },
            4 => Message::Publish { id: from.uint64()?, proc: from.proc()?, infos: from.infos()? },
            5 => {
                let (proc, count) = (from.proc()?, from.count()?);
                let keys = from.strings(count)?.into_iter().map(|key| key.into_bytes()).collect();
                Message::Unpublish { proc, keys }
            }
            6 => Message::Enter {
                id: from.uint64()?,
                round: Round {
                    operation: Operation::of_code(from.byte()?).ok_or(Status::ERR_UNPACK_FAILURE)?,
                    procs: from.procs()?,
                    id: from.bytes()?.map(<[u8]>::to_vec),
                },
                status: from.status()?,
                is_excused: from.bool()?,
                data: pmix_dstore::fallible_alloc::copy(from.byte_object()?)?,
            },
            7 => Message::Withdraw { id: from.uint64()? },
            8 => Message::Modex { id: from.uint64()?, proc: from.proc()? },
            9 => Message::Result {
                id: from.uint64()?,
                status: from.status()?,
                data: pmix_dstore::fallible_alloc::copy(from.byte_object()?)?,
            },
            10 => Message::Event { code: from.status()?, source: from.proc()?, infos: from.infos()? },
            _ => return Err(Status::ERR_UNPACK_FAILURE),
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Rank, Value, keys};

    use super::*;

    fn all() -> Vec<Message> {
        let nspace = || Nspace::new("east:job").unwrap();
        let proc = || Proc::new(nspace(), Rank(3));
        let infos = || vec![Info::new(keys::JOB_SIZE, Value::Uint32(4)), Info::new("own", Value::procs([proc()]))];
        let round = |id: Option<&[u8]>| Round {
            operation: Operation::Connect,
            procs: vec![proc(), Proc::new(nspace(), Rank::WILDCARD)],
            id: id.map(<[u8]>::to_vec),
        };
        let enter = |id| Message::Enter {
            id: 1 << 40,
            round: round(id),
            status: Status::ERR_LOST_CONNECTION,
            is_excused: true,
            data: vec![1, 0, 2],
        };
        vec![
            Message::Hello { cluster: b"east".to_vec() },
            Message::Job { nspace: nspace(), size: 4, infos: infos() },
            Message::JobEnded { nspace: nspace() },
            Message::ProcessEnded { proc: proc() },
            Message::Publish { id: 7, proc: proc(), infos: infos() },
            Message::Unpublish { proc: proc(), keys: vec![b"one".to_vec(), b"two".to_vec()] },
            Message::Unpublish { proc: proc(), keys: Vec::new() },
            enter(None),
            enter(Some(b"id")),
            Message::Withdraw { id: 9 },
            Message::Modex { id: 10, proc: proc() },
            Message::Result { id: 10, status: Status::SUCCESS, data: vec![7; 300] },
            Message::Event { code: Status::ERR_PROC_TERM_WO_SYNC, source: proc(), infos: Vec::new() },
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in all() {
            let frame = message.frame().unwrap();
            assert_eq!(u32::from_be_bytes(frame[..HEAD].try_into().unwrap()) as usize, frame.len() - HEAD);
            assert_eq!(Message::read(&frame[HEAD..]), Ok(message));
        }
    }

    /// No change of a byte and no cut makes a panic, and what is too short is refused.
    #[test]
    fn damaged_messages_are_refused_or_others() {
        for frame in all().iter().map(|message| message.frame().unwrap()) {
            let body = &frame[HEAD..];
            for at in 0..body.len() {
                assert!(Message::read(&body[..at]).is_err());
                for bit in 0..8 {
                    let mut changed = body.to_vec();
                    changed[at] ^= 1 << bit;
                    let _ = Message::read(&changed);
                }
            }
            assert!(Message::read(&[body, b"x"].concat()).is_err());
        }
        let long = Message::Result { id: 1, status: Status::SUCCESS, data: vec![0; FRAME_MAX] };
        assert_eq!(long.frame(), Err(Status::ERR_OUT_OF_RESOURCE));
    }
}
