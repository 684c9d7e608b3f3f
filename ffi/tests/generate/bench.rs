//! What `pmixbench` needs of the C interface. It calls whichever library the dynamic linker finds, so it has declarations of its own.

use super::checks::layouts_of;
use super::types::{function, number_of, structure};
use crate::tables;

const NUMBERS: &[&str] = &[
    "pmix_nspace_t",
    "pmix_key_t",
    "pmix_rank_t",
    "pmix_status_t",
    "pmix_data_type_t",
    "pmix_scope_t",
    "pmix_info_directives_t",
];
const STRUCTURES: &[&str] = &["pmix_byte_object_t", "pmix_proc_t", "pmix_value_t", "pmix_info_t"];
const FUNCTIONS: &[&str] =
    &["PMIx_Commit", "PMIx_Fence", "PMIx_Finalize", "PMIx_Get", "PMIx_Get_version", "PMIx_Init", "PMIx_Put"];

/// The types with their layouts, and the functions as types of pointers.
pub fn declarations() -> String {
    let types = tables::table("types");
    let numbers = types.iter().filter(|row| NUMBERS.contains(&row[0])).map(number_of);
    let members = tables::table("members");
    let structures = types.iter().filter(|row| STRUCTURES.contains(&row[0])).map(|row| structure(row, &members));
    let functions = tables::table("functions");
    let functions = functions.iter().filter(|row| FUNCTIONS.contains(&row[0])).map(|row| {
        let (answer, parameters) = row[4].split_once(&format!("{}(", row[0])).expect("a prototype has its name");
        let (parameters, result) = function(answer, parameters.trim_end_matches(')'));
        format!("pub type {} = unsafe extern \"C\" fn({}){result};\n", row[0], parameters.join(", "))
    });
    let all: String = numbers.chain(structures).chain(functions).collect();
    all + "\n" + &layouts_of(|name| NUMBERS.contains(&name) || STRUCTURES.contains(&name))
}
