//! Tools: processes at a server of their own choice.

use std::sync::Arc;

use pmix_client::process as client_process;
use pmix_client::tool::Servers;
use pmix_dstore::model::{Result, Status};
use pmix_server::process;

use super::{present, writable};
use crate::callback::fill;
use crate::convert::array::{self, CArray};
use crate::convert::object::Object;
use crate::entry::{entry, status_call};
use crate::host::CHost;
use crate::types::*;

/// The servers of this process, which is a tool.
fn servers() -> Result<Arc<Servers>> {
    client_process::servers().ok_or(Status::ERR_INIT)
}

status_call! {
    /// `PMIx_tool_init`: connects this process to a server as a tool; counted.
    fn PMIx_tool_init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        let me = client_process::init_tool(&array::read(info, ninfo)?)?;
        if proc.is_null() { Ok(()) } else { fill(&me, proc) }
    }

    /// `PMIx_tool_finalize`: undoes one [`PMIx_tool_init`]; with the last one ends the server that the tool has become.
    fn PMIx_tool_finalize() {
        if client_process::count() == 1 && client_process::servers().is_some() {
            process::end_of_tool();
        }
        super::client::finalize(&[])
    }

    /// `PMIx_tool_set_server_module`: makes this tool a server, too, with its own name and the module for what its clients ask.
    fn PMIx_tool_set_server_module(module: *mut pmix_server_module_t) {
        servers()?;
        let client = super::client()?;
        process::begin_for_tool(Arc::new(CHost::new(present(module)?, None)), client.me())?;
        super::server::watch_forks();
        Ok(())
    }

    /// `PMIx_tool_attach_to_server`: connects this tool to one more server.
    fn PMIx_tool_attach_to_server(
        myproc: *mut pmix_proc_t,
        server: *mut pmix_proc_t,
        info: *mut pmix_info_t,
        ninfo: usize,
    ) {
        let servers = servers()?;
        let attached = servers.attach_to(&array::read(info, ninfo)?)?;
        if !myproc.is_null() {
            fill(super::client()?.me(), myproc)?;
        }
        if server.is_null() { Ok(()) } else { fill(&attached, server) }
    }

    /// `PMIx_tool_connect_to_server`: the same by its old name.
    fn PMIx_tool_connect_to_server(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        servers()?.attach_to(&array::read(info, ninfo)?)?;
        if proc.is_null() { Ok(()) } else { fill(super::client()?.me(), proc) }
    }

    /// `PMIx_tool_disconnect`: says farewell to a server.
    fn PMIx_tool_disconnect(server: *const pmix_proc_t) {
        servers()?.leave(&pmix_proc_t::read(present(server)?)?)
    }

    /// `PMIx_tool_get_servers`: the servers that this tool is connected to, the one in use first.
    fn PMIx_tool_get_servers(servers_: *mut *mut pmix_proc_t, nservers: *mut usize) {
        let (at, count) = (writable(servers_)?, writable(nservers)?);
        let all = servers()?.all();
        if all.is_empty() {
            return Err(Status::ERR_UNREACH);
        }
        (*at, *count) = CArray::new(&all)?.into_raw();
        Ok(())
    }

    /// `PMIx_tool_set_server`: uses another one of the servers that this tool is connected to.
    fn PMIx_tool_set_server(server: *const pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        servers()?.choose(&pmix_proc_t::read(present(server)?)?, &array::read(info, ninfo)?)
    }
}

entry! {
    /// `PMIx_tool_is_connected`: whether this process is a tool that has a server.
    fn PMIx_tool_is_connected() -> bool {
        client_process::servers().is_some_and(|servers| servers.is_connected())
    }
}
