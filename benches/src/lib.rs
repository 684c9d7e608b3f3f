//! Benchmarks of the PMIx library, compared with the stock library.
//!
//! | what | where | run by |
//! |---|---|---|
//! | calls, wire-up, fences, large jobs, as C programs see them | `benches/pmix`, `programs` | `make bench` |
//! | the store without the C interface | `benches/engine.rs` (criterion) | `make bench-engine` |
//! | a small request during a large fence | `benches/latency.rs` | `cargo bench -p pmix-benches --bench latency` |
//! | a fence without data and direct modex beside a collecting fence | `benches/modex.rs` | `make bench-modex` |
//! | whole MPI jobs under mpirun or Slurm | `benches/wireup.rs` | `make bench-wireup` |
//! | a model of jobs larger than any machine here | `src/bin/scale.rs` | `cargo run --release -p pmix-benches --bin scale` |
//!
//! `results.py` keeps a run in `results/bench.json` and writes the tables of README.md and docs/performance.md from it.
//! `instructions.tsv` has the instructions of each kind of call, which `tests/tests/benchmarks.rs` compares.

pub mod figures;
