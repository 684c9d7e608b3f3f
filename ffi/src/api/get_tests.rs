//! Directives of C code beside the same in Rust.

use pmix_client::GetOptions;
use pmix_dstore::model::{InfoFlags, Nspace, Proc, Value, keys};

use super::*;
use crate::convert::array::CArray;

#[expect(dead_code, reason = "other tests shuffle")]
#[path = "../../../tests/src/random.rs"]
mod random;
use random::Random;

fn some_info(random: &mut Random) -> Info {
    let keys = [
        keys::OPTIONAL,
        keys::IMMEDIATE,
        keys::GET_POINTER_VALUES,
        keys::GET_STATIC_VALUES,
        keys::GET_REFRESH_CACHE,
        keys::SESSION_INFO,
        keys::JOB_INFO,
        keys::APP_INFO,
        keys::NODE_INFO,
        keys::TIMEOUT,
        keys::DATA_SCOPE,
        keys::SESSION_ID,
        keys::APPNUM,
        keys::NODEID,
        keys::HOSTNAME,
        "pmix.optional.not",
        "pmix.option",
        "unknown",
    ];
    let number = random.below(1000) as u32;
    let value = match random.below(10) {
        0 => Value::Undef,
        1..4 => Value::Bool(number.is_multiple_of(2)),
        4 | 5 => Value::Uint32(number),
        6 => Value::Int64(-i64::from(number)),
        7 => Value::string(random.pick(&["", "false", "node0"])),
        8 => Value::String(None),
        _ => Value::Proc(Proc::new(Nspace::new("job").unwrap(), Rank(number))),
    };
    let flags = [0, 0, InfoFlags::REQUIRED, InfoFlags::QUALIFIER];
    Info { flags: *random.pick(&flags), ..Info::new(*random.pick(&keys), value) }
}

#[test]
fn directives_of_c_code_say_what_they_say_in_rust() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let infos: Vec<_> = (0..random.below(5)).map(|_| some_info(&mut random)).collect();
        let array = CArray::<pmix_info_t>::new(&infos).unwrap();
        // SAFETY: an array of infos.
        let directives = unsafe { CInfo::slice(array.as_ptr(), array.len()) };
        let said = GetOptions::of(directives).unwrap();
        assert_eq!(format!("{said:?}"), format!("{:?}", GetOptions::from_infos(&infos)), "{infos:?}");
        let copies: Vec<_> = directives.iter().map(|directive| directive.to_info().unwrap()).collect();
        assert_eq!(copies, infos);
    }
}

#[test]
fn a_key_without_its_nul_is_refused() {
    // SAFETY: all zero is an empty info.
    let mut info: pmix_info_t = unsafe { std::mem::zeroed() };
    info.key = [b'k'.cast_signed(); size_of::<pmix_key_t>()];
    info.flags = InfoFlags::REQUIRED;
    // SAFETY: an info.
    let directives = unsafe { CInfo::slice(&raw const info, 1) };
    assert_eq!(GetOptions::of(directives).map(drop), Err(Status::ERR_BAD_PARAM));
}
