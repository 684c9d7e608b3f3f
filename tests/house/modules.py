#!/usr/bin/env python3
"""Fails on an upward import and on a circle between modules (part of `make check`).

    tests/house/modules.py              checks this tree, after it has found what it plants in copies of it
    tests/house/modules.py ROOT         checks the tree at ROOT alone
    tests/house/modules.py --edges DIR  prints who imports what between the children of a folder, for instance client/src

Upward is an import that `layers.txt` does not allow: between crates, or between modules of a folder that it lists. A circle is a
set of modules of one folder that import each other, each with all that is in it; a module and its parent may. Tests
may import whatever they like.
"""

import re
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.dont_write_bytecode = True
from source import Source, matching  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
HOUSE = "tests/house"
MOD = re.compile(r"(?:\bpub(?:\([^)]*\))?\s+)?\bmod\s+(\w+)\s*([;{])")
USE = re.compile(r"\buse\s+([^;]+);")
INLINE = re.compile(r"(?<![\w:])((?:\$?crate|super|self|pmix_\w+)(?:::\w+)+)")
PATH_ATTRIBUTE = re.compile(r'#\[path\s*=\s*"([^"]+)"\]\s*(?:#\[[^\]]*\]\s*)*$')
INCLUDE = re.compile(r"\binclude(?:_str|_bytes)?!\s*\(")
LOADED = {}  # crates that were read


class Module:
    """A file of a crate, or an inline module within one."""

    def __init__(self, name, parent, source):
        self.name, self.parent, self.source = name, parent, source
        self.children = {}
        self.names = {}  # what `use` brings: name -> (path, module in which the path is meant)
        self.imports = []  # (path, position)

    def path(self):
        return (self.parent.path() if self.parent else []) + [self.name]

    def ancestors(self):
        module, line = self, []
        while module:
            line.append(module)
            module = module.parent
        return line


def flatten(tree):
    """The paths of a use tree, each with the name that it brings."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::") if part.strip()]
        if parts and parts[-1] == "self":
            parts.pop()
        return [(parts, name.strip() or (parts[-1] if parts else ""))]
    prefix = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    body, depth, start, items = tree[brace + 1 : tree.rfind("}")], 0, 0, []
    for index, char in enumerate(body):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            items.append(body[start:index])
            start = index + 1
    items.append(body[start:])
    return [
        (prefix + path, name or (prefix[-1] if prefix else ""))
        for item in items
        if item.strip()
        for path, name in flatten(item)
    ]


class Crate:
    """The modules of a crate, and what they import."""

    def __init__(self, root, folder, entry):
        self.root, self.folder = root, folder
        self.includes = []  # (source, position, file)
        self.top = self.load(root / folder / entry, "", None, own_folder=True)

    def load(self, path, name, parent, own_folder=False):
        source = Source(path)
        module = Module(name, parent, source)
        below = path.parent if own_folder or path.name == "mod.rs" else path.with_suffix("")
        self.read(module, source, 0, len(source.code), below)
        return module

    def read(self, module, source, start, end, below):
        """Reads the code of a module: its children first, then what remains."""
        code, position, spans = source.code, start, []
        while match := MOD.search(code, position, end):
            name, position = match.group(1), match.end()
            if match.group(2) == "{":
                close = matching(code, match.end() - 1)
                child = Module(name, module, source)
                self.read(child, source, match.end(), close, below / name)
                position = close
                spans.append((match.start(), close))
            else:
                attribute = PATH_ATTRIBUTE.search(source.text, max(0, match.start() - 200), match.start())
                if attribute:
                    file = source.path.parent / attribute.group(1)
                    self.includes.append((source, attribute.start(), file.resolve()))
                else:
                    file = below / f"{name}.rs"
                    file = file if file.exists() else below / name / "mod.rs"
                child = self.load(file, name, module)
            module.children[name] = child
        own = code[start:end]
        for first, last in spans:
            own = own[: first - start] + " " * (last - first) + own[last - start :]
        for match in USE.finditer(own):
            for path, name in flatten(" ".join(match.group(1).split())):
                module.imports.append((path, start + match.start()))
                module.names[name] = path
        for match in INLINE.finditer(USE.sub(lambda use: " " * len(use.group()), own)):
            module.imports.append((match.group(1).split("::"), start + match.start()))
        for match in INCLUDE.finditer(own):
            literal = re.compile(r'\s*"([^"]+)"').match(source.text, start + match.end())
            if literal:
                file = (source.path.parent / literal.group(1)).resolve()
                self.includes.append((source, start + match.start(), file))

    def modules(self, module=None):
        module = module or self.top
        yield module
        for child in module.children.values():
            yield from self.modules(child)

    def resolve(self, module, path, depth=0):
        """The module that a path means; what is brought into a module by `use` is looked for where it comes from."""
        if not path or depth > 20:
            return None
        first, rest = path[0], list(path[1:])
        if first in ("crate", "$crate"):
            found = self.top
        elif first in ("self", "super"):
            found = module
            rest = list(path)
            while rest and rest[0] in ("self", "super"):
                found = found.parent if rest.pop(0) == "super" else found
                if found is None:
                    return None
        elif first in module.children:
            found = module.children[first]
        elif first in module.names and module.names[first] != path and depth:
            return self.resolve(module, module.names[first] + rest, depth + 1)
        else:
            return None
        while rest:
            if rest[0] in found.children:
                found = found.children[rest.pop(0)]
            elif rest[0] in found.names:
                return self.resolve(found, found.names[rest[0]] + rest[1:], depth + 1) or found
            else:
                break
        return found

    def edges(self):
        """(module, imported module, position), without those of a module with its ancestors and descendants."""
        for module in self.modules():
            for path, position in module.imports:
                found = self.resolve(module, path)
                if found and found not in module.ancestors() and module not in found.ancestors():
                    yield module, found, position


def siblings(crate):
    """Who imports whom among the children of each module: parent -> {(from, to): [where]}."""
    found = defaultdict(lambda: defaultdict(list))
    for module, imported, position in crate.edges():
        ours, theirs = module.ancestors()[::-1], imported.ancestors()[::-1]
        level = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a is not b)
        where = f"{module.source.path.relative_to(crate.root)}:{module.source.line(position)}"
        line = f"{where}: {'::'.join(module.path()[1:])} imports {'::'.join(imported.path()[1:])}"
        lines = found[ours[level - 1]][ours[level].name, theirs[level].name]
        if line not in lines:
            lines.append(line)
    return found


def circles(edges):
    """The sets of names that reach each other (Tarjan)."""
    after = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(after[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(after):
        if node not in index:
            visit(node)
    return found


def folder_of(crate, module):
    return "/".join([f"{crate.folder}/src"] + module.path()[1:])


def read_list(root, name):
    """Lines `FOLDER: WORD...` of a list; what follows `#` is a remark."""
    path, lines = root / HOUSE / name, {}
    for line in path.read_text().splitlines() if path.exists() else []:
        key, _, words = line.partition("#")[0].partition(":")
        if key.strip():
            lines[key.strip()] = words
    return lines


def layers(words):
    """The layer of each name: lowest first, `<` between layers."""
    return {name: number for number, layer in enumerate(words.split("<")) for name in layer.split()}


def check_crates(root, crates, order):
    """Imports between crates, in Cargo.toml, by name and by path."""
    problems, package = [], {}
    for folder in order:
        manifest = (root / folder / "Cargo.toml").read_text()
        package[re.search(r'^name = "([^"]+)"', manifest, re.M).group(1).replace("-", "_")] = folder
    package.setdefault("pmix", "ffi")

    def judge(folder, name, where):
        target = package.get(name)
        if target and target != folder and order[target] >= order[folder]:
            problems.append(f"{where}: upward import: {folder} imports {target}")

    for folder in order:
        manifest = (root / folder / "Cargo.toml").read_text()
        for number, line in enumerate(manifest.splitlines(), 1):
            if match := re.match(r"(pmix(?:-[\w-]+)?)\b", line):
                judge(folder, match.group(1).replace("-", "_"), f"{folder}/Cargo.toml:{number}")
    for crate in crates:
        for module in crate.modules():
            for path, position in module.imports:
                where = f"{module.source.path.relative_to(root)}:{module.source.line(position)}"
                judge(crate.folder, path[0], where)
        for source, position, file in crate.includes:
            below = [folder for folder in order if (root / folder).resolve() in file.parents]
            target = max(below, key=len, default=None)
            if target and target != crate.folder and order[target] >= order[crate.folder]:
                where = f"{source.path.relative_to(root)}:{source.line(position)}"
                problems.append(f"{where}: upward import: {crate.folder} includes {file.relative_to(root.resolve())}")
    return problems


def load(root, order):
    crates = []
    for folder in order:
        entries = [f"src/{name}" for name in ("lib.rs", "main.rs") if (root / folder / "src" / name).exists()]
        entries += sorted(str(path.relative_to(root / folder)) for path in (root / folder / "src/bin").glob("*.rs"))
        crates += [crate_at(root, folder, entry) for entry in entries]
    return crates


def crate_at(root, folder, entry):
    """The crate of an entry file; crates that did not change since are not read again."""
    texts = tuple(path.read_text() for path in sorted((root / folder / "src").rglob("*.rs")))
    key = root, folder, entry
    if LOADED.get(key, (None, None))[0] != texts:
        LOADED[key] = texts, Crate(root, folder, entry)
    return LOADED[key][1]


def check(root):
    """Problems of the tree at `root`."""
    orders = {folder: layers(words) for folder, words in read_list(root, "layers.txt").items()}
    crates = load(root, orders["."])
    problems = check_crates(root, crates, orders.pop("."))
    for crate in crates:
        for parent, edges in siblings(crate).items():
            folder = folder_of(crate, parent)
            order = orders.get(folder)
            if order:
                for (source, target), lines in edges.items():
                    if source in order and target in order and order[target] >= order[source]:
                        problems += [f"{line}: upward, see {HOUSE}/layers.txt" for line in lines]
            for members in circles(edges):
                inner = [line for (a, b), lines in edges.items() if a in members and b in members for line in lines]
                problems.append(f"{folder}: circle of {' '.join(members)}")
                problems += [f"    {line}" for line in sorted(inner)]
    for folder in orders:
        if not (root / folder).is_dir():
            problems.append(f"{HOUSE}/layers.txt: {folder}: no such folder")
    return problems


# What the check must find: a file, what is added to it, and what is said of it.
PLANTS = [
    ("client/src/link.rs", "use pmix_server::Server as _;\n", "upward import: client imports server"),
    ("client/wire/src/header.rs", "fn planted() { pmix_client::get::planted(); }\n", "upward import: client/wire imports client"),
    ("server/Cargo.toml", '[target.x.dependencies]\npmix-ffi = { path = "../ffi" }\n', "upward import: server imports ffi"),
    ("dstore/src/cancel.rs", '#[path = "../../client/src/link.rs"]\nmod planted;\n', "upward import: dstore includes client/src/link.rs"),
    ("dstore/src/segment/layout/toc.rs", "use crate::segment::ViewStats as _;\n", "layout::toc imports segment::read::view: upward"),
    ("dstore/src/gather.rs", "fn planted() { crate::codec::planted(); }\n", "dstore/src: circle of codec gather"),
    ("dstore/src/codec/int.rs", "use super::Packer as _;\n", "dstore/src/codec: circle of int pack"),
    ("dstore/src/segment/directory/files.rs", "mod planted { use super::super::page::Entry as _; }\n#[cfg(test)]\nmod tests { use pmix_server as _; }\n", None),
]


def self_test():
    """Plants each fault in a copy of the tree; what is not found is a problem."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="pmix-house-") as directory:
        copy = Path(directory)
        for folder in [*layers(read_list(ROOT, "layers.txt")["."]), HOUSE]:
            keep = shutil.ignore_patterns("target", "__pycache__", "*.so", "vectors", "data")
            shutil.copytree(ROOT / folder, copy / folder, ignore=keep, dirs_exist_ok=True)
        before = check(copy)
        for file, plant, finding in PLANTS:
            path = copy / file
            text = path.read_text()
            path.write_text(text + plant)
            found = [problem for problem in check(copy) if problem not in before]
            if finding is None and found or finding and not any(finding in problem for problem in found):
                problems.append(f"{HOUSE}/modules.py: planted in {file}, found {found}: {plant.strip()}")
            path.write_text(text)
    return problems


def show(folder):
    order = layers(read_list(ROOT, "layers.txt")["."])
    for crate in load(ROOT, order):
        for parent, edges in siblings(crate).items():
            if folder_of(crate, parent) == folder:
                print("\n".join(sorted(line for lines in edges.values() for line in lines)))


def main():
    if sys.argv[1:2] == ["--edges"]:
        return show(sys.argv[2])
    problems = check(Path(sys.argv[1])) if len(sys.argv) > 1 else check(ROOT) + self_test()
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
