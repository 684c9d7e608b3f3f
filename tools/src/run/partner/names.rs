//! The names of processes of two clusters.
//!
//! Each launcher names the jobs of its own cluster as they are, and those of the other one with their cluster: `cluster:nspace`. On the
//! link all names have their cluster.

use pmix_dstore::model::{Info, Nspace, Proc, Value, keys};

/// The longest name of a cluster: the names of its jobs are longer.
pub const CLUSTER_LEN_MAX: usize = 63;

/// The name of a cluster, as a user may give it.
///
/// # Errors
/// A message for the user.
pub fn cluster(name: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    if name.is_empty() || name.len() > CLUSTER_LEN_MAX || !name.bytes().all(is_allowed) {
        return Err(format!(
            "the name of a cluster has 1 to {CLUSTER_LEN_MAX} printable characters, none of them a colon"
        ));
    }
    Ok(name.to_owned())
}

/// The names as one cluster has them.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The cluster's name and the colon.
    prefix: Vec<u8>,
}

impl Names {
    pub fn of(cluster: &str) -> Names {
        Names { prefix: format!("{cluster}:").into_bytes() }
    }

    pub fn cluster(&self) -> &str {
        self.prefix.strip_suffix(b":").and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Whether a name on the link is that of a job of this cluster.
    pub fn has(&self, nspace: &Nspace) -> bool {
        nspace.as_bytes().starts_with(&self.prefix)
    }

    /// The name on the link. A name that gets too long is nobody's.
    pub fn on_link(&self, nspace: &Nspace) -> Nspace {
        if nspace.has_cluster() {
            return nspace.clone();
        }
        Nspace::new([&self.prefix, nspace.as_bytes()].concat()).unwrap_or_else(|_| nspace.clone())
    }

    /// The name in this cluster.
    pub fn here(&self, nspace: &Nspace) -> Nspace {
        let own = nspace.as_bytes().strip_prefix(&self.prefix[..]).map(Nspace::new);
        own.and_then(Result::ok).unwrap_or_else(|| nspace.clone())
    }

    pub fn proc_on_link(&self, proc: &Proc) -> Proc {
        Proc::new(self.on_link(&proc.nspace), proc.rank)
    }

    pub fn proc_here(&self, proc: &Proc) -> Proc {
        Proc::new(self.here(&proc.nspace), proc.rank)
    }

    /// Gives the processes in infos the names of the link.
    pub fn infos_on_link(&self, infos: &mut [Info]) {
        infos.iter_mut().for_each(|info| rename(&mut info.value, &|nspace| self.on_link(nspace)));
    }

    /// Gives the processes in infos their names in this cluster.
    pub fn infos_here(&self, infos: &mut [Info]) {
        infos.iter_mut().for_each(|info| rename(&mut info.value, &|nspace| self.here(nspace)));
    }

    /// What the other cluster is told of a job: what its processes may ask for, without what belongs to this launcher and its files.
    pub fn job_on_link(&self, mut infos: Vec<Info>) -> Vec<Info> {
        retain_told(&mut infos);
        self.infos_on_link(&mut infos);
        infos
    }
}

/// What the other cluster is not told of a job. Of the launcher's session it knows the cluster.
const NOT_TOLD: [&str; 12] = [
    keys::SESSION_INFO_ARRAY,
    keys::LOCAL_TOPO,
    keys::HWLOC_XML_V2,
    keys::SERVER_NSPACE,
    keys::SERVER_RANK,
    keys::TMPDIR,
    keys::NSDIR,
    keys::PROCDIR,
    keys::PARENT_ID,
    keys::DEBUG_STOP_IN_INIT,
    keys::DEBUG_STOP_IN_APP,
    keys::BREAKPOINT,
];

fn retain_told(infos: &mut Vec<Info>) {
    // The other server knows a job by the name that it registers.
    let is_name = |info: &Info| info.key.is(keys::NSPACE) || info.key.is(keys::JOBID);
    infos.retain(|info| !is_name(info) && !NOT_TOLD.iter().any(|key| info.key.is(key)));
    for info in infos {
        if let Value::DataArray(array) = &mut info.value {
            let items = std::mem::take(&mut array.items);
            let is_told = |item: &Value| match item {
                Value::Info(info) => !is_name(info) && !NOT_TOLD.iter().any(|key| info.key.is(key)),
                _ => true,
            };
            array.items = items.into_iter().filter(is_told).collect();
        }
    }
}

/// Renames the processes in a value. It is as deep as what was packed may be.
fn rename(value: &mut Value, name: &impl Fn(&Nspace) -> Nspace) {
    match value {
        Value::Proc(proc) => proc.nspace = name(&proc.nspace),
        Value::ProcNspace(nspace) => *nspace = name(nspace),
        Value::Info(info) => rename(&mut info.value, name),
        Value::DataArray(array) => array.items.iter_mut().for_each(|item| rename(item, name)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pmix_dstore::model::Rank;

    use super::*;

    fn proc(name: &str) -> Proc {
        Proc::new(Nspace::new(name).unwrap(), Rank(1))
    }

    #[test]
    fn each_cluster_names_its_own_jobs_without_it() {
        let (east, west) = (Names::of("east"), Names::of("west"));
        for (there, on_link, here) in [("job", "east:job", "east:job"), ("west:job", "west:job", "job")] {
            assert_eq!(east.proc_on_link(&proc(there)), proc(on_link));
            assert_eq!(west.proc_here(&proc(on_link)), proc(here));
        }
        assert_eq!(east.proc_here(&proc("east:job")), proc("job"));
        assert!(east.has(&proc("east:job").nspace) && !east.has(&proc("eastern:job").nspace));
        // A name that gets too long stays as it is, and is no name of either cluster.
        let long = proc(&"n".repeat(253));
        assert_eq!(east.proc_on_link(&long), long);
        for wrong in ["", "a:b", "a b", &"c".repeat(64)] {
            assert!(cluster(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_job_is_told_without_what_belongs_to_its_launcher() {
        let of_job = vec![
            Info::new(keys::NSPACE, Value::string("job")),
            Info::new(keys::JOB_SIZE, Value::Uint32(2)),
            Info::new(keys::NSDIR, Value::string("/tmp/x")),
            Info::new(keys::LOCAL_PROCS, Value::procs([proc("job")])),
        ];
        let infos = vec![
            Info::new(keys::SESSION_INFO_ARRAY, Value::infos([])),
            Info::new(keys::JOB_INFO_ARRAY, Value::infos(of_job)),
        ];
        let told = Names::of("east").job_on_link(infos);
        let of_job = [
            Info::new(keys::JOB_SIZE, Value::Uint32(2)),
            Info::new(keys::LOCAL_PROCS, Value::procs([proc("east:job")])),
        ];
        assert_eq!(told, [Info::new(keys::JOB_INFO_ARRAY, Value::infos(of_job))]);
    }
}
