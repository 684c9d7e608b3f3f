//! Reading packed buffers.

use std::ffi::CString;
use std::sync::Arc;

use super::{BufferType, DEPTH_MAX, Dialect, Module, Untyped, int, text};
use crate::fallible_alloc;
use crate::model::{
    App, Backing, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry,
    Info, Key, Kval, NetStats, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Regattr, Result,
    Status, Value,
};

/// Reads pack operations from received bytes.
///
/// After an error the position is undefined: the message is malformed as a whole.
#[derive(Clone, Debug)]
pub struct Unpacker<'a> {
    dialect: Dialect,
    rest: &'a [u8],
    /// The message that holds the bytes: long byte objects stay in it.
    whole: Option<&'a Arc<Backing>>,
}

const W8: u32 = 8;
const W16: u32 = 16;
const W32: u32 = 32;
const W64: u32 = 64;

/// Items reserved at first. The vector grows as further items are read.
const RESERVE_MAX: usize = 256;
/// Limit of addresses in one array. One byte encodes any number of them, so that a larger count is refused.
const POINTERS_MAX: usize = 256;

/// Number of support flags that hwloc has from release 2.4 on.
const TOPOLOGY_SUPPORT: usize = 32;

const ENDED: Status = Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER;
const MALFORMED: Status = Status::ERR_UNPACK_FAILURE;

impl<'a> Unpacker<'a> {
    /// A reader of these bytes.
    pub fn new(dialect: Dialect, bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker { dialect, rest: bytes, whole: None }
    }

    /// A reader of a message. Long byte objects that are values of their own are parts of the message and keep it in memory.
    pub fn sharing(dialect: Dialect, message: &'a Bytes) -> Unpacker<'a> {
        Unpacker { dialect, rest: message, whole: message.backing() }
    }

    /// The form that is read.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// A reader of a nested buffer of the same form.
    pub fn nested<'b>(&self, bytes: &'b [u8]) -> Unpacker<'b>
    where
        'a: 'b,
    {
        Unpacker { dialect: self.dialect, rest: bytes, whole: self.whole }
    }

    /// Whether all has been read: the normal end of a list without a count.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    // ---- pack operations -------------------------------------------------------------------------------------

    /// One operation with `count` values of a type.
    ///
    /// # Errors
    /// `UNPACK_READ_PAST_END_OF_BUFFER` if the bytes end too early; `TYPE_MISMATCH` if a described buffer holds
    /// something else; `UNKNOWN_DATA_TYPE` for types that this library cannot read; otherwise `UNPACK_FAILURE`.
    pub fn unpack(&mut self, ty: DataType, count: usize) -> Result<Vec<Value>> {
        self.head(ty, count)?;
        self.take_items(ty, count, DEPTH_MAX)
    }

    /// One operation with as many values of a type as it has.
    ///
    /// # Errors
    /// As [`Unpacker::unpack`].
    pub fn unpack_all(&mut self, ty: DataType) -> Result<Vec<Value>> {
        let count = self.open_head(ty)?;
        self.take_items(ty, count, DEPTH_MAX)
    }

    /// One operation of [`Packer::octets`](super::Packer::octets).
    ///
    /// # Errors
    /// As [`Unpacker::unpack`].
    pub fn octets(&mut self, ty: DataType) -> Result<&'a [u8]> {
        let count = self.open_head(ty)?;
        self.take_bytes(count)
    }

    /// A command of the protocol.
    ///
    /// # Errors
    /// As [`Unpacker::unpack`]; likewise for the methods below.
    pub fn command(&mut self) -> Result<u8> {
        self.head(DataType::COMMAND, 1)?;
        match self.dialect.module {
            // A plain 32-bit number. Releases that hold commands in a byte send adjacent memory in the other three bytes.
            Module::V20 => self.take_i32().map(|number| number as u8),
            _ => self.take_byte(),
        }
    }

    /// A status.
    pub fn status(&mut self) -> Result<Status> {
        self.head(DataType::STATUS, 1)?;
        self.take_i32().map(Status)
    }

    /// `count` statuses in one operation.
    pub fn statuses(&mut self, count: usize) -> Result<Vec<Status>> {
        self.head(DataType::STATUS, count)?;
        self.collect(count, |unpacker| unpacker.take_i32().map(Status))
    }

    /// A `size_t`.
    pub fn size(&mut self) -> Result<u64> {
        self.head(DataType::SIZE, 1)?;
        self.take_size()
    }

    /// A `size_t` that counts the values that follow.
    pub fn count(&mut self) -> Result<usize> {
        usize::try_from(self.size()?).map_err(|_| MALFORMED)
    }

    /// An `int32_t`.
    pub fn int32(&mut self) -> Result<i32> {
        self.head(DataType::INT32, 1)?;
        self.take_i32()
    }

    /// A `uint32_t`.
    pub fn uint32(&mut self) -> Result<u32> {
        self.head(DataType::UINT32, 1)?;
        self.take_u32()
    }

    /// A `uint64_t`.
    pub fn uint64(&mut self) -> Result<u64> {
        self.head(DataType::UINT64, 1)?;
        self.take_unsigned(W64)
    }

    /// A time, in seconds since 1970.
    pub fn time(&mut self) -> Result<i64> {
        self.head(DataType::TIME, 1)?;
        Ok(self.take_unsigned(W64)? as i64)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8> {
        self.head(DataType::BYTE, 1)?;
        self.take_byte()
    }

    /// A truth value.
    pub fn bool(&mut self) -> Result<bool> {
        self.head(DataType::BOOL, 1)?;
        Ok(self.take_byte()? != 0)
    }

    /// A rank.
    pub fn rank(&mut self) -> Result<Rank> {
        self.head(DataType::PROC_RANK, 1)?;
        self.take_u32().map(Rank)
    }

    /// One code of a small enumeration, for example a `SCOPE`.
    pub fn code(&mut self, ty: DataType) -> Result<u64> {
        self.head(ty, 1)?;
        self.take_code(ty)
    }

    /// A string without its NUL, or NULL, borrowed from the received bytes.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        self.head(DataType::STRING, 1)?;
        self.take_str()
    }

    /// A string, or NULL.
    pub fn string(&mut self) -> Result<Option<CString>> {
        self.head(DataType::STRING, 1)?;
        self.take_string()
    }

    /// `count` strings in one operation; NULL is read as empty.
    pub fn strings(&mut self, count: usize) -> Result<Vec<CString>> {
        self.head(DataType::STRING, count)?;
        self.collect(count, Unpacker::take_some_string)
    }

    /// A string that is a key; NULL is read as empty.
    pub fn key(&mut self) -> Result<Key> {
        self.head(DataType::STRING, 1)?;
        self.take_key()
    }

    /// Keys as messages carry them: the number, then each by an operation of its own.
    pub fn keys(&mut self) -> Result<Vec<Key>> {
        let count = self.count()?;
        let mut keys = Vec::new();
        for _ in 0..count {
            fallible_alloc::push(&mut keys, self.key()?)?;
        }
        Ok(keys)
    }

    /// A string that is a key, or NULL.
    pub fn optional_key(&mut self) -> Result<Option<Key>> {
        self.bytes()?.map(|text| Key::new(text).map_err(|_| MALFORMED)).transpose()
    }

    /// A string that is a namespace, or NULL.
    pub fn optional_nspace(&mut self) -> Result<Option<Nspace>> {
        self.bytes()?.map(|text| Nspace::new(text).map_err(|_| MALFORMED)).transpose()
    }

    /// A string that is a namespace; NULL is read as empty.
    pub fn nspace(&mut self) -> Result<Nspace> {
        self.head(DataType::STRING, 1)?;
        self.take_nspace()
    }

    /// A process.
    pub fn proc(&mut self) -> Result<Proc> {
        self.head(DataType::PROC, 1)?;
        self.take_proc()
    }

    /// An array of processes as messages carry it: the number, then, unless it is zero, the processes.
    pub fn procs(&mut self) -> Result<Vec<Proc>> {
        match self.count()? {
            0 => Ok(Vec::new()),
            count => self.procs_uncounted(count),
        }
    }

    /// `count` processes in one operation.
    pub fn procs_uncounted(&mut self, count: usize) -> Result<Vec<Proc>> {
        self.head(DataType::PROC, count)?;
        self.collect(count, Unpacker::take_proc)
    }

    /// An info.
    pub fn info(&mut self) -> Result<Info> {
        self.head(DataType::INFO, 1)?;
        self.take_info(DEPTH_MAX)
    }

    /// An array of infos as messages carry it: the number, then, unless it is zero, the infos.
    pub fn infos(&mut self) -> Result<Vec<Info>> {
        match self.count()? {
            0 => Ok(Vec::new()),
            count => {
                self.head(DataType::INFO, count)?;
                self.collect(count, |unpacker| unpacker.take_info(DEPTH_MAX))
            }
        }
    }

    /// `count` published values in one operation.
    pub fn pdata(&mut self, count: usize) -> Result<Vec<Pdata>> {
        self.head(DataType::PDATA, count)?;
        self.collect(count, |unpacker| unpacker.take_pdata(DEPTH_MAX))
    }

    /// `count` applications in one operation.
    pub fn apps(&mut self, count: usize) -> Result<Vec<App>> {
        self.head(DataType::APP, count)?;
        self.collect(count, |unpacker| unpacker.take_app(DEPTH_MAX))
    }

    /// `count` queries in one operation.
    pub fn queries(&mut self, count: usize) -> Result<Vec<Query>> {
        self.head(DataType::QUERY, count)?;
        self.collect(count, |unpacker| unpacker.take_query(DEPTH_MAX))
    }

    /// A key with its value.
    pub fn kval(&mut self) -> Result<Kval> {
        self.head(DataType::KVAL, 1)?;
        self.take_kval(DEPTH_MAX)
    }

    /// Keys with their values, up to the end of the buffer.
    pub fn kvals(&mut self) -> Result<Vec<Kval>> {
        let mut kvals = Vec::new();
        while !self.is_empty() {
            fallible_alloc::push(&mut kvals, self.kval()?)?;
        }
        Ok(kvals)
    }

    /// A value with its type.
    pub fn value(&mut self) -> Result<Value> {
        self.head(DataType::VALUE, 1)?;
        self.take_tagged(DEPTH_MAX)
    }

    /// A byte object, borrowed from the received bytes.
    pub fn byte_object(&mut self) -> Result<&'a [u8]> {
        self.head(DataType::BYTE_OBJECT, 1)?;
        self.take_sized()
    }

    /// A nested buffer, ready to be read. Its buffer type must be that of this one.
    pub fn buffer(&mut self) -> Result<Unpacker<'a>> {
        self.head(DataType::BUFFER, 1)?;
        if BufferType::from_code(self.take_buffer_type()?) != Some(self.dialect.buffer) {
            return Err(Status::ERR_TYPE_MISMATCH);
        }
        let bytes = self.take_sized()?;
        Ok(self.nested(bytes))
    }

    /// A value without count, tags or type, as written by [`Packer::bare`](super::Packer::bare).
    pub fn bare(&mut self, ty: DataType) -> Result<Value> {
        self.take(ty, DEPTH_MAX)
    }

    // ---- parts of an operation -------------------------------------------------------------------------------

    /// Reads the count and, in described buffers, the tags at the start of an operation. The count must be `count`.
    fn head(&mut self, ty: DataType, count: usize) -> Result<()> {
        if self.open_head(ty)? == count { Ok(()) } else { Err(MALFORMED) }
    }

    /// As [`Unpacker::head`]; gives the count.
    fn open_head(&mut self, ty: DataType) -> Result<usize> {
        if self.is_empty() {
            return Err(ENDED);
        }
        let described = self.dialect.is_described();
        if described && self.take_tag()? != DataType::INT32 {
            return Err(Status::ERR_TYPE_MISMATCH);
        }
        let count = self.take_count_i32()?;
        if described {
            let tag = self.take_tag()?;
            let v20_command = ty == DataType::COMMAND && self.dialect.module == Module::V20;
            if tag != ty && !(v20_command && tag == DataType::UINT32) {
                return Err(Status::ERR_TYPE_MISMATCH);
            }
        }
        Ok(count)
    }

    /// Reads `count` items. Memory grows with the items that were read, not with the claimed count.
    fn collect<T>(&mut self, count: usize, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = fallible_alloc::vec(count.min(RESERVE_MAX).min(self.rest.len()))?;
        for _ in 0..count {
            fallible_alloc::push(&mut items, item(self)?)?;
        }
        Ok(items)
    }

    fn take_bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(ENDED)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn take_byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(ENDED)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn take_flexible(&mut self) -> Result<u64> {
        let (number, len) = int::read_flexible(self.rest).ok_or(ENDED)?;
        self.rest = &self.rest[len..];
        Ok(number)
    }

    fn take_fixed(&mut self, bits: u32) -> Result<u64> {
        let bytes = self.take_bytes((bits / W8) as usize)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take_unsigned(&mut self, bits: u32) -> Result<u64> {
        if !self.dialect.is_flexible() {
            return self.take_fixed(bits);
        }
        let number = self.take_flexible()?;
        if bits < W64 && number >> bits != 0 { Err(MALFORMED) } else { Ok(number) }
    }

    fn take_signed(&mut self, bits: u32) -> Result<i64> {
        let unused = W64 - bits;
        if !self.dialect.is_flexible() {
            return Ok((self.take_fixed(bits)? << unused) as i64 >> unused);
        }
        let number = int::unfold(self.take_flexible()?);
        if number << unused >> unused == number { Ok(number) } else { Err(MALFORMED) }
    }

    fn take_i32(&mut self) -> Result<i32> {
        Ok(self.take_signed(W32)? as i32)
    }

    fn take_u32(&mut self) -> Result<u32> {
        Ok(self.take_unsigned(W32)? as u32)
    }

    fn take_tag(&mut self) -> Result<DataType> {
        Ok(DataType(self.take_unsigned(W16)? as u16))
    }

    /// A number after a tag with its actual integer type.
    fn take_by_tag(&mut self) -> Result<i128> {
        let tag = self.take_tag()?;
        self.take_as(tag)
    }

    fn take_as(&mut self, real: DataType) -> Result<i128> {
        Ok(match real {
            DataType::INT8 => i128::from(self.take_byte()? as i8),
            DataType::UINT8 | DataType::BYTE => self.take_byte()?.into(),
            DataType::INT16 => self.take_signed(W16)?.into(),
            DataType::INT32 => self.take_signed(W32)?.into(),
            DataType::INT64 => self.take_signed(W64)?.into(),
            DataType::UINT16 => self.take_unsigned(W16)?.into(),
            DataType::UINT32 => self.take_unsigned(W32)?.into(),
            DataType::UINT64 => self.take_unsigned(W64)?.into(),
            _ => return Err(Status::ERR_TYPE_MISMATCH),
        })
    }

    fn take_size(&mut self) -> Result<u64> {
        if self.dialect.is_flexible() {
            return self.take_unsigned(W64);
        }
        self.take_by_tag()?.try_into().map_err(|_| MALFORMED)
    }

    fn take_count(&mut self) -> Result<usize> {
        usize::try_from(self.take_size()?).map_err(|_| MALFORMED)
    }

    fn take_count_i32(&mut self) -> Result<usize> {
        usize::try_from(self.take_i32()?).map_err(|_| MALFORMED)
    }

    /// INT and UINT, which have the same encoding.
    fn take_int(&mut self) -> Result<i32> {
        if self.dialect.is_flexible() {
            return self.take_i32();
        }
        as_32_bits(self.take_by_tag()?)
    }

    fn take_pid(&mut self) -> Result<i32> {
        as_32_bits(self.take_by_tag()?)
    }

    fn take_str(&mut self) -> Result<Option<&'a [u8]>> {
        let len = self.take_count_i32()?;
        if len == 0 {
            return Ok(None);
        }
        match self.take_bytes(len)?.split_last() {
            // A string with a NUL inside ends there, as C would read it.
            Some((0, text)) => Ok(text.split(|byte| *byte == 0).next()),
            _ => Err(MALFORMED),
        }
    }

    fn take_string(&mut self) -> Result<Option<CString>> {
        self.take_str()?.map(fallible_alloc::c_string).transpose()
    }

    fn take_some_string(&mut self) -> Result<CString> {
        Ok(self.take_string()?.unwrap_or_default())
    }

    fn take_key(&mut self) -> Result<Key> {
        Key::new(self.take_str()?.unwrap_or_default()).map_err(|_| MALFORMED)
    }

    fn take_nspace(&mut self) -> Result<Nspace> {
        Nspace::new(self.take_str()?.unwrap_or_default()).map_err(|_| MALFORMED)
    }

    fn take_float(&mut self) -> Result<f32> {
        let text = self.take_str()?.ok_or(MALFORMED)?;
        text::to_float(text).ok_or(MALFORMED)
    }

    fn take_timeval(&mut self) -> Result<(i64, i64)> {
        Ok((self.take_signed(W64)?, self.take_signed(W64)?))
    }

    fn take_sized(&mut self) -> Result<&'a [u8]> {
        let len = self.take_count()?;
        self.take_bytes(len)
    }

    /// Shares long bytes with the message if they are a value of their own. Bytes inside another value are copied with it.
    fn take_shared(&mut self, depth: u8) -> Result<Bytes> {
        let bytes = self.take_sized()?;
        match self.whole.filter(|_| depth + 1 == DEPTH_MAX) {
            Some(whole) => Bytes::part_of(whole, bytes),
            None => Bytes::copy_of(bytes),
        }
    }

    fn take_proc(&mut self) -> Result<Proc> {
        Ok(Proc { nspace: self.take_nspace()?, rank: Rank(self.take_u32()?) })
    }

    fn take_code(&mut self, ty: DataType) -> Result<u64> {
        match ty.scalar_width() {
            None | Some(1) => self.take_byte().map(u64::from),
            Some(width) => self.take_unsigned(width as u32 * W8),
        }
    }

    /// hwloc's support flags after the XML of a topology, one byte, 0 or 1, for each. Releases up to 6.1 send them; the source of
    /// 7.0 sends none. No other data that can follow begins with that many bytes of 0 or 1, except for NULL topologies in an array.
    fn take_support(&mut self) -> Vec<u8> {
        let is_support = |bytes: &&[u8]| bytes.iter().all(|byte| *byte <= 1);
        let Some(support) = self.rest.get(..TOPOLOGY_SUPPORT).filter(is_support) else { return Vec::new() };
        self.rest = &self.rest[TOPOLOGY_SUPPORT..];
        support.to_vec()
    }

    fn take_regex(&mut self) -> Result<Vec<u8>> {
        let len = text::regex_len(self.rest).ok_or(ENDED)?;
        fallible_alloc::copy(self.take_bytes(len)?)
    }

    /// A type tag and its value.
    fn take_tagged(&mut self, depth: u8) -> Result<Value> {
        let ty = self.take_tag()?;
        self.take(ty, depth)
    }

    fn take_info(&mut self, depth: u8) -> Result<Info> {
        Ok(Info { key: self.take_key()?, flags: self.take_u32()?, value: self.take_info_value(depth)? })
    }

    /// A type tag and its value, in the form that infos and published data have.
    fn take_info_value(&mut self, depth: u8) -> Result<Value> {
        let ty = match self.dialect.module {
            Module::V20 => DataType(self.take_int()?.try_into().map_err(|_| MALFORMED)?),
            _ => self.take_tag()?,
        };
        self.take(ty, depth)
    }

    /// The type of a nested buffer. The v20 encoder does not write it: there it is the type of the enclosing buffer.
    fn take_buffer_type(&mut self) -> Result<u8> {
        match self.dialect.module {
            Module::V20 => Ok(self.dialect.buffer as u8),
            _ => self.take_byte(),
        }
    }

    fn take_infos(&mut self, depth: u8) -> Result<Vec<Info>> {
        let count = self.take_count()?;
        self.collect(count, |unpacker| unpacker.take_info(depth))
    }

    fn take_kval(&mut self, depth: u8) -> Result<Kval> {
        Ok(Kval { key: self.take_key()?, value: self.take_tagged(depth)? })
    }

    fn take_pdata(&mut self, depth: u8) -> Result<Pdata> {
        Ok(Pdata { proc: self.take_proc()?, key: self.take_key()?, value: self.take_info_value(depth)? })
    }

    fn take_app(&mut self, depth: u8) -> Result<App> {
        let cmd = self.take_string()?;
        let argc = usize::try_from(self.take_int()?).map_err(|_| MALFORMED)?;
        let argv = self.collect(argc, Unpacker::take_some_string)?;
        let envc = self.take_count_i32()?;
        let env = self.collect(envc, Unpacker::take_some_string)?;
        let cwd = self.take_string()?;
        let maxprocs = self.take_int()?;
        Ok(App { cmd, argv, env, cwd, maxprocs, infos: self.take_infos(depth)? })
    }

    fn take_query(&mut self, depth: u8) -> Result<Query> {
        let count = self.take_count_i32()?;
        let keys = self.collect(count, Unpacker::take_some_string)?;
        Ok(Query { keys, qualifiers: self.take_infos(depth)? })
    }

    fn take_coord(&mut self) -> Result<Coord> {
        let view = self.take_byte()?;
        let count = self.take_count()?;
        Ok(Coord { view, coords: self.collect(count, Unpacker::take_u32)? })
    }

    fn take_proc_stats(&mut self) -> Result<ProcStats> {
        let mut stats = ProcStats {
            node: self.take_string()?,
            proc: self.take_proc()?,
            pid: self.take_pid()?,
            cmd: self.take_string()?,
            state: self.take_byte()?,
            time: self.take_timeval()?,
            percent_cpu: 0.0,
            priority: self.take_i32()?,
            num_threads: self.take_signed(W16)? as u16,
            pss: self.take_float()?,
            vsize: self.take_float()?,
            rss: self.take_float()?,
            peak_vsize: self.take_float()?,
            processor: self.take_signed(W16)? as u16,
            sample_time: self.take_timeval()?,
        };
        if self.dialect.module == Module::Own {
            stats.percent_cpu = self.take_float()?;
        }
        Ok(stats)
    }

    fn take_disk_stats(&mut self) -> Result<DiskStats> {
        Ok(DiskStats { disk: self.take_string()?, counts: self.take_counts()? })
    }

    fn take_net_stats(&mut self) -> Result<NetStats> {
        Ok(NetStats { interface: self.take_string()?, counts: self.take_counts()? })
    }

    fn take_counts<const COUNT: usize>(&mut self) -> Result<[u64; COUNT]> {
        let mut counts = [0; COUNT];
        for count in &mut counts {
            *count = self.take_unsigned(W64)?;
        }
        Ok(counts)
    }

    fn take_node_stats(&mut self) -> Result<NodeStats> {
        let node = self.take_string()?;
        let mut amounts = [0.0; 11];
        for amount in &mut amounts {
            *amount = self.take_float()?;
        }
        let sample_time = self.take_timeval()?;
        let disk_count = self.take_count()?;
        let disks = self.collect(disk_count, Unpacker::take_disk_stats)?;
        let interface_count = self.take_count()?;
        let interfaces = self.collect(interface_count, Unpacker::take_net_stats)?;
        Ok(NodeStats { node, amounts, sample_time, disks, interfaces })
    }

    fn take_array(&mut self, depth: u8) -> Result<DataArray> {
        let ty = self.take_tag()?;
        if ty == DataType::UNDEF {
            self.take_untyped_count()?;
            return Ok(DataArray { ty, items: Vec::new() });
        }
        let count = self.take_count()?;
        if count == 0 {
            return Ok(DataArray { ty, items: Vec::new() });
        }
        if self.dialect.module == Module::V20 && self.dialect.is_described() && self.take_tag()? != ty {
            return Err(Status::ERR_TYPE_MISMATCH);
        }
        Ok(DataArray { ty, items: self.take_items(ty, count, depth)? })
    }

    /// Reads the count of an array without a type, if the peer's release writes one.
    fn take_untyped_count(&mut self) -> Result<()> {
        match self.dialect.untyped() {
            Untyped::Counted => {
                self.take_count()?;
            }
            Untyped::Bare => {}
            Untyped::Either | Untyped::Replaced => {
                // A zero is the array's count. Everything else that can follow an array begins with the length of a key, the
                // count of an operation or the tag of a type. None of these is zero, except for an absent value and, in an array of
                // arrays, for the next one without a type: there 6.1 cannot read its own form, either.
                let mut behind = self.clone();
                if behind.take_count() == Ok(0) {
                    *self = behind;
                }
            }
        }
        Ok(())
    }

    /// Values of one type back to back.
    fn take_items(&mut self, ty: DataType, count: usize, depth: u8) -> Result<Vec<Value>> {
        match ty {
            DataType::UNDEF => Err(MALFORMED),
            DataType::POINTER if count > POINTERS_MAX => Err(MALFORMED),
            DataType::POINTER => {
                self.take_byte()?;
                Ok(vec![Value::Pointer(0); count])
            }
            // One tag for all items.
            _ if self.dialect.real_type(ty).is_some() => {
                let real = self.take_tag()?;
                self.collect(count, |unpacker| {
                    let number = unpacker.take_as(real)?;
                    let bits = match ty {
                        DataType::SIZE => number.try_into().map_err(|_| MALFORMED)?,
                        _ => as_32_bits(number)? as u64,
                    };
                    Value::from_scalar(ty, bits).ok_or(MALFORMED)
                })
            }
            _ => self.collect(count, |unpacker| unpacker.take(ty, depth)),
        }
    }

    /// A value of a type.
    fn take(&mut self, ty: DataType, depth: u8) -> Result<Value> {
        let depth = depth.checked_sub(1).ok_or(MALFORMED)?;
        // Many small values can need much memory.
        fallible_alloc::check()?;
        Ok(match ty {
            DataType::UNDEF => Value::Undef,
            DataType::BOOL => Value::Bool(self.take_byte()? != 0),
            DataType::BYTE => Value::Byte(self.take_byte()?),
            DataType::STRING => Value::String(self.take_string()?),
            DataType::SIZE => Value::Size(self.take_size()?),
            DataType::PID => Value::Pid(self.take_pid()?),
            DataType::INT => Value::Int(self.take_int()?),
            DataType::INT8 => Value::Int8(self.take_byte()? as i8),
            DataType::INT16 => Value::Int16(self.take_signed(W16)? as i16),
            DataType::INT32 => Value::Int32(self.take_i32()?),
            DataType::INT64 => Value::Int64(self.take_signed(W64)?),
            DataType::UINT => Value::Uint(self.take_int()? as u32),
            DataType::UINT8 => Value::Uint8(self.take_byte()?),
            DataType::UINT16 => Value::Uint16(self.take_unsigned(W16)? as u16),
            DataType::UINT32 => Value::Uint32(self.take_u32()?),
            DataType::UINT64 => Value::Uint64(self.take_unsigned(W64)?),
            DataType::FLOAT => Value::Float(self.take_float()?),
            DataType::DOUBLE => {
                let text = self.take_str()?.ok_or(MALFORMED)?;
                Value::Double(text::to_double(text).ok_or(MALFORMED)?)
            }
            DataType::TIMEVAL => {
                let (sec, usec) = self.take_timeval()?;
                Value::Timeval { sec, usec }
            }
            DataType::TIME => Value::Time(self.take_unsigned(W64)? as i64),
            DataType::STATUS => Value::Status(Status(self.take_i32()?)),
            DataType::VALUE => Value::Value(Box::new(self.take_tagged(depth)?)),
            DataType::PROC => Value::Proc(self.take_proc()?),
            DataType::APP => Value::App(Box::new(self.take_app(depth)?)),
            DataType::INFO => Value::Info(Box::new(self.take_info(depth)?)),
            DataType::PDATA => Value::Pdata(Box::new(self.take_pdata(depth)?)),
            DataType::BUFFER => {
                Value::Buffer { kind: self.take_buffer_type()?, bytes: fallible_alloc::copy(self.take_sized()?)? }
            }
            DataType::BYTE_OBJECT => Value::ByteObject(self.take_shared(depth)?),
            DataType::KVAL => Value::Kval(Box::new(self.take_kval(depth)?)),
            DataType::POINTER => {
                self.take_byte()?;
                Value::Pointer(0)
            }
            DataType::PROC_INFO => Value::ProcInfo(Box::new(ProcInfo {
                proc: self.take_proc()?,
                hostname: self.take_string()?,
                executable: self.take_string()?,
                pid: self.take_pid()?,
                exit_code: 0,
                state: self.take_byte()?,
            })),
            DataType::DATA_ARRAY => Value::DataArray(Box::new(self.take_array(depth)?)),
            DataType::PROC_RANK => Value::Rank(Rank(self.take_u32()?)),
            DataType::QUERY => Value::Query(Box::new(self.take_query(depth)?)),
            DataType::COMPRESSED_STRING => Value::CompressedString(self.take_shared(depth)?),
            DataType::COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(self.take_shared(depth)?),
            DataType::ENVAR => Value::Envar(Envar {
                name: self.take_string()?,
                value: self.take_string()?,
                separator: self.take_byte()?,
            }),
            DataType::COORD => Value::Coord(Box::new(self.take_coord()?)),
            DataType::REGATTR => {
                let name = self.take_string()?;
                let key = self.take_key()?;
                let ty = self.take_tag()?;
                let count = self.take_count_i32()?;
                let description = self.collect(count, Unpacker::take_some_string)?;
                Value::Regattr(Box::new(Regattr { name, key, ty, description }))
            }
            DataType::REGEX => Value::Regex(self.take_regex()?.into()),
            DataType::PROC_CPUSET => Value::Cpuset { source: Some(c"hwloc".into()), list: self.take_string()? },
            DataType::TOPO => {
                let xml = self.take_string()?;
                let support = if xml.is_some() { self.take_support() } else { Vec::new() };
                Value::Topology { xml, support }
            }
            DataType::GEOMETRY => {
                let fabric = self.take_size()?;
                let uuid = self.take_string()?;
                let osname = self.take_string()?;
                let count = self.take_count()?;
                let coordinates = self.collect(count, Unpacker::take_coord)?;
                Value::Geometry(Box::new(Geometry { fabric, uuid, osname, coordinates }))
            }
            DataType::DEVICE_DIST => Value::DeviceDistance(Box::new(DeviceDistance {
                uuid: self.take_string()?,
                osname: self.take_string()?,
                ty: self.take_unsigned(W64)?,
                min: self.take_unsigned(W16)? as u16,
                max: self.take_unsigned(W16)? as u16,
            })),
            DataType::DEVICE => Value::Device(Box::new(Device {
                uuid: self.take_string()?,
                osname: self.take_string()?,
                ty: self.take_unsigned(W64)?,
            })),
            DataType::ENDPOINT => Value::Endpoint(Box::new(Endpoint {
                uuid: self.take_string()?,
                osname: self.take_string()?,
                bytes: fallible_alloc::copy(self.take_sized()?)?,
            })),
            DataType::PROC_NSPACE => Value::ProcNspace(self.take_nspace()?),
            DataType::DATA_BUFFER => Value::DataBuffer(self.take_shared(depth)?),
            DataType::RESOURCE_UNIT => Value::ResourceUnit { ty: self.take_unsigned(W64)?, count: self.take_size()? },
            DataType::NODE_PID => {
                Value::NodePid { hostname: self.take_string()?, nodeid: self.take_u32()?, pid: self.take_pid()? }
            }
            DataType::REGEX2 => {
                Value::Regex2 { ty: self.take_string()?, bytes: fallible_alloc::copy(self.take_sized()?)? }
            }
            DataType::PROC_STATS => Value::ProcStats(Box::new(self.take_proc_stats()?)),
            DataType::DISK_STATS => Value::DiskStats(Box::new(self.take_disk_stats()?)),
            DataType::NET_STATS => Value::NetStats(Box::new(self.take_net_stats()?)),
            DataType::NODE_STATS => Value::NodeStats(Box::new(self.take_node_stats()?)),
            DataType::PERSIST
            | DataType::SCOPE
            | DataType::DATA_RANGE
            | DataType::COMMAND
            | DataType::INFO_DIRECTIVES
            | DataType::DATA_TYPE
            | DataType::PROC_STATE
            | DataType::JOB_STATE
            | DataType::LINK_STATE
            | DataType::ALLOC_DIRECTIVE
            | DataType::RESBLOCK_DIRECTIVE
            | DataType::ALLOC_INHERIT
            | DataType::IOF_CHANNEL
            | DataType::DEVTYPE
            | DataType::LOCTYPE
            | DataType::STOR_MEDIUM
            | DataType::STOR_ACCESS
            | DataType::STOR_PERSIST
            | DataType::STOR_ACCESS_TYPE => Value::Code { ty, bits: self.take_code(ty)? },
            _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        })
    }
}

/// A number of any integer type as the bits of a 32-bit one.
fn as_32_bits(number: i128) -> Result<i32> {
    match u32::try_from(number) {
        Ok(number) => Ok(number as i32),
        Err(_) => number.try_into().map_err(|_| MALFORMED),
    }
}
