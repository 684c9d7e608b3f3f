//! Values as people and scripts read them.

use std::ffi::CString;

use pmix_dstore::log;
use pmix_dstore::model::{DataArray, Info, Key, ProcInfo, Value, attributes};
use serde_json::{Map, Number, json};

/// The name of the attribute with this key, or the key.
pub fn name_of(key: &Key) -> String {
    let known = attributes::ALL.iter().find(|(_, known, _)| key.is(known));
    known.map_or_else(|| key.to_string(), |(name, ..)| (*name).to_owned())
}

/// The key that a user means: by an attribute's name, in any case and with or without its prefix, or as it is.
pub fn key_of(word: &str) -> String {
    let is_it = |name: &str| name.eq_ignore_ascii_case(word) || name[5..].eq_ignore_ascii_case(word);
    let known = attributes::ALL.iter().find(|(name, ..)| is_it(name));
    known.map_or_else(|| word.to_owned(), |(_, key, _)| (*key).to_owned())
}

/// An info by its text, `NAME=VALUE`; `NAME` alone is a true one. The value takes the attribute's type.
///
/// # Errors
/// What is wrong, in words.
pub fn info_of(text: &str) -> Result<Info, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let key = key_of(name);
    let key = Key::new(&key).map_err(|error| format!("{name}: {error}"))?;
    let ty = attributes::ALL.iter().find(|(_, known, _)| key.is(known)).map(|(.., ty)| *ty);
    let Some(text) = value else { return Ok(Info::new(key, Value::Bool(true))) };
    let number = text.parse::<i64>().ok().and_then(|number| Value::from_scalar(ty?, number as u64));
    let value = match (text, number) {
        ("true" | "false", _) => Value::Bool(text == "true"),
        (_, Some(number)) => number,
        _ => Value::string(text),
    };
    Ok(Info::new(key, value))
}

/// A value in one line. Control characters are escaped.
pub fn text(value: &Value) -> String {
    // Names of jobs and keys may hold any character, too. What has been escaped stays as it is.
    escaped(&unescaped_text(value))
}

fn unescaped_text(value: &Value) -> String {
    match value {
        Value::Undef => "nothing".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::String(text) => string(text.as_ref()),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Timeval { sec, usec } => format!("{sec}.{usec:06} s"),
        Value::Status(status) => status.to_string(),
        Value::Rank(rank) => rank.to_string(),
        Value::Proc(proc) => proc.to_string(),
        Value::ProcNspace(nspace) => nspace.to_string(),
        Value::DataArray(array) => format!("[{}]", array.items.iter().map(text).collect::<Vec<_>>().join(", ")),
        Value::Info(info) => format!("{} = {}", name_of(&info.key), text(&info.value)),
        Value::Kval(kval) => format!("{} = {}", name_of(&kval.key), text(&kval.value)),
        Value::Value(value) => text(value),
        Value::ProcInfo(proc) => format!("{} on {}: process {}", proc.proc, string(proc.hostname.as_ref()), proc.pid),
        Value::Regattr(attribute) => string(attribute.name.as_ref()),
        Value::ByteObject(bytes) => match bytes.len() {
            ..=32 => hexadecimal(bytes),
            len => format!("{len} bytes"),
        },
        other => number(other).map_or_else(|| escaped(&format!("{other:?}")), |number| number.to_string()),
    }
}

/// A value with its type: `{"type": "UINT32", "value": 4}`. Values of structures are objects, bytes are hexadecimal digits.
pub fn json(value: &Value) -> serde_json::Value {
    json!({ "type": value.data_type().to_string(), "value": plain(value) })
}

/// A value without its type.
fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Undef => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::String(None) => serde_json::Value::Null,
        Value::String(Some(text)) => text.to_string_lossy().into(),
        Value::Float(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::DataArray(array) => of_array(array),
        Value::Info(info) => json!({ "key": info.key.to_string(), "value": json(&info.value) }),
        Value::Kval(kval) => json!({ "key": kval.key.to_string(), "value": json(&kval.value) }),
        Value::Value(value) => json(value),
        Value::ProcInfo(proc) => of_process(proc),
        Value::ByteObject(bytes) => hexadecimal(bytes).into(),
        other => number(other).map_or_else(|| text(other).into(), serde_json::Value::Number),
    }
}

/// Infos by key; those of one key are a list.
fn of_array(array: &DataArray) -> serde_json::Value {
    array.items.iter().map(plain).collect()
}

/// The fields of a `pmix_proc_info_t`.
pub fn of_process(proc: &ProcInfo) -> serde_json::Value {
    let text = |text: &Option<CString>| text.as_ref().map(|text| text.to_string_lossy().into_owned());
    let mut fields = Map::new();
    fields.insert("nspace".into(), proc.proc.nspace.to_string().into());
    fields.insert("rank".into(), proc.proc.rank.0.into());
    fields.insert("host".into(), text(&proc.hostname).into());
    fields.insert("executable".into(), text(&proc.executable).into());
    fields.insert("pid".into(), proc.pid.into());
    fields.insert("state".into(), state(proc.state).into());
    fields.into()
}

/// A state of a process (`pmix_proc_state_t`) in a word or two.
pub fn state(code: u8) -> String {
    let word = match code {
        0 => "unknown",
        1 => "prepared",
        2 => "being started",
        3 => "to restart",
        4 => "to end",
        5 => "running",
        6 => "connected",
        15 => "not ended",
        20 => "ended",
        50 => "error",
        51 => "killed on command",
        52 => "aborted",
        53 => "did not start",
        54 => "killed by signal",
        55 => "ended without finalize",
        56 => "lost connection",
        57 => "exceeded a limit",
        58 => "called abort",
        59 => "missed heartbeats",
        60 => "migrating",
        61 => "cannot restart",
        62 => "exited with failure",
        63 => "did not start",
        _ => return format!("state {code}"),
    };
    word.to_owned()
}

/// The number that a value is.
fn number(value: &Value) -> Option<Number> {
    Some(match value {
        Value::Int8(number) => (*number).into(),
        Value::Int16(number) => (*number).into(),
        Value::Int(number) | Value::Int32(number) | Value::Pid(number) => (*number).into(),
        Value::Int64(number) | Value::Time(number) => (*number).into(),
        Value::Status(status) => status.0.into(),
        other => other.as_u64()?.into(),
    })
}

fn string(text: Option<&CString>) -> String {
    text.map_or_else(String::new, |text| escaped(&text.to_string_lossy()))
}

/// Text from elsewhere, fit for a terminal.
pub fn escaped(text: &str) -> String {
    text.chars().map(log::escaped).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{DataType, Rank, keys};

    use super::*;

    #[test]
    fn attributes_are_known_by_name_and_by_key() {
        for word in ["PMIX_JOB_SIZE", "job_size", "pmix.job.size"] {
            assert_eq!(key_of(word), keys::JOB_SIZE);
        }
        assert_eq!(key_of("my.key"), "my.key");
        assert_eq!(name_of(&Key::from(keys::JOB_SIZE)), "PMIX_JOB_SIZE");
        assert_eq!(name_of(&Key::from("my.key")), "my.key");
    }

    #[test]
    fn infos_take_the_type_of_their_attribute() {
        let value = |text: &str| info_of(text).expect("an info").value;
        assert_eq!(value("PMIX_NODEID=5"), Value::Uint32(5));
        assert_eq!(value("PMIX_NSPACE=12"), Value::string("12"), "a number is a name here");
        assert_eq!(value("PMIX_WAIT"), Value::Bool(true));
        assert_eq!(value("some.key=text"), Value::string("text"));
        assert!(info_of(&"x".repeat(600)).is_err());
    }

    #[test]
    fn values_are_one_line_of_text_and_typed_json() {
        let array = DataArray { ty: DataType::UINT32, items: vec![Value::Uint32(1), Value::Uint32(2)] };
        assert_eq!(text(&Value::DataArray(Box::new(array))), "[1, 2]");
        assert_eq!(text(&Value::string("two\nlines\u{1b}[2J")), "two\\nlines\\u{1b}[2J");
        assert_eq!(json(&Value::Uint32(4)), json!({ "type": "UINT32", "value": 4 }));
        assert_eq!(json(&Value::Int64(-4)), json!({ "type": "INT64", "value": -4 }));
        assert_eq!(text(&Value::Rank(Rank(3))), "3");
    }
}
