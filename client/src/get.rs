//! What a `PMIx_Get` asks for.

use std::ffi::CStr;
use std::time::Duration;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::attributes::is_unknown_and_required;
use pmix_dstore::model::{DataType, Info, InfoFlags, Rank, Scope, Value, keys};
use pmix_dstore::realm_resolution::Selector;

/// A `PMIx_Get`: whose value, which one, and how.
pub struct GetRequest<'a> {
    /// The namespace; `None` (or empty) is the caller's own.
    pub nspace: Option<&'a [u8]>,
    /// The rank; `UNDEF` asks for a key that is unique in the namespace.
    pub rank: Rank,
    /// The key, cut at its NUL; `None` asks for all values of the rank as an array of infos.
    pub key: Option<&'a [u8]>,
    /// What the infos said.
    pub options: GetOptions<'a>,
    /// The infos themselves, made only where the request goes to the server.
    pub infos: &'a dyn Fn() -> Vec<Info>,
}

/// No timeout in seconds is longer: clocks must not overflow at a caller's word.
const TIMEOUT_MAX: u64 = 1 << 30;

/// The infos of a `PMIx_Get`, as far as the library itself obeys them.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions<'a> {
    /// `PMIX_OPTIONAL`: do not ask the server.
    pub optional: bool,
    /// `PMIX_IMMEDIATE`: the server answers from what it has.
    pub immediate: bool,
    /// `PMIX_TIMEOUT`; zero means none and is `None` here.
    pub timeout: Option<Duration>,
    /// `PMIX_GET_REFRESH_CACHE`: ask the server even where a value is known.
    pub refresh: bool,
    /// `PMIX_GET_POINTER_VALUES`.
    pub pointer_values: bool,
    /// `PMIX_GET_STATIC_VALUES`.
    pub static_values: bool,
    /// `PMIX_DATA_SCOPE`.
    pub scope: Option<Scope>,
    /// It is for one of several values under a key, and the infos tell which.
    pub qualified: bool,
    /// The plain look-up does not answer it: it is to be asked anew, or is for one of several values under a key.
    pub apart: bool,
    /// It must do something that nobody knows.
    pub refused: bool,
    /// Where to look, beside key and rank.
    pub selector: Selector<'a>,
}

impl<'a> GetOptions<'a> {
    /// Takes note of one info with its [`InfoFlags`]. Keys that mean nothing here are passed over, unless they qualify a value.
    pub fn apply(&mut self, key: &[u8], flags: u32, value: ValueRef<'a>) {
        const HOSTNAME: &[u8] = keys::HOSTNAME.as_bytes();
        const TIMEOUT: &[u8] = keys::TIMEOUT.as_bytes();
        const DATA_SCOPE: &[u8] = keys::DATA_SCOPE.as_bytes();
        const SESSION_ID: &[u8] = keys::SESSION_ID.as_bytes();
        const APPNUM: &[u8] = keys::APPNUM.as_bytes();
        const NODEID: &[u8] = keys::NODEID.as_bytes();
        match key {
            TIMEOUT => self.timeout = seconds(value),
            DATA_SCOPE => self.scope = number(value).and_then(|n| Scope::from_code(n.try_into().ok()?)),
            SESSION_ID => {
                self.selector.session_id = number(value).and_then(|n| n.try_into().ok());
                self.selector.session |= self.selector.session_id.is_some();
            }
            APPNUM => self.selector.appnum = number(value).and_then(|n| n.try_into().ok()),
            NODEID => self.selector.nodeid = number(value).and_then(|n| n.try_into().ok()),
            HOSTNAME => {
                if let ValueRef::Str(Some(name)) = value {
                    self.selector.hostname = Some(name.to_bytes());
                }
            }
            key if self.apply_flag(key, || is_true(value)) => {}
            _ if flags & InfoFlags::QUALIFIER != 0 => (self.qualified, self.apart) = (true, true),
            key if is_unknown_and_required(key, flags) => (self.refused, self.apart) = (true, true),
            _ => {}
        }
    }

    /// The same for a value that is a number.
    #[inline]
    pub fn apply_number(&mut self, key: &[u8], flags: u32, ty: DataType, bits: u64) {
        const APPNUM: &[u8] = keys::APPNUM.as_bytes();
        const NODEID: &[u8] = keys::NODEID.as_bytes();
        match (ty, key) {
            (DataType::BOOL, key) if self.apply_flag(key, || bits & 0xff != 0) => {}
            (DataType::UINT32 | DataType::PROC_RANK, APPNUM) => self.selector.appnum = bits.try_into().ok(),
            (DataType::UINT32 | DataType::PROC_RANK, NODEID) => self.selector.nodeid = bits.try_into().ok(),
            (ty, key) => self.apply(key, flags, ValueRef::Scalar { ty, bits }),
        }
    }

    /// The same for a value that is a string.
    #[inline]
    pub fn apply_text(&mut self, key: &[u8], flags: u32, text: Option<&'a CStr>) {
        match text {
            Some(name) if key == keys::HOSTNAME.as_bytes() => self.selector.hostname = Some(name.to_bytes()),
            text => self.apply(key, flags, ValueRef::Str(text)),
        }
    }

    /// Tells whether the key is that of a flag.
    #[inline(always)]
    fn apply_flag(&mut self, key: &[u8], is_set: impl FnOnce() -> bool) -> bool {
        const OPTIONAL: &[u8] = keys::OPTIONAL.as_bytes();
        const IMMEDIATE: &[u8] = keys::IMMEDIATE.as_bytes();
        const REFRESH_CACHE: &[u8] = keys::GET_REFRESH_CACHE.as_bytes();
        const POINTER_VALUES: &[u8] = keys::GET_POINTER_VALUES.as_bytes();
        const STATIC_VALUES: &[u8] = keys::GET_STATIC_VALUES.as_bytes();
        const SESSION_INFO: &[u8] = keys::SESSION_INFO.as_bytes();
        const JOB_INFO: &[u8] = keys::JOB_INFO.as_bytes();
        const APP_INFO: &[u8] = keys::APP_INFO.as_bytes();
        const NODE_INFO: &[u8] = keys::NODE_INFO.as_bytes();
        match key {
            OPTIONAL => self.optional = is_set(),
            IMMEDIATE => self.immediate = is_set(),
            REFRESH_CACHE => {
                self.refresh = is_set();
                self.apart |= self.refresh;
            }
            POINTER_VALUES => self.pointer_values = is_set(),
            STATIC_VALUES => self.static_values = is_set(),
            SESSION_INFO => self.selector.session = is_set(),
            JOB_INFO => self.selector.job = is_set(),
            APP_INFO => self.selector.app = is_set(),
            NODE_INFO => self.selector.node = is_set(),
            _ => return false,
        }
        true
    }

    /// Options from owned infos.
    pub fn from_infos(infos: &'a [Info]) -> GetOptions<'a> {
        let mut options = GetOptions::default();
        for info in infos {
            options.apply(info.key.as_bytes(), info.flags, ValueRef::from(&info.value));
        }
        options
    }
}

/// The `PMIX_TIMEOUT` among infos; absent and zero are no timeout.
pub fn timeout_of(infos: &[Info]) -> Option<Duration> {
    Info::find(infos, keys::TIMEOUT).and_then(|value| seconds(ValueRef::from(value)))
}

/// Truth of a directive, as [`Value::is_true`] has it.
#[inline]
fn is_true(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Scalar { ty: DataType::BOOL, bits } => bits & 0xff != 0,
        ValueRef::Owned(value) => value.is_true(),
        other => other.to_value().is_ok_and(|value| value.is_true()),
    }
}

#[inline]
fn number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        // As most callers have it.
        ValueRef::Scalar { ty: DataType::UINT32 | DataType::UINT16 | DataType::PROC_RANK, bits } => Some(bits),
        ValueRef::Scalar { ty, bits } => Value::from_scalar(ty, bits)?.as_u64(),
        ValueRef::Owned(value) => value.as_u64(),
        _ => None,
    }
}

fn seconds(value: ValueRef<'_>) -> Option<Duration> {
    number(value).filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.min(TIMEOUT_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infos_become_options() {
        let infos = [
            Info::new(keys::OPTIONAL, Value::Bool(true)),
            Info::new(keys::IMMEDIATE, Value::Undef),
            Info::new(keys::TIMEOUT, Value::Int(3)),
            Info::new(keys::NODE_INFO, Value::Bool(true)),
            Info::new(keys::HOSTNAME, Value::string("n1")),
            Info::new(keys::APPNUM, Value::Int(-1)),
            Info::new(keys::GET_STATIC_VALUES, Value::Bool(false)),
        ];
        let options = GetOptions::from_infos(&infos);
        assert!(options.optional && options.immediate && options.selector.node && !options.static_values);
        assert_eq!(options.timeout, Some(Duration::from_secs(3)));
        assert_eq!(options.selector.hostname, Some(&b"n1"[..]));
        assert_eq!(options.selector.appnum, None);
        let none = [Info::new(keys::TIMEOUT, Value::Int(0))];
        assert_eq!(GetOptions::from_infos(&none).timeout, None);
        let mut unknown = Info::new("pmix.nobody", Value::Bool(true));
        assert!(!GetOptions::from_infos(std::slice::from_ref(&unknown)).refused);
        unknown.flags = InfoFlags::REQUIRED;
        assert!(GetOptions::from_infos(&[unknown]).refused);
    }
}
