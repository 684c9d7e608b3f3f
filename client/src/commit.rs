//! What this process put, and what of it the server has.

use std::collections::HashMap;
use std::sync::Arc;

use pmix_dstore::model::{Key, Result, Scope, Status, Value};
use pmix_dstore::{fallible_alloc, qualified};

use pmix_wire::REQUEST_LEN_MAX;

/// What a commit needs beside its keys and values, generously.
const COMMIT_OVERHEAD: usize = 1 << 10;
/// What a value needs beside its key and itself, generously.
const VALUE_OVERHEAD: usize = 64;

struct Put {
    key: Key,
    scope: Scope,
    value: Arc<Value>,
    /// Bytes of a commit that it fills.
    len: usize,
    /// The server does not have it yet.
    is_new: bool,
}

/// The puts of this process, in the order in which keys first came.
pub struct Puts {
    /// The server keeps what earlier commits brought: a commit sends what is new, each value once. Otherwise it sends
    /// everything, as released servers expect, once for each kind of readers.
    pub only_new: bool,
    /// The server has taken a commit.
    pub has_committed: bool,
    puts: Vec<Put>,
    /// Those that the server does not have yet, in the order in which they came: a commit does not look through all others.
    new: Vec<usize>,
    /// By key; of values with qualifiers by what tells them apart, too.
    by_name: HashMap<Vec<u8>, usize>,
    /// Bytes of a commit that all of them fill.
    len: usize,
    /// The same of those that the server does not have yet.
    new_len: usize,
}

/// What a commit sends: values for readers on the same node, then values for readers elsewhere.
pub type Parts<'a> = Vec<(Scope, Vec<(&'a Key, &'a Value)>)>;

impl Puts {
    /// Nothing put yet.
    pub fn new(only_new: bool) -> Puts {
        Puts {
            only_new,
            has_committed: false,
            puts: Vec::new(),
            new: Vec::new(),
            by_name: HashMap::new(),
            len: 0,
            new_len: 0,
        }
    }

    /// Notes a put of a value of `value_len` packed bytes. The scope must not be internal.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` where the next commit would be too long to be sent; what was put before it can be; `ERR_BAD_PARAM`
    /// for a qualified value that is none; `ERR_NOMEM`.
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
        if (if self.only_new { new } else { all }).saturating_add(COMMIT_OVERHEAD) > REQUEST_LEN_MAX {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        (self.len, self.new_len) = (all, new);
        let put = Put { key, scope, value, len, is_new: true };
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

    /// What to send.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn parts(&self) -> Result<Parts<'_>> {
        let mut parts = Parts::new();
        if self.only_new {
            let new = || self.new.iter().map(|place| &self.puts[*place]);
            for scope in [Scope::Local, Scope::Remote, Scope::Global] {
                add_part(&mut parts, scope, new().filter(|put| put.scope == scope))?;
            }
        } else {
            add_part(&mut parts, Scope::Local, self.puts.iter().filter(|put| put.scope.is_local()))?;
            add_part(&mut parts, Scope::Remote, self.puts.iter().filter(|put| put.scope.is_remote()))?;
        }
        Ok(parts)
    }

    /// What readers elsewhere may have, but for values with qualifiers.
    pub fn remote(&self) -> impl Iterator<Item = (&Key, &Value)> {
        let is_remote = |put: &&Put| put.scope.is_remote() && !qualified::is_key(&put.key);
        self.puts.iter().filter(is_remote).map(|put| (&put.key, &*put.value))
    }

    /// The server has everything.
    pub fn committed(&mut self) {
        self.has_committed = true;
        self.new_len = 0;
        for place in self.new.drain(..) {
            self.puts[place].is_new = false;
        }
    }
}

fn add_part<'a>(parts: &mut Parts<'a>, scope: Scope, puts: impl Iterator<Item = &'a Put>) -> Result<()> {
    let mut part = Vec::new();
    for put in puts {
        fallible_alloc::push(&mut part, (&put.key, &*put.value))?;
    }
    if !part.is_empty() {
        parts.push((scope, part));
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
        puts.only_new = only_new;
        let parts = puts.parts().unwrap();
        parts.iter().map(|(scope, kvals)| (*scope, kvals.iter().map(|(key, _)| key.to_string()).collect())).collect()
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
    fn later_commits_repeat_all_or_send_what_is_new() {
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
    fn what_a_commit_cannot_send_is_not_put() {
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
