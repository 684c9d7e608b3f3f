"""Rust sources as far as the checks of this folder need them."""

import re
from functools import cache
from pathlib import Path

# Longest first: a raw string may hold quotes, a string may hold slashes.
LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|\b(?:b|c)?r(?P<hashes>#*)".*?"(?P=hashes)'
    r'|\b(?:b|c)?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*"'
    r"|'(?:\\[^']+|[^\\'\n])'",
    re.DOTALL,
)
CFG_TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
OPENING, CLOSING = "([{", ")]}"


def blank(text):
    """Spaces instead of the characters, so that positions and lines stay."""
    return re.sub(r"[^\n]", " ", text)


def end_of_item(code, start):
    """Where the item at `start` ends: behind its `;`, its `,` or its closing brace."""
    depth = 0
    for index in range(start, len(code)):
        char = code[index]
        if char in OPENING:
            depth += 1
        elif char in CLOSING:
            depth -= 1
            if depth < 0 or depth == 0 and char == "}":
                return index + (depth == 0)
        elif depth == 0 and char in ";,":
            return index + 1
    return len(code)


def matching(code, position):
    """Where the brace at `position` is closed."""
    depth = 0
    for index in range(position, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return index
    return len(code)


@cache
def code_of(text):
    """The code of a file without comments and literals; what is left stays where it was."""
    return LITERALS.sub(lambda match: blank(match.group()), text)


def strings_of(text):
    """The string literals of a file with their positions."""
    return [(m.start(), m.group()) for m in LITERALS.finditer(text) if m.group()[0] not in "/'" and '"' in m.group()]


@cache
def strip(text):
    """The same without items that only tests have."""
    code = code_of(text)
    for gate in list(CFG_TEST.finditer(code)):
        end = end_of_item(code, gate.end())
        code = code[: gate.start()] + blank(code[gate.start() : end]) + code[end:]
    return code


class Source:
    """One file: its text, and its code (`strip`)."""

    def __init__(self, path):
        self.path = Path(path)
        self.text = self.path.read_text()
        self.code = strip(self.text)

    def line(self, position):
        return self.text.count("\n", 0, position) + 1
