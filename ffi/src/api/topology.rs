//! Cpusets, which hold bitmaps of hwloc's; topologies; locality strings.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use pmix_client::locality::relative_locality;
use pmix_client::topology;
use pmix_dstore::model::attributes::check_required;
use pmix_dstore::model::{DeviceDistance, Info, Result, Status};
use pmix_hwloc::{Hwloc, SOURCE, processors_of};

use super::{present, writable};
use crate::callback::Callback;
use crate::convert::array::{self, CArray};
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

/// `PMIX_ERR_TAKE_NEXT_OPTION`: what is of another source than hwloc is for another one to answer. No public header has it, but stock
/// functions answer it.
const TAKE_NEXT_OPTION: Status = Status(-1366);

/// Whether something is hwloc's, by its source.
///
/// # Errors
/// `BAD_PARAM` where it names none; [`TAKE_NEXT_OPTION`] for another one.
///
/// # Safety
/// NULL or a C string.
unsafe fn of_hwloc(source: *const c_char) -> Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { is_hwlocs(present(source)?) } {
        true => Ok(()),
        false => Err(TAKE_NEXT_OPTION),
    }
}

/// Fills a cpuset, whatever it held.
///
/// # Safety
/// `cpuset` is writable; the bitmap is hwloc's and nobody else's.
unsafe fn fill(cpuset: *mut pmix_cpuset_t, bitmap: *mut c_void) -> Result<()> {
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

/// The bitmap of a text such as `hwloc:0-3,8`, which the caller owns.
///
/// # Errors
/// `BAD_PARAM` for what is no such text; [`TAKE_NEXT_OPTION`] for that of another source.
///
/// # Safety
/// NULL or a C string.
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

/// How far devices are from a cpuset.
///
/// # Errors
/// As [`of_hwloc`] and [`topology::distances`].
///
/// # Safety
/// The structures are NULL or what they say; an array of `ninfo` infos.
unsafe fn measure(
    topo: *const pmix_topology_t,
    cpuset: *const pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Vec<DeviceDistance>> {
    let client = super::client()?;
    let hwloc = Hwloc::get()?;
    // SAFETY: the caller's promise.
    let (topo, cpuset) = unsafe { (topo.as_ref(), cpuset.as_ref()) };
    // SAFETY: as above.
    let held = |source, held: *mut c_void| unsafe { of_hwloc(source).and_then(|()| present(held.cast_const())) };
    let topology = match topo {
        Some(topo) => held(topo.source, topo.topology)?,
        None => topology::own()?.0,
    };
    // SAFETY: as above.
    let infos: Vec<Info> = unsafe { array::read(info, ninfo) }?;
    check_required(&infos)?;
    let hostname = client.hostname();
    if let Some(cpuset) = cpuset {
        let bitmap = held(cpuset.source, cpuset.bitmap)?;
        // SAFETY: both are hwloc's, by the caller's promise.
        return unsafe { topology::distances(topology, bitmap, &infos, &hostname) };
    }
    let bitmap = hwloc.bitmap(processors_of(std::process::id() as libc::pid_t)?.into_iter())?;
    // SAFETY: both are hwloc's; the bitmap is ours alone.
    unsafe {
        let distances = topology::distances(topology, bitmap, &infos, &hostname);
        hwloc.free(bitmap);
        distances
    }
}

call! {
    /// `PMIx_Cpuset_destruct`: frees what [`PMIx_Get_cpuset`] or [`PMIx_Parse_cpuset_string`] made.
    fn PMIx_Cpuset_destruct(cpuset: *mut pmix_cpuset_t) {
        if !cpuset.is_null() {
            pmix_cpuset_t::destroy(cpuset);
        }
    }

    /// `PMIx_Topology_destruct`: frees a topology, unless it is the one that [`PMIx_Load_topology`] gives to everybody.
    fn PMIx_Topology_destruct(topo: *mut pmix_topology_t) {
        if !topo.is_null() {
            pmix_topology_t::destroy(topo);
        }
    }
}

status_call! {
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
        fill(writable(cpuset)?, parse(cpuset_string)?)
    }

    /// `PMIx_server_generate_cpuset`.
    fn PMIx_server_generate_cpuset(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) {
        fill(writable(cpuset)?, parse(cpuset_string)?)
    }

    /// `PMIx_Load_topology`: that of this machine, the same to everybody who asks. Where the structure names a source, it must be
    /// hwloc.
    fn PMIx_Load_topology(topo: *mut pmix_topology_t) {
        let at = writable(topo)?;
        super::client()?;
        if !(*at).source.is_null() {
            of_hwloc((*at).source)?;
        }
        let own = topology::own()?;
        if (*at).source.is_null() {
            (*at).source = copy_string(c"hwloc")?;
        }
        (*at).topology = own.0;
        Ok(())
    }

    /// `PMIx_server_generate_locality_string`: what of the machine a cpuset is in; NULL where it is everywhere.
    fn PMIx_server_generate_locality_string(cpuset: *const pmix_cpuset_t, locality: *mut *mut c_char) {
        let at = writable(locality)?;
        at.write(ptr::null_mut());
        let cpuset = *present(cpuset)?;
        of_hwloc(cpuset.source)?;
        let text = if cpuset.bitmap.is_null() { None } else { topology::locality(cpuset.bitmap)? };
        at.write(text.map_or(Ok(ptr::null_mut()), |text| copy_text(&text))?);
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
        let (at, count) = (writable(distances)?, writable(ndist)?);
        (*at, *count) = (ptr::null_mut(), 0);
        (*at, *count) = CArray::new(&measure(topo, cpuset, info, ninfo)?)?.into_raw();
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
        let distances = measure(topo, cpuset, info, ninfo)?;
        super::client()?.later(Box::new(move || callback.call(&distances)));
        Ok(())
    }

    /// `PMIx_server_generate_cpuset_string`.
    fn PMIx_server_generate_cpuset_string(cpuset: *const pmix_cpuset_t, cpuset_string: *mut *mut c_char) {
        let at = writable(cpuset_string)?;
        at.write(ptr::null_mut());
        let cpuset = *present(cpuset)?;
        of_hwloc(cpuset.source)?;
        let bitmap = present(cpuset.bitmap)?;
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
        let shared = relative_locality(text(locality1)?.to_bytes(), text(locality2)?.to_bytes());
        at.write(shared.map_err(|status| if status == Status::ERR_NOT_SUPPORTED { TAKE_NEXT_OPTION } else { status })?);
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
