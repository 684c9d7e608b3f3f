//! What goes into and out of jobs of Open MPI 5 and 6, with our library in daemons and ranks and in one of them, beside the stock one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pmix_tests::sides::{
    Seen, assert_as_with_stock, assert_mapped, assert_well, ends, is_beyond_stock, job, on_all_sides, with_roots,
};
use pmix_tests::{Pair, Random, Root, Traces, left_out};

/// The sum that `mpi stdin` prints of these bytes.
fn sum(bytes: &[u8]) -> u64 {
    let sum = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, sum)
}

/// Bytes of all values.
fn input(size: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    (0..size).map(|_| random.below(256) as u8).collect()
}

/// Runs a job of three ranks that read their standard input, on each side, and asserts that these ranks read all of it and the others
/// nothing.
fn assert_read(root: &Root, options: &str, input: &[u8], readers: &[usize]) {
    let all = format!("read {} bytes, sum {:016x}", input.len(), sum(input));
    let nothing = format!("read 0 bytes, sum {:016x}", sum(&[]));
    let run = |root: &Root, pair: Pair, traces: &Traces| {
        let run = root.mpirun(traces, pair).args("-np 3").args(options);
        run.args(Root::program(pair)).arg("stdin").input(input.to_owned())
    };
    for pair in Pair::all() {
        let (traces, ended) = ends(root, pair, run);
        assert_well(pair, &ended, 3);
        for rank in 0..3 {
            let wanted = if readers.contains(&rank) { &all } else { &nothing };
            assert_eq!(ended.count(&format!("rank {rank} {wanted}")), 1, "{pair}, {options}: {ended}");
        }
        traces.assert_none_left(&ended);
    }
}

#[test]
fn standard_input_of_20_mb() {
    let input = input(20_000_000);
    with_roots(|root| assert_read(root, "", &input, &[0]));
}

/// Such a program does nothing that wakes prterun: it is prterun's own `PMIx_Spawn_nb` that has to.
#[test]
fn standard_input_of_a_program_without_mpi() {
    let input = input(200_000);
    let run = |root: &Root, pair: Pair, traces: &Traces| {
        root.mpirun(traces, pair).args("-np 1 wc -c").input(input.clone()).deadline(Duration::from_secs(30))
    };
    with_roots(|root| {
        for pair in Pair::all() {
            let (traces, ended) = ends(root, pair, run);
            assert_eq!((ended.code(), ended.stdout.trim()), (0, "200000"), "{pair}: {ended}");
            traces.assert_none_left(&ended);
        }
    });
}

#[test]
fn standard_input_for_other_ranks() {
    let input = input(1_000_000);
    with_roots(|root| {
        assert_read(root, "--stdin 1", &input, &[1]);
        assert_read(root, "--stdin none", &input, &[]);
        if root.generation() == 5 {
            return left_out("stock", "--stdin all never ends with PRRTE 3.0.8, whatever the library: docs/openmpi.md");
        }
        assert_read(root, "--stdin all", &input, &[0, 1, 2]);
    });
}

#[test]
fn output_with_marks() {
    let marks =
        ["tag", "tag-detailed", "tag-fullname", "rank", "timestamp", "timestamp,tag", "xml", "merge-stderr-to-stdout"];
    for mark in marks {
        let run = |root: &Root, pair: Pair, traces: &Traces| {
            let run = root.mpirun(traces, pair).arg("--output").arg(mark).args("-np 2");
            run.args(Root::program(pair)).arg("say")
        };
        assert_as_with_stock(run, 2, |stock: &Seen| {
            let said = ["says this", "complains", " done"].map(|text| stock.count(text));
            assert_eq!((stock.code, said), (0, [2, 2, 2]), "{mark}: {stock:?}");
        });
    }
}

#[test]
fn output_of_10_mb_without_ends_of_lines() {
    on_all_sides(|root, pair| {
        if is_beyond_stock(root, pair, "10 MB without an end of a line hang") {
            return;
        }
        let traces = Traces::begin();
        let ended = job(root, pair, &traces, 2, "zeros 5000000").run();
        let zeros = ended.stdout.bytes().filter(|byte| *byte == 0).count();
        assert_eq!((ended.code(), ended.stderr.as_str(), zeros), (0, "", 10_000_000), "{pair}");
        assert_eq!(ended.count(" done"), 2, "{pair}");
        traces.assert_none_left("zeros");
    });
}

/// The files below a directory, without the number of mpirun's process in names, and their lines without those on libraries.
fn files(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).expect("a directory").flatten() {
            if entry.path().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let text = fs::read_to_string(entry.path()).expect("a file");
            let lines = text.lines().filter(|line| !line.contains(": library ")).map(str::to_owned);
            let path = entry.path();
            let name = path.strip_prefix(directory).expect("a file below it").display().to_string();
            // out.prterun-HOST-PID@1.0.stdout, prterun-HOST-PID@1/rank.0/stdout
            let (start, end) = name
                .split_once("prterun-")
                .and_then(|(start, job)| Some((start, job.split_once('@')?.1)))
                .expect(&name);
            found.insert(format!("{start}JOB@{end}"), lines.collect());
        }
    }
    found
}

/// Runs a job of two ranks whose output goes to files, on each side and with the stock library alone.
fn assert_in_files(option: &str, name: impl Fn(Pair, usize, &str) -> String) {
    with_roots(|root| {
        for pair in Pair::all().into_iter().chain([Pair::stock()]) {
            // 5.0.7 makes the first file and then fails, since it is there.
            if is_beyond_stock(root, pair, "output to files fails") {
                continue;
            }
            let (traces, ended) = ends(root, pair, |root, pair, traces| {
                let directory = traces.own().join("files");
                fs::create_dir_all(&directory).expect("a directory");
                let to =
                    format!("{option}={}", if option == "dir" { directory } else { directory.join("out") }.display());
                let run = root.mpirun(traces, pair).arg("--output").arg(to).args("-np 2");
                run.args(Root::program(pair)).arg("say")
            });
            let mut wanted = BTreeMap::new();
            for rank in 0..2 {
                let said = vec![format!("rank {rank} says this"), format!("say rank {rank} done")];
                wanted.insert(name(pair, rank, "out"), said);
                wanted.insert(name(pair, rank, "err"), vec![format!("rank {rank} complains")]);
            }
            assert_eq!(files(&traces.own().join("files")), wanted, "{pair}: {ended}");
            // Until 6.x output goes to the terminal, too.
            let shown = if root.generation() == 5 { 2 } else { 0 };
            assert_eq!((ended.code(), Seen::of(&ended).count("says this")), (0, shown), "{pair}: {ended}");
            assert_eq!(Seen::of(&ended).count("complains"), shown, "{pair}: {ended}");
            assert_mapped(pair, &ended, shown, shown);
            traces.assert_none_left(&ended);
        }
    });
}

#[test]
fn output_to_files() {
    assert_in_files("file", |pair, rank, stream| {
        let ending = if pair.server.is_ours() { format!("std{stream}") } else { stream.to_owned() };
        format!("out.JOB@1.{rank}.{ending}")
    });
}

#[test]
fn output_to_a_directory() {
    assert_in_files("dir", |_, rank, stream| format!("JOB@1/rank.{rank}/std{stream}"));
}
