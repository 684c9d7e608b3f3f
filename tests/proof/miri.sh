#!/usr/bin/env bash
# miri over the tests of dstore and client that need neither files nor sockets: no undefined behaviour in the model of
# Rust's own memory.
#
#   tests/proof/miri.sh
. "$(dirname "$0")/common.sh"
need_nightly miri rust-src

# Tests that generate thousands of cases run for hours here.
pure=(model:: codec::tests::encoding codec::tests::stock maps:: rules:: job:: segment::tests::round_trip)
MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir "$proof_target/miri" -p pmix-dstore --lib -- "${pure[@]}"
