#!/usr/bin/env bash
# The tests under AddressSanitizer (with leak detection) or ThreadSanitizer (with an instrumented standard library): of
# all crates, and those of tests/tests that run C programs on the library as client, as server and as both.
#
#   tests/proof/sanitizer.sh address|thread [clean]
. "$(dirname "$0")/common.sh"

sanitizer=${1:-}
case $sanitizer in
address)
    build=()
    runtime=asan
    # What the stock library leaks on the other side of a test is not ours.
    export LSAN_OPTIONS=suppressions=$PWD/tests/proof/address.supp:print_suppressions=0
    export ASAN_OPTIONS=detect_stack_use_after_return=1
    need_nightly
    ;;
thread)
    build=(-Zbuild-std)
    runtime=tsan
    export TSAN_OPTIONS=suppressions=$PWD/tests/proof/thread.supp:halt_on_error=1:print_suppressions=0
    need_nightly rust-src
    ;;
*)
    echo "usage: $0 address|thread [clean]" >&2
    exit 64
    ;;
esac

sysroot=$(rustup run nightly rustc --print sysroot)
export RUSTFLAGS="-Zsanitizer=$sanitizer"
export PROOF_SANITIZER=$sanitizer
export PROOF_RUNTIME=$sysroot/lib/rustlib/$proof_triple/lib/librustc-nightly_rt.$runtime.a
export CC=$PWD/tests/proof/cc
export PMIX_TEST_PATIENCE=10
export PMIX_TEST_RELEASE=$proof_target/$sanitizer/$proof_triple/debug

# An explicit target leaves build scripts and procedural macros as they are.
options=("${build[@]}" --target "$proof_triple" --target-dir "$proof_target/$sanitizer")
crates=(-p pmix-dstore -p pmix-client -p pmix-server -p pmix-ffi -p pmix-tools)
cargo +nightly build "${options[@]}" -p pmix-ffi -p pmix-tools
cargo +nightly test "${options[@]}" --no-fail-fast "${crates[@]}"
cargo +nightly test "${options[@]}" --no-fail-fast -p pmix-tests "${real_peers[@]}"
[ "${2:-}" = clean ] && exit

copy=$(planted_copy)
view=dstore/src/segment/view.rs
stress=(cargo +nightly test "${options[@]}" -p pmix-dstore --lib segment::tests)
case $sanitizer in
address)
    expect_found "a set of segments that is freed while lookups use it" $view '/sets\.push(set);/d' \
        "AddressSanitizer: heap-use-after-free" "${stress[@]}"
    ;;
thread)
    expect_found "SET, the store of the pointer relaxed" $view \
        "/SET: pairs with the acquire/,/Release/s/Ordering::Release/Ordering::Relaxed/" \
        "ThreadSanitizer: data race" "${stress[@]}"
    ;;
esac
