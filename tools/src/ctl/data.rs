//! `pmixctl query`, `get`, `lookup` and `attrs`: what a server answers.

use std::ffi::CString;

use pmix_dstore::model::{Info, InfoFlags, Proc, Regattr, Status, Value, keys};
use serde_json::{Map, json};

use super::Printout;
use super::args::Server;
use super::connection::{self, Connection, key, nspace, qualifiers};
use crate::table::Table;
use crate::value::{self, escaped, name_of};

/// Asks for keys of `PMIx_Query_info`.
pub fn query(server: &Server, words: &[String], with: &[String], json: bool) -> Result<Printout, String> {
    let qualifier = |info: Info| Info { flags: InfoFlags::QUALIFIER, ..info };
    let qualifiers: Vec<Info> = qualifiers(with)?.into_iter().map(qualifier).collect();
    let keys = words.iter().map(|word| key(word)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let connection = Connection::open(server)?;
    let answer = connection.query(&keys, qualifiers);
    connection.close();
    match answer {
        Ok(infos) => Ok(of_infos(&infos, json)),
        Err(status) => Err(format!("{}: {status}", words.join(", "))),
    }
}

/// Reads a value, or all of a process: of a namespace and a rank the one with a key. A server answers at once, or waits so many seconds
/// for a rank that has not committed.
pub fn get(
    server: &Server,
    (job, rank, word): (&str, &str, Option<&str>),
    wait: Option<u32>,
    json: bool,
) -> Result<Printout, String> {
    let proc = Proc::new(nspace(job)?, connection::rank(rank)?);
    let wanted = word.map(key).transpose()?;
    let connection = Connection::open(server)?;
    let limit = match wait {
        None => vec![Info::new(keys::IMMEDIATE, Value::Bool(true)), connection.limit()],
        Some(seconds) => vec![Info::new(keys::TIMEOUT, Value::Int(i32::try_from(seconds).unwrap_or(i32::MAX)))],
    };
    let found = match &wanted {
        Some(key) => connection.client().get_value(&proc, &key.to_string(), &limit),
        None => connection.client().get(&all_of(&proc, &limit), |value| value.to_value()).and_then(|value| value),
    };
    connection.close();
    let what = || format!("{proc} {}", word.unwrap_or("(all values)"));
    let found = found.map_err(|status| format!("{}: {status}", what()))?;
    match (wanted, found) {
        (None, Value::DataArray(array)) => {
            let infos: Vec<Info> = array
                .items
                .iter()
                .filter_map(|item| if let Value::Info(info) = item { Some((**info).clone()) } else { None })
                .collect();
            Ok(of_infos(&infos, json))
        }
        (_, value) if json => Ok(Printout::good(format!("{:#}\n", value::json(&value)))),
        (_, value) => Ok(Printout::good(format!("{}\n", value::text(&value)))),
    }
}

fn all_of<'a>(proc: &'a Proc, directives: &'a [Info]) -> pmix_client::GetRequest<'a> {
    pmix_client::GetRequest { key: None, ..pmix_client::GetRequest::new(proc, "", directives) }
}

/// Reads what has been published.
pub fn lookup(server: &Server, words: &[String], wait: Option<u32>, json: bool) -> Result<Printout, String> {
    let keys = words.iter().map(|word| CString::new(word.as_str()).map_err(|_| format!("key {word}: a NUL inside")));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(server)?;
    let infos = match wait {
        None => vec![connection.limit()],
        Some(seconds) => {
            let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
            vec![Info::new(keys::WAIT, Value::Int(0)), Info::new(keys::TIMEOUT, Value::Int(seconds))]
        }
    };
    let found = connection.client().lookup(keys, infos).wait();
    connection.close();
    let found = found.map_err(|status| format!("{}: {status}", words.join(", ")))?;
    let is_good = found.len() == words.len();
    if json {
        let one = |data: &pmix_dstore::model::Pdata| {
            json!({ "key": data.key.to_string(), "nspace": data.proc.nspace.to_string(), "rank": data.proc.rank.0,
                    "value": value::json(&data.value) })
        };
        let list: Vec<_> = found.iter().map(one).collect();
        return Ok(Printout { text: format!("{:#}\n", json!({ "published": list })), is_good });
    }
    let mut table = Table::new(&["KEY", "PUBLISHED BY", "VALUE"]);
    for data in &found {
        table.row([escaped(&data.key.to_string()), escaped(&data.proc.to_string()), value::text(&data.value)]);
    }
    Ok(Printout { text: table.text(), is_good })
}

/// Lists supported attributes by function: of a server and its host, or of this library.
pub fn attrs(server: &Server, functions: &[String], json: bool) -> Result<Printout, String> {
    let list = if functions.is_empty() { "all".to_owned() } else { functions.join(",") };
    let asked = |role| Info { flags: InfoFlags::QUALIFIER, ..Info::new(role, Value::string(&list)) };
    let connection = Connection::open(server)?;
    let mut found = Vec::new();
    for (role, key) in ROLES {
        if let Ok(infos) = connection.query(&[keys::QUERY_ATTRIBUTE_SUPPORT], vec![asked(key)]) {
            found.extend(infos.into_iter().map(|info| (role, info.value)));
        }
    }
    connection.close();
    if found.is_empty() {
        return Err(format!("no attributes of {list}: {}", Status::ERR_NOT_FOUND));
    }
    let mut table = Table::new(&["OF", "FUNCTION", "ATTRIBUTE", "TYPE"]);
    let mut rows = Vec::new();
    for (role, function, Regattr { name, ty, .. }) in found.iter().flat_map(|(role, list)| attributes_of(role, list)) {
        let name = name.as_ref().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        table.row([role.to_owned(), escaped(&function), escaped(&name), ty.to_string()]);
        rows.push(json!({ "of": role, "function": function, "attribute": name, "type": ty.to_string() }));
    }
    Ok(Printout::good(if json { format!("{:#}\n", json!({ "attributes": rows })) } else { table.text() }))
}

/// The parties that support attributes, with the key by which a query names each.
const ROLES: [(&str, &str); 4] = [
    ("client", keys::CLIENT_ATTRIBUTES),
    ("server", keys::SERVER_ATTRIBUTES),
    ("tool", keys::TOOL_ATTRIBUTES),
    ("host", keys::HOST_ATTRIBUTES),
];

/// The attributes of an answer: an array of functions with an array of attributes each.
fn attributes_of<'a>(role: &'static str, list: &'a Value) -> Vec<(&'static str, String, &'a Regattr)> {
    let items = |value: &'a Value| if let Value::DataArray(array) = value { array.items.as_slice() } else { &[] };
    let mut found = Vec::new();
    for function in items(list) {
        let Value::Info(function) = function else { continue };
        for attribute in items(&function.value) {
            let Value::Regattr(attribute) = attribute else { continue };
            found.push((role, function.key.to_string(), &**attribute));
        }
    }
    found
}

/// Infos as a table of names and values, or as JSON by name.
fn of_infos(infos: &[Info], json: bool) -> Printout {
    if json {
        let mut fields = Map::new();
        for info in infos {
            fields.insert(name_of(&info.key), value::json(&info.value));
        }
        return Printout::good(format!("{:#}\n", serde_json::Value::from(fields)));
    }
    let mut table = Table::new(&["NAME", "VALUE"]);
    for info in infos {
        match &info.value {
            // One line for each element of what would not fit into a line.
            Value::DataArray(array) if array.items.len() > 1 => {
                for item in &array.items {
                    table.row([escaped(&name_of(&info.key)), value::text(item)]);
                }
            }
            other => table.row([escaped(&name_of(&info.key)), value::text(other)]),
        }
    }
    Printout::good(table.text())
}
