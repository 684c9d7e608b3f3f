use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn read(variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
    Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
}

fn level(variables: &[(&str, &str)], target: Target) -> Level {
    read(variables).0.levels[target as usize]
}

#[test]
fn names_of_peers_stay_within_their_log_line() {
    assert_eq!(one_line(&"a\nserver 1: b\u{1b}[2J"), "a\\nserver 1: b\\u{1b}[2J\n");
    assert_eq!(one_line(&"\n".repeat(100_000)).len(), 12_001);
}

#[test]
fn warnings_are_the_default() {
    for variables in [&[][..], &[(LEVELS, "")], &[("PMIX_MCA_gds_base_verbose", "0")]] {
        let (settings, wrong) = read(variables);
        assert_eq!(settings, Settings { levels: [Level::Warn; 7], file: None });
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_target_has_its_own_level_wherever_it_stands() {
    for text in ["store=debug,error", "error, Store=DEBUG ,"] {
        assert_eq!(level(&[(LEVELS, text)], Target::Store), Level::Debug, "{text}");
        assert_eq!(level(&[(LEVELS, text)], Target::Server), Level::Error, "{text}");
    }
}

#[test]
fn verbosity_raises_the_target_and_never_lowers_it() {
    for (number, raised) in [("0", Level::Warn), ("1", Level::Info), ("5", Level::Debug), ("100", Level::Trace)] {
        let variables = [("PMIX_MCA_gds_base_verbose", number)];
        assert_eq!(level(&variables, Target::Store), raised, "{number}");
        assert_eq!(level(&variables, Target::Connection), Level::Warn, "{number}");
    }
    let both = [("PMIX_MCA_ptl_base_verbose", "1"), (LEVELS, "debug")];
    assert_eq!(level(&both, Target::Connection), Level::Debug);
    let two = [("PMIX_MCA_pmix_client_get_verbose", "9"), ("PMIX_MCA_pmix_client_spawn_verbose", "1")];
    assert_eq!(level(&two, Target::Client), Level::Debug);
}

#[test]
fn bad_values_are_named_and_the_others_count() {
    let bad = [(LEVELS, "loud,store=info,gets=debug,api=9"), ("PMIX_MCA_gds_base_verbose", "much")];
    let (settings, wrong) = read(&bad);
    assert_eq!(settings.levels[Target::Store as usize], Level::Info);
    assert_eq!(settings.levels[Target::Server as usize], Level::Warn);
    let named =
        ["loud is ignored", "gets=debug is ignored", "api=9 is ignored", "PMIX_MCA_gds_base_verbose=much is ignored"];
    assert_eq!(wrong.len(), named.len(), "{wrong:?}");
    for (line, name) in wrong.iter().zip(named) {
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn the_tables_are_in_the_order_of_their_items() {
    assert!(Level::ALL.iter().enumerate().all(|(at, (level, _))| *level as usize == at));
    assert!(Target::ALL.iter().enumerate().all(|(at, (target, _))| *target as usize == at));
}

#[test]
fn each_process_has_a_file_and_a_line_has_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let template = directory.path().join("100%%.%p.log");
    let settings = Settings { levels: [Level::Warn; 7], file: Some(template.into_os_string()) };
    settings.put("one\n");
    settings.put("two\n");
    let text = fs::read_to_string(directory.path().join(format!("100%.{}.log", std::process::id()))).unwrap();
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.iter().map(|(_, line)| *line).collect::<Vec<_>>(), ["one", "two"]);
    assert!(lines.iter().all(|(time, _)| time.parse::<f64>().is_ok_and(|time| time > 1e9)), "{text}");
}

#[test]
fn only_a_regular_file_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (directory.path().join("link"), directory.path().join("target"));
    symlink(&target, &link).unwrap();
    assert!(append(&link, "line\n").is_err() && !target.exists(), "a link");
    assert!(append(&PathBuf::from("/dev/null"), "line\n").is_err(), "a device");
    assert!(append(&directory.path().to_owned(), "line\n").is_err(), "a directory");
    assert!(append(&target, "line\n").is_ok());
}
