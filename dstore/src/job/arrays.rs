//! What a host says of processes, read where the host has it: of a large job the arrays are too large to be copied first.

use std::ffi::{CStr, CString};

use super::check::{self, Form};
use super::procs::{Column, ProcTable};
use crate::model::{Info, Key, Result, Value, ValueRef, keys};
use crate::{qualified, room};

/// The infos of one array, which lie with their owner.
pub trait LentInfos {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is the key of an info.
    fn has_key(&self, index: usize, key: &CStr) -> bool;

    /// The key of an info.
    ///
    /// # Errors
    /// `BAD_PARAM` for one that is too long; `NOMEM`.
    fn key(&self, index: usize) -> Result<Key>;

    /// The value of an info, if it is a number, a text or bytes.
    fn plain(&self, index: usize) -> Option<ValueRef<'_>>;

    /// A copy of the value of an info.
    ///
    /// # Errors
    /// `NOMEM`; what reading the value says.
    fn value(&self, index: usize) -> Result<Value>;
}

/// Keys of all arrays together: one that is not expected is looked for among them one by one.
const KEYS_MAX: usize = 256;

/// Reads arrays about processes (`PMIX_PROC_INFO_ARRAY`, `PMIX_PROC_DATA`) into columns.
#[derive(Default)]
pub struct ProcArrays {
    keys: Vec<KnownKey>,
    /// The key of each info of the array before, by its index: arrays are alike.
    expected: Vec<usize>,
    rows: u32,
}

/// A key that was met, with its values.
struct KnownKey {
    key: Key,
    text: CString,
    form: Form,
    /// It says where a process runs, so that it has one value.
    is_place: bool,
    column: Column,
}

impl ProcArrays {
    /// Whether an array under this key is about a process.
    pub fn is_key(key: &Key) -> bool {
        key.is(keys::PROC_INFO_ARRAY) || key.is(keys::PROC_DATA)
    }

    /// Whether something in an info is about a process.
    pub fn are_in(info: &Info) -> bool {
        ProcArrays::is_key(&info.key) || info.value.iter_infos().any(ProcArrays::are_in)
    }

    /// Reads an array about one process. Tells whether it did; where not, none of its values was taken: the array has no rank,
    /// others in it, or something is wrong with it.
    ///
    /// # Errors
    /// `NOMEM`; what reading a key or a value says. Some of its values may have been taken.
    pub fn take(&mut self, infos: &impl LentInfos) -> Result<bool> {
        let mut rank = None;
        for index in 0..infos.len() {
            let Some(known) = self.know(infos, index)? else { return Ok(false) };
            let known = &self.keys[known];
            let plain = infos.plain(index);
            if !known.form.fits(plain) {
                return Ok(false);
            }
            if rank.is_none() && known.key.is(keys::RANK) {
                rank = plain.and_then(|value| value.as_u32());
            }
        }
        let Some(rank) = rank.filter(|rank| *rank <= ProcTable::RANK_MAX) else { return Ok(false) };
        if rank < self.rows && self.contradicts(rank, infos) {
            return Ok(false);
        }
        for (index, known) in (0..infos.len()).zip(&self.expected) {
            let column = &mut self.keys[*known].column;
            match infos.plain(index) {
                Some(plain) => column.set_ref(rank, plain)?,
                None => column.set(rank, infos.value(index)?)?,
            }
        }
        self.rows = self.rows.max(rank + 1);
        Ok(true)
    }

    /// Whether a rank's place is said to be another one than before, or in the array twice.
    fn contradicts(&self, rank: u32, infos: &impl LentInfos) -> bool {
        (0..infos.len()).zip(&self.expected).any(|(index, known)| {
            let known = &self.keys[*known];
            let said = known.column.get(rank).filter(|_| known.is_place);
            said.is_some_and(|said| infos.plain(index) != Some(said))
        })
    }

    /// The number of an info's key, which is expected at its index from now on; `None` for one whose value is no plain value of a process.
    #[inline]
    fn know(&mut self, infos: &impl LentInfos, index: usize) -> Result<Option<usize>> {
        if let Some(known) = self.expected.get(index)
            && infos.has_key(index, &self.keys[*known].text)
        {
            return Ok(Some(*known));
        }
        self.know_other(infos, index)
    }

    fn know_other(&mut self, infos: &impl LentInfos, index: usize) -> Result<Option<usize>> {
        let key = infos.key(index)?;
        let known = match self.keys.iter().position(|known| known.key == key) {
            Some(known) => known,
            None if check::is_array(&key) || qualified::is_key(&key) || self.keys.len() >= KEYS_MAX => return Ok(None),
            None => {
                let (text, form) = (room::c_string(key.as_bytes())?, Form::of(&key));
                let is_place = check::is_place(&key);
                room::push(&mut self.keys, KnownKey { key, text, form, is_place, column: Column::default() })?;
                self.keys.len() - 1
            }
        };
        // A key that is there twice would have to be compared with itself.
        if self.expected[..index].contains(&known) {
            return Ok(None);
        }
        self.expected.truncate(index);
        room::push(&mut self.expected, known)?;
        Ok(Some(known))
    }

    /// All that was read.
    pub fn into_table(self) -> ProcTable {
        ProcTable::of_columns(self.keys.into_iter().map(|known| (known.key, known.column)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Given, JobData};
    use crate::model::{Nspace, Rank};

    struct Lent<'a>(&'a [Info]);

    impl LentInfos for Lent<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn has_key(&self, index: usize, key: &CStr) -> bool {
            self.0[index].key.as_bytes() == key.to_bytes()
        }

        fn key(&self, index: usize) -> Result<Key> {
            Ok(self.0[index].key.clone())
        }

        fn plain(&self, index: usize) -> Option<ValueRef<'_>> {
            Some(ValueRef::from(&self.0[index].value)).filter(|value| value.owned().is_none())
        }

        fn value(&self, index: usize) -> Result<Value> {
            Ok(self.0[index].value.clone())
        }
    }

    /// Registers `infos` as who lends them does, and as they are; gives how many were read where they lie.
    fn taken(infos: &[Info]) -> usize {
        let (mut arrays, mut others, mut count) = (ProcArrays::default(), Vec::new(), 0);
        for info in infos {
            let inner: Vec<Info> = info.value.iter_infos().cloned().collect();
            let is_taken = !others.iter().any(ProcArrays::are_in)
                && ProcArrays::is_key(&info.key)
                && arrays.take(&Lent(&inner)).unwrap();
            if is_taken {
                count += 1;
            } else {
                others.push(info.clone());
            }
        }
        let new = || JobData::new(Nspace::new("job").unwrap());
        let (mut lent, mut whole) = (new(), new());
        let answers =
            (lent.register(Given { infos: &others, procs: arrays.into_table() }, b"n1"), whole.register(infos, b"n1"));
        assert_eq!(answers.0, answers.1, "{infos:?}");
        if answers.0.is_ok() {
            assert_eq!(lent, whole, "{infos:?}");
        }
        count
    }

    fn proc(infos: impl IntoIterator<Item = (&'static str, Value)>) -> Info {
        let infos = infos.into_iter().map(|(key, value)| Info::new(key, value));
        Info::new(keys::PROC_DATA, Value::infos(infos))
    }

    fn rank(rank: u32) -> (&'static str, Value) {
        (keys::RANK, Value::Rank(Rank(rank)))
    }

    #[test]
    fn arrays_are_read_where_they_lie() {
        let place = |node: u32| (keys::HOSTNAME, Value::string(format!("n{node}")));
        let cpus = || ("cpus", Value::infos([Info::new("x", Value::Undef)]));
        let infos: Vec<Info> =
            (0..50).map(|n| proc([rank(n), place(n / 8), cpus(), (keys::LOCAL_RANK, n_of(n))])).collect();
        assert_eq!(taken(&infos), 50);
        // In another order, under other keys, with values of other types, and registered again with the same place.
        let others = [
            proc([place(1), rank(3)]),
            proc([rank(3), ("site.colour", Value::string("red")), place(1)]),
            proc([("site.colour", Value::Byte(3)), rank(3), ("site.none", Value::String(None))]),
        ];
        assert_eq!(taken(&others), 3);
    }

    fn n_of(n: u32) -> Value {
        if n.is_multiple_of(9) { Value::Uint32(n % 8) } else { Value::Uint16(n as u16 % 8) }
    }

    #[test]
    fn what_is_wrong_or_has_others_in_it_is_left_to_the_registration() {
        let good = || proc([rank(1), (keys::HOSTNAME, Value::string("n1"))]);
        let inner = || Info::new(keys::NODE_INFO_ARRAY, Value::infos([Info::new(keys::HOSTNAME, Value::string("n1"))]));
        for bad in [
            proc([("x", Value::Undef)]),
            proc([]),
            proc([(keys::RANK, Value::string("1"))]),
            proc([rank(1 << 30)]),
            proc([rank(1), (keys::HOSTNAME, Value::string("n2"))]),
            proc([rank(2), (keys::HOSTNAME, Value::Uint32(2))]),
            proc([rank(2), (keys::NODEID, Value::string("2"))]),
            proc([rank(2), (keys::NODEID, Value::Int(-2))]),
            proc([rank(2), (keys::NODEID, Value::Int(2)), (keys::NODEID, Value::Int(3))]),
            proc([rank(2), (keys::LOCAL_PEERS, Value::string("0,x"))]),
            proc([rank(2), (keys::NODE_INFO_ARRAY, inner().value)]),
            proc([rank(2), (keys::QUALIFIED_VALUE, Value::infos([Info::new("k", Value::Int(1))]))]),
            Info::new(keys::PROC_DATA, Value::Uint32(1)),
        ] {
            let infos = [good(), bad, proc([rank(3), ("x", Value::Byte(1))])];
            assert_eq!(taken(&infos), 1, "what follows counts later");
        }
        let app = [Info::new(keys::APPNUM, Value::Uint32(1)), proc([rank(1), ("x", Value::Byte(2))])];
        let infos = [Info::new(keys::APP_INFO_ARRAY, Value::infos(app)), proc([rank(1), ("x", Value::Byte(1))])];
        assert_eq!(taken(&infos), 0);
        assert_eq!(taken(&[infos[1].clone(), infos[0].clone()]), 1);
        assert_eq!(taken(&[inner(), good(), inner(), proc([rank(2)])]), 2);
    }
}
