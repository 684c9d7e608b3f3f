#!/usr/bin/env python3
"""Writes the tables of benchmark results into the documents.

    benches/results.py                  rewrites the generated blocks of README.md, docs/performance.md and docs/openmpi.md
    benches/results.py --check          fails if a block differs from the files in benches/results (part of `make check`)
    benches/results.py --take DIR       copies DIR/bench.json, which `make bench` wrote, or DIR/jobs.json, DIR/memory.json or
                                        DIR/wireup.json, which `make bench-wireup` wrote, to benches/results with date, commit and
                                        machine, then rewrites the blocks; DIR may be such a file. --note TEXT says what else ran on
                                        the machine. Rows of several DIRs of one of these files, measured in pieces, become one.
                                        target/bench-NAME, which `make bench ROOT=.../NAME` wrote, becomes bench-NAME.json

A block begins with `<!-- results: NAME -->` and ends with `<!-- /results -->`. Nothing in between is written by hand.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "benches/results"
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/performance.md", ROOT / "docs/openmpi.md"]
BLOCK = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(<!-- /results -->)", re.DOTALL)

# What the names of the benchmark mean, for readers. A name that is not here is shown as it is.
CALLS = {
    "own-key": "a key that the caller put",
    "local-key": "a key of a rank on the node",
    "remote-key": "a key of a rank on another node",
    "rank-number": "a number registered for a rank",
    "rank-host": "hostname of a rank",
    "own-host": "hostname of the caller's node",
    "job": "job-level key (job size)",
    "session": "session-level key",
    "app": "application-level key",
    "node-by-id": "node-level key, node named by number",
    "node-by-name": "node-level key, node named by hostname",
    "local-peers": "`PMIX_LOCAL_PEERS`",
    "miss": "a key that nobody put, `PMIX_OPTIONAL`",
    "reserved-miss": "a reserved key that is not registered, `PMIX_OPTIONAL`",
    "pointer": "by pointer (`PMIX_GET_POINTER_VALUES`)",
    "static-scalar": "number into the caller's structure (`PMIX_GET_STATIC_VALUES`)",
    "static-bytes": "key of a rank on the node into the caller's structure",
    "static-pointer": "by pointer into the caller's structure",
    "resolve-peers": "`PMIx_Resolve_peers`, 16 processes",
    "resolve-nodes": "`PMIx_Resolve_nodes`, 64 nodes",
    "cold-key": "published key of a random rank, 1,048,576 ranks, cold cache",
    "cold-number": "number registered for a random rank, cold cache",
    "cold-host": "hostname of a random rank, cold cache",
}
LIMITS = {
    "lookup": "hash table look-up, 1024 entries in a mapped file",
    "allocate": "`malloc`, copy and `free` of a structure and 64 bytes",
    "copy": "the look-up with a copy of its value",
    "cold": "the same of 1,048,576 values, cold cache",
    "array": "copy of a ready array of 16 processes",
    "list": "copy of a ready list of 64 nodes",
    "page": "write of 4 KiB to a new page of a file in memory",
    "infos": "reading eight infos of a rank once",
}
# Sections of the second table, in this order.
PROCESSES = [
    "wire-up, net of fork and exec",
    "fork and exec of idle processes",
    "start and exit of a process",
    "collecting fence",
    "CPU time of the server's threads for a rank and a fence",
    "first fence done",
    "all peers' keys",
    "memory of a rank",
    "PMIx_Init of the slowest of 8 ranks beside idle connections of another user",
    "server",
    "large job",
    "large job by placement",
]
# README: section, row, label, unit that is shown, divisor.
README = [
    ("one call", "remote-key", "`PMIx_Get` of another rank's key", "ns", 1),
    ("one call", "job", "`PMIx_Get` of a job-level key", "ns", 1),
    ("one call", "miss", "`PMIx_Get` that finds nothing (`PMIX_OPTIONAL`)", "ns", 1),
    ("all peers' keys", "4 servers of 32 ranks, slowest",
     "128 ranks, 4 servers on one machine: each reads 8 keys of every rank, slowest", "ms", 1),
    ("wire-up, net of fork and exec", "128 ranks, CPU time of a rank",
     "wire-up of 128 ranks on a node, CPU time of a rank", "ms", 1),
    ("memory of a rank", "private memory written until the end of the first fence",
     "private memory of a rank after wire-up", "KiB", 1),
    ("collecting fence", "4 servers of 8 ranks, 32 MiB",
     "collecting fence of 32 MiB, 4 servers on one machine", "ms", 1),
    ("large job", "65,536 ranks: register", "65,536 ranks: registration", "ms", 1),
    ("large job", "65,536 ranks: memory", "65,536 ranks: memory of the server", "MiB", 1024),
    ("large job", "65,536 ranks: init", "65,536 ranks: `PMIx_Init`", "ms", 1),
]


def shown(figure):
    """A figure with the digits that mean something."""
    if figure is None:
        return ""
    size = abs(figure)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    # Without the sign of what is shown as zero.
    return f"{round(figure, digits) + 0.0:,.{digits}f}"


def run(begin, document):
    """How often and where it was measured, and what else ran there."""
    rounds = document["rounds"]
    number = f"{rounds} round{'' if rounds == 1 else 's'}"
    return f"{begin}, {number}, {document['machine']}. {document['note']}".rstrip()


class Bench:
    """The results of `make bench`."""

    # Sections and rows of other tables: those beside newer stock libraries, and those beside an earlier version of ours.
    BESIDE = [
        ("wire-up, net of fork and exec", "CPU time of a rank"),
        ("first fence done", ""),
        ("all peers' keys", ""),
        ("memory of a rank", ""),
        ("collecting fence", "32 MiB"),
        ("server", ""),
        ("large job", "65,536 ranks: "),
    ]
    BEFORE = ["one call", *PROCESSES]

    def __init__(self, document):
        self.document = document
        self.results = document["results"]
        self.rows = {(row["section"], row["name"]): row for row in self.results["rows"]}
        # The same beside newer stock libraries.
        paths = sorted(DIRECTORY.glob("bench-*.json")) if self.is_own() else []
        self.newer = sorted((Bench(json.loads(path.read_text())) for path in paths), key=Bench.stock)

    def stock(self):
        """The release of the stock library."""
        return self.results["stock"]

    def is_own(self):
        """Whether the stock library is this machine's."""
        return self.document["root"] is None

    def spread(self, row, who):
        """The median with the least and the largest of the rounds."""
        figures = row["figures"].get(who, {})
        if figures.get("median") is None:
            return ""
        if figures["least"] == figures["most"]:
            return shown(figures["median"])
        return "{} ({} to {})".format(*(shown(figures[name]) for name in ("median", "least", "most")))

    def section(self, name):
        return [row for row in self.results["rows"] if row["section"] == name]

    def median(self, row, who):
        return row["figures"].get(who, {}).get("median")

    def ratio(self, row):
        """How many times the stock library's figure is that of ours; none where a net time is not above zero."""
        if any((self.median(row, who) or 0) <= 0 for who in ("stock", "ours")):
            return None
        return row["figures"]["ours"]["stock_ratio"]

    def find(self, section, name):
        if (section, name) not in self.rows:
            sys.exit(f"{DIRECTORY}: no row {section!r}: {name!r}")
        return self.rows[section, name]

    def block_readme(self):
        lines = [f"| | stock {self.stock()} | pmix-dstore | stock / ours |", "|---|---|---|---|"]
        for section, name, label, unit, divisor in README:
            row = self.find(section, name)
            stock, ours = (self.median(row, who) / divisor for who in ("stock", "ours"))
            lines.append(f"| {label} | {shown(stock)} {unit} | {shown(ours)} {unit} | {shown(self.ratio(row))} |")
        return [*lines, "", run(f"Run of {self.document['date']}", self.document)]

    def block_run(self):
        document = self.document
        met = sum(1 for target in self.results["targets"] if target["met"])
        return [
            run(f"Run of {document['date']}, library of {document['commit']}, stock library {self.stock()}", document),
            f"Medians with the least and the most of the rounds. {met} of {len(self.results['targets'])} targets are met.",
        ]

    def block_machine(self):
        lines = ["| what the machine can do, with nothing of this library | ns |", "|---|---|"]
        for name, label in LIMITS.items():
            lines.append(f"| {label} | {shown(self.results['limits'][name])} |")
        return lines

    def block_calls(self):
        lines = ["| one call | | stock, ns | ours, ns | stock / ours | ours, p99, ns | ours / limit | two threads / one |",
                 "|---|---|---|---|---|---|---|---|"]
        for row in self.section("one call"):
            name = row["name"]
            p99, limit, threads = (self.median(self.find(section, name), "ours") for section in (
                "one call, p99", "one call / its limit", "throughput of two threads / one"))
            cells = [name, CALLS.get(name, ""), self.spread(row, "stock"), self.spread(row, "ours"), shown(self.ratio(row)),
                     shown(p99), shown(limit), shown(threads)]
            lines.append(f"| {' | '.join(cells)} |")
        limits = "cold call / cold limit, 1,048,576 ranks"
        for row in self.section("cold call, 1,048,576 ranks"):
            name = row["name"]
            limit = self.median(self.find(limits, name), "ours")
            lines.append(f"| {name} | {CALLS.get(name, '')} | | {self.spread(row, 'ours')} | | | {shown(limit)} | |")
        return lines

    def block_processes(self):
        lines = ["| | | unit | stock | ours | stock / ours |", "|---|---|---|---|---|---|"]
        for section in PROCESSES:
            for number, row in enumerate(self.section(section)):
                cells = ["" if number else section, row["name"], row["unit"],
                         self.spread(row, "stock"), self.spread(row, "ours"), shown(self.ratio(row))]
                lines.append(f"| {' | '.join(cells)} |")
        return lines

    def block_releases(self):
        """How many times the figures of newer stock libraries are ours, each beside it in one run."""
        runs = [self, *self.newer]
        titles = [f"{one.stock()}, {title}" for one in runs for title in ("stock", "/ ours")]
        lines = [f"| | | unit | {' | '.join(titles)} |", "|" + "---|" * (3 + len(titles))]
        chosen = [row for row in self.results["rows"] if row["section"] == "one call"]
        chosen += [row for section, part in self.BESIDE for row in self.section(section) if part in row["name"]]
        before = None
        for row in chosen:
            cells = ["" if row["section"] == before else row["section"], row["name"], row["unit"]]
            before = row["section"]
            for one in runs:
                other = one.rows.get((row["section"], row["name"]))
                cells += [shown(one.median(other, "stock")), shown(one.ratio(other))] if other else ["", ""]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *(run(f"Beside {one.stock()}: run of {one.document['date']}, library of {one.document['commit']}", one.document)
                        for one in self.newer)]
        return lines

    def block_before(self):
        """An earlier version of ours beside this one, which took turns with it."""
        names = {name for row in self.results["rows"] for name in row["figures"]} - {"stock", "ours"}
        lines = []
        for name in sorted(names):
            lines += ["", f"| | | unit | {name} | now | {name} / now |", "|---|---|---|---|---|---|"]
            for section in self.BEFORE:
                rows = [row for row in self.section(section) if self.median(row, name) is not None]
                for number, row in enumerate(rows):
                    was, now = self.median(row, name), self.median(row, "ours")
                    ratio = shown(was / now) if was > 0 and now and now > 0 else ""
                    cells = ["" if number else section, row["name"], row["unit"], self.spread(row, name), self.spread(row, "ours"), ratio]
                    lines.append(f"| {' | '.join(cells)} |")
        return lines[1:]

    def block_targets(self):
        """What is not met: the figure, with its spread where that lies on both sides of the bound."""
        lines = ["| target | bound | missed by |", "|---|---|---|"]
        missed = {}
        for target in self.results["targets"]:
            if target["met"]:
                continue
            bound = f"at most {target['at_most']:g}" if "at_most" in target else f"at least {target['at_least']:g}"
            group, _, row = target["name"].rpartition(": ")
            figure = f"{shown(target['figure'])}{'' if target['unit'] == 'times' else ' ' + target['unit']}"
            if target.get("varies"):
                figure += f" (varies: {shown(target['least'])} to {shown(target['most'])})"
            missed.setdefault((group or row, bound), []).append(f"{row} {figure}" if group else figure)
        lines += [f"| {name} | {bound} | {', '.join(rows)} |" for (name, bound), rows in missed.items()]
        return lines


class Wireup:
    """The results of `make bench-wireup`."""

    # What the names of the benchmark mean, for readers.
    FIGURES = {
        "MPI_Init": "`MPI_Init` of the slowest rank, ms",
        "whole job": "the whole `mpirun`, ms",
        "processor time": "processor time of all its processes, ms",
        "memory of the daemon": "most memory of the daemon, with code, MiB",
        "own memory of the daemon": "memory of the daemon at the end, without code, MiB",
    }

    def __init__(self, document):
        self.document = document
        self.rows = {(row["launcher"], row["ranks"], row["server"], row["clients"]): row
                     for row in document["results"]["rows"]}

    def keys(self, number):
        """The launchers, or the numbers of ranks, in the order in which they were measured."""
        return list(dict.fromkeys(key[number] for key in self.rows))

    def cells(self, launcher, ranks, figure):
        """The medians of the stock library and of ours, how many times one is the other, and pmixrun's median."""
        stock, ours = (self.rows[launcher, ranks, who, who]["figures"].get(figure) for who in ("stock", "ours"))
        if stock is None or ours is None:
            return None
        ratios = [shown(ours[name]) for name in ("stock_ratio", "stock_ratio_p10", "stock_ratio_p90")]
        pmixrun = self.rows.get((f"{launcher}, pmixrun", ranks, "ours", "ours"), {"figures": {}})["figures"].get(figure)
        return [shown(stock["median"]), shown(ours["median"]), "{} ({} to {})".format(*ratios),
                shown(pmixrun["median"]) if pmixrun else ""]

    def block_wireup(self):
        launchers = [launcher for launcher in self.keys(0) if not launcher.endswith(", pmixrun")]
        titles = [f"{launcher}: {title}" for launcher in launchers for title in ("stock", "ours", "stock / ours", "`pmixrun`")]
        lines = [f"| | ranks | {' | '.join(titles)} |", "|" + "---|" * (2 + len(titles))]
        for figure, label in self.FIGURES.items():
            for ranks in self.keys(1):
                cells = [self.cells(launcher, ranks, figure) for launcher in launchers]
                if any(cells):
                    shown_ranks = "1 (`true`)" if ranks == "true" else ranks
                    flat = [cell for four in cells for cell in four or [""] * 4]
                    lines.append(f"| {label} | {shown_ranks} | {' | '.join(flat)} |")
                    label = ""
        lines += ["", self.rounds()]
        return lines

    def rounds(self):
        document = self.document
        return (f"Run of {document['date']}, library of {document['commit']}, {document['machine']}; "
                f"{rounds_of(document['results']['rows'])} {document['note']}").rstrip()


def rounds_of(rows):
    """The numbers of rounds by jobs, and which jobs failed."""
    jobs = {row["ranks"]: row["rounds"] for row in rows}
    numbers = ", ".join(f"{rounds} for {ranks}" for ranks, rounds in jobs.items())
    failed = [f"{row['failed']} of {row['rounds']} {row['launcher']}, {row['ranks']} ranks, {row['server']}"
              for row in rows if row["failed"]]
    return f"rounds: {numbers}. Jobs that failed: {'; '.join(failed) or 'none'}."


class Jobs:
    """The results of `make bench-wireup` for this machine's own Open MPI."""

    FIGURES = {
        "whole job": "whole job, ms",
        "processor time": "processor time of all its processes, ms",
    }
    # Titles of columns: the end of the launcher's name, the library.
    COLUMNS = {
        "mpirun, stock": ("", "stock"),
        "mpirun, ours": ("", "ours"),
        "`pmixrun`": (", pmixrun", "ours"),
        "floor": (", floor", "none"),
    }
    # Launchers that a run need not have.
    ALSO = {"srun, ours": ("srun on a node", "ours"), "hydra": ("hydra", "none")}
    TITLES = [*COLUMNS, *ALSO, "stock / ours", "stock / `pmixrun`", "ours / `pmixrun`", "above the floor: `pmixrun` / stock"]

    def __init__(self, document):
        self.document = document
        rows = document["results"]["rows"]
        self.release = rows[0]["launcher"]
        self.rows = {(row["launcher"].removeprefix(self.release), row["server"], row["ranks"]): row["figures"]
                     for row in rows if row["server"] == row["clients"]}

    def cells(self, ranks, figure):
        """Medians with quartiles, then ratios."""
        # A launcher whose jobs failed has no figure.
        stock, ours, pmixrun, floor = (self.rows[*column, ranks].get(figure) for column in self.COLUMNS.values())
        spread = "{} ({} to {})".format
        also = [self.rows.get((*column, ranks), {}).get(figure) for column in self.ALSO.values()]
        medians = [spread(*(shown(of[name]) for name in ("median", "p25", "p75"))) if of else ""
                   for of in (stock, ours, pmixrun, floor, *also)]
        ratios = [spread(*(shown(of[f"{name}{part}"]) for part in ("", "_p25", "_p75"))) if of and name in of else ""
                  for of, name in ((ours, "stock_ratio"), (pmixrun, "stock_ratio"), (pmixrun, "ours_ratio"), (pmixrun, "above_floor"))]
        return medians + ratios

    def block_jobs(self):
        lines = [f"| {self.release} | ranks | {' | '.join(self.TITLES)} |", "|" + "---|" * (2 + len(self.TITLES))]
        for figure, label in self.FIGURES.items():
            sizes = {key[2] for key in self.rows}
            for ranks in sorted(sizes, key=lambda ranks: (ranks.startswith("true"), int(ranks.partition("true@")[2] or ranks.strip("true") or 1))):
                name = {"true": "1 `true`"}.get(ranks, ranks)
                name = f"{name.removeprefix('true@')} `true`" if name.startswith("true@") else name
                lines.append(f"| {label} | {name} | {' | '.join(self.cells(ranks, figure))} |")
                label = ""
        return [*lines, "", f"Medians with quartiles. {self.rounds()}"]

    def rounds(self):
        document = self.document
        return (f"Run of {document['date']}, library of {document['commit']}, {document['machine']}; "
                f"{rounds_of(document['results']['rows'])} {document['note']}").rstrip()


class Memory(Jobs):
    """The memory of ranks and daemons by `make bench-wireup` with jobs `memory@N`."""

    FIGURES = {
        "memory of a rank": "private memory of a rank, KiB",
        "pages of libpmix.so.2": "of it pages of `libpmix.so.2`",
        "own memory of the daemon": "memory of `mpirun`, MiB",
    }
    TITLES = [*Jobs.COLUMNS, "net of the floor: stock", "ours", "`pmixrun`", "stock / ours"]

    def cells(self, ranks, figure):
        """Medians; what they are above the floor, and the ratio of that."""
        medians = [self.rows[*column, ranks].get(figure, {}).get("median") for column in self.COLUMNS.values()]
        cells = ["" if median is None else f"{median:,.1f}" if "MiB" in self.FIGURES[figure] else f"{median:,.0f}"
                 for median in medians]
        if None in medians:
            return cells + [""] * 4
        net = [median - medians[-1] for median in medians[:-1]]
        return cells + [f"{above:,.0f}" for above in net] + [shown(net[0] / net[1])]

    def block_memory(self):
        lines = [f"| {self.release} | ranks | {' | '.join(self.TITLES)} |", "|" + "---|" * (2 + len(self.TITLES))]
        for figure, label in self.FIGURES.items():
            for ranks in sorted({key[2] for key in self.rows}, key=lambda ranks: int(ranks.removeprefix("memory@"))):
                lines.append(f"| {label} | {ranks.removeprefix('memory@')} | {' | '.join(self.cells(ranks, figure))} |")
                label = ""
        return [*lines, "", self.rounds()]


def take(directories, note):
    """Keeps a run as the one that the documents show."""
    found = [[Path(path)] if Path(path).is_file() else [Path(path) / name for name in SOURCES] for path in directories]
    sources = [next((file for file in files if file.name in SOURCES and file.exists()), None) for files in found]
    if None in sources or len({source.name for source in sources}) > 1:
        sys.exit(f"{', '.join(directories)}: not one of {', '.join(SOURCES)} in each")
    source = sources[-1]
    results = json.loads(source.read_text())
    if len(sources) > 1:
        results["rows"] = [row for source in sources for row in json.loads(source.read_text())["rows"]]
    taken = time.gmtime(os.stat(source).st_mtime)
    text = source.with_suffix(".txt")
    rounds = int(text.read_text().split()[0]) if text.exists() else None
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    # What the run itself has written goes before what is found out now.
    run = results.get("run", {})
    if run.get("commit", "unknown") != "unknown":
        commit = run["commit"]
    machine = f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} processors"
    document = {
        "date": run.get("date", time.strftime("%Y-%m-%d", taken)).partition("T")[0],
        "commit": f"commit {commit}",
        "machine": f"{run['processor']}, {run['processors']} processors, Linux {run['kernel']}" if run else machine,
        "rounds": rounds,
        "note": note,
        "results": results,
    }
    name = source.name
    if name == "bench.json":
        # `make bench` names its directory after the root in which it ran.
        document["root"] = source.parent.name.partition("-")[2] or None
        name = f"{source.parent.name if document['root'] else 'bench'}.json"
    DIRECTORY.mkdir(exist_ok=True)
    (DIRECTORY / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


SOURCES = {"bench.json": Bench, "jobs.json": Jobs, "memory.json": Memory, "wireup.json": Wireup}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if a block would change")
    parser.add_argument("--take", metavar="DIR", nargs="+", help="copy the results in these directories first")
    parser.add_argument("--note", default="", help="what else ran on the machine")
    arguments = parser.parse_args()
    if arguments.take:
        take(arguments.take, arguments.note)
    results = [kind(json.loads((DIRECTORY / name).read_text())) for name, kind in SOURCES.items()]

    def fill(match):
        block = next((block for kind in results if (block := getattr(kind, f"block_{match[2]}", None))), None)
        if block is None:
            sys.exit(f"no block of results is called {match[2]}")
        return match[1] + "\n".join(block()) + "\n" + match[4]

    stale = []
    for document in DOCUMENTS:
        old = document.read_text()
        new, count = BLOCK.subn(fill, old)
        if count == 0:
            sys.exit(f"{document}: no block of results")
        if new != old:
            stale.append(str(document.relative_to(ROOT)))
            if not arguments.check:
                document.write_text(new)
    if arguments.check and stale:
        sys.exit(f"{', '.join(stale)}: tables differ from {DIRECTORY.relative_to(ROOT)}; run benches/results.py")


if __name__ == "__main__":
    main()
