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
    let output = pmixctl(&[path("inspect"), &golden("job-v2.segment")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), std::fs::read_to_string(golden("job-v2.txt")).expect("the golden file"));
}

#[test]
fn json_holds_the_same() {
    let output = pmixctl(&[path("inspect"), path("--json"), &golden("modex-table-v2.segment")]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["modex"]["ranks"], 4);
    assert_eq!(report["modex"]["values by rank"]["2"]["uri"], "STRING \"tcp://2\"");
}

#[test]
fn damage_is_told_and_everything_else_too() {
    let tmp = tempfile::tempdir().expect("a temporary directory");
    let file = tmp.path().join("damaged");
    let mut bytes = std::fs::read(golden("job-v2.segment")).expect("the golden file");
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
    assert_eq!(stdout(&output), std::fs::read_to_string(golden("layout-v2.txt")).expect("the golden file"));
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
