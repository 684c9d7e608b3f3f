//! The short way of `PMIx_Get`: most Gets are of the own job, say no more than how they want the value, and end on the
//! calling thread without a lock.
//!
//! Values in place, and values of this process's own, have functions of their own: in one with all of it the compiler keeps
//! nothing in registers.

use std::ffi::c_char;

use pmix_client::Client;
use pmix_client::instance::{self, Shielded};
use pmix_dstore::model::{DataType, KeyRef, Rank, Status};
use pmix_dstore::segment::{Answer, Short, Target};

use super::writable;
use crate::convert::text;
use crate::convert::value::{self, Plain};
use crate::memory::{copy_bytes, copy_text, free};
use crate::pinned::Pinned;
use crate::types::*;

/// Infos of a Get that only say how a value is wanted, or that it need not be had.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flags(u32);

impl Flags {
    const NONE: Flags = Flags(0);
    const OPTIONAL: Flags = Flags(1);
    const POINTER_VALUES: Flags = Flags(2);
    const STATIC_VALUES: Flags = Flags(4);
    const IMMEDIATE: Flags = Flags(8);

    #[inline(always)]
    fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a copy is wanted, in memory of its own.
    #[inline(always)]
    fn is_copy(self) -> bool {
        self.0 & (Flags::POINTER_VALUES.0 | Flags::STATIC_VALUES.0) == 0
    }

    /// The flag of a key.
    #[inline(always)]
    fn of_key(key: &KeyBytes) -> Option<Flags> {
        // With their NULs, and of a length that the compiler knows.
        if key.starts_with(b"pmix.optional\0") {
            Some(Flags::OPTIONAL)
        } else if key.starts_with(b"pmix.get.pntrs\0") {
            Some(Flags::POINTER_VALUES)
        } else if key.starts_with(b"pmix.get.static\0") {
            Some(Flags::STATIC_VALUES)
        } else if key.starts_with(b"pmix.immediate\0") {
            Some(Flags::IMMEDIATE)
        } else {
            None
        }
    }

    #[inline(always)]
    fn set(&mut self, flag: Flags, is_set: bool) {
        self.0 = if is_set { self.0 | flag.0 } else { self.0 & !flag.0 };
    }

    /// The flags, if all infos are such.
    ///
    /// # Safety
    /// `info` is NULL or an array of `ninfo` infos.
    #[inline(always)]
    unsafe fn of(info: *const pmix_info_t, ninfo: usize) -> Option<Flags> {
        let mut flags = Flags::NONE;
        let ninfo = if info.is_null() { 0 } else { ninfo };
        for index in 0..ninfo {
            // SAFETY: the caller's promise; a key is an array, and the type says what the value is.
            unsafe {
                let at = info.add(index);
                if (*at).value.type_ != DataType::BOOL.0 {
                    return None;
                }
                flags.set(Flags::of_key(&*(&raw const (*at).key).cast())?, (*at).value.data.bytes[0] != 0);
            }
        }
        Some(flags)
    }
}

/// The key of an info, with its NUL and what is behind it.
type KeyBytes = [u8; size_of::<pmix_key_t>()];

/// The flags, and whose value it is to be, if all infos say no more, and one says that.
///
/// # Safety
/// `info` is an array of `ninfo` infos, which stay as they are for `'a`.
unsafe fn instance_of<'a>(info: *const pmix_info_t, ninfo: usize) -> Option<(Flags, Target<'a>)> {
    let mut flags = Flags::NONE;
    let (mut of_node, mut of_app) = (false, false);
    let (mut nodeid, mut hostname, mut appnum) = (None, None, None);
    for index in 0..ninfo {
        // SAFETY: the caller's promise; a key is an array, and the type says what the value is.
        let (key, ty, data): (&KeyBytes, _, _) = unsafe {
            let at = info.add(index);
            (&*(&raw const (*at).key).cast(), DataType((*at).value.type_), &raw const (*at).value.data)
        };
        if ty == DataType::BOOL {
            // SAFETY: a flag, as its type says.
            let is_set = unsafe { (*data).bytes[0] } != 0;
            if key.starts_with(b"pmix.node.info\0") {
                of_node = is_set;
            } else if key.starts_with(b"pmix.app.info\0") {
                of_app = is_set;
            } else {
                flags.set(Flags::of_key(key)?, is_set);
            }
        } else if ty == DataType::UINT32 {
            // SAFETY: a number, as its type says.
            let number = unsafe { data.cast::<u32>().read() };
            if key.starts_with(b"pmix.nodeid\0") {
                nodeid = Some(number);
            } else if key.starts_with(b"pmix.appnum\0") {
                appnum = Some(number);
            } else {
                return None;
            }
        } else if ty == DataType::STRING && key.starts_with(b"pmix.hname\0") {
            // SAFETY: NULL or a C string, as its type says.
            hostname = Some(unsafe { text::string((*data).string) }?.to_bytes());
        } else {
            return None;
        }
    }
    let of = match (nodeid, hostname, appnum) {
        // What is of an application on a node is not for here.
        (Some(nodeid), ..) if !of_app => Target::NodeId(nodeid),
        (None, Some(name), _) if !of_app => Target::NodeName(name),
        (None, None, Some(appnum)) if !of_node => Target::App(appnum),
        // The rank's, or the caller's, or not said at all.
        _ => return None,
    };
    Some((flags, of))
}

/// A Get of the own job, if it ends here; otherwise those say what there is who can say why. Nothing in it panics, so that the
/// compiler keeps nothing for that case.
///
/// # Safety
/// The pointer rules of the crate for the arguments of `PMIx_Get`.
#[inline(always)]
pub(super) unsafe fn get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    (info, ninfo): (*const pmix_info_t, usize),
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    if proc.is_null() || key.is_null() || val.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    instance::with_shielded(|client, shielded| unsafe {
        if !client.is_own(&*(&raw const (*proc).nspace).cast()) {
            return None;
        }
        let (rank, key) = (Rank((*proc).rank), KeyRef::new(text::key_text(key).ok()?));
        match Flags::of(info, ninfo) {
            Some(flags) if flags.is_copy() => copy(client, shielded, rank, &key, flags, val),
            Some(flags) => place(client, rank, &key, flags, val),
            None => of_instance(client, rank, &key, (info, ninfo), val),
        }
    })
}

/// A value of an instance that the infos name.
///
/// # Safety
/// As [`get`]; `val` is writable.
#[inline(never)]
unsafe fn of_instance(
    client: &Client,
    rank: Rank,
    key: &KeyRef<'_>,
    (info, ninfo): (*const pmix_info_t, usize),
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    // SAFETY: the caller's promise.
    unsafe {
        let (flags, of) = instance_of(info, ninfo)?;
        let found = client.get_here_of(of, rank, key);
        if flags.is_copy() { give_copy(found, val) } else { give_in_place(client, found, flags, val) }
    }
}

/// A copy of the value.
///
/// # Safety
/// `val` is writable.
#[inline(always)]
unsafe fn copy(
    client: &Client,
    shielded: &Shielded,
    rank: Rank,
    key: &KeyRef<'_>,
    flags: Flags,
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    let found = client.get_here(rank, key);
    // SAFETY: the caller's promise; an own value is copied at once.
    unsafe {
        if found.is_absent() {
            return absent(client, rank, key, flags, val);
        }
        if found.is_unsure() {
            return give_copy(client.get_own(shielded, rank, key).map_or(Short::UNSURE, Short::of), val);
        }
        give_copy(found, val)
    }
}

/// # Safety
/// `val` is writable.
#[inline(always)]
unsafe fn give_copy(found: Short<'_>, val: *mut *mut pmix_value_t) -> Option<Status> {
    let (ty, len, data) = match found.answer() {
        Answer::Number { ty, bits } => {
            // SAFETY: the caller's place for a pointer.
            unsafe { *val = value::allocate(Plain::number(ty, bits))? };
            return Some(Status::SUCCESS);
        }
        Answer::Text(text) => {
            (DataType::STRING, 0, copy_text(text.split_last().map_or(text, |(_, before)| before)).ok()?)
        }
        Answer::Bytes { ty, bytes } => (ty, bytes.len(), copy_bytes(bytes).ok()?),
        Answer::Absent | Answer::Unsure => return None,
    };
    match value::allocate(Plain { ty, words: [data.expose_provenance() as u64, len as u64] }) {
        // SAFETY: the caller's place for a pointer.
        Some(at) => unsafe { *val = at },
        None => {
            // SAFETY: just allocated, and nobody else knows it.
            unsafe { free(data) };
            return None;
        }
    }
    Some(Status::SUCCESS)
}

/// There is no value here, and perhaps nowhere.
///
/// # Safety
/// `val` is writable.
#[inline(always)]
unsafe fn absent(
    client: &Client,
    rank: Rank,
    key: &KeyRef<'_>,
    flags: Flags,
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    if !flags.has(Flags::OPTIONAL) || !client.is_settled(rank, key) {
        return None;
    }
    if !flags.has(Flags::STATIC_VALUES) {
        // SAFETY: the caller's promise.
        unsafe { *val = std::ptr::null_mut() };
    }
    Some(Status::ERR_NOT_FOUND)
}

/// The value where the caller says, or one that stays the library's.
///
/// # Safety
/// As [`get`].
#[inline(never)]
unsafe fn place(
    client: &Client,
    rank: Rank,
    key: &KeyRef<'_>,
    flags: Flags,
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    let found = client.get_here(rank, key);
    // SAFETY: the caller's promise.
    unsafe {
        if flags.has(Flags::STATIC_VALUES) {
            writable(*val).ok()?;
        }
        if found.is_absent() {
            return absent(client, rank, key, flags, val);
        }
        give_in_place(client, found, flags, val)
    }
}

/// # Safety
/// As [`get`].
#[inline(always)]
unsafe fn give_in_place(
    client: &Client,
    found: Short<'_>,
    flags: Flags,
    val: *mut *mut pmix_value_t,
) -> Option<Status> {
    // What the segments hold stays where it is for as long as the client.
    let is_pointer = flags.has(Flags::POINTER_VALUES);
    let plain = match found.answer() {
        Answer::Number { ty, bits } => Plain::number(ty, bits),
        Answer::Text(text) if is_pointer && text.last() == Some(&0) => Plain::text(text),
        Answer::Bytes { ty, bytes } if is_pointer && !bytes.is_empty() => Plain::bytes(ty, bytes),
        _ => return None,
    };
    if flags.has(Flags::STATIC_VALUES) {
        // SAFETY: the caller's room for a value.
        unsafe { writable(*val).ok()?.write(plain.to_c()) };
    } else {
        let pointer = client.attached::<Pinned>()?.pointer_to_plain(plain).ok()?;
        // SAFETY: the caller's place for a pointer.
        unsafe { *val = pointer };
    }
    Some(Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{Info, Value, keys};

    use super::*;
    use crate::convert::array::CArray;

    #[test]
    fn what_is_asked_is_what_all_infos_say() {
        let of = |infos: &[(&'static str, Value)]| {
            let infos: Vec<_> = infos.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
            let array = CArray::<pmix_info_t>::new(&infos).unwrap();
            // SAFETY: an array of infos.
            let (flags, of) = unsafe {
                match Flags::of(array.as_ptr(), array.len()) {
                    Some(flags) => (flags, "None".to_owned()),
                    None => {
                        instance_of(array.as_ptr(), array.len()).map(|(flags, of)| (flags, format!("Some({of:?})")))?
                    }
                }
            };
            Some((flags.has(Flags::OPTIONAL), flags.has(Flags::POINTER_VALUES), flags.has(Flags::STATIC_VALUES), of))
        };
        let (yes, no) = (Value::Bool(true), Value::Bool(false));
        let flags = |optional, pointer, in_place| Some((optional, pointer, in_place, "None".to_owned()));
        assert_eq!(of(&[]), flags(false, false, false));
        assert_eq!(of(&[(keys::OPTIONAL, yes.clone())]), flags(true, false, false));
        assert_eq!(of(&[(keys::OPTIONAL, yes.clone()), (keys::OPTIONAL, no.clone())]), flags(false, false, false));
        let all = [keys::GET_POINTER_VALUES, keys::GET_STATIC_VALUES, keys::IMMEDIATE, keys::OPTIONAL];
        assert_eq!(of(&all.map(|key| (key, yes.clone()))), flags(true, true, true));
        assert_eq!(of(&[(keys::OPTIONAL, Value::Undef)]), None, "what it means others know");
        assert_eq!(of(&[(keys::OPTIONAL, yes.clone()), (keys::TIMEOUT, Value::Int(1))]), None);
        for other in [keys::GET_REFRESH_CACHE, keys::SESSION_INFO, "pmix.optional.not", "pmix.option"] {
            assert_eq!(of(&[(other, yes.clone())]), None, "{other}");
        }
        let instance = |of: &str| Some((false, false, false, format!("Some({of})")));
        let name = || (keys::HOSTNAME, Value::string("n1"));
        let id = || (keys::NODEID, Value::Uint32(7));
        let app = || (keys::APPNUM, Value::Uint32(3));
        assert_eq!(of(&[(keys::NODE_INFO, yes.clone()), id()]), instance("NodeId(7)"));
        assert_eq!(of(&[name(), id()]), instance("NodeId(7)"));
        assert_eq!(of(&[(keys::NODE_INFO, yes.clone()), name(), app()]), instance("NodeName([110, 49])"));
        assert_eq!(of(&[(keys::APP_INFO, yes.clone()), app()]), instance("App(3)"));
        assert_eq!(of(&[(keys::APP_INFO, no.clone()), app()]), instance("App(3)"));
        for long in [
            vec![(keys::NODE_INFO, yes.clone())],
            vec![(keys::NODE_INFO, yes.clone()), app()],
            vec![(keys::APP_INFO, yes.clone())],
            vec![(keys::APP_INFO, yes.clone()), app(), id()],
            vec![(keys::APP_INFO, yes.clone()), app(), name()],
            vec![(keys::NODEID, Value::Int(7))],
            vec![(keys::HOSTNAME, Value::String(None))],
            vec![(keys::NODE_INFO, Value::Undef), id()],
        ] {
            assert_eq!(of(&long), None, "{long:?}");
        }
    }
}
