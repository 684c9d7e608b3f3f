//! Cpusets, which hold bitmaps of hwloc; topologies; locality strings.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use pmix_client::locality::relative_locality;
use pmix_client::topology;
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{DeviceDistance, Result, Status};
use pmix_hwloc::{Hwloc, SOURCE, processors_of};

use super::{Out, c_str, present};
use crate::callback::Callback;
use crate::convert::array::CArray;
use crate::convert::object::Object;
use crate::convert::text::string;
use crate::convert::topology::is_hwlocs;
use crate::entry::{call, status_call};
use crate::memory::{copy_string, copy_text};
use crate::types::*;

/// `PMIX_CPUBIND_PROCESS`.
const OF_PROCESS: pmix_bind_envelope_t = 0;
/// `PMIX_CPUBIND_THREAD`.
const OF_THREAD: pmix_bind_envelope_t = 1;

/// `PMIX_ERR_TAKE_NEXT_OPTION`: the argument has another source than hwloc, so another plugin of a library has to answer. No public
/// header has it, but stock functions answer it.
const TAKE_NEXT_OPTION: Status = Status(-1366);

/// Checks that a source is hwloc.
///
/// # Errors
/// `BAD_PARAM` for NULL; [`TAKE_NEXT_OPTION`] for another source.
///
/// # Safety
/// `source` is NULL or a C string.
unsafe fn check_source(source: *const c_char) -> Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { is_hwlocs(present(source)?) } {
        true => Ok(()),
        false => Err(TAKE_NEXT_OPTION),
    }
}

/// Fills a cpuset with a bitmap, which it owns then. Its former contents do not count.
///
/// # Errors
/// `NOMEM`; the bitmap is freed then.
///
/// # Safety
/// The bitmap is one of hwloc that nobody else uses.
unsafe fn fill(cpuset: &Out<pmix_cpuset_t>, bitmap: *mut c_void) -> Result<()> {
    let source = copy_string(c"hwloc").inspect_err(|_| {
        if let Ok(hwloc) = Hwloc::get() {
            // SAFETY: a bitmap of hwloc that nobody else uses, by the caller's promise.
            unsafe { hwloc.free(bitmap) }
        }
    })?;
    cpuset.set(pmix_cpuset_t { source, bitmap });
    Ok(())
}

/// The bitmap of a text such as `hwloc:0-3,8`, which the caller owns.
///
/// # Errors
/// `BAD_PARAM` for NULL and for a text of another form; [`TAKE_NEXT_OPTION`] for a text with another source.
///
/// # Safety
/// `text` is NULL or a C string.
unsafe fn parse(text: *const c_char) -> Result<*mut c_void> {
    // SAFETY: the caller's promise.
    let text = unsafe { string(text) }.ok_or(Status::ERR_BAD_PARAM)?.to_bytes();
    let colon = text.iter().position(|byte| *byte == b':').ok_or(Status::ERR_BAD_PARAM)?;
    if !text[..colon].eq_ignore_ascii_case(SOURCE) {
        return Err(TAKE_NEXT_OPTION);
    }
    let list = CString::new(&text[colon + 1..]).map_err(|_| Status::ERR_BAD_PARAM)?;
    Hwloc::get()?.parse(&list)
}

/// The bitmap that a cpuset of hwloc holds; it may be NULL.
///
/// # Errors
/// `BAD_PARAM` for NULL, and as [`check_source`].
///
/// # Safety
/// `cpuset` is NULL or an initialised cpuset.
unsafe fn bitmap_of(cpuset: *const pmix_cpuset_t) -> Result<*mut c_void> {
    // SAFETY: the caller's promise.
    let cpuset = unsafe { cpuset.as_ref() }.ok_or(Status::ERR_BAD_PARAM)?;
    // SAFETY: the source of an initialised cpuset is NULL or a C string.
    unsafe { check_source(cpuset.source) }?;
    Ok(cpuset.bitmap)
}

/// How far devices are from a cpuset.
///
/// # Errors
/// As [`check_source`] and [`topology::distances`].
///
/// # Safety
/// The structures are NULL or initialised, and hold what their sources say; `info` is an array of `ninfo` infos.
unsafe fn measure(
    topo: *const pmix_topology_t,
    cpuset: *const pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Vec<DeviceDistance>> {
    let client = super::client()?;
    let hwloc = Hwloc::get()?;
    // SAFETY: NULL or initialised structures, by the caller's promise.
    let (topo, cpuset) = unsafe { (topo.as_ref(), cpuset.as_ref()) };
    // SAFETY: the source of an initialised structure is NULL or a C string.
    let held = |source, held: *mut c_void| unsafe { check_source(source) }.and_then(|()| present(held.cast_const()));
    let topology = match topo {
        Some(topo) => held(topo.source, topo.topology)?,
        None => topology::own()?.0,
    };
    // SAFETY: an array of `ninfo` infos, by the caller's promise.
    let infos = unsafe { super::infos(info, ninfo) }?;
    check_required(&infos)?;
    let hostname = client.hostname();
    if let Some(cpuset) = cpuset {
        let bitmap = held(cpuset.source, cpuset.bitmap)?;
        // SAFETY: their sources say that both are hwloc's, which the caller promises is true.
        return unsafe { topology::distances(topology, bitmap, &infos, &hostname) };
    }
    let bitmap = hwloc.bitmap(processors_of(std::process::id() as libc::pid_t)?.into_iter())?;
    // SAFETY: the topology's source says that it is hwloc's, as above, and hwloc has just made the bitmap.
    let distances = unsafe { topology::distances(topology, bitmap, &infos, &hostname) };
    // SAFETY: hwloc made the bitmap above, and nobody uses it after this.
    unsafe { hwloc.free(bitmap) };
    distances
}

call! {
    /// `PMIx_Cpuset_destruct`: frees what [`PMIx_Get_cpuset`] or [`PMIx_Parse_cpuset_string`] made.
    fn PMIx_Cpuset_destruct(cpuset: *mut pmix_cpuset_t) {
        if !cpuset.is_null() {
            // SAFETY: not NULL, hence a cpuset, which holds what the library gave it, or nothing.
            unsafe { pmix_cpuset_t::destroy(cpuset) }
        }
    }

    /// `PMIx_Topology_destruct`: frees a topology, unless it is the one that [`PMIx_Load_topology`] gives to everybody.
    fn PMIx_Topology_destruct(topo: *mut pmix_topology_t) {
        if !topo.is_null() {
            // SAFETY: not NULL, hence a topology, which holds what the library gave it, or nothing.
            unsafe { pmix_topology_t::destroy(topo) }
        }
    }
}

status_call! {
    /// `PMIx_Get_cpuset`: the processors that this process (its first thread) or the calling thread may use. The former contents of
    /// the structure do not count.
    fn PMIx_Get_cpuset(cpuset: *mut pmix_cpuset_t, ref_: pmix_bind_envelope_t) {
        // SAFETY: `cpuset` is NULL or a place for a cpuset.
        let cpuset = unsafe { Out::new(cpuset) }?;
        let thread = match ref_ {
            OF_PROCESS => std::process::id() as libc::pid_t,
            OF_THREAD => 0,
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        let bitmap = Hwloc::get()?.bitmap(processors_of(thread)?.into_iter())?;
        // SAFETY: hwloc has just made the bitmap.
        unsafe { fill(&cpuset, bitmap) }
    }

    /// `PMIx_Parse_cpuset_string`.
    fn PMIx_Parse_cpuset_string(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) {
        // SAFETY: `cpuset` is NULL or a place for a cpuset.
        let cpuset = unsafe { Out::new(cpuset) }?;
        // SAFETY: `cpuset_string` is NULL or a C string.
        let bitmap = unsafe { parse(cpuset_string) }?;
        // SAFETY: `parse` has just made the bitmap.
        unsafe { fill(&cpuset, bitmap) }
    }

    /// `PMIx_server_generate_cpuset`.
    fn PMIx_server_generate_cpuset(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) {
        // SAFETY: `cpuset` is NULL or a place for a cpuset.
        let cpuset = unsafe { Out::new(cpuset) }?;
        // SAFETY: `cpuset_string` is NULL or a C string.
        let bitmap = unsafe { parse(cpuset_string) }?;
        // SAFETY: `parse` has just made the bitmap.
        unsafe { fill(&cpuset, bitmap) }
    }

    /// `PMIx_Load_topology`: the topology of this machine. All callers get the same one. Where the structure names a source, it must
    /// be hwloc.
    fn PMIx_Load_topology(topo: *mut pmix_topology_t) {
        // SAFETY: `topo` is NULL or a topology whose source is set; only this call uses it.
        let topo = unsafe { topo.as_mut() }.ok_or(Status::ERR_BAD_PARAM)?;
        super::client()?;
        if !topo.source.is_null() {
            // SAFETY: not NULL, hence a C string.
            unsafe { check_source(topo.source) }?;
        }
        let own = topology::own()?;
        if topo.source.is_null() {
            topo.source = copy_string(c"hwloc")?;
        }
        topo.topology = own.0;
        Ok(())
    }

    /// `PMIx_server_generate_locality_string`: the parts of the machine that a cpuset is in; NULL where no part has all of it.
    fn PMIx_server_generate_locality_string(cpuset: *const pmix_cpuset_t, locality: *mut *mut c_char) {
        // SAFETY: `locality` is NULL or a place for a string's address.
        let locality = unsafe { Out::new(locality) }?;
        locality.set(ptr::null_mut());
        // SAFETY: `cpuset` is NULL or a cpuset.
        let bitmap = unsafe { bitmap_of(cpuset) }?;
        // SAFETY: the cpuset's source says that the bitmap is hwloc's.
        let text = if bitmap.is_null() { None } else { unsafe { topology::locality(bitmap) }? };
        locality.set(text.map_or(Ok(ptr::null_mut()), |text| copy_text(&text))?);
        Ok(())
    }

    /// `PMIx_Compute_distances`: how far devices are from a cpuset; without a topology or cpuset, from that of this process.
    fn PMIx_Compute_distances(
        topo: *mut pmix_topology_t,
        cpuset: *mut pmix_cpuset_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        distances: *mut *mut pmix_device_distance_t,
        ndist: *mut usize,
    ) {
        // SAFETY: `distances` is NULL or a place for an array's address.
        let array = unsafe { Out::new(distances) }?;
        // SAFETY: `ndist` is NULL or a place for its length.
        let count = unsafe { Out::new(ndist) }?;
        array.set(ptr::null_mut());
        count.set(0);
        // SAFETY: `topo` and `cpuset` are NULL or initialised, and hold what their sources say; `info` is an array of `ninfo` infos.
        let distances = unsafe { measure(topo, cpuset, info, ninfo) }?;
        let (items, len) = CArray::new(&distances)?.into_raw();
        array.set(items);
        count.set(len);
        Ok(())
    }

    /// `PMIx_Compute_distances_nb`: the same with a callback, which keeps the distances until it releases them.
    fn PMIx_Compute_distances_nb(
        topo: *mut pmix_topology_t,
        cpuset: *mut pmix_cpuset_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_device_dist_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `topo` and `cpuset` are NULL or initialised, and hold what their sources say; `info` is an array of `ninfo` infos.
        let distances = unsafe { measure(topo, cpuset, info, ninfo) }?;
        super::client()?.later(Box::new(move || callback.call(&distances)));
        Ok(())
    }

    /// `PMIx_server_generate_cpuset_string`.
    fn PMIx_server_generate_cpuset_string(cpuset: *const pmix_cpuset_t, cpuset_string: *mut *mut c_char) {
        // SAFETY: `cpuset_string` is NULL or a place for a string's address.
        let text = unsafe { Out::new(cpuset_string) }?;
        text.set(ptr::null_mut());
        // SAFETY: `cpuset` is NULL or a cpuset.
        let bitmap = present(unsafe { bitmap_of(cpuset) }?)?;
        // SAFETY: the cpuset's source says that the bitmap is hwloc's.
        let list = unsafe { Hwloc::get()?.list(bitmap) }?;
        text.set(copy_text(&[b"hwloc:", &list[..]].concat())?);
        Ok(())
    }

    /// `PMIx_Get_relative_locality`.
    fn PMIx_Get_relative_locality(
        locality1: *const c_char,
        locality2: *const c_char,
        locality: *mut pmix_locality_t,
    ) {
        // SAFETY: `locality` is NULL or a place for the flags.
        let locality = unsafe { Out::new(locality) }?;
        // SAFETY: `locality1` and `locality2` are NULL or C strings.
        let (one, other) = unsafe { (c_str(locality1)?, c_str(locality2)?) };
        let shared = relative_locality(one.to_bytes(), other.to_bytes());
        let unknown = |status| if status == Status::ERR_NOT_SUPPORTED { TAKE_NEXT_OPTION } else { status };
        locality.set(shared.map_err(unknown)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

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
            (c"elsewhere:0", TAKE_NEXT_OPTION),
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
    fn what_is_not_hwlocs_is_for_others() {
        let mut cpuset = NONE;
        let mut shared = 0;
        // SAFETY: C strings, a cpuset of ours, and places for what comes out; the sources are put back.
        unsafe {
            assert_eq!(PMIx_Parse_cpuset_string(c"hwloc:0-3".as_ptr(), &mut cpuset), 0);
            let own = cpuset.source;
            for (source, status) in [(c"elsewhere".as_ptr(), TAKE_NEXT_OPTION), (ptr::null(), Status::ERR_BAD_PARAM)] {
                cpuset.source = source.cast_mut();
                for write in [PMIx_server_generate_cpuset_string, PMIx_server_generate_locality_string] {
                    let mut text = ptr::without_provenance_mut(1);
                    assert_eq!((write(&cpuset, &mut text), text), (status.0, ptr::null_mut()));
                    let mut text = ptr::without_provenance_mut(1);
                    assert_eq!((write(ptr::null(), &mut text), text), (Status::ERR_BAD_PARAM.0, ptr::null_mut()));
                }
            }
            cpuset.source = own;
            PMIx_Cpuset_destruct(&mut cpuset);
            let [one, other] = [c"elsewhere:SK0", c"hwloc:SK0"].map(CStr::as_ptr);
            assert_eq!(PMIx_Get_relative_locality(one, other, &mut shared), TAKE_NEXT_OPTION.0);
        }
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
