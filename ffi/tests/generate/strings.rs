//! What the `PMIx_*_string` functions answer.

use std::fmt::Write;

use super::{constants, types};
use crate::tables;

/// The numbers of a function's type with their texts, in the order of the numbers; those without one have none.
pub fn texts(function: &str) -> Vec<(i128, &'static str)> {
    let rows: Vec<_> = tables::table("strings").into_iter().filter(|row| row[0] == function).collect();
    let constants = constants(rows[0][1]);
    let number_of = |name: &str| -> i128 {
        let number = constants.iter().find(|row| row[0] == name).map_or(name, |row| row[2]);
        number.parse().unwrap_or_else(|_| panic!("strings.tsv: {function}: {name}: neither a constant nor a number"))
    };
    let listed = rows.iter().filter(|row| row[2] != "*").map(|row| (number_of(row[2]), row[3]));
    let mut texts: Vec<(i128, &str)> = listed.collect();
    // The name is the text where the table says nothing else of the number.
    if ["PMIx_Error_string", "PMIx_Data_type_string"].contains(&function) {
        for row in &constants {
            let number = number_of(row[0]);
            if texts.iter().all(|(known, _)| *known != number) {
                texts.push((number, row[0]));
            }
        }
    }
    if function == "PMIx_IOF_channel_string" {
        texts = combinations(&texts);
    }
    texts.retain(|(_, text)| !text.is_empty());
    texts.sort_unstable();
    texts
}

/// Each combination of bits with the texts of its bits, with a blank behind each of them.
fn combinations(bits: &[(i128, &'static str)]) -> Vec<(i128, &'static str)> {
    let all: i128 = bits.iter().map(|(bit, _)| bit).sum();
    let text = |number: i128| -> &'static str {
        match bits.iter().find(|(bit, _)| *bit == number && number == 0) {
            Some((_, text)) => text,
            None => {
                let set = bits.iter().filter(|(bit, _)| number & bit != 0);
                set.map(|(_, text)| format!("{text} ")).collect::<String>().leak()
            }
        }
    };
    (0..=all).map(|number| (number, text(number))).collect()
}

pub fn strings() -> String {
    let mut code = String::from(
        "//! What the `PMIx_*_string` functions answer: for errors the texts of the newest release, which are the constants' names;\n\
         //! for all else those of release 4.2.2, and for codes that came later those of the release that has them. Programs\n\
         //! compare and parse these texts.\n\
         //!\n\
         //! None is inlined: only of a table that one function uses the compiler makes one without addresses, which the loader would\n\
         //! write in each process.\n\
         //!\n\
         //! Written by `make generate` from strings.tsv and constants.tsv of ffi/abi.\n\n\
         use std::ffi::CStr;\n",
    );
    let table = tables::table("strings");
    let mut functions: Vec<(&str, &str)> = table.iter().map(|row| (row[0], row[1])).collect();
    functions.dedup();
    for (function, ty) in functions {
        let name = function.strip_prefix("PMIx_").and_then(|name| name.strip_suffix("_string")).expect("such a name");
        let texts = texts(function);
        let otherwise = table.iter().find(|row| row[0] == function && row[2] == "*").map(|row| row[3]);
        writeln!(code, "\n/// `{function}`.").unwrap();
        writeln!(
            code,
            "#[inline(never)]\npub fn {}(code: {}) -> &'static CStr {{",
            name.to_lowercase(),
            types::scalar(ty)
        )
        .unwrap();
        let (last, first) = texts.split_last().expect("a function has texts");
        let (all, otherwise) = match otherwise {
            Some(otherwise) => {
                code += "    match code {\n";
                (&texts[..], otherwise)
            }
            None => {
                code += "    // Bits that name no channel are passed over.\n";
                writeln!(code, "    match code & {} {{", last.0).unwrap();
                (first, last.1)
            }
        };
        all.iter().for_each(|(number, text)| writeln!(code, "        {number} => c{text:?},").unwrap());
        writeln!(code, "        _ => c{otherwise:?},\n    }}\n}}").unwrap();
    }
    code
}
