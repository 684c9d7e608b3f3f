//! The data that servers exchange in fences and direct modex.
//!
//! A fence concatenates the contributions of all nodes, in any order. Each contribution is a packed byte object and so
//! contains its length. There are three forms: that of releases 3.2 to 5.0, which our servers write, that of 6.x, and that of
//! columns, which our servers alone write and read (`docs/modex-format.md`). Our servers read all three. The answer to a direct modex is
//! the values of one rank, without a wrapper.

use std::collections::HashMap;

use pmix_dstore::codec::{Dialect, Packer, Unpacker};
use pmix_dstore::compression::{compress, decompress};
use pmix_dstore::fallible_alloc;
use pmix_dstore::gather::GatherBuf;
use pmix_dstore::model::{Bytes, Key, Kval, Proc, Rank, Result, Status, Value};

use crate::columns;

/// Bit of the info byte: data was collected.
const COLLECTED: u8 = 1;
/// Bit of the info byte: keys are numbers into a list of names.
const KEY_MAP: u8 = 2;

/// A rank and its values.
type Borrowed<'a> = (Rank, Vec<(&'a Key, &'a Value)>);

/// The rank that the values belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// In the form up to 5.0: the rank, or with several namespaces the rank counted through all of them in the order
    /// in which the fence lists them.
    Relative(Rank),
    /// In the form of 6.x: the process.
    Proc(Proc),
}

/// The form of a contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Releases 3.2 to 5.0.
    Relative {
        /// Whether keys are numbers into a list of names.
        key_map: bool,
    },
    /// Releases 6.x.
    Procs {
        /// Whether the body is compressed.
        compressed: bool,
    },
    /// This library's own, by keys.
    Columns,
}

/// One node's contribution to a fence.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// Its form.
    pub form: Form,
    /// Whether data was collected. Contributions to one fence must agree.
    pub collected: bool,
    /// The values of each local rank that has any.
    pub ranks: Vec<(Origin, Vec<Kval>)>,
}

impl Contribution {
    /// The contribution in the form up to 5.0, with a key map if that is shorter.
    ///
    /// # Errors
    /// `UNKNOWN_DATA_TYPE` if the encoder does not know a value's type.
    pub fn encode(dialect: Dialect, collected: bool, ranks: &[(Rank, Vec<Kval>)]) -> Result<Vec<u8>> {
        let ranks: Vec<_> = ranks.iter().map(|(rank, kvals)| (*rank, borrowed(kvals))).collect();
        Contribution::encode_borrowed(dialect, collected, &ranks)?.into_bytes()
    }

    /// As [`Contribution::encode`], from borrowed values; long values are not copied.
    ///
    /// # Errors
    /// As there.
    pub fn encode_borrowed(
        dialect: Dialect,
        collected: bool,
        ranks: &[(Rank, Vec<(&Key, &Value)>)],
    ) -> Result<GatherBuf> {
        let key_map = KeyMap::of(dialect, ranks.iter().flat_map(|(_, values)| values.iter().map(|(key, _)| *key)))?;
        relative_form(dialect, collected, key_map.is_worth_it().then_some(&key_map), ranks)
    }

    /// A contribution with collected data in the column form; long values are not copied. `None` where this form does not suit the
    /// values: it would be no shorter than the form up to 5.0 with `more` bytes beside them, for example.
    ///
    /// # Errors
    /// As [`Contribution::encode`].
    pub fn encode_columns(
        dialect: Dialect,
        ranks: &[(Rank, Vec<(&Key, &Value)>)],
        more: usize,
    ) -> Result<Option<GatherBuf>> {
        columns::write(dialect, ranks, more)
    }

    /// The contribution in the form of its field `form`.
    ///
    /// # Errors
    /// `BAD_PARAM` if an origin or the values do not fit the form; `UNKNOWN_DATA_TYPE` if the encoder does not know a value's
    /// type.
    pub fn encode_again(&self, dialect: Dialect) -> Result<Vec<u8>> {
        match self.form {
            Form::Relative { key_map } => {
                let ranks = self.relative()?;
                let names =
                    KeyMap::of(dialect, self.ranks.iter().flat_map(|(_, kvals)| kvals.iter().map(|kval| &kval.key)))?;
                relative_form(dialect, self.collected, key_map.then_some(&names), &ranks)?.into_bytes()
            }
            Form::Procs { compressed } => self.proc_form(dialect, compressed),
            Form::Columns => {
                let columns = columns::write(dialect, &self.relative()?, usize::MAX / 2)?;
                columns.ok_or(Status::ERR_BAD_PARAM)?.into_bytes()
            }
        }
    }

    /// The values of relative ranks.
    fn relative(&self) -> Result<Vec<Borrowed<'_>>> {
        let ranks = self.ranks.iter().map(|(origin, kvals)| match origin {
            Origin::Relative(rank) => Ok((*rank, borrowed(kvals))),
            Origin::Proc(_) => Err(Status::ERR_BAD_PARAM),
        });
        ranks.collect()
    }

    fn proc_form(&self, dialect: Dialect, compressed: bool) -> Result<Vec<u8>> {
        let mut body = Packer::new(dialect);
        body.byte(self.collected.into());
        for (origin, kvals) in &self.ranks {
            let Origin::Proc(proc) = origin else {
                return Err(Status::ERR_BAD_PARAM);
            };
            body.byte_object_of(|object| {
                object.proc(proc);
                kvals.iter().try_for_each(|kval| object.kval(&kval.key, &kval.value))
            })?;
        }
        let mut out = body.nested();
        out.byte_object_of(|envelope| {
            envelope.bool(compressed);
            match compressed {
                true => envelope.byte_object(&compress(body.as_bytes())?),
                false => envelope.byte_object(body.as_bytes()),
            }
        })?;
        Ok(out.into_bytes())
    }
}

/// All contributions that a host returned from a fence, in either form. Empty input has none.
///
/// # Errors
/// Malformed bytes.
pub fn decode_fence(dialect: Dialect, bytes: &[u8]) -> Result<Vec<Contribution>> {
    read_fence(Unpacker::new(dialect, bytes))
}

/// As [`decode_fence`]; long values share the memory of `bytes`.
///
/// # Errors
/// Malformed bytes.
pub fn decode_shared_fence(dialect: Dialect, bytes: &Bytes) -> Result<Vec<Contribution>> {
    read_fence(Unpacker::sharing(dialect, bytes))
}

fn read_fence(mut unpacker: Unpacker<'_>) -> Result<Vec<Contribution>> {
    let mut contributions = Vec::new();
    let mut is_first = true;
    while !unpacker.is_empty() {
        let envelope = unpacker.byte_object()?;
        // PRRTE 3.0 puts an envelope with directives for itself, none in a fence, before what the servers contributed.
        if std::mem::take(&mut is_first) && envelope.is_empty() {
            continue;
        }
        let envelope = unpacker.nested(envelope);
        if let Some(ranks) = columns::read(&envelope)? {
            let ranks = ranks.into_iter().map(|(rank, kvals)| (Origin::Relative(rank), kvals)).collect();
            fallible_alloc::push(&mut contributions, Contribution { form: Form::Columns, collected: true, ranks })?;
            continue;
        }
        // The bytes have no type tags, so the first fields do not show the form. If the bytes decode completely as the
        // older form, they have that form: the 6.x form has a second envelope in the place of the older form's rank.
        let contribution = read_relative(envelope.clone()).or_else(|error| {
            read_procs(envelope).map_err(|other| if other == Status::ERR_UNKNOWN_DATA_TYPE { other } else { error })
        })?;
        fallible_alloc::push(&mut contributions, contribution)?;
    }
    Ok(contributions)
}

fn read_relative(mut from: Unpacker<'_>) -> Result<Contribution> {
    let info = from.byte()?;
    if info & !(COLLECTED | KEY_MAP) != 0 {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    let mut names = None;
    if info & KEY_MAP != 0 {
        let mut list = Vec::new();
        if !from.is_empty() {
            let count = from.uint32()? as usize;
            for name in from.strings(count)? {
                fallible_alloc::push(&mut list, Key::new(name.to_bytes()).map_err(|_| Status::ERR_UNPACK_FAILURE)?)?;
            }
        }
        names = Some(list);
    }
    let mut ranks = Vec::new();
    while !from.is_empty() {
        let bytes = from.byte_object()?;
        let mut object = from.nested(bytes);
        let rank = object.rank()?;
        let kvals = match &names {
            None => object.kvals()?,
            Some(names) => kvals_by_number(object, names)?,
        };
        fallible_alloc::push(&mut ranks, (Origin::Relative(rank), kvals))?;
    }
    if info & COLLECTED == 0 && !ranks.is_empty() {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    Ok(Contribution { form: Form::Relative { key_map: names.is_some() }, collected: info & COLLECTED != 0, ranks })
}

fn kvals_by_number(mut object: Unpacker<'_>, names: &[Key]) -> Result<Vec<Kval>> {
    let mut kvals = Vec::new();
    while !object.is_empty() {
        let number = object.uint32()? as usize;
        let key = names.get(number).ok_or(Status::ERR_UNPACK_FAILURE)?.clone();
        fallible_alloc::push(&mut kvals, Kval { key, value: object.value()? })?;
    }
    Ok(kvals)
}

fn read_procs(mut from: Unpacker<'_>) -> Result<Contribution> {
    let compressed = from.bool()?;
    let body = from.byte_object()?;
    if !from.is_empty() {
        return Err(Status::ERR_UNPACK_FAILURE);
    }
    let expanded;
    let mut body = from.nested(if compressed {
        expanded = decompress(body)?;
        &expanded
    } else {
        body
    });
    let collected = body.byte()? & COLLECTED != 0;
    let mut ranks = Vec::new();
    while !body.is_empty() {
        let bytes = body.byte_object()?;
        let mut object = body.nested(bytes);
        fallible_alloc::push(&mut ranks, (Origin::Proc(object.proc()?), object.kvals()?))?;
    }
    Ok(Contribution { form: Form::Procs { compressed }, collected, ranks })
}

fn borrowed(kvals: &[Kval]) -> Vec<(&Key, &Value)> {
    kvals.iter().map(|kval| (&kval.key, &kval.value)).collect()
}

fn relative_form(
    dialect: Dialect,
    collected: bool,
    key_map: Option<&KeyMap<'_>>,
    ranks: &[(Rank, Vec<(&Key, &Value)>)],
) -> Result<GatherBuf> {
    let mut out = Packer::new(dialect).sharing();
    out.byte_object_of(|body| relative_body(body, collected, key_map, ranks))?;
    Ok(out.into_pieces())
}

fn relative_body(
    body: &mut Packer,
    collected: bool,
    key_map: Option<&KeyMap<'_>>,
    ranks: &[(Rank, Vec<(&Key, &Value)>)],
) -> Result<()> {
    body.byte(if collected { COLLECTED } else { 0 } | if key_map.is_some() { KEY_MAP } else { 0 });
    if let Some(KeyMap { names, .. }) = key_map
        && !names.is_empty()
    {
        body.uint32(names.len() as u32);
        body.strings(names)?;
    }
    ranks.iter().try_for_each(|(rank, values)| {
        body.byte_object_of(|object| {
            object.rank(*rank);
            values.iter().try_for_each(|(key, value)| match key_map.and_then(|map| map.numbers.get(key.as_bytes())) {
                Some(number) => {
                    object.uint32(*number);
                    object.value(value)
                }
                None => object.kval(key, value),
            })
        })
    })
}

/// The names of keys and their numbers, in the order of first use.
struct KeyMap<'a> {
    names: Vec<&'a [u8]>,
    numbers: HashMap<&'a [u8], u32>,
    bytes_plain: usize,
    bytes_mapped: usize,
}

impl<'a> KeyMap<'a> {
    fn of(dialect: Dialect, keys: impl Iterator<Item = &'a Key>) -> Result<KeyMap<'a>> {
        let mut map = KeyMap { names: Vec::new(), numbers: HashMap::new(), bytes_plain: 0, bytes_mapped: 0 };
        let mut uses: Vec<usize> = Vec::new();
        for key in keys {
            let name = key.as_bytes();
            let next = map.names.len() as u32;
            let number = *map.numbers.entry(name).or_insert(next);
            if number == next {
                map.names.push(name);
                uses.push(0);
            }
            uses[number as usize] += 1;
        }
        let mut scratch = Packer::new(dialect);
        for (number, (name, uses)) in map.names.iter().zip(uses).enumerate() {
            scratch.clear();
            scratch.string(Some(name))?;
            let name_len = scratch.len();
            scratch.clear();
            scratch.uint32(number as u32);
            map.bytes_plain += name_len * uses;
            map.bytes_mapped += name_len + scratch.len() * uses;
        }
        Ok(map)
    }

    fn is_worth_it(&self) -> bool {
        self.bytes_plain > self.bytes_mapped
    }
}

/// The answer of a direct modex: the values of one rank.
///
/// # Errors
/// `UNKNOWN_DATA_TYPE` if the encoder does not know a value's type.
pub fn encode_modex<'a>(dialect: Dialect, kvals: impl Iterator<Item = (&'a Key, &'a Value)>) -> Result<Vec<u8>> {
    let mut packer = Packer::new(dialect);
    for (key, value) in kvals {
        packer.kval(key, value)?;
    }
    Ok(packer.into_bytes())
}

/// The values of a direct modex.
///
/// # Errors
/// Malformed bytes.
pub fn decode_modex(dialect: Dialect, bytes: &[u8]) -> Result<Vec<Kval>> {
    Unpacker::new(dialect, bytes).kvals()
}
