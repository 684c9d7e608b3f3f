//! The project's only binding to munge. It opens `libmunge.so.2` when a process first needs a credential.
//!
//! A munge credential is a text that `munged` makes for a process. Any process whose `munged` has the same key can have
//! it decoded, once and within minutes, and learns user and group of the process that it was made for, and the bytes
//! that this process added. Few processes need one, so nothing links to libmunge.
//!
//! libmunge talks to `munged` over a Unix socket. A `munged` that is stopped holds a call for some ten seconds, and one
//! that ends during a call raises SIGPIPE. So [`encode`] and [`probe`] call it in a thread of their own, with all
//! signals blocked, and wait for a limited time; [`decode`] is for a thread that the caller has made for it.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::transmute;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{ptr, slice};

use nix::sys::signal::{SigSet, SigmaskHow};
use pmix_dstore::cancel::Uncancelled;
use pmix_dstore::channel::channel;
use pmix_dstore::fallible_alloc;

/// The longest credential that is decoded. One without added bytes has some 200.
pub const CREDENTIAL_LEN_MAX: usize = 8192;
/// The most bytes that a process adds to a credential.
pub const PAYLOAD_LEN_MAX: usize = 2048;

/// `EMUNGE_SUCCESS`.
const SUCCESS: c_int = 0;
/// `EMUNGE_SOCKET`: `munged` cannot be reached.
const SOCKET: c_int = 6;

type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
type Decode =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut *mut c_void, *mut c_int, *mut u32, *mut u32) -> c_int;
type Explain = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions of libmunge.
struct Munge {
    encode: Encode,
    decode: Decode,
    explain: Explain,
}

/// libmunge, opened on first use and never closed.
static MUNGE: LazyLock<Option<Munge>> = LazyLock::new(Munge::open);

/// What a credential says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The effective user of the process that it was made for.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// What that process added.
    pub payload: Vec<u8>,
}

/// Why there is no credential, or why one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `libmunge.so.2` cannot be opened.
    NoLibrary,
    /// `munged` cannot be reached; munge's own words.
    NoDaemon(String),
    /// The bytes are no credential.
    NoCredential,
    /// Munge refuses it, for example because it is expired or was decoded before; munge's own words.
    Refused(String),
    /// `munged` does not answer.
    Silent,
    /// There is no memory or no thread.
    NoRoom,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoLibrary => f.write_str("libmunge.so.2 cannot be opened; install munge's library"),
            Fault::NoDaemon(why) => write!(f, "munged cannot be reached ({why}); start it on this node"),
            Fault::NoCredential => f.write_str("the bytes are no munge credential"),
            Fault::Refused(why) => write!(f, "munge says: {why}"),
            Fault::Silent => f.write_str("munged does not answer; look whether it is stopped"),
            Fault::NoRoom => f.write_str("no memory or no thread is left to ask munge"),
        }
    }
}

impl Munge {
    fn open() -> Option<Munge> {
        // Loading makes system calls that are cancellation points.
        let _uncancelled = Uncancelled::begin();
        // SAFETY: the name is a C string; libmunge's constructors have no requirements on the process.
        let library = unsafe { libc::dlopen(c"libmunge.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the library is open and is never closed.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            Some(symbol).filter(|symbol| !symbol.is_null())
        };
        let (encode, decode, explain) = (find(c"munge_encode")?, find(c"munge_decode")?, find(c"munge_strerror")?);
        Some(Munge {
            // SAFETY: `munge_encode` of `libmunge.so.2` has this type; its enumeration is an `int`, `uid_t` is `u32`.
            encode: unsafe { transmute::<*mut c_void, Encode>(encode) },
            // SAFETY: the same of `munge_decode`.
            decode: unsafe { transmute::<*mut c_void, Decode>(decode) },
            // SAFETY: the same of `munge_strerror`.
            explain: unsafe { transmute::<*mut c_void, Explain>(explain) },
        })
    }

    fn get() -> Result<&'static Munge, Fault> {
        MUNGE.as_ref().ok_or(Fault::NoLibrary)
    }

    fn fault(&self, code: c_int) -> Fault {
        // SAFETY: the function takes any number.
        let text = unsafe { (self.explain)(code) };
        let text = match text.is_null() {
            true => format!("error {code}"),
            // SAFETY: the texts are C strings that are never freed.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        if code == SOCKET { Fault::NoDaemon(text) } else { Fault::Refused(text) }
    }

    fn encode(&self, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut credential = ptr::null_mut();
        let len = c_int::try_from(payload.len()).map_err(|_| Fault::NoRoom)?;
        // SAFETY: the pointer is writable, and `len` bytes can be read; without a context munge uses its defaults.
        let code = unsafe { (self.encode)(&raw mut credential, ptr::null_mut(), payload.as_ptr().cast(), len) };
        let text = match credential.is_null() {
            true => Vec::new(),
            // SAFETY: munge returns a C string, which nobody else has.
            false => unsafe { CStr::from_ptr(credential) }.to_bytes().to_vec(),
        };
        // SAFETY: it is null or comes from `malloc`, and is not used any more.
        unsafe { libc::free(credential.cast()) };
        match code {
            SUCCESS if !text.is_empty() => Ok(text),
            SUCCESS => Err(Fault::NoCredential),
            code => Err(self.fault(code)),
        }
    }

    fn decode(&self, credential: &CStr) -> Result<Decoded, Fault> {
        let (mut bytes, mut len, mut uid, mut gid) = (ptr::null_mut(), 0, u32::MAX, u32::MAX);
        // SAFETY: the credential is a C string, and all other pointers are writable.
        let code = unsafe {
            (self.decode)(
                credential.as_ptr(),
                ptr::null_mut(),
                &raw mut bytes,
                &raw mut len,
                &raw mut uid,
                &raw mut gid,
            )
        };
        let len = usize::try_from(len).unwrap_or(0);
        let payload = match bytes.is_null() || len > PAYLOAD_LEN_MAX {
            true => Vec::new(),
            // SAFETY: munge returns `len` bytes, which nobody else has.
            false => unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) }.to_vec(),
        };
        // Munge returns the bytes of some credentials that it refuses, too.
        // SAFETY: it is null or comes from `malloc`, and is not used any more.
        unsafe { libc::free(bytes) };
        match code {
            SUCCESS if len > PAYLOAD_LEN_MAX => Err(Fault::NoCredential),
            SUCCESS => Ok(Decoded { uid, gid, payload }),
            code => Err(self.fault(code)),
        }
    }
}

/// A credential of this process, as text without a NUL. `payload` are bytes to add, [`PAYLOAD_LEN_MAX`] at most.
///
/// # Errors
/// Why there is none; [`Fault::Silent`] after `limit`.
pub fn encode(payload: &[u8], limit: Duration) -> Result<Vec<u8>, Fault> {
    let payload = payload.to_vec();
    in_thread(limit, move || Munge::get()?.encode(&payload))
}

/// What the bytes of a credential say, with or without a NUL at their end. Blocks while `munged` does not answer: call
/// it from a thread that may wait, and in which all signals are blocked.
///
/// # Errors
/// Why it is refused.
pub fn decode(credential: &[u8]) -> Result<Decoded, Fault> {
    let text = credential.strip_suffix(b"\0").unwrap_or(credential);
    let is_one =
        text.starts_with(b"MUNGE:") && text.len() <= CREDENTIAL_LEN_MAX && text.iter().all(u8::is_ascii_graphic);
    let text = CString::new(text).ok().filter(|_| is_one).ok_or(Fault::NoCredential)?;
    Munge::get()?.decode(&text)
}

/// Makes a credential of this process and decodes it: whether munge works here, and who this process is to munge.
///
/// # Errors
/// Why not; [`Fault::Silent`] after `limit`.
pub fn probe(limit: Duration) -> Result<Decoded, Fault> {
    in_thread(limit, || {
        let munge = Munge::get()?;
        let credential = CString::new(munge.encode(&[])?).map_err(|_| Fault::NoCredential)?;
        munge.decode(&credential)
    })
}

/// Runs `body` in a thread with all signals blocked. After `limit` the thread is left alone; it ends when munge's own
/// time limits do.
fn in_thread<T: Send + 'static>(
    limit: Duration,
    body: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let (sender, receiver) = channel();
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(|_| Fault::NoRoom)?;
    // Nobody may be waiting any more.
    let thread = fallible_alloc::spawn("pmix-munge", move || drop(sender.send(body())));
    // A thread keeps the mask that it is born with.
    let _ = mask.thread_set_mask();
    let thread = thread.map_err(|_| Fault::NoRoom)?;
    let result = receiver.receive(Instant::now().checked_add(limit)).map_err(|_| Fault::Silent)?;
    // It has nothing left to do.
    thread.join();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_credential_do_not_reach_munge() {
        let long = [&b"MUNGE:"[..], &vec![b'A'; CREDENTIAL_LEN_MAX]].concat();
        for bytes in [&b""[..], b"\0", b"native", b"MUNGE:AA\0AA:", b"MUNGE:\xff:", b"MUNGE:A A:", &long] {
            assert_eq!(decode(bytes), Err(Fault::NoCredential), "{bytes:?}");
        }
    }

    #[test]
    fn a_call_that_does_not_return_is_left_alone() {
        let never = || -> Result<(), Fault> {
            std::thread::park();
            Ok(())
        };
        assert_eq!(in_thread(Duration::from_millis(1), never), Err(Fault::Silent));
        assert_eq!(in_thread(Duration::from_secs(600), || Ok(7)), Ok(7));
    }
}
