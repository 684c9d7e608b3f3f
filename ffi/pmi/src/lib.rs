//! `libpmi.so.0` and, by a link, `libpmi2.so.0`: the C interfaces of PMI-1 and PMI-2 for programs that are linked to Slurm's, over any PMIx
//! server.
//!
//! What a process puts becomes a PMIx value of its own, under the key with `pmi.` before it; a barrier is a fence that collects data. The
//! other processes read the value in shared memory, where the server offers it.
//!
//! `job` is what both interfaces mean, in safe code. `c` reads and writes what C hands over: the one place with pointers. `pmi1` and
//! `pmi2` are the functions. All pointers are those that the two headers ask for: strings end with a NUL, and where a function writes, there
//! is room for what it says.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::exit, clippy::unwrap_used))]
#![allow(non_snake_case, reason = "the names are those of C")]

mod c;
mod job;
mod mapping;
mod pmi1;
mod pmi2;
