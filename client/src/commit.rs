//! What this process put, and what of it the server has.

use std::collections::HashMap;

use pmix_dstore::model::{Key, Kval, Scope, Value};

struct Put {
    key: Key,
    scope: Scope,
    value: Value,
    /// The server does not have it yet.
    is_new: bool,
}

/// The puts of this process, in the order in which keys first came.
#[derive(Default)]
pub struct Puts {
    puts: Vec<Put>,
    by_key: HashMap<Key, usize>,
}

/// What a commit sends: values for readers on the same node, then values for readers elsewhere.
pub type Parts = Vec<(Scope, Vec<Kval>)>;

impl Puts {
    /// Notes a put. The scope must not be internal.
    pub fn put(&mut self, key: Key, scope: Scope, value: Value) {
        match self.by_key.get(&key) {
            Some(&place) => self.puts[place] = Put { key, scope, value, is_new: true },
            None => {
                self.by_key.insert(key.clone(), self.puts.len());
                self.puts.push(Put { key, scope, value, is_new: true });
            }
        }
    }

    /// What to send: everything, as released servers expect at each commit, or only what is new.
    pub fn parts(&self, only_new: bool) -> Parts {
        let part = |scope: Scope, belongs: fn(Scope) -> bool| {
            let puts = self.puts.iter().filter(|put| belongs(put.scope) && (put.is_new || !only_new));
            let kvals: Vec<_> = puts.map(|put| Kval { key: put.key.clone(), value: put.value.clone() }).collect();
            (scope, kvals)
        };
        let parts = [part(Scope::Local, Scope::is_local), part(Scope::Remote, Scope::is_remote)];
        parts.into_iter().filter(|(_, kvals)| !kvals.is_empty()).collect()
    }

    /// The server has everything.
    pub fn committed(&mut self) {
        for put in &mut self.puts {
            put.is_new = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(parts: &Parts) -> Vec<(Scope, Vec<String>)> {
        parts.iter().map(|(scope, kvals)| (*scope, kvals.iter().map(|kval| kval.key.to_string()).collect())).collect()
    }

    #[test]
    fn a_global_key_goes_to_both_readers() {
        let mut puts = Puts::default();
        assert_eq!(puts.parts(false), []);
        puts.put("r".into(), Scope::Remote, Value::Int(1));
        puts.put("g".into(), Scope::Global, Value::Int(2));
        puts.put("l".into(), Scope::Local, Value::Int(3));
        let expected =
            vec![(Scope::Local, vec!["g".to_string(), "l".into()]), (Scope::Remote, vec!["r".into(), "g".into()])];
        assert_eq!(keys(&puts.parts(false)), expected);
        assert_eq!(keys(&puts.parts(true)), expected);
    }

    #[test]
    fn later_commits_repeat_all_or_send_what_is_new() {
        let mut puts = Puts::default();
        puts.put("a".into(), Scope::Local, Value::Int(1));
        puts.put("b".into(), Scope::Remote, Value::Int(2));
        puts.committed();
        puts.put("b".into(), Scope::Remote, Value::Int(3));
        assert_eq!(keys(&puts.parts(true)), [(Scope::Remote, vec!["b".to_string()])]);
        let all = puts.parts(false);
        assert_eq!(keys(&all), [(Scope::Local, vec!["a".to_string()]), (Scope::Remote, vec!["b".into()])]);
        assert_eq!(all[1].1[0].value, Value::Int(3));
        puts.committed();
        assert_eq!(puts.parts(true), []);
    }
}
