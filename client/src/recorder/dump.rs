//! The recorder's contents on standard error, at a signal that the user chooses.
//!
//! The handler takes no lock and allocates nothing: it may have interrupted anything.

use std::fmt::{self, Write};

use nix::errno::Errno;
use nix::libc::{self, c_int};

use parking_lot::Mutex;

use super::ring;

/// The number of the signal.
pub const VARIABLE: &str = "PMIX_DSTORE_DUMP_SIGNAL";
/// Signals that a fault in the program raises: the program ends by them, after the steps are written.
const FAULTS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];
/// Longer lines are cut.
const LINE_LEN_MAX: usize = 256;

/// The signal that has our handler.
static INSTALLED: Mutex<Option<c_int>> = Mutex::new(None);

/// Installs the handler, where the signal has none.
///
/// # Errors
/// Why not, in words.
pub fn install(text: &str) -> Result<(), String> {
    let signal = number(text)?;
    let mut installed = INSTALLED.lock();
    if *installed == Some(signal) && disposition(signal).is_some_and(is_ours) {
        return Ok(());
    }
    let present = disposition(signal).ok_or_else(|| format!("the C library keeps signal {signal} for itself"))?;
    if present != libc::SIG_DFL {
        return Err(format!("the program has a handler for signal {signal}, or ignores it"));
    }
    let once = if FAULTS.contains(&signal) { libc::SA_RESETHAND } else { 0 };
    if !set_disposition(signal, handler as *const () as usize, libc::SA_RESTART | libc::SA_ONSTACK | once) {
        return Err(format!("signal {signal} cannot have a handler"));
    }
    *installed = Some(signal);
    Ok(())
}

/// Takes the handler away, unless the program has installed another one since.
pub fn remove() {
    if let Some(signal) = INSTALLED.lock().take().filter(|signal| disposition(*signal).is_some_and(is_ours)) {
        set_disposition(signal, libc::SIG_DFL, 0);
    }
}

/// The number of a signal that may have a handler.
fn number(text: &str) -> Result<c_int, String> {
    let last = libc::SIGRTMAX();
    let number = text.parse().ok().filter(|number| (1..=last).contains(number));
    match number {
        None => Err(format!("a signal's number is 1 to {last}")),
        Some(libc::SIGKILL | libc::SIGSTOP) => {
            Err("no program can handle SIGKILL and SIGSTOP; name another signal, 12 (SIGUSR2) for example".into())
        }
        Some(number) => Ok(number),
    }
}

fn is_ours(disposition: usize) -> bool {
    disposition == handler as *const () as usize
}

/// The handler of a signal, or `SIG_DFL` or `SIG_IGN`; `None` for a signal that cannot have one.
fn disposition(signal: c_int) -> Option<usize> {
    // SAFETY: all zero is a valid action.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks; `present` is writable.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut present) } != 0;
    (!failed).then_some(present.sa_sigaction)
}

fn set_disposition(signal: c_int, handler: usize, flags: c_int) -> bool {
    // SAFETY: all zero is a valid action, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handler is `SIG_DFL`, or a function of this type that calls only what a signal handler may call.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0 }
}

/// Writes the steps of this process. The signal of a fault then does what it does without a handler, and so does each signal in a forked
/// child, which has no steps.
extern "C" fn handler(signal: c_int) {
    let errno = Errno::last_raw();
    let is_over = match ring() {
        Some(ring) => {
            let mut line = Line::new();
            let _ = writeln!(line, "pmix-dstore[{}]: signal {signal}, the last steps:", ring.pid());
            line.flush();
            ring.tell(|step| {
                let mut line = Line::new();
                let _ = writeln!(line, "pmix-dstore[{}]: {step}", ring.pid());
                line.flush();
            });
            // Not every one comes again by itself: another process may have sent it, and a breakpoint is passed. SA_RESETHAND has
            // taken the handler away.
            FAULTS.contains(&signal)
        }
        None => set_disposition(signal, libc::SIG_DFL, 0),
    };
    if is_over {
        // SAFETY: a plain system call. The signal is blocked until this handler returns.
        unsafe { libc::raise(signal) };
    }
    Errno::set_raw(errno);
}

/// A line on the stack.
struct Line {
    bytes: [u8; LINE_LEN_MAX],
    len: usize,
}

impl Line {
    fn new() -> Line {
        Line { bytes: [0; LINE_LEN_MAX], len: 0 }
    }

    /// Writes it to standard error.
    fn flush(&self) {
        let bytes = &self.bytes[..self.len];
        // In one piece. There is nowhere to complain if it fails.
        // SAFETY: the bytes are readable; the descriptor may be any, closed, too.
        unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        // A line that is cut ends as a line, too.
        if self.len == LINE_LEN_MAX {
            self.bytes[LINE_LEN_MAX - 1] = b'\n';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_can_have_a_handler_are_taken() {
        assert_eq!(number("10"), Ok(10));
        assert!(number(&libc::SIGRTMAX().to_string()).is_ok());
        for bad in ["", "0", "-1", "65", "1e1", "USR1", " 10", "9", "19", "99999999999999999999"] {
            assert!(number(bad).is_err(), "{bad:?}");
        }
        assert!(disposition(32).is_none(), "the C library's own");
    }

    #[test]
    fn lines_that_are_cut_end_as_lines() {
        let mut line = Line::new();
        let _ = write!(line, "{}", "x".repeat(1000));
        assert_eq!((line.len, line.bytes[LINE_LEN_MAX - 1], line.bytes[0]), (LINE_LEN_MAX, b'\n', b'x'));
    }
}
