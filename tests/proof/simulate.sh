#!/usr/bin/env bash
# Plants faults in the server's engine, one at a time, and demands that the simulation (tests/simulate) finds each. Prints a table: the fault, the
# invariant that saw it, after how many steps.
#
#   tests/proof/simulate.sh [NAME ...]      all, or these
. "$(dirname "$0")/common.sh"

copy=$(planted_copy)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# So many steps of a run without a find are a fault that is not found.
steps=300000
engine=server/src/engine missed=0

# fault NAME FILE PYTHON-OLD PYTHON-NEW: the text must be in the file once.
fault() {
    local name=$1 file=$engine/$2 old=$3 new=$4 output
    [ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $name "* ]] || return 0
    OLD=$old NEW=$new python3 - "$copy/$file" <<'PLANT'
import os, sys
text = open(sys.argv[1]).read()
assert text.count(os.environ["OLD"]) == 1, f"{sys.argv[1]}: there is no one place for: {os.environ['OLD']}"
open(sys.argv[1], "w").write(text.replace(os.environ["OLD"], os.environ["NEW"]))
PLANT
    if ! output=$(cd "$copy" && CARGO_TARGET_DIR=$target cargo build --profile simulate -p pmix-simulate 2>&1); then
        tail -n 30 <<<"$output" >&2
        echo "$name: does not compile" >&2
        exit 1
    fi
    if output=$("$target/simulate/pmix-simulate" "$steps" 1 2>&1); then
        echo "| $name | NOT FOUND | |"
        missed=$((missed + 1))
    else
        sed -nE "s/^seed .* fails, after ([0-9]+) steps of other seeds: ([A-Za-z]+) after ([0-9]+) steps: .*/\2 \1 \3/p" <<<"$output" | {
            read -r invariant before after || { tail -n 20 <<<"$output" >&2; echo "$name: ended otherwise" >&2; exit 1; }
            actions=$(grep -c '^  ' <<<"$output")
            echo "| $name | \`$invariant\` | $before | $after, $actions actions |"
        }
    fi
    cp "$file" "$copy/$file"
}

only=("$@")
echo "| fault | seen by | steps of seeds before | the short script |"
echo "|---|---|---|---|"
fault "a fence does not wait for its last process" collectives.rs \
    "collective.arrived.len() < expected ||" "collective.arrived.len() + 1 < expected ||"
fault "a collective does not go on when a member dies" collectives.rs \
    '            self.advance(id);
        }
    }

    /// A process has finalized' '            let _ = id;
        }
    }

    /// A process has finalized'
fault "a fence stores all ranks' values but the first one's" collectives.rs \
    "flat_map(|contribution| contribution.ranks);" "flat_map(|contribution| contribution.ranks).skip(1);"
fault "the next contribution leaves out a change" collectives.rs \
    "state.changes.mark_delivered(signature, count);" "state.changes.mark_delivered(signature, count + 1);"
fault "a connect is answered twice" collectives.rs \
    "            self.send(*peer, *tag, |_, _| reply);" \
    "            self.reply_status(*peer, *tag, status); self.send(*peer, *tag, |_, _| reply);"
fault "the context id of a group is lost" groups.rs \
    "context: construct.context, infos" "context: None, infos"
fault "values for other nodes are shown on this one" data.rs \
    '        if !scope.is_local() {
            return Ok(false);
        }
        self.ledger.make_room()?;
        Ok(self.visible' '        self.ledger.make_room()?;
        Ok(self.visible'
fault "a Get is answered with the values of rank 0" get.rs \
    "let published = state.visible.rank(rank).map" "let published = state.visible.rank(Rank(0)).map"
fault "a rank's data can be requested from the host only once" get.rs \
    "let is_fenced = self.gets.asked.remove(proc).unwrap_or(false);" \
    "let is_fenced = self.gets.asked.get(proc).copied().unwrap_or(false);"
fault "every user reaches every job" apart.rs \
    "Some(state) if !state.users.is_empty() => Reach::Nothing," "Some(state) if !state.users.is_empty() => Reach::All,"
fault "a process's own word for its user reaches the host" apart.rs \
    "    infos.retain(|info| !info.key.is(keys::USERID) && !info.key.is(keys::GRPID));" ""
fault "an event for some processes reaches all" events.rs \
    "named.is_some_and(|named| named.iter_procs().any(|proc| proc.covers(&peer.proc)))" "named.is_some()"
fault "a kept event comes again with each registration" events.rs \
    "&& event.served.insert(id)" "&& (event.served.insert(id) || true)"
fault "time-outs of requests to the host do not end them" mod.rs \
    "            self.expire_upcalls(now);" ""
fault "the groups of a job stay when it ends" nspaces.rs \
    "self.end_groups_of(nspace);" ""
[ "$missed" = 0 ] || { echo "$missed faults were not found" >&2; exit 1; }
