//! Programs that measure in turns with each other.
//!
//! The machine's speed changes within milliseconds. So the compared programs all run at the same time, alternate in
//! short batches, and each batch is compared with its neighbours.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pmix_benches::figures::median;

use crate::Failure;

/// A program that makes batches of calls on request: see `benches/programs/turns.h`.
pub struct Player {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    batches: usize,
}

impl Player {
    /// Starts a program that makes `batches` batches in each turn.
    pub fn start(command: &mut Command, batches: usize) -> Result<Player, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Player { child, stdin, stdout, batches })
    }

    /// Runs one turn. Returns the time of one call in ns for each batch; empty if the calls fail.
    pub fn play(&mut self, name: &str) -> Result<Vec<f64>, Failure> {
        let stdin = self.stdin.as_mut().ok_or("it has ended")?;
        writeln!(stdin, "{name} {}", self.batches)?;
        let mut line = String::new();
        // Skip other output of the host.
        while !line.starts_with("turn ") && !line.starts_with("missing ") {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(format!("{name}: the program has ended").into());
            }
        }
        Ok(line.split_whitespace().skip(2).filter_map(|word| word.parse().ok()).collect())
    }

    /// Ends the program and waits for it.
    pub fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin.take());
        std::io::copy(&mut self.stdout, &mut std::io::sink())?;
        let ended = self.child.wait()?;
        if ended.success() { Ok(()) } else { Err(format!("a program that took turns: {ended}").into()) }
    }
}

/// The figures of one player.
pub struct Played {
    /// Time of one call in ns: the median and the 99th percentile of all batches.
    pub ns: f64,
    pub most: f64,
    /// Median ratio of a turn to the first player's turn just before it.
    pub to_first: f64,
}

/// Runs the players in turns, each with the named calls. A player whose calls fail gets no figures.
pub fn play(players: &mut [(&mut Player, &str)], turns: usize) -> Result<Vec<Played>, Failure> {
    let mut all = vec![(Vec::new(), Vec::new()); players.len()];
    for _ in 0..turns {
        let mut first = f64::NAN;
        for (index, (player, name)) in players.iter_mut().enumerate() {
            let batches = player.play(name)?;
            let turn = median(batches.iter().copied());
            first = if index == 0 { turn } else { first };
            all[index].0.extend(batches);
            all[index].1.push(turn / first);
        }
    }
    let played = all.into_iter().map(|(mut batches, to_first)| {
        batches.sort_by(f64::total_cmp);
        let most = batches.get(batches.len() * 99 / 100).copied().unwrap_or(f64::NAN);
        Played { ns: median(batches), most, to_first: median(to_first) }
    });
    Ok(played.collect())
}
