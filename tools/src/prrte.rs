//! The directory `lib/prrte`, by which PRRTE's daemons have this library and the stock one (`ffi/facade.sh`): finds the stock library,
//! and compares the names that programs need with those that the two export.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use serde_json::{Value, json};

/// The link to the stock library in the directory, and the other two files there.
const STOCK: &str = "libpmix-stock.so";
const OURS: &str = "libpmix-dstore.so";
const FACADE: &str = "libpmix.so.2";

/// What this library alone exports, and what each server library does.
const MARK: &str = "pmix_dstore_version";
const OF_SERVERS: &str = "PMIx_server_init";

/// Where distributions put libraries.
const LIBRARIES: [&str; 4] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// The PMIx names of a program or library, and the libraries that it needs.
#[derive(Debug, Default)]
struct Names {
    exported: BTreeSet<String>,
    needed: BTreeSet<String>,
    libraries: Vec<String>,
}

impl Names {
    fn read(path: &Path) -> Result<Names, String> {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = fs::read(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound if path.is_symlink() => said(&"a link that leads nowhere"),
            ErrorKind::NotFound => said(&"it is not there"),
            _ => said(&error),
        })?;
        let file: ElfFile64<'_, Endianness> =
            ElfFile64::parse(&*bytes).map_err(|error| said(&format!("no shared library ({error})")))?;
        let mut names = Names::default();
        for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_global()) {
            let name = symbol.name().map_err(|error| said(&error))?;
            if !name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("pmix")) {
            } else if symbol.is_definition() {
                names.exported.insert(name.to_owned());
            } else if !symbol.is_weak() {
                names.needed.insert(name.to_owned());
            }
        }
        for library in file.import_libraries().map_err(|error| said(&error))? {
            let library = library.map_err(|error| said(&error))?;
            names.libraries.push(String::from_utf8_lossy(library.name()).into_owned());
        }
        Ok(names)
    }

    /// The names of a stock library.
    fn of_stock(path: &Path) -> Result<Names, String> {
        let names = Names::read(path)?;
        if names.exported.contains(MARK) || names.libraries.iter().any(|library| library == OURS) {
            return Err(format!("{}: it leads to this project's library, not to the stock one", path.display()));
        }
        if !names.exported.contains(OF_SERVERS) {
            return Err(format!("{}: no PMIx library: it does not export {OF_SERVERS}", path.display()));
        }
        Ok(names)
    }
}

/// What a PMIx library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This project's.
    Ours,
    /// The library of `lib/prrte`, which loads both and hands each call to one of them.
    Both,
    /// A stock one.
    Stock,
}

/// Looks at a PMIx library.
///
/// # Errors
/// Why it is none.
pub fn kind_of(library: &Path) -> Result<Kind, String> {
    let names = Names::read(library)?;
    if names.libraries.iter().any(|library| library == OURS) {
        return Ok(Kind::Both);
    }
    if names.exported.contains(MARK) {
        return Ok(Kind::Ours);
    }
    Names::of_stock(library).map(|_| Kind::Stock)
}

/// The stock library in one of these directories, past whatever switch leads its usual name to this project's library: then it
/// has the name of its release, or that which dpkg-divert gave it.
///
/// # Errors
/// What there is instead, in one line.
fn find_stock(directories: &[PathBuf]) -> Result<PathBuf, String> {
    let mut refused = None;
    for directory in directories {
        // The name that stays when the package is upgraded comes first.
        let mut files = vec![directory.join(FACADE)];
        let others = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut others: Vec<_> = others.filter(|name| is_other_name(name)).collect();
        others.sort_unstable_by(|one, other| other.cmp(one));
        files.extend(others.iter().map(|name| directory.join(name)));
        for file in files.iter().filter(|file| file.exists()) {
            match Names::of_stock(file) {
                Ok(_) => return Ok(file.clone()),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
    }
    Err(refused.unwrap_or_else(|| "no stock libpmix.so.2 in this system's directories".into()))
}

fn is_other_name(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("libpmix.so.") && name != FACADE)
}

/// Where packages have their PMIx library: Debian's in a directory of its own, to which links lead.
fn package_directories() -> Vec<PathBuf> {
    LIBRARIES.iter().flat_map(|directory| [Path::new(directory).join("pmix2/lib"), directory.into()]).collect()
}

/// Makes the link to the stock library in `directory`, to `stock` or to the one that is found; returns where it leads. A good link that
/// is there stays, unless `stock` is given.
///
/// # Errors
/// Why there is none, in one line.
pub fn link_stock(directory: &Path, stock: Option<&Path>) -> Result<PathBuf, String> {
    let link = directory.join(STOCK);
    if stock.is_none()
        && Names::of_stock(&link).is_ok()
        && let Ok(to) = fs::read_link(&link)
    {
        return Ok(to);
    }
    let stock = match stock {
        Some(file) => {
            let file = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
            Names::of_stock(&file).map(|_| file)?
        }
        None => find_stock(&package_directories())?,
    };
    let new = directory.join(format!(".{STOCK}.{}", std::process::id()));
    let made = symlink(&stock, &new).and_then(|()| {
        // A failed rename is the error to report.
        fs::rename(&new, &link).inspect_err(|_| drop(fs::remove_file(&new)))
    });
    made.map(|()| stock).map_err(|error| format!("{}: {error}", link.display()))
}

/// PRRTE's library of this system; none where there is none.
pub fn libraries_of_prrte() -> Vec<PathBuf> {
    let entries = LIBRARIES.iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("libprrte.so.")));
    // Each file once, under whichever name.
    let files: BTreeSet<PathBuf> = named.filter_map(|entry| entry.path().canonicalize().ok()).collect();
    files.into_iter().collect()
}

/// A file, the names that it needs, and from where it gets them.
#[derive(Debug)]
struct Needs {
    file: PathBuf,
    ours: usize,
    stock: Vec<String>,
    missing: Vec<String>,
}

/// What was found out about a directory `lib/prrte`.
#[derive(Debug)]
pub struct Check {
    directory: PathBuf,
    stock: Option<PathBuf>,
    /// Public functions that only the stock library has: they would be called there, where nothing has been initialised.
    unserved: Vec<String>,
    needs: Vec<Needs>,
    problems: Vec<String>,
}

impl Check {
    /// Examines a directory, for these programs and libraries.
    pub fn of(directory: &Path, files: &[PathBuf]) -> Check {
        let mut problems = Vec::new();
        let mut kept = |names: Result<Names, String>| names.map_err(|problem| problems.push(problem)).ok();
        let facade = kept(Names::read(&directory.join(FACADE)));
        let ours = kept(Names::read(&directory.join(OURS)));
        let stock = kept(Names::of_stock(&directory.join(STOCK)));
        let read: Vec<_> = files.iter().filter_map(|file| Some((file, kept(Names::read(file))?))).collect();
        if facade.is_some_and(|facade| facade.libraries != [OURS, STOCK]) {
            problems.push(format!("{}: it does not lead to {OURS} and {STOCK}", directory.join(FACADE).display()));
        }
        if ours.as_ref().is_some_and(|ours| !ours.exported.contains(MARK)) {
            problems.push(format!("{}: not this project's library", directory.join(OURS).display()));
        }
        let is_stock = stock.is_some();
        let [ours, stock] = [ours, stock].map(|names| names.unwrap_or_default().exported);
        let unserved: Vec<_> = stock.difference(&ours).filter(|name| name.starts_with("PMIx_")).cloned().collect();
        if !unserved.is_empty() {
            problems.push(format!("this library lacks public functions of the stock one: {}", unserved.join(", ")));
        }
        if files.is_empty() {
            problems.push("no libprrte.so here: name the files that are to be checked".into());
        }
        let needs = read.into_iter().map(|(file, names)| {
            let (of_ours, others) = names.needed.into_iter().partition::<Vec<_>, _>(|name| ours.contains(name));
            let (stock, missing) = others.into_iter().partition(|name| stock.contains(name));
            Needs { file: file.clone(), ours: of_ours.len(), stock, missing }
        });
        let needs: Vec<_> = needs.collect();
        for Needs { file, missing, .. } in needs.iter().filter(|needs| is_stock && !needs.missing.is_empty()) {
            problems.push(format!("{}: neither library has {}", file.display(), missing.join(", ")));
        }
        let stock = directory.join(STOCK).canonicalize().ok().filter(|_| is_stock);
        Check { directory: directory.to_owned(), stock, unserved, needs, problems }
    }

    /// Whether PRRTE's daemons can have this library.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    /// All of it in words.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("directory: {}", self.directory.display())];
        lines.extend(self.stock.iter().map(|stock| format!("stock library: {}", stock.display())));
        for Needs { file, ours, stock, missing } in &self.needs {
            let all = ours + stock.len() + missing.len();
            let (file, private, missing) = (file.display(), stock.len(), missing.len());
            lines.push(format!(
                "{file}: needs {all} PMIx names: {ours} of this library, {private} of the stock one, {missing} of neither"
            ));
        }
        lines.extend(self.problems.iter().map(|problem| format!("problem: {problem}")));
        if self.is_good() {
            lines.push(format!("good: LD_LIBRARY_PATH={} gives both libraries to PRRTE", self.directory.display()));
        }
        lines.join("\n") + "\n"
    }

    /// The same for programs, with the names.
    pub fn json(&self) -> Value {
        let needs = self.needs.iter().map(|Needs { file, ours, stock, missing }| {
            json!({ "file": file.display().to_string(), "of this library": ours, "of the stock library": stock, "missing": missing })
        });
        json!({
            "directory": self.directory.display().to_string(),
            "stock library": self.stock.as_ref().map(|stock| stock.display().to_string()),
            "public functions of the stock library alone": self.unserved,
            "needs": needs.collect::<Vec<_>>(),
            "problems": self.problems,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Makes a shared library that exports these names, and needs those that begin with `!`.
    fn library(path: &Path, names: &[&str]) {
        let code = path.with_extension("c");
        let line = |name: &&str| match name.strip_prefix('!') {
            Some(needed) => format!("extern int {needed}; int *use_{needed}(void) {{ return &{needed}; }}\n"),
            None => format!("int {name};\n"),
        };
        fs::write(&code, names.iter().map(line).collect::<String>()).unwrap();
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([path, &code]).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn the_stock_library_is_found_past_a_switch() {
        let directory = tempfile::tempdir().unwrap();
        let (lib, at) = (directory.path().join("lib"), |name: &str| directory.path().join("lib").join(name));
        fs::create_dir(&lib).unwrap();
        let found = || find_stock(&[directory.path().join("none"), lib.clone()]);
        assert_eq!(found(), Err("no stock libpmix.so.2 in this system's directories".into()));
        library(&at("libpmix.so.2.13.7"), &[OF_SERVERS]);
        symlink("libpmix.so.2.13.7", at(FACADE)).unwrap();
        assert_eq!(found(), Ok(at(FACADE)), "the name that outlives an upgrade");
        // A link of the administrator's to our library.
        let ours = directory.path().join("ours.so");
        library(&ours, &[OF_SERVERS, MARK]);
        fs::remove_file(at(FACADE)).unwrap();
        symlink(&ours, at(FACADE)).unwrap();
        assert_eq!(found(), Ok(at("libpmix.so.2.13.7")));
        fs::rename(at("libpmix.so.2.13.7"), at("libpmix.so.2.distrib")).unwrap();
        assert_eq!(found(), Ok(at("libpmix.so.2.distrib")));
        // As under a bind mount: there is nothing but ours.
        fs::copy(&ours, at("libpmix.so.2.distrib")).unwrap();
        let reason = found().unwrap_err();
        assert!(reason.ends_with("libpmix.so.2: it leads to this project's library, not to the stock one"), "{reason}");
        library(&at(FACADE).with_extension("2.other"), &["PMIx_Get"]);
        fs::remove_file(at(FACADE)).unwrap();
        fs::remove_file(at("libpmix.so.2.distrib")).unwrap();
        let reason = found().unwrap_err();
        assert!(reason.ends_with("no PMIx library: it does not export PMIx_server_init"), "{reason}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        library(&at("stock.so"), &[OF_SERVERS, "PMIx_Get", "PMIx_New", "pmix_private"]);
        library(&at(OURS), &[OF_SERVERS, MARK, "PMIx_Get"]);
        library(&at("daemon.so"), &["!PMIx_Get", "!pmix_private", "!pmix_gone", "!other"]);
        let check = || Check::of(directory.path(), &[at("daemon.so")]);
        let problems = check().problems;
        assert!(problems[0].ends_with("libpmix.so.2: it is not there"), "{problems:?}");
        assert!(problems[1].ends_with("libpmix-stock.so: it is not there"), "{problems:?}");
        assert_eq!(link_stock(directory.path(), Some(&at("stock.so"))), Ok(at("stock.so")));
        assert_eq!(link_stock(directory.path(), None), Ok(at("stock.so")), "a good link stays");
        library(&at("facade.so"), &[]);
        fs::rename(at("facade.so"), at(FACADE)).unwrap();
        let found = check();
        let [facade, unserved, missing] = &found.problems[..] else { panic!("{found:?}") };
        assert!(facade.ends_with("it does not lead to libpmix-dstore.so and libpmix-stock.so"), "{facade}");
        assert_eq!(unserved, "this library lacks public functions of the stock one: PMIx_New");
        assert!(missing.ends_with("daemon.so: neither library has pmix_gone"), "{missing}");
        assert!(found.text().contains("needs 3 PMIx names: 1 of this library, 1 of the stock one, 1 of neither"));
        assert_eq!(found.json()["needs"][0]["of the stock library"], json!(["pmix_private"]));
        // The stock library is removed.
        fs::remove_file(at("stock.so")).unwrap();
        let problems = check().problems;
        assert!(
            problems.iter().any(|line| line.ends_with("libpmix-stock.so: a link that leads nowhere")),
            "{problems:?}"
        );
        let reason = link_stock(directory.path(), Some(&at(OURS))).unwrap_err();
        assert!(reason.contains("this project's library"), "{reason}");
    }
}
