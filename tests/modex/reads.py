#!/usr/bin/env python3
"""Sums up what tests/programs/gets.c has logged of one job.

    reads.py RANKS HOSTS PREFIX FILE...     prints lines of reads.tsv, each with PREFIX, whose columns tests/modex/README.md describes

Ranks are numbered host by host, as many on each.
"""
import re
import sys
from collections import defaultdict

LINE = re.compile(r"(?P<job>.+) rank (?P<rank>\d+) PMIx_Get(?:_nb)? (?P<key>\S+) of (?P<of>.+?) rank (?P<target>all|\d+)(?P<infos>(?: \S+=[^:=]*)*?): (?P<status>-?\d+)\b")
# The least 32 bits of -1 and -2, which stand for no rank and for the job.
NO_RANK = {"4294967295": "no rank", "4294967294": "job"}


def relation(rank, target, on_host):
    if target == "all":
        return "job"
    if target in NO_RANK:
        return NO_RANK[target]
    if int(target) == rank:
        return "itself"
    return "same host" if int(target) // on_host == rank // on_host else "other host"


def directives(infos):
    return ",".join(name for name in ("optional", "immediate", "timeout") if f"pmix.{name}" in infos) or "-"


def key_of(name):
    """Names of communicators and the like hold a number of the job's own; without it rows of two runs are equal."""
    return re.sub(r"\d{4,}", "N", name)


def main():
    ranks, hosts, prefix, *files = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *sys.argv[4:]
    rows = defaultdict(lambda: {"gets": 0, "found": 0, "askers": set(), "pairs": set()})
    for path in files:
        with open(path, encoding="utf-8", errors="replace") as log:
            for line in log:
                if " PMIx_Get" not in line or line.startswith("host "):
                    continue
                found = LINE.match(line)
                if found is None:
                    sys.exit(f"reads.py: {path}: {line}")
                rank = int(found["rank"])
                row = rows[relation(rank, found["target"], ranks // hosts), key_of(found["key"]), directives(found["infos"])]
                row["gets"] += 1
                row["found"] += found["status"] == "0"
                row["askers"].add(rank)
                row["pairs"].add((rank, found["target"]))
    for (of, key, how), row in sorted(rows.items()):
        askers = len(row["askers"])
        each = f"{row['gets'] / askers:.1f}\t{len(row['pairs']) / askers:.1f}"
        print(f"{prefix}\t{of}\t{key}\t{how}\t{askers}\t{each}\t{row['found']}/{row['gets']}")


main()
