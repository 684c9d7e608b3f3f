//! Every type of value goes to C code and comes back as it was.

use std::ffi::{CString, c_void};
use std::ptr;

use pmix::api::helpers::{PMIx_Data_copy, PMIx_Info_load, PMIx_Info_xfer, PMIx_Value_load, PMIx_Value_unload};
use pmix::api::info_list::{
    PMIx_Info_list_add, PMIx_Info_list_convert, PMIx_Info_list_insert, PMIx_Info_list_release, PMIx_Info_list_start,
};
use pmix::api::loading::PMIx_Data_array_construct;
use pmix::api::server::{PMIx_generate_regex2, PMIx_parse_regex2};
use pmix::convert::array::{self, CArray};
use pmix::convert::object::{Object, destroy_any, element_size, read_any, write_any};
use pmix::convert::{text, value};
use pmix::memory::{free, zeroed};
use pmix::types::*;
use pmix_dstore::codec::ValueRef;
use pmix_dstore::model::{
    App, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags,
    Key, NetStats, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Regattr, Status, Value,
};

fn c(text: &str) -> Option<CString> {
    Some(CString::new(text).unwrap())
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job.1").unwrap(), Rank(rank))
}

/// One value of every type that a value can hold.
fn values() -> Vec<Value> {
    let info = Info::new("some.key", Value::Uint16(9));
    let coord = Coord { view: 1, coords: vec![3, 4, 5] };
    let disk = DiskStats { disk: c("sda"), counts: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] };
    let net = NetStats { interface: c("eth0"), counts: [1, 2, 3, 4, 5, 6] };
    let mut values = vec![
        Value::Undef,
        Value::Bool(true),
        Value::Byte(0xfe),
        Value::String(c("a string")),
        Value::String(c("")),
        Value::String(None),
        Value::Size(1 << 40),
        Value::Pid(-4),
        Value::Int(-5),
        Value::Int8(-6),
        Value::Int16(-7),
        Value::Int32(-8),
        Value::Int64(-9),
        Value::Uint(u32::MAX),
        Value::Uint8(255),
        Value::Uint16(65535),
        Value::Uint32(7),
        Value::Uint64(u64::MAX),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Timeval { sec: 10, usec: 20 },
        Value::Time(99),
        Value::Status(Status::ERR_TIMEOUT),
        Value::Rank(Rank::WILDCARD),
        Value::Proc(proc(3)),
        Value::ProcNspace(Nspace::new("n".repeat(255)).unwrap()),
        Value::ByteObject(vec![0, 1, 2].into()),
        Value::ByteObject(Vec::new().into()),
        Value::CompressedString(vec![1].into()),
        Value::CompressedByteObject(vec![2].into()),
        Value::Regex(b"raw:a,b\0".to_vec().into()),
        Value::DataBuffer(vec![7; 9].into()),
        Value::Pointer(0x1234),
        Value::Envar(Envar { name: c("PATH"), value: c("/bin"), separator: b':' }),
        Value::ProcInfo(Box::new(ProcInfo {
            proc: proc(1),
            hostname: c("n1"),
            executable: None,
            pid: 12,
            exit_code: -1,
            state: 5,
        })),
        Value::Regattr(Box::new(Regattr {
            name: c("PMIX_X"),
            key: Key::from("pmix.x"),
            ty: DataType::INT,
            description: vec![c("one").unwrap(), c("two").unwrap()],
        })),
        Value::Coord(Box::new(coord.clone())),
        Value::Geometry(Box::new(Geometry {
            fabric: 2,
            uuid: c("u"),
            osname: None,
            coordinates: vec![coord.clone(), Coord { view: 2, coords: Vec::new() }],
        })),
        Value::DeviceDistance(Box::new(DeviceDistance { uuid: c("u"), osname: c("eth0"), ty: 4, min: 1, max: 9 })),
        Value::Device(Box::new(Device { uuid: c("u"), osname: c("eth0"), ty: 4 })),
        Value::Endpoint(Box::new(Endpoint { uuid: c("u"), osname: c("eth0"), bytes: vec![9, 8] })),
        Value::Cpuset { source: c("hwloc"), list: c("0-3,8") },
        Value::Cpuset { source: c("hwloc"), list: None },
        Value::ResourceUnit { ty: 3, count: 4 },
        Value::NodePid { hostname: c("n1"), nodeid: 1, pid: 2 },
        Value::Regex2 { ty: c("zlib"), bytes: vec![1, 0, 2] },
        Value::ProcStats(Box::new(ProcStats {
            node: c("n1"),
            proc: proc(3),
            pid: 7,
            cmd: c("true"),
            state: b'R',
            time: (1, 2),
            percent_cpu: 0.5,
            priority: -1,
            num_threads: 4,
            pss: 1.0,
            vsize: 2.0,
            rss: 3.0,
            peak_vsize: 4.0,
            processor: 9,
            sample_time: (3, 4),
        })),
        Value::DiskStats(Box::new(disk.clone())),
        Value::NetStats(Box::new(net.clone())),
        Value::NodeStats(Box::new(NodeStats {
            node: None,
            amounts: [1.5; 11],
            sample_time: (5, 6),
            disks: vec![disk; 2],
            interfaces: vec![net],
        })),
        Value::DataArray(Box::new(DataArray { ty: DataType::UNDEF, items: Vec::new() })),
        Value::infos([info.clone(), Info { flags: InfoFlags::REQUIRED, ..info }]),
    ];
    for code in [
        DataType::PERSIST,
        DataType::SCOPE,
        DataType::DATA_RANGE,
        DataType::PROC_STATE,
        DataType::JOB_STATE,
        DataType::LINK_STATE,
        DataType::ALLOC_DIRECTIVE,
        DataType::DEVTYPE,
        DataType::LOCTYPE,
        DataType::STOR_MEDIUM,
        DataType::STOR_ACCESS,
        DataType::STOR_PERSIST,
        DataType::STOR_ACCESS_TYPE,
    ] {
        values.push(Value::Code { ty: code, bits: 3 });
    }
    values
}

/// Values that only arrays can hold, beside those of [`values`].
fn elements() -> Vec<Value> {
    let mut elements: Vec<Value> = values().into_iter().filter(|value| *value != Value::Undef).collect();
    elements.push(Value::Value(Box::new(Value::String(c("inside")))));
    elements.push(Value::Pdata(Box::new(Pdata { proc: proc(2), key: Key::from("k"), value: Value::Int(1) })));
    elements.push(Value::App(Box::new(App {
        cmd: c("/bin/true"),
        argv: vec![c("true").unwrap(), c("-x").unwrap()],
        env: vec![c("A=1").unwrap()],
        cwd: None,
        maxprocs: 4,
        infos: vec![Info::new("pmix.wdir", Value::string("/tmp"))],
    })));
    elements.push(Value::Query(Box::new(Query {
        keys: vec![c("pmix.qry.jobs").unwrap()],
        qualifiers: vec![Info::new("q", Value::Bool(false))],
    })));
    elements
}

#[test]
fn values_come_back() {
    for original in values() {
        let array = CArray::<pmix_value_t>::new(std::slice::from_ref(&original)).unwrap();
        // SAFETY: the array was just written.
        unsafe {
            assert_eq!(pmix_value_t::read(array.as_ptr()).unwrap(), original);
            assert_eq!((*array.as_ptr()).type_, original.data_type().0);
        }
    }
}

#[test]
fn borrowed_values_are_the_same() {
    for original in values() {
        let array = CArray::<pmix_value_t>::new(std::slice::from_ref(&original)).unwrap();
        // SAFETY: the array was just written and is not changed.
        let borrowed = unsafe { value::borrow(array.as_ptr()) };
        match ValueRef::from(&original) {
            ValueRef::Owned(_) => assert_eq!(borrowed, None, "{original:?}"),
            ValueRef::Bytes { ty: DataType::DATA_BUFFER, .. } => assert_eq!(borrowed, None),
            expected => assert_eq!(borrowed, Some(expected)),
        }
        let copy = value::allocate_ref(ValueRef::from(&original)).unwrap();
        // SAFETY: the copy was just written and is freed once.
        unsafe {
            assert_eq!(pmix_value_t::read(copy).unwrap(), original);
            array::free_array(copy, 1);
        }
    }
}

#[test]
fn arrays_of_every_type_come_back() {
    // Maps in an array have no form that all releases agree on.
    for element in elements().into_iter().filter(|element| element.data_type() != DataType::REGEX) {
        let items = vec![element.clone(), element.clone(), element.clone()];
        let original = Value::DataArray(Box::new(DataArray { ty: element.data_type(), items }));
        let nested = Value::DataArray(Box::new(DataArray { ty: DataType::DATA_ARRAY, items: vec![original.clone()] }));
        for original in [original, nested] {
            let array = CArray::<pmix_value_t>::new(std::slice::from_ref(&original)).unwrap();
            // SAFETY: the array was just written.
            assert_eq!(unsafe { pmix_value_t::read(array.as_ptr()) }.unwrap(), original);
        }
    }
}

#[test]
fn arrays_of_maps_are_refused_unread() {
    let items = vec![Value::Regex(b"raw:a,b\0".to_vec().into())];
    let original = Value::DataArray(Box::new(DataArray { ty: DataType::REGEX, items }));
    let refused = CArray::<pmix_value_t>::new(&[original]);
    assert_eq!(refused.err(), Some(Status::ERR_UNKNOWN_DATA_TYPE));
    // Two elements of neither form: whoever reads them crashes.
    let mut elements = [usize::MAX; 4];
    let mut array = pmix_data_array_t { type_: DataType::REGEX.0, size: 2, array: elements.as_mut_ptr().cast() };
    let at = (&raw mut array).cast::<c_void>();
    // SAFETY: the array is initialised, and made anew.
    unsafe {
        let unknown = Status::ERR_UNKNOWN_DATA_TYPE;
        assert_eq!(read_any(DataType::DATA_ARRAY, at).err(), Some(unknown));
        let mut copy = ptr::null_mut();
        assert_eq!(PMIx_Data_copy(&raw mut copy, at, DataType::DATA_ARRAY.0), unknown.0);
        PMIx_Data_array_construct(&raw mut array, 3, DataType::REGEX.0);
        assert_eq!((array.size, array.array), (0, ptr::null_mut()));
    }
}

#[test]
fn mixed_arrays_are_refused_and_leave_nothing() {
    let items = vec![Value::String(c("x")), Value::Int(1)];
    let original = Value::DataArray(Box::new(DataArray { ty: DataType::STRING, items }));
    let refused = CArray::<pmix_value_t>::new(&[original]);
    assert_eq!(refused.err(), Some(Status::ERR_TYPE_MISMATCH));
}

#[test]
fn objects_have_the_size_of_their_elements() {
    for element in elements() {
        let ty = element.data_type();
        let at = zeroed::<u8>(element_size(ty).unwrap()).unwrap().cast::<c_void>();
        // SAFETY: there is room for one object, which is written, read and destroyed.
        unsafe {
            write_any(&element, at).unwrap();
            assert_eq!(read_any(ty, at).unwrap(), element);
            let mut copy = ptr::null_mut();
            if ty == DataType::REGEX {
                // The text is itself the object, and so is its copy.
                assert_eq!(PMIx_Data_copy(&raw mut copy, at.cast::<*mut c_void>().read(), ty.0), 0);
                assert_eq!(read_any(ty, (&raw const copy).cast()).unwrap(), element);
                free(copy);
            } else if ty != DataType::STRING {
                assert_eq!(PMIx_Data_copy(&raw mut copy, at, ty.0), 0, "{element:?}");
                assert_eq!(read_any(ty, copy).unwrap(), element);
                destroy_any(ty, copy);
                free(copy);
            }
            destroy_any(ty, at);
            free(at);
        }
    }
}

#[test]
fn loading_copies_and_unloading_gives_back() {
    for original in values() {
        let ty = original.data_type();
        if matches!(ty, DataType::UNDEF | DataType::STRING | DataType::POINTER) {
            continue;
        }
        let at = zeroed::<u8>(element_size(ty).unwrap()).unwrap().cast::<c_void>();
        // SAFETY: one object, loaded into a value and unloaded from it, all freed.
        unsafe {
            write_any(&original, at).unwrap();
            let mut loaded: pmix_value_t = std::mem::zeroed();
            // A map is loaded from its text.
            let source = if ty == DataType::REGEX { at.cast::<*const c_void>().read() } else { at };
            assert_eq!(PMIx_Value_load(&raw mut loaded, source, ty.0), 0);
            destroy_any(ty, at);
            assert_eq!(pmix_value_t::read(&raw const loaded).unwrap(), original);
            let (mut data, mut size) = (at, 0);
            assert_eq!(PMIx_Value_unload(&raw mut loaded, &raw mut data, &raw mut size), 0, "{original:?}");
            let in_place = ty.scalar_width().is_some() || matches!(ty, DataType::TIMEVAL | DataType::PROC);
            assert_eq!(data == at, in_place, "{original:?}");
            let shared = matches!(
                ty,
                DataType::BYTE_OBJECT
                    | DataType::REGEX
                    | DataType::COMPRESSED_STRING
                    | DataType::COMPRESSED_BYTE_OBJECT
            );
            if !shared {
                // Of a namespace it is the length of the text.
                assert!(element_size(ty) == Some(size) || ty == DataType::PROC_NSPACE, "{original:?}");
                assert_eq!(read_any(ty, data).unwrap(), original);
                if data != at {
                    destroy_any(ty, data);
                    free(data);
                }
            }
            free(at);
            pmix_value_t::destroy(&raw mut loaded);
        }
    }
}

#[test]
fn maps_are_loaded_from_their_text() {
    let blob = b"blob:\0component=zlib:\0size=4:\0\0\x01\0\x02".as_slice();
    for (map, len) in [
        (b"pmix[n[3:1-4]]\0".as_slice(), 15),
        (b"\0", 1),
        (b"blob\0", 5),
        (b"blob:\0component=zlib:\0size=4:\0\0\x01\0\x02rest\0", blob.len()),
        (b"blob:\0component=lz4:\0size=4:\0abcd", 6),
        (b"blob:\0component=zlib:\0size=none:\0abcd", 33),
    ] {
        // SAFETY: a value of our own, loaded from one of the forms that maps have, and freed.
        unsafe {
            let mut loaded: pmix_value_t = std::mem::zeroed();
            assert_eq!(PMIx_Value_load(&raw mut loaded, map.as_ptr().cast(), DataType::REGEX.0), 0);
            assert_eq!(pmix_value_t::read(&raw const loaded).unwrap(), Value::Regex(map[..len].to_vec().into()));
            pmix_value_t::destroy(&raw mut loaded);
        }
    }
}

#[test]
fn null_loads_are_empty_and_directives_true() {
    // SAFETY: values of our own; NULL data is allowed.
    unsafe {
        let mut loaded: pmix_value_t = std::mem::zeroed();
        assert_eq!(PMIx_Value_load(&raw mut loaded, ptr::null(), DataType::BOOL.0), 0);
        assert_eq!(pmix_value_t::read(&raw const loaded).unwrap(), Value::Bool(true));
        assert_eq!(PMIx_Value_load(&raw mut loaded, ptr::null(), DataType::STRING.0), 0);
        assert_eq!(pmix_value_t::read(&raw const loaded).unwrap(), Value::String(None));
        assert_eq!(PMIx_Value_load(&raw mut loaded, ptr::null(), DataType::PROC.0), 0);
        assert_eq!(pmix_value_t::read(&raw const loaded).unwrap(), Value::Undef);
        pmix_value_t::destroy(&raw mut loaded);
        assert_eq!(PMIx_Value_load(ptr::null_mut(), ptr::null(), DataType::BOOL.0), Status::ERR_BAD_PARAM.0);
    }
}

#[test]
fn keys_are_read_to_their_nul_and_no_further() {
    // The page behind the string cannot be read.
    // SAFETY: two fresh pages, the second of which is closed; the string ends with the first one.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = libc::mmap(ptr::null_mut(), 2 * page, protection, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(base.byte_add(page), page, libc::PROT_NONE), 0);
        let key = base.byte_add(page - 4).cast::<u8>();
        key.copy_from_nonoverlapping(c"key".as_ptr().cast(), 4);
        assert_eq!(text::key_text(key.cast()), Ok(&b"key"[..]));
        assert_eq!(text::nspace_text(key.cast()), Ok(&b"key"[..]));
        libc::munmap(base, 2 * page);
    }
    let long = CString::new("k".repeat(512)).unwrap();
    // SAFETY: a C string of our own.
    unsafe {
        assert_eq!(text::key_text(long.as_ptr()), Err(Status::ERR_BAD_PARAM));
        assert_eq!(text::key_text(ptr::null()), Err(Status::ERR_BAD_PARAM));
        assert_eq!(text::key_text(long.as_ptr().add(1)).map(<[u8]>::len), Ok(511));
        assert_eq!(text::nspace_text(long.as_ptr().add(256)), Err(Status::ERR_BAD_PARAM));
    }
}

#[test]
fn infos_are_loaded_and_copied() {
    let long = CString::new("k".repeat(700)).unwrap();
    // SAFETY: infos of our own, loaded before they are read, each destroyed once.
    unsafe {
        let mut info: pmix_info_t = std::mem::zeroed();
        (&raw mut info).write_bytes(0xff, 1);
        assert_eq!(PMIx_Info_load(&raw mut info, long.as_ptr(), c"text".as_ptr().cast(), DataType::STRING.0), 0);
        let read = pmix_info_t::read(&raw const info).unwrap();
        assert_eq!((read.key.as_bytes().len(), read.flags), (511, 0));
        assert_eq!(read.value, Value::String(c("text")));
        info.flags = InfoFlags::REQUIRED;
        let mut copy: pmix_info_t = std::mem::zeroed();
        assert_eq!(PMIx_Info_xfer(&raw mut copy, &raw const info), 0);
        assert_eq!(pmix_info_t::read(&raw const copy).unwrap(), Info { flags: InfoFlags::REQUIRED, ..read });
        pmix_info_t::destroy(&raw mut copy);
        // A persistent info shares its value, and destroying it leaves the value to its owner.
        info.flags = InfoFlags::PERSISTENT;
        assert_eq!(PMIx_Info_xfer(&raw mut copy, &raw const info), 0);
        assert_eq!(copy.value.data.pointer, info.value.data.pointer);
        pmix_info_t::destroy(&raw mut copy);
        info.flags = 0;
        pmix_info_t::destroy(&raw mut info);
    }
}

#[test]
fn info_lists_grow_and_convert() {
    // SAFETY: a list of our own; the array it gives is freed once.
    unsafe {
        let list = PMIx_Info_list_start();
        let mut array: pmix_data_array_t = std::mem::zeroed();
        assert_eq!(PMIx_Info_list_convert(list, &raw mut array), Status::ERR_EMPTY.0);
        let number = 5_i32;
        let data = (&raw const number).cast();
        assert_eq!(PMIx_Info_list_add(list, c"a".as_ptr(), data, DataType::INT.0), 0);
        let mut info: pmix_info_t = std::mem::zeroed();
        assert_eq!(PMIx_Info_load(&raw mut info, c"b".as_ptr(), c"v".as_ptr().cast(), DataType::STRING.0), 0);
        assert_eq!(PMIx_Info_list_insert(list, &raw mut info), 0);
        assert_eq!(PMIx_Info_list_convert(list, &raw mut array), 0);
        let converted = Value::DataArray(Box::new(pmix_data_array_t::read(&raw const array).unwrap()));
        let infos: Vec<&Info> = converted.iter_infos().collect();
        assert_eq!(infos[0], &Info::new("a", Value::Int(5)));
        assert_eq!(infos[1], &Info::new("b", Value::String(c("v"))));
        pmix_data_array_t::destroy(&raw mut array);
        pmix_info_t::destroy(&raw mut info);
        PMIx_Info_list_release(list);
        assert_eq!(PMIx_Info_list_add(list, c"a".as_ptr(), data, DataType::INT.0), Status::ERR_BAD_PARAM.0);
    }
}

#[test]
fn lists_take_the_second_form_and_come_back() {
    // SAFETY: each pointer is to what the function wants, or NULL where it must refuse that; what is handed out is freed once.
    unsafe {
        let mut regex: pmix_regex2_t = std::mem::zeroed();
        let mut text = ptr::null_mut();
        assert_eq!(PMIx_generate_regex2(c"n1,n2".as_ptr(), ptr::null_mut(), 0, &raw mut regex), 0);
        assert_eq!((text::string(regex.type_), regex.len), (Some(c"raw"), 6));
        assert_eq!(PMIx_parse_regex2(&raw const regex, ptr::null_mut(), 0, &raw mut text), 0);
        assert_eq!(text::string(text), Some(c"n1,n2"));
        free(text);
        *regex.type_ = b'?'.cast_signed();
        let other = PMIx_parse_regex2(&raw const regex, ptr::null_mut(), 0, &raw mut text);
        assert_eq!(other, Status::ERR_NOT_SUPPORTED.0);
        pmix_regex2_t::destroy(&raw mut regex);
        for status in [
            PMIx_generate_regex2(ptr::null(), ptr::null_mut(), 0, &raw mut regex),
            PMIx_generate_regex2(c"n1".as_ptr(), ptr::null_mut(), 0, ptr::null_mut()),
            PMIx_parse_regex2(ptr::null(), ptr::null_mut(), 0, &raw mut text),
            PMIx_parse_regex2(&raw const regex, ptr::null_mut(), 0, ptr::null_mut()),
        ] {
            assert_eq!(status, Status::ERR_BAD_PARAM.0);
        }
    }
}
