//! Output that a tool acknowledges. PMIx has no flow control for output: who takes it more slowly than ranks print loses some. So the front
//! end asks for no more than a window of output that it has not written yet, and says with events how much it has written.
//!
//! Under `pmixrun --serve --restart` the launcher keeps what is not acknowledged. A front end whose server was killed reconnects: it sends a
//! spawn that names its job and the number of bytes that it has written. It gets the rest, and after that an event of its own with the job's
//! end, if that came meanwhile. The server keeps the common event of that end and sends it earlier. Its input has positions, so that nothing is
//! taken twice.

use pmix_dstore::model::{Info, Nspace, Status, Value};

/// The attribute of a spawn with the length of the window in bytes.
pub(super) const WINDOW: &str = "pmixrun.output.window";
/// The attribute of a spawn whose tool reconnects.
pub(super) const RECONNECTS: &str = "pmixrun.output.reconnects";
/// The attribute of a spawn that starts nothing: the tool has reconnected for this job.
const RESUMED: &str = "pmixrun.output.resumed";
/// Total bytes of the job's output that it has written.
const WRITTEN: &str = "pmixrun.output.written";
/// The tool has heard of the end of its job.
const END: &str = "pmixrun.output.end";
/// For how many seconds the launcher waits for the tool, and its address on this node.
const SECONDS: &str = "pmixrun.output.seconds";
const ADDRESS: &str = "pmixrun.output.address";
/// The attribute of the event that tells a front end alone of its job's end, after all output: the exit status.
const EXIT: &str = "pmixrun.output.exit";
/// Where a piece of input begins, in bytes from the first.
const AT: &str = "pmixrun.input.at";
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

/// The infos of a spawn by which a tool reconnects.
pub(super) fn resuming(job: &Nspace, written: u64) -> Vec<Info> {
    vec![Info::new(RESUMED, Value::string(job.as_bytes())), Info::new(WRITTEN, Value::Uint64(written))]
}

/// The job for which a tool reconnects, and the total bytes of its output that it has written.
pub(super) fn resumed(infos: &[Info]) -> Option<(Nspace, u64)> {
    let job = Nspace::new(Info::find(infos, RESUMED)?.as_text()?).ok()?;
    Some((job, Info::find(infos, WRITTEN)?.as_u64()?))
}

/// The infos of the event that the end of the job was heard.
pub(super) fn heard_end() -> Vec<Info> {
    vec![Info::new(END, Value::Bool(true))]
}

/// Whether an event says so.
pub(super) fn has_heard_end(code: Status, infos: &[Info]) -> bool {
    code == CODE && Info::is_set(infos, END)
}

/// The infos of the event that all output of the job was sent, and that it has ended with this exit status.
pub(super) fn end(exit: i32) -> Vec<Info> {
    vec![Info::new(EXIT, Value::Int(exit))]
}

/// The exit status, if an event says so.
pub(super) fn ended(code: Status, infos: &[Info]) -> Option<i32> {
    match Info::find(infos, EXIT).filter(|_| code == CODE)? {
        Value::Int(exit) | Value::Int32(exit) => Some(*exit),
        _ => None,
    }
}

/// The infos of the event that says for how long the launcher waits for a tool, and at which address.
pub(super) fn waiting(seconds: u32, address: &str) -> Vec<Info> {
    vec![Info::new(SECONDS, Value::Uint32(seconds)), Info::new(ADDRESS, Value::string(address))]
}

/// For how many seconds it waits and where, if an event says so.
pub(super) fn invitation(code: Status, infos: &[Info]) -> Option<(u32, String)> {
    let seconds = Info::find(infos, SECONDS).filter(|_| code == CODE).and_then(Value::as_u32)?;
    let address = Info::find(infos, ADDRESS).and_then(Value::as_text)?;
    Some((seconds, String::from_utf8_lossy(address).into_owned()))
}

/// The info of input with its position.
pub(super) fn input_at(at: u64) -> Info {
    Info::new(AT, Value::Uint64(at))
}

/// The position of input, if it has one.
pub(super) fn position(infos: &[Info]) -> Option<u64> {
    Info::find(infos, AT).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_reconnects_names_its_job() {
        let job = Nspace::new("run.job7").unwrap();
        assert_eq!(resumed(&resuming(&job, 9)), Some((job, 9)));
        assert_eq!(resumed(&[]), None);
        assert!(has_heard_end(CODE, &heard_end()) && !has_heard_end(CODE, &infos(1)));
        assert_eq!(invitation(CODE, &waiting(60, "here")), Some((60, "here".into())));
        assert_eq!(invitation(Status(-3902), &waiting(60, "here")), None);
        assert_eq!(
            (ended(CODE, &end(7)), ended(CODE, &infos(1)), ended(Status(-3902), &end(7))),
            (Some(7), None, None)
        );
        assert_eq!((position(&[input_at(1 << 40)]), position(&[])), (Some(1 << 40), None));
    }

    #[test]
    fn an_event_says_how_much_was_written() {
        assert_eq!(read(CODE, &infos(7)), Some(7));
        assert_eq!(read(Status(-3902), &infos(7)), None);
        assert_eq!(read(CODE, &[]), None);
    }
}
