#!/usr/bin/env bash
# The publication protocol of the directory page under the model checker loom (dstore/src/segment/model.rs), first as it
# is, then with each of its orderings weakened, which must be found.
#
#   tests/proof/loom.sh [clean]      LOOM_MAX_PREEMPTIONS: 3 unless set
. "$(dirname "$0")/common.sh"

export RUSTFLAGS="--cfg loom"
model=(cargo test -q -p pmix-dstore --lib --target-dir "$proof_target/loom" -- model::)

"${model[@]}" --nocapture
[ "${1:-}" = clean ] && exit

copy=$(planted_copy)
page=dstore/src/segment/page.rs
view=dstore/src/segment/view.rs
weaken() {
    expect_found "$1 relaxed" "$2" "/$3/,/$4/s/Ordering::$4/Ordering::Relaxed/" "Causality violation|assertion .*failed" "${model[@]}"
}
weaken "PUBLISH, the store of the count" $page "PUBLISH: pairs with the acquire" Release
weaken "PUBLISH, the load of the count" $page "PUBLISH: pairs with the release" Acquire
weaken "RETIRE, the store" $page "RETIRE: pairs with the acquire" Release
weaken "RETIRE, the load" $page "RETIRE: pairs with the release" Acquire
weaken "SET, the store of the pointer" $view "SET: pairs with the acquire" Release
weaken "SET, the load of the pointer" $view "SET: pairs with the release" Acquire
