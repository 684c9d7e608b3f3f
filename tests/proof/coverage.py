"""Lines that a run has reached, by file: coverage.py LCOV DIRECTORY LEAST MISSED."""

import os
import sys


def read(lcov):
    """The lines with code of each file, and how often each was run."""
    files, lines = {}, {}
    for text in open(lcov, encoding="utf-8"):
        kind, _, rest = text.strip().partition(":")
        if kind == "SF":
            lines = files.setdefault(os.path.relpath(rest), {})
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            # A generic function comes once for each type.
            lines[int(number)] = lines.get(int(number), 0) + int(count)
    return files


def of_compiler(source):
    """The numbers of the lines of constant functions, which the compiler runs, and no program."""
    found, is_in = set(), False
    for number, text in enumerate(source, 1):
        is_in = is_in or (text.startswith(("const fn ", "pub(super) const fn ", "pub const fn ")) and text.endswith("{"))
        if is_in:
            found.add(number)
        is_in = is_in and text != "}"
    return found


def main():
    lcov, directory, least, missed = sys.argv[1:]
    files = {name: lines for name, lines in read(lcov).items() if name.startswith(directory + os.sep) and lines}
    files = {name: lines for name, lines in files.items() if "tests" not in name.split(os.sep)}
    if not files:
        sys.exit(f"coverage.py: {lcov} names no file of {directory}")
    print(f"{'file':<44} {'lines':>6} {'run':>6} {'percent':>8}")
    all_lines = all_run = 0
    with open(missed, "w", encoding="utf-8") as out:
        for name, lines in sorted(files.items()):
            source = open(name, encoding="utf-8").read().split("\n")
            const = of_compiler(source)
            lines = {number: count for number, count in lines.items() if number not in const}
            run = sum(count > 0 for count in lines.values())
            all_lines, all_run = all_lines + len(lines), all_run + run
            print(f"{name:<44} {len(lines):>6} {run:>6} {100 * run / len(lines):>8.1f}")
            for number, count in sorted(lines.items()):
                if count == 0:
                    out.write(f"{name}:{number}: {source[number - 1]}\n")
    percent = 100 * all_run / all_lines
    print(f"{'all':<44} {all_lines:>6} {all_run:>6} {percent:>8.1f}")
    if percent < float(least):
        sys.exit(f"coverage.py: {percent:.1f} percent of the lines are run, fewer than {least}")


main()
