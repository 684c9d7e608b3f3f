//! Users, and the access to other users' jobs that a host grants.

use std::collections::BTreeSet;

use pmix_dstore::model::{Info, Value, keys};

/// The verified user of a peer's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The effective user.
    pub uid: u32,
    /// Its group, if the kernel or the host confirms it. A peer's own claim does not count.
    pub gid: Option<u32>,
}

/// Users and groups that may reach other users' jobs, from `PMIX_ACCESS_PERMISSIONS`: in the attributes of
/// `PMIx_server_init` for all jobs, in a registration for that job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
}

impl Access {
    /// Reads the permissions among a host's attributes; empty if there are none.
    pub fn read(infos: &[Info]) -> Access {
        let mut access = Access::default();
        access.add(infos.iter());
        access
    }

    fn add<'i>(&mut self, infos: impl Iterator<Item = &'i Info>) {
        for info in infos {
            if info.key.is(keys::ACCESS_USERIDS) {
                self.uids.extend(numbers(&info.value));
            } else if info.key.is(keys::ACCESS_GRPIDS) {
                self.gids.extend(numbers(&info.value));
            } else if info.key.is(keys::ACCESS_PERMISSIONS) || info.key.is(keys::JOB_INFO_ARRAY) {
                self.add(info.value.iter_infos().collect::<Vec<_>>().into_iter());
            }
        }
    }

    /// Whether no user or group is admitted.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.gids.is_empty()
    }

    /// Whether a user is admitted.
    pub fn admits(&self, user: User) -> bool {
        self.uids.contains(&user.uid) || user.gid.is_some_and(|gid| self.gids.contains(&gid))
    }
}

/// The user of the job that a registration describes, if it contains one.
pub(crate) fn owner(infos: &[Info]) -> Option<u32> {
    let in_array =
        infos.iter().filter(|info| info.key.is(keys::JOB_INFO_ARRAY)).flat_map(|info| info.value.iter_infos());
    infos.iter().chain(in_array).find(|info| info.key.is(keys::USERID)).and_then(|info| info.value.as_u32())
}

/// The numbers of an array, or one.
fn numbers(value: &Value) -> impl Iterator<Item = u32> {
    let items = match value {
        Value::DataArray(array) => array.items.as_slice(),
        one => std::slice::from_ref(one),
    };
    items.iter().filter_map(Value::as_u32)
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::{DataArray, DataType};

    use super::*;

    fn array(numbers: &[u32]) -> Value {
        let items = numbers.iter().map(|number| Value::Uint32(*number)).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::UINT32, items }))
    }

    #[test]
    fn users_and_groups_are_read_alone_and_together() {
        let together =
            vec![Info::new(keys::ACCESS_USERIDS, array(&[7])), Info::new(keys::ACCESS_GRPIDS, array(&[8, 9]))];
        for infos in [
            together.clone(),
            vec![Info::new(keys::ACCESS_PERMISSIONS, Value::infos(together.clone()))],
            vec![Info::new(keys::JOB_INFO_ARRAY, Value::infos(together))],
        ] {
            let access = Access::read(&infos);
            let admits = |uid, gid| access.admits(User { uid, gid });
            assert!(admits(7, None) && admits(1, Some(9)));
            assert!(!admits(8, None) && !admits(1, Some(7)) && !admits(1, None));
        }
        assert!(Access::read(&[Info::new(keys::USERID, Value::Uint32(7))]).is_empty());
    }

    #[test]
    fn a_registration_names_its_user() {
        let user = Info::new(keys::USERID, Value::Uint32(7));
        assert_eq!(owner(std::slice::from_ref(&user)), Some(7));
        assert_eq!(owner(&[Info::new(keys::JOB_INFO_ARRAY, Value::infos([user]))]), Some(7));
        assert_eq!(owner(&[Info::new(keys::GRPID, Value::Uint32(7))]), None);
    }
}
