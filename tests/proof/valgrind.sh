#!/usr/bin/env bash
# valgrind's memcheck over the units of client and server, and over the tests of tests/tests that run C programs on the
# library as client, as server and as both: no invalid access, no use of what was never written, no definite leak. Then
# faults are planted, which must be reported.
#
#   tests/proof/valgrind.sh [clean]
. "$(dirname "$0")/common.sh"
need valgrind valgrind

memcheck="valgrind --quiet --fair-sched=yes --error-exitcode=99 --trace-children=yes --trace-children-skip=/bin/*,/usr/bin/*"
memcheck+=" --num-callers=30 --suppressions=$PWD/tests/proof/valgrind.supp"
leaks="--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$proof_triple")_RUNNER
target=$proof_target/valgrind
export PMIX_TEST_PATIENCE=20
# hwloc says so on stderr where it cannot ask the processor itself.
export HWLOC_COMPONENTS=-x86
# Unoptimised, some of the units take half an hour each.
export CARGO_PROFILE_DEV_OPT_LEVEL=1

# As the test harness stands over what it starts, it is not run under memcheck itself: its commands are.
real_peers() {
    CC=$PWD/tests/proof/cc PMIX_TEST_RELEASE=$target/debug PMIX_TEST_WRAPPER="$memcheck $1" \
        cargo test --target-dir "$target" --no-fail-fast -p pmix-tests "${@:2}"
}

cargo build --target-dir "$target" -p pmix-ffi -p pmix-tools
# In a child without exec, what belongs to threads that are not there counts as lost. One of the programs that are compiled
# against the stock headers prints a name that a macro of theirs leaves without its end.
units() {
    env "$runner=$memcheck $leaks" cargo test --target-dir "$target" --no-fail-fast "$@"
}
units -p pmix-client -p pmix-server -p pmix-ffi -- --skip a_forked_child --skip malformed:: --skip cost_of_job_info \
    --skip macros_answer
real_peers "$leaks" --test host -- --skip builds_of_different
real_peers "$leaks" --test calls -- calls_of_one_process --skip wrong_calls
# These programs let go of nothing that they are given.
real_peers --leak-check=no --test calls -- wrong_calls_of_one_process
real_peers --leak-check=no --test wrong_use
[ "${1:-}" = clean ] && exit

copy=$(planted_copy)
memory=ffi/src/memory.rs
conversions=(units -p pmix-ffi --test conversions)
expect_found "a list of strings that is not freed" $memory '/^        free(list);$/d' "definitely lost" "${conversions[@]}"
expect_found "a copied string without room for its NUL" $memory 's/malloc(bytes.len() + zeros)/malloc(bytes.len())/' \
    "Invalid read of size" "${conversions[@]}"
