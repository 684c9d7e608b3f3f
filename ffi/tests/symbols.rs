//! The shared library exports what is in `abi/functions.tsv` and nothing else, under the stock library's name.

#[path = "../../tests/src/left_out.rs"]
mod left_out;
mod tables;

use std::path::{Path, PathBuf};
use std::process::Command;

use left_out::left_out;

/// The shared library that was built beside this test.
fn library() -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    while directory.pop() {
        let library = directory.join("libpmix.so");
        if library.exists() {
            return library;
        }
    }
    panic!("libpmix.so was not built beside the test");
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).arg(library()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn exports_are_the_listed_names() {
    let listed: Vec<&str> = tables::table("functions").iter().map(|row| row[0]).collect();
    assert!(listed.is_sorted());
    let table = output("nm", &["-D", "--defined-only"]);
    let mut exported: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    assert_eq!(exported, listed);
}

/// Debian's libabigail, which compares libraries for distributions, on what the two libraries export. Of types and
/// prototypes `headers.rs` knows more: Debian's library comes without their description.
#[test]
fn all_public_symbols_of_debians_library_are_exported() {
    let stock = Path::new("/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2");
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("libpmix.so.2");
    // Both without a description of types.
    let stripped = Command::new("strip").arg(library()).arg("-o").arg(&ours).status().unwrap();
    assert!(stripped.success());
    let compared = match Command::new("abidiff").arg(stock).arg(&ours).output() {
        Ok(compared) if stock.exists() => compared,
        _ => return left_out("packages", "Debian's libpmix2 or abigail-tools is not installed"),
    };
    // Its lowest two bits tell of wrong use and of failure.
    assert_eq!(compared.status.code().unwrap() & 3, 0, "{}", String::from_utf8_lossy(&compared.stderr));
    let report = String::from_utf8(compared.stdout).unwrap();
    let named = |mark: &str| -> Vec<&str> {
        report.lines().filter_map(|line| line.trim().strip_prefix(mark)?.split([' ', ',']).next()).collect()
    };
    assert_eq!(named("[C] "), [] as [&str; 0], "{report}");
    let mut added = named("[A] ");
    added.sort_unstable();
    let later: Vec<_> = tables::table("functions").iter().filter(|row| row[2] != "4.2.2").map(|row| row[0]).collect();
    assert_eq!(added, later);
    // docs/abi.md says what is absent.
    let document = include_str!("../../docs/abi.md");
    let absent = named("[D] ");
    let undocumented = |name: &&&str| !name.starts_with("pmix_") && !document.contains(&format!("`{name}`"));
    assert_eq!(absent.iter().filter(undocumented).collect::<Vec<_>>(), [] as [&&str; 0]);
    assert!(document.contains(&format!("{} names", absent.len())), "{} names are absent", absent.len());
}

#[test]
fn soname_is_that_of_the_stock_library() {
    let dynamic = output("readelf", &["-d"]);
    assert!(dynamic.lines().any(|line| line.contains("SONAME") && line.contains("[libpmix.so.2]")), "{dynamic}");
}

/// All else is in the file itself: no plugins, no library for compression, for events or for topologies.
#[test]
fn only_the_c_library_is_needed() {
    let dynamic = output("readelf", &["-d"]);
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let names: Vec<&str> = needed.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
    assert!(!names.is_empty(), "{dynamic}");
    let is_known =
        |name: &&&str| ["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux"].iter().any(|known| name.starts_with(known));
    assert_eq!(names.iter().filter(|name| !is_known(name)).collect::<Vec<_>>(), [] as [&&str; 0]);
}

#[test]
fn library_stays_loaded_for_its_threads() {
    let dynamic = output("readelf", &["-d"]);
    assert!(dynamic.lines().any(|line| line.contains("FLAGS_1") && line.contains("NODELETE")), "{dynamic}");
}

#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/abi.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut wanted = String::from("| name | group | since | called by |\n|---|---|---|---|\n");
    for row in tables::table("functions") {
        let (name, group, releases, callers) = (row[0], row[1], row[2], row[3]);
        wanted += &format!("| `{name}` | {group} | {releases} | {callers} |\n");
    }
    let start = document.find("| name | group |").unwrap_or(document.len());
    if std::env::var_os("PMIX_ABI_TABLE").is_some_and(|value| value == "write") {
        std::fs::write(path, format!("{}{wanted}", &document[..start])).unwrap();
    } else {
        assert!(document[start..] == wanted, "PMIX_ABI_TABLE=write writes the table anew");
    }
}
