//! Log lines for the administrator.

use pmix_dstore::log::{self, Level, Target, Writer};

/// One line for the administrator: a warning.
pub(crate) fn log(line: &str) {
    log_at(Level::Warn, Target::Server, line);
}

/// One line of another level, or about another target.
pub(crate) fn log_at(level: Level, target: Target, line: &str) {
    pmix_dstore::file_ban::check();
    log::write(level, target, Writer::Server, format_args!("{line}"));
}
