//! The files that are written from the tables of `ffi/abi` are those of these tables. `make generate` writes them.

mod generate;
mod tables;

use std::fs;
use std::path::Path;

#[test]
fn files_are_those_of_the_tables() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let writes = std::env::var_os("PMIX_ABI_TABLE").is_some_and(|wanted| wanted == "write");
    for (name, code) in generate::files() {
        let path = repository.join(name);
        if writes {
            fs::write(&path, &code).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let there = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(there == code, "{name} is not what the tables say: edit the tables and run `make generate`");
    }
}
