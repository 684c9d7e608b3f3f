#!/usr/bin/env python3
"""Fails on names and phrases that this project has given up (part of `make check`).

    tests/house/names.py            checks this tree, after it has found what it plants
    tests/house/names.py --where    prints where each pending name still is
    tests/house/names.py --shrink   enforces the pending names that are gone

`identifiers.txt` lists names of Rust items, modules and files; `phrases.txt` lists phrases. A name must not be an item, a module
or a file, nor a log text or a heading where it can only be the identifier. A phrase must not be in a log text or a heading.
Ordinary English use of the words is free, and so is docs/log.
"""

import fnmatch
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.dont_write_bytecode = True
from source import code_of, end_of_item, strings_of, strip  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
HOUSE = "tests/house"
ITEM = re.compile(r"\b(mod|struct|enum|union|trait|type|fn|const|static|macro_rules!)\s+(?:mut\s+)?(?!fn\b|unsafe\b|extern\b)(\w+)")
KINDS = {"mod": "mod", "fn": "fn", "macro_rules!": "fn", "const": "const", "static": "const"}
MEMBER = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?(?:r#)?(\w+)")
ATTRIBUTES = re.compile(r"^(?:\s*#\[(?:[^\[\]]|\[[^\]]*\])*\])*\s*")
HEADING = re.compile(r"^#+ .*$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def members(body):
    """The parts of the body of a struct or enum, each with its position."""
    depth, start = 0, 0
    for index, char in enumerate(body + ","):
        depth += (char in "([{<") - (char in ")]}" or char == ">" and body[index - 1 : index] not in ("-", "="))
        if char == "," and depth <= 0:
            yield start, body[start:index]
            start = index + 1


def items(code):
    """(kind, name, position) of everything that a file defines."""
    for match in ITEM.finditer(code):
        word, name = match.groups()
        yield KINDS.get(word, "type"), name, match.start()
        if word not in ("struct", "enum", "union"):
            continue
        end = end_of_item(code, match.end())
        brace = code.find("{", match.end(), end)
        if brace < 0:
            continue
        for position, member in members(code[brace + 1 : end - 1]):
            found = MEMBER.match(member, ATTRIBUTES.match(member).end())
            if found:
                kind = "variant" if word == "enum" else "field"
                yield kind, f"{name}::{found.group(1)}", brace + 1 + position + found.start(1)


class Rule:
    """A line of identifiers.txt: `KIND NAME [in PATH] -> BETTER`, with `pending` or `kept` in front."""

    def __init__(self, line, number):
        self.number = number
        before, _, self.better = line.partition("->")
        words = before.split()
        self.state = words.pop(0) if words[0] in ("pending", "kept") else "gone"
        self.kind, self.name = words[0], words[1]
        self.under = words[3] if words[2:3] == ["in"] else ""
        self.found = []

    def matches(self, kind, name, file):
        if kind != self.kind or not file.startswith(self.under):
            return False
        pattern = self.name if "::" in self.name or "::" not in name else f"*::{self.name}"
        return fnmatch.fnmatchcase(name, pattern)

    def is_word(self):
        """Whether it may be a word of English, too."""
        return self.name.isalpha() and (self.name.islower() or self.name[1:].islower())


def rules(text):
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    return [Rule(line, number) for number, line in lines if line]


def is_ours(file):
    return not file.startswith((f"{HOUSE}/", "docs/log/"))


def texts(file, text):
    """Log texts and headings of a file: (position, text)."""
    if file.endswith(".rs") and "/tests/" not in f"/{file}" and not file.endswith("tests.rs"):
        code = strip(text)
        for position, literal in strings_of(text):
            # A word alone is a name, of the format or of the wire. Where there is no code, there is a test.
            if " " in literal and code[max(0, position - 400) : position].strip():
                yield position, literal
    elif file.endswith(".md"):
        plain = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        for match in HEADING.finditer(plain):
            yield match.start(), match.group()


def check(files, identifiers, phrases):
    """Problems of the files (name -> text)."""
    problems, by_kind = [], defaultdict(list)
    for rule in identifiers:
        by_kind[rule.kind].append(rule)

    def judge(kind, name, file, where):
        for rule in by_kind[kind]:
            if rule.matches(kind, name, file):
                rule.found.append(where)
                if rule.state == "gone":
                    problems.append(f"{where}: {kind} {name}:{rule.better or ' another name'}")

    for folder in {str(parent) for file in files for parent in Path(file).parents if is_ours(file)} - {"."}:
        judge("mod", Path(folder).name, folder + "/", folder + "/")
    for file, text in files.items():
        if not is_ours(file):
            continue
        at = lambda position: f"{file}:{text.count(chr(10), 0, position) + 1}"
        judge("mod", Path(file).stem, file, file)
        if file.endswith(".rs"):
            for kind, name, position in items(code_of(text)):
                judge(kind, name, file, at(position))
        for position, words in texts(file, text):
            plain = " ".join(words.split())
            for phrase in phrases:
                if re.search(rf"\b{re.escape(phrase)}\b", plain, re.I):
                    problems.append(f"{at(position)}: \"{phrase}\" in {plain[:80]}")
            for rule in identifiers:
                if rule.state == "gone" and not rule.is_word() and "*" not in rule.name:
                    if re.search(rf"(?<!\w){re.escape(rule.name)}(?!\w)", plain):
                        problems.append(f"{at(position)}: {rule.name} in {plain[:80]}:{rule.better}")
    for rule in identifiers:
        if rule.state == "pending" and not rule.found:
            problems.append(f"{HOUSE}/identifiers.txt:{rule.number}: {rule.kind} {rule.name} is gone: no longer pending (--shrink)")
    return problems


# What the check must find, and that ordinary words are free: a file, its text, and what is said of it.
PLANTS = [
    ("dstore/src/planted.rs", "pub(crate) struct GivenUp<'a> {\n    way: &'a u8,\n}\n", "type GivenUp"),
    ("dstore/src/planted.rs", "// A comment of struct GivenUp.\nconst fn given_up() {}", "fn given_up"),
    ("dstore/src/planted.rs", "mod given;", "mod given"),
    ("dstore/src/planted.rs", "enum Way {\n    #[doc = \"x\"]\n    First { given: u8 },\n    Given(u8),\n}", "variant Way::Given"),
    ("dstore/src/planted.rs", "struct Way<T: Fn() -> u8> { a: Vec<u8>, pub(crate) given: T }", "field Way::given"),
    ("dstore/src/planted.rs", "const GIVEN_ONE: u8 = 0;", "const GIVEN_ONE"),
    ("dstore/src/given.rs", "", "mod given"),
    ("client/src/given/mod.rs", "", "mod given"),
    ("server/src/planted.rs", 'fn log() { warn("What is Given is\n given  away."); }', '"given away"'),
    ("docs/planted.md", "# A thing given away\n", '"given away"'),
    ("docs/planted.md", "# What `given_up()` does\n", "given_up"),
    ("docs/planted.md", "given away\n```\n# given away\n```\n", None),
    ("docs/log/planted.md", "# given away\n", None),
    ("server/src/planted.rs", 'fn give() { let given = Given::new(); warn("given"); }\nuse x::GivenUp;\n// given away', None),
]
PLANTED = "type GivenUp -> T\nfn given_up -> f\nmod given -> m\nvariant Given -> V\nfield given -> f\nconst GIVEN_* -> C\n"


def self_test():
    for file, text, finding in PLANTS:
        found = check({file: text}, rules(PLANTED), ["given away"])
        if not (finding is None and not found or finding and any(finding in problem for problem in found)):
            yield f"{HOUSE}/names.py: planted in {file}, found {found}: {text.strip()}"


def main():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True)
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*.rs")]
    names = [name for name in names if name and (ROOT / name).is_file()]
    files = {name: (ROOT / name).read_text() if name.endswith((".rs", ".md")) else "" for name in names}
    identifiers = rules((ROOT / HOUSE / "identifiers.txt").read_text())
    phrases = [line.strip() for line in (ROOT / HOUSE / "phrases.txt").read_text().splitlines() if line.strip() and line[0] != "#"]
    problems = check(files, identifiers, phrases)
    if sys.argv[1:] == ["--shrink"]:
        path = ROOT / HOUSE / "identifiers.txt"
        lines = path.read_text().splitlines()
        for rule in identifiers:
            if rule.state == "pending" and not rule.found:
                lines[rule.number - 1] = lines[rule.number - 1].removeprefix("pending ")
        return path.write_text("\n".join(lines) + "\n")
    problems += self_test()
    if sys.argv[1:] == ["--where"]:
        for rule in identifiers:
            if rule.state == "pending":
                print(f"{rule.kind} {rule.name} ->{rule.better}: {' '.join(rule.found)}")
        return
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
