//! `pmixbench`: figures of each library under each launcher, and the page of figures in a browser.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use nix::unistd::geteuid;
use pmix_tests::{Cluster, Ended, Library, Pair, ROOT, Run, Traces, left_out, pmixrun, release_of, repository};
use serde_json::Value;

fn pmixbench() -> PathBuf {
    pmixrun().with_file_name("pmixbench")
}

/// So many that a single one does not decide the last percentile, and not more.
const GET: &str = "get --samples 1000 --time 60 --sizes 64,2048";

/// The same with one size.
const GET_SMALL: &str = "get --samples 1000 --time 60 --sizes 64";

/// What the commands are called with, and the classes and sizes that must be there.
const COMMANDS: [(&str, &[(&str, u64)]); 4] = [
    (GET, &[("job", 0), ("own", 64), ("node-peer", 64), ("own", 2048), ("node-peer", 2048), ("missing", 0)]),
    (
        "wireup --keys 2",
        &[("init", 0), ("publish", 0), ("first-fence", 0), ("read", 0), ("total", 0), ("processor-time", 0)],
    ),
    ("fence --rounds 100 --sizes 0,64", &[("fence", 0), ("collecting-fence", 64)]),
    ("memory", &[("open", 0), ("init", 0), ("publish", 0), ("first-fence", 0), ("read", 0), ("with-shared", 0)]),
];

/// The document of a job that has ended.
fn document(ended: &Ended) -> Value {
    // On a busy machine a run may take so long that it says what it does.
    let is_progress = |line: &str| line.starts_with("pmixbench: ") && line.contains(" s: ");
    assert!(ended.code() == 0 && ended.stderr.lines().all(is_progress), "{ended}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

/// The kinds of an array of figures, in order.
fn kinds<'a>(figures: &'a Value) -> Vec<(&'a str, u64)> {
    let kind = |figure: &'a Value| (figure["class"].as_str().expect("a class"), figure["size"].as_u64().unwrap_or(0));
    figures.as_array().expect("figures").iter().map(kind).collect()
}

/// Quantiles of a rank's figure are in order, those that few samples do not have are missing.
fn assert_in_order(figure: &Value, samples: u64) {
    assert_eq!(figure["samples"], samples, "{figure}");
    assert!(figure["batch"].as_u64() >= Some(1), "{figure}");
    let quantiles = ["p50", "p99", "p99_9", "most"].map(|name| figure[name].as_f64());
    let is_there = [true, samples >= 100, samples >= 1000, true];
    assert_eq!(quantiles.map(|figure| figure.is_some()), is_there, "{figure}");
    assert!(quantiles.iter().flatten().is_sorted(), "{figure}");
}

/// Asserts that the document is that of `size` ranks with a library, whose file is this one, and has figures of all classes that can be.
fn assert_sane(
    document: &Value,
    (args, classes): (&str, &[(&str, u64)]),
    (size, nodes): (usize, u64),
    (library, file): (Library, &Path),
) {
    let command = args.split(' ').next().expect("a command");
    assert_eq!((&document["command"], &document["format"]), (&command.into(), &1.into()), "{document}");
    assert_eq!((&document["ranks"], &document["nodes"]), (&size.into(), &nodes.into()), "{document}");
    for name in ["date", "program", "launcher", "server"] {
        assert!(document[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {document}");
    }
    assert!(document["machine"]["processors"].as_u64() >= Some(1), "{document}");
    assert_eq!(kinds(&document["figures"]), classes, "{document}");
    let samples = match command {
        "get" => 1000,
        "fence" => 100,
        _ => 1,
    };
    let ranks = document["by_rank"].as_array().expect("ranks");
    assert_eq!(ranks.len(), size, "{document}");
    for (number, rank) in ranks.iter().enumerate() {
        assert_eq!(rank["rank"], number, "{rank}");
        assert!(library.is_named_in(rank["version"].as_str().expect("a version")), "{rank}");
        assert_eq!(Path::new(rank["path"].as_str().expect("a path")), file, "{rank}");
        assert_eq!(kinds(&rank["figures"]), classes, "{rank}");
        rank["figures"].as_array().expect("figures").iter().for_each(|figure| assert_in_order(figure, samples));
    }
    for (which, summary) in document["figures"].as_array().expect("figures").iter().enumerate() {
        let of_ranks: Vec<f64> = ranks.iter().filter_map(|rank| rank["figures"][which]["p50"].as_f64()).collect();
        let most = of_ranks.iter().copied().fold(f64::MIN, f64::max);
        let least = of_ranks.iter().copied().fold(f64::MAX, f64::min);
        assert_eq!(
            (summary["p50"]["least"].as_f64(), summary["p50"]["most"].as_f64()),
            (Some(least), Some(most)),
            "{summary}"
        );
        assert!(of_ranks.contains(&summary["p50"]["median"].as_f64().expect("a median")), "{summary}");
    }
    if command == "wireup" {
        for rank in ranks {
            let figure = |which: usize| rank["figures"][which]["p50"].as_f64().expect("a figure");
            let steps: f64 = (0..4).map(figure).sum();
            assert!((figure(4) - steps).abs() <= 0.001 * steps && (0..4).all(|step| figure(step) > 0.0), "{rank}");
        }
    }
}

#[test]
fn ranks_under_pmixrun_measure_the_library_that_they_have() {
    for library in [Library::ours(), Library::Stock] {
        for command in COMMANDS {
            let ended = Run::ranks(4, pmixbench(), library).args(command.0).arg("--json").run();
            let document = document(&ended);
            assert_sane(&document, command, (4, 1), (library, &library.file()));
            assert_eq!(
                (&document["launcher"], &document["server"]),
                (&"pmixrun".into(), &"pmix-dstore".into()),
                "{document}"
            );
        }
    }
}

#[test]
fn ranks_under_mpirun_measure_the_library_that_they_have() {
    if release_of("mpirun").is_none() {
        return left_out("packages", "mpirun is not installed");
    }
    let [ours, _, ours_under_stock] = Pair::all();
    for (pair, server) in [(ours, "pmix-dstore"), (ours_under_stock, "OpenPMIx "), (Pair::stock(), "OpenPMIx ")] {
        for command in [COMMANDS[0], COMMANDS[3]] {
            let traces = Traces::begin();
            let job = pair.mpirun(&traces).args("-np 4 env");
            let job = job.arg(format!("LD_LIBRARY_PATH={}", pair.ranks.directory().display())).arg(pmixbench());
            let document = document(&job.args(command.0).arg("--json").run());
            assert_sane(&document, command, (4, 1), (pair.ranks, &pair.ranks.file()));
            assert!(document["server"].as_str().is_some_and(|name| name.starts_with(server)), "{document}");
        }
    }
}

#[test]
fn ranks_under_slurm_measure_the_library_that_they_have() {
    let Some(cluster) = Cluster::start(2) else { return };
    // Stock servers of several nodes need settings for their fences.
    for (pair, nodes) in [(Pair::all()[0], 2), (Pair::stock(), 1)] {
        let run = cluster
            .srun(pair, ROOT, &format!("-N {nodes} -n 4 --ntasks-per-node {}", 4 / nodes))
            .arg(pmixbench())
            .args(GET_SMALL)
            .arg("--json");
        let document = document(&run.run());
        let file = cluster.directory_of(pair.ranks).join("libpmix.so.2").canonicalize().expect("the library");
        let mut classes = vec![("job", 0), ("own", 64), ("node-peer", 64), ("other-node-peer", 64), ("missing", 0)];
        classes.retain(|(class, _)| nodes > 1 || *class != "other-node-peer");
        assert_sane(&document, (GET_SMALL, &classes), (4, nodes), (pair.ranks, &file));
        assert_eq!(document["launcher"], "slurmstepd", "{document}");
    }
    cluster.end();
}

#[test]
fn keys_of_another_node_are_a_class_of_their_own() {
    if !geteuid().is_root() {
        return left_out("root", "making hosts of namespaces takes root");
    }
    let (library, traces) = (Library::ours(), Traces::begin());
    let path = format!("LD_LIBRARY_PATH={}", library.directory().display());
    let run = Run::new(repository().join("tests/openmpi/cluster.sh"), library).traced(&traces);
    let run = run.args("--hosts 1 mpirun --oversubscribe --mca orte_launch_agent").arg(format!("env {path} orted"));
    let run = run.args("--host login:2,n0:1 env").arg(path).arg(pmixbench()).args(GET_SMALL).arg("--json");
    let ended = run.succeed();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!((&document["nodes"], &document["ranks_on_node"]), (&2.into(), &2.into()), "{document}");
    let of_rank = |rank: usize| kinds(&document["by_rank"][rank]["figures"]);
    let (two, one) = (
        [("job", 0), ("own", 64), ("node-peer", 64), ("other-node-peer", 64), ("missing", 0)],
        [("job", 0), ("own", 64), ("other-node-peer", 64), ("missing", 0)],
    );
    assert_eq!((of_rank(0), of_rank(1), of_rank(2)), (two.to_vec(), two.to_vec(), one.to_vec()), "{document}");
}

#[test]
fn a_rank_that_measures_alone_and_a_job_of_one_rank() {
    let ended = Run::ranks(3, pmixbench(), Library::ours()).args(GET).args("--alone --json").run();
    let by_rank = &document(&ended)["by_rank"];
    let counts = [0usize, 1, 2].map(|rank| by_rank[rank]["figures"].as_array().map(Vec::len));
    assert_eq!(counts, [Some(6), Some(0), Some(0)], "{ended}");
    let ended = Run::ranks(1, pmixbench(), Library::ours()).args(GET).arg("--json").run();
    assert_eq!(
        kinds(&document(&ended)["figures"]),
        [("job", 0), ("own", 64), ("own", 2048), ("missing", 0)],
        "{ended}"
    );
}

#[test]
fn people_and_spreadsheets_get_the_same_figures() {
    let run = |args: &str| Run::ranks(2, pmixbench(), Library::ours()).args(GET_SMALL).args(args).succeed();
    let text = run("");
    for part in [
        "pmixbench get of 2 ranks on 1 node, under pmixrun, ",
        "library  pmix-dstore ",
        "own key, 64 B ",
        "key that nobody put ",
    ] {
        assert_eq!(text.count(part), 1, "{part}: {text}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("figures.csv");
    let ended = run(&format!("--csv -o {}", file.display()));
    assert_eq!(ended.stdout, "", "{ended}");
    let csv = fs::read_to_string(file).expect("the file");
    // A field in quotes may hold commas.
    let fields = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>() + 1;
    let counts: BTreeSet<usize> = csv.lines().map(fields).collect();
    assert_eq!((csv.lines().count(), counts.len()), (1 + 2 * 4, 1), "{csv}");
    assert!(csv.starts_with("command,date,ranks,"), "{csv}");
}

#[test]
fn what_cannot_be_done_is_said_in_a_line() {
    let refused = |run: Run, code: i32, reason: &str| {
        let ended = run.run();
        assert_eq!((ended.code(), ended.stdout.as_str(), ended.stderr.lines().count()), (code, "", 1), "{ended}");
        assert!(ended.stderr.starts_with("pmixbench: ") && ended.stderr.contains(reason), "{ended}");
    };
    let run = || Run::new(pmixbench(), Library::ours());
    refused(run().arg("get"), 1, "no PMIx server has started this process (PMIX_NAMESPACE is not set); start it as");
    refused(run().args("get --sizes 64,x"), 2, "invalid value 'x' for '--sizes <BYTES,...>': not a number of bytes");
    refused(run().args("get --loops 4"), 2, "unexpected argument '--loops' found; see pmixbench --help");
    refused(run(), 2, "a command is missing; see pmixbench --help");
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("libpmix.so.2"), "no library").expect("a file");
    let without = run().arg("get").env("PMIX_NAMESPACE", "job").env("LD_LIBRARY_PATH", directory.path());
    refused(without, 1, "no PMIx library: ");
    let file = directory.path().join("other.json");
    refused(run().arg("report").arg(&file), 1, "other.json: No such file");
    for (content, reason) in
        [("text", "no JSON"), ("{}", "no document of pmixbench"), ("{\"format\":7}", "format 7 of pmixbench")]
    {
        fs::write(&file, content).expect("a file");
        refused(run().arg("report").arg(&file), 1, reason);
    }
}

/// Chromium with a page; root has no sandbox.
fn chromium(directory: &Path, page: &Path, what: &str) -> Ended {
    let run = Run::new("chromium", Library::Stock).without("LD_LIBRARY_PATH").env("HOME", directory);
    // It complains of what a machine without a desktop lacks.
    let run = run.args(
        "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --window-size=1160,2000",
    );
    run.arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(what)
        .arg(format!("file://{}", page.display()))
        .succeed()
}

/// The figure of the page's cell with this name, in the unit of the document.
fn figure_in(dom: &str, name: &str) -> Option<f64> {
    let cell = dom.split_once(&format!("data-figure=\"{name}\"><b>"))?.1;
    let (number, unit) = cell.split_once("</b>")?.0.split_once(' ')?;
    let times = match unit {
        "ns" | "KiB" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "MiB" => 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * times)
}

/// The pixels of a PNG with 8 bits for each of 3 or 4 channels, as Chromium writes them: red, green, blue.
fn pixels(png: &[u8]) -> Vec<[u8; 3]> {
    let word = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes")) as usize;
    let (width, height, channels) = (word(16), word(20), if png[25] == 6 { 4 } else { 3 });
    let (mut packed, mut at) = (Vec::new(), 8);
    while at + 8 <= png.len() {
        if &png[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&png[at + 8..at + 8 + word(at)]);
        }
        at += 12 + word(at);
    }
    let (mut raw, mut pixels) = (Vec::new(), Vec::new());
    ZlibDecoder::new(&packed[..]).read_to_end(&mut raw).expect("a compressed picture");
    let mut above = vec![0u8; width * channels];
    for line in raw.chunks(1 + width * channels).take(height) {
        let mut row = line[1..].to_vec();
        for at in 0..row.len() {
            let (up, [left, corner]) =
                (above[at], [&row, &above].map(|row| if at < channels { 0 } else { row[at - channels] }));
            let (a, b, c) = (i32::from(left), i32::from(up), i32::from(corner));
            let nearest = [left, up, corner].into_iter().min_by_key(|one| (a + b - c - i32::from(*one)).abs());
            let expected = [0, left, up, ((a + b) / 2) as u8, nearest.expect("three")][usize::from(line[0])];
            row[at] = row[at].wrapping_add(expected);
        }
        pixels.extend(row.chunks(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        above = row;
    }
    pixels
}

/// The colours of our library's and of the first other library's marks.
const COLORS: [[u8; 3]; 2] = [[0, 114, 178], [213, 94, 0]];

#[test]
fn a_browser_shows_the_figures_of_the_documents() {
    if release_of("chromium").is_none() {
        return left_out("packages", "chromium is not installed");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (page, picture) = (directory.path().join("report.html"), directory.path().join("page.png"));
    let (mut report, mut documents) = (Run::new(pmixbench(), Library::ours()).arg("report"), Vec::new());
    for (library, size) in [(Library::ours(), 2), (Library::Stock, 2), (Library::ours(), 4), (Library::Stock, 4)] {
        for (args, _) in COMMANDS {
            let file = directory.path().join(format!("{}.json", documents.len()));
            let ended = Run::ranks(size, pmixbench(), library).args(args).arg("--json").succeed();
            fs::write(&file, &ended.stdout).expect("a file");
            documents.push(document(&ended));
            report = report.arg(file);
        }
    }
    report.arg("-o").arg(&page).succeed();

    let dom = chromium(directory.path(), &page, "--dump-dom").stdout;
    let mut count = 0;
    for document in &documents {
        for figure in document["figures"].as_array().expect("figures") {
            let [command, library, class] =
                [&document["command"], &document["library"], &figure["class"]].map(|text| text.as_str().expect("text"));
            let size = figure["size"].as_u64().map_or("-".to_owned(), |size| size.to_string());
            for quantile in ["p50", "p99", "p99_9"].iter().filter(|quantile| !figure[**quantile].is_null()) {
                let name = format!("{command}|{class}|{size}|{}|1|{library}|{quantile}", document["ranks"]);
                let (shown, measured) =
                    (figure_in(&dom, &name), figure[*quantile]["median"].as_f64().expect("a figure"));
                // Three digits are shown.
                assert!(
                    shown.is_some_and(|shown| (shown - measured).abs() <= 0.006 * measured.abs() + 0.006),
                    "{name}: {shown:?}, {measured}"
                );
                count += 1;
            }
        }
    }
    assert_eq!(dom.matches("data-figure=").count(), count);
    assert_eq!(dom.matches("<svg").count(), 1 + 3 + 3 + 2 + 3, "the plots of get, wireup, fence and memory");

    chromium(directory.path(), &page, &format!("--screenshot={}", picture.display()));
    let pixels = pixels(&fs::read(&picture).expect("a picture"));
    assert_eq!(pixels.len(), 1160 * 2000);
    for color in COLORS {
        // A legend alone has less.
        let marked = pixels.iter().filter(|pixel| **pixel == color).count();
        assert!(marked > 700, "{marked} pixels of {color:?}");
    }
    let background = pixels.iter().filter(|pixel| **pixel == [255; 3]).count();
    assert!(background > pixels.len() / 3, "{background} white pixels");
}
