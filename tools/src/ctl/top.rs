//! `pmixctl top`: the ranks of a server's jobs and what they wait for, live.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use pmix_dstore::model::{Proc, ProcInfo, Status};
use serde_json::json;

use super::Printout;
use super::args::Server;
use super::connection::{Connection, Inspected};
use super::gets::Gets;
use super::jobs::{has_ended, memory_of, state_of};
use super::process::Process;
use crate::table::Table;
use crate::value::{escaped, of_process};
use crate::waits;

/// What `top` says below the ranks, where none of them counts its Gets.
const HINT: &str = "Gets are counted in ranks that are started with PMIX_DSTORE_STATS=1 and use this library.";

/// Shows the ranks; until the user ends it, if standard output is a terminal.
pub fn top(server: &Server, interval: f64, json: bool) -> Result<Printout, String> {
    let connection = Connection::open(server)?;
    let shown = if json || !io::stdout().is_terminal() {
        let picture = Picture::take(&connection);
        picture.map(|picture| if json { picture.json() } else { picture.lines().join("\n") + "\n" })
    } else {
        live(&connection, Duration::from_secs_f64(interval)).map(|()| String::new())
    };
    connection.close();
    shown.map(Printout::good)
}

/// One look at a server.
struct Picture {
    host: String,
    jobs: usize,
    ranks: Vec<ProcInfo>,
    /// The bytes in the segments of all jobs.
    segment_bytes: u64,
    gets: Gets,
    inspected: Inspected,
}

impl Picture {
    /// # Errors
    /// The server does not answer, in words.
    fn take(connection: &Connection) -> Result<Picture, String> {
        let names = connection.namespaces().map_err(|status| match status {
            Status::ERR_LOST_CONNECTION | Status::ERR_UNREACH => {
                "the server has ended, or the connection is lost".to_owned()
            }
            _ => format!("the server does not list its jobs: {status}"),
        })?;
        let mut ranks = Vec::new();
        let mut directories = BTreeMap::new();
        let mut gets = Gets::default();
        for name in &names {
            // A job that has ended meanwhile has no processes.
            let processes = connection.processes(name).unwrap_or_default();
            for process in processes.iter().filter(|process| process.pid > 0 && !has_ended(process)) {
                let process = Process::look(process.pid);
                if let (Some(directory), Some(bytes)) = (process.directory_from_here(), process.segment_bytes()) {
                    gets.add(&directory, &processes);
                    directories.insert(directory, bytes);
                    break;
                }
            }
            ranks.extend(processes);
        }
        let host = connection.client().hostname();
        let segment_bytes = directories.values().sum();
        Ok(Picture { host, jobs: names.len(), ranks, segment_bytes, gets, inspected: connection.inspected() })
    }

    /// How a rank gets values: from shared memory or over the socket.
    fn store(&self, proc: &Proc) -> &'static str {
        match self.inspected.connections.iter().find(|connection| connection.proc == *proc) {
            None => "",
            Some(connection) if connection.is_shared => "shared",
            Some(_) => "socket",
        }
    }

    /// What a rank waits for, in a word.
    fn wait(&self, proc: &Proc) -> String {
        let entered = self.inspected.collectives.iter().filter(|collective| collective.entered.contains(proc));
        let collectives =
            entered.map(|collective| format!("{} {:.0} s", collective.operation, collective.age.as_secs_f64()));
        let asked = self.inspected.waits.iter().filter(|wait| wait.asker == *proc);
        let gets =
            asked.map(|wait| format!("Get of {} {:.0} s", escaped(&wait.of.to_string()), wait.age.as_secs_f64()));
        collectives.chain(gets).collect::<Vec<_>>().join(", ")
    }

    fn tools(&self) -> usize {
        self.inspected.connections.iter().filter(|connection| connection.is_tool).count()
    }

    fn lines(&self) -> Vec<String> {
        let counted = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let (jobs, ranks, tools) =
            (counted(self.jobs, "job"), counted(self.ranks.len(), "rank"), counted(self.tools(), "tool"));
        let kib = self.segment_bytes / 1024;
        let mut lines =
            vec![format!("{}: {jobs}, {ranks}, {tools}; segments {kib} KiB", escaped(&self.host)), String::new()];
        let is_counted = self.gets.ranks() > 0;
        let gets = is_counted.then_some(">GETS");
        let mut titles = vec!["JOB", ">RANK", ">PID", "STATE", ">MEMORY", "VALUES BY"];
        titles.extend(gets);
        titles.push("WAITS IN");
        let mut table = Table::new(&titles);
        for rank in &self.ranks {
            let memory =
                memory_of(rank, &self.host).map_or_else(String::new, |kib| format!("{:.1} MiB", kib as f64 / 1024.0));
            let pid = if rank.pid > 0 { rank.pid.to_string() } else { String::new() };
            let (job, number) = (escaped(&rank.proc.nspace.to_string()), rank.proc.rank.to_string());
            let mut row = vec![job, number, pid, state_of(rank, &self.host), memory, self.store(&rank.proc).to_owned()];
            row.extend(is_counted.then(|| self.gets.of(&rank.proc)));
            row.push(self.wait(&rank.proc));
            table.row(row);
        }
        lines.extend(table.text().lines().map(str::to_owned));
        let known = self.inspected.known(self.ranks.iter().cloned());
        let collectives = self.inspected.collectives.iter().map(|collective| waits::of_collective(collective, &known));
        let gets = self.inspected.waits.iter().map(|wait| waits::of_wait(wait, &known));
        let waiting: Vec<String> = collectives.chain(gets).collect();
        if !waiting.is_empty() {
            lines.push(String::new());
            lines.extend(waiting);
        }
        lines.push(String::new());
        if is_counted {
            lines.extend(self.gets.table().lines().map(str::to_owned));
            let others = self.ranks.len().saturating_sub(self.gets.ranks());
            lines.extend(match others {
                0 => None,
                1 => Some("1 rank does not count its Gets, or its file cannot be read".to_owned()),
                _ => Some(format!("{others} ranks do not count their Gets, or their files cannot be read")),
            });
        } else {
            lines.push(HINT.to_owned());
        }
        lines
    }

    fn json(&self) -> String {
        let rank = |rank: &ProcInfo| {
            let mut fields = of_process(rank);
            fields["memory_kib"] = memory_of(rank, &self.host).into();
            fields["state"] = state_of(rank, &self.host).into();
            fields["gets"] = self.gets.json(&rank.proc);
            fields["values_by"] = Some(self.store(&rank.proc)).filter(|word| !word.is_empty()).into();
            fields
        };
        let names = |procs: &[Proc]| procs.iter().map(ToString::to_string).collect::<Vec<_>>();
        let collective = |collective: &pmix_client::inspection::Collective| {
            json!({ "operation": collective.operation, "of": names(&collective.procs), "seconds": collective.age.as_secs_f64(),
                    "entered": names(&collective.entered), "missing": names(&collective.absent), "at_host": collective.at_host })
        };
        let wait = |wait: &pmix_client::inspection::Wait| {
            json!({ "by": wait.asker.to_string(), "of": wait.of.to_string(), "key": wait.key, "seconds": wait.age.as_secs_f64(),
                    "at_host": wait.at_host })
        };
        let all = json!({
            "host": self.host,
            "jobs": self.jobs,
            "tools": self.tools(),
            "segment_bytes": self.segment_bytes,
            "ranks": self.ranks.iter().map(rank).collect::<Vec<_>>(),
            "collectives": self.inspected.collectives.iter().map(collective).collect::<Vec<_>>(),
            "gets": self.inspected.waits.iter().map(wait).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}

/// The terminal while pictures are shown; a drop restores it.
struct Screen;

impl Screen {
    fn open() -> io::Result<Screen> {
        enable_raw_mode()?;
        let screen = Screen;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Shows as many lines as fit, and as much of each.
    fn show(&self, lines: &[String]) -> io::Result<()> {
        let (width, height) = size()?;
        let mut out = io::stdout().lock();
        queue!(out, MoveTo(0, 0))?;
        for (row, line) in (0..height).zip(lines) {
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(out, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            write!(out, "{line}")?;
        }
        let end = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        if end < height {
            queue!(out, MoveTo(0, end), Clear(ClearType::FromCursorDown))?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Shows pictures until the user ends it.
fn live(connection: &Connection, interval: Duration) -> Result<(), String> {
    let of_terminal = |error: io::Error| format!("the terminal: {error}");
    let screen = Screen::open().map_err(of_terminal)?;
    loop {
        let lines = Picture::take(connection)?.lines();
        screen.show(&lines).map_err(of_terminal)?;
        let next = Instant::now() + interval;
        while let Some(rest) = next.checked_duration_since(Instant::now()) {
            if !poll(rest).map_err(of_terminal)? {
                break;
            }
            match read().map_err(of_terminal)? {
                Event::Key(key) => {
                    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                        return Ok(());
                    }
                }
                Event::Resize(..) => screen.show(&lines).map_err(of_terminal)?,
                _ => {}
            }
        }
    }
}
