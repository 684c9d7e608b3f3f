//! Tests of the segment format: builder and reader against the heap stores as reference.

mod damage;
mod directory;
mod golden;
mod processes;
mod random;
mod round_trip;
mod stress;
