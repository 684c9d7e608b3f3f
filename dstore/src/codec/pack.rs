//! Writing packed buffers.

use std::ffi::{CStr, CString};

use super::{DEPTH_MAX, Dialect, Module, Untyped, int, text};
use crate::codec::ValueRef;
use crate::compression;
use crate::fallible_alloc;
use crate::gather::{GatherBuf, Mark};
use crate::model::{
    App, Bytes, Coord, DataArray, DataType, DiskStats, Info, Key, Kval, NetStats, Pdata, Proc, ProcStats, Query, Rank,
    Regattr, Result, Scope, Status, Value,
};

/// Writes pack operations into a buffer.
///
/// Each method of the first group is one operation (one count, one or more values). A method that fails leaves the buffer as it
/// was, so that a caller can leave out values that the peer's encoder does not know. Methods with operations of any length fail
/// with `ERR_NOMEM` if an allocation fails; methods that cannot fail write a few bytes.
#[derive(Clone, Debug)]
pub struct Packer {
    dialect: Dialect,
    expand: bool,
    /// Reference long byte objects instead of copying them.
    share: bool,
    out: GatherBuf,
}

/// Bytes of the widths that integers have.
const W16: usize = 2;
const W32: usize = 4;
const W64: usize = 8;

/// Capacity that every fallible operation leaves for the infallible ones that follow it.
const SLACK: usize = 1024;

impl Packer {
    /// An empty buffer.
    pub fn new(dialect: Dialect) -> Packer {
        Packer { dialect, expand: false, share: false, out: GatherBuf::new() }
    }

    /// An empty buffer that will hold nested data of this one: same dialect, same treatment of compressed strings.
    pub fn nested(&self) -> Packer {
        Packer { expand: self.expand, ..Packer::new(self.dialect) }
    }

    /// If `expand`, compressed strings are packed as plain ones, for peers that cannot read them.
    pub fn expanding(mut self, expand: bool) -> Packer {
        self.expand = expand;
        self
    }

    /// Long byte objects are referenced, not copied. [`Packer::into_pieces`] returns the result.
    pub fn sharing(mut self) -> Packer {
        self.share = true;
        self
    }

    /// The form in which this packs.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Bytes packed so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing is packed yet.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The packed bytes, of a packer that does not share.
    pub fn as_bytes(&self) -> &[u8] {
        self.out.own_bytes()
    }

    /// The packed bytes by value.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out.into_own()
    }

    /// The packed bytes as pieces; shared byte objects are pieces of their own.
    pub fn into_pieces(self) -> GatherBuf {
        self.out
    }

    /// Empties the buffer and keeps its memory, for packing many nested buffers one after the other.
    pub fn clear(&mut self) {
        self.out.back_to(Mark::START);
    }

    // ---- pack operations -------------------------------------------------------------------------------------

    /// One operation with any number of values of one type.
    ///
    /// # Errors
    /// `TYPE_MISMATCH` if a value has another type; `UNKNOWN_DATA_TYPE` if the encoder does not know the type or
    /// one inside it; `PACK_FAILURE` for lengths or depths that cannot be packed.
    pub fn pack(&mut self, ty: DataType, values: &[Value]) -> Result<()> {
        self.op(ty, values.len(), |packer| packer.put_items(ty, values, DEPTH_MAX))
    }

    /// One operation with any number of values of a type whose values are one byte each: `BYTE`, `INT8` or `UINT8`.
    ///
    /// # Errors
    /// As [`Packer::pack`]; `NOMEM`.
    pub fn octets(&mut self, ty: DataType, values: &[u8]) -> Result<()> {
        self.op(ty, values.len(), |packer| packer.raw(values))
    }

    /// A command of the protocol.
    pub fn command(&mut self, command: u8) {
        match self.dialect.module {
            // A plain 32-bit number, as its tag states.
            Module::V20 => {
                self.head(DataType::COMMAND, 1);
                self.unsigned(command.into(), W32);
            }
            _ => self.code(DataType::COMMAND, command.into()),
        }
    }

    /// A status.
    pub fn status(&mut self, status: Status) {
        self.head(DataType::STATUS, 1);
        self.signed(status.0.into(), W32);
    }

    /// Several statuses in one operation.
    ///
    /// # Errors
    /// `PACK_FAILURE` for more than 2^31 of them.
    pub fn statuses(&mut self, statuses: &[Status]) -> Result<()> {
        self.op(DataType::STATUS, statuses.len(), |packer| {
            statuses.iter().try_for_each(|status| {
                packer.signed(status.0.into(), W32);
                packer.make_room(0)
            })
        })
    }

    /// A `size_t`.
    pub fn size(&mut self, size: u64) {
        self.head(DataType::SIZE, 1);
        self.put_size(size);
    }

    /// An `int32_t`.
    pub fn int32(&mut self, number: i32) {
        self.head(DataType::INT32, 1);
        self.signed(number.into(), W32);
    }

    /// A `uint32_t`.
    pub fn uint32(&mut self, number: u32) {
        self.head(DataType::UINT32, 1);
        self.unsigned(number.into(), W32);
    }

    /// A `uint64_t`.
    pub fn uint64(&mut self, number: u64) {
        self.head(DataType::UINT64, 1);
        self.unsigned(number, W64);
    }

    /// A time, in seconds since 1970.
    pub fn time(&mut self, seconds: i64) {
        self.head(DataType::TIME, 1);
        self.unsigned(seconds as u64, W64);
    }

    /// A byte.
    pub fn byte(&mut self, byte: u8) {
        self.head(DataType::BYTE, 1);
        self.out.own().push(byte);
    }

    /// A truth value.
    pub fn bool(&mut self, flag: bool) {
        self.head(DataType::BOOL, 1);
        self.out.own().push(flag.into());
    }

    /// A rank.
    pub fn rank(&mut self, rank: Rank) {
        self.head(DataType::PROC_RANK, 1);
        self.unsigned(rank.0.into(), W32);
    }

    /// A scope.
    pub fn scope(&mut self, scope: Scope) {
        self.code(DataType::SCOPE, scope as u64);
    }

    /// One code of a small enumeration, for example a `DATA_RANGE`.
    pub fn code(&mut self, ty: DataType, bits: u64) {
        self.head(ty, 1);
        self.put_code(ty, bits);
    }

    /// Units of resources: masks of device types, and the number of each. They are packed for every peer, without a check of its
    /// encoder: a peer that does not know the type refuses the whole request.
    ///
    /// # Errors
    /// `PACK_FAILURE` for more than 2^31 - 1, `NOMEM`.
    pub fn resource_units(&mut self, units: &[(u64, u64)]) -> Result<()> {
        let count = i32::try_from(units.len()).map_err(|_| Status::ERR_PACK_FAILURE)?;
        self.make_room(0)?;
        self.head(DataType::RESOURCE_UNIT, count);
        for (ty, count) in units {
            self.make_room(0)?;
            self.unsigned(*ty, W64);
            self.put_size(*count);
        }
        Ok(())
    }

    /// A string without its NUL, or NULL. A NUL inside ends it, as C would read it.
    ///
    /// # Errors
    /// `PACK_FAILURE` for a string of 2 GiB.
    pub fn string(&mut self, string: Option<&[u8]>) -> Result<()> {
        self.op(DataType::STRING, 1, |packer| packer.put_bytes_as_string(string))
    }

    /// A C string, or NULL.
    ///
    /// # Errors
    /// As [`Packer::string`].
    pub fn c_string(&mut self, string: Option<&CStr>) -> Result<()> {
        self.string(string.map(CStr::to_bytes))
    }

    /// Several strings in one operation.
    ///
    /// # Errors
    /// As [`Packer::string`].
    pub fn strings<S: AsRef<[u8]>>(&mut self, strings: &[S]) -> Result<()> {
        self.op(DataType::STRING, strings.len(), |packer| {
            strings.iter().try_for_each(|string| packer.put_bytes_as_string(Some(string.as_ref())))
        })
    }

    /// A process.
    pub fn proc(&mut self, proc: &Proc) {
        self.head(DataType::PROC, 1);
        self.put_proc(proc);
    }

    /// Keys as messages carry them: the number, then each by an operation of its own.
    ///
    /// # Errors
    /// As [`Packer::string`].
    pub fn keys(&mut self, keys: &[Key]) -> Result<()> {
        self.size(keys.len() as u64);
        keys.iter().try_for_each(|key| self.string(Some(key.as_bytes())))
    }

    /// An array of processes as messages carry it: the number, then, unless it is zero, the processes.
    ///
    /// # Errors
    /// `PACK_FAILURE` for more than 2^31 of them.
    pub fn procs(&mut self, procs: &[Proc]) -> Result<()> {
        self.size(procs.len() as u64);
        if procs.is_empty() { Ok(()) } else { self.procs_uncounted(procs) }
    }

    /// Processes in one operation, even if there are none.
    ///
    /// # Errors
    /// As [`Packer::procs`].
    pub fn procs_uncounted(&mut self, procs: &[Proc]) -> Result<()> {
        self.op(DataType::PROC, procs.len(), |packer| {
            procs.iter().try_for_each(|proc| {
                packer.put_proc(proc);
                packer.make_room(0)
            })
        })
    }

    /// An info.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn info(&mut self, info: &Info) -> Result<()> {
        self.op(DataType::INFO, 1, |packer| packer.put_info(info, DEPTH_MAX))
    }

    /// An array of infos as messages carry it: the number, then, unless it is zero, the infos.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn infos(&mut self, infos: &[Info]) -> Result<()> {
        let start = self.out.mark();
        self.size(infos.len() as u64);
        if infos.is_empty() {
            return Ok(());
        }
        let packed = self.op(DataType::INFO, infos.len(), |packer| {
            infos.iter().try_for_each(|info| packer.put_info(info, DEPTH_MAX))
        });
        packed.inspect_err(|_| self.out.back_to(start))
    }

    /// Applications in one operation.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn apps(&mut self, apps: &[App]) -> Result<()> {
        self.op(DataType::APP, apps.len(), |packer| apps.iter().try_for_each(|app| packer.put_app(app, DEPTH_MAX)))
    }

    /// Queries in one operation.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn queries(&mut self, queries: &[Query]) -> Result<()> {
        self.op(DataType::QUERY, queries.len(), |packer| {
            queries.iter().try_for_each(|query| packer.put_query(query, DEPTH_MAX))
        })
    }

    /// Published values in one operation.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn pdata(&mut self, pdata: &[Pdata]) -> Result<()> {
        self.op(DataType::PDATA, pdata.len(), |packer| {
            pdata.iter().try_for_each(|pdata| packer.put_pdata(pdata, DEPTH_MAX))
        })
    }

    /// A key with its value.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn kval(&mut self, key: &Key, value: &Value) -> Result<()> {
        self.op(DataType::KVAL, 1, |packer| {
            packer.put_bytes_as_string(Some(key.as_bytes()))?;
            packer.put_tagged(value, DEPTH_MAX)
        })
    }

    /// A key with its value. It is left out if the encoder does not know a type in the value, or if a compressed string does not
    /// expand. One bad value must not cost the values beside it.
    ///
    /// # Errors
    /// `PACK_FAILURE` for lengths or depths that cannot be packed.
    pub fn kval_if_known(&mut self, key: &Key, value: &Value) -> Result<()> {
        if_known(self.kval(key, value))
    }

    /// As [`Packer::kval_if_known`], for a value in a store.
    ///
    /// # Errors
    /// As [`Packer::kval_if_known`].
    pub fn kval_ref_if_known(&mut self, key: &Key, value: ValueRef<'_>) -> Result<()> {
        if_known(self.kval_ref(key.as_bytes(), value))
    }

    /// A key with a value in a store.
    ///
    /// # Errors
    /// As [`Packer::pack`]; as [`ValueRef::to_value`] for a corrupt value.
    pub fn kval_ref(&mut self, key: &[u8], value: ValueRef<'_>) -> Result<()> {
        self.op(DataType::KVAL, 1, |packer| {
            packer.put_bytes_as_string(Some(key))?;
            packer.put_ref(value)
        })
    }

    /// A key with an array of infos.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn kval_infos<'a>(
        &mut self,
        key: &str,
        infos: impl ExactSizeIterator<Item = (&'a [u8], ValueRef<'a>)>,
    ) -> Result<()> {
        self.op(DataType::KVAL, 1, |packer| {
            packer.put_bytes_as_string(Some(key.as_bytes()))?;
            packer.tag(DataType::DATA_ARRAY);
            packer.put_array_head(DataType::INFO, infos.len())?;
            for (key, value) in infos {
                packer.put_bytes_as_string(Some(key))?;
                packer.unsigned(0, W32);
                packer.put_info_ref(value)?;
            }
            Ok(())
        })
    }

    /// A key with a byte object.
    ///
    /// # Errors
    /// `PACK_FAILURE` for a key that is too long.
    pub fn kval_bytes(&mut self, key: &str, bytes: &[u8]) -> Result<()> {
        self.kval_ref(key.as_bytes(), ValueRef::Bytes { ty: DataType::BYTE_OBJECT, bytes })
    }

    /// A value with its type.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn value(&mut self, value: &Value) -> Result<()> {
        self.op(DataType::VALUE, 1, |packer| packer.put_tagged(value, DEPTH_MAX))
    }

    /// A byte object.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn byte_object(&mut self, bytes: &[u8]) -> Result<()> {
        self.op(DataType::BYTE_OBJECT, 1, |packer| packer.put_sized(bytes))
    }

    /// A byte object with the values that `values` packs.
    ///
    /// # Errors
    /// The errors of `values`, and `NOMEM`.
    pub fn byte_object_of(&mut self, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        self.framed(DataType::BYTE_OBJECT, values)
    }

    /// A nested buffer of the same buffer type with the values that `values` packs.
    ///
    /// # Errors
    /// As [`Packer::byte_object_of`].
    pub fn buffer_of(&mut self, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        self.framed(DataType::BUFFER, values)
    }

    /// Bytes that are packed already, as they are.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.make_room(bytes.len())?;
        self.out.own().extend_from_slice(bytes);
        Ok(())
    }

    /// A value without count, tags or type: its encoding inside other values.
    ///
    /// # Errors
    /// As [`Packer::pack`].
    pub fn bare(&mut self, value: &Value) -> Result<()> {
        let start = self.out.mark();
        self.put(value, DEPTH_MAX).inspect_err(|_| self.out.back_to(start))
    }

    // ---- parts of an operation -------------------------------------------------------------------------------

    /// Reserves `len` bytes, and the slack for infallible operations before the next call.
    #[inline]
    fn make_room(&mut self, len: usize) -> Result<()> {
        fallible_alloc::reserve(self.out.own(), len.saturating_add(SLACK))
    }

    /// An operation whose length is known only after its contents are packed. Packs the head after the contents, and
    /// then exchanges the two.
    fn framed(&mut self, ty: DataType, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        let start = self.out.mark();
        let packed = values(self).and_then(|()| self.make_room(0));
        packed.inspect_err(|_| self.out.back_to(start))?;
        let end = self.out.mark();
        self.head(ty, 1);
        if ty == DataType::BUFFER {
            self.put_buffer_type(self.dialect.buffer as u8)?;
        }
        self.put_size(end.since(&start) as u64);
        self.out.rotate(start, end);
        Ok(())
    }

    fn op(&mut self, ty: DataType, count: usize, values: impl FnOnce(&mut Packer) -> Result<()>) -> Result<()> {
        let count = i32::try_from(count).map_err(|_| Status::ERR_PACK_FAILURE)?;
        if !self.dialect.module.knows(ty) {
            return Err(Status::ERR_UNKNOWN_DATA_TYPE);
        }
        let start = self.out.mark();
        self.make_room(0)?;
        self.head(ty, count);
        values(self).inspect_err(|_| self.out.back_to(start))
    }

    fn head(&mut self, ty: DataType, count: i32) {
        let described = self.dialect.is_described();
        if described {
            self.tag(DataType::INT32);
        }
        self.signed(count.into(), W32);
        if described {
            // The v20 encoder knew the command as a plain number.
            let command = self.dialect.module == Module::V20 && ty == DataType::COMMAND;
            self.tag(if command { DataType::UINT32 } else { ty });
        }
    }

    fn tag(&mut self, ty: DataType) {
        self.unsigned(ty.0.into(), W16);
    }

    fn unsigned(&mut self, number: u64, width: usize) {
        if self.dialect.is_flexible() {
            int::write_flexible(self.out.own(), number);
        } else {
            self.out.own().extend_from_slice(&number.to_be_bytes()[W64 - width..]);
        }
    }

    fn signed(&mut self, number: i64, width: usize) {
        if self.dialect.is_flexible() {
            int::write_flexible(self.out.own(), int::fold(number));
        } else {
            self.out.own().extend_from_slice(&number.to_be_bytes()[W64 - width..]);
        }
    }

    fn put_size(&mut self, size: u64) {
        self.real_tag(DataType::SIZE);
        self.unsigned(size, W64);
    }

    fn put_int(&mut self, number: i32) {
        self.real_tag(DataType::INT);
        self.signed(number.into(), W32);
    }

    fn put_pid(&mut self, pid: i32) {
        self.real_tag(DataType::PID);
        self.unsigned(u64::from(pid as u32), W32);
    }

    /// Writes the actual type before numbers whose width depends on the machine, once for a run of them.
    fn real_tag(&mut self, ty: DataType) {
        if let Some(real) = self.dialect.real_type(ty) {
            self.tag(real);
        }
    }

    fn put_bytes_as_string(&mut self, string: Option<&[u8]>) -> Result<()> {
        let Some(bytes) = string else {
            self.signed(0, W32);
            return Ok(());
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let len = i32::try_from(end + 1).map_err(|_| Status::ERR_PACK_FAILURE)?;
        self.make_room(end)?;
        self.signed(len.into(), W32);
        self.out.own().extend_from_slice(&bytes[..end]);
        self.out.own().push(0);
        Ok(())
    }

    fn put_string(&mut self, string: &Option<CString>) -> Result<()> {
        self.put_bytes_as_string(string.as_deref().map(CStr::to_bytes))
    }

    fn put_float(&mut self, number: f32) -> Result<()> {
        self.put_bytes_as_string(Some(text::from_float(number).as_bytes()))
    }

    fn put_timeval(&mut self, (sec, usec): (i64, i64)) {
        self.signed(sec, W64);
        self.signed(usec, W64);
    }

    fn put_bytes(&mut self, bytes: &Bytes) -> Result<()> {
        if !self.share {
            return self.put_sized(bytes);
        }
        self.make_room(bytes.len().min(Bytes::SHARED_MIN))?;
        self.put_size(bytes.len() as u64);
        self.out.push(bytes)
    }

    fn put_sized(&mut self, bytes: &[u8]) -> Result<()> {
        self.make_room(bytes.len())?;
        self.put_size(bytes.len() as u64);
        self.out.own().extend_from_slice(bytes);
        Ok(())
    }

    fn put_proc(&mut self, proc: &Proc) {
        let nspace = proc.nspace.as_bytes();
        // A namespace has at most 255 bytes and no NUL, so the checks of other strings are not needed.
        self.signed(nspace.len() as i64 + 1, W32);
        self.out.own().extend_from_slice(nspace);
        self.out.own().push(0);
        self.unsigned(proc.rank.0.into(), W32);
    }

    fn put_code(&mut self, ty: DataType, bits: u64) {
        match ty.scalar_width() {
            None | Some(1) => self.out.own().push(bits as u8),
            Some(width) => self.unsigned(bits, width),
        }
    }

    fn put_regex(&mut self, bytes: &[u8]) -> Result<()> {
        self.make_room(bytes.len())?;
        self.out.own().extend_from_slice(bytes);
        match text::regex_len(bytes) {
            Some(len) if len == bytes.len() => Ok(()),
            None if !bytes.contains(&0) => {
                self.out.own().push(0);
                Ok(())
            }
            // It has no length field, so it could not be decoded.
            _ => Err(Status::ERR_PACK_FAILURE),
        }
    }

    /// A type tag and its value.
    fn put_tagged(&mut self, value: &Value, depth: u8) -> Result<()> {
        self.tag(self.tag_of(value)?);
        self.put(value, depth)
    }

    /// The tag that a value is sent with.
    fn tag_of(&self, value: &Value) -> Result<DataType> {
        let ty = value.data_type();
        self.known(if self.expand && ty == DataType::COMPRESSED_STRING { DataType::STRING } else { ty })
    }

    fn known(&self, ty: DataType) -> Result<DataType> {
        if self.dialect.module.knows(ty) { Ok(ty) } else { Err(Status::ERR_UNKNOWN_DATA_TYPE) }
    }

    /// Writes the type of a nested buffer. The v20 encoder can nest only buffers of the enclosing buffer's type.
    fn put_buffer_type(&mut self, kind: u8) -> Result<()> {
        match self.dialect.module {
            Module::V20 if kind == self.dialect.buffer as u8 => {}
            Module::V20 => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
            _ => self.out.own().push(kind),
        }
        Ok(())
    }

    /// A type tag and its value, in the form that infos and published data have.
    fn put_info_value(&mut self, value: &Value, depth: u8) -> Result<()> {
        let ty = self.tag_of(value)?;
        self.put_info_tag(ty);
        self.put(value, depth)
    }

    fn put_info_tag(&mut self, ty: DataType) {
        match self.dialect.module {
            Module::V20 => self.put_int(ty.0.into()),
            _ => self.tag(ty),
        }
    }

    fn put_info(&mut self, info: &Info, depth: u8) -> Result<()> {
        self.put_bytes_as_string(Some(info.key.as_bytes()))?;
        self.unsigned(info.flags.into(), W32);
        self.put_info_value(&info.value, depth)
    }

    fn put_infos(&mut self, infos: &[Info], depth: u8) -> Result<()> {
        self.put_size(infos.len() as u64);
        infos.iter().try_for_each(|info| self.put_info(info, depth))
    }

    fn put_ref(&mut self, value: ValueRef<'_>) -> Result<()> {
        self.put_ref_as(value, Packer::tag)
    }

    fn put_info_ref(&mut self, value: ValueRef<'_>) -> Result<()> {
        self.put_ref_as(value, Packer::put_info_tag)
    }

    /// A type tag, written by `tag`, and a value in a store.
    fn put_ref_as(&mut self, value: ValueRef<'_>, tag: fn(&mut Packer, DataType)) -> Result<()> {
        match value {
            ValueRef::Str(string) => {
                tag(self, DataType::STRING);
                self.put_bytes_as_string(string.map(CStr::to_bytes))
            }
            ValueRef::Bytes { ty: DataType::BYTE_OBJECT, bytes } => {
                tag(self, DataType::BYTE_OBJECT);
                self.put_sized(bytes)
            }
            ValueRef::Owned(value) => {
                let ty = self.tag_of(value)?;
                tag(self, ty);
                self.put(value, DEPTH_MAX)
            }
            other => {
                let value = other.to_value()?;
                let ty = self.tag_of(&value)?;
                tag(self, ty);
                self.put(&value, DEPTH_MAX)
            }
        }
    }

    fn put_array_head(&mut self, ty: DataType, count: usize) -> Result<()> {
        if ty == DataType::UNDEF {
            self.put_untyped();
            return Ok(());
        }
        if count > 0 {
            self.known(ty)?;
        }
        self.tag(ty);
        self.put_size(count as u64);
        if self.dialect.module == Module::V20 && self.dialect.is_described() && count > 0 {
            // The v20 encoder packs array elements as it packs the values of an operation.
            self.tag(ty);
        }
        Ok(())
    }

    /// An array without a type.
    fn put_untyped(&mut self) {
        let (ty, is_counted) = match self.dialect.untyped() {
            Untyped::Counted => (DataType::UNDEF, true),
            Untyped::Either | Untyped::Bare => (DataType::UNDEF, false),
            Untyped::Replaced => (DataType::BYTE, true),
        };
        self.tag(ty);
        if is_counted {
            self.put_size(0);
        }
    }

    fn put_array(&mut self, array: &DataArray, depth: u8) -> Result<()> {
        let plain = self.expand && array.ty == DataType::COMPRESSED_STRING;
        let ty = if plain { DataType::STRING } else { array.ty };
        self.put_array_head(ty, array.items.len())?;
        if ty == DataType::UNDEF || array.items.is_empty() {
            return Ok(());
        }
        self.put_items(array.ty, &array.items, depth)
    }

    /// Values of one type back to back.
    fn put_items(&mut self, ty: DataType, items: &[Value], depth: u8) -> Result<()> {
        if ty == DataType::POINTER {
            // Addresses mean nothing in another process: one byte encodes any number of them.
            self.out.own().push(1);
            return Ok(());
        }
        if items.iter().any(|item| item.data_type() != ty) {
            return Err(Status::ERR_TYPE_MISMATCH);
        }
        if self.dialect.real_type(ty).is_some() {
            self.real_tag(ty);
            return items.iter().try_for_each(|item| {
                match item {
                    Value::Size(number) => self.unsigned(*number, W64),
                    Value::Pid(pid) => self.unsigned(u64::from(*pid as u32), W32),
                    Value::Int(number) => self.signed((*number).into(), W32),
                    // An unsigned number is packed as the signed number with the same bits.
                    other => self.signed((other.scalar_bits().unwrap_or_default() as i32).into(), W32),
                }
                self.make_room(0)
            });
        }
        items.iter().try_for_each(|item| self.put(item, depth))
    }

    /// A value without its type.
    fn put(&mut self, value: &Value, depth: u8) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or(Status::ERR_PACK_FAILURE)?;
        self.make_room(0)?;
        match value {
            Value::Undef => {}
            Value::Bool(flag) => self.out.own().push((*flag).into()),
            Value::Byte(byte) | Value::Uint8(byte) => self.out.own().push(*byte),
            Value::Int8(byte) => self.out.own().push(*byte as u8),
            Value::String(string) => self.put_string(string)?,
            Value::Size(size) => self.put_size(*size),
            Value::Pid(pid) => self.put_pid(*pid),
            Value::Int(number) => self.put_int(*number),
            Value::Uint(number) => self.put_int(*number as i32),
            Value::Int16(number) => self.signed((*number).into(), W16),
            Value::Int32(number) | Value::Status(Status(number)) => self.signed((*number).into(), W32),
            Value::Int64(number) => self.signed(*number, W64),
            Value::Uint16(number) => self.unsigned((*number).into(), W16),
            Value::Uint32(number) | Value::Rank(Rank(number)) => self.unsigned((*number).into(), W32),
            Value::Uint64(number) => self.unsigned(*number, W64),
            Value::Float(number) => self.put_float(*number)?,
            Value::Double(number) => self.put_bytes_as_string(Some(text::from_double(*number).as_bytes()))?,
            Value::Timeval { sec, usec } => self.put_timeval((*sec, *usec)),
            Value::Time(seconds) => self.unsigned(*seconds as u64, W64),
            Value::Proc(proc) => self.put_proc(proc),
            Value::ProcNspace(nspace) => self.put_bytes_as_string(Some(nspace.as_bytes()))?,
            Value::CompressedString(bytes) if self.expand => {
                let text = compression::expand_string(bytes)?;
                self.put_bytes_as_string(Some(text.to_bytes()))?;
            }
            Value::ByteObject(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => self.put_bytes(bytes)?,
            Value::Regex(bytes) => self.put_regex(bytes)?,
            Value::Buffer { kind, bytes } => {
                self.put_buffer_type(*kind)?;
                self.put_sized(bytes)?;
            }
            Value::Pointer(_) => self.out.own().push(1),
            Value::Code { ty, bits } => self.put_code(*ty, *bits),
            Value::Envar(envar) => {
                self.put_string(&envar.name)?;
                self.put_string(&envar.value)?;
                self.out.own().push(envar.separator);
            }
            Value::DataArray(array) => self.put_array(array, depth)?,
            Value::Value(value) => self.put_tagged(value, depth)?,
            Value::Info(info) => self.put_info(info, depth)?,
            Value::Pdata(pdata) => self.put_pdata(pdata, depth)?,
            Value::Kval(kval) => self.put_kval(kval, depth)?,
            Value::App(app) => self.put_app(app, depth)?,
            Value::Query(query) => self.put_query(query, depth)?,
            Value::ProcInfo(info) => {
                self.put_proc(&info.proc);
                self.put_string(&info.hostname)?;
                self.put_string(&info.executable)?;
                self.put_pid(info.pid);
                self.out.own().push(info.state);
            }
            Value::Regattr(regattr) => self.put_regattr(regattr)?,
            Value::Coord(coord) => self.put_coord(coord)?,
            Value::Geometry(geometry) => {
                self.put_size(geometry.fabric);
                self.put_string(&geometry.uuid)?;
                self.put_string(&geometry.osname)?;
                self.put_size(geometry.coordinates.len() as u64);
                geometry.coordinates.iter().try_for_each(|coord| self.put_coord(coord))?;
            }
            Value::DeviceDistance(distance) => {
                self.put_string(&distance.uuid)?;
                self.put_string(&distance.osname)?;
                self.unsigned(distance.ty, W64);
                self.unsigned(distance.min.into(), W16);
                self.unsigned(distance.max.into(), W16);
            }
            Value::Device(device) => {
                self.put_string(&device.uuid)?;
                self.put_string(&device.osname)?;
                self.unsigned(device.ty, W64);
            }
            Value::Endpoint(endpoint) => {
                self.put_string(&endpoint.uuid)?;
                self.put_string(&endpoint.osname)?;
                self.put_sized(&endpoint.bytes)?;
            }
            Value::Cpuset { list, .. } => self.put_string(list)?,
            Value::Topology { xml, support } => {
                self.put_string(xml)?;
                if xml.is_some() {
                    self.make_room(support.len())?;
                    self.out.own().extend_from_slice(support);
                }
            }
            Value::ResourceUnit { ty, count } => {
                self.unsigned(*ty, W64);
                self.put_size(*count);
            }
            Value::NodePid { hostname, nodeid, pid } => {
                self.put_string(hostname)?;
                self.unsigned((*nodeid).into(), W32);
                self.put_pid(*pid);
            }
            Value::Regex2 { ty, bytes } => {
                self.put_string(ty)?;
                self.put_sized(bytes)?;
            }
            Value::ProcStats(stats) => self.put_proc_stats(stats)?,
            Value::DiskStats(stats) => self.put_disk_stats(stats)?,
            Value::NetStats(stats) => self.put_net_stats(stats)?,
            Value::NodeStats(stats) => {
                self.put_string(&stats.node)?;
                stats.amounts.iter().try_for_each(|amount| self.put_float(*amount))?;
                self.put_timeval(stats.sample_time);
                self.put_size(stats.disks.len() as u64);
                stats.disks.iter().try_for_each(|disk| self.put_disk_stats(disk))?;
                self.put_size(stats.interfaces.len() as u64);
                stats.interfaces.iter().try_for_each(|interface| self.put_net_stats(interface))?;
            }
        }
        Ok(())
    }

    fn put_pdata(&mut self, pdata: &Pdata, depth: u8) -> Result<()> {
        self.put_proc(&pdata.proc);
        self.put_bytes_as_string(Some(pdata.key.as_bytes()))?;
        self.put_info_value(&pdata.value, depth)
    }

    fn put_kval(&mut self, kval: &Kval, depth: u8) -> Result<()> {
        self.put_bytes_as_string(Some(kval.key.as_bytes()))?;
        self.put_tagged(&kval.value, depth)
    }

    fn put_app(&mut self, app: &App, depth: u8) -> Result<()> {
        let count = |strings: &[CString]| i32::try_from(strings.len()).map_err(|_| Status::ERR_PACK_FAILURE);
        self.put_string(&app.cmd)?;
        self.put_int(count(&app.argv)?);
        app.argv.iter().try_for_each(|arg| self.put_bytes_as_string(Some(arg.to_bytes())))?;
        self.signed(count(&app.env)?.into(), W32);
        app.env.iter().try_for_each(|entry| self.put_bytes_as_string(Some(entry.to_bytes())))?;
        self.put_string(&app.cwd)?;
        self.put_int(app.maxprocs);
        self.put_infos(&app.infos, depth)
    }

    fn put_query(&mut self, query: &Query, depth: u8) -> Result<()> {
        let count = i32::try_from(query.keys.len()).map_err(|_| Status::ERR_PACK_FAILURE)?;
        self.signed(count.into(), W32);
        query.keys.iter().try_for_each(|key| self.put_bytes_as_string(Some(key.to_bytes())))?;
        self.put_infos(&query.qualifiers, depth)
    }

    fn put_regattr(&mut self, regattr: &Regattr) -> Result<()> {
        let count = i32::try_from(regattr.description.len()).map_err(|_| Status::ERR_PACK_FAILURE)?;
        self.put_string(&regattr.name)?;
        self.put_bytes_as_string(Some(regattr.key.as_bytes()))?;
        self.tag(regattr.ty);
        self.signed(count.into(), W32);
        regattr.description.iter().try_for_each(|line| self.put_bytes_as_string(Some(line.to_bytes())))
    }

    fn put_coord(&mut self, coord: &Coord) -> Result<()> {
        self.out.own().push(coord.view);
        self.put_size(coord.coords.len() as u64);
        coord.coords.iter().try_for_each(|number| {
            self.unsigned((*number).into(), W32);
            self.make_room(0)
        })
    }

    /// Statistics of a process in the form that released libraries read. They send another form, which lacks the peak of virtual
    /// memory. The form that they read has no field for the share of a processor.
    fn put_proc_stats(&mut self, stats: &ProcStats) -> Result<()> {
        self.put_string(&stats.node)?;
        self.put_proc(&stats.proc);
        self.put_pid(stats.pid);
        self.put_string(&stats.cmd)?;
        self.out.own().push(stats.state);
        self.put_timeval(stats.time);
        self.signed(stats.priority.into(), W32);
        self.signed((stats.num_threads as i16).into(), W16);
        for size in [stats.pss, stats.vsize, stats.rss, stats.peak_vsize] {
            self.put_float(size)?;
        }
        self.signed((stats.processor as i16).into(), W16);
        self.put_timeval(stats.sample_time);
        match self.dialect.module {
            Module::Own => self.put_float(stats.percent_cpu),
            _ => Ok(()),
        }
    }

    fn put_disk_stats(&mut self, stats: &DiskStats) -> Result<()> {
        self.put_named_counts(&stats.disk, &stats.counts)
    }

    fn put_net_stats(&mut self, stats: &NetStats) -> Result<()> {
        self.put_named_counts(&stats.interface, &stats.counts)
    }

    fn put_named_counts(&mut self, name: &Option<CString>, counts: &[u64]) -> Result<()> {
        self.put_string(name)?;
        counts.iter().for_each(|count| self.unsigned(*count, W64));
        self.make_room(0)
    }
}

/// Accepts values that the reader's encoder does not know, or that do not expand: they are left out.
fn if_known(packed: Result<()>) -> Result<()> {
    match packed {
        Err(Status::ERR_UNKNOWN_DATA_TYPE | Status::ERR_UNPACK_FAILURE) => Ok(()),
        other => other,
    }
}
