//! The machine's topology as a server provides it to its clients.

use pmix_client::topology;
use pmix_dstore::model::{Info, Result, Value, keys};

/// The keys of a topology as XML.
const XML: [&str; 3] = [keys::LOCAL_TOPO, keys::HWLOC_XML_V1, keys::HWLOC_XML_V2];

/// The topology's XML among the attributes of a server, or that of this machine if the host requests it
/// (`PMIX_SERVER_SHARE_TOPOLOGY`). If the machine's topology cannot be read, `log` gets a line, and clients read it themselves.
///
/// # Errors
/// `NOMEM`.
pub fn values(infos: &[Info], log: impl FnOnce(&str)) -> Result<Vec<Info>> {
    let given = infos.iter().filter(|info| XML.iter().any(|key| info.key.is(key)));
    let mut values: Vec<Info> = given.map(Info::copy).collect::<Result<_>>()?;
    if Info::is_set(infos, keys::SERVER_SHARE_TOPOLOGY) {
        match of_this_machine() {
            Ok(own) => values.extend(own),
            Err(status) => log(&format!("the topology is not shared with clients: {status}")),
        }
    }
    Ok(values)
}

/// The machine's XML in both forms, and by its old name.
fn of_this_machine() -> Result<Vec<Info>> {
    let (new, old) = topology::to_xml()?;
    let text = |key: &'static str, xml| Info::new(key, Value::String(Some(xml)));
    let mut infos = vec![text(keys::LOCAL_TOPO, new.clone()), text(keys::HWLOC_XML_V2, new)];
    infos.extend(old.map(|old| text(keys::HWLOC_XML_V1, old)));
    Ok(infos)
}
