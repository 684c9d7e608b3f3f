//! The wire protocol that PMIx clients and servers speak: messages as typed structures with encode and decode, and their
//! framing on a socket.
//!
//! The same types serve both ends: a test can connect them to each other, and recorded exchanges of released libraries
//! decode and encode to the same bytes. Only [`framing`] reads and writes sockets. Values are packed by
//! [`pmix_dstore::codec`].
//!
//! * [`Header`]: the 16 bytes before every message after the handshake.
//! * [`Hello`], [`ClientReply`], [`ToolReply`]: the handshake.
//! * [`Request`]: the requests of a client; [`reply`]: the server's replies.
//! * [`Notification`], [`IoDelivery`], [`FlowControl`], [`Deletion`]: messages that a server sends without a request.
//! * [`jobinfo`]: a job's data as the reply to a job-info request.
//! * [`blob`]: the data that servers exchange in fences and direct modex.
//! * [`framing`]: splits a stream into messages, and queues messages for a stream.
//!
//! This crate serves `pmix-client` and `pmix-server`; it makes no promise to other users.
//!
//! All decoders take untrusted bytes. They read the fields that they know and ignore fields that a newer peer appended.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::unwrap_used))]

pub mod blob;
mod columns;
mod command;
pub mod framing;
mod header;
mod hello;
pub mod jobinfo;
mod notification;
pub mod reply;
mod request;
mod version;

#[cfg(test)]
mod tests;

pub use command::Command;
pub use header::{
    Header, MESSAGE_LEN_MAX, REQUEST_LEN_MAX, TAG_DELETED, TAG_FIRST, TAG_FIRST_COMMIT, TAG_FLOW_CONTROL,
    TAG_HEARTBEAT, TAG_IOF, TAG_NOTIFY,
};
pub use hello::{ClientReply, FORMER_INDEX, HELLO_LEN_MAX, Hello, PeerKind, ToolReply};
pub use notification::{Deletion, FlowControl, IoDelivery, Notification};
pub use reply::Reply;
pub use request::Request;
pub use version::Version;

use pmix_dstore::codec::{Dialect, Packer};

/// A packer for messages to a peer of this version; it expands compressed strings if the peer cannot read them.
pub fn packer(dialect: Dialect, to: Version) -> Packer {
    Packer::new(dialect).expanding(!to.reads_compressed_strings())
}
