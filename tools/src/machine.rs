//! Where and when something is measured.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

/// The facts about this machine on which figures depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The node's name.
    pub host: String,
    /// The processor's name as the kernel has it.
    pub processor: String,
    /// How many processors the machine has. A launcher may bind ranks to some of them.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine. What cannot be read is `unknown`.
    pub fn here() -> Machine {
        let line = |path: &str| fs::read_to_string(path).map_or("unknown".to_owned(), |text| text.trim().to_owned());
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            host: line("/proc/sys/kernel/hostname"),
            processor: model_of(&processors).unwrap_or("unknown").to_owned(),
            processors: count_of(&processors).unwrap_or_else(|| available_parallelism().map_or(1, usize::from)),
            kernel: line("/proc/sys/kernel/osrelease"),
        }
    }
}

/// The processor's name in the text of `/proc/cpuinfo`. Arm's has none.
fn model_of(cpuinfo: &str) -> Option<&str> {
    let named = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut names = named.filter(|(name, _)| matches!(name.trim(), "model name" | "cpu model" | "CPU part"));
    names.next().map(|(_, model)| model.trim())
}

/// The number of processors in that text.
fn count_of(cpuinfo: &str) -> Option<usize> {
    let names = cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    Some(names.filter(|name| *name == "processor").count()).filter(|count| *count > 0)
}

/// The time of day in UTC, as `2026-11-26T15:20:00Z`.
pub fn now() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Such a text for seconds since 1970.
fn date(seconds: u64) -> String {
    let (mut days, mut year) = (seconds / 86_400, 1970);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |year| if is_leap(year) { 366 } else { 365 };
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let mut month = 1;
    for of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < of_month {
            break;
        }
        days -= of_month;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_processor_has_the_name_that_the_kernel_gives() {
        assert_eq!(model_of("processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n"), Some("AMD EPYC"));
        assert_eq!(count_of("processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n"), Some(2));
        assert_eq!((model_of(""), count_of("")), (None, None));
    }
}
