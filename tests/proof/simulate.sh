#!/usr/bin/env bash
# Plants faults in the server's engine and demands that the simulation (tests/simulate) finds each. Prints a table: the fault, the invariant that
# saw it, after how many steps. With --check: only whether each has a place in the sources.
#
# The simulation is built once, from a copy of the sources with all faults in it; the variable PLANTED names the one that is made.
. "$(dirname "$0")/common.sh"

only_check=${1:-}
[ "$only_check" = --check ] || only_check=
copy=$(planted_copy "$only_check")
# Of its own: cargo takes the copy for the same workspace.
target=${SIMULATE_TARGET:-$proof_target/simulate}
# So many steps without a find are a fault that is not found.
steps=600000
count=0 names=()

# fault NAME FILE OLD NEW: the text must be in the file once; # in the new text is whether this fault is made.
fault() {
    count=$((count + 1))
    names+=("$1")
    plant "server/src/engine/$2" "$3" "${4//#/crate::planted($count)}"
}

cat >>"$copy/server/src/lib.rs" <<'RUST'

/// Whether this fault is made.
pub(crate) fn planted(number: u32) -> bool {
    static PLANTED: std::sync::LazyLock<Option<u32>> =
        std::sync::LazyLock::new(|| std::env::var("PLANTED").ok().and_then(|text| text.parse().ok()));
    *PLANTED == Some(number)
}
RUST
fault "a fence does not wait for its last process" collectives.rs \
    "collective.arrived.len() < expected ||" "collective.arrived.len() + usize::from(#) < expected ||"
fault "a collective does not go on when a member dies" collectives.rs \
    $'            self.advance(id);\n        }\n    }\n\n    /// A process has finalized' \
    $'            if !# { self.advance(id); }\n        }\n    }\n\n    /// A process has finalized'
fault "a fence does not store the values of its first rank" collectives.rs \
    "flat_map(|contribution| contribution.ranks);" "flat_map(|contribution| contribution.ranks).skip(usize::from(#));"
fault "a contribution leaves out one change" collectives.rs \
    "state.changes.mark_delivered(signature, count);" "state.changes.mark_delivered(signature, count + u64::from(#));"
fault "a connect is answered twice" collectives.rs \
    "            self.send(*peer, *tag, |_, _| reply);" \
    "            if # { self.reply_status(*peer, *tag, status); } self.send(*peer, *tag, |_, _| reply);"
fault "the context id of a group is lost" groups.rs \
    "(construct.at_host, construct.formed.context);" "(construct.at_host, construct.formed.context.filter(|_| !#));"
fault "values for other nodes are shown on this one" data.rs \
    $'        if !scope.is_local() {\n            return Ok(false);\n        }\n        self.ledger.make_room()?;\n        Ok(self.visible' \
    $'        if !scope.is_local() && !# {\n            return Ok(false);\n        }\n        self.ledger.make_room()?;\n        Ok(self.visible'
fault "a Get is answered with the values of rank 0" get.rs \
    "let published = state.visible.rank(rank).map" "let published = state.visible.rank(if # { Rank(0) } else { rank }).map"
fault "a rank's data can be requested from the host only once" get.rs \
    "let is_fenced = self.gets.asked.remove(proc).unwrap_or(false);" \
    "let is_fenced = match # { true => self.gets.asked.get(proc).copied(), false => self.gets.asked.remove(proc) }.unwrap_or(false);"
fault "every user reaches every job" apart.rs \
    "Some(state) if !state.users.is_empty() => Reach::Nothing," \
    "Some(state) if !state.users.is_empty() => match # { true => Reach::All, false => Reach::Nothing },"
fault "a process's own word for its user reaches the host" apart.rs \
    "infos.retain(|info| !info.key.is(keys::USERID) &&" "infos.retain(|info| # || !info.key.is(keys::USERID) &&"
fault "an event for some processes reaches all" events.rs \
    "named.is_some_and(|named| named.iter_procs()" "named.is_some_and(|named| # || named.iter_procs()"
fault "a kept event comes again with each registration" events.rs \
    "&& event.served.insert(id)" "&& (event.served.insert(id) || #)"
fault "time-outs of requests to the host do not end them" mod.rs \
    "            self.expire_upcalls(now);" "            if !# { self.expire_upcalls(now); }"
fault "the groups of a job stay when it ends" nspaces.rs \
    "self.end_groups(is_gone);" "if !# { self.end_groups(is_gone); }"
fault "a process that has ended lives again for the next server" nspaces.rs \
    "if fate.is_gone || fate.has_left {" "if !# && (fate.is_gone || fate.has_left) {"
fault "a fence that was over is entered again at the next server" mod.rs \
    "Request::Fence { .. } if self.is_over_for_former(peer, tag) => {}" \
    "Request::Fence { .. } if !# && self.is_over_for_former(peer, tag) => {}"
if [ -n "$only_check" ]; then
    rm -rf "$copy"
    exit
fi

(cd "$copy" && CARGO_TARGET_DIR=$target cargo build --profile simulate -p pmix-simulate)
simulation=$target/simulate/pmix-simulate
"$simulation" "$steps" 1
echo "| fault planted in the engine | seen by | steps of seeds before | steps and actions of the short script |"
echo "|---|---|---|---|"
missed=0
for ((number = 1; number <= count; number++)); do
    name=${names[number - 1]}
    if output=$(PLANTED=$number "$simulation" "$steps" 1 2>&1); then
        echo "| $name | NOT FOUND | | |"
        missed=$((missed + 1))
        continue
    fi
    found=$(sed -nE 's/^seed .* fails, after ([0-9]+) steps of other seeds: ([A-Za-z]+) after ([0-9]+) steps: .*/`\2` | \1 | \3,/p' <<<"$output")
    [ -n "$found" ] || {
        tail -n 20 <<<"$output" >&2
        echo "$name: ended otherwise than by an invariant" >&2
        exit 1
    }
    echo "| $name | $found $(grep -c '^  ' <<<"$output") |"
done
[ "$missed" = 0 ] || { echo "$missed faults were not found" >&2; exit 1; }
