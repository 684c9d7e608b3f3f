//! The flags of an info.

use pmix_dstore::model::InfoFlags;

use crate::entry::entry;
use crate::types::*;

/// Sets a flag; of NULL, nothing.
///
/// # Safety
/// `info` is NULL or an initialised info that may be written.
unsafe fn set(info: *mut pmix_info_t, flag: u32) {
    // SAFETY: the caller's promise.
    if let Some(info) = unsafe { info.as_mut() } {
        info.flags |= flag;
    }
}

/// Whether a flag is set; of NULL, no flag is.
///
/// # Safety
/// `info` is NULL or an initialised info.
unsafe fn has(info: *const pmix_info_t, flag: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { info.as_ref() }.is_some_and(|info| info.flags & flag != 0)
}

entry! {
    /// `PMIx_Info_required`: the directive must be honoured.
    fn PMIx_Info_required(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        unsafe { set(p, InfoFlags::REQUIRED) }
    }

    /// `PMIx_Info_optional`: the library or host may ignore the directive.
    fn PMIx_Info_optional(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        if let Some(info) = unsafe { p.as_mut() } {
            info.flags &= !InfoFlags::REQUIRED;
        }
    }

    /// `PMIx_Info_is_required`.
    fn PMIx_Info_is_required(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        unsafe { has(p, InfoFlags::REQUIRED) }
    }

    /// `PMIx_Info_is_optional`.
    fn PMIx_Info_is_optional(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        !p.is_null() && !unsafe { has(p, InfoFlags::REQUIRED) }
    }

    /// `PMIx_Info_processed`: a required directive has been honoured.
    fn PMIx_Info_processed(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        unsafe { set(p, InfoFlags::REQUIRED_PROCESSED) }
    }

    /// `PMIx_Info_was_processed`.
    fn PMIx_Info_was_processed(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        unsafe { has(p, InfoFlags::REQUIRED_PROCESSED) }
    }

    /// `PMIx_Info_set_end`: the info is the last of its array.
    fn PMIx_Info_set_end(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        unsafe { set(p, InfoFlags::ARRAY_END) }
    }

    /// `PMIx_Info_is_end`.
    fn PMIx_Info_is_end(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        unsafe { has(p, InfoFlags::ARRAY_END) }
    }

    /// `PMIx_Info_qualifier`: the info qualifies the first one of its array.
    fn PMIx_Info_qualifier(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        unsafe { set(p, InfoFlags::QUALIFIER) }
    }

    /// `PMIx_Info_is_qualifier`.
    fn PMIx_Info_is_qualifier(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        unsafe { has(p, InfoFlags::QUALIFIER) }
    }

    /// `PMIx_Info_persistent`: another info owns the value, which is not freed with this one.
    fn PMIx_Info_persistent(p: *mut pmix_info_t) {
        // SAFETY: `p` is NULL or an info of the caller's, who wants it changed.
        unsafe { set(p, InfoFlags::PERSISTENT) }
    }

    /// `PMIx_Info_is_persistent`.
    fn PMIx_Info_is_persistent(p: *const pmix_info_t) -> bool {
        // SAFETY: `p` is NULL or an info.
        unsafe { has(p, InfoFlags::PERSISTENT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_its_flag() {
        // SAFETY: a zeroed info is an empty one.
        unsafe {
            let mut info: pmix_info_t = std::mem::zeroed();
            let at = &raw mut info;
            assert!(PMIx_Info_is_optional(at));
            PMIx_Info_required(at);
            assert!(PMIx_Info_is_required(at) && !PMIx_Info_is_optional(at) && !PMIx_Info_was_processed(at));
            PMIx_Info_processed(at);
            PMIx_Info_set_end(at);
            assert!(PMIx_Info_was_processed(at) && PMIx_Info_is_end(at) && !PMIx_Info_is_qualifier(at));
            PMIx_Info_qualifier(at);
            PMIx_Info_persistent(at);
            assert!(PMIx_Info_is_qualifier(at) && PMIx_Info_is_persistent(at));
            PMIx_Info_optional(at);
            assert_eq!(info.flags, 2 + 4 + 8 + 16);
            PMIx_Info_required(std::ptr::null_mut());
            assert!(!PMIx_Info_is_required(std::ptr::null()) && !PMIx_Info_is_optional(std::ptr::null()));
        }
    }
}
