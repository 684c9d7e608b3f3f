//! Cpusets, which hold bitmaps of hwloc's; topologies; locality strings.

use std::ffi::{CString, c_char};

use pmix_client::locality::relative_locality;
use pmix_dstore::model::{Result, Status};

use super::{present, writable};
use crate::convert::object::Object;
use crate::convert::text::string;
use crate::entry::{entry, status_entry};
use crate::hwloc::{Hwloc, SOURCE, is_hwlocs, processors_of};
use crate::memory::{copy_string, copy_text};
use crate::types::*;

/// `PMIX_CPUBIND_PROCESS`.
const OF_PROCESS: pmix_bind_envelope_t = 0;
/// `PMIX_CPUBIND_THREAD`.
const OF_THREAD: pmix_bind_envelope_t = 1;

/// Fills a cpuset, whatever it held.
///
/// # Safety
/// `cpuset` is writable; the bitmap is hwloc's and nobody else's.
unsafe fn fill(cpuset: *mut pmix_cpuset_t, bitmap: *mut std::ffi::c_void) -> Result<()> {
    let source = copy_string(c"hwloc").inspect_err(|_| {
        if let Ok(hwloc) = Hwloc::get() {
            // SAFETY: the caller gave the bitmap away.
            unsafe { hwloc.free(bitmap) }
        }
    })?;
    // SAFETY: writable by the caller's promise.
    unsafe { cpuset.write(pmix_cpuset_t { source, bitmap }) };
    Ok(())
}

entry! {
    /// `PMIx_Cpuset_destruct`: frees what [`PMIx_Get_cpuset`] or [`PMIx_Parse_cpuset_string`] made.
    fn PMIx_Cpuset_destruct(cpuset: *mut pmix_cpuset_t) {
        if !cpuset.is_null() {
            pmix_cpuset_t::destroy(cpuset);
        }
    }

    /// `PMIx_Topology_destruct`: nothing to do. The library loads no topologies, so none that it could free comes here.
    fn PMIx_Topology_destruct(_topo: *mut pmix_topology_t) {}
}

status_entry! {
    /// `PMIx_Get_cpuset`: the processors that this process (its first thread) or the calling thread may use. What the structure
    /// held does not count.
    fn PMIx_Get_cpuset(cpuset: *mut pmix_cpuset_t, ref_: pmix_bind_envelope_t) {
        let cpuset = writable(cpuset)?;
        let thread = match ref_ {
            OF_PROCESS => libc::getpid(),
            OF_THREAD => 0,
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        fill(cpuset, Hwloc::get()?.bitmap(processors_of(thread)?.into_iter())?)
    }

    /// `PMIx_Parse_cpuset_string`.
    fn PMIx_Parse_cpuset_string(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) {
        let cpuset = writable(cpuset)?;
        let text = string(cpuset_string).ok_or(Status::ERR_BAD_PARAM)?.to_bytes();
        let colon = text.iter().position(|byte| *byte == b':').ok_or(Status::ERR_BAD_PARAM)?;
        if !text[..colon].eq_ignore_ascii_case(SOURCE) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let list = CString::new(&text[colon + 1..]).map_err(|_| Status::ERR_BAD_PARAM)?;
        fill(cpuset, Hwloc::get()?.parse(&list)?)
    }

    /// `PMIx_server_generate_cpuset_string`.
    fn PMIx_server_generate_cpuset_string(cpuset: *const pmix_cpuset_t, cpuset_string: *mut *mut c_char) {
        let (cpuset, at) = (*present(cpuset)?, writable(cpuset_string)?);
        let bitmap = present(cpuset.bitmap)?;
        if !is_hwlocs(cpuset.source) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let list = Hwloc::get()?.list(bitmap)?;
        at.write(copy_text(&[b"hwloc:", &list[..]].concat())?);
        Ok(())
    }

    /// `PMIx_Get_relative_locality`.
    fn PMIx_Get_relative_locality(
        locality1: *const c_char,
        locality2: *const c_char,
        locality: *mut pmix_locality_t,
    ) {
        let at = writable(locality)?;
        let text = |text| string(text).ok_or(Status::ERR_BAD_PARAM);
        at.write(relative_locality(text(locality1)?.to_bytes(), text(locality2)?.to_bytes())?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::memory::free;

    const NONE: pmix_cpuset_t = pmix_cpuset_t { source: ptr::null_mut(), bitmap: ptr::null_mut() };

    /// The text of a cpuset.
    fn text(cpuset: &pmix_cpuset_t) -> String {
        let mut text = ptr::null_mut();
        // SAFETY: a cpuset of ours, and a place for the text.
        assert_eq!(unsafe { PMIx_server_generate_cpuset_string(cpuset, &mut text) }, 0);
        // SAFETY: a C string made for us.
        let read = unsafe { string(text) }.unwrap().to_str().unwrap().to_owned();
        // SAFETY: from malloc, and ours.
        unsafe { free(text) };
        read
    }

    #[test]
    fn a_cpuset_is_read_and_written_as_text() {
        for list in [c"hwloc:0-3,8", c"HWLOC:5", c"hwloc:"] {
            let mut cpuset = NONE;
            // SAFETY: a C string and a place for the cpuset.
            assert_eq!(unsafe { PMIx_Parse_cpuset_string(list.as_ptr(), &mut cpuset) }, 0, "{list:?}");
            assert_eq!(text(&cpuset), list.to_str().unwrap().to_lowercase());
            // SAFETY: a cpuset of ours; the second time there is nothing in it.
            unsafe {
                PMIx_Cpuset_destruct(&mut cpuset);
                PMIx_Cpuset_destruct(&mut cpuset);
            }
            assert!(cpuset.source.is_null() && cpuset.bitmap.is_null());
        }
        for (list, status) in [
            (c"0-3", Status::ERR_BAD_PARAM),
            (c"hwloc:0-99999999", Status::ERR_BAD_PARAM),
            (c"hwloc:0xffffffff", Status::ERR_BAD_PARAM),
            (c"elsewhere:0", Status::ERR_NOT_SUPPORTED),
        ] {
            // SAFETY: as above.
            assert_eq!(unsafe { PMIx_Parse_cpuset_string(list.as_ptr(), &mut { NONE }) }, status.0, "{list:?}");
        }
    }

    #[test]
    fn the_own_cpuset_is_what_the_kernel_says() {
        let allowed = processors_of(0).unwrap();
        for envelope in [OF_PROCESS, OF_THREAD] {
            // Whatever the structure held.
            let mut cpuset = pmix_cpuset_t { source: ptr::without_provenance_mut(1), ..NONE };
            // SAFETY: a place for the cpuset.
            assert_eq!(unsafe { PMIx_Get_cpuset(&mut cpuset, envelope) }, 0);
            let expected = Hwloc::get().unwrap().bitmap(allowed.iter().copied()).unwrap();
            // SAFETY: bitmaps of hwloc's, the expected one ours alone.
            unsafe {
                let expected_list = Hwloc::get().unwrap().list(expected).unwrap();
                assert_eq!(text(&cpuset), format!("hwloc:{}", String::from_utf8(expected_list).unwrap()));
                Hwloc::get().unwrap().free(expected);
                PMIx_Cpuset_destruct(&mut cpuset);
            }
        }
        // SAFETY: as above.
        assert_eq!(unsafe { PMIx_Get_cpuset(&mut { NONE }, 2) }, Status::ERR_BAD_PARAM.0);
    }

    #[test]
    fn null_is_a_bad_parameter() {
        let (none, mut cpuset, mut text, mut locality) = (ptr::null(), NONE, ptr::null_mut(), 0);
        let bad = Status::ERR_BAD_PARAM.0;
        // SAFETY: NULL is what these functions look for.
        unsafe {
            assert_eq!(PMIx_Get_cpuset(ptr::null_mut(), OF_THREAD), bad);
            assert_eq!(PMIx_Parse_cpuset_string(none, &mut cpuset), bad);
            assert_eq!(PMIx_Parse_cpuset_string(c"hwloc:0".as_ptr(), ptr::null_mut()), bad);
            assert_eq!(PMIx_server_generate_cpuset_string(ptr::null(), &mut text), bad);
            assert_eq!(PMIx_server_generate_cpuset_string(&cpuset, &mut text), bad);
            assert_eq!(PMIx_Get_relative_locality(none, c"hwloc:SK0".as_ptr(), &mut locality), bad);
            assert_eq!(PMIx_Get_relative_locality(c"SK0".as_ptr(), c"SK0".as_ptr(), ptr::null_mut()), bad);
            assert_eq!(PMIx_Get_relative_locality(c"SK0".as_ptr(), c"hwloc:SK0".as_ptr(), &mut locality), 0);
            PMIx_Cpuset_destruct(ptr::null_mut());
        }
        assert_eq!(locality, 0x4020);
    }
}
