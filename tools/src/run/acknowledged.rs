//! Output that a tool acknowledges. PMIx has no flow control for output: who takes it more slowly than ranks print loses some. So the front
//! end asks for no more than a window of output that it has not written yet, and says with events how much it has written.

use pmix_dstore::model::{Info, Status, Value};

/// The attribute of a spawn with the length of the window in bytes.
pub(super) const WINDOW: &str = "pmixrun.output.window";
/// How much output was written since the last such event, in bytes.
const BYTES: &str = "pmixrun.output.bytes";
/// The code of the event, which only the host hears: one of those that are left to programs.
pub(super) const CODE: Status = Status(-3901);

/// The infos of the event.
pub(super) fn infos(bytes: u64) -> Vec<Info> {
    vec![Info::new(BYTES, Value::Uint64(bytes))]
}

/// How much was written, if an event says so.
pub(super) fn read(code: Status, infos: &[Info]) -> Option<u64> {
    Info::find(infos, BYTES).filter(|_| code == CODE).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_how_much_was_written() {
        assert_eq!(read(CODE, &infos(7)), Some(7));
        assert_eq!(read(Status(-3902), &infos(7)), None);
        assert_eq!(read(CODE, &[]), None);
    }
}
