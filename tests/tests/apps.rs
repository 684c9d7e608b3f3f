//! Unmodified programs of Debian under Debian's mpirun, with our library on both sides or on one, and those that spawn also under
//! `pmixrun`: their output, apart from times, equals their output under mpirun with the stock library on both sides.
//!
//! Only `make test-apps` runs these: they need packages that nothing else needs. With `ROOT=DIR` it runs them inside the
//! root directory of another Debian release, with the mpirun of that release.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pmix_tests::foreign::{self, Fault, MPIRUN_LOCKS_UP, MPIRUN_READS_NOT};
use pmix_tests::{Ended, Library, Pair, Run, Traces, plugin, pmixrun, repository};

/// Debian's interpreter, for which its packages of modules are built.
const PYTHON: &str = "/usr/bin/python3";

/// What starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Launcher {
    Mpirun,
    Pmixrun,
}

/// A job under construction, and its leftovers when it has ended.
struct Job {
    traces: Traces,
    pair: Pair,
    launcher: Launcher,
}

impl Job {
    /// The directory in which its ranks run and write files.
    fn directory(&self) -> PathBuf {
        self.traces.own()
    }

    /// The contents of a file that the job wrote.
    fn written(&self, name: &str) -> Vec<u8> {
        let file = self.directory().join(name);
        fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// A program that executes `command` with its own arguments and the ranks' library, and reports which library that
    /// is.
    fn script(&self, name: &str, command: &str) -> PathBuf {
        let file = self.directory().join(name);
        let (library, mapped) = (self.pair.ranks.directory(), plugin("mapped"));
        let text = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH='{}' LD_PRELOAD='{}'\nexec {command} \"$@\"\n",
            library.display(),
            mapped.display()
        );
        let written =
            fs::write(&file, text).and_then(|()| fs::set_permissions(&file, PermissionsExt::from_mode(0o755)));
        written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        file
    }

    /// The launcher with options for so many ranks.
    fn launch(&self, ranks: usize) -> Run {
        let run = match self.launcher {
            Launcher::Mpirun => self.pair.mpirun(&self.traces),
            Launcher::Pmixrun => Run::new(pmixrun(), self.pair.ranks).traced(&self.traces),
        };
        // There are more ranks than processors: no more threads.
        let run = run.env("PYTHONDONTWRITEBYTECODE", "1").env("OMP_NUM_THREADS", "1");
        run.env("MAPPED_LIST", self.directory().join("mapped"))
            .args(&format!("-np {ranks} --wdir"))
            .arg(self.directory())
    }

    /// `ranks` ranks of a program, whose arguments the caller adds.
    fn start(&self, ranks: usize, program: impl AsRef<Path>) -> Run {
        self.launch(ranks).arg(self.script("rank", "")).arg(program.as_ref())
    }

    /// A rank of R. R looks for libraries in directories of its own first, also where it is what the rank spawns.
    fn start_r(&self, program: impl AsRef<Path>) -> Run {
        let first = format!("{}:/usr/lib/R/lib", self.pair.ranks.directory().display());
        let run = self.launch(1).env("R_LD_LIBRARY_PATH", first).env("LD_PRELOAD", plugin("mapped"));
        run.arg("Rscript").arg("--vanilla").arg(program.as_ref())
    }

    /// Asserts that each process had the expected library, and the daemon that started it, too; processes that a shell of the program's own
    /// started have no daemon.
    fn assert_mapped(&self, ended: &Ended, count: Count) {
        let daemon = match self.launcher {
            Launcher::Mpirun => self.pair.server.identity(),
            Launcher::Pmixrun => NO_LIBRARY.to_owned(),
        };
        let line = |daemon: &str| format!("library {} daemon {daemon}", self.pair.ranks.identity());
        let mut expected = vec![line(&daemon); count.of_launcher];
        expected.extend(vec![line(NO_LIBRARY); count.of_shells]);
        let list = String::from_utf8(self.written("mapped")).expect("text");
        let mut mapped: Vec<&str> = list.lines().collect();
        expected.sort_unstable();
        mapped.sort_unstable();
        assert_eq!(mapped, expected, "{:?}: {ended}", self.pair);
    }
}

/// How many processes a job has, by who starts them.
#[derive(Clone, Copy)]
struct Count {
    of_launcher: usize,
    of_shells: usize,
}

impl From<usize> for Count {
    fn from(of_launcher: usize) -> Count {
        Count { of_launcher, of_shells: 0 }
    }
}

/// How `tests/programs/mapped.c` reports a process without the library: `pmixrun`, or a shell.
const NO_LIBRARY: &str = "none";

/// mpirun hangs; with the stock library on both sides in 2 of 30 runs of the pool of workers.
const MPIRUN_STANDS: Fault =
    Fault { name: "mpirun locks itself up in a job that spawns", per_mille: 67, ..MPIRUN_LOCKS_UP };

/// Runs a job to its end. With the stock library as server, a job that spawns sometimes hangs, also with stock ranks.
fn attempt((launcher, pair): (Launcher, Pair), run: impl Fn(&Job) -> Run) -> (Job, Ended) {
    foreign::despite(pair, &[MPIRUN_STANDS, MPIRUN_READS_NOT], || {
        let job = Job { traces: Traces::begin(), pair, launcher };
        let outcome = run(&job).attempt();
        (job, outcome)
    })
}

/// Runs a job of `count` processes with the stock library on both sides and then with each pair. Each must succeed.
/// `result` must extract the same computed values from all of them. None may write a line to standard error that the
/// stock job does not write, and none may leave anything.
fn same_as_stock(name: &str, count: usize, run: impl Fn(&Job) -> Run, result: impl Fn(&Ended, &Job) -> String) {
    same_by(&Pair::all().map(|pair| (Launcher::Mpirun, pair)), (name, count.into()), run, result);
}

/// As [`same_as_stock`], and then under `pmixrun` with each library in the ranks.
fn same_under_pmixrun(name: &str, count: usize, run: impl Fn(&Job) -> Run, result: impl Fn(&Ended, &Job) -> String) {
    let own =
        [Library::ours(), Library::Stock].map(|ranks| (Launcher::Pmixrun, Pair { server: Library::ours(), ranks }));
    let all: Vec<_> = Pair::all().map(|pair| (Launcher::Mpirun, pair)).into_iter().chain(own).collect();
    same_by(&all, (name, count.into()), run, result);
}

/// As [`same_as_stock`], of a rank of R that spawns three, with our library on both sides alone, under mpirun and under `pmixrun`: R takes
/// long to start.
fn same_of_r(name: &str, run: impl Fn(&Job) -> Run, result: impl Fn(&Ended, &Job) -> String) {
    let ours = Pair { server: Library::ours(), ranks: Library::ours() };
    // What Rmpi spawns are shells.
    let count = Count { of_launcher: 1, of_shells: 3 };
    same_by(&[Launcher::Mpirun, Launcher::Pmixrun].map(|launcher| (launcher, ours)), (name, count), run, result);
}

fn same_by(
    all: &[(Launcher, Pair)],
    (name, count): (&str, Count),
    run: impl Fn(&Job) -> Run,
    result: impl Fn(&Ended, &Job) -> String,
) {
    let run = |(launcher, pair): (Launcher, Pair)| {
        let begun = Instant::now();
        let (job, ended) = attempt((launcher, pair), &run);
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(ended.code(), 0, "{launcher:?}, {pair:?}: {ended}");
        job.assert_mapped(&ended, count);
        let result = result(&ended, &job);
        job.traces.assert_none_left(&ended);
        let lines = result.lines().count();
        let count = count.of_launcher + count.of_shells;
        eprintln!("{name}, {count} processes, {launcher:?}, {pair}: {seconds:.1} s, {lines} lines of results");
        (ended, result)
    };
    let (stock, expected) = run((Launcher::Mpirun, Pair::stock()));
    for (launcher, pair) in all.iter().copied() {
        let (ended, result) = run((launcher, pair));
        assert_eq!(result, expected, "{launcher:?}, {pair:?}: {ended}\nand with the stock library: {stock}");
        // Fortran lists the exceptions of floating-point numbers that are left at the end. With the stock library of Debian 13 the list
        // names division by zero, and is longer than with ours.
        let is_in = |line: &str, said: &str| line.split(' ').all(|word| said.split(' ').any(|it| it == word));
        // NetPIPE's lines come in pieces, between which the other rank may write. They are counted among its results.
        let is_result = |line: &str| line.contains("Integrity check");
        let is_new = |line: &&str| !is_result(line) && !stock.stderr.lines().any(|said| is_in(line, said));
        let more: Vec<_> = ended.stderr.lines().filter(is_new).collect();
        assert!(more.is_empty(), "{launcher:?}, {pair:?} says more than the stock library: {more:?}\n{ended}");
    }
}

/// The lines of a text with one of `words`.
fn lines_with(text: &str, words: &[&str]) -> String {
    // A line of a table begins with the kind of its times. HPCC leaves out the line of processor time if that clock has
    // not advanced.
    let is_result = |line: &&str| !line.starts_with("CPU ") && words.iter().any(|word| line.contains(word));
    text.lines().filter(is_result).fold(String::new(), |found, line| {
        // A decimal number in these lines is a time, or derived from one.
        let is_timed = line.starts_with("WALL ");
        let kept: Vec<_> = line.split_whitespace().filter(|word| !is_timed || !word.contains('.')).collect();
        found + &kept.join(" ") + "\n"
    })
}

/// A file of `tests/apps`.
fn script(name: &str) -> PathBuf {
    repository().join("tests/apps").join(name)
}

#[test]
fn netpipe() {
    let run = |job: &Job| job.start(2, "NPopenmpi").args("-i -l 1 -u 4194304 -n 7");
    same_as_stock("NetPIPE", 2, run, |ended, _| {
        // A line comes in pieces, between which the other rank may write.
        let checked = ended.stderr.matches(" Integrity check passed").count();
        assert!(checked > 40 && checked == ended.stderr.matches("Integrity check").count(), "{ended}");
        format!("{checked} checks passed\n")
    });
}

#[test]
fn hpcc() {
    let run = |job: &Job| {
        fs::copy(script("hpccinf.txt"), job.directory().join("hpccinf.txt")).expect("the input is copied");
        job.start(4, "hpcc")
    };
    same_as_stock("HPCC", 4, run, |ended, job| {
        let output = String::from_utf8(job.written("hpccoutf.txt")).expect("text");
        assert_eq!(output.lines().filter(|line| *line == "Success=1").count(), 1, "{output}\n{ended}");
        assert!(!output.contains("FAILED"), "{output}\n{ended}");
        // The residual of DGEMM is left out: its matrices are seeded with the time.
        let words =
            ["Found ", "PASSED", "Node(s) with error", "residual checks", "x-x0", "Validates", "Success", "norm"];
        lines_with(&output, &words)
    });
}

#[test]
fn lammps() {
    let run = |job: &Job| job.start(4, "lmp").arg("-in").arg(script("melt.in")).args("-log none");
    same_as_stock("LAMMPS", 4, run, |ended, job| {
        // Energy, temperature and pressure to the last bit, and the final position of each atom.
        let is_thermo = |line: &&str| line.split_whitespace().all(|word| word.parse::<f64>().is_ok());
        let thermo: Vec<_> = ended
            .stdout
            .lines()
            .skip_while(|line| !line.trim_start().starts_with("Step "))
            .skip(1)
            .take_while(is_thermo)
            .collect();
        assert_eq!(thermo.len(), 5, "{ended}");
        thermo.join("\n") + "\n" + &String::from_utf8(job.written("final.dump")).expect("text")
    });
}

#[test]
fn mpi4py_messages_and_windows() {
    let run = |job: &Job| job.start(4, PYTHON).arg(script("messages.py"));
    same_as_stock("mpi4py", 4, run, |ended, _| ended.stdout.clone());
}

#[test]
fn mpi4py_pool_of_spawned_workers() {
    let run = |job: &Job| job.start(1, PYTHON).arg(script("pool.py")).arg(job.script("worker", PYTHON));
    // The workers of two pools and their master.
    same_under_pmixrun("mpi4py pool", 1 + 2 * 3, run, |ended, _| ended.stdout.clone());
}

#[test]
fn rmpi_spawned_slaves() {
    let run = |job: &Job| job.start_r(script("slaves.R"));
    same_of_r("Rmpi", run, |ended, _| {
        assert_eq!(ended.count("rank and size of each: 14 24 34"), 1, "{ended}");
        ended.stdout.clone()
    });
}

#[test]
fn irace_spawned_evaluators() {
    let run = |job: &Job| job.start_r(script("tune.R"));
    same_of_r("irace", run, |ended, _| {
        assert!(ended.stdout.lines().count() > 1, "{ended}");
        ended.stdout.clone()
    });
}

#[test]
fn hdf5() {
    let run = |job: &Job| job.start(4, PYTHON).arg(script("hdf5.py")).arg("file.h5");
    same_as_stock("HDF5", 4, run, |ended, job| {
        let content = job.written("file.h5");
        let mut hasher = DefaultHasher::new();
        hasher.write(&content);
        format!("{}{} bytes of hash {:x}\n", ended.stdout, content.len(), hasher.finish())
    });
}

#[test]
fn scalapack() {
    // Program, input file, number of tests that must pass.
    for (program, input, passed) in [("xdlu", "LU.dat", 240), ("xdqr", "QR.dat", 352), ("xdls", "LS.dat", 1152)] {
        let tests = Path::new("/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests");
        let run = |job: &Job| {
            fs::copy(tests.join(input), job.directory().join(input)).expect("the input is copied");
            job.start(4, tests.join(program))
        };
        same_as_stock(&format!("ScaLAPACK {program}"), 4, run, |ended, _| {
            let completed = format!(" {passed} tests completed and passed residual checks.");
            assert_eq!(ended.count(&completed), 1, "{ended}");
            assert_eq!(ended.count(" 0 tests completed and failed residual checks."), 1, "{ended}");
            lines_with(&ended.stdout, &[""])
        });
    }
}

#[test]
fn mumps() {
    for (program, input) in [("dsimpletest", "input_simpletest_real"), ("zsimpletest", "input_simpletest_cmplx")] {
        let tests = Path::new("/usr/lib/mumps");
        let run = |job: &Job| {
            // mpirun forwards its input to the first rank.
            let input = fs::read(tests.join(input)).expect("the package has it");
            job.start(4, tests.join(program)).input(input)
        };
        same_as_stock(&format!("MUMPS {program}"), 4, run, |ended, _| {
            let solution = lines_with(&ended.stdout, &["Solution is", "INFOG(1) ", "INFOG(2) "]);
            assert_eq!(solution.matches("Solution is").count(), 1, "{ended}");
            solution
        });
    }
}

#[test]
fn nwchem() {
    let run = |job: &Job| job.start(4, "nwchem.openmpi").arg(script("water.nw"));
    same_as_stock("NWChem", 4, run, |ended, _| {
        assert_eq!(ended.count("Total SCF energy"), 1, "{ended}");
        let gradient = ended.stdout.lines().skip_while(|line| !line.contains("RHF ENERGY GRADIENTS")).skip(4).take(3);
        let energies = ended.stdout.lines().filter(|line| line.contains(" energy = "));
        // Ranks take pieces of work as they come, and the sums differ in their last digits.
        let rounded = |word: &str| match word.parse::<f64>() {
            Ok(number) => format!("{:.9}", number + 0.0),
            Err(_) => word.to_owned(),
        };
        let rows = energies.chain(gradient).map(|line| line.split_whitespace().map(rounded).collect::<Vec<_>>());
        rows.map(|row| row.join(" ") + "\n").collect()
    });
}

#[test]
fn cp2k() {
    let run = |job: &Job| job.start(4, "cp2k").arg(script("water.inp"));
    same_as_stock("CP2K", 4, run, |ended, _| {
        assert_eq!(ended.count("SCF run converged"), 1, "{ended}");
        // Releases differ in what stands before a force.
        let forces = ended.stdout.lines().skip_while(|line| !line.to_lowercase().contains("atomic forces")).take(8);
        lines_with(&ended.stdout, &["ENERGY|"]) + &forces.collect::<Vec<_>>().join("\n")
    });
}
