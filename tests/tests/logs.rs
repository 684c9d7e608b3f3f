//! `PMIx_Log` under `pmixrun`, with this library and with the stock one in the ranks: syslog, the job's record, the streams, and what is refused.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use pmix_dstore::model::Status;
use pmix_tests::{Ended, Library, Profile, Run, Traces, pmixrun, program};

const BOTH: [Library; 2] = [Library::Ours(Profile::Debug), Library::Stock];

/// A rank that makes these calls of `upcalls.c`.
fn log(library: Library, directory: &Path, calls: &str) -> Ended {
    let traces = Traces::begin();
    let run =
        Run::new(pmixrun(), library).traced(&traces).args("-n 1 --timeout 60 --syslog").arg(directory.join("syslog"));
    let run = run.arg("--log-file").arg(directory.join("record")).arg(program("upcalls")).arg("ask");
    let ended = run.input(calls.as_bytes().to_vec()).run();
    traces.assert_none_left(&ended);
    ended
}

/// The answers to the calls, in turn.
fn statuses(ended: &Ended) -> Vec<i32> {
    let answers = ended.stdout.lines().filter_map(|line| line.strip_prefix("log status "));
    answers.map(|status| status.trim().parse().expect("a status")).collect()
}

fn assert_refused(ended: &Ended, lines: &[&str]) {
    let told: Vec<&str> = ended.stderr.lines().collect();
    let is_told = |(line, says): (&&str, &&str)| line.starts_with("pmixrun: run-") && line.contains(says);
    assert!(told.len() == lines.len() && told.iter().zip(lines).all(is_told), "{ended}");
}

#[test]
fn syslog_gets_a_record_of_each_line_with_its_priority() {
    for library in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let service = UnixDatagram::bind(directory.path().join("syslog")).unwrap();
        service.set_nonblocking(true).unwrap();
        let calls = "log pmix.log.syslog string one ) )\n\
                     log pmix.log.lsys string two%0Athree%1B ) pmix.log.syspri int 6\n\
                     log pmix.log.gsys string four ) pmix.log.syspri int 131 pmix.log.tstmp time 86400\n\
                     log pmix.log.syslog string five ) pmix.log.syspri int 4711\n";
        let ended = log(library, directory.path(), calls);
        let wrong = Status::ERR_BAD_PARAM.0;
        assert_eq!((ended.code(), statuses(&ended)), (0, vec![0, 0, 0, wrong]), "{library:?}: {ended}");
        assert_eq!(ended.stderr, "", "{library:?}: {ended}");
        let mut buffer = [0; 1024];
        for (head, text) in
            [("<11>", ":0: one"), ("<14>", ":0: two"), ("<14>", ":0: three\\u{1b}"), ("<131>Jan ", ":0: four")]
        {
            let len = service.recv(&mut buffer).unwrap_or_else(|error| panic!("{library:?}: {text}: {error}"));
            let record = String::from_utf8_lossy(&buffer[..len]);
            let is_right = record.starts_with(head) && record.contains(" pmixrun[") && record.contains("]: run-");
            assert!(is_right && record.ends_with(&format!(".job{text}")), "{library:?}: {record}");
        }
        assert!(service.recv(&mut buffer).is_err(), "{library:?}");
    }
}

#[test]
fn the_record_of_the_job_has_time_and_process_of_each_line() {
    for library in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        std::fs::write(&record, "cut o").unwrap();
        let calls = "log pmix.log.jrec string one%0Atwo ) )\nlog pmix.log.jrec string %3Cthree ) pmix.log.xml bool 1\n";
        let ended = log(library, directory.path(), calls);
        assert_eq!(
            (ended.code(), statuses(&ended), ended.stderr.as_str()),
            (0, vec![0, 0], ""),
            "{library:?}: {ended}"
        );
        let text = std::fs::read_to_string(&record).unwrap();
        let [first, one, two, three] = text.lines().collect::<Vec<_>>()[..] else { panic!("{library:?}: {text}") };
        assert!(first == "cut o" && text.ends_with('\n'), "{library:?}: {text}");
        for (line, says) in [(one, "one"), (two, "two")] {
            assert!(line.starts_with('[') && line.contains("][run-"), "{library:?}: {text}");
            assert!(line.ends_with(&format!(".job,0]<record>: {says}")), "{library:?}: {text}");
        }
        assert!(three.starts_with("<record nspace=\"run-") && three.ends_with("\">&lt;three</record>"), "{text}");
    }
}

#[test]
fn texts_for_the_streams_are_as_they_came_or_marked() {
    for library in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let calls = "log pmix.log.stdout string plain%0A pmix.log.stderr string error%0A ) )\n\
                     log pmix.log.stdout string a%0Ab%0A ) pmix.log.tag bool 1\n\
                     log pmix.log.stdout string c%3C ) pmix.log.xml bool 1\n\
                     log pmix.log.stdout string d%0A ) pmix.log.tstmp time 86400\n\
                     log pmix.log.stdout string e%0A ) pmix.log.gtstmp bool 1\n\
                     log pmix.log.stdout string f%0A ) pmix.log.tsout bool 1\n";
        let ended = log(library, directory.path(), calls);
        assert_eq!(
            (ended.code(), statuses(&ended), ended.stderr.as_str()),
            (0, vec![0; 6], "error\n"),
            "{library:?}: {ended}"
        );
        let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with("log status ")).collect();
        let [plain, a, b, c, d, e, f] = lines[..] else { panic!("{library:?}: {ended}") };
        assert_eq!((plain, c), ("plain", "<stdout rank=\"0\">c&lt;</stdout>"), "{library:?}: {ended}");
        for (line, text) in [(a, "a"), (b, "b")] {
            let is_right = line.starts_with("[run-") && line.ends_with(&format!(".job,0]<stdout>: {text}"));
            assert!(is_right, "{library:?}: {ended}");
        }
        for (line, text) in [(d, "1970]<stdout>: d"), (e, "]<stdout>: e"), (f, "]<stdout>: f")] {
            assert!(line.starts_with('[') && line.ends_with(text) && !line.contains("pmixrun"), "{library:?}: {ended}");
        }
        assert!(!e.contains("1970") && !f.contains("1970"), "{library:?}: {ended}");
    }
}

#[test]
fn a_text_that_is_logged_once_goes_to_the_first_channel_that_takes_it() {
    for library in BOTH {
        let directory = tempfile::tempdir().unwrap();
        // Nobody listens at the socket.
        let data = "pmix.log.syslog string sys pmix.log.jrec string record pmix.log.stdout string out%0A";
        let ended = log(library, directory.path(), &format!("log {data} ) pmix.log.once bool 1\n"));
        assert_eq!(
            (ended.code(), ended.stdout.as_str(), ended.stderr.as_str()),
            (0, "log status 0 \n", ""),
            "{library:?}: {ended}"
        );
        let record = std::fs::read_to_string(directory.path().join("record")).unwrap();
        assert!(record.lines().count() == 1 && record.ends_with(": record\n"), "{library:?}: {record}");
    }
}

#[test]
fn what_is_not_there_is_refused_with_its_reason() {
    for library in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let calls = "log pmix.log.syslog string sys ) )\n\
                     log pmix.log.email ( pmix.log.msg string mail ) ) )\n\
                     log pmix.log.gstore ( pmix.log.msg string data ) pmix.log.stdout string out%0A ) )\n";
        let ended = log(library, directory.path(), calls);
        let told =
            [Status::ERR_NOT_FOUND, Status::ERR_NOT_SUPPORTED, Status::ERR_PARTIAL_SUCCESS].map(|status| status.0);
        assert_eq!((ended.code(), statuses(&ended)), (0, told.to_vec()), "{library:?}: {ended}");
        let lines = [
            ".job:0 logs to PMIX_LOG_SYSLOG, and gets PMIX_ERR_NOT_FOUND: the syslog service at ",
            ".job:0 logs to PMIX_LOG_EMAIL, and gets PMIX_ERR_NOT_SUPPORTED: pmixrun sends no mail; ",
            ".job:0 logs to PMIX_LOG_GLOBAL_DATASTORE, and gets PMIX_ERR_PARTIAL_SUCCESS: pmixrun has no data store; ",
        ];
        assert_refused(&ended, &lines);
    }
}

#[test]
fn a_job_without_a_record_says_how_to_have_one() {
    let run = Run::new(pmixrun(), Library::ours()).args("-n 1 --timeout 60").arg(program("upcalls")).arg("ask");
    let ended = run.input(b"log pmix.log.jrec string x ) )\n".to_vec()).run();
    assert_eq!((ended.code(), statuses(&ended)), (0, vec![Status::ERR_NOT_SUPPORTED.0]), "{ended}");
    assert_refused(&ended, &["this job keeps no record; pmixrun --log-file FILE names one"]);
}

#[test]
fn a_record_that_cannot_be_written_is_told_before_the_job_starts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    let ended = Run::new(pmixrun(), Library::ours()).args("-n 1 --log-file").arg(&path).arg("true").run();
    assert_eq!(ended.code(), 125, "{ended}");
    assert!(ended.stderr.starts_with(&format!("pmixrun: --log-file {}: ", path.display())), "{ended}");
}
