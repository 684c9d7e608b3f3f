//! Benchmarks of the PMIx library.
