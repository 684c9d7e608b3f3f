//! Packing for C code gives the bytes of release 4.2 and takes them back.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pmix::api::buffer::{PMIx_Data_pack, PMIx_Data_print, PMIx_Data_unpack};
use pmix::api::helpers::{PMIx_Data_copy_payload, PMIx_Data_embed, PMIx_Data_load, PMIx_Data_unload};
use pmix::api::server::{PMIx_server_finalize, PMIx_server_init};
use pmix::convert::object::Object;
use pmix::memory::free;
use pmix::types::*;
use pmix_dstore::model::{DataType, Status};

fn empty() -> pmix_data_buffer_t {
    // SAFETY: all zero is an empty buffer.
    unsafe { std::mem::zeroed() }
}

fn bytes(buffer: &pmix_data_buffer_t) -> Vec<u8> {
    // SAFETY: a buffer of this test.
    unsafe { pmix_data_buffer_t::read(buffer) }.unwrap().to_vec()
}

fn pack<T>(buffer: &mut pmix_data_buffer_t, items: &[T], ty: DataType) -> i32 {
    // SAFETY: the items are of the type's C form.
    unsafe { PMIx_Data_pack(ptr::null(), buffer, items.as_ptr().cast_mut().cast(), items.len() as i32, ty.0) }
}

/// These bytes are what 4.2.2 packs of texts and of an array of texts.
unsafe fn maps_are_packed_as_texts() {
    // SAFETY: objects of this test throughout; what is given away is freed.
    unsafe {
        let mut buffer = empty();
        let maps = [c"raw:a,b".as_ptr(), c"pmix[n[3:1-4]]".as_ptr()];
        assert_eq!(pack(&mut buffer, &maps, DataType::REGEX), 0);
        assert_eq!(bytes(&buffer), *b"\x04raw:a,b\0pmix[n[3:1-4]]\0");
        // Whoever writes more than a pointer for each map writes over what lies behind.
        let mut places = [ptr::null_mut::<c_char>(), ptr::null_mut(), ptr::without_provenance_mut(7)];
        let mut count = 2;
        let room: *mut c_void = places.as_mut_ptr().cast();
        assert_eq!(PMIx_Data_unpack(ptr::null(), &mut buffer, room, &mut count, DataType::REGEX.0), 0);
        assert_eq!((count, places[2].addr()), (2, 7));
        assert_eq!((CStr::from_ptr(places[0]), CStr::from_ptr(places[1])), (c"raw:a,b", c"pmix[n[3:1-4]]"));
        places[..2].iter().for_each(|text| free(*text));
        pmix_data_buffer_t::destroy(&mut buffer);

        let array = pmix_data_array_t { type_: DataType::REGEX.0, size: 2, array: maps.as_ptr().cast_mut().cast() };
        assert_eq!(pack(&mut buffer, &[array], DataType::DATA_ARRAY), 0);
        assert_eq!(bytes(&buffer), *b"\x02\x31\x02raw:a,b\0pmix[n[3:1-4]]\0");
        pmix_data_buffer_t::destroy(&mut buffer);
        assert_eq!(pack(&mut buffer, &[ptr::null::<c_char>()], DataType::REGEX), Status::ERR_BAD_PARAM.0);

        let mut text = ptr::null_mut();
        let source = maps[1].cast_mut().cast();
        assert_eq!(PMIx_Data_print(&mut text, ptr::null_mut(), source, DataType::REGEX.0), 0);
        assert_eq!(CStr::from_ptr(text), c" Data type: PMIX_REGEX\tName: pmix[n[3:1-4]]");
        free(text);
    }
}

/// A caller may give the buffer's own memory as the destination.
///
/// # Safety
/// The library is initialised.
unsafe fn bytes_are_unpacked_into_their_buffer() {
    // SAFETY: a buffer of this function, which has room for what it holds.
    unsafe {
        let mut buffer = empty();
        assert_eq!(pack(&mut buffer, b"abcdef", DataType::BYTE), 0);
        let mut count = 6;
        let start = buffer.base_ptr;
        assert_eq!(PMIx_Data_unpack(ptr::null(), &mut buffer, start.cast(), &mut count, DataType::BYTE.0), 0);
        assert_eq!((count, &bytes(&buffer)[..6]), (6, &b"abcdef"[..]));
        pmix_data_buffer_t::destroy(&mut buffer);
    }
}

// One test: there is one server in a process.
#[test]
fn objects_are_packed_as_by_the_stock_library() {
    // SAFETY: objects of this test throughout; what is given away is freed.
    unsafe {
        let mut buffer = empty();
        assert_eq!(pack(&mut buffer, &[1_i32], DataType::INT32), Status::ERR_INIT.0);
        assert_eq!(PMIx_server_init(ptr::null_mut(), ptr::null_mut(), 0), 0);

        // These bytes are what 4.2.2 packs.
        assert_eq!(pack(&mut buffer, &[1_i32, -2, 300], DataType::INT32), 0);
        assert_eq!(bytes(&buffer), [6, 2, 3, 0xd8, 4]);
        let strings = [c"hello".as_ptr(), ptr::null()];
        assert_eq!(pack(&mut buffer, &strings, DataType::STRING), 0);
        assert_eq!(bytes(&buffer)[5..], *b"\x04\x0chello\0\0");
        assert_eq!(pack(&mut buffer, &[1.5_f64], DataType::DOUBLE), 0);
        assert_eq!(bytes(&buffer)[14..], *b"\x02\x121.500000\0");
        assert_eq!(pack(&mut buffer, &[0_u8], DataType(499)), Status::ERR_UNKNOWN_DATA_TYPE.0);

        let mut numbers = [9_i32; 4];
        let mut count = 2;
        let room: *mut c_void = numbers.as_mut_ptr().cast();
        let int32 = DataType::INT32.0;
        let full = PMIx_Data_unpack(ptr::null(), &mut buffer, room, &mut count, int32);
        assert_eq!((full, count, numbers), (Status::ERR_UNPACK_INADEQUATE_SPACE.0, 2, [1, -2, 9, 9]));
        count = 4;
        assert_eq!(PMIx_Data_unpack(ptr::null(), &mut buffer, room, &mut count, int32), 0);
        assert_eq!((count, numbers), (3, [1, -2, 300, 9]));

        // What has not been unpacked moves on; what has been does not.
        let mut copy = empty();
        assert_eq!(PMIx_Data_copy_payload(&mut copy, &mut buffer), 0);
        assert_eq!(bytes(&copy), bytes(&buffer)[5..]);
        let mut payload = pmix_byte_object_t { bytes: ptr::null_mut(), size: 0 };
        assert_eq!(PMIx_Data_unload(&mut copy, &mut payload), 0);
        assert_eq!((payload.size, copy.base_ptr), (20, ptr::null_mut()));
        assert_eq!(PMIx_Data_embed(&mut copy, &payload), 0);
        assert_eq!(bytes(&copy), pmix_byte_object_t::read(&payload).unwrap().to_vec());
        assert_eq!(PMIx_Data_load(&mut copy, &mut payload), 0);
        assert_eq!((copy.bytes_used, payload.size), (20, 0));

        let mut texts: [*mut c_char; 2] = [ptr::null_mut(); 2];
        count = 2;
        let room: *mut c_void = texts.as_mut_ptr().cast();
        assert_eq!(PMIx_Data_unpack(ptr::null(), &mut copy, room, &mut count, DataType::STRING.0), 0);
        assert_eq!((count, CStr::from_ptr(texts[0]), texts[1]), (2, c"hello", ptr::null_mut()));
        free(texts[0]);
        let mut double = 0_f64;
        count = 1;
        let room: *mut c_void = (&raw mut double).cast();
        assert_eq!(PMIx_Data_unpack(ptr::null(), &mut copy, room, &mut count, DataType::DOUBLE.0), 0);
        assert_eq!((count, double), (1, 1.5));
        let ended = PMIx_Data_unpack(ptr::null(), &mut copy, room, &mut count, DataType::DOUBLE.0);
        assert_eq!((ended, count), (Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER.0, 0));

        let mut text = ptr::null_mut();
        let mut number = 5_i32;
        let source: *mut c_void = (&raw mut number).cast();
        assert_eq!(PMIx_Data_print(&mut text, c"pre ".as_ptr().cast_mut(), source, DataType::INT.0), 0);
        assert_eq!(CStr::from_ptr(text), c"pre Data type: PMIX_INT\tValue: 5");
        free(text);

        maps_are_packed_as_texts();
        bytes_are_unpacked_into_their_buffer();
        pmix_data_buffer_t::destroy(&mut buffer);
        pmix_data_buffer_t::destroy(&mut copy);
        assert_eq!(PMIx_server_finalize(), 0);
    }
}
