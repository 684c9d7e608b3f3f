use super::*;

/// Two launchers that are linked.
fn pair() -> (Link, Link) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    let Ok(Opened::First(door)) = open(&path, "east") else { panic!("another one is there") };
    let there = path.clone();
    let second = std::thread::spawn(move || open(&there, "west"));
    let first = admitted(&door).unwrap();
    assert_eq!(first.1, "west");
    let Ok(Opened::Second(link, east)) = second.join().unwrap() else { panic!("nobody is there") };
    assert_eq!(east, "east");
    drop(door);
    assert!(!path.exists());
    (first.0, link)
}

fn admitted(door: &Door) -> Result<(Link, String), String> {
    loop {
        match door.admit("east") {
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Ok(Some(admitted)) => return Ok(admitted),
            Err(why) => return Err(why),
        }
    }
}

fn why(opened: Result<Opened, String>) -> String {
    opened.map(drop).unwrap_err()
}

#[test]
fn the_first_waits_and_the_second_connects() {
    let (mut one, mut other) = pair();
    let message = || Message::Withdraw { id: 7 };
    let frames = [message().frame().unwrap(), message().frame().unwrap()];
    one.write(frames, Instant::now()).unwrap();
    assert_eq!(other.messages().unwrap(), [message(), message()]);
    assert_eq!(other.messages().unwrap(), []);
    // A message in pieces.
    let frame =
        Message::Result { id: 1, status: pmix_dstore::model::Status::SUCCESS, data: vec![1; 9] }.frame().unwrap();
    one.write([frame[..5].to_vec()], Instant::now()).unwrap();
    assert_eq!(other.messages().unwrap(), []);
    one.write([frame[5..].to_vec()], Instant::now()).unwrap();
    assert_eq!(other.messages().unwrap().len(), 1);
    // One that leaves something unread, and has said something before.
    let now = Instant::now();
    other.write([message().frame().unwrap()], now).unwrap();
    one.write([message().frame().unwrap()], now).unwrap();
    drop(one);
    other.write([message().frame().unwrap()], now).unwrap();
    assert_eq!((other.messages().unwrap(), other.has_queue()), (vec![message()], false));
    assert_eq!(other.messages().unwrap_err(), "it has ended");
}

#[test]
fn what_is_no_message_ends_the_link() {
    for (bytes, word) in [(&[255; 8][..], "a message of"), (&[0, 0, 0, 1, 99], "cannot be read")] {
        let (mut one, mut other) = pair();
        one.write([bytes.to_vec()], Instant::now()).unwrap();
        let why = other.messages().unwrap_err();
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn a_partner_that_does_not_read_is_given_up() {
    let (mut one, _other) = pair();
    let now = Instant::now();
    let large = || [vec![0; 1 << 20]];
    one.write(large(), now).unwrap();
    assert!(one.has_queue() && one.deadline().is_some());
    one.write(large(), now + UNREAD_TIME / 2).unwrap();
    assert_eq!(one.write([], now + UNREAD_TIME).unwrap_err(), "it does not read");
    let (mut one, _other) = pair();
    assert_eq!(one.write([vec![0; QUEUE_MAX + (64 << 20)]], now).unwrap_err(), "it does not read");
}

#[test]
fn who_is_no_partner_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    let Ok(Opened::First(door)) = open(&path, "east") else { panic!("another one is there") };
    let there = path.clone();
    let same = std::thread::spawn(move || why(open(&there, "east")));
    assert!(admitted(&door).is_err());
    assert!(same.join().unwrap().contains("--cluster-id east, too"));
    // Whatever else connects.
    for greeting in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 2, 7, 7], b""] {
        let mut stranger = UnixStream::connect(&path).unwrap();
        stranger.write_all(greeting).unwrap();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(admitted(&door).is_err());
    }
    drop(door);
    // What another launcher has left.
    drop(UnixListener::bind(&path).unwrap());
    assert!(why(open(&path, "east")).contains("remove it"));
    assert!(why(open(&directory.path().join("no/such"), "east")).contains("No such file"));
    assert!(why(open(&directory.path().join("n".repeat(120)), "east")).contains("path"));
}
