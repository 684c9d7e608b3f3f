//! The `libpmix.so.2` that the dynamic linker finds for this process, and the calls that are measured.
//!
//! It is opened at run time. So one program measures every library, and says in a line that there is none.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fs;
use std::mem::transmute;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::slice;

use pmix_dstore::model::{DataType, Rank, Status, keys};

use super::abi::{self, pmix_byte_object_t, pmix_info_t, pmix_proc_t, pmix_value_data, pmix_value_t};

const NAME: &CStr = c"libpmix.so.2";
/// `PMIX_GLOBAL`.
const GLOBAL: abi::pmix_scope_t = 3;

/// The functions of an opened library. It is never closed: its threads may run until the process ends.
pub struct Library {
    init: abi::PMIx_Init,
    finalize: abi::PMIx_Finalize,
    put: abi::PMIx_Put,
    commit: abi::PMIx_Commit,
    fence: abi::PMIx_Fence,
    get: abi::PMIx_Get,
    get_version: abi::PMIx_Get_version,
    /// `pmix_dstore_version`, where this project's library is loaded.
    own_version: Option<*const *const c_char>,
}

/// A process of the job, or with the rank `WILDCARD` the job.
#[derive(Clone, Copy)]
pub struct Process(pmix_proc_t);

impl Process {
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    pub fn with_rank(self, rank: u32) -> Process {
        Process(pmix_proc_t { rank, ..self.0 })
    }

    /// The whole job.
    pub fn job(self) -> Process {
        self.with_rank(Rank::WILDCARD.0)
    }
}

/// A directive of a call.
pub struct Directive(pmix_info_t);

impl Directive {
    /// The directive with this key, switched on.
    pub fn on(key: &str) -> Directive {
        let mut yes = [0; 24];
        yes[0] = 1;
        let mut info = pmix_info_t { key: [0; 512], flags: 0, value: value_of(DataType::BOOL, yes) };
        for (to, from) in info.key.iter_mut().zip(key.bytes()) {
            *to = from as c_char;
        }
        Directive(info)
    }
}

fn value_of(of_type: DataType, bytes: [u8; 24]) -> pmix_value_t {
    pmix_value_t { type_: of_type.0, data: pmix_value_data { bytes } }
}

/// A value that `PMIx_Get` has allocated.
pub struct Value(*mut pmix_value_t);

impl Value {
    /// The bytes of a string or a byte object.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: the library has made the value, and it is freed with `self`.
        let value = unsafe { &*self.0 };
        match DataType(value.type_) {
            // SAFETY: a value of this type holds a NUL-terminated string.
            DataType::STRING => unsafe { value.data.string.as_ref().map(|text| CStr::from_ptr(text).to_bytes()) },
            DataType::BYTE_OBJECT => {
                // SAFETY: a value of this type holds a byte object.
                let object = unsafe { value.data.bo };
                let bytes: *const u8 = object.bytes.cast();
                // SAFETY: a byte object that is not empty leads to so many bytes.
                (!bytes.is_null()).then(|| unsafe { slice::from_raw_parts(bytes, object.size) })
            }
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u32> {
        // SAFETY: the library has made the value, and it is freed with `self`.
        let value = unsafe { &*self.0 };
        if DataType(value.type_) != DataType::UINT32 {
            return None;
        }
        // SAFETY: a value of this type holds such a number.
        Some(unsafe { value.data.uint32 })
    }
}

impl Drop for Value {
    /// As C callers do with a value: its contents, then the structure. Both come from malloc in every release.
    fn drop(&mut self) {
        // SAFETY: the library has made the value, and nobody uses it after this.
        unsafe {
            match DataType((*self.0).type_) {
                DataType::STRING => libc::free((*self.0).data.string.cast()),
                DataType::BYTE_OBJECT => libc::free((*self.0).data.bo.bytes.cast()),
                _ => {}
            }
            libc::free(self.0.cast());
        }
    }
}

impl Library {
    /// Opens the library that the dynamic linker finds.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open() -> Result<Library, String> {
        // SAFETY: loading a PMIx library runs its initialisers alone.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err(format!("no PMIx library: {}; name its directory in LD_LIBRARY_PATH", dl_error()));
        }
        // SAFETY: these names belong to functions of these types in every PMIx library.
        unsafe {
            Ok(Library {
                init: transmute::<*mut c_void, abi::PMIx_Init>(symbol(handle, c"PMIx_Init")?),
                finalize: transmute::<*mut c_void, abi::PMIx_Finalize>(symbol(handle, c"PMIx_Finalize")?),
                put: transmute::<*mut c_void, abi::PMIx_Put>(symbol(handle, c"PMIx_Put")?),
                commit: transmute::<*mut c_void, abi::PMIx_Commit>(symbol(handle, c"PMIx_Commit")?),
                fence: transmute::<*mut c_void, abi::PMIx_Fence>(symbol(handle, c"PMIx_Fence")?),
                get: transmute::<*mut c_void, abi::PMIx_Get>(symbol(handle, c"PMIx_Get")?),
                get_version: transmute::<*mut c_void, abi::PMIx_Get_version>(symbol(handle, c"PMIx_Get_version")?),
                own_version: symbol(handle, c"pmix_dstore_version")
                    .ok()
                    .map(<*mut c_void>::cast_const)
                    .map(<*const c_void>::cast),
            })
        }
    }

    /// The text of `PMIx_Get_version`. In a process that has this project's library and the stock one, that is the stock one's text, which
    /// would be wrong for the calls that are measured.
    pub fn version(&self) -> String {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let of_get = file_at(&maps, self.get as usize);
        let own = self.own_version.filter(|own| of_get.is_some() && file_at(&maps, own.addr()) == of_get);
        let text = match own {
            // SAFETY: this project's library exports a constant text by this name.
            Some(own) => unsafe { *own },
            // SAFETY: the function takes nothing.
            None => unsafe { (self.get_version)() },
        };
        if text.is_null() {
            return "unknown".into();
        }
        // SAFETY: it returns a constant text.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The file that holds the code of `PMIx_Get` in this process.
    pub fn path(&self) -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        file_at(&maps, self.get as usize).unwrap_or("unknown").into()
    }

    /// `PMIx_Init`.
    ///
    /// # Errors
    /// Its status.
    pub fn init(&self) -> Result<Process, Status> {
        let mut process = pmix_proc_t { nspace: [0; 256], rank: 0 };
        // SAFETY: it fills the structure.
        Status(unsafe { (self.init)(&mut process, null_mut(), 0) }).ok()?;
        Ok(Process(process))
    }

    /// `PMIx_Finalize`.
    ///
    /// # Errors
    /// Its status.
    pub fn finalize(&self) -> Result<(), Status> {
        // SAFETY: no value of the library is in use by reference.
        Status(unsafe { (self.finalize)(null(), 0) }).ok()
    }

    /// `PMIx_Put` of bytes for all processes.
    ///
    /// # Errors
    /// Its status.
    pub fn put(&self, key: &CStr, bytes: &[u8]) -> Result<(), Status> {
        let mut value = value_of(DataType::BYTE_OBJECT, [0; 24]);
        value.data.bo = pmix_byte_object_t { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        // SAFETY: the library copies key and value and writes through neither.
        Status(unsafe { (self.put)(GLOBAL, key.as_ptr(), &mut value) }).ok()
    }

    /// `PMIx_Commit`.
    ///
    /// # Errors
    /// Its status.
    pub fn commit(&self) -> Result<(), Status> {
        // SAFETY: the function takes nothing.
        Status(unsafe { (self.commit)() }).ok()
    }

    /// `PMIx_Fence` of all ranks.
    ///
    /// # Errors
    /// Its status.
    pub fn fence(&self, collects: bool) -> Result<(), Status> {
        let collect = Directive::on(keys::COLLECT_DATA);
        // SAFETY: the directive lives until the call returns.
        Status(unsafe { (self.fence)(null(), 0, &collect.0, usize::from(collects)) }).ok()
    }

    /// `PMIx_Get`. The value is freed when it is dropped, which belongs to what a caller pays.
    ///
    /// # Errors
    /// Its status.
    #[inline]
    pub fn get(&self, of: &Process, key: &CStr, directive: Option<&Directive>) -> Result<Value, Status> {
        let mut value = null_mut();
        let (infos, count) = directive.map_or((null(), 0), |directive| (&raw const directive.0, 1));
        // SAFETY: all arguments live until the call returns; on success the value is the caller's.
        let status = Status(unsafe { (self.get)(&of.0, key.as_ptr(), infos, count, &mut value) });
        match status {
            Status::SUCCESS if !value.is_null() => Ok(Value(value)),
            Status::SUCCESS => Err(Status::ERR_NOT_FOUND),
            failed => Err(failed),
        }
    }
}

/// A function of the library.
fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is that of an opened library.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() { Err(format!("this is no PMIx library: {}", dl_error())) } else { Ok(found) }
}

fn dl_error() -> String {
    // SAFETY: the text is copied before anything else is loaded.
    let text = unsafe { libc::dlerror() };
    // SAFETY: a text that is there is NUL-terminated.
    if text.is_null() { "unknown".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
}

/// The file that is mapped at an address, in the text of `/proc/self/maps`.
fn file_at(maps: &str, address: usize) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let holds = (number(begin)?..number(end)?).contains(&address);
        // A file's name may hold blanks; the four words before it do not.
        holds.then(|| rest.find('/').map(|at| &rest[at..]))?
    })
}

/// A key as C takes it. Keys here are constants of this project without a NUL.
pub fn c_key(key: &str) -> CString {
    CString::new(key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_at_an_address_is_named_with_its_blanks() {
        let maps = "1000-2000 r-xp 00000000 08:01 42    /opt/a b/libpmix.so.2\n2000-3000 rw-p 0 00:00 0 \n";
        assert_eq!(file_at(maps, 0x1fff), Some("/opt/a b/libpmix.so.2"));
        assert_eq!(file_at(maps, 0x2000), None);
        assert_eq!(file_at(maps, 0x3000), None);
    }

    #[test]
    fn a_directive_has_its_key_and_is_true() {
        let directive = Directive::on("pmix.collect");
        let key: Vec<u8> = directive.0.key.iter().take(13).map(|byte| *byte as u8).collect();
        assert_eq!(key, b"pmix.collect\0");
        assert_eq!(DataType(directive.0.value.type_), DataType::BOOL);
    }
}
