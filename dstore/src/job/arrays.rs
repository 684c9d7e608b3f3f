//! Reads a host's arrays about processes in place: in a large job they are too large to copy first.

use std::ffi::{CStr, CString};

use super::check::{self, Form};
use super::procs::{Column, ProcTable};
use crate::codec::ValueRef;
use crate::model::{DataType, Info, Key, Result, Value, keys};
use crate::{fallible_alloc, qualified};

/// The infos of one array, borrowed from their owner.
pub trait LentInfos {
    /// Number of infos.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is the key of an info.
    fn has_key(&self, index: usize, key: &KeyText) -> bool;

    /// The key of an info.
    ///
    /// # Errors
    /// `BAD_PARAM` for one that is too long; `NOMEM`.
    fn key(&self, index: usize) -> Result<Key>;

    /// The value of an info, if it is a number, a text or bytes.
    fn plain(&self, index: usize) -> Option<ValueRef<'_>>;

    /// The number of the info, if it has this key and a value of type `ty`, which is not BOOL and whose
    /// [`DataType::scalar_width`] is `width`. For a text, whose width is 0, the number is 0.
    fn number(&self, index: usize, key: &KeyText, ty: DataType, width: usize) -> Option<u64>;

    /// The text of an info with a text value; `None` for NULL.
    fn text(&self, index: usize) -> Option<&CStr>;

    /// A copy of the value of an info.
    ///
    /// # Errors
    /// `NOMEM`; errors of reading the value.
    fn value(&self, index: usize) -> Result<Value>;
}

/// A key in C form, for comparison with other keys.
pub struct KeyText {
    text: CString,
    ends: Option<(u64, u64, usize)>,
}

impl KeyText {
    /// The key with these bytes, which contain no NUL.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn new(key: &[u8]) -> Result<KeyText> {
        let text = fallible_alloc::c_string(key)?;
        let bytes = text.as_bytes_with_nul();
        let ends = bytes.first_chunk().zip(bytes.last_chunk()).filter(|_| bytes.len() <= 16);
        let ends = ends.map(|(first, last)| {
            (u64::from_ne_bytes(*first), u64::from_ne_bytes(*last), bytes.len() - size_of::<u64>())
        });
        Ok(KeyText { text, ends })
    }

    /// The key.
    pub fn text(&self) -> &CStr {
        &self.text
    }

    /// The first and the last eight bytes including the NUL, and the offset of the last ones, for keys of 8 to 16 bytes: most
    /// keys are compared as two words.
    #[inline]
    pub fn ends(&self) -> Option<(u64, u64, usize)> {
        self.ends
    }
}

/// Limit of distinct keys in all arrays. A key that is not at its expected index is searched for linearly.
const KEYS_MAX: usize = 256;

/// Ranks whose numbers are buffered before they are appended to the columns.
const BATCH: usize = 64;

/// Reads arrays about processes (`PMIX_PROC_INFO_ARRAY`, `PMIX_PROC_DATA`) into columns.
#[derive(Default)]
pub struct ProcArrays {
    keys: Vec<KnownKey>,
    /// The infos of the previous array, by index. Arrays are usually alike.
    expected: Vec<Expected>,
    /// Set if the next rank's array is expected to have the previous array's form.
    next: Option<Next>,
    rows: u32,
}

/// The previous array's form. If the next rank's array has the same form, its values need no checks: any number or text is valid
/// there.
#[derive(Clone, Copy)]
struct Next {
    /// Number of infos.
    len: usize,
    /// Index of the rank.
    rank_at: usize,
    /// Ranks whose numbers are buffered, not yet in the columns.
    waiting: usize,
}

/// An info of the previous array.
struct Expected {
    /// The number of its key.
    known: usize,
    text: KeyText,
    /// The type of its value, and its width if the value is a number.
    ty: DataType,
    width: usize,
    /// Numbers of the buffered ranks, and of the current one.
    numbers: [u64; BATCH],
}

/// A key of the arrays, with its values.
struct KnownKey {
    key: Key,
    form: Form,
    /// Whether the key is a placement attribute, of which a rank has one value.
    is_place: bool,
    column: Column,
}

impl ProcArrays {
    /// Whether an array under this key describes a process.
    pub fn is_key(key: &Key) -> bool {
        key.is(keys::PROC_INFO_ARRAY) || key.is(keys::PROC_DATA)
    }

    /// Whether an info contains an array that describes a process.
    pub fn are_in(info: &Info) -> bool {
        ProcArrays::is_key(&info.key) || info.value.iter_infos().any(ProcArrays::are_in)
    }

    /// Reads an array about one process. Returns false, having taken none of its values, if the array has no rank, contains other
    /// arrays, or is malformed.
    ///
    /// # Errors
    /// `NOMEM`; errors of reading a key or a value. Then some of its values may have been taken.
    #[inline]
    pub fn take(&mut self, infos: &impl LentInfos) -> Result<bool> {
        Ok(self.take_next(infos)? || self.take_any(infos)?)
    }

    /// The same for the next rank's array if it has the previous one's form, as in most large jobs.
    #[inline]
    fn take_next(&mut self, infos: &impl LentInfos) -> Result<bool> {
        let Some(Next { len, rank_at, waiting }) = self.next.filter(|next| next.len == infos.len()) else {
            return Ok(false);
        };
        let Some(expected) = self.expected.get_mut(..len) else { return Ok(false) };
        let mut has_texts = false;
        for (index, expected) in expected.iter_mut().enumerate() {
            has_texts |= expected.width == 0;
            match infos.number(index, &expected.text, expected.ty, expected.width) {
                Some(number) => expected.numbers[waiting] = number,
                None => return Ok(false),
            }
        }
        let rank = self.rows;
        if expected[rank_at].numbers[waiting] != u64::from(rank) || rank > ProcTable::RANK_MAX {
            return Ok(false);
        }
        if has_texts {
            for (index, expected) in expected.iter_mut().enumerate().filter(|(_, expected)| expected.width == 0) {
                expected.numbers[waiting] = self.keys[expected.known].column.number_of_text(infos.text(index))?;
            }
        }
        self.rows += 1;
        self.next = Some(Next { len, rank_at, waiting: waiting + 1 });
        if waiting + 1 == BATCH {
            self.put_waiting()?;
        }
        Ok(true)
    }

    /// Appends the buffered numbers to the columns.
    fn put_waiting(&mut self) -> Result<()> {
        if let Some(Next { len, waiting, .. }) = &mut self.next {
            let count = std::mem::take(waiting);
            for expected in &self.expected[..*len] {
                self.keys[expected.known].column.push_rows(&expected.numbers[..count])?;
            }
        }
        Ok(())
    }

    fn take_any(&mut self, infos: &impl LentInfos) -> Result<bool> {
        self.put_waiting()?;
        self.next = None;
        let (mut rank, mut rank_at, mut are_sure) = (None, None, true);
        for index in 0..infos.len() {
            let Some(known) = self.know(infos, index)? else { return Ok(false) };
            let known = &self.keys[known];
            let plain = infos.plain(index);
            if !known.form.fits(plain) {
                return Ok(false);
            }
            if rank.is_none() && known.key.is(keys::RANK) {
                rank = plain.and_then(|value| value.as_u32());
                rank_at = Some(index);
            }
            let ty = plain.map_or(DataType::UNDEF, |value| value.data_type());
            are_sure &= known.form.fits_all_of(ty);
            let expected = &mut self.expected[index];
            (expected.ty, expected.width) = (ty, ty.scalar_width().unwrap_or(0));
        }
        let Some(rank) = rank.filter(|rank| *rank <= ProcTable::RANK_MAX) else { return Ok(false) };
        if rank < self.rows && self.contradicts(rank, infos) {
            return Ok(false);
        }
        for (index, expected) in (0..infos.len()).zip(&self.expected) {
            let column = &mut self.keys[expected.known].column;
            match infos.plain(index) {
                Some(plain) => column.set_ref(rank, plain)?,
                None => column.set(rank, infos.value(index)?)?,
            }
        }
        self.rows = self.rows.max(rank + 1);
        let (len, rows) = (infos.len(), self.rows);
        let is_next = |expected: &Expected| self.keys[expected.known].column.is_next(rows, expected.ty);
        let is_like = are_sure && self.expected[..len].iter().all(is_next);
        self.next = rank_at.filter(|_| is_like).map(|rank_at| Next { len, rank_at, waiting: 0 });
        Ok(true)
    }

    /// Whether the array contradicts the rank's earlier placement, or itself.
    fn contradicts(&self, rank: u32, infos: &impl LentInfos) -> bool {
        (0..infos.len()).zip(&self.expected).any(|(index, expected)| {
            let known = &self.keys[expected.known];
            let said = known.column.get(rank).filter(|_| known.is_place);
            said.is_some_and(|said| infos.plain(index) != Some(said))
        })
    }

    /// The index of an info's key in `keys`; the key is then expected at this position. `None` if the value is not a plain value
    /// of a process.
    #[inline]
    fn know(&mut self, infos: &impl LentInfos, index: usize) -> Result<Option<usize>> {
        if let Some(Expected { known, text, .. }) = self.expected.get(index)
            && infos.has_key(index, text)
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
                let (form, is_place) = (Form::of(&key), check::is_place(&key));
                fallible_alloc::push(&mut self.keys, KnownKey { key, form, is_place, column: Column::default() })?;
                self.keys.len() - 1
            }
        };
        // A duplicate key would have to be compared with itself.
        if self.expected[..index].iter().any(|expected| expected.known == known) {
            return Ok(None);
        }
        self.expected.truncate(index);
        let text = KeyText::new(self.keys[known].key.as_bytes())?;
        let (ty, numbers) = (DataType::UNDEF, [0; BATCH]);
        fallible_alloc::push(&mut self.expected, Expected { known, text, ty, width: 0, numbers })?;
        Ok(Some(known))
    }

    /// All values that were read.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn into_table(mut self) -> Result<ProcTable> {
        self.put_waiting()?;
        Ok(ProcTable::of_columns(self.keys.into_iter().map(|known| (known.key, known.column))))
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

        fn has_key(&self, index: usize, key: &KeyText) -> bool {
            self.0[index].key.as_bytes() == key.text().to_bytes()
        }

        fn key(&self, index: usize) -> Result<Key> {
            Ok(self.0[index].key.clone())
        }

        fn plain(&self, index: usize) -> Option<ValueRef<'_>> {
            Some(ValueRef::from(&self.0[index].value)).filter(|value| value.owned().is_none())
        }

        fn number(&self, index: usize, key: &KeyText, ty: DataType, width: usize) -> Option<u64> {
            let value = &self.0[index].value;
            assert_eq!(width, ty.scalar_width().unwrap_or(0));
            let is_like = self.has_key(index, key) && value.data_type() == ty;
            is_like.then(|| value.scalar_bits().unwrap_or(0))
        }

        fn text(&self, index: usize) -> Option<&CStr> {
            match &self.0[index].value {
                Value::String(text) => text.as_deref(),
                other => panic!("{other:?} is no text"),
            }
        }

        fn value(&self, index: usize) -> Result<Value> {
            Ok(self.0[index].value.clone())
        }
    }

    /// Registers `infos` through `LentInfos` and directly, and compares the results; returns how many arrays were read in place.
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
        let answers = (
            lent.register(Given { infos: &others, procs: arrays.into_table().unwrap() }, b"n1"),
            whole.register(infos, b"n1"),
        );
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
        // Another order, other keys, values of other types, and a repeated registration with the same placement.
        let others = [
            proc([place(1), rank(3)]),
            proc([rank(3), ("site.colour", Value::string("red")), place(1)]),
            proc([("site.colour", Value::Byte(3)), rank(3), ("site.none", Value::String(None))]),
        ];
        assert_eq!(taken(&others), 3);
    }

    #[test]
    fn arrays_that_are_like_the_one_before_are_read_as_others() {
        let place = |n: u32| (keys::HOSTNAME, Value::string(format!("n{}", n / 8)));
        let text = |n: u32| ("site.text", Value::String((!n.is_multiple_of(5)).then(|| c"text".into())));
        let of = |n: u32| vec![rank(n), place(n), (keys::NODEID, Value::Uint32(n / 8)), text(n)];
        let odd: [&dyn Fn(u32) -> Vec<(&'static str, Value)>; 9] = [
            &|n| vec![rank(n), place(n), (keys::NODEID, Value::Uint16(1)), text(n)],
            &|n| vec![rank(n), place(n), (keys::NODEID, Value::Uint32(70_000)), text(n)],
            &|n| vec![rank(n), place(n), text(n), (keys::NODEID, Value::Uint32(1))],
            &|n| vec![rank(n), place(n), (keys::NODEID, Value::Uint32(1)), ("site.text", Value::Byte(1))],
            &|n| vec![rank(n), place(n), (keys::NODEID, Value::Uint32(1)), ("site.other", Value::Byte(1))],
            &|n| vec![rank(n), place(n)],
            &|n| [of(n), vec![("site.more", Value::Bool(true))]].concat(),
            &|n| of(n + 100),
            &|n| of(n - 1),
        ];
        for (number, odd) in odd.iter().enumerate() {
            for at in [1, 2, 3, BATCH as u32, BATCH as u32 + 1, BATCH as u32 + 2, 2 * BATCH as u32 + 1] {
                let infos: Vec<Info> = (0..200).map(|n| proc(if n == at { odd(n) } else { of(n) })).collect();
                assert_eq!(taken(&infos), 200, "{number} at {at}");
            }
        }
    }

    fn n_of(n: u32) -> Value {
        if n.is_multiple_of(9) { Value::Uint32(n % 8) } else { Value::Uint16(n as u16 % 8) }
    }

    #[test]
    fn malformed_or_nested_arrays_are_left_to_the_registration() {
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
