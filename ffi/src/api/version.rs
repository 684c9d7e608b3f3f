//! Which library this is.
//!
//! PRRTE compares the release that `PMIx_Get_version` names with that of the headers which it was compiled with, and does not start if
//! they differ. So in its daemons, which have the stock library, too, the answer is that one's.

use std::ffi::{CStr, c_char};

use super::c_text;
use crate::entry::entry;
use crate::stock;

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

entry! {
    /// `PMIx_Get_version`: which library this is; in a process that has the stock library, too, that one's answer.
    fn PMIx_Get_version() -> *const c_char {
        c_text(stock::version().unwrap_or(VERSION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
