//! The command line of `pmixctl`: parser, help, man pages and completions come from this definition.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Look at PMIx servers, their jobs and the files of the library, and control jobs.
#[derive(Debug, Parser)]
#[command(
    name = "pmixctl",
    version,
    after_help = "Exit status: 0 nothing wrong found, 1 something wrong or nothing found, 2 wrong usage.",
    max_term_width = 100,
    infer_subcommands = false
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the ranks of jobs: node, process id, state, memory
    Ps {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Only this job
        nspace: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the servers that tools of this user could reach on this node, and files that lead to none
    Servers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the ranks of this server's jobs, and what they wait for, until q is pressed
    ///
    /// Where standard output is no terminal, it prints one picture and ends.
    Top {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Seconds between two pictures
        #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
        interval: f64,
        /// Print one picture as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the calls of a rank that was started with PMIX_DSTORE_TRACE=1 and PMIX_DSTORE_LOG_FILE
    Trace {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// The job
        nspace: String,
        /// The rank
        rank: String,
        /// Go on until the rank ends
        #[arg(short, long)]
        follow: bool,
        /// Print a line of JSON for each call
        #[arg(long)]
        json: bool,
    },
    /// Look for what is wrong with jobs on this node, and say what to do
    Doctor {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Ask no server: tell the last steps of the ranks whose recorders' files are in this directory of a namespace
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask a server for keys of PMIx_Query_info, such as PMIX_QUERY_NAMESPACES
    Query {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Attributes or keys
        #[arg(required = true)]
        keys: Vec<String>,
        /// Qualifiers of all keys, such as PMIX_NSPACE=job
        #[arg(long = "with", value_name = "NAME=VALUE")]
        qualifiers: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read a value of a job or a rank, as PMIx_Get does
    Get {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// The job
        nspace: String,
        /// The rank, or * for values of the job
        rank: String,
        /// The attribute or key; without it all values
        key: Option<String>,
        /// Wait for a rank that has not published yet, at most so many seconds
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read what a process has published
    Lookup {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
        /// Wait until all are published, at most so many seconds
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print events as they come
    Events {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Statuses, such as PMIX_ERR_PROC_ABORTED; without them all events
        codes: Vec<String>,
        /// Go on after the first event
        #[arg(short, long)]
        follow: bool,
        /// Print a line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Send an event to the processes of a range
    Notify {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Its status, such as PMIX_DEBUGGER_RELEASE, or a number
        #[arg(long = "event", alias = "status", value_name = "STATUS")]
        code: String,
        /// Its range
        #[arg(long, value_enum, default_value_t = Range::Session)]
        range: Range,
        /// The processes that get it, such as job:0, instead of a range
        #[arg(long, value_name = "NSPACE:RANK", conflicts_with = "range")]
        to: Vec<String>,
        /// What it tells
        #[arg(value_name = "NAME=VALUE")]
        infos: Vec<String>,
    },
    /// Kill a job, or ranks of it
    Kill(Target),
    /// Send a signal to a job, or to ranks of it
    Signal {
        /// Its name or number
        signal: String,
        /// What gets it
        #[command(flatten)]
        target: Target,
    },
    /// Stop a job, or ranks of it, until `resume`
    Pause(Target),
    /// Let a job, or ranks of it, go on
    Resume(Target),
    /// Control processes, with the options of the stock pctrl
    Control {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// What is to happen
        #[command(flatten)]
        action: Control,
        /// The processes, such as job:0,job:1, or job:* for a job; without them all that the host has, which --terminate and --kill end with
        /// their host where that is a persistent one
        #[arg(long, value_delimiter = ',', value_name = "NSPACE:RANK,...")]
        targets: Vec<String>,
        /// A name for the request, by which it can be cancelled
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
    },
    /// List what a server, a host or this library supports
    Attrs {
        /// The server to ask
        #[command(flatten)]
        server: Server,
        /// Functions, such as PMIx_Get; without them all
        functions: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show this installation: version, features, files, and which library programs would load here
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a segment, or the directory of a namespace with all its live segments, as far as damage allows
    Inspect {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// List the values of so many rows or ranks of each table
        #[arg(long, value_name = "N", default_value_t = 8)]
        rows: u32,
        /// List all values, and all their bytes
        #[arg(long, conflicts_with = "rows")]
        all: bool,
        /// Segments, directories of namespaces, or files with the steps of a rank
        #[arg(required = true, value_name = "FILE|DIRECTORY")]
        paths: Vec<PathBuf>,
    },
    /// Remove what servers and launchers of this user have left that were killed: directories with segments, contact files, job directories
    ///
    /// Nothing of another user, of another host or of a server that lives is touched. What is this user's and looks otherwise than a server
    /// leaves it is named and stays. Each server does the same in its own directory when it starts.
    Clean {
        /// Name what would be removed, and remove nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Look in this directory and below; without it where servers of this environment put their files, in /tmp and in /dev/shm
        #[arg(short, long = "directory", value_name = "DIRECTORY")]
        directories: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the layout of segments and directory pages as this program has it
    Layout,
    /// Check whether PRRTE's daemons can have this library, or make the link that they need
    ///
    /// Checks whether this library and the stock library, to which DIRECTORY leads, have all PMIx names that the programs and
    /// libraries FILE need; without FILE, this system's libprrte.
    Prrte {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The directory with the two libraries (lib/prrte beside this program's directory)
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Make the link to the stock library there
        #[arg(long, conflicts_with_all = ["json", "files"])]
        link: bool,
        /// Link to this file instead of that of this system's package
        #[arg(long, requires = "link", value_name = "FILE")]
        stock: Option<PathBuf>,
        /// Programs and libraries
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Run as a rank: print the host, and whether the server of the rank is this library
    ///
    /// mpirun --map-by ppr:1:node pmixctl server
    Server,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
        /// The program
        #[arg(value_enum, default_value_t = Program::Pmixctl)]
        program: Program,
    },
    /// Print the names of the stock library's tools that this program answers to, when it is linked under them
    Links,
    /// Write the man pages into a directory
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// The processes that may get an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Range {
    /// Those of the server's node
    Local,
    /// Those of the sender's namespace
    Namespace,
    /// Those of the session
    Session,
    /// All
    Global,
    /// The host alone
    Host,
}

/// The programs that have completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Program {
    /// This one
    Pmixctl,
    /// The launcher
    Pmixrun,
    /// The benchmark
    Pmixbench,
}

/// The server to ask. Without options it is the server of this process, or the only one of this user on this node.
#[derive(Args, Clone, Debug, Default)]
pub struct Server {
    /// The server of this process, such as pmixrun's or mpirun's
    #[arg(short, long, group = "which")]
    pub pid: Option<u32>,
    /// The server of this namespace
    #[arg(long, group = "which", value_name = "NSPACE", alias = "namespace")]
    pub server_nspace: Option<String>,
    /// The server at this address
    #[arg(long, group = "which")]
    pub uri: Option<String>,
    /// The server of this rendezvous file
    #[arg(long, group = "which")]
    pub file: Option<PathBuf>,
    /// The server of the node
    #[arg(long, group = "which", alias = "system-server")]
    pub system: bool,
    /// Look again so many times if there is no server yet
    #[arg(long, value_name = "N", alias = "num-connect-retries")]
    pub retries: Option<u32>,
    /// Wait so many seconds before each of these
    #[arg(long, value_name = "SECONDS", alias = "wait-to-connect")]
    pub delay: Option<u32>,
    /// Give up after so many seconds without an answer
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: u32,
}

/// What is to happen to processes: one of these.
#[derive(Args, Clone, Debug)]
#[group(id = "action", required = true, multiple = false)]
pub struct Control {
    /// They end at once
    #[arg(long)]
    pub kill: bool,
    /// They are asked to end
    #[arg(long)]
    pub terminate: bool,
    /// They stop
    #[arg(long)]
    pub pause: bool,
    /// They go on
    #[arg(long)]
    pub resume: bool,
    /// They get this signal, by its name or number
    #[arg(long)]
    pub signal: Option<String>,
    /// The host saves their state under this name
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<String>,
    /// The host starts them anew from this checkpoint
    #[arg(long, value_name = "ID")]
    pub restart: Option<String>,
    /// The request of this name is cancelled
    #[arg(long, value_name = "ID")]
    pub cancel: Option<String>,
    /// They become a process set of this name
    #[arg(long, value_name = "NAME")]
    pub pset: Option<String>,
}

/// What a job's control is for.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The server to ask
    #[command(flatten)]
    pub server: Server,
    /// The job
    pub nspace: String,
    /// Its ranks; without them all
    pub ranks: Vec<u32>,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds, from 0.1 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn no_two_options_of_a_command_have_the_same_name() {
        Arguments::command().debug_assert();
    }
}
