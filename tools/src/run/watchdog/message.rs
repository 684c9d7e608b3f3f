//! The messages between launcher and watchdog, one packet each.

use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recv, recvmsg, sendmsg};
use nix::unistd::Pid;

use super::super::ranks::Program;
use super::{News, ending};

/// A request of the launcher. The methods of `Watchdog` document each one.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    Guard(PathBuf),
    Load(Program),
    Unload(u32),
    /// The program's number, the number of descriptors that come along, and the variables.
    Start(u32, u32, Vec<(String, String)>),
    TimerSlack(Duration),
    SignalRanks(Signal),
    SignalAll(Signal),
    SignalThese(Signal, Vec<Pid>),
    Finish(Duration),
    /// The socket of the new watchdog comes along.
    Another,
}

/// A message of the watchdog.
#[derive(Debug)]
pub(super) enum Reply {
    Started(Pid),
    Refused(String),
    News(News),
}

/// Maximum length of a request in bytes: less than the default buffer of a socket.
const REQUEST_LEN_MAX: usize = 200_000;
/// Maximum length of a reply in bytes.
const REPLY_LEN_MAX: usize = 4096;
/// Descriptors of a rank: its streams, and its connection for PMI-1.
const STREAMS_MAX: usize = 4;

impl Request {
    /// The length of a request that is too long, and the largest one.
    pub fn excess(&self) -> Option<(usize, usize)> {
        let len = self.encode().len();
        (len > REQUEST_LEN_MAX).then_some((len, REQUEST_LEN_MAX))
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Request::Guard(path) => [b"G", path.as_os_str().as_bytes()].concat(),
            Request::Load(program) => encode_program(program),
            Request::Unload(program) => [&b"U"[..], &program.to_ne_bytes()].concat(),
            Request::Start(program, streams, env) => {
                let variables = env.iter().map(|(name, value)| format!("{name}={value}"));
                let variables = variables.collect::<Vec<_>>().join("\0").into_bytes();
                [b"S".to_vec(), program.to_ne_bytes().to_vec(), streams.to_ne_bytes().to_vec(), variables].concat()
            }
            Request::TimerSlack(slack) => [&b"T"[..], &slack.as_secs_f64().to_ne_bytes()].concat(),
            Request::SignalRanks(signal) => vec![b'R', *signal as u8],
            Request::SignalAll(signal) => vec![b'A', *signal as u8],
            Request::SignalThese(signal, pids) => {
                let pids = pids.iter().flat_map(|pid| pid.as_raw().to_ne_bytes());
                [b'K', *signal as u8].into_iter().chain(pids).collect()
            }
            Request::Finish(grace) => [&b"F"[..], &grace.as_secs_f64().to_ne_bytes()].concat(),
            Request::Another => b"W".to_vec(),
        }
    }

    fn decode(packet: &[u8]) -> Option<Request> {
        let (kind, rest) = packet.split_first()?;
        let signal = || Signal::try_from(i32::from(*rest.first()?)).ok();
        let duration = || {
            let seconds = f64::from_ne_bytes(rest.try_into().ok()?);
            Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        };
        Some(match kind {
            b'G' => Request::Guard(OsString::from_vec(rest.to_vec()).into()),
            b'L' => Request::Load(decode_program(rest)?),
            b'U' => Request::Unload(u32::from_ne_bytes(rest.try_into().ok()?)),
            b'S' => {
                let (program, rest) = rest.split_first_chunk()?;
                let (streams, rest) = rest.split_first_chunk()?;
                let text = std::str::from_utf8(rest).ok()?;
                let variables = text.split('\0').filter_map(|variable| variable.split_once('='));
                let variables = variables.map(|(name, value)| (name.into(), value.into())).collect();
                Request::Start(u32::from_ne_bytes(*program), u32::from_ne_bytes(*streams), variables)
            }
            b'R' => Request::SignalRanks(signal()?),
            b'A' => Request::SignalAll(signal()?),
            b'K' => {
                let pids = rest.get(1..)?.as_chunks().0.iter();
                Request::SignalThese(signal()?, pids.map(|pid| Pid::from_raw(i32::from_ne_bytes(*pid))).collect())
            }
            b'T' => Request::TimerSlack(duration()?),
            b'F' => Request::Finish(duration()?),
            b'W' => Request::Another,
            _ => return None,
        })
    }
}

/// A program: words with a NUL after each, the numbers of arguments and variables before them.
fn encode_program(program: &Program) -> Vec<u8> {
    let Program { path, name, args, variables, wdir, stops_on_exec } = program;
    let mut packet = vec![b'L', u8::from(*stops_on_exec), u8::from(wdir.is_some())];
    packet.extend([args.len(), variables.len()].into_iter().flat_map(|count| (count as u32).to_ne_bytes()));
    let mut add = |word: &OsStr| {
        packet.extend_from_slice(word.as_bytes());
        packet.push(0);
    };
    add(path.as_os_str());
    add(name);
    add(wdir.as_deref().unwrap_or_else(|| Path::new("")).as_os_str());
    args.iter().for_each(|word| add(word));
    for (name, value) in variables {
        add(name);
        add(value);
    }
    packet
}

fn decode_program(packet: &[u8]) -> Option<Program> {
    let ([stops_on_exec, has_wdir], rest) = packet.split_first_chunk()?;
    let (args, rest) = rest.split_first_chunk()?;
    let (variables, rest) = rest.split_first_chunk()?;
    let mut words = rest.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let (path, name, wdir) = (words.next()?.into(), words.next()?, words.next()?);
    let args = (0..u32::from_ne_bytes(*args)).map(|_| words.next()).collect::<Option<_>>()?;
    let variables =
        (0..u32::from_ne_bytes(*variables)).map(|_| Some((words.next()?, words.next()?))).collect::<Option<_>>()?;
    let wdir = (*has_wdir != 0).then(|| wdir.into());
    Some(Program { path, name, args, variables, wdir, stops_on_exec: *stops_on_exec != 0 })
}

impl Reply {
    fn encode(&self) -> Vec<u8> {
        let number = |pid: &Pid| pid.as_raw().to_ne_bytes();
        match self {
            Reply::Started(pid) => [&b"P"[..], &number(pid)].concat(),
            Reply::Refused(why) => [b"N", why.as_bytes()].concat(),
            Reply::News(News::Ended(pid, status)) => {
                let status = std::os::unix::process::ExitStatusExt::into_raw(*status);
                [&b"E"[..], &number(pid), &status.to_ne_bytes()].concat()
            }
            Reply::News(News::Unreachable(pid)) => [&b"U"[..], &number(pid)].concat(),
            Reply::News(News::Halted(pid)) => [&b"H"[..], &number(pid)].concat(),
            Reply::News(News::Signalled(result)) => {
                let number = result.err().map_or(0, |error| error as i32);
                [&b"K"[..], &number.to_ne_bytes()].concat()
            }
            Reply::News(News::Over | News::Lost) => b"O".to_vec(),
        }
    }

    fn decode(packet: &[u8]) -> Option<Reply> {
        let (kind, rest) = packet.split_first()?;
        let number = |at: usize| rest.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
        let pid = || number(0).map(Pid::from_raw);
        Some(match kind {
            b'P' => Reply::Started(pid()?),
            b'N' => Reply::Refused(String::from_utf8_lossy(rest).into_owned()),
            b'E' => Reply::News(News::Ended(pid()?, ending(number(4)?))),
            b'U' => Reply::News(News::Unreachable(pid()?)),
            b'H' => Reply::News(News::Halted(pid()?)),
            b'K' => match number(0)? {
                0 => Reply::News(News::Signalled(Ok(()))),
                number => Reply::News(News::Signalled(Err(Errno::from_raw(number)))),
            },
            b'O' => Reply::News(News::Over),
            _ => return None,
        })
    }
}

/// Sends a request.
///
/// # Errors
/// `EAGAIN` if the other end has no room for it.
pub(super) fn send_request(socket: BorrowedFd<'_>, request: &Request, streams: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let streams: Vec<RawFd> = streams.iter().map(AsRawFd::as_raw_fd).collect();
    send(socket, &request.encode(), &streams, MsgFlags::MSG_DONTWAIT)
}

pub(super) fn send_reply(socket: BorrowedFd<'_>, reply: &Reply) -> Result<(), Errno> {
    send(socket, &reply.encode(), &[], MsgFlags::empty())
}

/// The next request with its streams; `None` at the end. If this process has no descriptors for the streams, they are
/// missing.
pub(super) fn receive_request(socket: BorrowedFd<'_>) -> Result<Option<(Request, Vec<OwnedFd>)>, Errno> {
    let (packet, streams) = receive(socket, REQUEST_LEN_MAX)?;
    Ok(Request::decode(&packet).map(|request| (request, streams)))
}

/// The next reply; `None` at the end.
pub(super) fn receive_reply(socket: BorrowedFd<'_>) -> Result<Option<Reply>, Errno> {
    Ok(Reply::decode(&receive(socket, REPLY_LEN_MAX)?.0))
}

fn send(socket: BorrowedFd<'_>, packet: &[u8], descriptors: &[RawFd], flags: MsgFlags) -> Result<(), Errno> {
    if packet.len() > REQUEST_LEN_MAX {
        return Err(Errno::EMSGSIZE);
    }
    let rights = [ControlMessage::ScmRights(descriptors)];
    let rights = if descriptors.is_empty() { &[] } else { &rights[..] };
    loop {
        let flags = flags | MsgFlags::MSG_NOSIGNAL;
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(packet)], rights, flags, None) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

fn receive(socket: BorrowedFd<'_>, len_max: usize) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    // A buffer of the packet's own length: the longest would be 50 new pages for each rank. An error shows in the next call, too.
    let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC;
    let len = recv(socket.as_raw_fd(), &mut [], peek).map_or(len_max, |len| len.min(len_max));
    let mut packet = vec![0; len];
    let mut space = cmsg_space!([RawFd; STREAMS_MAX]);
    loop {
        let mut slices = [IoSliceMut::new(&mut packet)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Err(Errno::EINTR) => continue,
            message => message?,
        };
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = control {
                // SAFETY: the kernel has just opened these descriptors for this process; nothing else owns them.
                descriptors.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let len = message.bytes;
        packet.truncate(len);
        return Ok((packet, descriptors));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_decode_to_themselves() {
        for request in [
            Request::Guard("/tmp/a b".into()),
            Request::Start(3, 2, vec![("A".into(), "1=2".into()), ("B".into(), String::new())]),
            Request::Unload(7),
            Request::Load(Program { path: "/bin/sh".into(), name: "sh".into(), ..Program::default() }),
            Request::Load(Program {
                path: "/x y".into(),
                name: "y".into(),
                args: vec!["".into(), "-a".into()],
                variables: vec![("A".into(), "1=2".into()), ("B".into(), "".into())],
                wdir: Some("/".into()),
                stops_on_exec: true,
            }),
            Request::TimerSlack(Duration::from_millis(2)),
            Request::SignalRanks(Signal::SIGUSR1),
            Request::SignalAll(Signal::SIGKILL),
            Request::SignalThese(Signal::SIGSTOP, vec![Pid::from_raw(7), Pid::from_raw(1 << 20)]),
            Request::Finish(Duration::from_millis(200)),
            Request::Another,
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!(Request::decode(b""), None);
        // A time beyond the range of the clock: no time limit.
        assert!(matches!(Request::decode(&Request::Finish(Duration::MAX).encode()), Some(Request::Finish(_))));
    }

    #[test]
    fn replies_decode_to_themselves() {
        let pid = Pid::from_raw(77);
        for (reply, word) in [
            (Reply::Started(pid), "Started(Pid(77))"),
            (Reply::Refused("no".into()), "Refused(\"no\")"),
            (Reply::News(News::Ended(pid, ending(9))), "Ended(Pid(77), ExitStatus(unix_wait_status(9)))"),
            (Reply::News(News::Unreachable(pid)), "Unreachable(Pid(77))"),
            (Reply::News(News::Halted(pid)), "Halted(Pid(77))"),
            (Reply::News(News::Signalled(Err(Errno::EPERM))), "Signalled(Err(EPERM))"),
            (Reply::News(News::Signalled(Ok(()))), "Signalled(Ok(()))"),
            (Reply::News(News::Over), "Over"),
        ] {
            let decoded = format!("{:?}", Reply::decode(&reply.encode()));
            assert!(decoded.contains(word), "{decoded}");
        }
    }
}
