//! Where Open MPI 5 and 6 place ranks, as mpirun shows it and as the ranks find it, with our library in daemons and ranks and in one of
//! them, beside the stock one.

use pmix_tests::sides::{Seen, assert_as_with_stock};
use pmix_tests::{Pair, Root, Run, Traces};

/// Runs a job of `size` ranks with these options, and asserts that all it shows is as with the stock library.
fn is_placed(size: usize, options: &str, shown: &str) {
    let run = |root: &Root, pair: Pair, traces: &Traces| -> Run {
        root.mpirun(traces, pair).args(&format!("-np {size}")).args(options).args(Root::program(pair)).arg("place")
    };
    assert_as_with_stock(run, size, |stock: &Seen| {
        assert_eq!((stock.code, stock.count("Cpus_allowed_list:")), (0, size), "{stock:?}");
        assert!(stock.count(shown) > 0, "{stock:?}");
    });
}

#[test]
fn maps() {
    is_placed(4, "--display map", "JOB MAP");
    is_placed(2, "--display map-devel,allocation --rank-by slot --bind-to none", "ALLOCATED NODES");
    is_placed(2, "--display map --map-by ppr:2:node", "PPR: 2:node");
    is_placed(3, "--display map --map-by node --rank-by node", "BYNODE");
}

#[test]
fn bindings() {
    is_placed(4, "--display bind", "not bound");
    // A machine may have one processor.
    is_placed(2, "--display map,bind --map-by core --bind-to core:overload-allowed", "bound to package[0][core:");
    is_placed(2, "--display map,bind --map-by slot --bind-to hwthread:overload-allowed", "bound to package[0]");
}
