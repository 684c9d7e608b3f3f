//! The names that people know from the stock library's tools, as links to `pmixctl`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The commands that a link's name stands for.
const LINKS: [(&str, &str); 7] = [
    ("pps", "ps"),
    ("pquery", "query"),
    ("plookup", "lookup"),
    ("pevent", "notify"),
    ("pattrs", "attrs"),
    ("pctrl", "control"),
    ("pmix_info", "info"),
];

/// The names, a line each.
pub fn names() -> String {
    LINKS.iter().flat_map(|(name, _)| [name, "\n"]).collect()
}

/// The words of a command line, in which the program's name, if it is that of a link, is followed by the command that it stands for.
pub fn words_of(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name()).map(OsStr::to_owned);
    if let Some((_, command)) = LINKS.iter().find(|(link, _)| name.as_deref() == Some(OsStr::new(link))) {
        words.insert(1, OsString::from(command));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_links_name_is_a_command() {
        let words = |line: &str| words_of(line.split(' ').map(OsString::from)).join(OsStr::new(" "));
        assert_eq!(words("/opt/bin/pps --pid 4"), "/opt/bin/pps ps --pid 4");
        assert_eq!(words("pmixctl ps"), "pmixctl ps");
    }
}
