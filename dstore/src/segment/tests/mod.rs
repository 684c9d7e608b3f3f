//! Tests of the segment format: builder and reader against the heap stores as reference.

mod directory;
mod random;
mod round_trip;
