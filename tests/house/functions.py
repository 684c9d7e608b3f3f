#!/usr/bin/env python3
"""Fails on a function of more than 60 lines that is not a table (part of `make check`).

    tests/house/functions.py            checks this tree, after it has found what it plants
    tests/house/functions.py --shrink   takes the lines away whose functions are not that long any more

`functions.txt` lists the functions that may be longer, with a reason: `table` for one match or list with an arm for each case, or
`pending` for one that is still to be cut. A line whose function is not that long any more is a fault, too.
"""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from source import matching, strip  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
HOUSE = "tests/house"
LINES_MAX = 60
FN = re.compile(r"\bfn\s+(\w+)")


def functions(text):
    """(name, first line, lines) of each function with a body that is not a test's."""
    code = strip(text)
    for match in FN.finditer(code):
        depth = 0
        for index in range(match.end(), len(code)):
            depth += (code[index] in "([") - (code[index] in ")]")
            if depth == 0 and code[index] in "{;":
                break
        if code[index] == "{":
            end = matching(code, index)
            yield match.group(1), code.count("\n", 0, match.start()) + 1, code.count("\n", match.start(), end) + 1


def check(files, allowed):
    problems, needed = [], set()
    for file, text in files.items():
        for name, line, lines in functions(text):
            if lines > LINES_MAX:
                needed.add((file, name))
                if (file, name) not in allowed:
                    problems.append(f"{file}:{line}: {name} has {lines} lines, more than {LINES_MAX}: cut it")
    for file, name in allowed - needed:
        problems.append(f"{HOUSE}/functions.txt: {file} {name} is not that long any more: take the line away")
    return problems


def self_test():
    long = "fn long<'a>(a: [u8; 4]) -> u8\nwhere\n    u8: Copy,\n{\n" + '    let brace = "}"; // }\n' * LINES_MAX + "}\n"
    short = "fn short() {\n" + "\n" * (LINES_MAX - 2) + "}\n"
    of_test = "#[cfg(test)]\nmod tests {\n" + long + "}\n"
    for text, allowed, finding in [
        (long, set(), "long has 65 lines"),
        (short + of_test, set(), None),
        (long, {("a.rs", "long")}, None),
        (short, {("a.rs", "short")}, "not that long any more"),
    ]:
        found = check({"a.rs": text}, allowed)
        if not (finding is None and not found or finding and len(found) == 1 and finding in found[0]):
            yield f"{HOUSE}/functions.py: planted, found {found}: {text[:40]}"


def main():
    paths = [path for folder in ("dstore", "client", "server", "ffi", "tools") for path in sorted((ROOT / folder).rglob("src/**/*.rs"))]
    files = {str(path.relative_to(ROOT)): path.read_text() for path in paths if "tests" not in path.stem and "tests" not in path.parts}
    allowed = set()
    for line in (ROOT / HOUSE / "functions.txt").read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            allowed.add((words[1], words[2]))
    if sys.argv[1:] == ["--shrink"]:
        path = ROOT / HOUSE / "functions.txt"
        gone = {line.split(": ")[1].split(" is not")[0] for line in check(files, allowed) if "not that long" in line}
        lines = [line for line in path.read_text().splitlines() if " ".join(line.split()[1:]) not in gone]
        return path.write_text("\n".join(lines) + "\n")
    problems = check(files, allowed) + list(self_test())
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
