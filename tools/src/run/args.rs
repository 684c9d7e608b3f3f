//! The command line of `pmixrun`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

/// The text of `pmixrun --help`.
pub const HELP: &str = "\
Start the ranks of a parallel program on this node and serve them as their PMIx server.

Usage: pmixrun -n N [OPTIONS] PROGRAM [ARGS...]

  -n, --np N             number of ranks
      --bind-to WHAT     core: each rank on a core of its own, round-robin; none (default)
      --tag-output       begin each line with the rank that printed it
      --timeout SECONDS  time limit of the job; exit status 124 after it
      --grace SECONDS    time between SIGTERM and SIGKILL when the job ends (default 2)
      --tmpdir DIR       directory for the job's files (default: TMPDIR or /tmp)
      --report           print wire-up times, store sizes and the PMIx libraries in use, on stderr
      --json             the same as one line of JSON
      --report-to FILE   write the report to FILE instead
      --stop-on-exec     stop each rank before the first instruction of its program, for a debugger
      --stop-in-init     let each rank wait in PMIx_Init for a debugger
      --stop-in-app[=BREAKPOINT]  ask each rank to wait at a place of its own for a debugger
      --report-uri TO    write the server's address, for tools, to a file, - (stdout) or + (stderr)
  -h, --help             this text
      --version          the version

The exit status is that of the first rank that failed, 128 + N for one killed by signal N; 1 if only output was lost.
The job ends as a whole: all its processes get SIGTERM, and SIGKILL after the grace period.
Tools find the job by the process number of pmixrun, by its server's namespace, or by the address. Ranks that wait for a
debugger go on when it sends PMIX_DEBUGGER_RELEASE.
Standard input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded to all ranks.
";

/// The binding of ranks to processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindTo {
    /// Not bound.
    None,
    /// Each rank to its own core.
    Core,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// Where ranks are to wait for a debugger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// When their program is loaded.
    pub on_exec: bool,
    /// In `PMIx_Init`.
    pub in_init: bool,
    /// At a place of the program's own, which may have a name.
    pub in_app: Option<Option<String>>,
}

/// The program to run, and the options.
#[derive(Clone, Debug, PartialEq)]
pub struct Args {
    /// Number of ranks.
    pub ranks: u32,
    /// Binding.
    pub bind_to: BindTo,
    /// Tag each line of output.
    pub tag_output: bool,
    /// The job's time limit.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The directory for the job's files.
    pub tmpdir: PathBuf,
    /// The form of the report at the end; `None` for no report.
    pub report: Option<Report>,
    /// The file of the report; stderr if `None`.
    pub report_to: Option<PathBuf>,
    /// Where to write the server's address: a file, `-` (standard output) or `+` (standard error).
    pub report_uri: Option<String>,
    /// Where ranks are to wait.
    pub stops: Stops,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// A parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run a job.
    Run(Box<Args>),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// The most ranks; a larger number is taken for a mistake.
const RANKS_MAX: u32 = 65_536;

impl Command {
    /// Reads a command line, without the program's own name.
    ///
    /// # Errors
    /// A message for the user: the mistake and its remedy.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
        let mut parser = lexopt::Parser::from_args(args);
        let mut ranks = None;
        let tmpdir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or_else(|| "/tmp".into());
        let mut run = Args {
            ranks: 0,
            bind_to: BindTo::None,
            tag_output: false,
            timeout: None,
            grace: Duration::from_secs(2),
            tmpdir: tmpdir.into(),
            report: None,
            report_to: None,
            report_uri: None,
            stops: Stops::default(),
            program: OsString::new(),
            args: Vec::new(),
        };
        let words = |error: lexopt::Error| format!("{error}; see pmixrun --help");
        while let Some(arg) = parser.next().map_err(words)? {
            match arg {
                Short('h') | Long("help") => return Ok(Command::Help),
                Long("version") => return Ok(Command::Version),
                Short('n' | 'c') | Long("np" | "n") => ranks = Some(count(&mut parser)?),
                Long("bind-to") => run.bind_to = binding(&mut parser)?,
                Long("tag-output") => run.tag_output = true,
                Long("timeout") => run.timeout = Some(seconds(&mut parser, "--timeout")?),
                Long("grace") => run.grace = seconds(&mut parser, "--grace")?,
                Long("tmpdir") => run.tmpdir = parser.value().map_err(words)?.into(),
                Long("report") => run.report = run.report.or(Some(Report::Text)),
                Long("json") => run.report = Some(Report::Json),
                Long("report-to") => {
                    run.report_to = Some(parser.value().map_err(words)?.into());
                    run.report = run.report.or(Some(Report::Text));
                }
                Long("stop-on-exec") => run.stops.on_exec = true,
                Long("stop-in-init") => run.stops.in_init = true,
                Long("stop-in-app") => run.stops.in_app = Some(breakpoint(&mut parser)?),
                Long("report-uri") => run.report_uri = Some(place(&mut parser)?),
                Value(program) => {
                    run.program = program;
                    run.args = parser.raw_args().map_err(words)?.collect();
                    break;
                }
                other => return Err(words(other.unexpected())),
            }
        }
        if run.program.is_empty() {
            return Err("no program given; usage: pmixrun -n N [OPTIONS] PROGRAM [ARGS...]".into());
        }
        run.ranks = ranks.ok_or("the number of ranks is missing: pmixrun -n N PROGRAM")?;
        Ok(Command::Run(Box::new(run)))
    }
}

fn count(parser: &mut lexopt::Parser) -> Result<u32, String> {
    let text = parser.value().map_err(|error| error.to_string())?;
    let text = text.to_string_lossy();
    let count = text.parse().ok().filter(|count| (1..=RANKS_MAX).contains(count));
    count.ok_or(format!("-n {text}: the number of ranks goes from 1 to {RANKS_MAX}"))
}

fn binding(parser: &mut lexopt::Parser) -> Result<BindTo, String> {
    let text = parser.value().map_err(|error| error.to_string())?;
    match text.to_string_lossy().as_ref() {
        "core" => Ok(BindTo::Core),
        "none" => Ok(BindTo::None),
        other => Err(format!("--bind-to {other}: it is either core or none")),
    }
}

fn breakpoint(parser: &mut lexopt::Parser) -> Result<Option<String>, String> {
    let name = parser.optional_value().map(lexopt::ValueExt::string).transpose();
    name.map_err(|error| format!("--stop-in-app: {error}"))
}

/// A stream or a file. The server takes a number for a descriptor, so a file gets its whole path.
fn place(parser: &mut lexopt::Parser) -> Result<String, String> {
    let text = parser.value().and_then(lexopt::ValueExt::string).map_err(|error| error.to_string())?;
    if text == "-" || text == "+" {
        return Ok(text);
    }
    let path = std::path::absolute(&text).map_err(|error| format!("--report-uri {text}: {error}"))?;
    path.into_os_string().into_string().map_err(|path| format!("--report-uri {}: not UTF-8", path.display()))
}

fn seconds(parser: &mut lexopt::Parser, name: &str) -> Result<Duration, String> {
    let text = parser.value().map_err(|error| error.to_string())?;
    let text = text.to_string_lossy();
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or(format!("{name} {text}: a number of seconds is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    fn run(line: &str) -> Args {
        match parse(line) {
            Ok(Command::Run(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_at_the_program() {
        let args = run("-n 4 --tag-output --bind-to core prog -n 7 --report");
        assert_eq!((args.ranks, args.bind_to, args.tag_output), (4, BindTo::Core, true));
        assert_eq!(args.program, "prog");
        assert_eq!(args.args, ["-n", "7", "--report"]);
        assert_eq!(args.report, None);
    }

    #[test]
    fn reports() {
        assert_eq!(run("-n 1 --report prog").report, Some(Report::Text));
        assert_eq!(run("-n 1 --json prog").report, Some(Report::Json));
        assert_eq!(run("--json -n1 --report --timeout 0.5 prog").report, Some(Report::Json));
        assert_eq!(run("-n 1 --report-uri - prog").report_uri.as_deref(), Some("-"));
        assert!(
            run("-n 1 --report-uri 7 prog")
                .report_uri
                .is_some_and(|path| path.starts_with('/') && path.ends_with("/7"))
        );
        assert_eq!(run("-n 1 --timeout 0.5 prog").timeout, Some(Duration::from_millis(500)));
    }

    #[test]
    fn stops_for_debuggers() {
        assert_eq!(run("-n 1 prog").stops, Stops::default());
        let stops = run("-n 1 --stop-on-exec --stop-in-init --stop-in-app prog").stops;
        assert_eq!((stops.on_exec, stops.in_init, stops.in_app), (true, true, Some(None)));
        assert_eq!(run("-n 1 --stop-in-app=solver prog").stops.in_app, Some(Some("solver".into())));
    }

    #[test]
    fn mistakes_are_told() {
        for (line, word) in [
            ("-n 0 prog", "from 1 to"),
            ("-n -3 prog", "from 1 to"),
            ("-n x prog", "from 1 to"),
            ("-n 99999999 prog", "from 1 to"),
            ("prog", "missing"),
            ("-n 2", "no program"),
            ("-n 2 --bind-to socket prog", "core or none"),
            ("-n 2 --nonsense prog", "--nonsense"),
            ("-n 2 --timeout soon prog", "number of seconds"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
