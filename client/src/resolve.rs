//! Which processes run on a node, and which nodes a job has.

use pmix_dstore::model::{Nspace, Proc, Result, Status};

use crate::Client;

impl Client {
    /// The processes of a job on a node; without a node on all of its nodes, without a namespace of the own job.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` where nobody knows the job; `ERR_DATA_VALUE_NOT_FOUND` where it is not known who runs
    /// on the node. A node that is not one of the job's has no processes.
    pub fn resolve_peers(&self, _node: Option<&[u8]>, _nspace: Option<&Nspace>) -> Result<Vec<Proc>> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// The names of a job's nodes, comma between them; `None` where it has none.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` where nobody knows the job.
    pub fn resolve_nodes(&self, _nspace: Option<&Nspace>) -> Result<Option<Vec<u8>>> {
        Err(Status::ERR_NOT_SUPPORTED)
    }
}
