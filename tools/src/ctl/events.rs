//! `pmixctl events`: events as they come.

use std::io::Write;
use std::sync::Arc;

use crossbeam::channel::unbounded;
use pmix_client::events::range;
use pmix_client::{Event, EventDone, HandlerId};
use pmix_dstore::model::{DataArray, DataType, Info, Status, Value, keys};
use serde_json::{Map, json};

use super::Printout;
use super::args::{Range, Server};
use super::connection::{Connection, process};
use crate::value::{self, escaped, name_of};

/// Prints events, the first or all until the server is lost.
pub fn events(server: &Server, words: &[String], follow: bool, json: bool) -> Result<Printout, String> {
    let codes = words.iter().map(|word| code(word)).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(server)?;
    let (sender, events) = unbounded();
    let handler = move |_: HandlerId, event: Event, done: EventDone| {
        // The receiver is gone when the command is about to end.
        let _ = sender.send(event);
        done.finish(Status::SUCCESS, Vec::new());
    };
    // The end of the server ends the command, whatever it waits for.
    let is_asked = codes.is_empty() || codes.contains(&Status::ERR_LOST_CONNECTION);
    let registered_codes = if is_asked { codes } else { [codes, vec![Status::ERR_LOST_CONNECTION]].concat() };
    let registered = connection.client().register_event_handler(registered_codes, Vec::new(), Arc::new(handler));
    let registered = registered.within(connection.patience()).wait();
    registered.map_err(|status| format!("the server does not take an event handler: {status}"))?;
    for event in &events {
        let is_lost = event.status == Status::ERR_LOST_CONNECTION && event.source == *connection.client().me();
        if is_lost {
            return Err("the server has ended, or the connection is lost".to_owned());
        }
        if event.status == Status::ERR_LOST_CONNECTION && !is_asked {
            continue;
        }
        let line = if json { as_json(&event) } else { as_text(&event) };
        if std::io::stdout().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush()).is_err() {
            break;
        }
        if !follow {
            break;
        }
    }
    connection.close();
    Ok(Printout::good(String::new()))
}

/// Sends an event.
pub fn notify(server: &Server, word: &str, range: Range, to: &[String], infos: &[String]) -> Result<Printout, String> {
    let status = code(word)?;
    let mut infos = infos.iter().map(|text| value::info_of(text)).collect::<Result<Vec<_>, _>>()?;
    let procs = to.iter().map(|text| process(text).map(Value::Proc)).collect::<Result<Vec<_>, _>>()?;
    let range = match range {
        _ if !procs.is_empty() => range::CUSTOM,
        Range::Local => range::LOCAL,
        Range::Namespace => range::NAMESPACE,
        Range::Session => range::SESSION,
        Range::Global => range::GLOBAL,
        Range::Host => range::RM,
    };
    if !procs.is_empty() {
        let array = DataArray { ty: DataType::PROC, items: procs };
        infos.push(Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(Box::new(array))));
    }
    let connection = Connection::open(server)?;
    let me = connection.client().me().clone();
    let sent = connection.client().notify_event(status, me, range, infos).within(connection.patience()).wait();
    connection.close();
    sent.map(|()| Printout::good(String::new())).map_err(|error| format!("{status} was not sent: {error}"))
}

/// A status by its name or number.
fn code(word: &str) -> Result<Status, String> {
    let named = || Status::from_name(word).or_else(|| Status::from_name(&format!("PMIX_{word}")));
    let number = word.parse().ok().map(Status);
    number.or_else(named).ok_or_else(|| {
        format!("there is no status {word}; pmixctl takes names such as PMIX_ERR_PROC_ABORTED, and numbers")
    })
}

fn as_text(event: &Event) -> String {
    let infos: Vec<String> =
        event.infos.iter().map(|info: &Info| format!("{}={}", name_of(&info.key), value::text(&info.value))).collect();
    format!("{} from {}: {}\n", event.status, escaped(&event.source.to_string()), escaped(&infos.join(", ")))
}

fn as_json(event: &Event) -> String {
    let mut infos = Map::new();
    for info in event.infos.iter() {
        infos.insert(name_of(&info.key), value::json(&info.value));
    }
    let (nspace, rank) = (event.source.nspace.to_string(), event.source.rank.0);
    format!(
        "{}\n",
        json!({ "status": event.status.to_string(), "code": event.status.0, "nspace": nspace, "rank": rank, "infos": infos })
    )
}
