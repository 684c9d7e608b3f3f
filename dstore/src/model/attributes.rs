//! Attributes as typed constants: a key together with the type of its value.
//!
//! [`JOB_SIZE`] is `PMIX_JOB_SIZE`, whose values are of type `PMIX_UINT32` and are a `u32` here. [`keys`] has the keys alone.

use std::fmt;
use std::marker::PhantomData;

use super::{DataArray, DataType, Envar, Info, InfoFlags, KEY_LEN_MAX, Proc, Rank, Result, Status, Value, keys};
use crate::texts::{append, len_of};

/// Whether the info is a required directive whose key is no known attribute. A qualifier of a value may have any key.
pub fn is_unknown_and_required(key: &[u8], flags: u32) -> bool {
    const ASIDE: u32 = InfoFlags::REQUIRED | InfoFlags::REQUIRED_PROCESSED | InfoFlags::QUALIFIER;
    flags & ASIDE == InfoFlags::REQUIRED && !KEYS.split(|byte| *byte == 0).any(|known| known == key)
}

/// The keys of all attributes, each followed by a NUL.
static KEYS: [u8; keys_len()] = {
    let mut text = [0; keys_len()];
    let (mut row, mut at) = (0, 0);
    while row < ALL.len() {
        (row, at) = (row + 1, append(&mut text, at, ALL[row].1));
    }
    text
};

const fn keys_len() -> usize {
    let (mut row, mut len) = (0, 0);
    while row < ALL.len() {
        (row, len) = (row + 1, len + len_of(ALL[row].1));
    }
    len
}

/// Refuses required directives with unknown keys, for operations that the library carries out itself. For other operations the
/// host checks them.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn check_required(infos: &[Info]) -> Result<()> {
    let is_unknown = |info: &Info| is_unknown_and_required(info.key.as_bytes(), info.flags);
    if infos.iter().any(is_unknown) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// An attribute whose values are a `T`.
///
/// ```
/// use pmix_dstore::model::{Value, attributes};
///
/// let infos = [attributes::TIMEOUT.info(5), attributes::HOSTNAME.info("n1"), attributes::OPTIONAL.info(true)];
/// assert_eq!(infos[0].value, Value::Int(5));
/// assert_eq!(attributes::HOSTNAME.find(&infos).as_deref(), Some("n1"));
/// assert_eq!(attributes::JOB_SIZE.find(&infos), None);
/// ```
pub struct Attribute<T> {
    key: &'static str,
    data_type: DataType,
    values: PhantomData<fn() -> T>,
}

impl<T> Attribute<T> {
    const fn new(key: &'static str, data_type: DataType) -> Attribute<T> {
        Attribute { key, data_type, values: PhantomData }
    }

    /// Its key.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// The type of its values.
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }
}

impl<T: HasType> Attribute<T> {
    /// A key of the program's own, for values that it puts. Where it is made as a constant, the compiler checks the name.
    ///
    /// ```
    /// use pmix_dstore::model::attributes::Attribute;
    ///
    /// const PORT: Attribute<u16> = Attribute::own("app.port");
    /// assert_eq!(PORT.key(), "app.port");
    /// ```
    ///
    /// Keys that begin with `pmix` belong to the standard:
    ///
    /// ```compile_fail,E0080
    /// use pmix_dstore::model::attributes::Attribute;
    ///
    /// const PORT: Attribute<u16> = Attribute::own("pmix.port");
    /// ```
    ///
    /// # Panics
    /// If the name is empty, has more than 511 bytes, holds a NUL, or begins with `pmix`.
    pub const fn own(key: &'static str) -> Attribute<T> {
        let bytes = key.as_bytes();
        assert!(!bytes.is_empty(), "a key has a name");
        assert!(bytes.len() <= KEY_LEN_MAX, "a key has at most 511 bytes");
        let is_reserved =
            bytes.len() >= 4 && matches!((bytes[0], bytes[1], bytes[2], bytes[3]), (b'p', b'm', b'i', b'x'));
        assert!(!is_reserved, "keys that begin with `pmix` belong to the standard");
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at] != 0, "a key holds no NUL");
            at += 1;
        }
        Attribute::new(key, T::DATA_TYPE)
    }
}

impl<T: Typed> Attribute<T> {
    /// An info with this attribute and a value.
    pub fn info(&self, value: impl Into<T>) -> Info {
        Info::new(self.key, value.into().into_value(self.data_type))
    }

    /// The value of this attribute in Rust. A number of another width is accepted if it fits, because hosts differ in the width.
    pub fn read(&self, value: &Value) -> Option<T> {
        T::from_value(value)
    }

    /// The value of the first of these infos that has this attribute.
    pub fn find(&self, infos: &[Info]) -> Option<T> {
        Info::find(infos, self.key).and_then(|value| self.read(value))
    }
}

impl<T> Clone for Attribute<T> {
    fn clone(&self) -> Attribute<T> {
        *self
    }
}

impl<T> Copy for Attribute<T> {}

impl<T> fmt::Debug for Attribute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.key, self.data_type)
    }
}

/// The Rust types of attribute values.
pub trait Typed: Sized {
    /// The value of type `data_type`.
    fn into_value(self, data_type: DataType) -> Value;

    /// Converts the value; `None` if it has another type.
    fn from_value(value: &Value) -> Option<Self>;
}

/// The Rust types that stand for one type of values each. Programs put values of these under keys of their own ([`Attribute::own`]).
pub trait HasType: Typed {
    /// The type of values.
    const DATA_TYPE: DataType;
}

macro_rules! types {
    ($($ty:ty: $data_type:ident;)+) => {$(
        impl HasType for $ty {
            const DATA_TYPE: DataType = DataType::$data_type;
        }
    )+};
}

types! {
    bool: BOOL;
    u8: UINT8;
    u16: UINT16;
    u32: UINT32;
    u64: UINT64;
    i32: INT32;
    i64: INT64;
    f32: FLOAT;
    f64: DOUBLE;
    String: STRING;
    Vec<u8>: BYTE_OBJECT;
    Proc: PROC;
    Rank: PROC_RANK;
    Status: STATUS;
    Envar: ENVAR;
    DataArray: DATA_ARRAY;
}

/// Whole numbers, which several types of values hold.
macro_rules! whole_numbers {
    ($($ty:ty),+) => {$(
        impl Typed for $ty {
            fn into_value(self, data_type: DataType) -> Value {
                // The table below gives each type of values a Rust type of the same numbers.
                Value::from_scalar(data_type, self as u64).unwrap_or(Value::Undef)
            }

            fn from_value(value: &Value) -> Option<$ty> {
                match *value {
                    Value::Int(n) | Value::Int32(n) | Value::Pid(n) | Value::Status(Status(n)) => n.try_into().ok(),
                    Value::Int8(n) => n.try_into().ok(),
                    Value::Int16(n) => n.try_into().ok(),
                    Value::Int64(n) | Value::Time(n) => n.try_into().ok(),
                    _ => value.as_u64()?.try_into().ok(),
                }
            }
        }
    )+};
}

whole_numbers!(u8, u16, u32, u64, i32, i64);

/// Types that a variant holds as they are.
macro_rules! variants {
    ($($ty:ty: $variant:ident;)+) => {$(
        impl Typed for $ty {
            fn into_value(self, _: DataType) -> Value {
                Value::$variant(self)
            }

            fn from_value(value: &Value) -> Option<$ty> {
                if let Value::$variant(inner) = value { Some(inner.clone()) } else { None }
            }
        }
    )+};
}

variants! {
    f32: Float;
    f64: Double;
    Proc: Proc;
    Envar: Envar;
}

impl Typed for Vec<u8> {
    fn into_value(self, _: DataType) -> Value {
        Value::ByteObject(self.into())
    }

    fn from_value(value: &Value) -> Option<Vec<u8>> {
        if let Value::ByteObject(bytes) = value { Some(bytes.to_vec()) } else { None }
    }
}

impl Typed for DataArray {
    fn into_value(self, _: DataType) -> Value {
        Value::DataArray(Box::new(self))
    }

    fn from_value(value: &Value) -> Option<DataArray> {
        if let Value::DataArray(array) = value { Some((**array).clone()) } else { None }
    }
}

/// Types that only a value of the model holds.
impl Typed for Value {
    fn into_value(self, _: DataType) -> Value {
        self
    }

    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl Typed for bool {
    fn into_value(self, _: DataType) -> Value {
        Value::Bool(self)
    }

    /// As [`Value::is_true`]: a directive without a value is true.
    fn from_value(value: &Value) -> Option<bool> {
        Some(value.is_true())
    }
}

impl Typed for String {
    /// Up to its first NUL.
    fn into_value(self, _: DataType) -> Value {
        Value::string(self)
    }

    /// Bytes that are not UTF-8 are replaced; [`Value::as_text`] returns the original bytes.
    fn from_value(value: &Value) -> Option<String> {
        value.as_text().map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

impl Typed for Rank {
    fn into_value(self, _: DataType) -> Value {
        Value::Rank(self)
    }

    fn from_value(value: &Value) -> Option<Rank> {
        u32::from_value(value).map(Rank)
    }
}

impl Typed for Status {
    fn into_value(self, _: DataType) -> Value {
        Value::Status(self)
    }

    fn from_value(value: &Value) -> Option<Status> {
        i32::from_value(value).map(Status)
    }
}

/// Writes the constants, and a list of them.
macro_rules! attributes {
    ($($ty:ty, $data_type:ident: $($name:ident),+;)+) => {
        $($(
            #[doc = concat!("`PMIX_", stringify!($name), "`, of type `PMIX_", stringify!($data_type), "`.")]
            pub const $name: Attribute<$ty> = Attribute::new(keys::$name, DataType::$data_type);
        )+)+

        /// The names of all of them with their keys and the types of their values.
        pub const ALL: &[(&str, &str, DataType)] =
            &[$($((concat!("PMIX_", stringify!($name)), keys::$name, DataType::$data_type)),+),+];
    };
}

include!("attributes/generated.rs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_of_their_attribute() {
        assert_eq!(TIMEOUT.info(3).value, Value::Int(3));
        assert_eq!(SERVER_PIDINFO.info(7).value, Value::Pid(7));
        assert_eq!(JOB_SIZE.info(4_u32).value, Value::Uint32(4));
        assert_eq!(GLOBAL_RANK.info(Rank(2)).value, Value::Rank(Rank(2)));
        assert_eq!(LOCAL_RANK.info(1_u16).value, Value::Uint16(1));
        assert_eq!(JOB_TERM_STATUS.info(Status::ERR_TIMEOUT).value, Value::Status(Status::ERR_TIMEOUT));
        for (name, key, data_type) in ALL {
            assert!(key.starts_with("pmix."), "{name}");
            assert_ne!(*data_type, DataType::UNDEF, "{name}");
        }
    }

    #[test]
    fn values_of_own_keys_have_the_type_of_the_key() {
        const PORT: Attribute<u16> = Attribute::own("app.port");
        assert_eq!(PORT.info(80_u16).value, Value::Uint16(80));
        assert_eq!(Attribute::<i32>::own("app.n").info(-1).value, Value::Int32(-1));
        assert_eq!(Attribute::<Vec<u8>>::own("app.b").info([1, 2]).value, Value::ByteObject(vec![1, 2].into()));
        assert_eq!(Attribute::<String>::own("app.s").info("x").value, Value::string("x"));
        for wrong in ["", "pmix", "pmix.port", "a\0b"] {
            assert!(std::panic::catch_unwind(|| Attribute::<u16>::own(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn unknown_required_attributes_are_refused() {
        let check = |key: &'static str, flags| check_required(&[Info { flags, ..Info::new(key, Value::Bool(true)) }]);
        let required = InfoFlags::REQUIRED;
        assert_eq!(check("pmix.nobody", required), Err(Status::ERR_NOT_SUPPORTED));
        for flags in [0, required | InfoFlags::REQUIRED_PROCESSED, required | InfoFlags::QUALIFIER] {
            assert_eq!(check("pmix.nobody", flags), Ok(()), "{flags}");
        }
        for (_, key, _) in ALL {
            assert_eq!(check(key, required), Ok(()), "{key}");
        }
        for part in ["", "pmix", "pmix.", "pmix.collec"] {
            assert_eq!(check(part, required).is_ok(), part.is_empty(), "{part}");
        }
    }

    #[test]
    fn numbers_of_another_width_are_read_if_they_fit() {
        assert_eq!(JOB_SIZE.read(&Value::Int(4)), Some(4));
        assert_eq!(JOB_SIZE.read(&Value::Int(-4)), None);
        assert_eq!(JOB_SIZE.read(&Value::Uint64(1 << 40)), None);
        assert_eq!(TIMEOUT.read(&Value::Int16(-2)), Some(-2));
        assert_eq!(TIMEOUT.read(&Value::string("5")), None);
        assert_eq!(GLOBAL_RANK.read(&Value::Uint32(5)), Some(Rank(5)));
        assert_eq!(OPTIONAL.read(&Value::Undef), Some(true));
        assert_eq!(HOSTNAME.read(&Value::string("n1")).as_deref(), Some("n1"));
    }
}
