//! Keys, namespaces, ranks and processes: filled, compared, checked.

use std::ffi::c_char;

use pmix_dstore::model::Rank;

use crate::convert::text;
use crate::entry::entry;
use crate::types::*;

/// The first rank that no process can have. The ranks with a special meaning are greater.
const RANK_END: pmix_rank_t = 0xffff_ffcd;
/// The separator between a cluster's name and a namespace.
const CLUSTER_END: u8 = b':';

/// The name in a buffer of `capacity` bytes, up to its NUL; an empty one for NULL.
///
/// # Safety
/// `name` is NULL or readable up to its NUL or `capacity` bytes for `'a`.
unsafe fn name<'a>(name: *const c_char, capacity: usize) -> &'a [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: strnlen reads up to the NUL and less than `capacity` bytes, which are readable by the caller's promise.
    let len = unsafe { libc::strnlen(name, capacity - 1) };
    // SAFETY: strnlen has just read these bytes.
    unsafe { std::slice::from_raw_parts(name.cast(), len) }
}

/// A namespace, cut to its capacity; an empty one for NULL.
///
/// # Safety
/// `at` is NULL or readable up to its NUL or 256 bytes for `'a`.
unsafe fn nspace<'a>(at: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { name(at, size_of::<pmix_nspace_t>()) }
}

/// A key, cut to its capacity; an empty one for NULL.
///
/// # Safety
/// `at` is NULL or readable up to its NUL or 512 bytes for `'a`.
unsafe fn key<'a>(at: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { name(at, size_of::<pmix_key_t>()) }
}

/// Fills a namespace; NULL as the source empties it, a long one is cut.
///
/// # Safety
/// `to` is NULL or has room for a namespace; `from` as for [`nspace`].
unsafe fn load_nspace(to: *mut c_char, from: *const c_char) {
    if !to.is_null() {
        // SAFETY: `to` is not NULL, hence has room for a namespace, by the caller's promise; so has `from` one.
        unsafe { text::write_name(to, size_of::<pmix_nspace_t>(), nspace(from)) }
    }
}

/// Fills a process.
///
/// # Safety
/// `to` is NULL or has room for a process; `from` as for [`nspace`].
pub(super) unsafe fn load_proc(to: *mut pmix_proc_t, from: *const c_char, rank: pmix_rank_t) {
    if !to.is_null() {
        // SAFETY: `to` is not NULL, hence has room for a process; `from` keeps the rules of `nspace`, by the caller's promise.
        unsafe {
            load_nspace((&raw mut (*to).nspace).cast(), from);
            (*to).rank = rank;
        }
    }
}

/// Fills a key; NULL as the source empties it, a long one is cut.
///
/// # Safety
/// `to` is NULL or has room for a key; `from` as for [`key`].
pub(super) unsafe fn load_key(to: *mut c_char, from: *const c_char) {
    if !to.is_null() {
        // SAFETY: `to` is not NULL, hence has room for a key; `from` keeps the rules of `key`, by the caller's promise.
        unsafe { text::write_name(to, size_of::<pmix_key_t>(), key(from)) }
    }
}

/// Namespace and rank of a process.
///
/// # Safety
/// `proc` is an initialised process, which stays unchanged for `'a`.
unsafe fn parts<'a>(proc: *const pmix_proc_t) -> (&'a [u8], pmix_rank_t) {
    // SAFETY: the process is initialised; its namespace has a NUL or all its 256 bytes.
    unsafe { (nspace((&raw const (*proc).nspace).cast()), (*proc).rank) }
}

/// Whether two ranks may mean the same process: they are equal, or one of them means all.
fn ranks_match(one: pmix_rank_t, other: pmix_rank_t) -> bool {
    one == other || one == Rank::WILDCARD.0 || other == Rank::WILDCARD.0
}

/// Whether two namespaces may be the same: they are equal, or one of them is empty and means any.
fn nspaces_match(one: &[u8], other: &[u8]) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// Whether both are the same namespace; an empty name is none.
fn is_same_nspace(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && one == other
}

entry! {
    /// `PMIx_Load_key`: fills a key.
    fn PMIx_Load_key(to: *mut c_char, src: *const c_char) {
        // SAFETY: `to` is NULL or has room for a key; `src` is NULL, or has a NUL or all its bytes.
        unsafe { load_key(to, src) };
    }

    /// `PMIx_Check_key`: whether two keys are the same. NULL is no key.
    fn PMIx_Check_key(one: *const c_char, str: *const c_char) -> bool {
        // SAFETY: each is NULL, or has a NUL or all its bytes.
        !one.is_null() && !str.is_null() && unsafe { key(one) == key(str) }
    }

    /// `PMIx_Check_reserved_key`: whether a key begins as those of the standard do.
    fn PMIx_Check_reserved_key(one: *const c_char) -> bool {
        // SAFETY: `one` is NULL, or has a NUL or all its bytes.
        unsafe { key(one) }.starts_with(b"pmix")
    }

    /// `PMIx_Load_nspace`: fills a namespace.
    fn PMIx_Load_nspace(to: *mut c_char, str: *const c_char) {
        // SAFETY: `to` is NULL or has room for a namespace; `str` is NULL, or has a NUL or all its bytes.
        unsafe { load_nspace(to, str) };
    }

    /// `PMIx_Check_nspace`: whether two namespaces may be the same. An empty one may be any.
    fn PMIx_Check_nspace(key1: *const c_char, key2: *const c_char) -> bool {
        // SAFETY: each is NULL, or has a NUL or all its bytes.
        unsafe { nspaces_match(nspace(key1), nspace(key2)) }
    }

    /// `PMIx_Check_nspace_strict`: whether two namespaces are the same. An empty one is no namespace's.
    fn PMIx_Check_nspace_strict(key1: *const c_char, key2: *const c_char) -> bool {
        // SAFETY: each is NULL, or has a NUL or all its bytes.
        unsafe { is_same_nspace(nspace(key1), nspace(key2)) }
    }

    /// `PMIx_Nspace_invalid`: whether there is no name.
    fn PMIx_Nspace_invalid(at: *const c_char) -> bool {
        // SAFETY: `at` is NULL, or has a NUL or all its bytes.
        unsafe { nspace(at) }.is_empty()
    }

    /// `PMIx_Check_rank`: whether two ranks may mean the same process.
    fn PMIx_Check_rank(a: pmix_rank_t, b: pmix_rank_t) -> bool {
        ranks_match(a, b)
    }

    /// `PMIx_Rank_valid`: whether a process can have this rank.
    fn PMIx_Rank_valid(a: pmix_rank_t) -> bool {
        a < RANK_END
    }

    /// `PMIx_Load_procid`: fills a process.
    fn PMIx_Load_procid(p: *mut pmix_proc_t, ns: *const c_char, rk: pmix_rank_t) {
        // SAFETY: `p` is NULL or has room for a process; `ns` is NULL, or has a NUL or all its bytes.
        unsafe { load_proc(p, ns, rk) };
    }

    /// `PMIx_Proc_load`: fills a process.
    fn PMIx_Proc_load(p: *mut pmix_proc_t, ns: *const c_char, rank: pmix_rank_t) {
        // SAFETY: `p` is NULL or has room for a process; `ns` is NULL, or has a NUL or all its bytes.
        unsafe { load_proc(p, ns, rank) };
    }

    /// `PMIx_Xfer_procid`: copies a process; NULL as the source leaves zeros.
    fn PMIx_Xfer_procid(dst: *mut pmix_proc_t, src: *const pmix_proc_t) {
        if dst.is_null() {
            return;
        }
        if src.is_null() {
            // SAFETY: `dst` is not NULL, hence has room for a process.
            unsafe { dst.write_bytes(0, 1) };
        } else {
            // SAFETY: neither is NULL: there is a process, and room for one.
            unsafe { dst.copy_from(src, 1) };
        }
    }

    /// `PMIx_Check_procid`: whether two names may mean the same process.
    fn PMIx_Check_procid(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
        if a.is_null() || b.is_null() {
            return a == b;
        }
        // SAFETY: neither is NULL, hence both are initialised processes.
        let (one, other) = unsafe { (parts(a), parts(b)) };
        nspaces_match(one.0, other.0) && ranks_match(one.1, other.1)
    }

    /// `PMIx_Check_procid_strict`: whether two names are the same. A wildcard rank is the same as another one, and as no other rank.
    fn PMIx_Check_procid_strict(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
        if a.is_null() || b.is_null() {
            return false;
        }
        // SAFETY: neither is NULL, hence both are initialised processes.
        let (one, other) = unsafe { (parts(a), parts(b)) };
        is_same_nspace(one.0, other.0) && one.1 == other.1
    }

    /// `PMIx_Procid_invalid`: whether this names no process.
    fn PMIx_Procid_invalid(p: *const pmix_proc_t) -> bool {
        if p.is_null() {
            return true;
        }
        // SAFETY: not NULL, hence an initialised process.
        let (nspace, rank) = unsafe { parts(p) };
        nspace.is_empty() || rank == Rank::INVALID.0
    }

    /// `PMIx_Multicluster_nspace_construct`: a namespace from a cluster's name and a namespace in it; an empty one where
    /// both together are too long.
    fn PMIx_Multicluster_nspace_construct(target: *mut c_char, cluster: *mut c_char, within: *mut c_char) {
        if target.is_null() {
            return;
        }
        // SAFETY: each is NULL, or has a NUL or all its bytes.
        let (cluster, within) = unsafe { (nspace(cluster), nspace(within)) };
        let mut whole = [cluster, &[CLUSTER_END], within].concat();
        if whole.len() >= size_of::<pmix_nspace_t>() {
            whole.clear();
        }
        // SAFETY: `target` is not NULL, hence has room for a namespace.
        unsafe { text::write_name(target, size_of::<pmix_nspace_t>(), &whole) };
    }

    /// `PMIx_Multicluster_nspace_parse`: the cluster's name and the namespace in it, which is empty where there is no
    /// cluster.
    fn PMIx_Multicluster_nspace_parse(target: *mut c_char, cluster: *mut c_char, within: *mut c_char) {
        // SAFETY: `target` is NULL, or has a NUL or all its bytes.
        let whole = unsafe { nspace(target) }.to_vec();
        let mut parts = whole.splitn(2, |&byte| byte == CLUSTER_END);
        for part in [cluster, within] {
            let name = parts.next().unwrap_or_default();
            if !part.is_null() {
                // SAFETY: not NULL, hence there is room for a namespace.
                unsafe { text::write_name(part, size_of::<pmix_nspace_t>(), name) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(nspace: &std::ffi::CStr, rank: u32) -> pmix_proc_t {
        let mut proc = pmix_proc_t { nspace: [1; 256], rank: 0 };
        // SAFETY: a process on the stack and a C string.
        unsafe { PMIx_Load_procid(&raw mut proc, nspace.as_ptr(), rank) };
        proc
    }

    #[test]
    fn processes_match_by_name_and_wildcard() {
        let (one, other) = (loaded(c"job", 1), loaded(c"job", 2));
        let (all, any, foreign) = (loaded(c"job", Rank::WILDCARD.0), loaded(c"", 1), loaded(c"else", 1));
        // SAFETY: processes on the stack, or NULL.
        let same = |a: *const pmix_proc_t, b: *const pmix_proc_t| unsafe { PMIx_Check_procid(a, b) };
        assert!(same(&raw const one, &raw const one));
        assert!(!same(&raw const one, &raw const other));
        assert!(same(&raw const one, &raw const all));
        assert!(same(&raw const any, &raw const one));
        assert!(!same(&raw const foreign, &raw const one));
        assert!(!same(std::ptr::null(), &raw const one) && same(std::ptr::null(), std::ptr::null()));
    }

    #[test]
    fn strict_comparisons_know_no_wildcards() {
        let (one, other, all) = (loaded(c"job", 1), loaded(c"job", 2), loaded(c"job", Rank::WILDCARD.0));
        let (any, again, none) = (loaded(c"", 1), loaded(c"job", 1), std::ptr::null());
        // SAFETY: processes on the stack, or NULL.
        let same = |a: *const pmix_proc_t, b: *const pmix_proc_t| unsafe { PMIx_Check_procid_strict(a, b) };
        assert!(same(&raw const one, &raw const again) && same(&raw const all, &raw const all));
        for unlike in [&raw const other, &raw const all, &raw const any, none] {
            assert!(!same(&raw const one, unlike) && !same(unlike, &raw const one));
        }
        assert!(!same(&raw const any, &raw const any) && !same(none, none));
        // SAFETY: string literals, or NULL.
        let names = |a: *const c_char, b: *const c_char| unsafe { PMIx_Check_nspace_strict(a, b) };
        let (job, empty, null) = (c"job".as_ptr(), c"".as_ptr(), std::ptr::null());
        assert!(names(job, job) && !names(job, c"jo".as_ptr()));
        assert!(![empty, null].iter().any(|name| names(*name, job) || names(job, *name) || names(*name, *name)));
    }

    #[test]
    fn names_are_cut_to_their_buffers() {
        let long = std::ffi::CString::new(vec![b'n'; 600]).unwrap();
        let proc = loaded(&long, 0);
        assert_eq!((proc.nspace[254], proc.nspace[255]), (b'n' as c_char, 0));
        let mut key: pmix_key_t = [1; 512];
        // SAFETY: a key on the stack.
        unsafe {
            PMIx_Load_key((&raw mut key).cast(), long.as_ptr());
            assert_eq!((key[510], key[511]), (b'n' as c_char, 0));
            PMIx_Load_key((&raw mut key).cast(), std::ptr::null());
        }
        assert_eq!(key, [0; 512]);
    }

    #[test]
    fn some_ranks_and_names_are_nobodys() {
        // SAFETY: C strings, processes on the stack.
        unsafe {
            assert!(PMIx_Rank_valid(0) && PMIx_Rank_valid(RANK_END - 1) && !PMIx_Rank_valid(RANK_END));
            assert!(PMIx_Nspace_invalid(c"".as_ptr()) && !PMIx_Nspace_invalid(c"n".as_ptr()));
            assert!(PMIx_Procid_invalid(&raw const *Box::new(loaded(c"", 0))));
            assert!(PMIx_Procid_invalid(&raw const *Box::new(loaded(c"n", Rank::INVALID.0))));
            assert!(PMIx_Check_reserved_key(c"pmix.job.size".as_ptr()) && !PMIx_Check_reserved_key(c"mine".as_ptr()));
        }
    }

    #[test]
    fn clusters_are_named_before_their_namespaces() {
        let (mut target, mut cluster, mut within): (pmix_nspace_t, pmix_nspace_t, pmix_nspace_t) =
            ([0; 256], [0; 256], [0; 256]);
        // SAFETY: namespaces on the stack.
        unsafe {
            PMIx_Load_nspace((&raw mut cluster).cast(), c"north".as_ptr());
            PMIx_Load_nspace((&raw mut within).cast(), c"job:7".as_ptr());
            let [t, c, w] = [&raw mut target, &raw mut cluster, &raw mut within].map(|at| at.cast::<c_char>());
            PMIx_Multicluster_nspace_construct(t, c, w);
            assert_eq!(nspace(t), b"north:job:7");
            PMIx_Load_nspace(c, std::ptr::null());
            PMIx_Multicluster_nspace_parse(t, c, w);
            assert_eq!((nspace(c), nspace(w)), (&b"north"[..], &b"job:7"[..]));
            PMIx_Load_nspace(t, c"lone".as_ptr());
            PMIx_Multicluster_nspace_parse(t, c, w);
            assert_eq!((nspace(c), nspace(w)), (&b"lone"[..], &b""[..]));
        }
    }
}
