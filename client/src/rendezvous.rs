//! Rendezvous files: how a tool finds a server that did not launch it.
//!
//! A server that is asked to leaves files with its address in the directories for temporary files. The first lines are the
//! URI, the release of the server's library and its process number; what follows tells people who it is and since when.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::env::{ServerUri, parse_uri};

/// Files of this form are short; another kind of file may have the name.
const LEN_MAX: u64 = 4096;

/// Whose rendezvous file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point<'a> {
    /// The one of the node, in the system's directory.
    System,
    /// The scheduler's, in the system's directory.
    Scheduler,
    /// The one of a session, in its directory.
    Session,
    /// Of a server by its process number or its namespace, in its session's directory.
    Server(&'a str),
}

impl Point<'_> {
    /// The name of the file on this host.
    pub fn file_name(&self, hostname: &str) -> String {
        match self {
            Point::System => format!("pmix.sys.{hostname}"),
            Point::Scheduler => format!("pmix.sched.{hostname}"),
            Point::Session => format!("pmix.{hostname}.tool"),
            Point::Server(name) => format!("pmix.{hostname}.tool.{name}"),
        }
    }
}

/// What a rendezvous file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// Who the server is and where.
    pub uri: ServerUri,
    /// The release of its library; empty where the file does not say.
    pub version: String,
    /// Its process; `None` where the file does not say.
    pub pid: Option<i32>,
}

impl Contact {
    /// Reads a file.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where it is none, or not written yet.
    pub fn read(path: &Path) -> io::Result<Contact> {
        let mut text = String::new();
        File::open(path)?.take(LEN_MAX).read_to_string(&mut text)?;
        Contact::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What the text of a file says.
    pub fn parse(text: &str) -> Option<Contact> {
        let mut lines = text.lines();
        let uri = parse_uri(lines.next()?.trim().as_bytes())?;
        let version = lines.next().unwrap_or_default().trim().trim_start_matches('v').to_owned();
        let pid = lines.next().and_then(|pid| pid.trim().parse().ok());
        Some(Contact { uri, version, pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_servers_and_reports_of_uris_are_read() {
        let of_stock = "1603731456.0;tcp4://127.0.0.1:33669\n4.2.2rc2\n13161\n0:0\nFri Nov 20 23:55:02 2026\n\n";
        let contact = Contact::parse(of_stock).unwrap();
        assert_eq!((contact.version.as_str(), contact.pid), ("4.2.2rc2", Some(13161)));
        assert_eq!(contact.uri.address.port(), 33669);
        let reported = Contact::parse("a.b.3;tcp4://127.0.0.1:1\nv3.2.5\n").unwrap();
        assert_eq!((reported.version.as_str(), reported.pid), ("3.2.5", None));
        assert_eq!(reported.uri.proc.to_string(), "a.b:3");
        assert_eq!(Contact::parse("").map(drop), None);
        assert_eq!(Contact::parse("#!/bin/sh\n").map(drop), None);
    }
}
