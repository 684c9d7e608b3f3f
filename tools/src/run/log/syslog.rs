//! Records for the node's syslog service, in the form of RFC 3164 as `syslog(3)` writes them. That function serves one caller in a process
//! and tells nothing of failures.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process;
use std::time::{Duration, SystemTime};

use pmix_client::output::text_of;

/// Priorities are a facility and a level: `LOG_LOCAL7 | LOG_DEBUG` is the greatest.
const PRIORITY_MAX: u64 = 191;
/// `LOG_USER`, the facility of programs.
const USER: u64 = 1 << 3;
/// `LOG_ERR`.
const ERROR: u64 = 3;
/// `LOG_USER | LOG_ERR`, which the standard wants by default.
pub(super) const DEFAULT: u64 = USER | ERROR;
/// The longest text of a record; what follows becomes another one. Services take 8 KiB.
const TEXT_LEN_MAX: usize = 8000;
/// How long a record waits for a service that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The priority that a process asks for; a level alone is one of [`USER`], as in `syslog(3)`.
pub(super) fn priority(asked: u64) -> Option<u64> {
    let with_facility = |asked| if asked < USER { USER | asked } else { asked };
    Some(asked).filter(|asked| *asked <= PRIORITY_MAX).map(with_facility)
}

/// Sends the lines, which have no control characters, to the service at this socket.
pub(super) fn send(service: &Path, priority: u64, time: SystemTime, lines: &[String]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(service)?;
    let head = head(priority, time);
    for line in lines {
        for piece in pieces(line) {
            socket.send(format!("{head}{piece}").as_bytes())?;
        }
    }
    Ok(())
}

fn head(priority: u64, time: SystemTime) -> String {
    let time = text_of(time);
    // Without the day of the week and the year.
    let time = time.get(4..19).unwrap_or("Jan  1 00:00:00");
    format!("<{priority}>{time} pmixrun[{}]: ", process::id())
}

/// A line in pieces that fit into a record each.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > TEXT_LEN_MAX {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(TEXT_LEN_MAX));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_level_alone_is_a_programs() {
        assert_eq!([0, 3, 7, 8, 131, 191].map(priority), [8, 11, 15, 8, 131, 191].map(Some));
        assert_eq!([192, u64::MAX].map(priority), [None, None]);
    }

    #[test]
    fn a_record_has_the_form_of_rfc_3164() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert_eq!(send(&path, 11, UNIX_EPOCH, &[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        let service = UnixDatagram::bind(&path).unwrap();
        let long = "ä".repeat(TEXT_LEN_MAX);
        let lines = ["one".to_owned(), String::new(), format!("x{long}")];
        send(&path, 11, UNIX_EPOCH + Duration::from_secs(86_400 * 200), &lines).unwrap();
        let mut records = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        service.set_nonblocking(true).unwrap();
        while let Ok(len) = service.recv(&mut buffer) {
            records.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        }
        // The time is that of this place, so its hour is not looked at.
        let tag = format!(" pmixrun[{}]: ", process::id());
        let texts: Vec<(&str, &str)> = records.iter().map(|record| record.split_once(&tag).unwrap()).collect();
        assert!(texts.iter().all(|(head, _)| head.len() == "<11>Jul 20 00:00:00".len()), "{texts:?}");
        assert!(texts.iter().all(|(head, _)| head.starts_with("<11>Jul ") && head.is_ascii()), "{texts:?}");
        let texts: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
        assert_eq!(texts[..2], ["one", ""]);
        assert_eq!(texts[2..].concat(), lines[2]);
        assert!(texts[2..].len() == 3 && texts.iter().all(|text| text.len() <= TEXT_LEN_MAX));
        drop(service);
        assert_eq!(send(&path, 11, UNIX_EPOCH, &lines).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
