//! Input for a job. The launcher's server may be killed: each piece says where it begins, and is sent again until it is taken.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;
use parking_lot::Mutex;
use pmix_client::Client;
use pmix_dstore::fallible_alloc;
use pmix_dstore::model::{Info, Proc, Status, Value, keys};

use super::super::acknowledged;
use super::super::supervise::is_in_foreground;
use super::FOREGROUND_CHECK;

/// The client of the connection that there is; none while there is none.
pub(super) type CurrentClient = Arc<Mutex<Option<Arc<Client>>>>;

/// The most bytes that are sent at once.
const PIECE: usize = 1 << 15;
/// The pauses before the next piece while the rank reads nothing, and between two attempts: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(128)];

/// How long an answer may take, in seconds: input is taken at once, or refused.
const TIMEOUT: i32 = 5;

/// How often a piece is sent again that was refused.
const REFUSALS_MAX: u32 = 20;

/// Has a thread send this process's standard input to a rank.
///
/// # Errors
/// There is no thread for it.
pub(super) fn forward(rank: Proc, current: CurrentClient) -> Result<(), String> {
    let body = move || {
        let (mut at, mut pause) = (0, PAUSES[0]);
        loop {
            let piece = next_piece();
            let len = piece.len() as u64;
            if !push(&rank, &current, (piece, at), &mut pause) || len == 0 {
                return;
            }
            at += len;
        }
    };
    fallible_alloc::spawn("pmixrun-stdin", body).map(drop).map_err(|error| format!("no thread for it: {error}"))
}

/// The next piece of the input; an empty one is its end.
fn next_piece() -> Vec<u8> {
    let stdin = std::io::stdin();
    let mut piece = vec![0; PIECE];
    loop {
        match read(stdin.as_fd(), &mut piece) {
            Ok(len) => {
                piece.truncate(len);
                return piece;
            }
            Err(Errno::EINTR) => {}
            // Whoever has started this process may have made it non-blocking.
            Err(Errno::EAGAIN) => drop(poll(&mut [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)),
            // In the background of a terminal.
            Err(Errno::EIO) if !is_in_foreground() => thread::sleep(FOREGROUND_CHECK),
            Err(_) => return Vec::new(),
        }
    }
}

/// Sends a piece until it is taken. Returns whether more may follow.
fn push(rank: &Proc, current: &CurrentClient, (piece, at): (Vec<u8>, u64), pause: &mut Duration) -> bool {
    let mut refusals = 0;
    loop {
        let Some(client) = current.lock().clone() else {
            wait(pause);
            continue;
        };
        // A connection that ends at this moment may not say so.
        let infos = vec![acknowledged::input_at(at), Info::new(keys::TIMEOUT, Value::Int(TIMEOUT))];
        match client.push_input(vec![rank.clone()], Some(piece.clone()), infos).wait() {
            Ok(()) => {
                *pause = PAUSES[0];
                return true;
            }
            // It was taken, and the rank reads slowly.
            Err(Status::ERR_IOF_XOFF) => {
                wait(pause);
                return true;
            }
            // The rank has closed its input, or has ended; or the connection is lost, which is not known here yet.
            Err(Status::ERR_NOT_SUPPORTED) if refusals == REFUSALS_MAX => return false,
            Err(Status::ERR_NOT_SUPPORTED) => {
                refusals += 1;
                wait(pause);
            }
            // The queue is full, or there is no server.
            Err(_) => wait(pause),
        }
    }
}

fn wait(pause: &mut Duration) {
    thread::sleep(*pause);
    *pause = (2 * *pause).min(PAUSES[1]);
}
