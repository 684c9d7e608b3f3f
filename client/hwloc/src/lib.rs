//! The project's only binding to hwloc. It loads the library when a process first needs a topology or a cpuset.
//!
//! A `pmix_cpuset_t` holds an hwloc bitmap and a `pmix_topology_t` an hwloc topology. The caller passes them to hwloc's
//! own functions, so they must be real hwloc objects. Few processes ask for one, and linking to hwloc would slow down
//! each rank's start by the time to load it. Therefore nothing here links to it: [`Hwloc::get`] opens `libhwloc.so.15`
//! with `dlopen`. The tests compare these declarations with hwloc's headers.
//!
//! [`Machine`] is the safe part, for a program that needs the list of processors.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

mod machine;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::transmute;
use std::sync::LazyLock;
use std::{ptr, slice};

use pmix_dstore::cancel::Uncancelled;
use pmix_dstore::model::{Result, Status};

pub use machine::{Kind, MEMORY, Machine, bind, processors_of};

/// The `source` of a cpuset that holds an hwloc bitmap.
pub const SOURCE: &[u8] = b"hwloc";
/// The most digits of a processor number. An untrusted list must not make hwloc allocate a bitmap of gigabytes.
const DIGITS_MAX: usize = 7;

/// `struct hwloc_obj` of hwloc 2; the fields that this library reads are public.
#[repr(C)]
pub struct Object {
    /// `hwloc_obj_type_t`.
    pub kind: c_int,
    subtype: *mut c_char,
    os_index: c_uint,
    /// Its name; only devices have one.
    pub name: *mut c_char,
    total_memory: u64,
    /// A union. For an operating-system device it begins with the device type.
    pub attributes: *const c_int,
    /// Its level; negative outside the tree.
    pub depth: c_int,
    logical_index: c_uint,
    next_cousin: *mut Object,
    prev_cousin: *mut Object,
    /// The object that contains it.
    pub parent: *const Object,
    sibling_rank: c_uint,
    next_sibling: *mut Object,
    prev_sibling: *mut Object,
    arity: c_uint,
    children: *const *const Object,
    first_child: *mut Object,
    last_child: *mut Object,
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *mut Object,
    io_arity: c_uint,
    io_first_child: *mut Object,
    misc_arity: c_uint,
    misc_first_child: *mut Object,
    /// Its processors; devices have none.
    pub cpuset: *const c_void,
    complete_cpuset: *mut c_void,
    nodeset: *mut c_void,
    complete_nodeset: *mut c_void,
    /// Pairs of a name and a value.
    pub infos: *const [*const c_char; 2],
    /// The number of pairs.
    pub infos_count: c_uint,
}

impl Object {
    /// The child objects, without memory and devices.
    pub fn children(&self) -> impl Iterator<Item = &Object> {
        // SAFETY: `arity` is the number of children, and they live as long as their parent.
        (0..self.arity as usize).filter_map(|index| unsafe { (*self.children.add(index)).as_ref() })
    }
}

/// Declares hwloc functions and the look-up of their symbols.
macro_rules! functions {
    ($($name:ident = $symbol:literal: ($($arg:ty),*) $(-> $answer:ty)?;)+) => {
        /// The functions of hwloc 2 that are used here.
        pub struct Hwloc {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $answer)?,)+
        }

        impl Hwloc {
            fn find(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Hwloc> {
                Some(Hwloc {
                    $($name: {
                        let symbol = find($symbol)?;
                        // SAFETY: `libhwloc.so.15` is hwloc 2, whose functions have these types.
                        unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $answer)?>(symbol) }
                    },)+
                })
            }
        }
    };
}

functions! {
    alloc = c"hwloc_bitmap_alloc": () -> *mut c_void;
    free = c"hwloc_bitmap_free": (*mut c_void);
    set = c"hwloc_bitmap_set": (*mut c_void, c_uint) -> c_int;
    is_full = c"hwloc_bitmap_isfull": (*const c_void) -> c_int;
    next = c"hwloc_bitmap_next": (*const c_void, c_int) -> c_int;
    intersects = c"hwloc_bitmap_intersects": (*const c_void, *const c_void) -> c_int;
    is_included = c"hwloc_bitmap_isincluded": (*const c_void, *const c_void) -> c_int;
    read = c"hwloc_bitmap_list_sscanf": (*mut c_void, *const c_char) -> c_int;
    write = c"hwloc_bitmap_list_asprintf": (*mut *mut c_char, *const c_void) -> c_int;
    write_mask = c"hwloc_bitmap_asprintf": (*mut *mut c_char, *const c_void) -> c_int;
    say_kind = c"hwloc_obj_type_snprintf": (*mut c_char, usize, *const Object, c_int) -> c_int;
    say_attributes = c"hwloc_obj_attr_snprintf": (*mut c_char, usize, *const Object, *const c_char, c_int) -> c_int;
    init = c"hwloc_topology_init": (*mut *mut c_void) -> c_int;
    set_flags = c"hwloc_topology_set_flags": (*mut c_void, c_ulong) -> c_int;
    set_io_filter = c"hwloc_topology_set_io_types_filter": (*mut c_void, c_int) -> c_int;
    set_components = c"hwloc_topology_set_components": (*mut c_void, c_ulong, *const c_char) -> c_int;
    set_xml = c"hwloc_topology_set_xmlbuffer": (*mut c_void, *const c_char, c_int) -> c_int;
    load = c"hwloc_topology_load": (*mut c_void) -> c_int;
    destroy = c"hwloc_topology_destroy": (*mut c_void);
    export = c"hwloc_topology_export_xmlbuffer": (*mut c_void, *mut *mut c_char, *mut c_int, c_ulong) -> c_int;
    free_xml = c"hwloc_free_xmlbuffer": (*mut c_void, *mut c_char);
    api_version = c"hwloc_get_api_version": () -> c_uint;
    get_support = c"hwloc_topology_get_support": (*mut c_void) -> *const [*mut u8; 3];
    depth = c"hwloc_topology_get_depth": (*const c_void) -> c_int;
    kind_at = c"hwloc_get_depth_type": (*const c_void, c_int) -> c_int;
    count_at = c"hwloc_get_nbobjs_by_depth": (*const c_void, c_int) -> c_uint;
    object_at = c"hwloc_get_obj_by_depth": (*const c_void, c_int, c_uint) -> *const Object;
}

/// hwloc, loaded on first use and never unloaded.
static HWLOC: LazyLock<Option<Hwloc>> = LazyLock::new(Hwloc::open);

/// `HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM`: the topology in the XML is this machine's.
const IS_THIS_SYSTEM: c_ulong = 1 << 1;
/// `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`.
const KEEP_IMPORTANT: c_int = 3;
/// `HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST`.
const LEAVE_OUT: c_ulong = 1;
/// `HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V1`.
const OF_V1: c_ulong = 1;

impl Hwloc {
    /// hwloc, loaded by the first call.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if hwloc cannot be loaded.
    pub fn get() -> Result<&'static Hwloc> {
        HWLOC.as_ref().ok_or(Status::ERR_NOT_SUPPORTED)
    }

    fn open() -> Option<Hwloc> {
        // Loading makes system calls that are cancellation points. Calls that otherwise make none, for example a copy,
        // come here too, so block cancellation.
        let _uncancelled = Uncancelled::begin();
        // SAFETY: the name is a C string; hwloc's constructors have no requirements on the process.
        let library = unsafe { libc::dlopen(c"libhwloc.so.15".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        Hwloc::find(|name: &CStr| {
            // SAFETY: the library is open and is never closed.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            Some(symbol).filter(|symbol| !symbol.is_null())
        })
    }

    /// Loads a topology with its devices: from XML, or by discovery of the machine. hwloc's variables `HWLOC_XMLFILE`
    /// and `HWLOC_SYNTHETIC` replace the discovery.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if hwloc fails.
    pub fn topology(&self, xml: Option<&CStr>) -> Result<*mut c_void> {
        self.load(xml, true)
    }

    /// As [`Hwloc::topology`], with or without devices. Their discovery takes most of the time.
    fn load(&self, xml: Option<&CStr>, has_devices: bool) -> Result<*mut c_void> {
        let _uncancelled = Uncancelled::begin();
        let mut topology = ptr::null_mut();
        // SAFETY: hwloc writes the new topology to `topology`.
        if unsafe { (self.init)(&mut topology) } != 0 {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: the topology is hwloc's and not shared; the XML is a C string, and its length includes the NUL.
        let is_loaded = unsafe {
            let read = xml.is_none_or(|xml| {
                let len = xml.count_bytes() + 1;
                c_int::try_from(len).is_ok_and(|len| (self.set_xml)(topology, xml.as_ptr(), len) == 0)
            });
            let flags = if xml.is_some() { IS_THIS_SYSTEM } else { 0 };
            // hwloc's OpenGL component disturbs a program's own use of OpenGL.
            (self.set_components)(topology, LEAVE_OUT, c"gl".as_ptr());
            read && (!has_devices || (self.set_io_filter)(topology, KEEP_IMPORTANT) == 0)
                && (self.set_flags)(topology, flags) == 0
                && (self.load)(topology) == 0
        };
        if is_loaded {
            return Ok(topology);
        }
        // SAFETY: as above; there is no other reference to it.
        unsafe { (self.destroy)(topology) };
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Frees a topology.
    ///
    /// # Safety
    /// `topology` comes from hwloc and is not used any more.
    pub unsafe fn destroy_topology(&self, topology: *mut c_void) {
        // SAFETY: the caller guarantees it.
        unsafe { (self.destroy)(topology) }
    }

    /// The XML of a topology, in the form of hwloc 2 or of hwloc 1.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`.
    ///
    /// # Safety
    /// `topology` comes from hwloc.
    pub unsafe fn xml(&self, topology: *mut c_void, of_v1: bool) -> Result<CString> {
        let (mut text, mut len) = (ptr::null_mut(), 0);
        // SAFETY: the caller guarantees a topology of hwloc's; hwloc sets text and length.
        let made = unsafe { (self.export)(topology, &mut text, &mut len, if of_v1 { OF_V1 } else { 0 }) };
        if made != 0 || text.is_null() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        // SAFETY: a C string that hwloc allocated for us.
        let xml = unsafe { CStr::from_ptr(text) }.to_owned();
        // SAFETY: `text` comes from hwloc's export and is not used any more.
        unsafe { (self.free_xml)(topology, text) };
        Ok(xml)
    }

    /// hwloc's flags for the capabilities of a topology: pointer and length of the flags for discovery, processor
    /// binding and memory binding.
    ///
    /// # Safety
    /// `topology` comes from hwloc.
    unsafe fn support_of(&self, topology: *mut c_void) -> [(*mut u8, usize); 3] {
        // SAFETY: the function has no arguments.
        let found = match unsafe { (self.api_version)() } {
            ..0x2_01_00 => 3,
            0x2_01_00..0x2_04_00 => 5,
            _ => 6,
        };
        // SAFETY: the caller guarantees it.
        let [discovery, processors, memory] = unsafe { *(self.get_support)(topology) };
        [(discovery, found), (processors, 11), (memory, 15)]
    }

    /// The capability flags of a topology. Its XML does not carry them in all releases of hwloc.
    ///
    /// # Safety
    /// `topology` comes from hwloc.
    pub unsafe fn support(&self, topology: *mut c_void) -> Vec<u8> {
        // SAFETY: the caller guarantees a topology of hwloc's; its structures have these lengths.
        let parts = unsafe { self.support_of(topology).map(|(at, len)| slice::from_raw_parts(at, len)) };
        parts.concat()
    }

    /// Copies the capability flags of another topology. Does nothing if the number of flags differs, because the other
    /// one comes from another release of hwloc.
    ///
    /// # Safety
    /// `topology` comes from hwloc and no other thread uses it.
    pub unsafe fn set_support(&self, topology: *mut c_void, support: &[u8]) {
        // SAFETY: the caller guarantees it.
        let parts = unsafe { self.support_of(topology) };
        if support.len() != parts.iter().map(|(_, len)| len).sum::<usize>() {
            return;
        }
        let mut rest = support;
        for (at, len) in parts {
            // SAFETY: hwloc's structure has `len` bytes, and `rest` has at least as many.
            unsafe { at.copy_from_nonoverlapping(rest.as_ptr(), len) };
            rest = &rest[len..];
        }
    }

    /// The number of levels in the tree of a topology.
    ///
    /// # Safety
    /// `topology` comes from hwloc.
    pub unsafe fn levels(&self, topology: *const c_void) -> c_int {
        // SAFETY: the caller guarantees it.
        unsafe { (self.depth)(topology) }
    }

    /// The object type of a level.
    ///
    /// # Safety
    /// As [`Hwloc::levels`].
    pub unsafe fn kind(&self, topology: *const c_void, level: c_int) -> c_int {
        // SAFETY: the caller guarantees it.
        unsafe { (self.kind_at)(topology, level) }
    }

    /// The objects of a level, which live as long as the topology.
    ///
    /// # Safety
    /// As [`Hwloc::levels`], for `'a`.
    pub unsafe fn objects<'a>(&self, topology: *const c_void, level: c_int) -> impl Iterator<Item = &'a Object> {
        // SAFETY: the caller guarantees it.
        let count = unsafe { (self.count_at)(topology, level) };
        // SAFETY: the caller guarantees the topology; the index is below the count.
        (0..count).filter_map(move |index| unsafe { (self.object_at)(topology, level, index).as_ref() })
    }

    /// The numbers in a bitmap, which must be finite.
    ///
    /// # Safety
    /// The bitmap comes from hwloc.
    unsafe fn numbers(&self, bitmap: *const c_void) -> Vec<u32> {
        // SAFETY: the caller guarantees it.
        let next = |number: Option<c_int>| unsafe { (self.next)(bitmap, number.unwrap_or(-1)) };
        let first = Some(next(None));
        let numbers = std::iter::successors(first, |number| Some(next(Some(*number))));
        numbers.map_while(|number| u32::try_from(number).ok()).collect()
    }

    /// Whether a bitmap is full: it contains all numbers.
    ///
    /// # Safety
    /// The bitmap comes from hwloc.
    pub unsafe fn is_everything(&self, bitmap: *const c_void) -> bool {
        // SAFETY: the caller guarantees it.
        unsafe { (self.is_full)(bitmap) != 0 }
    }

    /// Whether two bitmaps intersect.
    ///
    /// # Safety
    /// The bitmaps come from hwloc.
    pub unsafe fn meet(&self, one: *const c_void, other: *const c_void) -> bool {
        // SAFETY: the caller guarantees it.
        unsafe { (self.intersects)(one, other) != 0 }
    }

    /// Whether `part` is a subset of `whole`.
    ///
    /// # Safety
    /// The bitmaps come from hwloc.
    pub unsafe fn is_within(&self, part: *const c_void, whole: *const c_void) -> bool {
        // SAFETY: the caller guarantees it.
        unsafe { (self.is_included)(part, whole) != 0 }
    }

    fn empty(&self) -> Result<*mut c_void> {
        // SAFETY: the function has no arguments; it returns a bitmap or NULL.
        let bitmap = unsafe { (self.alloc)() };
        if bitmap.is_null() { Err(Status::ERR_NOMEM) } else { Ok(bitmap) }
    }

    /// A bitmap of these numbers, which the caller owns.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn bitmap(&self, numbers: impl Iterator<Item = u32>) -> Result<*mut c_void> {
        let bitmap = self.empty()?;
        for number in numbers {
            // SAFETY: the bitmap is hwloc's and not shared.
            if unsafe { (self.set)(bitmap, number) } != 0 {
                // SAFETY: as above; there is no other reference to it.
                unsafe { (self.free)(bitmap) };
                return Err(Status::ERR_NOMEM);
            }
        }
        Ok(bitmap)
    }

    /// A bitmap of a list such as `0-3,8`, which the caller owns.
    ///
    /// # Errors
    /// `BAD_PARAM` for text that is not a list, or has too large numbers; `NOMEM`.
    pub fn parse(&self, list: &CStr) -> Result<*mut c_void> {
        if list.to_bytes().split(|byte| !byte.is_ascii_alphanumeric()).any(|number| number.len() > DIGITS_MAX) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let bitmap = self.empty()?;
        // SAFETY: the bitmap is hwloc's and not shared; the list is a C string.
        if unsafe { (self.read)(bitmap, list.as_ptr()) } != 0 {
            // SAFETY: as above; there is no other reference to it.
            unsafe { (self.free)(bitmap) };
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(bitmap)
    }

    /// The list of a bitmap.
    ///
    /// # Errors
    /// `NOMEM`.
    ///
    /// # Safety
    /// The bitmap comes from hwloc.
    pub unsafe fn list(&self, bitmap: *const c_void) -> Result<Vec<u8>> {
        // SAFETY: the caller guarantees it.
        allocated_text(|text| unsafe { (self.write)(text, bitmap) })
    }

    /// A bitmap as a number, such as `0x0000010f`.
    ///
    /// # Errors
    /// `NOMEM`.
    ///
    /// # Safety
    /// The bitmap comes from hwloc.
    pub unsafe fn mask(&self, bitmap: *const c_void) -> Result<Vec<u8>> {
        // SAFETY: the caller guarantees it.
        allocated_text(|text| unsafe { (self.write_mask)(text, bitmap) })
    }

    /// hwloc's name for the type of an object, in its longer form.
    ///
    /// # Safety
    /// `object` comes from hwloc.
    pub unsafe fn kind_name(&self, object: &Object) -> Vec<u8> {
        // SAFETY: the caller guarantees the object; hwloc writes at most `len` bytes.
        formatted_text(|at, len| unsafe { (self.say_kind)(at, len, object, 1) })
    }

    /// hwloc's text for the attributes of an object, in its longer form, with `separator` between attributes.
    ///
    /// # Safety
    /// As [`Hwloc::kind_name`].
    pub unsafe fn attributes(&self, object: &Object, separator: &CStr) -> Vec<u8> {
        // SAFETY: as in `kind_name`.
        formatted_text(|at, len| unsafe { (self.say_attributes)(at, len, object, separator.as_ptr(), 1) })
    }

    /// Frees a bitmap.
    ///
    /// # Safety
    /// The bitmap comes from hwloc and is not used any more.
    pub unsafe fn free(&self, bitmap: *mut c_void) {
        // SAFETY: the caller guarantees it.
        unsafe { (self.free)(bitmap) }
    }
}

/// Copies a text that hwloc allocates, and frees hwloc's.
///
/// # Errors
/// `NOMEM`.
fn allocated_text(make: impl FnOnce(*mut *mut c_char) -> c_int) -> Result<Vec<u8>> {
    let mut text = ptr::null_mut();
    if make(&mut text) < 0 || text.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: a C string that hwloc allocated for us.
    let made = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
    // SAFETY: hwloc allocated it with malloc, and there is no other reference to it.
    unsafe { libc::free(text.cast()) };
    Ok(made)
}

/// A text that hwloc writes into a buffer, with a NUL. As `snprintf`, `write` returns the full length.
fn formatted_text(write: impl Fn(*mut c_char, usize) -> c_int) -> Vec<u8> {
    let len = usize::try_from(write(ptr::null_mut(), 0)).unwrap_or(0);
    let mut text = vec![0; len + 1];
    write(text.as_mut_ptr().cast(), text.len());
    text.truncate(len);
    text
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use hwlocality_sys::hwloc_obj;

    use super::*;

    /// Compares the offsets of members.
    macro_rules! same_place {
        ($($ours:ident $theirs:ident),+) => {
            $(assert_eq!(offset_of!(Object, $ours), offset_of!(hwloc_obj, $theirs), stringify!($ours));)+
        };
    }

    #[test]
    fn objects_are_those_of_hwlocs_headers() {
        same_place!(kind ty, name name, attributes attr, depth depth, parent parent, arity arity, children children);
        same_place!(cpuset cpuset, infos infos, infos_count infos_count, logical_index logical_index);
    }

    #[test]
    fn kinds_and_flags_are_those_of_hwlocs_headers() {
        use hwlocality_sys::*;
        for (kind, theirs) in [
            (Kind::Package, HWLOC_OBJ_PACKAGE),
            (Kind::Core, HWLOC_OBJ_CORE),
            (Kind::Processor, HWLOC_OBJ_PU),
            (Kind::L1, HWLOC_OBJ_L1CACHE),
            (Kind::L2, HWLOC_OBJ_L2CACHE),
            (Kind::L3, HWLOC_OBJ_L3CACHE),
            (Kind::MemoryNode, HWLOC_OBJ_NUMANODE),
        ] {
            assert_eq!(kind.code(), theirs as c_int, "{kind:?}");
        }
        assert_eq!(MEMORY, HWLOC_TYPE_DEPTH_NUMANODE);
        assert_eq!(KEEP_IMPORTANT, HWLOC_TYPE_FILTER_KEEP_IMPORTANT as c_int);
        assert_eq!(IS_THIS_SYSTEM, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
        assert_eq!(OF_V1, HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V1);
    }
}
