//! What the library tells about itself on request: the log, the trace of calls, the summary of a rank. Nothing of it by default.

use std::collections::BTreeSet;
use std::fs;

use pmix_tests::{Ended, Library, Run, left_out, pmixrun, program};

const RANKS: usize = 2;

/// Two ranks of ours under our launcher, each of which `way` starts, with these variables.
fn ranks(way: &str, variables: &[(&str, &str)]) -> Ended {
    let words: Vec<&str> = way.split_whitespace().collect();
    let (first, rest) = words.split_first().map_or((None, &[][..]), |(first, rest)| (Some(*first), rest));
    let run = match first {
        None => Run::ranks(RANKS, program("diagnosed"), Library::ours()),
        Some(first) => {
            let run = rest.iter().fold(Run::ranks(RANKS, first, Library::ours()), |run, word| run.arg(word));
            run.arg(program("diagnosed"))
        }
    };
    let ended = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run();
    assert_eq!((ended.code(), ended.count("done")), (0, RANKS), "{ended}");
    ended
}

/// The lines of the library on standard error.
fn lines(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("pmix-dstore")).collect()
}

/// The lines of ranks about shared memory.
fn about_shared_memory(ended: &Ended) -> Vec<&str> {
    let end = "; values come over the socket";
    lines(ended).into_iter().filter(|line| line.contains("pmix-dstore client ") && line.ends_with(end)).collect()
}

#[test]
fn nothing_is_written_by_default() {
    let ended = ranks("", &[]);
    assert_eq!(lines(&ended), Vec::<&str>::new(), "{ended}");
}

/// Hides libmunge from the command behind it.
const WITHOUT_MUNGE: &str = "m=$(ldconfig -p | sed -n 's/.*libmunge.so.2 .*=> //p' | head -1); \
                             [ -z \"$m\" ] || mount --bind /dev/null \"$m\"; exec \"$@\"";

/// A rank with a stock library complains where the server names munge and the rank has none.
#[test]
fn ranks_without_munge_get_in_and_say_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return left_out("root", "only root can hide a library");
    }
    let rank = "echo mode: $PMIX_SECURITY_MODE.; exec \"$0\" --gets 10";
    let run = Run::new("unshare", Library::ours()).args("--mount sh -c").arg(WITHOUT_MUNGE).arg("sh");
    let ended = run.arg(pmixrun()).args("-n 2 sh -c").arg(rank).arg(program("latency")).succeed();
    assert_eq!((ended.stderr.as_str(), ended.count("mode: native.")), ("", 2), "{ended}");
    // A launcher with a stock library names munge first, whether or not a rank has it.
    let rank = "export PMIX_SECURITY_MODE=munge,native LD_LIBRARY_PATH=$1; shift; exec \"$@\" --gets 10";
    let run = Run::new(program("host"), Library::Stock).args("-n 2 --timeout 100 unshare --mount sh -c");
    let run = run.arg(WITHOUT_MUNGE).args("sh sh -c").arg(rank).arg("sh").arg(Library::ours().directory());
    let ended = run.arg(program("latency")).succeed();
    assert_eq!(
        (ended.stderr.lines().find(|line| !line.starts_with("host ")), ended.count("gets done")),
        (None, 2),
        "{ended}"
    );
}

/// The library brings all that it needs. Plugins of another installation, to which these variables lead, are not even looked for.
#[test]
fn no_plugin_is_loaded() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["mca_gds_hash.so", "pmix_mca_gds_hash.so", "pmix_mca_bfrops_v41.so", "libpmix_plugin.so"] {
        fs::write(directory.path().join(name), "no library\n").expect("a file");
    }
    let path = directory.path().display().to_string();
    let variables =
        ["PMIX_MCA_mca_base_component_path", "PMIX_MCA_component_path", "PMIX_INSTALL_PREFIX", "OPAL_PREFIX"];
    let mut set: Vec<(&str, &str)> = variables.iter().map(|name| (*name, path.as_str())).collect();
    let log = directory.path().join("loaded").display().to_string();
    set.extend([("LD_DEBUG", "files"), ("LD_DEBUG_OUTPUT", log.as_str())]);
    let ended = ranks("", &set);
    assert_eq!(lines(&ended), Vec::<&str>::new(), "{ended}");
    let entries = fs::read_dir(directory.path()).expect("a directory").flatten().map(|entry| entry.path());
    let logs = entries.filter(|file| file.display().to_string().starts_with(&log));
    let texts: Vec<String> = logs.map(|file| fs::read_to_string(file).expect("a log")).collect();
    let loaded = texts.iter().flat_map(|text| text.lines()).filter(|line| line.contains("dynamically loaded by "));
    let by_us: BTreeSet<&str> = loaded
        .filter(|line| line.contains("/libpmix.so"))
        .filter_map(|line| line.split_once("file=")?.1.split([' ', ';']).next())
        .collect();
    let known = ["libhwloc.so.15", "libmunge.so.2"];
    assert!(by_us.iter().all(|name| known.contains(name)), "{by_us:?}");
    assert!(texts.iter().any(|text| text.contains("file=libpmix.so.2 [0]")), "the linker wrote no log: {texts:?}");
    assert!(!texts.iter().any(|text| text.contains("mca_")), "{texts:?}");
}

#[test]
fn levels_choose_the_lines() {
    for (variables, is_shown) in [
        (&[("PMIX_DSTORE_LOG", "info")][..], true),
        (&[("PMIX_DSTORE_LOG", "error,store=info")], true),
        (&[("PMIX_MCA_gds_base_verbose", "1")], true),
        (&[("PMIX_DSTORE_LOG", "connection=trace")], false),
        (&[("PMIX_MCA_ptl_base_verbose", "100")], false),
    ] {
        let ended = ranks("", variables);
        let shown = lines(&ended).into_iter().filter(|line| line.contains(": info: values are read in shared memory"));
        assert_eq!(shown.count(), if is_shown { RANKS } else { 0 }, "{variables:?}: {ended}");
    }
}

#[test]
fn server_and_ranks_tell_their_steps() {
    let ended = ranks("", &[("PMIX_DSTORE_LOG", "debug")]);
    let told = |writer: &str, part: &str| {
        lines(&ended).into_iter().filter(|line| line.starts_with(writer) && line.contains(part)).count()
    };
    assert_eq!(told("pmix-dstore client ", ") over its Unix socket in "), RANKS, "{ended}");
    assert_eq!(told("pmix-dstore server ", "; shared memory is on"), 1, "{ended}");
}

#[test]
fn a_bad_level_is_named_once_on_a_node() {
    let ended = ranks("", &[("PMIX_DSTORE_LOG", "loud")]);
    // The ranks have the variable from where their server has it.
    let named = lines(&ended).iter().filter(|line| line.contains("PMIX_DSTORE_LOG: loud is ignored")).count();
    assert_eq!((named, lines(&ended).len()), (1, 1), "{ended}");
}

#[test]
fn each_process_writes_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log.%p");
    let ended = ranks("", &[("PMIX_DSTORE_LOG", "store=info"), ("PMIX_DSTORE_LOG_FILE", file.to_str().unwrap())]);
    assert_eq!(lines(&ended), Vec::<&str>::new(), "{ended}");
    let texts: Vec<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .filter(|text| text.contains("values are read in shared memory"))
        .collect();
    let distinct: BTreeSet<&String> = texts.iter().collect();
    assert_eq!((texts.len(), distinct.len()), (RANKS, RANKS), "{texts:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_its_lines_are_not_lost() {
    let ended = ranks("", &[("PMIX_DSTORE_LOG", "store=info"), ("PMIX_DSTORE_LOG_FILE", "/no/such/directory/log")]);
    for part in ["/no/such/directory/log: No such file", "values are read in shared memory"] {
        let told = lines(&ended).into_iter().filter(|line| line.contains(part)).count();
        assert!(told >= RANKS, "{part}: {ended}");
    }
}

#[test]
fn a_rank_says_at_info_which_setting_keeps_it_from_shared_memory() {
    for (way, reason) in [
        ("env PMIX_DSTORE_SHM=0", "PMIX_DSTORE_SHM=0"),
        ("env -u PMIX_DSTORE_SEGMENTS", "the server offers no shared memory"),
        ("env -u PMIX_DSTORE_SEGMENTS -u PMIX_DSTORE_SERVER", "is another library's"),
        ("env PMIX_DSTORE_SEGMENTS=/no/such/directory", "/no/such/directory: No such file or directory"),
    ] {
        let ended = ranks(way, &[]);
        assert_eq!(lines(&ended), Vec::<&str>::new(), "{way}: {ended}");
        let ended = ranks(way, &[("PMIX_DSTORE_LOG", "info")]);
        let told = about_shared_memory(&ended);
        assert!(told.len() == RANKS && told.iter().all(|line| line.contains(reason)), "{way}: {ended}");
        assert!(told.iter().all(|line| line.contains(": info: ")), "{way}: {ended}");
    }
}

#[test]
fn a_rank_warns_of_a_fault_that_keeps_it_from_shared_memory() {
    for (way, reason) in [
        ("env PMIX_DSTORE_SEGMENTS=/", "/: not the directory that the server made"),
        ("env PMIX_DSTORE_SECRET=0000", "the handshake ended with"),
    ] {
        let ended = ranks(way, &[]);
        let told = about_shared_memory(&ended);
        assert!(told.len() == RANKS && told.iter().all(|line| line.contains(reason)), "{way}: {ended}");
        assert!(!told.iter().any(|line| line.contains(": info: ")), "{way}: {ended}");
    }
}

/// A line about calls, without what differs from run to run: the process, the namespace, numbers in brackets at the end.
fn shape(line: &str) -> Option<String> {
    let call = line.strip_prefix("pmix-dstore[")?.split_once("]: ")?.1;
    let (call, end) = call.rsplit_once(" [")?;
    let words: Vec<&str> = end.strip_suffix(" us]")?.split(", ").collect();
    let (took, place) = words.split_last()?;
    took.parse::<u64>().ok()?;
    Some(format!("{call} [{}]", place.join(", ")))
}

#[test]
fn a_trace_shows_arguments_status_and_source() {
    let ended = ranks("", &[("PMIX_DSTORE_TRACE", "1")]);
    let calls: Vec<String> = lines(&ended).into_iter().filter_map(shape).collect();
    let job = calls.iter().find_map(|call| call.strip_prefix("PMIx_Fence([")?.split_once(":*]")).expect("a fence").0;
    let count = |call: String| calls.iter().filter(|made| **made == call).count();
    for (call, times) in [
        (format!("PMIx_Get({job}:0, own.text) -> PMIX_SUCCESS [own values]"), 1),
        (format!("PMIx_Get({job}:0, own.note) -> PMIX_SUCCESS [own values]"), 1),
        (format!("PMIx_Get({job}:0, own.text) -> PMIX_SUCCESS [modex segment]"), 2),
        (format!("PMIx_Get({job}:*, PMIX_JOB_SIZE) -> PMIX_SUCCESS [job segment]"), 3 * RANKS),
        (format!("PMIx_Get({job}:*, PMIX_ANL_MAP) -> PMIX_ERR_NOT_FOUND [server]"), 2 * RANKS),
        (format!("PMIx_Store_internal({job}:1, own.note, 7) -> PMIX_SUCCESS []"), 1),
        (format!("PMIx_Fence([{job}:*], [PMIX_COLLECT_DATA=true]) -> PMIX_SUCCESS []"), RANKS),
        ("PMIx_Fence([], []) -> PMIX_SUCCESS []".into(), RANKS),
        ("PMIx_Commit() -> PMIX_SUCCESS []".into(), RANKS),
        ("PMIx_Publish([published.0=7]) -> PMIX_SUCCESS []".into(), 1),
        ("PMIx_Lookup([published.1], []) -> PMIX_SUCCESS []".into(), 1),
    ] {
        assert_eq!(count(call.clone()), times, "{call}: {ended}");
    }
    for part in [
        ", own.text, \"some text\") -> PMIX_SUCCESS []",
        "PMIx_Register_event_handler([PMIX_EVENT_JOB_END], [])",
        "PMIx_Spawn([], [2 x no-such-program]) -> PMIX_ERR_",
    ] {
        assert_eq!(calls.iter().filter(|call| call.contains(part)).count(), RANKS, "{part}: {ended}");
    }
}

#[test]
fn the_level_trace_shows_calls_too() {
    let ended = ranks("", &[("PMIX_DSTORE_LOG", "api=trace")]);
    assert_eq!(lines(&ended).iter().filter(|line| line.contains("PMIx_Commit() -> ")).count(), RANKS, "{ended}");
}

#[test]
fn a_trace_over_the_socket_names_the_reply_cache() {
    let ended = ranks("", &[("PMIX_DSTORE_TRACE", "1"), ("PMIX_DSTORE_SHM", "0")]);
    let calls: Vec<String> = lines(&ended).into_iter().filter_map(shape).collect();
    for place in ["own.text) -> PMIX_SUCCESS [server]", "own.text) -> PMIX_SUCCESS [reply cache]"] {
        assert_eq!(calls.iter().filter(|call| call.ends_with(place)).count(), RANKS, "{place}: {ended}");
    }
}

#[test]
fn a_summary_counts_fences_commits_and_missed_keys() {
    let ended = ranks("", &[("PMIX_DSTORE_SUMMARY", "1")]);
    let told = |part: &str| lines(&ended).into_iter().filter(|line| line.contains(part)).count();
    assert_eq!(told(" in 2 fences, "), RANKS, "{ended}");
    assert_eq!(told("; commits 1; Gets 11, not found 3"), RANKS, "{ended}");
    assert_eq!(told("summary: not found: PMIX_ANL_MAP 2, PMIX_CREDENTIAL 1"), RANKS, "{ended}");
    assert_eq!(lines(&ended).len(), 2 * RANKS, "{ended}");
}

#[test]
fn gets_of_all_threads_are_counted_by_source() {
    const THREADS: usize = 3;
    let run = Run::ranks(RANKS, program("diagnosed"), Library::ours()).arg(THREADS.to_string());
    let ended = run.env("PMIX_DSTORE_STATS", "1").succeed();
    let of = |count: usize| count * (THREADS + 1);
    let (job, server) = (of(3) + 1, of(3));
    let wanted = format!(
        "Gets by source: own values {}, job segment {job}, modex segment {}, reply cache 0, server {server}, this process 0",
        of(2),
        of(2)
    );
    assert_eq!(lines(&ended).into_iter().filter(|line| line.ends_with(&wanted)).count(), RANKS, "{wanted}: {ended}");
    assert_eq!(lines(&ended).len(), RANKS, "{ended}");
}
