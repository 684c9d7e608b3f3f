//! The stock library in this process.
//!
//! PRRTE's daemons need functions of the stock library that no header declares. In their processes both libraries are loaded, this
//! one first (`ffi/facade.sh`).

use std::ffi::{CStr, c_char};
use std::mem::transmute;
use std::ptr;
use std::sync::OnceLock;

use pmix_client::output;

use crate::convert::text;

/// The name under which the facade needs the stock library.
const FILE: &CStr = c"libpmix-stock.so";

/// The stock library's version text, if it is loaded.
pub fn version() -> Option<&'static CStr> {
    static VERSION: OnceLock<Option<&'static CStr>> = OnceLock::new();
    // `dlopen` alone would search all library directories, in each process that has no facade.
    *VERSION.get_or_init(|| has_facade().then(version_of_loaded).flatten())
}

/// The main number of the stock library's release, if it is loaded.
pub fn release() -> Option<u32> {
    version().and_then(main_release)
}

/// Takes over defaults of the stock library: from release 7 on, output to files does not go to the terminal as well.
pub fn adopt_defaults() {
    if release().is_some_and(|release| release >= 7) {
        output::default_to_files_only();
    }
}

/// Whether the loader has loaded a file of the name that the facade needs.
fn has_facade() -> bool {
    unsafe extern "C" fn is_stock(object: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes an object, whose name is NULL or a C string.
        let name = unsafe { text::string((*object).dlpi_name) }.map_or(&b""[..], CStr::to_bytes);
        name.strip_suffix(FILE.to_bytes()).is_some_and(|directory| directory.ends_with(b"/")).into()
    }
    // SAFETY: the function has the type that the call wants, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(is_stock), ptr::null_mut()) != 0 }
}

/// The version text of the loaded file.
fn version_of_loaded() -> Option<&'static CStr> {
    // SAFETY: constant strings. RTLD_NOLOAD loads nothing, and the handle keeps what is loaded there for good.
    let (function, own_name) = unsafe {
        let stock = libc::dlopen(FILE.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if stock.is_null() {
            return None;
        }
        (libc::dlsym(stock, c"PMIx_Get_version".as_ptr()), libc::dlsym(stock, c"pmix_dstore_version".as_ptr()))
    };
    // The file may be this library: a bind mount covers the stock one.
    if function.is_null() || !own_name.is_null() {
        return None;
    }
    // SAFETY: what a PMIx library exports under this name has this type in all releases, and needs no initialisation.
    let version = unsafe { transmute::<*mut libc::c_void, unsafe extern "C" fn() -> *const c_char>(function)() };
    // SAFETY: the function answers NULL or a text that stays.
    (!version.is_null()).then(|| unsafe { CStr::from_ptr(version) })
}

/// The first number of the release that a version text names, such as 7 of `OpenPMIx 7.0.0rc1, repo rev: ...`.
fn main_release(version: &CStr) -> Option<u32> {
    let release = version.to_str().ok()?.split(' ').nth(1)?;
    release.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_version_texts() {
        assert_eq!(main_release(c"OpenPMIx 4.2.2, repo rev: pmix-dstore-0.1.0 (PMIx Standard: 4.2)"), Some(4));
        assert_eq!(main_release(c"OpenPMIx 7.0.0rc1, repo rev: gitclone (PMIx Standard: 4.2)"), Some(7));
        for text in [c"", c"OpenPMIx", c"PMIx version 7"] {
            assert_eq!(main_release(text), None);
        }
    }
}
