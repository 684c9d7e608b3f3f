//! How a message lies in the input of the target `message`.

use pmix_wire::{Command, PeerKind, Version};

use crate::message::{Form, Message};
use crate::{dialect, selector};

/// No server before 3.0: it would get requests that ours does not decode.
const VERSIONS: [(u32, u32); 5] = [(3, 0), (3, 2), (4, 2), (5, 0), (6, 1)];

/// The message of an input.
pub fn read(input: &[u8]) -> Option<Message> {
    let [form, command, peers_form, client, server, bytes @ ..] = input else {
        return None;
    };
    let version = |selector: u8| {
        let (major, minor) = VERSIONS[usize::from(selector) % VERSIONS.len()];
        Version::new(major, minor, 0)
    };
    let form = match form % 10 {
        0 => Form::Hello,
        1 => Form::ClientReply,
        2 => Form::ToolReply(PeerKind::from_flag(*command)?),
        3 => Form::Heartbeat,
        4 => Form::Request,
        5 => Form::Reply(Command(*command)),
        6 => Form::Notification,
        7 => Form::IoDelivery,
        8 => Form::Fence,
        _ => Form::Modex,
    };
    Some(Message {
        exchange: String::new(),
        form,
        dialect: dialect(*peers_form),
        client: version(*client),
        server: version(*server),
        bytes: bytes.to_vec(),
    })
}

/// The input of a message.
pub fn write(message: &Message) -> Vec<u8> {
    let (form, command) = match message.form {
        Form::Hello => (0, 0),
        Form::ClientReply => (1, 0),
        Form::ToolReply(kind) => (2, kind as u8),
        Form::Heartbeat => (3, 0),
        Form::Request => (4, 0),
        Form::Reply(command) => (5, command.0),
        Form::Notification => (6, 0),
        Form::IoDelivery => (7, 0),
        Form::Fence => (8, 0),
        Form::Modex => (9, 0),
    };
    let version = |version: Version| VERSIONS.iter().rposition(|(major, _)| *major <= version.major).unwrap_or(0) as u8;
    let mut input = vec![form, command, selector(message.dialect), version(message.client), version(message.server)];
    input.extend_from_slice(&message.bytes);
    input
}
