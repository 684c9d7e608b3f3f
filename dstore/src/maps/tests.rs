use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};

use super::*;
use crate::compression::compress;

fn names(list: &str) -> Vec<Vec<u8>> {
    list.split(',').map(|name| name.as_bytes().to_vec()).collect()
}

fn blob(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new((text.len() as u32).to_ne_bytes().to_vec(), Compression::best());
    encoder.write_all(text).unwrap();
    let body = encoder.finish().unwrap();
    [format!("blob:\0component=zlib:\0size={}:\0", body.len()).as_bytes(), &body].concat()
}

/// Whether a map was refused as malformed. The result is not printed: a wrong one can have a million names.
fn refused<T: PartialEq>(result: Result<T>) -> bool {
    result == Err(Status::ERR_BAD_PARAM)
}

#[test]
fn the_second_form_comes_back() {
    for text in [c"n1,n2", c"pmix[n[1:1-2]]", c""] {
        let (ty, bytes) = generate_regex2(text).unwrap();
        assert_eq!((ty.as_deref(), bytes.as_slice()), (Some(c"raw"), text.to_bytes_with_nul()));
        assert_eq!(parse_regex2(ty.as_deref(), &bytes).unwrap(), text.to_bytes());
        assert_eq!(parse_regex2(Some(c"compress"), &compress(text.to_bytes()).unwrap()).unwrap(), text.to_bytes());
    }
    assert!(refused(parse_regex2(Some(c"raw"), b"without its end")));
    assert!(refused(parse_regex2(Some(c"raw"), b"")));
    assert!(refused(parse_regex2(Some(c"compress"), b"123")));
    for ty in [Some(c"zip"), None] {
        assert_eq!(parse_regex2(ty, b"n1\0"), Err(Status::ERR_NOT_SUPPORTED));
    }
}

#[test]
fn writes_the_form_of_stock_4_2() {
    for text in ["node0", "odin001,odin002,odin003,odin010,odin011,thor0", "10.0.0.1,10.0.0.2", ""] {
        let expected = format!("raw:{text}\0").into_bytes();
        assert_eq!(generate_regex(text.as_bytes()).unwrap(), expected);
        assert_eq!(generate_regex(&expected[..expected.len() - 1]).unwrap(), expected);
    }
    // Stock readers of this form read a range as its first rank. The second map is the standard's own example.
    for (text, written) in [
        ("0,1,2,3;4,5,6,7", "0,1,2,3;4,5,6,7"),
        ("1-4;2-5;8,10,11,12;6,7,9", "1,2,3,4;2,3,4,5;8,10,11,12;6,7,9"),
        ("raw:0-1;;9-9", "0,1;;9"),
        ("pmix[0-1;2]", "0,1;2"),
        ("", ""),
        ("no-map", "no-map"),
    ] {
        assert_eq!(generate_ppn(text.as_bytes()).unwrap(), format!("raw:{written}\0").into_bytes(), "{text}");
    }
    assert_eq!(generate_regex(b"a\0b"), Err(Status::ERR_BAD_PARAM));
}

#[test]
fn reads_raw_and_plain_nodes() {
    for list in ["node0", "odin001,odin002,odin003,odin010,odin011,thor0", "10.0.0.1,10.0.0.2", "n1-ib,n2-ib"] {
        assert_eq!(parse_nodes(&generate_regex(list.as_bytes()).unwrap()).unwrap(), names(list));
        assert_eq!(parse_nodes(list.as_bytes()).unwrap(), names(list));
    }
    assert_eq!(parse_nodes(b"").unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(parse_nodes(b"raw:\0").unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn reads_native_nodes() {
    for (map, list) in [
        ("pmix[node[1:0]]", "node0"),
        ("pmix[odin[3:1-3,10-11],thor[1:0]]", "odin001,odin002,odin003,odin010,odin011,thor0"),
        ("pmix[a[2:28]n01,a[2:99,28]n02]", "a28n01,a99n02,a28n02"),
        ("pmix[nid[5:1-2,5]x]", "nid00001x,nid00002x,nid00005x"),
        ("pmix[[2:1-3]]", "01,02,03"),
        ("pmix[10.0.0.1,10.0.0.2]", "10.0.0.1,10.0.0.2"),
        ("pmix[n1-ib,n2-ib]", "n1-ib,n2-ib"),
        ("pmix[n[1:9-11]]", "n9,n10,n11"),
    ] {
        assert_eq!(parse_nodes(map.as_bytes()).unwrap(), names(list), "{map}");
    }
    assert!(parse_nodes(b"pmix[]").unwrap().is_empty());
}

#[test]
fn reads_ranks() {
    let halves = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    for map in ["raw:0,1,2,3;4,5,6,7\0", "raw:0-3;4-7", "pmix[0-3;4-7]", "0,1,2-3;4-7"] {
        assert_eq!(parse_ppn(map.as_bytes()).unwrap(), halves, "{map}");
    }
    assert_eq!(parse_ppn(b"0;1;2").unwrap(), vec![vec![0], vec![1], vec![2]]);
    assert_eq!(parse_ppn(b"0,2,4;1,3,5").unwrap(), vec![vec![0, 2, 4], vec![1, 3, 5]]);
    assert_eq!(parse_ppn(b"8,1-2;;0").unwrap(), vec![vec![8, 1, 2], vec![], vec![0]]);
    assert!(parse_ppn(b"raw:").unwrap().is_empty());
}

#[test]
fn numbers_of_any_length_are_read_and_written() {
    for digits in 0..9 {
        let ranks: Vec<u32> = [9, 10, 11].map(|n| 10u32.pow(digits) * n / 10).to_vec();
        let list = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(parse_ppn(list.as_bytes()), Ok(vec![ranks.clone()]), "{list}");
        assert_eq!(parse_ppn(format!("{list};{list}").as_bytes()), Ok(vec![ranks.clone(), ranks]), "{list}");
        let last = 10u32.pow(digits);
        let written = format!("raw:{},{last},{}\0", last - 1, last + 1);
        assert_eq!(generate_ppn(format!("{}-{}", last - 1, last + 1).as_bytes()), Ok(written.into_bytes()));
    }
    // Neighbours of the digits in the character set, and bytes above ASCII.
    for other in [b'/', b':', 0xfa, 0xff] {
        for len in 1..9 {
            let map = [&b"123456789"[..len], &[other], b"1,2,3,4,5"].concat();
            assert!(refused(parse_ppn(&map)), "{map:?}");
        }
    }
}

#[test]
fn ranks_that_follow_each_other_are_read_and_written_as_others() {
    let firsts = [0, 7, 8, 95, 996, 99_990, 9_999_985, 10_000_003, 268_435_400];
    for first in firsts {
        let ranks: Vec<u32> = (first..first + 20).collect();
        let list = |ranks: &[u32]| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let text = list(&ranks);
        assert_eq!(String::from_utf8(write_ranks(ranks.iter().copied())).unwrap(), text);
        assert_eq!(parse_ppn(text.as_bytes()), Ok(vec![ranks.clone()]));
        for at in 1..ranks.len() {
            let (before, after) = ranks.split_at(at);
            // Two nodes, a duplicate rank, a missing rank, ranges, leading zeros, and malformed lists.
            let both = format!("{};{}", list(before), list(after));
            assert_eq!(parse_ppn(both.as_bytes()), Ok(vec![before.to_vec(), after.to_vec()]));
            assert_eq!(generate_ppn(both.as_bytes()), Ok(format!("raw:{both}\0").into_bytes()));
            for odd in [[before, before].concat(), [before, &after[1..]].concat(), [after, before].concat()] {
                assert_eq!(parse_ppn(list(&odd).as_bytes()), Ok(vec![odd.clone()]));
                assert_eq!(String::from_utf8(write_ranks(odd.iter().copied())).unwrap(), list(&odd));
            }
            for end in [format!("{}-{}", after[0], after.last().unwrap()), format!("0{}", list(after))] {
                let text = format!("{},{end}", list(before));
                assert_eq!(parse_ppn(text.as_bytes()), Ok(vec![ranks.clone()]), "{text}");
            }
            for end in ["", ",", "x", "-", " "] {
                assert!(refused(parse_ppn(format!("{},{end}", list(before)).as_bytes())), "{end:?} after {at}");
            }
        }
    }
    assert_eq!(write_ranks(std::iter::empty()), b"");
}

#[test]
fn reads_compressed_maps() {
    let list = (0..400).map(|n| format!("some-long-node-name-{n:03}")).collect::<Vec<_>>().join(",");
    assert_eq!(parse_nodes(&blob(list.as_bytes())).unwrap(), names(&list));
    assert_eq!(parse_ppn(&blob(b"0-3;4-7")).unwrap(), vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
}

#[test]
fn refuses_damaged_compression() {
    let good = blob(b"node0,node1");
    for len in b"blob:\0".len()..good.len() {
        assert!(refused(parse_nodes(&good[..len])), "cut at {len}");
    }
    let mut lying = good.clone();
    let at = b"blob:\0component=zlib:\0size=23:\0".len();
    lying[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(refused(parse_nodes(&lying)));
    let mut short = good.clone();
    short[at..at + 4].copy_from_slice(&5u32.to_ne_bytes());
    assert!(refused(parse_nodes(&short)));
    let other = String::from_utf8_lossy(&good[..22]).replace("zlib", "zstd").into_bytes();
    assert!(refused(parse_nodes(&[&other, &good[22..]].concat())));
}

#[test]
fn refuses_hostile_ranges() {
    for map in [
        "0-4294967295",
        "0-4294967294",
        "1-16777217",
        "0-9000000,0-9000000",
        "4-2",
        "1-",
        "-1",
        "1,,2",
        "a",
        "0-99999999999999999999",
        "raw:0 ",
        "pmix[0-3",
    ] {
        assert!(refused(parse_ppn(map.as_bytes())), "{map}");
    }
    for map in [
        "pmix[n[1:0-4294967295]]",
        "pmix[n[1:0-999999999999999999]]",
        "pmix[n[1:0-1000000],m[1:0-1000000]]",
        "pmix[n[9999:0-9]]",
        "pmix[n[1:3-1]]",
        "pmix[n[1:]]",
        "pmix[n[1]]",
        "pmix[n[x:1]]",
        "pmix[n[1:1]",
        "pmix[n1]]",
        "pmix[n[[1:1]]]",
        "pmix[n",
    ] {
        assert!(refused(parse_nodes(map.as_bytes())), "{map}");
    }
    // The limit on bytes, not on names, stops a long range with a long prefix.
    let map = format!("pmix[{}[6:0-999999]]", "n".repeat(1000));
    assert!(refused(parse_nodes(map.as_bytes())));
}

#[test]
fn the_ranks_of_a_large_job_stay_ranges() {
    let ranges = |count: u32| (0..count).map(|node| format!("{}-{}", node * 64, node * 64 + 63)).collect::<Vec<_>>();
    let large = ranges(15_625).join(";");
    let listed = String::from_utf8(ranks::write(&parse_ppn(large.as_bytes()).unwrap()).unwrap()).unwrap();
    assert!(listed.len() > 6_000_000);
    for given in [&large, &listed, &format!("pmix[{large}]"), &format!("raw:{large}")] {
        let written = generate_ppn(given.as_bytes()).unwrap();
        assert!(written == format!("pmix[{large}]\0").into_bytes(), "{} bytes", written.len());
        assert_eq!(parse_ppn(&written).unwrap(), parse_ppn(large.as_bytes()).unwrap());
    }
    // Interleaved ranks have no ranges; released readers skip nodes without ranks; all readers accept a small map.
    let in_turn: Vec<String> =
        (0..100).map(|node| (0..64).map(|n| (n * 100 + node).to_string()).collect::<Vec<_>>().join(",")).collect();
    let in_turn = in_turn.join(";");
    assert_eq!(generate_ppn(in_turn.as_bytes()).unwrap(), format!("raw:{in_turn}\0").into_bytes());
    for text in [format!("{};;5000", ranges(70).join(";")), ranges(4).join(";")] {
        assert!(generate_ppn(text.as_bytes()).unwrap().starts_with(b"raw:0,1,2,"), "{text}");
    }
}

fn run(first_node: u32, part: u32, (first, block, stride, count): (u32, u32, u32, u32), step: u32) -> NodeRun {
    NodeRun { first_node, part, of_first: Part { first, block, stride, count }, step }
}

#[test]
fn runs_of_nodes_are_checked() {
    let of = |runs: &[NodeRun], nodes| NodeRuns::new(runs.into(), nodes);
    let good = [run(0, 0, (0, 4, 0, 4), 4), run(3, 0, (12, 1, 2, 3), 1), run(3, 1, (20, 2, 0, 2), 2)];
    let runs = of(&good, 5).unwrap();
    let ranks = |node| runs.ranks(node).map(|ranks| ranks.iter().map(|rank| rank.0).collect::<Vec<_>>());
    assert_eq!(runs.ranks(2), Some(Ranks::Run(8..12)));
    assert_eq!(ranks(4), Some(vec![13, 15, 17, 22, 23]));
    assert_eq!((ranks(5), ranks(u32::MAX)), (None, None));
    let list = RankList { prefix: c"raw:", runs: &runs, first: 2, end: 4 };
    assert_eq!(list.text().unwrap().as_c_str(), c"raw:8,9,10,11;12,14,16,20,21");
    assert!(list.text().unwrap().count_bytes() <= list.len_max());
    assert!(RankList { end: 6, ..list }.text().is_err());
    let bad = |change: fn(&mut [NodeRun; 3]), nodes| {
        let mut runs = good;
        change(&mut runs);
        of(&runs, nodes).is_none()
    };
    assert!(!bad(|_| {}, 5) && !bad(|_| {}, 4));
    // Nodes without a run, runs without a node, no runs, too many nodes.
    assert!(bad(|runs| runs[0].first_node = 1, 5) && bad(|_| {}, 3) && of(&[], 5).is_none());
    assert!(bad(|runs| runs[0].of_first.count = 0, 1 + NODE_COUNT_MAX as u32));
    // Parts that are missing, or of other nodes; nodes that descend.
    assert!(
        bad(|runs| runs[2].part = 2, 5) && bad(|runs| runs[1].part = 1, 5) && bad(|runs| runs[2].first_node = 4, 5)
    );
    assert!(bad(|runs| runs[2].first_node = 2, 5) && bad(|runs| runs[0].first_node = u32::MAX, 5));
    // Empty parts beside others.
    assert!(bad(|runs| runs[1].of_first.count = 0, 5) && bad(|runs| runs[2].of_first.count = 0, 5));
    // Ranks that no process has, and too many of them.
    assert!(bad(|runs| runs[0].of_first.block = 0, 5) && bad(|runs| runs[2].of_first.first = RANK_MAX, 5));
    assert!(bad(|runs| runs[1].step = RANK_MAX, 5) && bad(|runs| runs[1].of_first.stride = u32::MAX, 5));
    assert!(bad(|runs| runs[2].of_first.block = u32::MAX, 5));
    assert!(bad(|runs| runs[1].of_first = Part { first: 0, block: 1, stride: 0, count: u32::MAX }, 5));
}

#[test]
fn lists_of_ranks_become_runs() {
    let found = |lists: &[&str]| {
        let mut finder = RunFinder::default();
        lists.iter().all(|list| finder.add(list.as_bytes()).unwrap().is_some()).then(|| finder.finish().unwrap())
    };
    let runs = |lists: &[&str]| found(lists).map(|runs| runs.iter().copied().collect::<Vec<_>>());
    assert_eq!(runs(&["0,1", "2,3", "4,5"]), Some(vec![run(0, 0, (0, 2, 0, 2), 2)]));
    assert_eq!(runs(&["0,3", "1,4", "2,5"]), Some(vec![run(0, 0, (0, 1, 3, 2), 1)]));
    // The third node does not go on as the second did.
    let two = vec![run(0, 0, (0, 2, 0, 2), 2), run(2, 0, (5, 2, 0, 2), 0)];
    assert_eq!(runs(&["0,1", "2,3", "5,6"]), Some(two));
    // Blocks of two, the last of which is shorter; then other ranks.
    let parts = vec![run(0, 0, (0, 2, 4, 5), 0), run(0, 1, (11, 1, 0, 1), 0)];
    assert_eq!(runs(&["0,1,4,5,8,11"]), Some(parts));
    assert_eq!(runs(&["5"]), Some(vec![run(0, 0, (5, 1, 0, 1), 0)]));
    for none in ["1,0", "1,1", "0-1", "x", "0,", "00", "268435457"] {
        assert_eq!(runs(&["0,1", none]), None, "{none}");
    }
}
