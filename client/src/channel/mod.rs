//! The link over a socket.

mod connect;
mod frame;
mod mux;

pub use mux::{Incoming, Mux, Sink};

/// The link over a socket.
pub struct Channel {
    _private: (),
}
