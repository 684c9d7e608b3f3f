//! The header before every message after the handshake.

/// Tag of event notifications, server to client.
pub const TAG_NOTIFY: u32 = 0;
/// Tag of heartbeats, client to server; they have no payload.
pub const TAG_HEARTBEAT: u32 = 1;
/// Tag of forwarded output, server to client.
pub const TAG_IOF: u32 = 2;
/// Tag of flow control of input, server to client, from 7.0 on.
pub const TAG_FLOW_CONTROL: u32 = 3;
/// Tag of keys that have been deleted, server to client, from 7.0 on.
pub const TAG_DELETED: u32 = 4;
/// Tag of a process's first commit, from this library to this library. Success is not answered; a refusal has this tag.
pub const TAG_FIRST_COMMIT: u32 = 100;
/// Tag of a connection's first request; smaller ones are reserved.
pub const TAG_FIRST: u32 = 101;

/// Longest payload in bytes that released clients from 6.1 on accept; older ones have no such limit.
pub const MESSAGE_LEN_MAX: usize = 32 << 20;

/// Longest payload in bytes of a request. Our server closes the connection of a client whose header announces more, so
/// our clients refuse to send it.
pub const REQUEST_LEN_MAX: usize = 1 << 30;

/// The header of a message: 16 bytes, big-endian, the last four of them unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The index that the server gave the client in the handshake; 0 from servers. Receivers do not need it.
    pub index: i32,
    /// The tag of the exchange: a reply has its request's tag.
    pub tag: u32,
    /// Bytes of payload after the header.
    pub len: u32,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 16;

    /// The header's bytes.
    pub fn encode(&self) -> [u8; Header::LEN] {
        let mut bytes = [0; Header::LEN];
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// The header of these bytes.
    pub fn decode(bytes: &[u8; Header::LEN]) -> Header {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Header { index: word(0) as i32, tag: word(4), len: word(8) }
    }
}
