//! Several values under one key, distinguished by qualifiers (`PMIX_QUALIFIED_VALUE`).
//!
//! In messages and in a host's infos each of them is a separate value under the key `pmix.qual.val`: an array of infos. The first
//! info has the key and the value for a Get, the others are the qualifiers. A store has one value for each key of a process. So
//! it keeps all qualified values of a process as one value, an array of these arrays.

use std::collections::HashMap;

use crate::codec::ValueRef;
use crate::codec::{Dialect, Packer};
use crate::fallible_alloc;
use crate::model::{DataArray, DataType, Info, InfoFlags, Key, Kval, Result, Status, Value, keys};

/// Whether values under this key are qualified values.
pub fn is_key(key: &Key) -> bool {
    key.is(keys::QUALIFIED_VALUE)
}

/// Whether an info of a Get is a qualifier, which selects one of several values.
pub(crate) fn is_qualifier(info: &Info) -> bool {
    info.flags & InfoFlags::QUALIFIER != 0
}

/// Whether a value has the form of a qualified value.
pub fn is_one(value: &Value) -> bool {
    matches!(value, Value::DataArray(array) if array.ty == DataType::INFO && !array.items.is_empty())
}

/// The identity of a qualified value: its key and its qualifiers in any order, packed.
///
/// # Errors
/// Errors of packing a qualifier; `BAD_PARAM` for a value that is not [`is_one`].
pub fn identity(value: &Value) -> Result<Vec<u8>> {
    let mut infos = value.iter_infos();
    let first = infos.next().filter(|_| is_one(value)).ok_or(Status::ERR_BAD_PARAM)?;
    let mut qualifiers = Vec::new();
    for info in infos {
        let mut packer = Packer::new(Dialect::STORED);
        packer.kval(&info.key, &info.value)?;
        qualifiers.push(packer.into_bytes());
    }
    qualifiers.sort_unstable();
    let mut packer = Packer::new(Dialect::STORED);
    packer.string(Some(first.key.as_bytes()))?;
    qualifiers.iter().try_for_each(|qualifier| packer.byte_object(qualifier))?;
    Ok(packer.into_bytes())
}

/// The single qualified values of a store's value for a process, or of one received value.
pub fn each(value: &Value) -> &[Value] {
    match value {
        Value::DataArray(array) if array.ty == DataType::DATA_ARRAY => &array.items,
        one => std::slice::from_ref(one),
    }
}

/// Merges new values into a store's value. A new value replaces the one with the same key and qualifiers.
///
/// # Errors
/// `NOMEM`; as [`identity`].
pub fn merge(old: Option<&Value>, new: &Value) -> Result<Value> {
    let values = || old.into_iter().chain([new]).flat_map(each);
    let mut items: Vec<Value> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    fallible_alloc::reserve(&mut items, values().count())?;
    fallible_alloc::reserve_entries(&mut places, values().count())?;
    for value in values() {
        match *places.entry(identity(value)?).or_insert(items.len()) {
            place if place < items.len() => items[place] = value.copy()?,
            _ => items.push(value.copy()?),
        }
    }
    Ok(Value::DataArray(Box::new(DataArray { ty: DataType::DATA_ARRAY, items })))
}

/// Received values in a store's form: all qualified values become one, after the others.
///
/// # Errors
/// As [`merge`].
pub fn gather(kvals: Vec<Kval>) -> Result<Vec<Kval>> {
    if !kvals.iter().any(|kval| is_key(&kval.key)) {
        return Ok(kvals);
    }
    let (qualified, mut kvals): (Vec<Kval>, Vec<Kval>) = kvals.into_iter().partition(|kval| is_key(&kval.key));
    let items = qualified.into_iter().filter(|kval| is_one(&kval.value)).map(|kval| kval.value).collect();
    let all = Value::DataArray(Box::new(DataArray { ty: DataType::DATA_ARRAY, items }));
    kvals.push(Kval { key: keys::QUALIFIED_VALUE.into(), value: merge(None, &all)? });
    Ok(kvals)
}

/// A store's values in the form of messages: each qualified value is separate.
pub fn spread<'a>(values: impl Iterator<Item = (&'a Key, &'a Value)>) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    values.flat_map(|(key, value)| {
        let each = if is_key(key) { each(value) } else { std::slice::from_ref(value) };
        each.iter().map(move |value| (key, value))
    })
}

/// As [`spread`], for borrowed values.
pub fn spread_refs<'a>(
    values: impl Iterator<Item = (&'a Key, ValueRef<'a>)>,
) -> impl Iterator<Item = (&'a Key, ValueRef<'a>)> {
    values.flat_map(|(key, value)| {
        let all = value.owned().filter(|_| is_key(key)).map(each);
        let one = all.is_none().then_some(value);
        one.into_iter().chain(all.into_iter().flatten().map(ValueRef::from)).map(move |value| (key, value))
    })
}

/// Finds the value of `key` with all the qualifiers among `infos`, in a store's value for a process.
pub fn find<'a>(all: &'a Value, key: &[u8], infos: &[Info]) -> Option<&'a Value> {
    each(all).iter().find_map(|value| {
        let mut parts = value.iter_infos();
        let first = parts.next().filter(|first| first.key.as_bytes() == key)?;
        let qualifiers: Vec<&Info> = parts.collect();
        let has = |wanted: &Info| qualifiers.iter().any(|own| own.key == wanted.key && own.value == wanted.value);
        infos.iter().filter(|info| is_qualifier(info)).all(has).then_some(&first.value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &'static str, value: i32, qualifiers: &[(&'static str, i32)]) -> Value {
        let qualifiers = qualifiers.iter().map(|(key, value)| qualifier(key, *value));
        Value::infos([Info::new(key, Value::Int(value))].into_iter().chain(qualifiers))
    }

    fn qualifier(key: &'static str, value: i32) -> Info {
        Info { flags: InfoFlags::QUALIFIER, ..Info::new(key, Value::Int(value)) }
    }

    #[test]
    fn values_are_found_by_their_qualifiers() {
        let mut all = merge(None, &one("k", 1, &[("a", 1)])).unwrap();
        for (value, qualifiers) in [(2, &[("a", 2)][..]), (3, &[("a", 3), ("b", 3)]), (4, &[("b", 3), ("a", 3)])] {
            all = merge(Some(&all), &one("k", value, qualifiers)).unwrap();
        }
        all = merge(Some(&all), &one("l", 5, &[("a", 1)])).unwrap();
        assert_eq!(each(&all).len(), 4, "the order of qualifiers means nothing");
        let get = |key: &str, qualifiers: &[Info]| find(&all, key.as_bytes(), qualifiers).cloned();
        assert_eq!(get("k", &[qualifier("a", 1)]), Some(Value::Int(1)));
        assert_eq!(get("k", &[qualifier("a", 2), Info::new("not one", Value::Undef)]), Some(Value::Int(2)));
        assert_eq!(get("k", &[qualifier("b", 3)]), Some(Value::Int(4)), "those that are asked for are enough");
        assert_eq!(get("k", &[qualifier("a", 2), qualifier("b", 3)]), None);
        assert_eq!(get("l", &[qualifier("a", 1)]), Some(Value::Int(5)));
        assert_eq!(get("l", &[qualifier("a", 2)]), None);
        assert_eq!(get("m", &[qualifier("a", 1)]), None);
    }

    #[test]
    fn messages_carry_each_on_its_own() {
        let kval = |key: &'static str, value| Kval { key: key.into(), value };
        let (first, second) = (one("k", 1, &[("a", 1)]), one("k", 2, &[("a", 2)]));
        let sent = vec![
            kval(keys::QUALIFIED_VALUE, first.clone()),
            kval("plain", Value::Int(3)),
            kval(keys::QUALIFIED_VALUE, second.clone()),
            kval(keys::QUALIFIED_VALUE, Value::Int(4)),
        ];
        let kept = gather(sent).unwrap();
        assert_eq!(kept.len(), 2, "what is none is left out");
        let sent: Vec<_> = spread(kept.iter().map(|kval| (&kval.key, &kval.value))).collect();
        let key = Key::from(keys::QUALIFIED_VALUE);
        assert_eq!(sent, [(&Key::from("plain"), &Value::Int(3)), (&key, &first), (&key, &second)]);
        let plain = vec![kval("plain", Value::Int(3))];
        assert_eq!(gather(plain.clone()).unwrap(), plain);
    }
}
