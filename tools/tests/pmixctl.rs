//! `pmixctl` as people and scripts call it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pmix_dstore::model::{Key, Nspace, Rank, Value};
use pmix_dstore::segment::{ModexBuilder, Publisher, SegmentKind};

fn pmixctl(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pmixctl")).args(arguments).output().expect("pmixctl starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dstore/tests/data").join(name)
}

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn a_good_segment_is_printed() {
    let output = pmixctl(&[path("inspect"), &golden("job-v3.segment")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), std::fs::read_to_string(golden("job-v3.txt")).expect("the golden file"));
}

#[test]
fn json_holds_the_same() {
    let output = pmixctl(&[path("inspect"), path("--json"), &golden("modex-table-v3.segment")]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["modex"]["ranks"], 4);
    assert_eq!(report["modex"]["values by rank"]["2"]["uri"], "STRING \"tcp://2\"");
}

#[test]
fn damage_is_told_and_everything_else_too() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let file = tmp.path().join("damaged");
    let mut bytes = std::fs::read(golden("job-v3.segment")).expect("the golden file");
    // Change the creator's name: only the hashes depend on it.
    bytes[200] ^= 1;
    std::fs::write(&file, &bytes).expect("room");
    let output = pmixctl(&[path("inspect"), &file]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("content hash matches: no"), "{text}");
    assert!(text.contains("header or table of contents are damaged"), "{text}");
    assert!(text.contains("STRING \"golden.0\""), "{text}");
    assert_eq!(std::fs::read(&file).expect("the file"), bytes, "nothing was modified");
    bytes.truncate(700);
    std::fs::write(&file, &bytes).expect("room");
    let output = pmixctl(&[path("inspect"), &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("the header says"), "{output:?}");
    std::fs::write(&file, "short").expect("room");
    assert_eq!(pmixctl(&[path("inspect"), &file]).status.code(), Some(1));
    assert_eq!(pmixctl(&[path("inspect"), &tmp.path().join("nowhere")]).status.code(), Some(1));
}

#[test]
fn a_directory_is_printed_with_its_segments() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let nspace = Nspace::new("a job").expect("a short namespace");
    let mut publisher = Publisher::create(tmp.path(), &nspace, None).expect("a directory");
    let segment = |number| {
        let value = Value::Uint32(number);
        let mut builder = ModexBuilder::new(nspace.clone());
        builder.add(Rank(3), &Key::from("k"), &value).expect("a number");
        builder.finish("test").expect("a segment").into_bytes().expect("memory")
    };
    publisher.publish(SegmentKind::Modex, &segment(1)).expect("room");
    publisher.publish(SegmentKind::Modex, &segment(2)).expect("room");
    publisher.publish_replacing(SegmentKind::Modex, &segment(3), 1..=1).expect("room");
    let output = pmixctl(&[path("inspect"), publisher.directory()]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("1: modex segment-1, ") && text.contains(", replaced\n"), "{text}");
    assert!(text.contains("place 2, replaces 1 to 1, live\n"), "{text}");
    assert!(text.contains("k: Uint32(3)") && !text.contains("k: Uint32(2)"), "{text}");
    let outer = publisher.directory().parent().expect("the outer directory");
    assert_eq!(stdout(&pmixctl(&[path("inspect"), outer])), text);
    std::fs::remove_file(publisher.directory().join("segment-0")).expect("our own file");
    let output = pmixctl(&[path("inspect"), publisher.directory()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("segment-0: No such file"), "{output:?}");
}

#[test]
fn the_layout_is_printed() {
    let output = pmixctl(&[path("layout")]);
    assert_eq!(stdout(&output), std::fs::read_to_string(golden("layout-v3.txt")).expect("the golden file"));
}

#[test]
fn wrong_usage_is_told_apart_from_damage() {
    let wrong: [&[&str]; 8] = [
        &[],
        &["inspect"],
        &["explode"],
        &["inspect", "--loud", "x"],
        &["inspect", "--link", "x"],
        &["prrte", "--link", "x"],
        &["prrte", "--link", "--json"],
        &["prrte", "--stock", "x"],
    ];
    for arguments in wrong {
        let arguments: Vec<_> = arguments.iter().copied().map(path).collect();
        let arguments = &arguments[..];
        let output = pmixctl(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(pmixctl(&[path("--help")]).status.code(), Some(0));
}

/// What `pmixctl server` says with these variables, and whether it is this library.
fn server_by(variables: &[(&str, &str)]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmixctl"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PMIX_")) {
        command.env_remove(name);
    }
    let output = command.arg("server").envs(variables.iter().copied()).output().expect("pmixctl starts");
    let said = stdout(&output);
    let library = said.trim_end().split_once(": ").expect("the host and the library").1.to_owned();
    (library, output.status.success())
}

#[test]
fn a_server_is_known_by_its_own_variable() {
    let (inner, outer) = ("job.0;tcp4://127.0.0.1:4711", "around.0;tcp4://127.0.0.1:4712");
    let of_stock =
        [("PMIX_RANK", "0"), ("PMIX_SERVER_URI4", inner), ("PMIX_SERVER_URI2", inner), ("PMIX_GDS_MODULE", "hash")];
    let (ours, stock) = (("this library".to_owned(), true), ("the stock library".to_owned(), false));
    assert_eq!(server_by(&of_stock), stock);
    // Without shared memory our server offers what the stock one does.
    assert_eq!(server_by(&[&of_stock[..], &[("PMIX_DSTORE_SERVER", inner)]].concat()), ours);
    // The variable comes from a job of ours around this one.
    assert_eq!(server_by(&[&of_stock[..], &[("PMIX_DSTORE_SERVER", outer)]].concat()), stock);
    let mixed = [("PMIX_SERVER_URI41", outer), ("PMIX_DSTORE_SERVER", outer)];
    assert_eq!(server_by(&[&of_stock[..], &mixed].concat()), stock);
    assert_eq!(server_by(&[("PMIX_DSTORE_SERVER", inner)]), ("none: this is no rank".to_owned(), false));
}

#[test]
fn our_server_is_known_with_and_without_shared_memory() {
    for setting in ["1", "0"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmixrun"));
        command.args(["-n", "1", env!("CARGO_BIN_EXE_pmixctl"), "server"]).env("PMIX_DSTORE_SHM", setting);
        let output = command.output().expect("pmixrun starts");
        assert!(output.status.success() && stdout(&output).ends_with(": this library\n"), "{setting}: {output:?}");
    }
}
