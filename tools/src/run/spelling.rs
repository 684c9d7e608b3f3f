//! Option names with one dash, which mpirun and mpiexec have and clap does not know.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The words of a command line, its own name first, in which `-np` is `--np`, and likewise each name of an option with several letters. What
/// begins with the program that is to run stays. Also tells whether `--` ends the options.
pub(super) fn spelled_out(command: &Command, words: Vec<OsString>) -> (Vec<OsString>, bool) {
    let mut command = command.clone();
    command.build();
    let mut words = words.into_iter();
    let mut spelled: Vec<OsString> = words.next().into_iter().collect();
    let mut has_end = false;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let Some(name) = text.strip_prefix('-').filter(|_| text != "-" && text != "--") else {
            // The program, or the end of the options.
            has_end = text == "--";
            spelled.push(word);
            break;
        };
        let (name, has_dashes) = name.strip_prefix('-').map_or((name, false), |name| (name, true));
        let option = option_of(&command, name);
        let has_letters = !has_dashes && name.chars().nth(1).is_some_and(|letter| letter != '=');
        // Others must not be read as several options of one letter: -hostfile is no request for help.
        let is_one_dash = has_letters && (option.is_some() || is_word(&command, name));
        spelled.push(if is_one_dash { format!("-{text}").into() } else { word });
        let values =
            option.map_or_else(|| values_of_letter(&command, name, has_dashes), |option| values_of(option, name));
        spelled.extend(words.by_ref().take(values));
    }
    spelled.extend(words);
    (spelled, has_end)
}

/// The option of a name with several letters, which a value may follow after `=`.
fn option_of<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let is_it = |option: &&Arg| {
        option.get_long() == Some(name) || option.get_all_aliases().is_some_and(|all| all.contains(&name))
    };
    command.get_arguments().find(is_it)
}

/// Whether a name of several letters is no option of one letter with its value, such as `-n4` or `-xNAME`.
fn is_word(command: &Command, name: &str) -> bool {
    let mut letters = name.chars();
    let option = letters.next().and_then(|letter| option_of_letter(command, letter));
    let Some(option) = option else { return false };
    let takes_value = option.get_num_args().is_some_and(|range| range.takes_values());
    !takes_value || option.get_id() == "ranks" && letters.as_str().parse::<u32>().is_err()
}

/// How many of the next words are an option's values.
fn values_of(option: &Arg, name: &str) -> usize {
    let least = option.get_num_args().map_or(0, |range| range.min_values());
    if name.contains('=') { 0 } else { least }
}

/// The same of an option with one letter, whose value may follow at once.
fn values_of_letter(command: &Command, name: &str, has_dashes: bool) -> usize {
    let mut letters = name.chars();
    let Some(letter) = letters.next().filter(|_| !has_dashes) else { return 0 };
    match option_of_letter(command, letter) {
        Some(option) if letters.next().is_none() => values_of(option, ""),
        _ => 0,
    }
}

fn option_of_letter(command: &Command, letter: char) -> Option<&Arg> {
    let is_it = |option: &&Arg| {
        option.get_short() == Some(letter) || option.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
    };
    command.get_arguments().find(is_it)
}
