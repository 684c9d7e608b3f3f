//! Artifacts under test: our library and launcher in both profiles, the stock library, compiled C programs.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The profile with which our own code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The development profile.
    Debug,
    /// The profile of an installation.
    Release,
}

impl Profile {
    fn directory_name(self) -> &'static str {
        match self {
            Profile::Debug => "debug",
            Profile::Release => "release",
        }
    }
}

/// A `libpmix.so.2` with which programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// This project's.
    Ours(Profile),
    /// Debian's.
    Stock,
    /// A stock library of another release, in this directory.
    Other(&'static Path),
    /// This project's of another commit, in this directory (`make test-former`).
    Former(&'static Path),
}

impl Library {
    /// Our library: the installed profile if `make test` has built it, otherwise the profile of these tests.
    pub fn ours() -> Library {
        if std::env::var_os("PMIX_TEST_RELEASE").is_some() || !cfg!(debug_assertions) {
            Library::Ours(Profile::Release)
        } else {
            Library::Ours(Profile::Debug)
        }
    }

    /// The stock library of another release, in this directory.
    pub fn other(directory: impl Into<PathBuf>) -> Library {
        Library::Other(Box::leak(directory.into().into_boxed_path()))
    }

    /// The stock libraries of other releases in `PMIX_TEST_PEERS`: directories with a `libpmix.so.2`, separated by
    /// colons. This project does not build them.
    ///
    /// # Panics
    /// If a directory has no library.
    pub fn others() -> &'static [Library] {
        static OTHERS: LazyLock<Vec<Library>> = LazyLock::new(|| {
            let named = std::env::var_os("PMIX_TEST_PEERS").unwrap_or_default();
            let directories = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
            let others: Vec<_> = directories.map(Library::other).collect();
            others.iter().for_each(|library| drop(library.file()));
            others
        });
        &OTHERS
    }

    /// This project's library of the commit that `.ci/former` has built into the directory `PMIX_TEST_FORMER`.
    ///
    /// # Panics
    /// If the variable names no directory with a library.
    pub fn former() -> Library {
        let directory = PathBuf::from(std::env::var_os("PMIX_TEST_FORMER").expect("`make test-former FORMER=COMMIT`"));
        let library = Library::Former(Box::leak(directory.into_boxed_path()));
        drop(library.file());
        library
    }

    /// Whether it is this project's, as it is now.
    pub fn is_ours(self) -> bool {
        matches!(self, Library::Ours(_))
    }

    /// The directory for `LD_LIBRARY_PATH`: it holds `libpmix.so.2`, and `libpmix.so` as Slurm opens it.
    pub fn directory(self) -> PathBuf {
        match self {
            Library::Ours(profile) => {
                let built = built(profile).join("libpmix.so");
                once(&format!("lib-{}", profile.directory_name()), |directory| {
                    fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
                    for name in ["libpmix.so.2", "libpmix.so"] {
                        link(&built, &directory.join(name));
                    }
                })
            }
            Library::Stock => stock_variable("libdir"),
            Library::Other(directory) | Library::Former(directory) => directory.to_owned(),
        }
    }

    /// The directory for the daemons of Open MPI 5 and later, which are PRRTE's: with our library as `make install` makes it, through
    /// which they get the stock library, too.
    pub fn directory_for_prrte(self) -> PathBuf {
        let Library::Ours(profile) = self else { return self.directory() };
        let plain = self.directory();
        once(&format!("lib-{}/prrte", profile.directory_name()), |directory| {
            fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
            succeed(Command::new(repository().join("ffi/facade.sh")).arg(directory.join("libpmix.so.2")));
            link(&plain.join("libpmix.so.2"), &directory.join("libpmix-dstore.so"));
            let pmixctl = pmixrun().with_file_name("pmixctl");
            succeed(Command::new(pmixctl).args(["prrte", "--link", "--directory"]).arg(directory));
        })
    }

    /// The library's headers.
    pub fn headers(self) -> PathBuf {
        match self {
            Library::Ours(_) | Library::Former(_) => repository().join("ffi/include"),
            Library::Stock => stock_variable("includedir"),
            Library::Other(directory) => directory.with_file_name("include"),
        }
    }

    /// The file that a process of this library has mapped.
    pub fn file(self) -> PathBuf {
        let file = self.directory().join("libpmix.so.2");
        file.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Device and inode of its file, as `tests/programs/mpi.c` prints them.
    pub fn identity(self) -> String {
        identity(&self.file())
    }

    /// Whether `version`, the text of `PMIx_Get_version`, names this library.
    pub fn is_named_in(self, version: &str) -> bool {
        version.contains("pmix-dstore") == matches!(self, Library::Ours(_) | Library::Former(_))
    }
}

/// Device and inode of a file, as `tests/programs/mpi.c` prints them.
pub(crate) fn identity(file: &Path) -> String {
    let found = fs::metadata(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    format!("{}:{}", found.dev(), found.ino())
}

/// The root of the project.
pub fn repository() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        tests.parent().unwrap_or(tests).to_owned()
    });
    &ROOT
}

/// Our launcher.
pub fn pmixrun() -> PathBuf {
    pmixrun_of(Library::ours())
}

/// The launcher that belongs to this library; ours for a stock library.
pub fn pmixrun_of(library: Library) -> PathBuf {
    let profile = match (library, Library::ours()) {
        (Library::Former(directory), _) => return directory.join("pmixrun"),
        (Library::Ours(profile), _) | (_, Library::Ours(profile)) => profile,
        _ => unreachable!("our library is ours"),
    };
    built(profile).join("pmixrun")
}

/// A compiled example of a crate of this project.
pub fn example(name: &str) -> PathBuf {
    once(&format!("example-{name}"), |path| {
        let mut command = Command::new(env!("CARGO"));
        // With features as `cargo test --workspace` has them, which has built it already.
        command.current_dir(repository()).args(["build", "--workspace", "--example", name]);
        succeed(command.arg("--target-dir").arg(target()));
        link(&target().join("debug/examples").join(name), path);
    })
}

/// The programs for which `mpicc` is the compiler.
const MPI_PROGRAMS: [&str; 3] = ["ring", "mpi", "wireup"];

/// The compiled `tests/programs/NAME.c`. It is an MPI program, or one that is linked to libpmix if it calls it; for
/// these `CC` may name another compiler than `cc`.
pub fn program(name: &str) -> PathBuf {
    let is_mpi = MPI_PROGRAMS.contains(&name);
    compiled(name, &format!("program-{name}"), is_mpi, Library::Stock, |command| {
        if !is_mpi {
            link_to(Library::Stock, command);
        }
    })
}

/// As [`program`], for a program that does not use MPI, compiled with the headers of this library. With a stock library
/// of another release the program is linked to that library, because its headers need its functions; otherwise to
/// Debian's.
pub fn program_with(name: &str, headers: Library) -> PathBuf {
    let (kind, library) = match headers {
        Library::Ours(_) | Library::Former(_) => ("ours".into(), Library::Stock),
        Library::Stock => return program(name),
        Library::Other(directory) => (directory.to_string_lossy().replace('/', "-"), headers),
    };
    compiled(name, &format!("program-{name}-{kind}"), false, headers, |command| link_to(library, command))
}

/// The compiled `tests/programs/NAME.c` that calls functions which this library alone has: compiled with its headers and linked to it.
pub fn own_program(name: &str) -> PathBuf {
    let ours = Library::ours();
    compiled(name, &format!("program-{name}-own"), false, ours, |command| link_to(ours, command))
}

/// The compiled `tests/programs/mpich.c`; none if MPICH's library is not installed.
pub fn mpich_program() -> Option<PathBuf> {
    let libraries = stock_variable("libdir");
    let is_there = libraries.ancestors().any(|directory| directory.join("libmpich.so.12").exists());
    let link = |command: &mut Command| {
        command.arg("-l:libmpich.so.12");
    };
    is_there.then(|| compiled("mpich", "program-mpich", false, Library::Stock, link))
}

/// The directory with `libpmi.so.0` and `libpmi2.so.0`, built now.
pub fn pmi_library() -> PathBuf {
    once("lib-pmi", |directory| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(repository()).args(["build", "-p", "pmix-pmi", "--target-dir"]).arg(target());
        succeed(&mut command);
        fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let file = target().join("debug/libpmi.so");
        ["libpmi.so.0", "libpmi2.so.0"].iter().for_each(|name| link(&file, &directory.join(name)));
    })
}

/// The compiled `tests/programs/NAME.c`, which asks the loader for `soname` as if it were linked to Slurm's library: it is linked to one of
/// that name with the functions that it declares, each of which fails.
pub fn pmi_program(name: &str, soname: &str) -> PathBuf {
    let stub = once(&format!("stub-{soname}"), |stub| {
        let source = repository().join("tests/programs").join(name).with_extension("c");
        let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let names = text.lines().filter_map(|line| Some(line.strip_prefix("int ")?.split_once('(')?.0));
        let functions: String =
            names.filter(|name| *name != "main").map(|name| format!("int {name}(void) {{ return -1; }}\n")).collect();
        let made = stub.with_extension("c");
        fs::write(&made, functions).unwrap_or_else(|error| panic!("{}: {error}", made.display()));
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC"]).arg(format!("-Wl,-soname,{soname}")).arg(&made);
        succeed(command.arg("-o").arg(stub));
    });
    compiled(name, &format!("program-{name}"), false, Library::Stock, |command| {
        command.arg(stub);
    })
}

fn link_to(library: Library, command: &mut Command) {
    command.arg(format!("-L{}", library.directory().display()));
    command.args(["-Wl,--as-needed", "-lpmix", "-lpthread", "-ldl", "-lm"]);
}

/// The placements of a job's ranks that `benches/programs/place.h` names, but for the regular one, whose name is empty.
pub const PLACEMENTS: [&str; 10] = [
    "odd-first",
    "odd-middle",
    "odd-last",
    "groups-2",
    "groups-16",
    "dealt",
    "dealt-groups",
    "sockets",
    "holes",
    "scattered",
];

/// The compiled `benches/programs/NAME.c`, for any `libpmix.so.2`. Each list of `defines` gives another file.
pub fn benchmark_program(name: &str, defines: &[&str]) -> PathBuf {
    let output = format!("bench-{name}{}", defines.join(""));
    let source = repository().join("benches/programs").join(name).with_extension("c");
    once(&output, |output| {
        let made = output.with_extension(std::process::id().to_string());
        let mut command = Command::new("cc");
        // Namespaces are shorter than their type allows. The compiler cannot know that and would warn.
        command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overread"]).arg(source);
        command.arg("-o").arg(&made).args(defines);
        command.arg(format!("-I{}", repository().join("ffi/include").display()));
        command.arg(format!("-L{}", stock_variable("libdir").display()));
        command.args(["-Wl,--as-needed", "-lpmix", "-lpthread"]);
        succeed(&mut command);
        fs::rename(&made, output).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
    })
}

/// The directory with the `libpmix.so.2` of `benches/programs/floor-pmix.c`, which answers ranks of the program `floor` out of a table.
pub fn floor_library() -> PathBuf {
    once("lib-floor", |directory| {
        fs::create_dir_all(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let (library, made) = (directory.join("libpmix.so.2"), directory.join(std::process::id().to_string()));
        let mut command = Command::new("cc");
        command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libpmix.so.2"]);
        command.arg(repository().join("benches/programs/floor-pmix.c")).arg("-o").arg(&made);
        succeed(command.arg(format!("-I{}", repository().join("ffi/include").display())));
        fs::rename(&made, &library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    })
}

/// The compiled `tests/programs/NAME.c` as a shared object without a dependency on libpmix.
pub fn plugin(name: &str) -> PathBuf {
    compiled(name, &format!("plugin-{name}.so"), false, Library::Stock, |command| {
        command.args(["-shared", "-fPIC", "-lpthread"]);
    })
}

fn compiled(name: &str, output: &str, is_mpi: bool, headers: Library, link: impl FnOnce(&mut Command)) -> PathBuf {
    once(output, |output| {
        let source = repository().join("tests/programs").join(name).with_extension("c");
        // Use a name of our own: another test binary may be compiling the same program.
        let made = output.with_extension(std::process::id().to_string());
        let compiler = if is_mpi { Some("mpicc".into()) } else { std::env::var_os("CC") };
        let mut command = Command::new(compiler.unwrap_or("cc".into()));
        command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&made);
        if !is_mpi {
            command.arg(format!("-I{}", headers.headers().display()));
        }
        link(&mut command);
        succeed(&mut command);
        fs::rename(&made, output).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
    })
}

/// Cargo's target directory.
fn target() -> &'static Path {
    static TARGET: LazyLock<PathBuf> = LazyLock::new(|| {
        let own = std::env::current_exe().expect("a test knows its own file");
        // target/PROFILE/deps/FILE, or target/PROFILE/FILE of a program
        let profile = own.ancestors().skip(1).find(|directory| !directory.ends_with("deps"));
        profile.and_then(Path::parent).expect("cargo puts what it builds into directories").to_owned()
    });
    &TARGET
}

/// The directory with our library and tools in a profile, built now unless `make test` has.
fn built(profile: Profile) -> PathBuf {
    if let (Profile::Release, Some(directory)) = (profile, std::env::var_os("PMIX_TEST_RELEASE")) {
        return directory.into();
    }
    let directory = target().join(profile.directory_name());
    once(&format!("build-{}", profile.directory_name()), |_| {
        // As the Makefile does.
        let builds: &[&[&str]] = match profile {
            Profile::Debug => &[&["build", "-p", "pmix-ffi", "-p", "pmix-tools"]],
            Profile::Release => &[
                &["rustc", "--release", "-p", "pmix-ffi", "--lib", "--crate-type", "cdylib"],
                &["build", "--release", "-p", "pmix-tools"],
            ],
        };
        for arguments in builds {
            let mut command = Command::new(env!("CARGO"));
            command.current_dir(repository()).args(*arguments).arg("--target-dir").arg(target());
            succeed(&mut command);
        }
    });
    directory
}

/// A path for `name` among the tests' own files. `make` runs before the first return of the path in this process.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static MADE: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Mutex::default);
    {
        let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = made.get(name) {
            return path.clone();
        }
    }
    // The first caller makes the artifact and the others wait. One lock for each artifact: making one may need another.
    static MAKING: LazyLock<Mutex<HashMap<String, &'static Mutex<()>>>> = LazyLock::new(Mutex::default);
    let turn = *MAKING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(Box::default()));
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = MADE.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
        return path.clone();
    }
    let directory = target().join("pmix-tests");
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let path = directory.join(name);
    make(&path);
    MADE.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), path.clone());
    path
}

/// Makes or replaces a symbolic link.
pub(crate) fn link(to: &Path, at: &Path) {
    let made = at.with_extension(format!("{}.new", std::process::id()));
    let linked = symlink(to, &made).and_then(|()| fs::rename(&made, at));
    linked.unwrap_or_else(|error| panic!("{}: {error}", at.display()));
}

/// The release of the stock library.
pub fn stock_release() -> String {
    succeed(Command::new("pkg-config").args(["--modversion", "pmix"])).trim().to_owned()
}

/// A variable of the stock library's package.
fn stock_variable(name: &str) -> PathBuf {
    let output = succeed(Command::new("pkg-config").arg(format!("--variable={name}")).arg("pmix"));
    output.trim().into()
}

fn succeed(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; `make deps` installs what is needed"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
