//! The values that this process put, and which of them the server has.

use std::collections::HashMap;
use std::sync::Arc;

use pmix_dstore::model::{Key, Result, Scope, Status, Value};
use pmix_dstore::{fallible_alloc, qualified};

use pmix_wire::REQUEST_LEN_MAX;

/// Upper bound of a commit's overhead: bytes besides its keys and values.
const COMMIT_OVERHEAD: usize = 1 << 10;
/// Upper bound of a value's overhead: bytes besides its key and content.
const VALUE_OVERHEAD: usize = 64;

struct Put {
    key: Key,
    /// `None` after deletion for all readers.
    scope: Option<Scope>,
    value: Arc<Value>,
    /// Bytes that this put takes in a commit.
    len: usize,
    /// The server does not have it yet.
    is_new: bool,
}

impl Put {
    fn kval(&self) -> (&Key, &Value) {
        (&self.key, &self.value)
    }

    fn is_for(&self, is_reader: impl FnOnce(Scope) -> bool) -> bool {
        self.scope.is_some_and(is_reader)
    }
}

/// The puts of this process, in the order of each key's first put.
pub struct Puts {
    /// The server keeps the values of earlier commits: a commit sends new values only, each once. Otherwise a commit sends all
    /// values, as released servers expect: once for readers on this node and once for readers elsewhere.
    pub only_new: bool,
    /// The server has a commit, as far as known.
    pub has_committed: bool,
    /// A commit has been sent, whether or not it was refused later.
    pub has_sent: bool,
    puts: Vec<Put>,
    /// Indexes of the puts that the server does not have yet, in their order, so that a commit need not search all puts.
    new: Vec<usize>,
    /// Indexes of the puts by key; for values with qualifiers, by key and qualifiers.
    by_name: HashMap<Vec<u8>, usize>,
    /// Bytes that all puts take in a commit.
    len: usize,
    /// Bytes that the puts in `new` take in a commit.
    new_len: usize,
    /// Keys deleted since the last commit, with the readers for which they are deleted.
    deleted: HashMap<Key, Scope>,
    /// Bytes that `deleted` takes in a commit.
    deleted_len: usize,
}

/// The content of a commit; each part has its `pmix_scope_t`. First deleted keys, then values for readers on the same
/// node, then values for readers on other nodes. The server applies the parts in this order, so that a key that was
/// deleted and put again exists.
pub type Parts<'a> = Vec<(u8, Vec<(&'a Key, &'a Value)>)>;

/// The value sent with a deleted key: the message format needs a value for each key.
static NO_VALUE: Value = Value::Undef;

impl Puts {
    /// Nothing put yet.
    pub fn new(only_new: bool) -> Puts {
        Puts {
            only_new,
            has_committed: false,
            has_sent: false,
            puts: Vec::new(),
            new: Vec::new(),
            by_name: HashMap::new(),
            len: 0,
            new_len: 0,
            deleted: HashMap::new(),
            deleted_len: 0,
        }
    }

    /// Notes a put of a value of `value_len` packed bytes. The scope must not be internal.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` where this value would make the next commit too long to be sent (earlier puts are kept);
    /// `ERR_BAD_PARAM` for a malformed qualified value; `ERR_NOMEM`.
    pub fn put(&mut self, key: Key, scope: Scope, value: Arc<Value>, value_len: usize) -> Result<()> {
        fallible_alloc::reserve(&mut self.puts, 1)?;
        fallible_alloc::reserve(&mut self.new, 1)?;
        fallible_alloc::reserve_entries(&mut self.by_name, 1)?;
        let mut name = key.as_bytes().to_vec();
        if qualified::is_key(&key) {
            name.extend(qualified::identity(&value)?);
        }
        let readers = usize::from(scope.is_local()) + usize::from(scope.is_remote());
        let len = value_len.saturating_add(key.as_bytes().len() + VALUE_OVERHEAD).saturating_mul(readers);
        let place = self.by_name.get(&name).copied();
        let (old_len, old_new_len) = match place.map(|place| &self.puts[place]) {
            Some(old) => (old.len, if old.is_new { old.len } else { 0 }),
            None => (0, 0),
        };
        let (all, new) = ((self.len - old_len).saturating_add(len), (self.new_len - old_new_len).saturating_add(len));
        let sent = (if self.only_new { new } else { all }).saturating_add(self.deleted_len);
        if sent.saturating_add(COMMIT_OVERHEAD) > REQUEST_LEN_MAX {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        (self.len, self.new_len) = (all, new);
        let put = Put { key, scope: Some(scope), value, len, is_new: true };
        match place {
            Some(place) => {
                if !std::mem::replace(&mut self.puts[place], put).is_new {
                    self.new.push(place);
                }
            }
            None => {
                self.by_name.insert(name, self.puts.len());
                self.new.push(self.puts.len());
                self.puts.push(put);
            }
        }
        Ok(())
    }

    /// Notes that a key is deleted for the readers of a scope, which must not be internal. Returns the scope in which
    /// its value is still put.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` where the next commit would be too long to be sent; `ERR_NOMEM`.
    pub fn delete(&mut self, key: &Key, scope: Scope) -> Result<Option<Scope>> {
        fallible_alloc::reserve_entries(&mut self.deleted, 1)?;
        let before = self.deleted.get(key.as_bytes()).copied();
        if before.is_none() {
            let len = self.deleted_len + key.as_bytes().len() + VALUE_OVERHEAD;
            let values = if self.only_new { self.new_len } else { self.len };
            if len.saturating_add(values).saturating_add(COMMIT_OVERHEAD) > REQUEST_LEN_MAX {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            self.deleted_len = len;
        }
        self.deleted.insert(key.clone(), before.map_or(scope, |before| before.with(scope)));
        Ok(self.withdraw(key, scope))
    }

    /// As [`Puts::delete`], of a process that has had no server yet: there is nobody to hear of it.
    pub fn withdraw(&mut self, key: &Key, scope: Scope) -> Option<Scope> {
        let place = self.by_name.get(key.as_bytes()).copied()?;
        let put = &mut self.puts[place];
        put.scope = put.scope.and_then(|put| put.without(scope));
        if put.scope.is_none() {
            let len = std::mem::take(&mut put.len);
            put.value = Arc::new(Value::Undef);
            self.len -= len;
            self.new_len -= if put.is_new { len } else { 0 };
        }
        put.scope
    }

    /// The scope in which the value of a key is put.
    pub fn scope_of(&self, key: &Key) -> Option<Scope> {
        self.puts[*self.by_name.get(key.as_bytes())?].scope
    }

    /// The parts that the next commit sends.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn parts(&self) -> Result<Parts<'_>> {
        const SCOPES: [Scope; 3] = [Scope::Local, Scope::Remote, Scope::Global];
        let mut parts = Parts::new();
        for scope in SCOPES {
            let keys = self.deleted.iter().filter(|(_, deleted)| **deleted == scope);
            add_part(&mut parts, scope.deletion_code(), keys.map(|(key, _)| (key, &NO_VALUE)))?;
        }
        if self.only_new {
            let new = || self.new.iter().map(|place| &self.puts[*place]);
            for scope in SCOPES {
                let of_scope = new().filter(|put| put.scope == Some(scope));
                add_part(&mut parts, scope as u8, of_scope.map(Put::kval))?;
            }
        } else {
            for (scope, is_reader) in
                [(Scope::Local, Scope::is_local as fn(Scope) -> bool), (Scope::Remote, Scope::is_remote)]
            {
                let of_reader = self.puts.iter().filter(|put| put.is_for(is_reader));
                add_part(&mut parts, scope as u8, of_reader.map(Put::kval))?;
            }
        }
        Ok(parts)
    }

    /// Values that readers on other nodes may get, except values with qualifiers.
    pub fn remote(&self) -> impl Iterator<Item = (&Key, &Value)> {
        let is_remote = |put: &&Put| put.is_for(Scope::is_remote) && !qualified::is_key(&put.key);
        self.puts.iter().filter(is_remote).map(Put::kval)
    }

    /// Marks all puts and deletions as known to the server.
    pub fn committed(&mut self) {
        (self.has_committed, self.has_sent) = (true, true);
        (self.new_len, self.deleted_len) = (0, 0);
        self.deleted.clear();
        for place in self.new.drain(..) {
            self.puts[place].is_new = false;
        }
    }

    /// Marks all puts as new: the server has refused the first commit.
    pub fn refused(&mut self) {
        self.has_committed = false;
        for (place, put) in self.puts.iter_mut().enumerate().filter(|(_, put)| !put.is_new) {
            put.is_new = true;
            self.new_len += put.len;
            self.new.push(place);
        }
    }
}

fn add_part<'a>(parts: &mut Parts<'a>, code: u8, kvals: impl Iterator<Item = (&'a Key, &'a Value)>) -> Result<()> {
    let mut part = Vec::new();
    for kval in kvals {
        fallible_alloc::push(&mut part, kval)?;
    }
    if !part.is_empty() {
        parts.push((code, part));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(puts: &mut Puts, key: &'static str, scope: Scope, value: i32) {
        puts.put(key.into(), scope, Value::Int(value).into(), 8).unwrap();
    }

    fn keys(puts: &mut Puts, only_new: bool) -> Vec<(Scope, Vec<String>)> {
        let scope = |code| Scope::from_code(code).expect("nothing is deleted");
        coded_keys(puts, only_new).into_iter().map(|(code, keys)| (scope(code), keys)).collect()
    }

    fn coded_keys(puts: &mut Puts, only_new: bool) -> Vec<(u8, Vec<String>)> {
        puts.only_new = only_new;
        let parts = puts.parts().unwrap();
        parts.iter().map(|(code, kvals)| (*code, kvals.iter().map(|(key, _)| key.to_string()).collect())).collect()
    }

    #[test]
    fn deleted_keys_come_first_and_go_with_their_readers() {
        let (del_local, del_remote, del_global) = (5, 6, 7);
        let part = |code: u8, key: &str| (code, vec![key.to_owned()]);
        let mut puts = Puts::new(true);
        put(&mut puts, "g", Scope::Global, 1);
        put(&mut puts, "l", Scope::Local, 2);
        puts.committed();
        assert_eq!(puts.delete(&"g".into(), Scope::Local), Ok(Some(Scope::Remote)));
        assert_eq!(puts.delete(&"l".into(), Scope::Global), Ok(None));
        assert_eq!((puts.scope_of(&"g".into()), puts.scope_of(&"l".into())), (Some(Scope::Remote), None));
        assert_eq!(coded_keys(&mut puts, true), [part(del_local, "g"), part(del_global, "l")]);
        assert_eq!(coded_keys(&mut puts, false), [part(del_local, "g"), part(del_global, "l"), part(2, "g")]);
        assert_eq!(puts.delete(&"g".into(), Scope::Remote), Ok(None));
        put(&mut puts, "l", Scope::Remote, 3);
        let again = [(del_global, vec!["g".to_owned(), "l".to_owned()]), part(2, "l")];
        for only_new in [true, false] {
            let mut keys = coded_keys(&mut puts, only_new);
            keys.iter_mut().for_each(|(_, keys)| keys.sort());
            assert_eq!(keys, again);
        }
        puts.committed();
        assert_eq!(coded_keys(&mut puts, true), []);
        assert_eq!(puts.delete(&"never".into(), Scope::Remote), Ok(None), "no error");
        assert_eq!(coded_keys(&mut puts, true), [part(del_remote, "never")]);
        assert_eq!(puts.remote().count(), 1);
    }

    #[test]
    fn a_global_key_goes_to_both_readers() {
        let mut puts = Puts::new(true);
        assert_eq!(keys(&mut puts, false), []);
        put(&mut puts, "r", Scope::Remote, 1);
        put(&mut puts, "g", Scope::Global, 2);
        put(&mut puts, "l", Scope::Local, 3);
        let expected =
            vec![(Scope::Local, vec!["g".to_string(), "l".into()]), (Scope::Remote, vec!["r".into(), "g".into()])];
        assert_eq!(keys(&mut puts, false), expected);
        let once = [(Scope::Local, "l"), (Scope::Remote, "r"), (Scope::Global, "g")];
        assert_eq!(keys(&mut puts, true), once.map(|(scope, key)| (scope, vec![key.to_string()])), "each value once");
    }

    #[test]
    fn later_commits_repeat_all_values_or_send_the_delta() {
        let mut puts = Puts::new(true);
        put(&mut puts, "a", Scope::Local, 1);
        put(&mut puts, "b", Scope::Remote, 2);
        puts.committed();
        put(&mut puts, "b", Scope::Remote, 3);
        assert_eq!(keys(&mut puts, true), [(Scope::Remote, vec!["b".to_string()])]);
        assert_eq!(keys(&mut puts, false), [(Scope::Local, vec!["a".to_string()]), (Scope::Remote, vec!["b".into()])]);
        assert_eq!(puts.parts().unwrap()[1].1[0].1, &Value::Int(3));
        puts.committed();
        assert_eq!(keys(&mut puts, true), []);
    }

    #[test]
    fn values_that_a_commit_cannot_send_are_refused_at_put() {
        const MIB: usize = 1 << 20;
        let mut puts = Puts::new(true);
        let put = |puts: &mut Puts, key: &'static str, scope, mib: usize, only_new| {
            puts.only_new = only_new;
            puts.put(key.into(), scope, Value::Int(0).into(), mib * MIB)
        };
        let full = Err(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(put(&mut puts, "whole", Scope::Local, 1024, true), full);
        assert_eq!(put(&mut puts, "twice", Scope::Global, 512, true), full, "for both readers");
        assert_eq!(put(&mut puts, "a", Scope::Local, 600, true), Ok(()));
        assert_eq!(put(&mut puts, "b", Scope::Local, 600, true), full);
        assert_eq!(put(&mut puts, "a", Scope::Local, 700, true), Ok(()), "in place of the former");
        assert_eq!(put(&mut puts, "b", Scope::Remote, 323, true), Ok(()));
        assert_eq!(keys(&mut puts, true).len(), 2);
        puts.committed();
        assert_eq!(put(&mut puts, "c", Scope::Local, 1023, true), Ok(()), "to a server that has the others");
        assert_eq!(put(&mut puts, "c", Scope::Local, 1, false), full, "to one that is sent everything");
        assert_eq!(put(&mut puts, "a", Scope::Local, usize::MAX / MIB, true), full);
        assert_eq!(keys(&mut puts, false)[0].1.len(), 2);
    }
}
