//! Tools: processes at a server of their own choice.

use std::sync::Arc;

use pmix_client::process as client_process;
use pmix_client::tool::Servers;
use pmix_dstore::model::{Proc, Result, Status};
use pmix_server::process;

use super::{Out, infos, object, present};
use crate::convert::array::CArray;
use crate::entry::{entry, status_call};
use crate::host::CHost;
use crate::stock;
use crate::types::*;

/// The servers of this process, which is a tool.
fn servers() -> Result<Arc<Servers>> {
    client_process::servers().ok_or(Status::ERR_INIT)
}

/// Writes a process into an out parameter, if there is one.
fn fill(out: Option<Out<pmix_proc_t>>, proc: &Proc) -> Result<()> {
    out.map_or(Ok(()), |out| out.fill(proc))
}

status_call! {
    /// `PMIx_tool_init`: connects this process to a server as a tool; counted.
    fn PMIx_tool_init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        stock::adopt_defaults();
        // SAFETY: `info` is an array of `ninfo` infos.
        let me = client_process::init_tool(&unsafe { infos(info, ninfo) }?)?;
        // SAFETY: `proc` is NULL or a place for a process.
        fill(unsafe { Out::optional(proc) }, &me)
    }

    /// `PMIx_tool_finalize`: undoes one [`PMIx_tool_init`]. The last one also ends the server of a tool that became one.
    fn PMIx_tool_finalize() {
        if client_process::count() == 1 && client_process::servers().is_some() {
            process::end_of_tool();
        }
        super::client::finalize(&[])
    }

    /// `PMIx_tool_set_server_module`: makes this tool a server, too. The server has the tool's name, and the module
    /// answers its clients. Other tools find it by the files that the attributes of [`PMIx_tool_init`] ask for.
    fn PMIx_tool_set_server_module(module: *mut pmix_server_module_t) {
        let servers = servers()?;
        let client = super::client()?;
        // SAFETY: `module` is not NULL, hence a module, which has at least the slots that all releases have.
        let host = unsafe { CHost::new(present(module)?, None) };
        process::begin_for_tool(Arc::new(host), client.me(), servers.infos_for_server())?;
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
        // SAFETY: `info` is an array of `ninfo` infos.
        let attached = servers.attach_to(&unsafe { infos(info, ninfo) }?)?;
        // SAFETY: `myproc` is NULL or a place for a process.
        if let Some(myproc) = unsafe { Out::optional(myproc) } {
            myproc.fill(super::client()?.me())?;
        }
        // SAFETY: `server` is NULL or a place for a process.
        fill(unsafe { Out::optional(server) }, &attached)
    }

    /// `PMIx_tool_connect_to_server`: the older form of [`PMIx_tool_attach_to_server`].
    fn PMIx_tool_connect_to_server(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        // SAFETY: `info` is an array of `ninfo` infos.
        servers()?.attach_to(&unsafe { infos(info, ninfo) }?)?;
        // SAFETY: `proc` is NULL or a place for a process.
        match unsafe { Out::optional(proc) } {
            Some(proc) => proc.fill(super::client()?.me()),
            None => Ok(()),
        }
    }

    /// `PMIx_tool_disconnect`: ends the connection to a server.
    fn PMIx_tool_disconnect(server: *const pmix_proc_t) {
        let servers = servers()?;
        // SAFETY: `server` is NULL or a process.
        servers.leave(&unsafe { object(server) }?)
    }

    /// `PMIx_tool_get_servers`: the servers that this tool is connected to, the one in use first.
    fn PMIx_tool_get_servers(servers_: *mut *mut pmix_proc_t, nservers: *mut usize) {
        // SAFETY: `servers_` is NULL or a place for an array's address.
        let array = unsafe { Out::new(servers_) }?;
        // SAFETY: `nservers` is NULL or a place for its length.
        let count = unsafe { Out::new(nservers) }?;
        let all = servers()?.all();
        if all.is_empty() {
            return Err(Status::ERR_UNREACH);
        }
        let (items, len) = CArray::new(&all)?.into_raw();
        array.set(items);
        count.set(len);
        Ok(())
    }

    /// `PMIx_tool_set_server`: uses another one of the servers that this tool is connected to.
    fn PMIx_tool_set_server(server: *const pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) {
        let servers = servers()?;
        // SAFETY: `server` is NULL or a process.
        let server = unsafe { object(server) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        servers.choose(&server, &unsafe { infos(info, ninfo) }?)
    }
}

entry! {
    /// `PMIx_tool_is_connected`: whether this process is a tool that has a server.
    fn PMIx_tool_is_connected() -> bool {
        client_process::servers().is_some_and(|servers| servers.is_connected())
    }
}
