#!/usr/bin/env python3
"""The list of each `unsafe` in the code that is shipped, with its reason and the tests that run it (part of `make check`).

    tests/house/unsafe.py            checks this tree, after it has found what it plants
    tests/house/unsafe.py --list     prints each place: file, line, function, reason, tests that own it
    tests/house/unsafe.py --count    how many places each package has

A file with `unsafe` needs a row in `unsafe.tsv`: its path, or that of a directory above it with a `/` at its end, and its owners: test
files, or `own` for the tests in the file itself. The longest path that fits counts. That each block has a reason is clippy's to check.
"""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from source import code_of, strip  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = "tests/house/unsafe.tsv"
PACKAGES = ["dstore", "server", "client", "ffi", "tools"]
# What only tests compile.
OF_TESTS = re.compile(r"(^|/)(tests|benches|fuzz)(/|\.rs$)|_tests\.rs$")
UNSAFE = re.compile(r"\bunsafe\b")
FN = re.compile(r"\bfn\s+(\w+)")
OWN = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")


def places(text):
    """(line, function, reason) of each `unsafe` outside of tests."""
    code, lines = strip(text), text.split("\n")
    for match in UNSAFE.finditer(code):
        line = code.count("\n", 0, match.start())
        named = FN.search(code, match.start()) if re.match(r"unsafe\s+(extern\s+\S*\s*)?fn\b", code[match.start() :]) else None
        before = list(FN.finditer(code, 0, match.start()))
        function = named.group(1) if named else before[-1].group(1) if before else "-"
        yield line + 1, function, reason(lines, line)


def reason(lines, line):
    """The words behind `SAFETY:` or below `# Safety` in the comment above a line."""
    words, at = [], line - 1
    while at >= 0 and (lines[at].strip().startswith(("//", "#[")) or lines[at].rstrip().endswith(("(", "=", ",", "{", "&&", "||"))):
        comment = re.match(r"\s*//[/!]?\s?(.*)", lines[at])
        if comment:
            words.insert(0, comment.group(1))
            if re.search(r"SAFETY:|# Safety", comment.group(1)):
                return re.sub(r".*?(SAFETY:|# Safety)\s*", "", " ".join(words), count=1).strip()
        elif words:
            break
        at -= 1
        if line - at > 40:
            break
    return "as its caller's or its declaration's contract says"


def row_of(path, rows):
    """The row of the table that counts for a file."""
    fitting = [row for row in rows if path == row or row.endswith("/") and path.startswith(row)]
    return max(fitting, key=len, default=None)


def check(files, rows, exists):
    problems, used = [], set()
    for path, text in sorted(files.items()):
        if not any(True for _ in places(text)):
            continue
        row = row_of(path, rows)
        if row is None:
            problems.append(f"{path}: it has unsafe code, and {TABLE} names no test that owns it")
            continue
        used.add(row)
        if "own" in rows[row] and not OWN.search(code_of(text)):
            problems.append(f"{TABLE}: {path} has no tests of its own")
    for row, tests in rows.items():
        if row not in used:
            problems.append(f"{TABLE}: {row}: no file there has unsafe code; take the row away")
        problems.extend(f"{TABLE}: {row}: {test} does not exist" for test in tests if test != "own" and not exists(test))
    return problems


def files_of_tree():
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.rs"))
    named = ((path.relative_to(ROOT).as_posix(), path) for path in paths)
    return {name: path.read_text() for name, path in named if not OF_TESTS.search(name)}


def table():
    lines = (ROOT / TABLE).read_text().splitlines()
    return {row: tests.split() for row, tests in (line.split("\t") for line in lines if line and not line.startswith("#"))}


def find_plants():
    """The check must find each of these."""
    text = "fn f() {\n    // SAFETY: it is planted.\n    unsafe { g() }\n}\n"
    assert [place for place in places(text)] == [(3, "f", "it is planted.")], list(places(text))
    assert list(places("#[cfg(test)]\nmod tests {\n fn f() { unsafe { g() } }\n}\n")) == []
    assert list(places('fn f() { say("unsafe"); } // unsafe\n')) == []
    files, there = {"a/b.rs": text}, lambda test: test == "t.rs"
    assert check(files, {"a/b.rs": ["t.rs"]}, there) == []
    assert check(files, {"a/": ["t.rs"]}, there) == []
    for rows in ({}, {"a/b.rs": ["own"]}, {"a/b.rs": ["u.rs"]}, {"a/": ["t.rs"], "c/": ["t.rs"]}):
        assert len(check(files, rows, there)) == 1, rows


if __name__ == "__main__":
    found, known = files_of_tree(), table()
    if sys.argv[1:] == ["--list"]:
        for path, text in sorted(found.items()):
            for line, function, why in places(text):
                print(f"{path}:{line}\t{function}\t{why}\t{' '.join(known.get(row_of(path, known), ['-']))}")
    elif sys.argv[1:] == ["--count"]:
        for package in PACKAGES:
            of = [len(list(places(text))) for path, text in found.items() if path.startswith(package + "/")]
            print(f"{package}: {sum(of)} places in {sum(count > 0 for count in of)} files")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        find_plants()
        faults = check(found, known, lambda test: (ROOT / test).is_file())
        print("\n".join(faults) or "unsafe code: each file has tests that own it", file=sys.stderr if faults else sys.stdout)
        sys.exit(bool(faults))
