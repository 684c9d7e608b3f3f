use super::*;

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

fn rank(rank: u32) -> Rank {
    Rank(rank)
}

fn origin() -> Origin {
    let (boot, directory, server) = (b"boot".to_vec(), b"1:2".to_vec(), b"host.0".to_vec());
    Origin { life: 3, patience: 60, boot, directory, server }
}

fn journal(records: &[Record]) -> Vec<u8> {
    Journal::new(&nspace(), &origin(), records).unwrap().slices().collect::<Vec<_>>().concat()
}

fn records() -> (Secret, Vec<Record>) {
    let secret = Secret::new().unwrap();
    let values = [
        ("local", Value::Int(1)),
        ("large", Value::ByteObject(vec![7; 5000].into())),
        ("text", Value::string("text")),
        ("gone", Value::Undef),
    ];
    let values = values.map(|(key, value)| (Key::new(key).unwrap(), value));
    let [local, large, text, gone] = values.each_ref().map(|(key, value)| (key, value));
    let parts = [(1, vec![local]), (3, vec![large, text]), (5, vec![gone])];
    let fate = Fate { finalized: 2, is_over: true, is_here: true, ..Fate::default() };
    let records = vec![
        Record::secret(rank(1), &secret).unwrap(),
        Record::fate(rank(2), fate).unwrap(),
        Record::remote(rank(1), [Key::new("shared").unwrap()].iter()).unwrap(),
        Record::commit(rank(1), &parts).unwrap(),
        Record::commit(rank(4), &[]).unwrap(),
        Record::released(Status::ERR_TIMEOUT, &[(rank(1), 17, 102), (rank(2), 18, 103)]).unwrap(),
    ];
    (secret, records)
}

#[test]
fn what_is_written_is_read() {
    let (secret, records) = records();
    let (estate, cut) = Estate::read(&journal(&records)).unwrap();
    assert_eq!((estate.nspace, estate.origin, cut), (nspace(), origin(), 0));
    assert!(estate.secrets[&rank(1)].is(secret.text().as_bytes()) && estate.secrets.len() == 1);
    assert_eq!(estate.fates[&rank(2)], Fate { finalized: 2, is_over: true, is_here: true, ..Fate::default() });
    let fences: Vec<_> = estate.released.into_iter().collect();
    let timeout = Status::ERR_TIMEOUT;
    assert_eq!(fences, [((rank(1), 17), [(102, timeout)].into()), ((rank(2), 18), [(103, timeout)].into())]);
    let [Change::Remote(one, keys), Change::Commit(same, parts), Change::Commit(four, none)] = &estate.changes[..]
    else {
        panic!("three changes in their order");
    };
    assert_eq!((*one, *same, *four, none.len()), (rank(1), rank(1), rank(4), 0));
    assert_eq!(keys, &[Key::new("shared").unwrap()]);
    let codes: Vec<(u8, usize)> = parts.iter().map(|(code, kvals)| (*code, kvals.len())).collect();
    assert_eq!(codes, [(1, 1), (3, 2), (5, 1)]);
    assert_eq!(parts[1].1[0].value, Value::ByteObject(vec![7; 5000].into()));
}

/// A server that is killed while it writes leaves a beginning of what it writes.
#[test]
fn a_journal_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
    let (_, records) = records();
    let whole = journal(&records);
    let of_header = journal(&[]).len();
    let mut ends = vec![of_header];
    records.iter().for_each(|record| ends.push(ends[ends.len() - 1] + record.total_len()));
    for len in 0..whole.len() {
        match Estate::read(&whole[..len]) {
            Err(_) => assert!(len < of_header, "{len}"),
            Ok((estate, cut)) => {
                let end = ends.iter().rev().find(|end| **end <= len).unwrap();
                assert_eq!(cut, len - end, "{len}");
                assert_eq!(estate.secrets.len(), usize::from(len >= ends[1]), "{len}");
            }
        }
    }
}

#[test]
fn a_changed_byte_is_refused_wherever_it_is() {
    let (_, records) = records();
    let whole = journal(&records);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            assert!(Estate::read(&changed).is_err(), "{at} {bit}");
        }
    }
}

/// Hashes that are right prove nothing: whoever can write the file can make them.
#[test]
fn hostile_records_with_right_hashes_are_refused() {
    let record = |kind: u32, payload: &[u8]| Record::new(kind, payload, GatherBuf::new()).unwrap();
    let long = [&1u32.to_le_bytes()[..], &u32::MAX.to_le_bytes(), b"key"].concat();
    for (kind, payload) in [
        (0, &b""[..]),
        (7, b"newer"),
        (HEADER, b"again"),
        (SECRET, b"\x01\0\0\0short"),
        (SECRET, &[&1u32.to_le_bytes()[..], &[b'X'; 64]].concat()),
        (SECRET, &[&u32::MAX.to_le_bytes()[..], &[b'a'; 64]].concat()),
        (FATE, &[1, 0, 0, 0, 0, 0, 0, 0, 16]),
        (FATE, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1]),
        (COMMIT, b"\x01\0"),
        (COMMIT, b"\x01\0\0\0\x04"),
        (COMMIT, b"\x01\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        (REMOTE, &long),
        (RELEASED, &[0, 0, 0, 0, 1, 0, 0, 0, 1]),
    ] {
        let refused = Estate::read(&journal(&[record(kind, payload)])).err();
        assert!(refused.is_some_and(|why| why.starts_with("record 1: ")), "{kind} {payload:?}");
    }
    let nothing = MAGIC.to_vec();
    let first = [&MAGIC[..], &record(SECRET, b"").own].concat();
    for bytes in [nothing, first, b"PMIXDJN2".to_vec(), Vec::new()] {
        assert!(Estate::read(&bytes).is_err());
    }
}

/// A claimed length costs no memory.
#[test]
fn a_length_beyond_the_file_is_a_record_that_was_not_written_whole() {
    let mut head = Vec::new();
    head.extend(COMMIT.to_le_bytes());
    head.extend((PAYLOAD_MAX as u32).to_le_bytes());
    head.extend(0u64.to_le_bytes());
    head.extend(xxh3_64(&head).to_le_bytes());
    let bytes = [journal(&[]), head].concat();
    assert_eq!(Estate::read(&bytes).map(|(_, cut)| cut), Ok(HEAD_LEN));
}

#[test]
fn the_oldest_fences_of_a_connection_are_forgotten() {
    let fence = |tag| Record::released(Status::SUCCESS, &[(rank(0), 5, tag)]).unwrap();
    let records: Vec<Record> = (0..3 * RELEASED_MAX as u32).map(fence).collect();
    let (estate, _) = Estate::read(&journal(&records)).unwrap();
    let fences = &estate.released[&(rank(0), 5)];
    assert_eq!((fences.len(), fences[0].0), (RELEASED_MAX, 2 * RELEASED_MAX as u32));
}
