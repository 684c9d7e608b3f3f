//! Tests of the segment format: builder and reader against the heap stores as reference.

mod carried;
mod damage;
mod directory;
mod golden;
mod golden_directory;
mod processes;
mod random;
mod round_trip;
mod stress;
