//! The variables that a new job's processes need from the environment of the program that starts it.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use pmix_dstore::model::{Envar, Info, InfoFlags, Value, keys};

/// Variables that set parameters of PMIx libraries: every job gets them.
const OF_PMIX: &[u8] = b"PMIX_MCA_";
/// Variables that set parameters of Open MPI: its jobs get them, if the host requests it.
const OF_OPEN_MPI: &[u8] = b"OMPI_";

/// Attributes that request something of a fabric for a job. This library supports no fabric.
const OF_FABRICS: [&str; 9] = [
    keys::ALLOC_FABRIC,
    keys::ALLOC_FABRIC_ID,
    keys::ALLOC_FABRIC_SEC_KEY,
    keys::ALLOC_FABRIC_TYPE,
    keys::ALLOC_FABRIC_PLANE,
    keys::ALLOC_FABRIC_ENDPTS,
    keys::ALLOC_FABRIC_ENDPTS_NODE,
    keys::ALLOC_FABRIC_QOS,
    keys::ALLOC_BANDWIDTH,
];

/// Whether a required directive of the host concerns a fabric.
pub(crate) fn needs_fabric(infos: &[Info]) -> bool {
    let is_needed = |info: &&Info| info.flags & InfoFlags::REQUIRED != 0;
    infos.iter().filter(is_needed).any(|info| OF_FABRICS.iter().any(|key| info.key.is(key)))
}

/// The variables of `environment` for a new job, as `PMIX_SET_ENVAR`.
///
/// Networks would add theirs; the library knows none.
pub(crate) fn variables(infos: &[Info], environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<Info> {
    let asks = |key: &str| Info::is_set(infos, key);
    let is_open_mpi = infos.iter().any(|info| {
        let names_model = info.key.is(keys::PROGRAMMING_MODEL) || info.key.is(keys::PERSONALITY);
        names_model && info.value.as_text().is_some_and(|text| text.windows(4).any(|word| word == b"ompi"))
    });
    let with_open_mpi = is_open_mpi && (asks(keys::SETUP_APP_ENVARS) || asks(keys::SETUP_APP_ALL));
    let is_wanted = |name: &[u8]| name.starts_with(OF_PMIX) || (with_open_mpi && name.starts_with(OF_OPEN_MPI));
    environment
        .filter(|(name, _)| is_wanted(name.as_bytes()))
        .filter_map(|(name, value)| {
            let (name, value) = (CString::new(name.as_bytes()).ok()?, CString::new(value.as_bytes()).ok()?);
            let envar = Envar { name: Some(name), value: Some(value), separator: b':' };
            Some(Info::new(keys::SET_ENVAR, Value::Envar(envar)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(infos: &[Info]) -> Vec<String> {
        let all = ["PMIX_MCA_gds=hash", "OMPI_MCA_btl=self", "PATH=/bin", "PMIX_RANK=0"];
        let environment = all.iter().filter_map(|text| text.split_once('='));
        let found = variables(infos, environment.map(|(name, value)| (name.into(), value.into())));
        let name = |info: &Info| match &info.value {
            Value::Envar(Envar { name: Some(name), value: Some(value), separator: b':' }) => {
                assert!(info.key.is(keys::SET_ENVAR));
                format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
            }
            other => panic!("{other:?}"),
        };
        found.iter().map(name).collect()
    }

    #[test]
    fn a_job_gets_the_variables_of_its_model_where_the_host_asks() {
        assert_eq!(names(&[]), ["PMIX_MCA_gds=hash"]);
        let asks = Info::new(keys::SETUP_APP_ENVARS, Value::Bool(true));
        let model = Info::new(keys::PERSONALITY, Value::string("prrte,ompi"));
        assert_eq!(names(std::slice::from_ref(&asks)), ["PMIX_MCA_gds=hash"]);
        assert_eq!(names(std::slice::from_ref(&model)), ["PMIX_MCA_gds=hash"]);
        assert_eq!(names(&[model.clone(), asks]), ["PMIX_MCA_gds=hash", "OMPI_MCA_btl=self"]);
        let all = Info::new(keys::SETUP_APP_ALL, Value::Bool(true));
        assert_eq!(names(&[model.clone(), all]), ["PMIX_MCA_gds=hash", "OMPI_MCA_btl=self"]);
        let others = Info::new(keys::SETUP_APP_NONENVARS, Value::Bool(true));
        assert_eq!(names(&[model, others]), ["PMIX_MCA_gds=hash"], "there is nothing but variables");
    }

    #[test]
    fn required_fabric_attributes_are_refused() {
        for key in OF_FABRICS {
            let mut info = Info::new(key, Value::Bool(true));
            assert!(!needs_fabric(std::slice::from_ref(&info)), "{key}");
            info.flags = InfoFlags::REQUIRED;
            assert!(needs_fabric(&[info]), "{key}");
        }
    }
}
