//! The link over a socket.

/// The link over a socket.
pub struct Channel {
    _private: (),
}
