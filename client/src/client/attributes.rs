//! The attributes that this process declares for its own functions: an MPI library or a tool names what it supports, and its
//! queries for supported attributes list them beside what the server answers.
//!
//! They stay in the process. Nobody else can ask for them: `PMIX_CLIENT_ATTRIBUTES` of another process are that process's.

use std::collections::BTreeMap;
use std::ffi::CString;

use pmix_dstore::model::{DataArray, DataType, Info, KEY_LEN_MAX, Key, Query, Regattr, Result, Status, Value, keys};

use super::Client;
use super::ops::InfoReply;
use pmix_wire::Version;

/// Limit of functions that a process declares.
pub const FUNCTIONS_MAX: usize = 1024;
/// Limit of attributes of all these functions.
pub const ATTRIBUTES_MAX: usize = 16_384;

/// Stock servers from this release on answer queries for supported attributes.
const ANSWERS_SUPPORT: Version = Version::new(5, 0, 0);

/// As what a process declares attributes. Each level has its own functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `PMIX_CLIENT_ATTRIBUTES`, `PMIX_CLIENT_FUNCTIONS`.
    Client,
    /// `PMIX_TOOL_ATTRIBUTES`, `PMIX_TOOL_FUNCTIONS`.
    Tool,
}

impl Level {
    const ALL: [Level; 2] = [Level::Client, Level::Tool];

    /// The qualifiers that ask for functions, and for attributes.
    fn qualifiers(self) -> (&'static str, &'static str) {
        match self {
            Level::Client => (keys::CLIENT_FUNCTIONS, keys::CLIENT_ATTRIBUTES),
            Level::Tool => (keys::TOOL_FUNCTIONS, keys::TOOL_ATTRIBUTES),
        }
    }
}

/// What this process has declared.
#[derive(Default)]
pub(crate) struct Declared {
    functions: BTreeMap<(Level, CString), Vec<Regattr>>,
}

impl Declared {
    fn add(&mut self, level: Level, function: CString, attributes: Vec<Regattr>) -> Result<()> {
        let is_key = |bytes: &[u8]| (1..=KEY_LEN_MAX).contains(&bytes.len());
        let is_usable = |attribute: &Regattr| attribute.name.as_ref().is_some_and(|name| is_key(name.as_bytes()));
        if !is_key(function.as_bytes()) || !attributes.iter().all(is_usable) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let named = (level, function);
        if self.functions.contains_key(&named) {
            return Err(Status::ERR_REPEAT_ATTR_REGISTRATION);
        }
        let known: usize = self.functions.values().map(Vec::len).sum();
        if self.functions.len() >= FUNCTIONS_MAX || attributes.len() > ATTRIBUTES_MAX - known {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        self.functions.insert(named, attributes);
        Ok(())
    }

    /// What a query with these qualifiers asks of them. Without qualifiers that is everything.
    fn asked(&self, qualifiers: &[Info]) -> Vec<Info> {
        let mut infos = Vec::new();
        for level in Level::ALL {
            let of_level = || self.functions.iter().filter(move |((of, _), _)| *of == level);
            let (functions, attributes) = level.qualifiers();
            let has = |key: &str| qualifiers.is_empty() || Info::find(qualifiers, key).is_some();
            if has(functions) && of_level().next().is_some() {
                let names: Vec<_> = of_level().map(|((_, name), _)| name.as_bytes()).collect();
                infos.push(Info::new(functions, Value::string(names.join(&b','))));
            }
            if !has(attributes) {
                continue;
            }
            // A qualifier without a text asks for all functions.
            let wanted = Info::find(qualifiers, attributes).and_then(Value::as_text);
            let is_wanted = |name: &CString| {
                wanted.is_none_or(|text| {
                    text.split(|byte| *byte == b',').any(|one| one == name.as_bytes() || one == b"all")
                })
            };
            for ((_, name), attributes) in of_level().filter(|((_, name), _)| is_wanted(name)) {
                let items = attributes.iter().map(|attribute| Value::Regattr(Box::new(attribute.clone()))).collect();
                let value = Value::DataArray(Box::new(DataArray { ty: DataType::REGATTR, items }));
                infos.extend(Key::new(name.as_bytes()).ok().map(|key| Info { key, flags: 0, value }));
            }
        }
        infos
    }
}

impl Client {
    /// Declares the attributes that this process supports in a function of its own, for its queries for supported attributes.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an empty name or one of more than 511 bytes; `ERR_REPEAT_ATTR_REGISTRATION` for a function that
    /// was declared at this level already; `ERR_OUT_OF_RESOURCE` beyond 1024 functions or 16,384 attributes.
    pub fn register_attributes(&self, level: Level, function: CString, attributes: Vec<Regattr>) -> Result<()> {
        self.inner.declared.lock().add(level, function, attributes)
    }

    /// What these queries ask of the attributes that this process has declared; `None` if that is nothing.
    pub(super) fn declared_for(&self, queries: &[Query]) -> Option<OfProcess> {
        let declared = self.inner.declared.lock();
        if declared.functions.is_empty() {
            return None;
        }
        let is_asked = |key: &CString| key.as_bytes() == keys::QUERY_ATTRIBUTE_SUPPORT.as_bytes();
        let asking = queries.iter().filter(|query| query.keys.iter().any(is_asked));
        let answers: Vec<_> =
            asking.map(|query| declared.asked(&query.qualifiers)).filter(|infos| !infos.is_empty()).collect();
        let is_all = queries.iter().flat_map(|query| &query.keys).all(is_asked) && answers.len() == queries.len();
        (!answers.is_empty()).then_some(OfProcess { answers, is_all })
    }
}

/// What this process adds to the answer to queries for supported attributes.
pub(super) struct OfProcess {
    /// For each query that this process has something for.
    answers: Vec<Vec<Info>>,
    /// Each query asks for nothing else, and this process has something for it.
    is_all: bool,
}

impl OfProcess {
    /// The answer without the server's, if each query asks for something of this process, and the server is one that such a query
    /// may end: stock servers of 4.2 crash, whatever its qualifiers are.
    pub fn alone(&self, client: &Client) -> Option<InfoReply> {
        let link = &client.inner.link;
        let may_crash = link.has_server() && !link.awaits_commits() && link.server_version() < ANSWERS_SUPPORT;
        (self.is_all && may_crash).then(|| InfoReply {
            status: Status::SUCCESS,
            infos: self.answers.iter().map(|infos| support(infos)).collect(),
        })
    }

    /// Adds it to what the server has answered, which may be nothing.
    ///
    /// # Errors
    /// If the server's answer has not come.
    pub fn beside(self, answered: Result<InfoReply>) -> Result<InfoReply> {
        let OfProcess { mut answers, is_all } = self;
        let alone = if is_all { Status::SUCCESS } else { Status::QUERY_PARTIAL_SUCCESS };
        let mut reply = match answered {
            // The server has not been heard.
            Err(status @ (Status::ERR_LOST_CONNECTION | Status::ERR_TIMEOUT | Status::ERR_NOMEM)) => {
                return Err(status);
            }
            Err(_) => InfoReply { status: alone, infos: Vec::new() },
            Ok(reply) => reply,
        };
        // Which query an info answers cannot be seen if there are several. Then this is an answer of its own.
        if let [_] = &answers[..] {
            let is_support = |info: &&mut Info| info.key.is(keys::QUERY_ATTRIBUTE_SUPPORT);
            let mut of_server = reply.infos.iter_mut().filter(is_support);
            if let (Some(Info { value: Value::DataArray(array), .. }), None) = (of_server.next(), of_server.next()) {
                answers.drain(..).flatten().for_each(|info| merge(&mut array.items, info));
            }
        }
        reply.infos.extend(answers.iter().map(|infos| support(infos)));
        Ok(reply)
    }
}

/// An answer about supported attributes.
fn support(infos: &[Info]) -> Info {
    Info::new(keys::QUERY_ATTRIBUTE_SUPPORT, Value::infos(infos.iter().cloned()))
}

/// Adds an info to those of the server. Two lists of functions become one; the attributes of a function stand beside the
/// server's, as those of the host do.
fn merge(items: &mut Vec<Value>, info: Info) {
    let lists = Level::ALL.map(|level| level.qualifiers().0);
    let is_same = |item: &&mut Value| matches!(item, Value::Info(other) if other.key == info.key);
    if lists.iter().any(|list| info.key.is(list))
        && let Some(Value::Info(other)) = items.iter_mut().find(is_same)
        && let (Some(theirs), Some(ours)) = (other.value.as_text(), info.value.as_text())
    {
        other.value = Value::string([theirs, ours].join(&b','));
    } else {
        items.push(Value::Info(Box::new(info)));
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::DataType;

    use super::*;
    use crate::client::tests::{stage, stage_under};
    use pmix_wire::reply::InfosReply;

    fn attribute(name: &str) -> Regattr {
        let key = Key::new(name.as_bytes()).unwrap();
        Regattr { name: CString::new(name).ok(), key, ty: DataType::STRING, description: Vec::new() }
    }

    fn array(attributes: &[Regattr]) -> Value {
        let items = attributes.iter().map(|attribute| Value::Regattr(Box::new(attribute.clone()))).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::REGATTR, items }))
    }

    fn query(keys: &[&str], qualifiers: &[Info]) -> Query {
        let keys = keys.iter().map(|key| CString::new(*key).unwrap()).collect();
        Query { keys, qualifiers: qualifiers.to_vec() }
    }

    fn support(infos: Vec<Info>) -> Info {
        super::support(&infos)
    }

    fn answer(infos: Vec<Info>) -> Result<InfoReply> {
        Ok(InfoReply { status: Status::SUCCESS, infos })
    }

    const SUPPORT: [&str; 1] = [keys::QUERY_ATTRIBUTE_SUPPORT];

    #[test]
    fn declared_attributes_are_listed_beside_the_servers_answer() {
        let stage = stage_under(Version::new(5, 0, 7), false);
        let own = [attribute("SITE_COLOR"), attribute("SITE_SIZE")];
        let declare = |level, name: &str, attributes: &[Regattr]| {
            stage.client.register_attributes(level, CString::new(name).unwrap(), attributes.to_vec())
        };
        assert_eq!(declare(Level::Client, "Site_run", &own), Ok(()));
        assert_eq!(declare(Level::Client, "Site_run", &[]), Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
        assert_eq!(declare(Level::Tool, "Site_show", &own[..1]), Ok(()), "levels are apart");

        let of_client = Info::new(keys::CLIENT_ATTRIBUTES, Value::string("Site_run,PMIx_Get"));
        let get = Info::new("PMIx_Get", array(&[attribute("PMIX_TIMEOUT")]));
        let run = Info::new("Site_run", array(&own));
        let served = |infos: Vec<Info>| stage.answers(InfosReply { status: Status::SUCCESS, infos: Some(infos) });
        let ask = |queries: &[Query]| stage.client.query(queries.to_vec()).wait();
        served(vec![support(vec![get.clone()])]);
        let both = answer(vec![support(vec![get.clone(), run.clone()])]);
        assert_eq!(ask(&[query(&SUPPORT, std::slice::from_ref(&of_client))]), both);

        // Other functions and other levels are the server's alone.
        let of_get = Info::new(keys::CLIENT_ATTRIBUTES, Value::string("PMIx_Get"));
        served(vec![support(vec![get.clone()])]);
        assert_eq!(ask(&[query(&SUPPORT, &[of_get])]), answer(vec![support(vec![get.clone()])]));
        let host = Info::new(keys::HOST_ATTRIBUTES, Value::string("all"));
        served(vec![support(vec![get.clone()])]);
        assert_eq!(ask(&[query(&SUPPORT, &[host])]), answer(vec![support(vec![get.clone()])]));
        let names = Info::new(keys::CLIENT_FUNCTIONS, Value::Undef);
        served(vec![support(vec![Info::new(keys::CLIENT_FUNCTIONS, Value::string("PMIx_Get"))])]);
        let list = Info::new(keys::CLIENT_FUNCTIONS, Value::string("PMIx_Get,Site_run"));
        assert_eq!(ask(&[query(&SUPPORT, &[names])]), answer(vec![support(vec![list])]));
        served(vec![support(vec![get.clone()])]);
        let all = ask(&[query(&SUPPORT, &[])]).unwrap().infos;
        let all: Vec<_> = all[0].value.iter_infos().map(|info| info.key.to_string()).collect();
        let expected = ["PMIx_Get", keys::CLIENT_FUNCTIONS, "Site_run", keys::TOOL_FUNCTIONS, "Site_show"];
        assert_eq!(all, expected);

        // Several queries: which of them the server's info answers cannot be seen.
        let shown = Info::new("Site_show", array(&own[..1]));
        let tool = Info::new(keys::TOOL_ATTRIBUTES, Value::string("all"));
        served(vec![support(vec![get.clone()])]);
        let two = [query(&SUPPORT, std::slice::from_ref(&of_client)), query(&SUPPORT, &[tool])];
        let apart = vec![support(vec![get]), support(vec![run.clone()]), support(vec![shown])];
        assert_eq!(ask(&two), answer(apart));

        // A server without an answer does not take ours away.
        stage.answers_status(Status::ERR_NOT_SUPPORTED);
        let alone = ask(&[query(&SUPPORT, std::slice::from_ref(&of_client))]);
        assert_eq!(alone, answer(vec![support(vec![run.clone()])]));
        stage.answers_status(Status::ERR_NOT_SUPPORTED);
        let partial = ask(&[query(&[keys::QUERY_ATTRIBUTE_SUPPORT, keys::QUERY_NAMESPACES], &[of_client])]);
        let expected = InfoReply { status: Status::QUERY_PARTIAL_SUCCESS, infos: vec![support(vec![run])] };
        assert_eq!(partial, Ok(expected));
        stage.answers_status(Status::ERR_NOT_SUPPORTED);
        assert_eq!(ask(&[query(&[keys::QUERY_NAMESPACES], &[])]), Err(Status::ERR_NOT_SUPPORTED));
    }

    /// Such a query ends a server of 4.2.
    #[test]
    fn a_server_that_the_query_may_end_is_not_asked_for_what_the_process_knows() {
        let (stock, ours) = (stage(), stage_under(Version::new(4, 2, 2), true));
        let run = Info::new("Site_run", array(&[attribute("SITE_COLOR")]));
        let asked = || query(&SUPPORT, &[Info::new(keys::CLIENT_ATTRIBUTES, Value::string("Site_run"))]);
        for (stage, requests) in [(&stock, 0), (&ours, 1)] {
            let declared =
                stage.client.register_attributes(Level::Client, c"Site_run".into(), vec![attribute("SITE_COLOR")]);
            assert_eq!(declared, Ok(()));
            stage.answers_status(Status::ERR_NOT_FOUND);
            let told = stage.client.query(vec![asked()]).wait();
            assert_eq!((told, stage.asked().len()), (answer(vec![support(vec![run.clone()])]), requests));
        }
        let other = query(&[keys::QUERY_NAMESPACES], &[]);
        assert_eq!(stock.client.query(vec![asked(), other]).wait().map(|reply| reply.infos.len()), Ok(1));
        assert_eq!(stock.asked().len(), 1, "what else is asked for goes to the server");
    }

    #[test]
    fn an_answer_that_has_not_come_is_no_success() {
        for status in [Status::ERR_LOST_CONNECTION, Status::ERR_TIMEOUT] {
            let declared = OfProcess { answers: Vec::new(), is_all: true };
            assert_eq!(declared.beside(Err(status)), Err(status));
        }
    }

    #[test]
    fn what_a_process_declares_is_bounded() {
        let mut declared = Declared::default();
        let name = |number: usize| CString::new(format!("Site_{number}")).unwrap();
        let long = CString::new("n".repeat(KEY_LEN_MAX + 1)).unwrap();
        let mut add = |function: &CString, attributes| declared.add(Level::Client, function.clone(), attributes);
        assert_eq!(add(&long, Vec::new()), Err(Status::ERR_BAD_PARAM));
        assert_eq!(add(&CString::default(), Vec::new()), Err(Status::ERR_BAD_PARAM));
        let nameless = Regattr { name: Some(long), ..attribute("one") };
        assert_eq!(add(&name(0), vec![nameless]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(add(&name(0), vec![attribute("one"); ATTRIBUTES_MAX + 1]), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(add(&name(0), vec![attribute("one"); ATTRIBUTES_MAX]), Ok(()));
        assert_eq!(add(&name(1), vec![attribute("one")]), Err(Status::ERR_OUT_OF_RESOURCE));
        (1..FUNCTIONS_MAX).for_each(|number| assert_eq!(add(&name(number), Vec::new()), Ok(())));
        assert_eq!(add(&name(FUNCTIONS_MAX), Vec::new()), Err(Status::ERR_OUT_OF_RESOURCE));
    }
}
