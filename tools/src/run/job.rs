//! What the server is told about the job: session, job, application, node and processes.
//!
//! These are the values that the standard's server chapter requires of a host, for one application on one node.
//! Locality is given only for bound ranks: of others nothing true can be said.

use std::path::{Path, PathBuf};

use pmix_dstore::maps::{generate_ppn, generate_regex};
use pmix_dstore::model::{DataArray, DataType, Info, Nspace, Proc, Rank, Result, Value, keys};

use super::options::Binding;

/// Where a rank is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The processing units in list form, by the operating system's numbers; `None` for a rank that is not bound.
    pub cpuset: Option<String>,
    /// The caches, core and so on around them, in the form that Open MPI compares: `SK0:L30:L20:L10:CR0:HT0`.
    pub locality: Option<String>,
}

/// A job of one application on one node.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// The server's own name.
    pub server: Proc,
    /// The job's namespace.
    pub nspace: Nspace,
    /// The session's number.
    pub session_id: u32,
    /// The node's name.
    pub hostname: String,
    /// How ranks are bound.
    pub binding: Binding,
    /// One per rank.
    pub places: Vec<Place>,
    /// The ranks' working directory.
    pub wdir: PathBuf,
    /// Program and arguments, joined by blanks.
    pub argv: String,
    /// The job's directory, removed at the end; holds one of each rank.
    pub nsdir: PathBuf,
    /// The node's memory in bytes.
    pub memory: Option<u64>,
}

impl JobPlan {
    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// The directory of one rank.
    pub fn procdir(&self, rank: u32) -> PathBuf {
        self.nsdir.join(rank.to_string())
    }

    /// The array for `PMIx_server_register_nspace`.
    ///
    /// # Errors
    /// `BAD_PARAM` where the node's name holds a NUL.
    pub fn infos(&self) -> Result<Vec<Info>> {
        let mut infos = vec![array(keys::SESSION_INFO_ARRAY, self.session())];
        infos.extend(self.job()?);
        infos.push(array(keys::APP_INFO_ARRAY, self.app()));
        infos.push(array(keys::NODE_INFO_ARRAY, self.node()));
        infos.extend((0..self.size()).map(|rank| array(keys::PROC_INFO_ARRAY, self.proc(rank))));
        Ok(infos)
    }

    fn session(&self) -> Vec<Info> {
        vec![
            Info::new(keys::SESSION_ID, Value::Uint32(self.session_id)),
            Info::new(keys::UNIV_SIZE, Value::Uint32(self.size())),
            Info::new(keys::ALLOCATED_NODELIST, text(&self.hostname)),
        ]
    }

    fn job(&self) -> Result<Vec<Info>> {
        let size = self.size();
        let map = format!("0-{}", size - 1);
        Ok(vec![
            Info::new(keys::SERVER_NSPACE, text(self.server.nspace.as_bytes())),
            Info::new(keys::SERVER_RANK, Value::Rank(self.server.rank)),
            Info::new(keys::NSPACE, text(self.nspace.as_bytes())),
            Info::new(keys::JOBID, text(self.nspace.as_bytes())),
            Info::new(keys::JOB_SIZE, Value::Uint32(size)),
            Info::new(keys::UNIV_SIZE, Value::Uint32(size)),
            Info::new(keys::MAX_PROCS, Value::Uint32(size)),
            Info::new(keys::NUM_NODES, Value::Uint32(1)),
            Info::new(keys::JOB_NUM_APPS, Value::Uint32(1)),
            Info::new(keys::NPROC_OFFSET, Value::Uint32(0)),
            Info::new(keys::NODE_MAP, Value::Regex(generate_regex(self.hostname.as_bytes())?)),
            Info::new(keys::PROC_MAP, Value::Regex(generate_ppn(map.as_bytes())?)),
            Info::new(keys::ANL_MAP, text(format!("(vector,(0,1,{size}))"))),
            Info::new(keys::MAPBY, text("slot")),
            Info::new(keys::RANKBY, text("slot")),
            Info::new(keys::BINDTO, text(self.binding.name())),
            Info::new(keys::HOSTNAME_KEEP_FQDN, Value::Bool(self.hostname.contains('.'))),
        ])
    }

    fn app(&self) -> Vec<Info> {
        vec![
            Info::new(keys::APPNUM, Value::Uint32(0)),
            Info::new(keys::APP_SIZE, Value::Uint32(self.size())),
            Info::new(keys::MAX_PROCS, Value::Uint32(self.size())),
            Info::new(keys::APPLDR, Value::Rank(Rank(0))),
            Info::new(keys::WDIR, path(&self.wdir)),
            Info::new(keys::APP_ARGV, text(&self.argv)),
        ]
    }

    fn node(&self) -> Vec<Info> {
        let size = self.size();
        let peers: Vec<String> = (0..size).map(|rank| rank.to_string()).collect();
        let procs = (0..size).map(|rank| Value::Proc(Proc::new(self.nspace.clone(), Rank(rank)))).collect();
        let mut infos = vec![
            Info::new(keys::NODEID, Value::Uint32(0)),
            Info::new(keys::HOSTNAME, text(&self.hostname)),
            Info::new(keys::HOSTNAME_ALIASES, text(aliases(&self.hostname))),
            Info::new(keys::LOCAL_SIZE, Value::Uint32(size)),
            Info::new(keys::NODE_SIZE, Value::Uint32(size)),
            Info::new(keys::LOCALLDR, Value::Rank(Rank(0))),
            Info::new(keys::LOCAL_PEERS, text(peers.join(","))),
            Info::new(keys::LOCAL_PROCS, Value::DataArray(Box::new(DataArray { ty: DataType::PROC, items: procs }))),
            Info::new(keys::TMPDIR, path(self.nsdir.parent().unwrap_or(&self.nsdir))),
            Info::new(keys::NSDIR, path(&self.nsdir)),
        ];
        let cpusets: Option<Vec<&str>> = self.places.iter().map(|place| place.cpuset.as_deref()).collect();
        if let Some(cpusets) = cpusets {
            infos.push(Info::new(keys::LOCAL_CPUSETS, text(cpusets.join(":"))));
        }
        if let Some(memory) = self.memory {
            infos.push(Info::new(keys::AVAIL_PHYS_MEMORY, Value::Uint64(memory)));
        }
        infos
    }

    fn proc(&self, rank: u32) -> Vec<Info> {
        // With one node and one application every numbering of the ranks is the same one. The command line allows no
        // more ranks than this type has.
        let local = Value::Uint16(rank as u16);
        let place = &self.places[rank as usize];
        let mut infos = vec![
            Info::new(keys::RANK, Value::Rank(Rank(rank))),
            Info::new(keys::APPNUM, Value::Uint32(0)),
            Info::new(keys::APP_RANK, Value::Rank(Rank(rank))),
            Info::new(keys::GLOBAL_RANK, Value::Rank(Rank(rank))),
            Info::new(keys::LOCAL_RANK, local.clone()),
            Info::new(keys::NODE_RANK, local),
            Info::new(keys::NODEID, Value::Uint32(0)),
            Info::new(keys::HOSTNAME, text(&self.hostname)),
            Info::new(keys::REINCARNATION, Value::Uint32(0)),
            Info::new(keys::SPAWNED, Value::Bool(false)),
            Info::new(keys::PROCDIR, path(&self.procdir(rank))),
        ];
        infos.extend(place.locality.as_ref().map(|locality| Info::new(keys::LOCALITY_STRING, text(locality))));
        infos.extend(place.cpuset.as_ref().map(|cpuset| Info::new(keys::CPUSET, text(cpuset))));
        infos
    }
}

fn array(key: &'static str, infos: Vec<Info>) -> Info {
    Info::new(key, Value::infos(infos))
}

fn text(text: impl AsRef<[u8]>) -> Value {
    Value::string(text)
}

fn path(path: &Path) -> Value {
    Value::string(path.as_os_str().as_encoded_bytes())
}

/// Other names by which programs may ask for this node.
fn aliases(hostname: &str) -> String {
    match hostname.split_once('.') {
        Some((short, _)) => format!("{short},localhost"),
        None => "localhost".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(places: Vec<Place>) -> JobPlan {
        JobPlan {
            server: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
            nspace: Nspace::new("job").unwrap(),
            session_id: 9,
            hostname: "node.example".into(),
            binding: Binding::None,
            places,
            wdir: "/work".into(),
            argv: "prog a b".into(),
            nsdir: "/tmp/x/job".into(),
            memory: Some(1 << 30),
        }
    }

    fn find<'a>(infos: &'a [Info], key: &str) -> Option<&'a Value> {
        infos.iter().find(|info| info.key.is(key)).map(|info| &info.value)
    }

    fn arrays(infos: &[Info], key: &str) -> Vec<Vec<Info>> {
        infos.iter().filter(|info| info.key.is(key)).map(|info| info.value.iter_infos().cloned().collect()).collect()
    }

    #[test]
    fn every_realm_has_what_the_standard_requires() {
        let infos = plan(vec![Place::default(); 3]).infos().unwrap();
        let required: [(&str, &[&str]); 4] = [
            (keys::SESSION_INFO_ARRAY, &[keys::SESSION_ID, keys::UNIV_SIZE]),
            (keys::APP_INFO_ARRAY, &[keys::APPNUM, keys::APP_SIZE, keys::APPLDR, keys::WDIR, keys::APP_ARGV]),
            (
                keys::NODE_INFO_ARRAY,
                &[
                    keys::NODEID,
                    keys::HOSTNAME,
                    keys::HOSTNAME_ALIASES,
                    keys::LOCAL_SIZE,
                    keys::NODE_SIZE,
                    keys::LOCALLDR,
                    keys::LOCAL_PEERS,
                    keys::TMPDIR,
                    keys::NSDIR,
                    keys::LOCAL_PROCS,
                ],
            ),
            (
                keys::PROC_INFO_ARRAY,
                &[
                    keys::RANK,
                    keys::APPNUM,
                    keys::APP_RANK,
                    keys::GLOBAL_RANK,
                    keys::LOCAL_RANK,
                    keys::NODE_RANK,
                    keys::NODEID,
                    keys::REINCARNATION,
                    keys::SPAWNED,
                    keys::PROCDIR,
                ],
            ),
        ];
        for (realm, wanted) in required {
            let found = arrays(&infos, realm);
            assert_eq!(found.len(), if realm == keys::PROC_INFO_ARRAY { 3 } else { 1 }, "{realm}");
            for array in found {
                for key in wanted {
                    assert!(find(&array, key).is_some(), "{realm} lacks {key}");
                }
            }
        }
        for key in [
            keys::SERVER_NSPACE,
            keys::SERVER_RANK,
            keys::NSPACE,
            keys::JOBID,
            keys::JOB_SIZE,
            keys::MAX_PROCS,
            keys::NODE_MAP,
            keys::PROC_MAP,
        ] {
            assert!(find(&infos, key).is_some(), "the job lacks {key}");
        }
    }

    #[test]
    fn the_maps_name_the_node_and_all_ranks() {
        let infos = plan(vec![Place::default(); 3]).infos().unwrap();
        assert_eq!(find(&infos, keys::NODE_MAP), Some(&Value::Regex(b"raw:node.example\0".to_vec())));
        assert_eq!(find(&infos, keys::PROC_MAP), Some(&Value::Regex(b"raw:0-2\0".to_vec())));
        assert_eq!(find(&infos, keys::ANL_MAP), Some(&Value::string("(vector,(0,1,3))")));
    }

    #[test]
    fn locality_is_told_of_bound_ranks_only() {
        let bound = Place { cpuset: Some("1".into()), locality: Some("CR1:HT1".into()) };
        let infos = plan(vec![bound, Place::default()]).infos().unwrap();
        let procs = arrays(&infos, keys::PROC_INFO_ARRAY);
        assert_eq!(find(&procs[0], keys::LOCALITY_STRING), Some(&Value::string("CR1:HT1")));
        assert_eq!(find(&procs[0], keys::CPUSET), Some(&Value::string("1")));
        assert_eq!(find(&procs[1], keys::LOCALITY_STRING), None);
        assert_eq!(find(&arrays(&infos, keys::NODE_INFO_ARRAY)[0], keys::LOCAL_CPUSETS), None);
    }
}
