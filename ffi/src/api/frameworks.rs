//! Data that programs take from the library: Open MPI 5 does not load without it.

use std::ffi::{CStr, c_char};

/// A NULL-terminated array of names for C code.
#[repr(transparent)]
#[derive(Debug)]
pub struct Names<const LEN: usize>([*const c_char; LEN]);

// SAFETY: the pointers lead to constants, and nothing writes through them.
unsafe impl<const LEN: usize> Sync for Names<LEN> {}

const fn terminated<const LEN: usize>(texts: &[&CStr]) -> Names<LEN> {
    assert!(texts.len() + 1 == LEN);
    let mut pointers = [std::ptr::null(); LEN];
    let mut index = 0;
    while index < texts.len() {
        pointers[index] = texts[index].as_ptr();
        index += 1;
    }
    Names(pointers)
}

/// The first words of the names of PMIx parameters. Open MPI 5 passes its parameters of these names on to the library, `gds` as
/// `PMIX_MCA_gds`. This library does not use them, but a stock library at the other end of a connection does.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static pmix_framework_names: Names<17> = terminated(&[
    c"bfrops",
    c"gds",
    c"pcompress",
    c"pdl",
    c"pif",
    c"pinstalldirs",
    c"plog",
    c"pmdl",
    c"pnet",
    c"preg",
    c"psec",
    c"psensor",
    c"psquash",
    c"pstat",
    c"ptl",
    c"mca",
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_end_with_null() {
        let Names(pointers) = &pmix_framework_names;
        let (last, texts) = pointers.split_last().unwrap();
        assert!(last.is_null());
        // SAFETY: all but the last point to constants of this file.
        let texts: Vec<&CStr> = texts.iter().map(|text| unsafe { CStr::from_ptr(*text) }).collect();
        assert!(texts.contains(&c"gds") && texts.iter().all(|text| !text.is_empty()), "{texts:?}");
    }
}
