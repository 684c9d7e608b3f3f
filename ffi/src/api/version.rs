//! Which library this is.
//!
//! PRRTE's daemons need functions of the stock library that no header declares. In their processes both libraries are loaded, this
//! one first (`ffi/facade.sh`). PRRTE compares the release that `PMIx_Get_version` names with that of the headers which it was
//! compiled with, and does not start if they differ. So there the answer is the stock library's.

use std::ffi::{CStr, c_char};
use std::mem::transmute;
use std::ptr;
use std::sync::OnceLock;

use pmix_client::output;

use super::c_text;
use crate::convert::text;
use crate::entry::entry;

/// What `PMIx_Get_version` answers where the stock library is not loaded as well.
///
/// The form is that of the stock library, because programs parse it: Open MPI's component refuses a string whose first
/// character is below `3` (a letter is above), and others look for the word `OpenPMIx` and read the release behind it.
/// The release is the one whose interface this is. The part behind `repo rev` tells us from the stock library, so that
/// nobody compares that one with itself.
const VERSION: &CStr = match CStr::from_bytes_with_nul(
    concat!(
        "OpenPMIx 4.2.2, repo rev: pmix-dstore-",
        env!("CARGO_PKG_VERSION"),
        " (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)\0"
    )
    .as_bytes(),
) {
    Ok(version) => version,
    Err(_) => c"",
};

/// A constant text for C code.
#[repr(transparent)]
#[derive(Debug)]
pub struct Text(*const c_char);

// SAFETY: the pointer leads to a constant, and nothing writes through it.
unsafe impl Sync for Text {}

/// `const char *pmix_dstore_version`: the version of this library, whatever `PMIx_Get_version` answers. No other library exports this
/// name, by which `pmixctl prrte` recognises this one.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pmix_dstore_version: Text = Text(VERSION.as_ptr());

/// The name under which the facade needs the stock library.
const STOCK: &CStr = c"libpmix-stock.so";

/// Whether the loader has loaded a file of the stock library's name in the facade. To ask `dlopen` alone would search all library
/// directories for it, in each process that has no facade.
fn has_facade() -> bool {
    unsafe extern "C" fn is_stock(object: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes an object, whose name is NULL or a C string.
        let name = unsafe { text::string((*object).dlpi_name) }.map_or(&b""[..], CStr::to_bytes);
        name.strip_suffix(STOCK.to_bytes()).is_some_and(|directory| directory.ends_with(b"/")).into()
    }
    // SAFETY: the function has the type that the call wants, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(is_stock), ptr::null_mut()) != 0 }
}

/// The stock library's version, where it is loaded beside this one.
fn stock_version() -> Option<&'static CStr> {
    if !has_facade() {
        return None;
    }
    // SAFETY: constant strings. RTLD_NOLOAD loads nothing, and the handle keeps what is loaded there for good.
    let function = unsafe {
        let stock = libc::dlopen(STOCK.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if stock.is_null() {
            return None;
        }
        libc::dlsym(stock, c"PMIx_Get_version".as_ptr())
    };
    if function.is_null() || function == PMIx_Get_version as *mut _ {
        return None;
    }
    // SAFETY: what a PMIx library exports under this name has this type in all releases, and needs no initialisation.
    let version = unsafe { transmute::<*mut libc::c_void, unsafe extern "C" fn() -> *const c_char>(function)() };
    // SAFETY: the function answers NULL or a text that stays.
    (!version.is_null()).then(|| unsafe { CStr::from_ptr(version) })
}

/// The first number of the release that a version text names, such as 7 of `OpenPMIx 7.0.0rc1, repo rev: ...`.
fn major(version: &CStr) -> Option<u32> {
    let release = version.to_str().ok()?.split(' ').nth(1)?;
    release.split('.').next()?.parse().ok()
}

/// Whether the stock library of a release from 7 on is loaded beside this one: the process was made for that release.
pub fn is_beside_stock_7() -> bool {
    stock_version().and_then(major).is_some_and(|major| major >= 7)
}

/// Tells the server whether the stock library is loaded beside this one, and takes over defaults of that: from release 7 on, output to
/// files does not go to the terminal as well.
pub fn adopt_defaults_of_stock() {
    if stock_version().is_some() {
        pmix_server::stock_is_loaded();
    }
    if is_beside_stock_7() {
        output::default_to_files_only();
    }
}

entry! {
    /// `PMIx_Get_version`: which library this is; in a process that has the stock library, too, that one's answer.
    fn PMIx_Get_version() -> *const c_char {
        static ANSWER: OnceLock<&CStr> = OnceLock::new();
        c_text(ANSWER.get_or_init(|| stock_version().unwrap_or(VERSION)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_version_texts() {
        assert_eq!(major(VERSION), Some(4));
        assert_eq!(major(c"OpenPMIx 7.0.0rc1, repo rev: gitclone (PMIx Standard: 4.2)"), Some(7));
        for text in [c"", c"OpenPMIx", c"PMIx version 7"] {
            assert_eq!(major(text), None);
        }
    }

    #[test]
    fn version_passes_the_hosts_checks() {
        let version = VERSION.to_bytes();
        assert!(version[0] >= b'3');
        assert!(version.starts_with(b"OpenPMIx 4.2.2"));
        assert!(version.windows(11).any(|part| part == b"pmix-dstore"));
        // SAFETY: it answers a constant text.
        let answer = unsafe { CStr::from_ptr(PMIx_Get_version()) };
        assert_eq!(answer, VERSION, "without a stock library in this process");
    }
}
