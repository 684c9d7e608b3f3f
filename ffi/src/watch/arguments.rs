//! The arguments of a call as text.
//!
//! An array comes as a pointer and a length. So a pointer to something that may be an array waits for the next argument: a length makes it
//! an array, anything else makes it one object. What a call fills in, and callbacks with their data, are not shown.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Write;

use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{DataType, Rank, Status};

use crate::convert::{text, value};
use crate::types::*;
use crate::{attributes, strings};

/// Items of an array that are shown.
const ITEMS_MAX: usize = 8;
/// Characters of a text that are shown.
const TEXT_LEN_MAX: usize = 64;

/// The arguments of one call, in order.
#[derive(Default)]
pub struct Arguments {
    text: String,
    pending: Option<Pending>,
}

/// A pointer whose next argument may be a length.
struct Pending {
    is_null: bool,
    /// Whether it is shown without a length.
    is_input: bool,
    /// The text of an item.
    item: Box<dyn Fn(usize) -> String>,
}

impl Arguments {
    /// Adds an argument of the C type `ty`.
    ///
    /// # Safety
    /// The pointer rules of the crate for this argument of the call.
    pub unsafe fn add(&mut self, ty: &str, argument: impl Argument) {
        // SAFETY: the caller's promise.
        unsafe { argument.show(ty, self) };
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        self.end_pending();
        self.text
    }

    fn push(&mut self, text: &str) {
        self.end_pending();
        self.append(text);
    }

    fn append(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(text);
    }

    /// The waiting pointer has no length.
    fn end_pending(&mut self) {
        let Some(Pending { is_null, is_input, item }) = self.pending.take() else { return };
        if is_input {
            self.append(&if is_null { "NULL".into() } else { item(0) });
        }
    }

    fn wait(&mut self, is_null: bool, is_input: bool, item: impl Fn(usize) -> String + 'static) {
        self.end_pending();
        self.pending = Some(Pending { is_null, is_input, item: Box::new(item) });
    }

    /// A number, which is the length of the waiting pointer's array, if there is one.
    fn length(&mut self, len: usize) {
        let Some(Pending { is_null, item, .. }) = self.pending.take() else { return self.append(&len.to_string()) };
        if is_null || len == 0 {
            return self.append("[]");
        }
        let mut text = (0..len.min(ITEMS_MAX)).map(item).collect::<Vec<_>>().join(", ");
        if len > ITEMS_MAX {
            let _ = write!(text, ", {} more", len - ITEMS_MAX);
        }
        self.append(&format!("[{text}]"));
    }
}

/// An argument of a call.
pub trait Argument {
    /// Adds it to the line.
    ///
    /// # Safety
    /// The pointer rules of the crate for this argument of the call.
    unsafe fn show(self, ty: &str, line: &mut Arguments);
}

impl Argument for usize {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.length(self);
    }
}

impl Argument for bool {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.push(if self { "true" } else { "false" });
    }
}

impl Argument for u8 {
    unsafe fn show(self, ty: &str, line: &mut Arguments) {
        line.push(&match ty {
            "pmix_scope_t" => strings::scope(self).to_string_lossy(),
            "pmix_data_range_t" => strings::data_range(self).to_string_lossy(),
            "pmix_alloc_directive_t" => strings::alloc_directive(self).to_string_lossy(),
            _ => self.to_string().into(),
        });
    }
}

impl Argument for u16 {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.push(&self.to_string());
    }
}

impl Argument for u32 {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.push(&self.to_string());
    }
}

impl Argument for i32 {
    unsafe fn show(self, ty: &str, line: &mut Arguments) {
        let name = Status(self).name().filter(|_| ty == "pmix_status_t");
        line.push(&name.map_or_else(|| self.to_string(), str::to_owned));
    }
}

impl Argument for *const c_char {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        if self.is_null() {
            return line.push("NULL");
        }
        // SAFETY: the caller's promise: it ends with a NUL, or is a key with all its bytes.
        match unsafe { text::key_text(self) } {
            Ok(name) => line.push(&key(name)),
            Err(_) => line.push("..."),
        }
    }
}

impl Argument for *const pmix_proc_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        // SAFETY: initialised processes, as many as the next argument says, by the promise of the call's caller.
        line.wait(self.is_null(), true, move |at| unsafe { process(self.add(at)) });
    }
}

impl Argument for *mut pmix_proc_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        // SAFETY: as above. Alone it is a place that the call fills in.
        line.wait(self.is_null(), false, move |at| unsafe { process(self.add(at)) });
    }
}

impl Argument for *const pmix_info_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        // SAFETY: initialised infos, as many as the next argument says, by the promise of the call's caller.
        line.wait(self.is_null(), true, move |at| unsafe { info(self.add(at)) });
    }
}

impl Argument for *mut pmix_info_t {
    unsafe fn show(self, ty: &str, line: &mut Arguments) {
        // SAFETY: as above.
        unsafe { self.cast_const().show(ty, line) };
    }
}

impl Argument for *mut pmix_status_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.wait(self.is_null(), false, move |at| {
            // SAFETY: as many statuses as the next argument says, by the promise of the call's caller.
            let code = Status(unsafe { *self.add(at) });
            code.name().map_or_else(|| code.0.to_string(), str::to_owned)
        });
    }
}

impl Argument for *mut pmix_pdata_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        // SAFETY: initialised objects, as many as the next argument says, by the promise of the call's caller.
        line.wait(self.is_null(), false, move |at| unsafe { key(name(&(*self.add(at)).key)) });
    }
}

impl Argument for *const pmix_app_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.wait(self.is_null(), true, move |at| {
            // SAFETY: initialised applications, as many as the next argument says, by the promise of the call's caller.
            let app = unsafe { &*self.add(at) };
            // SAFETY: NULL or a C string.
            let program = unsafe { text::string(app.cmd) }.map_or("NULL".into(), CStr::to_string_lossy);
            format!("{} x {}", app.maxprocs, shortened(&program))
        });
    }
}

impl Argument for *mut pmix_value_t {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        // SAFETY: NULL or an initialised value: no call that waits fills one in.
        line.push(&if self.is_null() { "NULL".into() } else { unsafe { value_text(self) } });
    }
}

/// Arguments that are not shown.
macro_rules! not_shown {
    ($($ty:ty)*) => {$(
        impl Argument for $ty {
            unsafe fn show(self, _: &str, line: &mut Arguments) {
                line.end_pending();
            }
        }
    )*};
}

not_shown! {
    *mut c_void *mut c_char *mut usize *mut pmix_rank_t *mut pmix_locality_t *mut pmix_query_t *mut pmix_byte_object_t *const pmix_byte_object_t
    *mut pmix_fabric_t *const pmix_resource_unit_t *mut pmix_server_module_t *mut pmix_data_buffer_t *mut pmix_regex2_t
    *const pmix_regex2_t *mut pmix_cpuset_t *const pmix_cpuset_t *mut pmix_topology_t
}

impl<T> Argument for *mut *mut T {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.end_pending();
    }
}

impl<T> Argument for Option<T> {
    unsafe fn show(self, _: &str, line: &mut Arguments) {
        line.end_pending();
    }
}

/// The bytes of an array of characters before its NUL.
fn name(buffer: &[c_char]) -> &[u8] {
    let len = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    // SAFETY: characters are bytes.
    unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), len) }
}

/// A process as `NAMESPACE:RANK`.
///
/// # Safety
/// The process is initialised.
unsafe fn process(proc: *const pmix_proc_t) -> String {
    // SAFETY: the caller's promise.
    let proc = unsafe { &*proc };
    let rank = Rank(proc.rank);
    let rank = if rank == Rank::WILDCARD { "*".into() } else { rank.to_string() };
    format!("{}:{rank}", String::from_utf8_lossy(name(&proc.nspace)))
}

/// A key, by its attribute's name if it is reserved.
pub fn key(key: &[u8]) -> String {
    let attribute = CString::new(key).ok().and_then(|key| attributes::name_of(&key));
    attribute.map_or_else(|| shortened(&String::from_utf8_lossy(key)), |name| name.to_string_lossy().into_owned())
}

/// An info as `KEY=VALUE`.
///
/// # Safety
/// The info is initialised.
unsafe fn info(info: *const pmix_info_t) -> String {
    // SAFETY: the caller's promise.
    let info = unsafe { &*info };
    // SAFETY: the value of an initialised info.
    format!("{}={}", key(name(&info.key)), unsafe { value_text(&raw const info.value) })
}

/// A value: numbers and texts themselves, of all else the type.
///
/// # Safety
/// The value is initialised.
unsafe fn value_text(at: *const pmix_value_t) -> String {
    // SAFETY: the caller's promise.
    let ty = DataType(unsafe { (*at).type_ });
    // SAFETY: the caller's promise.
    match unsafe { value::borrow(at) } {
        Some(ValueRef::Str(text)) => {
            text.map_or("NULL".into(), |text| format!("{:?}", shortened(&text.to_string_lossy())))
        }
        Some(ValueRef::Bytes { bytes, .. }) => format!("{} bytes", bytes.len()),
        Some(ValueRef::Scalar { ty: DataType::BOOL, bits }) => (bits & 0xff != 0).to_string(),
        Some(value) => {
            let number = value.to_value().ok().and_then(|value| value.as_u64());
            number.map_or_else(|| ty.to_string(), |number| number.to_string())
        }
        None => ty.to_string(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_LEN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_job(rank: u32) -> pmix_proc_t {
        // SAFETY: all zero is a process without a name.
        let mut proc: pmix_proc_t = unsafe { std::mem::zeroed() };
        proc.nspace[0] = b'j'.cast_signed();
        proc.rank = rank;
        proc
    }

    #[test]
    fn a_pointer_is_an_array_if_a_length_follows() {
        let procs: Vec<pmix_proc_t> = (0..10).map(of_job).collect();
        let job = of_job(Rank::WILDCARD.0);
        let shown = |add: &dyn Fn(&mut Arguments)| {
            let mut line = Arguments::default();
            add(&mut line);
            line.finish()
        };
        // SAFETY: objects of this test.
        unsafe {
            let key = c"pmix.max.size".as_ptr();
            assert_eq!(shown(&|line| (line.add("", &raw const job), line.add("", key)).1), "j:*, PMIX_MAX_PROCS");
            let two = |line: &mut Arguments| (line.add("", procs.as_ptr()), line.add("", 2_usize)).1;
            assert_eq!(shown(&two), "[j:0, j:1]");
            let ten = |line: &mut Arguments| (line.add("", procs.as_ptr()), line.add("", 10_usize)).1;
            assert!(shown(&ten).ends_with("j:7, 2 more]"));
            let none = std::ptr::null::<pmix_proc_t>();
            assert_eq!(shown(&|line| (line.add("", none), line.add("", 0_usize)).1), "[]");
            assert_eq!(shown(&|line| line.add("", none)), "NULL");
            let filled_in = (&raw const job).cast_mut();
            assert_eq!(
                shown(&|line| (line.add("", filled_in), line.add("pmix_scope_t", 2_u8)).1),
                shown(&|line| line.add("pmix_scope_t", 2_u8))
            );
            assert_eq!(
                shown(&|line| (line.add("", 3_usize), line.add("pmix_status_t", -46)).1),
                "3, PMIX_ERR_NOT_FOUND"
            );
        }
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(key("k".repeat(65).as_bytes()), format!("{}...", "k".repeat(64)));
    }
}
