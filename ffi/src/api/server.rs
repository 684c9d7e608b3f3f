//! What a host calls.

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Once};

use libc::{gid_t, uid_t};
use pmix_client::topology::adopt;
use pmix_client::{InfoReply, process as client_process};
use pmix_dstore::maps;
use pmix_dstore::model::{Info, Result, Status};
use pmix_server::process::{self, server};
use pmix_server::{Host, OpDone, setup_of_application};

use super::buffer::append;
use super::{present, procs, writable};
use crate::callback::{Callback, fill};
use crate::convert::object::Object;
use crate::convert::topology;
use crate::convert::{array, registration, text};
use crate::entry::{call, status_call};
use crate::host::{self, CHost};
use crate::memory::{copy_bytes, copy_text};
use crate::types::*;
use crate::{attributes, environment};

/// Before a fork: some hosts prepare a client's environment in the child.
unsafe extern "C" fn will_fork() {
    process::will_fork();
}

/// After a fork, in the parent.
unsafe extern "C" fn has_forked() {
    process::has_forked();
}

/// A callback for the end of an operation; without one the operation blocks.
pub(super) fn done(cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) -> Option<OpDone> {
    let callback = Callback::new(cbfunc, cbdata);
    callback.is_some().then(|| Box::new(move |status| callback.call(status)) as OpDone)
}

/// Has children that this process forks be told of its server.
pub(super) fn watch_forks() {
    static IS_WATCHED: Once = Once::new();
    IS_WATCHED.call_once(|| {
        // SAFETY: the handlers may run in any thread that forks; the system forgets them when it unloads this library.
        // Where there is no memory for them, a child may find the server locked, as with other libraries.
        let _ = unsafe { libc::pthread_atfork(Some(will_fork), Some(has_forked), None) };
    });
}

status_call! {
    /// `PMIx_server_init`: starts the server of this process; counted.
    fn PMIx_server_init(module: *mut pmix_server_module_t, info: *mut pmix_info_t, ninfo: usize) {
        let infos = array::read(info, ninfo)?;
        process::init(|| {
            if let Some(given) = topology::given(info, ninfo) {
                adopt(given);
            }
            let size = infos.iter().find(|info| info.key.as_bytes() == host::MODULE_SIZE.as_bytes());
            let size = size.and_then(|info| info.value.as_u64());
            let host: Arc<dyn Host> = Arc::new(CHost::new(module, size.map(|size| size as usize)));
            Ok((host, infos))
        })?;
        watch_forks();
        Ok(())
    }

    /// `PMIx_server_finalize`: undoes one [`PMIx_server_init`].
    fn PMIx_server_finalize() {
        process::finalize()
    }

    /// `PMIx_server_register_nspace`: what is known of a job. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_nspace(
        nspace: *const c_char,
        nlocalprocs: i32,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let (infos, procs) = registration::read(info, ninfo)?;
        let (server, nspace, done) = (server()?, text::nspace(nspace)?, done(cbfunc, cbdata));
        server.register_nspace_with(nspace, nlocalprocs, infos, procs, done).ok()
    }

    /// `PMIx_server_register_client`: a process that will be started on this node. Without a callback it blocks and
    /// answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_client(
        proc: *const pmix_proc_t,
        uid: uid_t,
        gid: gid_t,
        server_object: *mut c_void,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let proc = pmix_proc_t::read(present(proc)?)?;
        server()?.register_client(proc, uid, gid, server_object.expose_provenance(), done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_setup_fork`: puts into an environment what a client needs to find its server.
    fn PMIx_server_setup_fork(proc: *const pmix_proc_t, env: *mut *mut *mut c_char) {
        let env = writable(env)?;
        let variables = server()?.setup_fork(&pmix_proc_t::read(present(proc)?)?)?;
        for (name, value) in &variables {
            environment::set(env, name, value.as_bytes())?;
        }
        Ok(())
    }

    /// `PMIx_server_dmodex_request`: what a local process published for other nodes.
    fn PMIx_server_dmodex_request(
        proc: *const pmix_proc_t,
        cbfunc: Option<pmix_dmodex_response_fn_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let proc = pmix_proc_t::read(present(proc)?)?;
        server.dmodex_request(proc, Box::new(move |status, data| callback.call(status, data))).ok()
    }

    /// `PMIx_server_setup_application`: what a job is to be started with, for the host to set.
    fn PMIx_server_setup_application(
        nspace: *const c_char,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_setup_application_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server();
        // A tool that starts jobs needs no server of its own for this.
        let launcher = client_process::servers().filter(|servers| server.is_err() && servers.is_launcher());
        if launcher.is_none() {
            server.as_ref().map_err(|status| *status)?;
        }
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        text::nspace(nspace)?;
        let infos = array::read(info, ninfo)?;
        let done = move |variables: Vec<Info>| callback.call(&variables);
        match launcher {
            Some(_) => {
                let variables = setup_of_application(&infos)?;
                super::client()?.later(Box::new(move || done(variables)));
                Ok(())
            }
            None => server?.setup_application(&infos, Box::new(done)).ok(),
        }
    }

    /// `PMIx_server_setup_local_support`: prepares this node for a job. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_setup_local_support(
        nspace: *const c_char,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        text::nspace(nspace)?;
        let _: Vec<Info> = array::read(info, ninfo)?;
        server.setup_local_support(done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_collect_inventory`: what this node has beside what hwloc tells; without networks that is nothing.
    fn PMIx_server_collect_inventory(
        directives: *mut pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_info_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        let callback = Callback::new(cbfunc, cbdata);
        if !callback.is_some() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let _: Vec<Info> = array::read(directives, ndirs)?;
        let nothing = InfoReply { status: Status::SUCCESS, infos: Vec::new() };
        server.client().later(Box::new(move || callback.call(Ok(nothing))));
        Ok(())
    }

    /// `PMIx_server_deliver_inventory`: takes what nodes have. Nothing here allocates networks, which would want it. Without a callback
    /// it blocks and answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_deliver_inventory(
        info: *mut pmix_info_t,
        ninfo: usize,
        directives: *mut pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        let _: [Vec<Info>; 2] = [array::read(info, ninfo)?, array::read(directives, ndirs)?];
        server.take_inventory(done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_define_process_set`: tells clients of a set of processes. Answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_define_process_set(members: *const pmix_proc_t, nmembers: usize, pset_name: *const c_char) {
        let (server, name) = (server()?, set_name(pset_name)?);
        let members = array::read(members, nmembers)?;
        if members.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        server.define_process_set(name, members).ok()
    }

    /// `PMIx_server_delete_process_set`: tells clients that a set is no more. Answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_delete_process_set(pset_name: *mut c_char) {
        server()?.delete_process_set(set_name(pset_name)?).ok()
    }

    /// `PMIx_server_register_resources`: values that all jobs have. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        server()?.register_resources(array::read(info, ninfo)?, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_deregister_resources`: takes the values with these keys from all jobs again.
    fn PMIx_server_deregister_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let infos: Vec<Info> = array::read(info, ninfo)?;
        server()?.deregister_resources(&infos, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_collect_job_info`: the data of the jobs that processes are of, added to a buffer.
    fn PMIx_server_collect_job_info(members: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t) {
        let (server, dbuf) = (server()?, writable(dbuf)?);
        append(dbuf, &server.collect_job_info(&procs(present(members)?, nprocs)?)?)
    }

    /// `PMIx_Register_attributes`: which attributes the host supports in a function, by their names. Of other processes
    /// nobody asks.
    fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char) {
        let (function, mut next) = (set_name(present(function)?)?, present(attrs.cast_const())?);
        let is_only_client = |status| if client_process::count() > 0 { Status::ERR_NOT_SUPPORTED } else { status };
        let server = server().map_err(is_only_client)?;
        let mut supported = Vec::new();
        while !(*next).is_null() {
            supported.push(attributes::described(text::string(*next).unwrap_or_default()));
            next = next.add(1);
        }
        server.register_attributes(function, supported)
    }

    /// `PMIx_generate_regex`: a list of nodes in its short form.
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) {
        let regex = writable(regex)?;
        let map = text::string(present(input)?).unwrap_or_default();
        *regex = copy_bytes(&maps::generate_regex(map.to_bytes())?)?;
        Ok(())
    }

    /// `PMIx_generate_regex2`: a list in the second form that maps have. No attributes are defined for it.
    fn PMIx_generate_regex2(
        input: *const c_char,
        _info: *mut pmix_info_t,
        _ninfo: usize,
        regex: *mut pmix_regex2_t,
    ) {
        let regex = writable(regex)?;
        let list = text::string(present(input)?).unwrap_or_default();
        fill(&maps::generate_regex2(list)?, regex)
    }

    /// `PMIx_parse_regex2`: the list that such a form stands for.
    fn PMIx_parse_regex2(
        regex: *const pmix_regex2_t,
        _info: *mut pmix_info_t,
        _ninfo: usize,
        output: *mut *mut c_char,
    ) {
        let output = writable(output)?;
        let (ty, bytes) = pmix_regex2_t::read(present(regex)?)?;
        *output = copy_text(&maps::parse_regex2(ty.as_deref(), &bytes)?)?;
        Ok(())
    }

    /// `PMIx_generate_ppn`: the ranks of each node in their short form.
    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) {
        let ppn = writable(ppn)?;
        let map = text::string(present(input)?).unwrap_or_default();
        *ppn = copy_bytes(&maps::generate_ppn(map.to_bytes())?)?;
        Ok(())
    }
}

call! {
    /// `PMIx_server_deregister_nspace`: forgets a job.
    fn PMIx_server_deregister_nspace(
        nspace: *const c_char,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server().and_then(|server| Ok((server, text::nspace(nspace)?)));
        finish(server.map(|(server, nspace)| server.deregister_nspace(&nspace, done(cbfunc, cbdata))), cbfunc, cbdata);
    }

    /// `PMIx_server_deregister_client`: forgets a process.
    fn PMIx_server_deregister_client(
        proc: *const pmix_proc_t,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server().and_then(|server| Ok((server, pmix_proc_t::read(present(proc)?)?)));
        finish(server.map(|(server, proc)| server.deregister_client(&proc, done(cbfunc, cbdata))), cbfunc, cbdata);
    }
}

/// The name of a process set.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn set_name(name: *const c_char) -> Result<CString> {
    // SAFETY: the caller's promise.
    let name = unsafe { text::owned_string(name) }?;
    name.filter(|name| !name.is_empty()).ok_or(Status::ERR_BAD_PARAM)
}

/// Ends a function that answers nothing: its caller hears of failure through the callback alone.
fn finish(started: Result<Status>, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) {
    match started {
        Ok(Status::SUCCESS) => {}
        Ok(status) | Err(status) => Callback::new(cbfunc, cbdata).call(status),
    }
}
