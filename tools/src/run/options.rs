//! The command line of `pmixrun`.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::*;

/// What `pmixrun --help` prints.
pub const HELP: &str = "\
usage: pmixrun -n N [OPTIONS] PROGRAM [ARGS...]

Starts N processes of PROGRAM on this node as one PMIx job, for example an MPI program.

  -n, -np N           number of processes (ranks)
  --bind-to core      binds each rank to one core, in turn; `none` (default) leaves binding alone
  --tag-output        begins each line of output with rank and stream
  --timeout S         ends the job after S seconds, with exit status 124
  --report            prints times and store sizes to stderr at the end
  --json              the same as one line of JSON
  -h, --help          prints this

The exit status is that of the first rank that failed: its own, 128 + N where signal N killed it, or what it gave
to PMIx_Abort or MPI_Abort. Standard input goes to rank 0. Signals that ask pmixrun to stop are passed to all ranks.
";

/// Whether and how ranks are bound to processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Left as pmixrun itself is bound.
    None,
    /// Each rank to one core.
    Core,
}

impl Binding {
    /// The name that the job's data carry (`PMIX_BINDTO`).
    pub fn name(self) -> &'static str {
        match self {
            Binding::None => "none",
            Binding::Core => "core",
        }
    }
}

/// How the report is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// As text.
    Text,
    /// As one line of JSON.
    Json,
}

/// What is to be run, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of processes.
    pub ranks: u32,
    /// Binding to processors.
    pub binding: Binding,
    /// Whether lines of output begin with rank and stream.
    pub tag_output: bool,
    /// How long the job may take.
    pub timeout: Option<Duration>,
    /// Whether and how to report at the end.
    pub report: Option<ReportForm>,
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// To run a job.
    Run(Options),
    /// To print the help.
    Help,
}

/// A rank on its node is a 16-bit number.
const RANKS_MAX: u32 = 65_535;

/// Reads the arguments after the program's own name.
///
/// # Errors
/// A message for the user.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut args = args.into_iter().peekable();
    let mut words = Vec::new();
    // `-np` is what users of mpirun type; to lexopt it would be `-n p`.
    while let Some(word) = args.next_if(|word| word.to_str().is_some_and(|word| word.starts_with('-'))) {
        let takes_value = matches!(word.to_str(), Some("-n" | "-np" | "--np" | "--bind-to" | "--timeout"));
        words.push(if word == "-np" || word == "--np" { "-n".into() } else { word });
        if takes_value {
            words.extend(args.next());
        }
    }
    let command: Vec<OsString> = args.collect();
    let mut ranks = None;
    let mut options =
        Options { ranks: 0, binding: Binding::None, tag_output: false, timeout: None, report: None, command };
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Short('n') => ranks = Some(count(&value(&mut parser)?)?),
            Long("bind-to") => options.binding = binding(&value(&mut parser)?)?,
            Long("tag-output") => options.tag_output = true,
            Long("timeout") => options.timeout = Some(seconds(&value(&mut parser)?)?),
            Long("report") => options.report = options.report.or(Some(ReportForm::Text)),
            Long("json") => options.report = Some(ReportForm::Json),
            Short('h') | Long("help") => return Ok(Request::Help),
            other => return Err(other.unexpected().to_string()),
        }
    }
    options.ranks = ranks.ok_or("how many processes? (-n N)")?;
    if options.command.is_empty() {
        return Err("no program given".into());
    }
    Ok(Request::Run(options))
}

fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    value.into_string().map_err(|value| format!("{}: not text", value.display()))
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("-n 0: a job has at least one process".into()),
        Ok(ranks) if ranks <= RANKS_MAX => Ok(ranks),
        Ok(_) => Err(format!("-n {text}: at most {RANKS_MAX} processes")),
        Err(_) => Err(format!("-n {text}: not a number of processes")),
    }
}

fn binding(text: &str) -> Result<Binding, String> {
    match text {
        "none" => Ok(Binding::None),
        "core" => Ok(Binding::Core),
        _ => Err(format!("--bind-to {text}: `core` or `none`")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("--timeout {text}: not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("--timeout {text}: not a time to wait"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(line: &str) -> Result<Request, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match parse_words(line) {
            Ok(Request::Run(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn reads_options_before_the_program_only() {
        let options = options("-n 4 --tag-output --bind-to core --timeout 1.5 --report prog -n 7 --json");
        assert_eq!(options.ranks, 4);
        assert_eq!(options.binding, Binding::Core);
        assert!(options.tag_output);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.report, Some(ReportForm::Text));
        assert_eq!(options.command, ["prog", "-n", "7", "--json"]);
    }

    #[test]
    fn knows_the_ways_to_give_a_number() {
        for line in ["-n 3 prog", "-np 3 prog", "--np 3 prog", "-n3 prog"] {
            assert_eq!(options(line).ranks, 3, "{line}");
        }
        assert_eq!(options("--json --report -n 1 prog").report, Some(ReportForm::Json));
        assert_eq!(parse_words("--help"), Ok(Request::Help));
    }

    #[test]
    fn says_what_is_wrong() {
        for (line, message) in [
            ("-n 0 prog", "-n 0: a job has at least one process"),
            ("-n x prog", "-n x: not a number of processes"),
            ("-n -1 prog", "-n -1: not a number of processes"),
            ("-n 999999999 prog", "-n 999999999: at most 65535 processes"),
            ("prog", "how many processes? (-n N)"),
            ("-n 2", "no program given"),
            ("-n 2 --bind-to socket prog", "--bind-to socket: `core` or `none`"),
            ("-n 2 --timeout 0 prog", "--timeout 0: not a time to wait"),
            ("-n 2 --colour prog", "invalid option '--colour'"),
        ] {
            assert_eq!(parse_words(line), Err(message.into()), "{line}");
        }
    }
}
