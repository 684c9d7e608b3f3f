//! The C headers: they compile without a warning, in C and C++, and say what the tables of `ffi/abi` hold, which is what
//! was measured in the stock library's headers. Where those are installed, they are asked as well: Debian's, and those
//! beside the libraries that `PMIX_TEST_PEERS` names.

mod programs;
mod tables;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use programs::{compile, linked, own_headers, run, said_by, written};
use tables::{Row, is_in, table, value_in};

const STOCK_HEADERS: &str = "/usr/lib/x86_64-linux-gnu/pmix2/include";

/// Headers of the stock library that are installed, with their release as the tables name it.
fn stock_headers() -> Vec<(PathBuf, &'static str)> {
    let peers = std::env::var_os("PMIX_TEST_PEERS").unwrap_or_default();
    let beside = std::env::split_paths(&peers)
        .filter(|path| path.is_absolute())
        .map(|library| library.with_file_name("include"));
    let installed = [PathBuf::from(STOCK_HEADERS)].into_iter().chain(beside).filter(|at| at.join("pmix.h").exists());
    let with_release = |at: PathBuf| {
        let text = std::fs::read_to_string(at.join("pmix_version.h")).unwrap();
        let number = |name: &str| -> u32 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("#define PMIX_VERSION_{name}")));
            line.unwrap().trim().trim_end_matches('L').parse().unwrap()
        };
        let release = match (number("MAJOR"), number("RELEASE")) {
            (4, 0..=2) => "4.2.2",
            (4, _) => "4.2.9",
            (5, _) => "5.0",
            (6, _) => "6.1",
            _ => "master",
        };
        (at, release)
    };
    installed.map(with_release).collect()
}

const STRICT: &[&str] = &["-std=gnu11", "-Wall", "-Wextra", "-Werror"];
/// What the headers themselves are compiled as.
const LANGUAGES: [(&str, &str, &[&str]); 4] = [
    ("cc", "c", &["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]),
    ("cc", "c", STRICT),
    ("c++", "cpp", &["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror"]),
    ("c++", "cpp", &["-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror"]),
];

const INCLUDES: &str =
    "#include <stddef.h>\n#include <stdio.h>\n#include <pmix.h>\n#include <pmix_server.h>\n#include <pmix_tool.h>\n";

/// What no other library has.
const OWN_INCLUDE: &str = "#include <pmix_dstore.h>\n";

/// A program that prints every constant, attribute, size and offset of a release, and what it should print. `None` stands
/// for our own headers, which have all of them.
fn probe(release: Option<&str>) -> (String, String) {
    let own = if release.is_none() { OWN_INCLUDE } else { "" };
    let mut code = format!("{INCLUDES}{own}int main(void)\n{{\n");
    let mut expected = String::new();
    let mut ask = |what: &str, format: &str, expression: &str, answer: &str| {
        writeln!(code, "    printf(\"{what} {format}\\n\", {expression});").unwrap();
        writeln!(expected, "{what} {answer}").unwrap();
    };
    let here = |row: &Row, releases: usize| release.is_none_or(|release| is_in(row[releases], release));
    let value = |value: &'static str, elsewhere: &'static str| match release {
        Some(release) => value_in(value, elsewhere, release),
        None => value,
    };
    // A release names itself.
    let is_own = |row: &Row| row[1] == "version" && release.is_some_and(|release| release != "4.2.2");
    for row in table("constants").iter().filter(|row| here(row, 3) && !is_own(row)) {
        ask(row[0], "%lld", &format!("(long long) ({})", row[0]), value(row[2], row[4]));
    }
    for row in table("attributes").iter().filter(|row| here(row, 3)) {
        ask(row[0], "%s", row[0], value(row[1], row[4]));
    }
    for row in table("types").iter().filter(|row| here(row, 5)) {
        let name = row[0];
        ask(&format!("sizeof {name}"), "%zu", &format!("sizeof({name})"), value(row[3], row[6]));
        ask(&format!("alignof {name}"), "%zu", &format!("(size_t) __alignof__({name})"), row[4]);
    }
    for row in table("members").iter().filter(|row| here(row, 5)) {
        let (name, member) = (row[0], row[1]);
        let offset = value(row[3], row[6]);
        ask(&format!("offset {name}.{member}"), "%zu", &format!("offsetof({name}, {member})"), offset);
        ask(&format!("size {name}.{member}"), "%zu", &format!("sizeof((({name} *) 0)->{member})"), row[4]);
    }
    code += "    return 0;\n}\n";
    (code, expected)
}

/// Asserts that two texts have the same lines, and says which are not.
fn assert_same(said: &str, expected: &str, whose: &str) {
    let other: Vec<_> = said.lines().zip(expected.lines()).filter(|(said, expected)| said != expected).collect();
    assert_eq!(other, [], "{whose}: what it says, what it should say");
    assert_eq!(said.lines().count(), expected.lines().count(), "{whose}");
}

#[test]
fn values_and_layouts_are_those_of_the_tables() {
    let (code, expected) = probe(None);
    for (compiler, extension, options) in LANGUAGES {
        let (_source, source) = written(&code, extension);
        let (_program, program) = compile(compiler, &source, &own_headers(), options);
        assert_same(&run(&mut Command::new(program)), &expected, &format!("our headers, {options:?}"));
    }
}

#[test]
fn the_tables_are_those_of_the_stock_headers() {
    for (include, release) in stock_headers() {
        let (code, expected) = probe(Some(release));
        let (_source, source) = written(&code, "c");
        let (_program, program) = compile("cc", &source, &include, &["-std=gnu11", "-w"]);
        assert_same(&run(&mut Command::new(program)), &expected, &include.display().to_string());
    }
}

/// A program that does not compile where a function, a type of function, a member or a macro is another one.
fn declarations() -> String {
    let mut code = format!("{INCLUDES}{OWN_INCLUDE}");
    // A macro with other parameters than it is given is an error, and so is one that is not there.
    code += "#define PMIXDS_TEXT(...) PMIXDS_TEXT_OF(__VA_ARGS__)\n#define PMIXDS_TEXT_OF(...) #__VA_ARGS__\n";
    let macros = table("macros");
    let mut texts = String::new();
    for row in &macros {
        let (name, kind) = (row[0], row[1]);
        match kind {
            "function-like macro" | "static initializer" => {
                let call = if kind == "static initializer" { name.into() } else { format!("{name}({})", row[2]) };
                writeln!(code, "#ifndef {name}\n#error {name} is missing\n#endif").unwrap();
                writeln!(texts, "    puts(PMIXDS_TEXT({call}));").unwrap();
            }
            // Functions here, whatever they are elsewhere.
            _ => writeln!(texts, "    (void) sizeof(&{name});").unwrap(),
        }
    }
    writeln!(code, "int main(void)\n{{\n{texts}").unwrap();
    let functions = table("functions");
    let is_macro = |row: &&Row| macros.iter().any(|known| known[0] == row[0]);
    let declared = || functions.iter().filter(|row| !row[4].is_empty() && !is_macro(row));
    for row in declared() {
        writeln!(code, "    (void) sizeof(&({}));", row[0]).unwrap();
    }
    for (index, row) in table("callbacks").iter().enumerate() {
        let name = row[0];
        let variable = row[1].replace(name, &format!("callback_{index}"));
        writeln!(code, "    {{ {variable} = ({name}) 0; (void) callback_{index}; }}").unwrap();
    }
    for row in table("members").iter().filter(|row| !row[2].contains(['[', '{'])) {
        let (name, member, ty) = (row[0], row[1], row[2]);
        writeln!(code, "    {{ static {name} whole; {ty} *member = &whole.{member}; (void) member; }}").unwrap();
    }
    for row in table("types").iter().filter(|row| !row[2].is_empty()) {
        writeln!(code, "    {{ static {} one; {} *same = &one; (void) same; }}", row[0], row[2]).unwrap();
    }
    code += "    return 0;\n}\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    for row in declared() {
        // In parentheses no name is that of a macro.
        let prototype = row[4].replace(&format!("{}(", row[0]), &format!("({})(", row[0]));
        writeln!(code, "extern {prototype};").unwrap();
    }
    code + "#ifdef __cplusplus\n}\n#endif\n"
}

#[test]
fn functions_types_and_macros_are_those_of_the_tables() {
    let code = declarations();
    for (compiler, extension, options) in LANGUAGES {
        let (_source, source) = written(&code, extension);
        let options: Vec<&str> = options.iter().copied().chain(["-c", "-O0"]).collect();
        compile(compiler, &source, &own_headers(), &options);
    }
}

#[test]
fn each_header_stands_alone() {
    let headers = ["pmix.h", "pmix_common.h", "pmix_deprecated.h", "pmix_dstore.h", "pmix_server.h", "pmix_tool.h"];
    for header in headers.into_iter().chain(["pmix_version.h"]) {
        for (compiler, extension, options) in LANGUAGES {
            let (_source, source) =
                written(&format!("#include <{header}>\nint main(void) {{ return 0; }}\n"), extension);
            let options: Vec<&str> = options.iter().copied().chain(["-c"]).collect();
            compile(compiler, &source, &own_headers(), &options);
        }
    }
}

#[test]
fn macros_work() {
    let said = said_by("macros.c", &own_headers(), STRICT);
    assert!(said.contains("pmix-dstore"), "{said}");
}

/// The same, compiled with our headers and with Debian's, on our library and on Debian's.
#[test]
fn macros_answer_as_those_of_the_stock_headers() {
    let expected = include_str!("macro_answers.expected");
    assert_eq!(said_by("macro_answers.c", &own_headers(), STRICT), expected);
    let stock = Path::new(STOCK_HEADERS);
    if stock.join("pmix.h").exists() {
        for (headers, options) in [(own_headers(), STRICT), (stock.to_owned(), &["-std=gnu11", "-w"])] {
            assert_eq!(said_by("macro_answers.c", &headers, options), expected);
            let (_directory, program) = linked("macro_answers.c", &headers, options);
            let library = stock.with_file_name("lib");
            assert_eq!(run(Command::new(program).env("LD_LIBRARY_PATH", library)), expected);
        }
    }
}
