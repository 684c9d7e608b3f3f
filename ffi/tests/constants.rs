//! The constants of the Rust side are those of the tables, and all of them.

mod tables;

use std::ffi::CStr;

use pmix::api::strings::{PMIx_Error_code, PMIx_Error_string, PMIx_Get_attribute_name};
use pmix_dstore::model::renamed::RENAMED;
use pmix_dstore::model::{DataType, Status, attributes, keys};

/// The newest string of an attribute: where releases differ, it is no other attribute's.
fn newest(row: &tables::Row) -> &'static str {
    tables::value_in(row[1], row[4], "master")
}

#[test]
fn statuses_are_found_by_their_names_in_the_table() {
    for row in tables::table("constants").iter().filter(|row| row[1] == "pmix_status_t") {
        assert_eq!(Status::from_name(row[0]), Some(Status(row[2].parse().unwrap())), "{}", row[0]);
    }
}

/// What a function answers for a text.
fn name_of(key: &str) -> String {
    let key = std::ffi::CString::new(key).unwrap();
    // SAFETY: a C string, and what comes back is one.
    unsafe { CStr::from_ptr(PMIx_Get_attribute_name(key.as_ptr())) }.to_str().unwrap().to_owned()
}

#[test]
fn attributes_with_two_keys_are_listed_and_both_keys_have_their_names() {
    let table = tables::table("attributes");
    let keys_of = |row: &tables::Row| -> (&'static str, Vec<&'static str>) {
        (row[1], row[4].split("; ").filter_map(|other| other.split_once(": ")).map(|(_, key)| key).collect())
    };
    let moved: Vec<&tables::Row> = table.iter().filter(|row| !row[4].is_empty()).collect();
    assert_eq!(moved.len(), RENAMED.len());
    for row in moved {
        let renamed = RENAMED.iter().find(|renamed| renamed.name == row[0]).expect("a row of RENAMED");
        let (ours, others) = keys_of(row);
        for key in [renamed.older, renamed.newer] {
            assert!(key == ours || others.contains(&key), "{renamed:?}");
        }
        assert!(others.iter().all(|key| [renamed.older, renamed.newer].contains(key)), "{renamed:?}");
        // The newer key is this attribute's alone, in every release; the older one is another one's first.
        let owners = |key: &str| -> Vec<&str> {
            let has = |row: &&tables::Row| row[1] == key || keys_of(row).1.contains(&key);
            table.iter().filter(has).map(|row| row[0]).collect()
        };
        assert_eq!(owners(renamed.newer), [renamed.name]);
        assert!(owners(renamed.older).contains(&renamed.other), "{renamed:?}");
        assert_eq!(name_of(renamed.newer), renamed.name);
        assert_eq!(name_of(renamed.older), renamed.other);
    }
    assert_eq!(name_of(keys::JOB_SIZE), "PMIX_JOB_SIZE");
    assert_eq!(name_of("no key"), "no key");
}

#[test]
fn numbers_that_statuses_have_had_are_those_of_other_statuses() {
    let table = tables::table("constants");
    let mut moved = 0;
    for row in table.iter().filter(|row| row[1] == "pmix_status_t" && !row[4].is_empty()) {
        moved += 1;
        let number: i32 = row[2].parse().unwrap();
        let name = std::ffi::CString::new(row[0]).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { PMIx_Error_code(name.as_ptr()) }, number);
        for (_, other) in row[4].split("; ").filter_map(|other| other.split_once(": ")) {
            // Two statuses cannot share a number, and the other one had it first: one that nobody had would be taken.
            let owner = table.iter().find(|row| row[1] == "pmix_status_t" && row[2] == other).expect("another one's");
            // SAFETY: what comes back is a C string.
            let said = unsafe { CStr::from_ptr(PMIx_Error_string(other.parse().unwrap())) };
            assert_eq!(said.to_str().unwrap(), owner[0]);
        }
    }
    assert_eq!(moved, 2);
}

#[test]
fn typed_attributes_are_those_of_the_table() {
    let mut typed: Vec<(&str, &str, DataType)> = attributes::ALL.to_vec();
    let codes = tables::table("constants");
    let code = |name: &str| -> u16 {
        let row = codes.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("the type {name}"));
        row[2].parse().unwrap()
    };
    let table = tables::table("attributes");
    let mut listed: Vec<_> = table.iter().map(|row| (row[0], newest(row), DataType(code(row[2])))).collect();
    typed.sort_unstable();
    listed.sort_unstable();
    assert_eq!(typed, listed);
}
