//! Extracts messages from recorded exchanges, and decodes and encodes them.

use std::collections::HashMap;

use pmix_dstore::codec::{BufferType, Dialect, Module};
use pmix_dstore::model::{Result, Status};
use pmix_wire::reply::{
    ConnectReply, CredentialReply, FenceReply, GetReply, GroupReply, InfosReply, IoPullReply, JobInfoReply,
    LookupReply, NodesReply, PeersReply, RefreshReply, SpawnReply, StatusReply,
};
use pmix_wire::{
    ClientReply, Command, Header, Hello, IoDelivery, Notification, PeerKind, Reply, Request, TAG_HEARTBEAT, TAG_IOF,
    TAG_NOTIFY, ToolReply, Version, blob,
};

use super::vectors::{Exchange, Sender};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Hello,
    ClientReply,
    ToolReply(PeerKind),
    Heartbeat,
    Request,
    Reply(Command),
    Notification,
    IoDelivery,
    Fence,
    Modex,
}

/// One message with the context that its decoder needs.
pub struct Message {
    pub exchange: String,
    pub form: Form,
    pub dialect: Dialect,
    pub client: Version,
    pub server: Version,
    /// Without its header.
    pub bytes: Vec<u8>,
}

impl Message {
    /// Decodes bytes as this kind of message and encodes the result.
    pub fn recode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let (dialect, client, server) = (self.dialect, self.client, self.server);
        let plain = |ok: bool| if ok { Ok(bytes.to_vec()) } else { Err(Status::ERR_UNPACK_FAILURE) };
        match self.form {
            Form::Hello => {
                let header = bytes.first_chunk().ok_or(Status::ERR_UNPACK_FAILURE)?;
                let payload = bytes.get(16..16 + Hello::payload_len(header)?).ok_or(Status::ERR_UNPACK_FAILURE)?;
                Hello::decode(payload)?.encode()
            }
            Form::ClientReply => Ok(ClientReply::decode(bytes)?.encode()),
            Form::ToolReply(kind) => {
                let reply = ToolReply::decode(kind, bytes)?;
                assert_eq!(reply.encode().len(), ToolReply::len(kind));
                Ok(reply.encode())
            }
            Form::Heartbeat => plain(bytes.is_empty()),
            Form::Request => Request::decode(dialect, client, bytes)?.encode(dialect, server),
            Form::Notification => Notification::decode(dialect, bytes)?.encode(dialect, client),
            Form::IoDelivery => IoDelivery::decode(dialect, bytes)?.encode(dialect, client),
            Form::Reply(command) => self.recode_reply(command, bytes),
            Form::Fence => {
                let contributions = blob::decode_fence(dialect, bytes)?;
                let again: Result<Vec<_>> = contributions.iter().map(|one| one.encode_again(dialect)).collect();
                Ok(again?.concat())
            }
            Form::Modex => {
                let kvals = blob::decode_modex(dialect, bytes)?;
                blob::encode_modex(dialect, kvals.iter().map(|kval| (&kval.key, &kval.value)))
            }
        }
    }

    fn recode_reply(&self, command: Command, bytes: &[u8]) -> Result<Vec<u8>> {
        match command {
            Command::JOB_INFO => self.recode_as::<JobInfoReply>(bytes),
            Command::FENCE => self.recode_as::<FenceReply>(bytes),
            Command::GET => self.recode_as::<GetReply>(bytes),
            Command::REFRESH_CACHE => self.recode_as::<RefreshReply>(bytes),
            Command::LOOKUP => self.recode_as::<LookupReply>(bytes),
            Command::SPAWN => self.recode_as::<SpawnReply>(bytes),
            Command::CONNECT => self.recode_as::<ConnectReply>(bytes),
            Command::QUERY
            | Command::ALLOCATE
            | Command::JOB_CONTROL
            | Command::MONITOR
            | Command::VALIDATE_CREDENTIAL => self.recode_as::<InfosReply>(bytes),
            Command::GET_CREDENTIAL => self.recode_as::<CredentialReply>(bytes),
            Command::IO_PULL => self.recode_as::<IoPullReply>(bytes),
            Command::GROUP_CONSTRUCT => self.recode_as::<GroupReply>(bytes),
            Command::RESOLVE_PEERS => self.recode_as::<PeersReply>(bytes),
            Command::RESOLVE_NODES => self.recode_as::<NodesReply>(bytes),
            _ => self.recode_as::<StatusReply>(bytes),
        }
    }

    fn recode_as<R: Reply>(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let reply = R::decode(self.dialect, self.server, bytes)?;
        // Stock servers write a group's reply in their own form, independent of the client's release.
        let to = if self.form == Form::Reply(Command::GROUP_CONSTRUCT) { self.server } else { self.client };
        reply.encode(self.dialect, to)
    }
}

fn version(text: &str) -> Version {
    if text == "master" { Version::new(7, 0, 0) } else { Version::parse(text).unwrap() }
}

/// The messages of an exchange. Every byte belongs to a message or to a header that is checked here.
pub fn messages(exchange: &Exchange) -> Vec<Message> {
    let server = version(&exchange.server);
    let client = exchange.client.as_deref().map_or(server, version);
    let module = exchange.setting("bfrops").map(|name| Module::from_name(name.as_bytes()).unwrap());
    let mut splitter = Splitter { exchange, client, server, dialect: Dialect::plain(Module::V41), out: Vec::new() };
    if let Some(kind) = exchange.setting("kind") {
        let default = if server.major >= 6 { Module::V61 } else { Module::V41 };
        splitter.dialect = Dialect::plain(module.unwrap_or(default));
        splitter.push(if kind == "modex" { Form::Fence } else { Form::Modex }, &exchange.stream(Sender::Server, 0));
        return splitter.out;
    }
    if exchange.setting("state") == Some("running") {
        let buffer = exchange.setting("buffer-type").unwrap().parse().unwrap();
        splitter.dialect = Dialect::new(module.unwrap(), BufferType::from_code(buffer).unwrap());
        splitter.run(&exchange.stream(Sender::Client, 0), &exchange.stream(Sender::Server, 0));
        return splitter.out;
    }
    let hello_bytes = &exchange.units[0].1;
    splitter.push(Form::Hello, hello_bytes);
    let hello = Hello::decode(&hello_bytes[16..]).unwrap();
    splitter.dialect = Dialect::new(hello.module, hello.buffer);
    let kind = PeerKind::from_flag(hello.flag).unwrap();
    let as_client =
        kind == PeerKind::Client || kind == PeerKind::Singleton && exchange.setting("singleton-reply").is_none();
    let answer = exchange.stream(Sender::Server, 0);
    let len = if as_client { ClientReply::LEN } else { ToolReply::len(kind) };
    splitter.push(if as_client { Form::ClientReply } else { Form::ToolReply(kind) }, &answer[..len]);
    splitter.run(&exchange.stream(Sender::Client, 1), &answer[len..]);
    splitter.out
}

struct Splitter<'a> {
    exchange: &'a Exchange,
    client: Version,
    server: Version,
    dialect: Dialect,
    out: Vec<Message>,
}

impl Splitter<'_> {
    fn push(&mut self, form: Form, bytes: &[u8]) {
        let (client, server) = (self.client, self.server);
        let writer = if form == Form::Request { client } else { server };
        let dialect = self.dialect.with_untyped(writer.untyped_arrays());
        let exchange = self.exchange.name.clone();
        self.out.push(Message { exchange, form, dialect, client, server, bytes: bytes.to_vec() });
    }

    /// Extracts the messages after the handshake.
    fn run(&mut self, from_client: &[u8], from_server: &[u8]) {
        let mut commands = HashMap::new();
        for (tag, payload) in split(from_client) {
            if tag == TAG_HEARTBEAT {
                self.push(Form::Heartbeat, payload);
                continue;
            }
            let dialect = self.dialect.with_untyped(self.client.untyped_arrays());
            let request = Request::decode(dialect, self.client, payload);
            let request = request.unwrap_or_else(|error| panic!("{}: {error}", self.exchange.name));
            commands.insert(tag, request.command());
            self.push(Form::Request, payload);
        }
        for (tag, payload) in split(from_server) {
            let form = match tag {
                TAG_NOTIFY => Form::Notification,
                TAG_IOF => Form::IoDelivery,
                // A server without a monitor answers a heartbeat with a status.
                TAG_HEARTBEAT => Form::Reply(Command::FINALIZE),
                tag => Form::Reply(commands[&tag]),
            };
            self.push(form, payload);
        }
    }
}

fn split(mut stream: &[u8]) -> Vec<(u32, &[u8])> {
    let mut messages = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk() {
        let decoded = Header::decode(header);
        assert_eq!(decoded.encode(), *header);
        let (payload, rest) = rest.split_at(decoded.len as usize);
        messages.push((decoded.tag, payload));
        stream = rest;
    }
    assert!(stream.is_empty(), "part of a header is left");
    messages
}
