//! The handshake, headers, and what a client reads of its environment: what decodes encodes again, and stays the same.
//!
//! Input: the form, then the message; for the environment one `NAME=value` a line.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;
use pmix_client::Environment;
use pmix_fuzz::{bounded, is_ambiguous};
use pmix_wire::{ClientReply, Header, Hello, PeerKind, ToolReply, Version};

/// Heap bytes for each byte of a message.
const HEAP_PER_BYTE: usize = 512;

fuzz_target!(|input: &[u8]| {
    let [form, bytes @ ..] = input else { return };
    bounded(bytes.len(), HEAP_PER_BYTE, || match form % 6 {
        0 => hello(bytes),
        1 => client_reply(bytes),
        2 => {
            let kind = PeerKind::from_flag(form / 6 % 11).expect("a kind");
            tool_reply(kind, bytes);
        }
        3 => header(bytes),
        4 => environment(bytes),
        _ => version(bytes),
    });
});

fn hello(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk() {
        let _ = Hello::payload_len(header);
    }
    let Ok(hello) = Hello::decode(bytes) else { return };
    let _ = Version::parse(&hello.version);
    if let Some((uid, gid)) = Hello::read_native_credential(&hello.credential) {
        assert_eq!(Hello::native_credential(uid, gid), hello.credential);
    }
    // A peer may send infos that its encoder does not know.
    let Ok(once) = hello.encode() else { return };
    let header = once.first_chunk().expect("a header");
    assert_eq!(Hello::payload_len(header), Ok(once.len() - 16));
    let again = match Hello::decode(&once[16..]) {
        Ok(again) if again.encode().as_ref() == Ok(&once) => again,
        other => return assert!(is_ambiguous(&once), "{other:?}"),
    };
    assert_eq!((again.proc, again.uid_gid, again.version), (hello.proc, hello.uid_gid, hello.version));
    assert_eq!((again.module, again.buffer, again.gds), (hello.module, hello.buffer, hello.gds));
}

fn client_reply(bytes: &[u8]) {
    if let Ok(reply) = ClientReply::decode(bytes) {
        assert_eq!(ClientReply::decode(&reply.encode()), Ok(reply));
    }
}

fn tool_reply(kind: PeerKind, bytes: &[u8]) {
    if let Ok(reply) = ToolReply::decode(kind, bytes) {
        let once = reply.encode();
        assert_eq!(once.len(), ToolReply::len(kind));
        assert_eq!(ToolReply::decode(kind, &once), Ok(reply));
    }
}

fn header(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    let header = Header::decode(bytes);
    assert_eq!(Header::decode(&header.encode()), header);
    assert_eq!(header.encode()[..12], bytes[..12]);
}

fn environment(bytes: &[u8]) {
    let lines: Vec<(&[u8], &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let equals = line.iter().position(|byte| *byte == b'=')?;
            Some((&line[..equals], &line[equals + 1..]))
        })
        .collect();
    let lookup = |name: &str| {
        let (_, value) = lines.iter().find(|(known, _)| *known == name.as_bytes())?;
        Some(OsString::from_vec(value.to_vec()))
    };
    let Ok(environment) = Environment::from_lookup(lookup) else { return };
    let proc = environment.proc();
    assert!(proc.nspace.as_bytes().len() < 256);
    let _ = Version::parse(&environment.server_version);
    if let Some(server) = &environment.server {
        let uri =
            [server.proc.nspace.as_bytes(), format!(".{};tcp4://{}", server.proc.rank.0, server.address).as_bytes()]
                .concat();
        let lookup = |name: &str| (name == "PMIX_SERVER_URI41").then(|| OsString::from_vec(uri.clone()));
        let again = Environment::from_lookup(lookup).expect("the same address");
        assert_eq!(again.server.as_ref(), Some(server));
    }
}

fn version(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(version) = Version::parse(text) {
        assert_eq!(Version::parse(&version.to_string()), Some(version));
    }
}
