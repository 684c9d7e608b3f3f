//! `pmixctl server`: which library the server of this rank is.

use pmix_client::env::{SERVER_VARIABLE, URI_VARIABLES};

use super::Printout;

/// Says by the environment of this rank which library its server is. Servers of this one set `SERVER_VARIABLE` to their address; it
/// may also come from a job around this one, whose server has another. Older ones are known by their store only.
pub fn server() -> Printout {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let stores = std::env::var("PMIX_GDS_MODULE").unwrap_or_default();
    let has_server = std::env::var_os("PMIX_RANK").is_some();
    let named = std::env::var_os(SERVER_VARIABLE);
    let addresses: Vec<_> = URI_VARIABLES.iter().filter_map(|(name, ..)| std::env::var_os(name)).collect();
    let is_named =
        named.is_some_and(|named| !addresses.is_empty() && addresses.iter().all(|address| *address == named));
    let (library, is_good) = match (has_server, is_named || stores.starts_with("pmix-dstore")) {
        (false, _) => ("none: this is no rank", false),
        (true, true) => ("this library", true),
        (true, false) => ("the stock library", false),
    };
    Printout { text: format!("{}: {library}\n", host.display()), is_good }
}
