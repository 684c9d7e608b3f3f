//! The directives of a Get: one parser for Rust callers, C callers and the server.
//!
//! Most Gets have no directives, or only flags, which [`GetFlags::leading`] reads into one register. [`instance`] also
//! reads directives that name a node or an application. For all others [`GetOptions::resume`] continues after the
//! flags.

use std::time::Duration;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::attributes::is_unknown_and_required;
use pmix_dstore::model::{DataType, Info, InfoFlags, Result, Value, keys};
use pmix_dstore::realm_resolution::Selector;
use pmix_dstore::segment::Target;

/// One directive, in the caller's representation.
pub trait Directive {
    /// Whether its key is `name`, which ends with a NUL.
    fn is<const N: usize>(&self, name: &'static [u8; N]) -> bool;

    /// Its value, if it has type BOOL.
    fn as_bool(&self) -> Option<bool>;

    /// Its value, if it has type UINT32.
    fn as_u32(&self) -> Option<u32>;

    /// Its value without the NUL, if it is a string and not NULL.
    fn as_text(&self) -> Option<&[u8]>;

    /// Its key.
    ///
    /// # Errors
    /// `BAD_PARAM` for a key that is too long.
    fn key(&self) -> Result<&[u8]>;

    /// Its [`InfoFlags`].
    fn flags(&self) -> u32;

    /// Its value; `None` if it has no value, or one that cannot be read without a copy (a structure).
    fn value(&self) -> Option<ValueRef<'_>>;

    /// A copy.
    ///
    /// # Errors
    /// `NOMEM`; errors of reading the value.
    fn to_info(&self) -> Result<Info>;
}

impl Directive for Info {
    #[inline]
    fn is<const N: usize>(&self, name: &'static [u8; N]) -> bool {
        self.key.as_bytes() == &name[..N - 1]
    }

    #[inline]
    fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(is_set) = self.value { Some(is_set) } else { None }
    }

    #[inline]
    fn as_u32(&self) -> Option<u32> {
        if let Value::Uint32(number) = self.value { Some(number) } else { None }
    }

    #[inline]
    fn as_text(&self) -> Option<&[u8]> {
        self.value.as_text()
    }

    fn key(&self) -> Result<&[u8]> {
        Ok(self.key.as_bytes())
    }

    fn flags(&self) -> u32 {
        self.flags
    }

    fn value(&self) -> Option<ValueRef<'_>> {
        Some(ValueRef::from(&self.value))
    }

    fn to_info(&self) -> Result<Info> {
        self.copy()
    }
}

/// A key with its NUL, as [`Directive::is`] takes it.
const fn with_nul<const N: usize>(name: &str) -> [u8; N] {
    assert!(name.len() + 1 == N, "the name and its NUL");
    let mut text = [0; N];
    text.split_at_mut(name.len()).0.copy_from_slice(name.as_bytes());
    text
}

/// Defines keys with their NULs.
macro_rules! names {
    ($($name:ident),+ $(,)?) => {
        mod name {
            use super::{keys, with_nul};
            $(pub const $name: &[u8; keys::$name.len() + 1] = &with_nul(keys::$name);)+
        }
    };
}

names! {
    OPTIONAL, IMMEDIATE, GET_POINTER_VALUES, GET_STATIC_VALUES, GET_REFRESH_CACHE, SESSION_INFO, JOB_INFO, APP_INFO, NODE_INFO,
    TIMEOUT, DATA_SCOPE, SESSION_ID, APPNUM, NODEID, HOSTNAME,
}

/// Longer timeouts (in seconds) are cut to this, so that a caller's value cannot make a clock overflow.
const TIMEOUT_MAX: u64 = 1 << 30;

/// The boolean directives of a Get, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetFlags(u32);

impl GetFlags {
    const OPTIONAL: GetFlags = GetFlags(1);
    const POINTER_VALUES: GetFlags = GetFlags(1 << 1);
    const STATIC_VALUES: GetFlags = GetFlags(1 << 2);
    const IMMEDIATE: GetFlags = GetFlags(1 << 3);
    const REFRESH: GetFlags = GetFlags(1 << 4);
    const QUALIFIED: GetFlags = GetFlags(1 << 5);
    const REFUSED: GetFlags = GetFlags(1 << 6);

    #[inline(always)]
    fn has(self, other: GetFlags) -> bool {
        self.0 & other.0 != 0
    }

    #[inline(always)]
    fn set(&mut self, flag: GetFlags, is_set: bool) {
        self.0 = if is_set { self.0 | flag.0 } else { self.0 & !flag.0 };
    }

    /// These flags, which have `PMIX_GET_POINTER_VALUES`, so that the compiler knows it.
    #[inline(always)]
    pub(crate) fn with_pointers(self) -> GetFlags {
        GetFlags(self.0 | GetFlags::POINTER_VALUES.0)
    }

    /// These flags, which have `PMIX_GET_STATIC_VALUES` without `PMIX_GET_POINTER_VALUES`, so that the compiler knows it.
    #[inline(always)]
    pub(crate) fn with_storage(self) -> GetFlags {
        GetFlags((self.0 | GetFlags::STATIC_VALUES.0) & !GetFlags::POINTER_VALUES.0)
    }

    /// Whether the caller wants a copy in memory of its own.
    #[inline(always)]
    pub fn is_copy(self) -> bool {
        !self.has(GetFlags(GetFlags::POINTER_VALUES.0 | GetFlags::STATIC_VALUES.0))
    }

    /// `PMIX_OPTIONAL`: do not ask the server.
    #[inline(always)]
    pub fn optional(self) -> bool {
        self.has(GetFlags::OPTIONAL)
    }

    /// `PMIX_IMMEDIATE`: the server answers from what it has.
    #[inline(always)]
    pub fn immediate(self) -> bool {
        self.has(GetFlags::IMMEDIATE)
    }

    /// `PMIX_GET_POINTER_VALUES`: the caller wants a pointer to the library's value.
    #[inline(always)]
    pub fn pointer_values(self) -> bool {
        self.has(GetFlags::POINTER_VALUES)
    }

    /// `PMIX_GET_STATIC_VALUES`: the caller provides the storage of the value.
    #[inline(always)]
    pub fn static_values(self) -> bool {
        self.has(GetFlags::STATIC_VALUES)
    }

    /// `PMIX_GET_REFRESH_CACHE`: ask the server even where a value is known.
    #[inline]
    pub fn refresh(self) -> bool {
        self.has(GetFlags::REFRESH)
    }

    /// Clears the refresh flag.
    pub fn clear_refresh(&mut self) {
        self.set(GetFlags::REFRESH, false);
    }

    /// The Get selects one of several values under a key by qualifiers in its infos.
    #[inline]
    pub fn qualified(self) -> bool {
        self.has(GetFlags::QUALIFIED)
    }

    /// The Get has a required directive that this library does not know.
    #[inline]
    pub fn refused(self) -> bool {
        self.has(GetFlags::REFUSED)
    }

    /// A cached value is not enough: the Get has a refresh, a qualifier or an unknown required directive.
    #[inline]
    pub fn bypass_cache(self) -> bool {
        self.has(GetFlags(GetFlags::REFRESH.0 | GetFlags::QUALIFIED.0 | GetFlags::REFUSED.0))
    }

    /// The flag of a directive about the form of the value or its look-up; `None` for other directives.
    #[inline(always)]
    fn of(directive: &impl Directive) -> Option<GetFlags> {
        if directive.is(name::OPTIONAL) {
            Some(GetFlags::OPTIONAL)
        } else if directive.is(name::GET_POINTER_VALUES) {
            Some(GetFlags::POINTER_VALUES)
        } else if directive.is(name::GET_STATIC_VALUES) {
            Some(GetFlags::STATIC_VALUES)
        } else if directive.is(name::IMMEDIATE) {
            Some(GetFlags::IMMEDIATE)
        } else {
            None
        }
    }

    /// The leading flags, and the rest of the directives from the first one that is not a flag.
    #[inline(always)]
    pub(crate) fn leading<D: Directive>(directives: &[D]) -> (GetFlags, &[D]) {
        let (mut flags, mut rest) = (GetFlags(0), directives);
        while let [directive, others @ ..] = rest {
            let (Some(is_set), Some(flag)) = (directive.as_bool(), GetFlags::of(directive)) else { break };
            flags.set(flag, is_set);
            rest = others;
        }
        (flags, rest)
    }
}

/// The directives of a Get that the client library itself handles.
///
/// ```
/// use std::time::Duration;
///
/// use pmix_client::GetOptions;
/// use pmix_dstore::model::attributes;
///
/// let directives = [attributes::NODE_INFO.info(true), attributes::HOSTNAME.info("n17"), attributes::TIMEOUT.info(3)];
/// let options = GetOptions::from_infos(&directives);
/// assert_eq!((options.selector.node, options.selector.hostname), (true, Some(&b"n17"[..])));
/// assert_eq!(options.timeout, Some(Duration::from_secs(3)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions<'a> {
    /// The boolean directives.
    pub flags: GetFlags,
    /// The realm, node, application or session to look in, besides key and rank.
    pub selector: Selector<'a>,
    /// `PMIX_TIMEOUT`; zero means none and is `None` here.
    pub timeout: Option<Duration>,
}

impl<'a> GetOptions<'a> {
    /// Parses all directives.
    ///
    /// # Errors
    /// `BAD_PARAM` for a key that is too long.
    pub fn of<D: Directive>(directives: &'a [D]) -> Result<GetOptions<'a>> {
        let (flags, rest) = GetFlags::leading(directives);
        GetOptions::with_flags(flags).resume(rest)
    }

    /// Options with these flags only.
    pub(crate) fn with_flags(flags: GetFlags) -> GetOptions<'a> {
        GetOptions { flags, ..GetOptions::default() }
    }

    /// As [`GetOptions::of`], for infos.
    pub fn from_infos(infos: &'a [Info]) -> GetOptions<'a> {
        // This cannot fail: the key of an [`Info`] is never too long.
        GetOptions::of(infos).unwrap_or_default()
    }

    /// Continues parsing: applies further directives to `self`.
    ///
    /// # Errors
    /// `BAD_PARAM` for a key that is too long.
    pub(crate) fn resume<D: Directive>(mut self, directives: &'a [D]) -> Result<GetOptions<'a>> {
        directives.iter().try_for_each(|directive| self.apply(directive))?;
        Ok(self)
    }

    /// Applies one directive. Unknown keys are ignored, unless they are qualifiers or required.
    fn apply<D: Directive>(&mut self, directive: &'a D) -> Result<()> {
        let value = directive.value();
        if let Some(flag) = GetFlags::of(directive) {
            self.flags.set(flag, is_true(value));
        } else if directive.is(name::GET_REFRESH_CACHE) {
            self.flags.set(GetFlags::REFRESH, is_true(value));
        } else if directive.is(name::SESSION_INFO) {
            self.selector.session = is_true(value);
        } else if directive.is(name::JOB_INFO) {
            self.selector.job = is_true(value);
        } else if directive.is(name::APP_INFO) {
            self.selector.app = is_true(value);
        } else if directive.is(name::NODE_INFO) {
            self.selector.node = is_true(value);
        } else if directive.is(name::TIMEOUT) {
            self.timeout = seconds(value);
        } else if directive.is(name::SESSION_ID) {
            self.selector.session_id = number_u32(value);
            self.selector.session |= self.selector.session_id.is_some();
        } else if directive.is(name::APPNUM) {
            self.selector.appnum = number_u32(value);
        } else if directive.is(name::NODEID) {
            self.selector.nodeid = number_u32(value);
        } else if directive.is(name::HOSTNAME) {
            self.selector.hostname = directive.as_text().or(self.selector.hostname);
        } else if directive.is(name::DATA_SCOPE) {
            // No effect: values of all scopes that this process may read are stored under the same key.
        } else if directive.flags() & InfoFlags::QUALIFIER != 0 {
            self.flags.set(GetFlags::QUALIFIED, true);
        } else if is_unknown_and_required(directive.key()?, directive.flags()) {
            self.flags.set(GetFlags::REFUSED, true);
        }
        Ok(())
    }
}

/// The node or application that the directives name, and the flags. `Err` for directives that need the slow path. All
/// state is kept in registers.
#[inline(always)]
pub(crate) fn instance<'a, D: Directive>(
    mut flags: GetFlags,
    directives: &'a [D],
) -> std::result::Result<(GetFlags, Target<'a>), NotFast> {
    let (mut of_node, mut of_app) = (false, false);
    let (mut nodeid, mut hostname, mut appnum) = (None, None, None);
    for directive in directives {
        if let Some(is_set) = directive.as_bool() {
            if directive.is(name::NODE_INFO) {
                of_node = is_set;
            } else if directive.is(name::APP_INFO) {
                of_app = is_set;
            } else {
                flags.set(GetFlags::of(directive).ok_or(NotFast)?, is_set);
            }
        } else if let Some(number) = directive.as_u32() {
            if directive.is(name::NODEID) {
                nodeid = Some(number);
            } else if directive.is(name::APPNUM) {
                appnum = Some(number);
            } else {
                return Err(NotFast);
            }
        } else if directive.is(name::HOSTNAME) {
            // Its text is read once, below: a call in the loop would make the compiler save its registers.
            hostname = Some(directive);
        } else {
            return Err(NotFast);
        }
    }
    let of = match (nodeid, hostname, appnum) {
        // The fast path does not handle values of an application on a node.
        (Some(nodeid), ..) if !of_app => Target::NodeId(nodeid),
        (None, Some(directive), _) if !of_app => Target::NodeName(directive.as_text().ok_or(NotFast)?),
        (None, None, Some(appnum)) if !of_node => Target::App(appnum),
        // The directives name no instance; the rank or the caller determines it.
        _ => return Err(NotFast),
    };
    Ok((flags, of))
}

/// The directives need the slow path.
pub(crate) struct NotFast;

/// The `PMIX_TIMEOUT` among infos; absent and zero are no timeout.
pub fn timeout_of(infos: &[Info]) -> Option<Duration> {
    Info::find(infos, keys::TIMEOUT).and_then(|value| seconds(Some(ValueRef::from(value))))
}

/// Truth of a directive's value, as [`Value::is_true`] defines it: a structure and a missing value are true.
fn is_true(value: Option<ValueRef<'_>>) -> bool {
    match value {
        None => true,
        Some(ValueRef::Scalar { ty: DataType::BOOL, bits }) => bits & 0xff != 0,
        Some(ValueRef::Owned(value)) => value.is_true(),
        Some(other) => other.to_value().is_ok_and(|value| value.is_true()),
    }
}

fn number(value: Option<ValueRef<'_>>) -> Option<u64> {
    match value? {
        ValueRef::Scalar { ty, bits } => Value::from_scalar(ty, bits)?.as_u64(),
        ValueRef::Owned(value) => value.as_u64(),
        _ => None,
    }
}

fn number_u32(value: Option<ValueRef<'_>>) -> Option<u32> {
    number(value).and_then(|number| number.try_into().ok())
}

fn seconds(value: Option<ValueRef<'_>>) -> Option<Duration> {
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
        let flags = options.flags;
        assert!(flags.optional() && flags.immediate() && options.selector.node && !flags.static_values());
        assert_eq!(options.timeout, Some(Duration::from_secs(3)));
        assert_eq!(options.selector.hostname, Some(&b"n1"[..]));
        assert_eq!(options.selector.appnum, None);
        let none = [Info::new(keys::TIMEOUT, Value::Int(0))];
        assert_eq!(GetOptions::from_infos(&none).timeout, None);
        let mut unknown = Info::new("pmix.nobody", Value::Bool(true));
        assert!(!GetOptions::from_infos(std::slice::from_ref(&unknown)).flags.refused());
        unknown.flags = InfoFlags::REQUIRED;
        let refused = [unknown];
        let flags = GetOptions::from_infos(&refused).flags;
        assert!(flags.refused() && flags.bypass_cache());
    }

    #[test]
    fn all_infos_of_a_get_are_read() {
        let of = |infos: &[(&'static str, Value)]| {
            let infos: Vec<_> = infos.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
            let (flags, rest) = GetFlags::leading(&infos);
            let instance = match instance(flags, rest) {
                _ if rest.is_empty() => "None".to_owned(),
                Ok((_, of)) => format!("Some({of:?})"),
                Err(_) => "slow".to_owned(),
            };
            let flags = GetOptions::from_infos(&infos).flags;
            (flags.optional(), flags.pointer_values(), flags.static_values(), instance)
        };
        let (yes, no) = (Value::Bool(true), Value::Bool(false));
        let flags = |optional, pointer, in_place| (optional, pointer, in_place, "None".to_owned());
        assert_eq!(of(&[]), flags(false, false, false));
        assert_eq!(of(&[(keys::OPTIONAL, yes.clone())]), flags(true, false, false));
        assert_eq!(of(&[(keys::OPTIONAL, Value::Undef)]), (true, false, false, "slow".to_owned()));
        assert_eq!(of(&[(keys::OPTIONAL, yes.clone()), (keys::OPTIONAL, no.clone())]), flags(false, false, false));
        let all = [keys::GET_POINTER_VALUES, keys::GET_STATIC_VALUES, keys::IMMEDIATE, keys::OPTIONAL];
        assert_eq!(of(&all.map(|key| (key, yes.clone()))), flags(true, true, true));
        let timed = [(keys::TIMEOUT, Value::Int(1)), (keys::OPTIONAL, yes.clone())];
        assert_eq!(of(&timed), (true, false, false, "slow".to_owned()));
        for other in ["pmix.optional.not", "pmix.option"] {
            assert_eq!(of(&[(other, yes.clone())]), (false, false, false, "slow".to_owned()), "{other}");
        }
        let instance = |of: &str| (false, false, false, of.to_owned());
        let named = |of: &str| instance(&format!("Some({of})"));
        let name = || (keys::HOSTNAME, Value::string("n1"));
        let id = || (keys::NODEID, Value::Uint32(7));
        let app = || (keys::APPNUM, Value::Uint32(3));
        assert_eq!(of(&[(keys::NODE_INFO, yes.clone()), id()]), named("NodeId(7)"));
        assert_eq!(of(&[name(), id()]), named("NodeId(7)"));
        assert_eq!(of(&[(keys::NODE_INFO, yes.clone()), name(), app()]), named("NodeName([110, 49])"));
        assert_eq!(of(&[(keys::APP_INFO, yes.clone()), app()]), named("App(3)"));
        assert_eq!(of(&[(keys::APP_INFO, no.clone()), app()]), named("App(3)"));
        for slow in [
            vec![(keys::NODE_INFO, yes.clone())],
            vec![(keys::NODE_INFO, yes.clone()), app()],
            vec![(keys::NODE_INFO, Value::Undef), id()],
            vec![(keys::NODEID, Value::Int(7))],
            vec![(keys::HOSTNAME, Value::String(None))],
            vec![(keys::APP_INFO, yes.clone())],
            vec![(keys::APP_INFO, yes.clone()), app(), id()],
            vec![(keys::APP_INFO, yes.clone()), app(), name()],
            vec![(keys::SESSION_INFO, yes.clone())],
            vec![(keys::SESSION_ID, Value::Uint32(1)), id()],
            vec![(keys::JOB_INFO, yes.clone())],
            vec![(keys::GET_REFRESH_CACHE, yes.clone())],
        ] {
            assert_eq!(of(&slow), instance("slow"), "{slow:?}");
        }
    }
}
