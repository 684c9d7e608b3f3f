#!/usr/bin/env bash
# Plants faults in publisher, format, client, engine and allocator, and demands that a part of `make soak` finds each. Prints a table: the fault, the
# part that found it, after how many steps and seconds, by which words.
#
# Arguments: the numbers of the faults that are planted; without them all. --check: only whether each has a place in the sources.
#
# The library is built once, from a copy of the sources with all faults in it; the variable PLANTED names the one that is made.
. "$(dirname "$0")/common.sh"

only_check=${1:-}
[ "$only_check" = --check ] || only_check=
copy=$(planted_copy "$only_check")
target=${SOAK_TARGET:-$proof_target/soak}
count=0 names=() parts=() words=()

# fault NAME PART WORDS FILE OLD NEW: the text must be in the file once; # in the new text is whether this fault is made. PART must find it, and
# say the words.
fault() {
    count=$((count + 1))
    names+=("$1") parts+=("$2") words+=("$3")
    plant "$4" "$5" "${6//#/$7planted($count)}"
}

cat >>"$copy/dstore/src/lib.rs" <<'RUST'

/// Whether this fault is made. By a C function: it allocates nothing.
pub fn planted(number: i32) -> bool {
    // SAFETY: the name is a C string, and what is found one, too; nobody changes the environment.
    unsafe {
        let text = libc::getenv(c"PLANTED".as_ptr());
        !text.is_null() && libc::atoi(text) == number
    }
}
RUST
fault "a fence does not go on when one of its ranks is killed" storms "ended with state 0xe|hangs|hang" server/src/engine/collectives.rs \
    $'            self.advance(id);\n        }\n    }\n\n    /// A process has finalized' \
    $'            if !# { self.advance(id); }\n        }\n    }\n\n    /// A process has finalized' pmix_dstore::
fault "the publisher leaves the last segment of a job" storms "left" dstore/src/segment/publish/publisher.rs \
    $'        for live in &self.live {\n            remove(' $'        for live in self.live.iter().skip(usize::from(#)) {\n            remove(' crate::
fault "the publisher tells readers the count that it had before" storms "wrong value|ended with state|put [0-9]+, found" \
    dstore/src/segment/publish/publisher.rs \
    "self.pages.publish(index + 1))" "self.pages.publish(if # { index } else { index + 1 }))" crate::
fault "the format's writer takes the value before in place of one of the same length" storms "wrong value|ended with state" \
    dstore/src/segment/write/modex.rs \
    "match &self.texts[cell.value as usize] {" \
    "match &self.texts[cell.value.saturating_sub(u64::from(# && cell.value > 0 && self.texts[cell.value as usize - 1].len() == cell.len as usize)) as usize] {" \
    crate::
fault "the format's reader looks into the oldest segment first" storms "wrong value|ended with state|put [0-9]+, found" \
    dstore/src/segment/read/view.rs \
    "modex.sort_by_key(|(order, _)| std::cmp::Reverse(*order));" \
    "modex.sort_by_key(|(order, _)| std::cmp::Reverse(if # { u64::MAX - *order } else { *order }));" crate::
fault "a client that finalizes leaves its socket open" threads "SYS_LIMITS_FILES|starts of one process" client/src/channel/mux.rs \
    $'                // This also wakes the driver, unless it is denied.\n' \
    $'                if # { std::mem::forget(Arc::clone(&wire)); }\n' pmix_dstore::
fault "a client that may not shut its socket down does not wake its reader" syscalls "hang" client/src/channel/mux.rs \
    "                    let _ = wire.kick.write(1);" "                    if !# { let _ = wire.kick.write(1); }" pmix_dstore::
fault "a client takes an interrupted wait for the end of its connection" threads "under signals" client/src/channel/mux.rs \
    "        Ok(0) | Err(Errno::EINTR) => return true," \
    "        Ok(0) => return true, Err(Errno::EINTR) => return !#," pmix_dstore::
fault "a thread that forks does not hold the locks that its child takes" threads "child [0-9]+ of kind [0-9] ended with state" \
    client/src/process/forks.rs "    if depth == 0 {" "    if depth == 0 && !# {" pmix_dstore::
fault "the allocator does not use its reserve" oom "end of the process" dstore/src/fallible_alloc.rs \
    "if len <= SMALL_MAX && RESERVE.give_up()" "if !# && len <= SMALL_MAX && RESERVE.give_up()" crate::
fault "a server ends when its wait for messages is interrupted" syscalls "hang|another end|crash|end of the process" server/src/io/mod.rs \
    $'                Err(Errno::EINTR) => 0,\n' \
    $'                Err(Errno::EINTR) if # => return,\n                Err(Errno::EINTR) => 0,\n' pmix_dstore::
fault "a commit is not in the journal" restart "life [12], |program-restart .*: (exit status|hang)" server/src/engine/successor.rs \
    $'parts: &[(u8, Vec<Kval>)]) {\n        if self.journal_of' $'parts: &[(u8, Vec<Kval>)]) {\n        if # || self.journal_of' pmix_dstore::
fault "a fence that is over is not in the journal" restart "life [12], |program-restart .*: (exit status|hang)" server/src/engine/successor.rs \
    "            self.note(nspace, Record::released(status, &participants));" \
    "            if !# { self.note(nspace, Record::released(status, &participants)); }" pmix_dstore::

if [ -n "$only_check" ]; then
    rm -rf "$copy"
    exit
fi

(cd "$copy" && CARGO_TARGET_DIR=$target cargo build -p pmix-ffi -p pmix-tools -p pmix-soak)
soak=$target/debug/pmix-soak
echo "| fault planted | found by | steps, seconds |"
echo "|---|---|---|"
missed=0
[ $# -gt 0 ] || set -- $(seq "$count")

# run NUMBER PART SECONDS: the part with this fault. From the copy: programs are compiled from its sources, and cargo builds there.
run() {
    local out=$target/found-$1 every=3
    # Some faults can be met by one call alone.
    [ "$2" != syscalls ] || every=1
    rm -rf "$out"
    (cd "$copy" && CARGO_TARGET_DIR=$target PLANTED=$1 "$soak" --out "$out" run "$2" --seed 1 --every "$every" --until-loss --seconds "$3" 2>&1)
}
for part in $(for number; do echo "${parts[number - 1]}"; done | sort -u); do
    run 0 "$part" 30 >"$target/clean.log" || {
        tail -n 40 "$target/clean.log" >&2
        echo "$part: loses something without any fault" >&2
        exit 1
    }
done
for number; do
    name=${names[number - 1]} part=${parts[number - 1]}
    output=$(run "$number" "$part" 300) && {
        echo "| $name | NOT FOUND by $part | |"
        missed=$((missed + 1))
        continue
    }
    grep -Eq "${words[number - 1]}" <<<"$output" || {
        tail -n 40 <<<"$output" >&2
        echo "$name: ended otherwise than by what should find it" >&2
        exit 1
    }
    echo "| $name | \`$part\` | $(sed -nE 's/^[a-z]+, ours library: ([0-9]+) steps of seed [0-9]+ in ([0-9]+) s.*/\1, \2/p' <<<"$output") |"
done
[ "$missed" = 0 ] || { echo "$missed faults were not found" >&2; exit 1; }
