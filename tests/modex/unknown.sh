#!/usr/bin/env bash
# Prints what a Get of a key that nobody has put is answered, and when: docs/log/unknown-keys.md has the results.
#
#   tests/modex/unknown.sh PROGRAMS
#
# PROGRAMS holds the test programs `host` and `unknown`; LD_LIBRARY_PATH names the library. It takes some three minutes. Outside of this
# machine's release run it by tests/openmpi5/enter.sh.
set -euo pipefail
programs=$1
for when in before fence collect; do
    for place in "local: -s 1 -n 2 --modex answer" "remote: -s 2 -n 1 --modex answer" "remote: -s 2 -n 1 --modex refuse" \
        "remote: -s 2 -n 1 --modex silent"; do
        directory=$(mktemp -d)
        echo "== $when, $place"
        # shellcheck disable=SC2086
        timeout 90 "$programs/host" ${place#*:} --timeout 80 "$programs/unknown" "$when" "$directory" 2>"$directory.log" || cat "$directory.log"
        echo "the host was asked $(grep -c ': direct modex ' "$directory.log" || true) times"
        rm -r "$directory" "$directory.log"
    done
done
