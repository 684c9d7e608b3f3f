//! A quick look into the environment of the process, for variables that are rarely set.
//!
//! A search for one name goes through all variables. A rank's start would search for two dozen names of which nearly no user sets one;
//! this goes through the variables once for all of them.

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// The beginning of the names that count.
pub const PREFIX: &str = "PMIX_";

/// Whether a variable whose name begins with `PMIX_` is one that is meant; `is_meant` gets it as `NAME=VALUE`.
pub fn has(mut is_meant: impl FnMut(&[u8]) -> bool) -> bool {
    // SAFETY: as in `getenv`, which the library calls, too: a program does not change its environment while other threads read it.
    let mut next = unsafe { environ };
    if next.is_null() {
        return false;
    }
    loop {
        // SAFETY: the list ends with NULL, at which this stops.
        let variable = unsafe { *next };
        if variable.is_null() {
            return false;
        }
        // SAFETY: each variable is a C string, and the comparison stops at the first difference, hence at the NUL.
        let is_ours = PREFIX.bytes().enumerate().all(|(at, byte)| unsafe { *variable.add(at).cast::<u8>() } == byte);
        // SAFETY: as above.
        if is_ours && is_meant(unsafe { CStr::from_ptr(variable) }.to_bytes()) {
            return true;
        }
        // SAFETY: the list has not ended.
        next = unsafe { next.add(1) };
    }
}

/// Whether the kernel started this program with more rights than its user has: by ids of the file, its capabilities or a security module.
pub fn is_secure() -> bool {
    // SAFETY: the call takes a number and touches no memory of ours.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether this program has more rights than its user, who then does not choose by variables which files it writes or what it does at a
/// signal.
pub fn is_privileged() -> bool {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    is_secure() || getuid() != geteuid() || getgid() != getegid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_seen_whole_and_only_those_of_pmix() {
        let all: Vec<_> =
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PMIX_")).collect();
        assert!(!has(|_| false));
        assert_eq!(has(|_| true), !all.is_empty());
        for (name, value) in &all {
            let wanted = [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat();
            assert!(has(|variable| variable == wanted), "{name:?}");
        }
    }
}
