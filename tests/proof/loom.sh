#!/usr/bin/env bash
# The publication protocol of the directory page under the model checker loom (dstore/src/segment/loom_tests.rs), and how a
# Get holds the client that it uses (tests/proof/hazard); first as they are, then with each of their orderings weakened,
# which must be found.
#
#   tests/proof/loom.sh [clean]      LOOM_MAX_PREEMPTIONS: 3 unless set
. "$(dirname "$0")/common.sh"

export RUSTFLAGS="--cfg loom"
model=(cargo test -q -p pmix-dstore --lib --target-dir "$proof_target/loom" -- loom_tests::)

# Cargo does not notice that the module, which lies outside of the package, is another copy's.
current() {
    touch tests/proof/hazard/src/lib.rs
    cargo test -q --manifest-path tests/proof/hazard/Cargo.toml --target-dir "$proof_target/loom-current" -- "$@"
}

"${model[@]}" --nocapture
current --nocapture
[ "${1:-}" = clean ] && exit

copy=$(planted_copy)
page=dstore/src/segment/directory/page.rs
writer=dstore/src/segment/publish/page_writer.rs
view=dstore/src/segment/read/view.rs
weaken() {
    expect_found "$1 relaxed" "$2" "/$3/,/$4/s/Ordering::$4/Ordering::Relaxed/" "Causality violation|assertion .*failed" "${model[@]}"
}
weaken "PUBLISH, the store of the count" $writer "PUBLISH: pairs with the acquire" Release
weaken "PUBLISH, the load of the count" $page "PUBLISH: pairs with the release" Acquire
weaken "FIRST, the store" $writer "FIRST: pairs with the acquire" Release
weaken "FIRST, the load" $page "FIRST: pairs with the release" Acquire
weaken "RETIRE, the store" $writer "RETIRE: pairs with the acquire" Release
weaken "RETIRE, the load" $page "RETIRE: pairs with the release" Acquire
weaken "SET, the store of the pointer" $view "SET: pairs with the acquire" Release
weaken "SET, the load of the pointer" $view "SET: pairs with the release" Acquire

carry() {
    expect_found "$1" dstore/src/segment/publish/publisher.rs "$2" "Causality violation|assertion .*failed" "${model[@]}"
}
carry "the first page stored before its entries are counted" \
    's/Publisher::count_carried, Publisher::store_first/Publisher::store_first, Publisher::count_carried/'
carry "pages removed before another one is the first" \
    's/Publisher::store_first, Publisher::remove_pages/Publisher::remove_pages, Publisher::store_first/'
carry "an entry carried over and not written" 's/Publisher::write_carried, Publisher::count_carried/Publisher::count_carried/; s/; 4\] =/; 3] =/'
expect_found "a missing page is not looked for again" $view 's/if first == before ||/if first >= before ||/' \
    "assertion .*failed" "${model[@]}"

place=client/src/hazard/mod.rs
barrier=client/src/hazard/sync.rs
forget() {
    expect_found "$1" "$2" "$3" "Causality violation|Concurrent [a-z]+ accesses|a value that is gone is used|assertion .*failed" current
}
forget "the barrier of many left out" $barrier 's/^.*MANY$//'
forget "the barrier of one left out" $barrier 's/^.*ONE$//'
forget "the second look left out" $place 's/let again = self.pointer.load(Ordering::Acquire)/let again = seen/'
forget "putting a value in its place relaxed" $place 's/cast_mut(), Ordering::Release/cast_mut(), Ordering::Relaxed/'
forget "leaving relaxed" $place 's/self.slot.used.store(ptr::null_mut(), Ordering::Release)/self.slot.used.store(ptr::null_mut(), Ordering::Relaxed)/'
forget "looking into slots relaxed" $place 's/slot.used.load(Ordering::Acquire)/slot.used.load(Ordering::Relaxed)/'

forget "the barrier of a counted reader left out" $place '/fn count_reader/,/}/s/sync::light_barrier();//'
forget "ending without a look at the count" $place 's/self.readers.is_empty() \&\& self.counts == 0/self.readers.is_empty()/'
forget "ending after a look at one of the counters" $place 's/self.readers.is_empty() \&\& self.counts == 0/self.readers.is_empty() \&\& self.counts < 2/'
forget "ending without a look at the slots" $place 's/self.readers.is_empty() \&\& self.counts == 0/self.counts == 0/'
forget "a period without its barrier" $place 's/sync::heavy_barrier().then(/true.then(/'
forget "counting out relaxed" $place 's/fetch_sub(1, Ordering::Release)/fetch_sub(1, Ordering::Relaxed)/'
forget "looking at the count relaxed" $place 's/counts.counter..load(Ordering::Acquire)/counts[counter].load(Ordering::Relaxed)/'
forget "waiting for slots relaxed" $place 's/readers.retain(|slot| !slot.used.load(Ordering::Acquire)/readers.retain(|slot| !slot.used.load(Ordering::Relaxed)/'
