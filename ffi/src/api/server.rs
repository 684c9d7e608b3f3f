//! The functions that a host calls.

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Once};

use libc::{gid_t, uid_t};
use pmix_client::topology::adopt;
use pmix_client::{InfoReply, process as client_process};
use pmix_dstore::model::{Info, Result, Status};
use pmix_dstore::{fallible_alloc, maps};
use pmix_server::process::{self, server};
use pmix_server::{Host, OpDone, setup_of_application};

use super::buffer::append;
use super::{Out, c_str, infos, object, present, procs, writable};
use crate::callback::Callback;
use crate::convert::topology;
use crate::convert::{array, registration, text};
use crate::entry::{call, status_call};
use crate::host::{self, CHost};
use crate::memory::{copy_bytes, copy_text};
use crate::types::*;
use crate::{attributes, environment, keepalive, stock};

/// Before a fork: some hosts prepare a client's environment in the child.
unsafe extern "C" fn will_fork() {
    process::will_fork();
}

/// After a fork, in the parent.
unsafe extern "C" fn has_forked() {
    process::has_forked();
}

/// After a fork, in the child.
unsafe extern "C" fn is_forked() {
    process::is_forked();
}

/// A callback for the end of an operation; without one the operation blocks.
pub(super) fn done(cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) -> Option<OpDone> {
    let callback = Callback::new(cbfunc, cbdata);
    callback.is_some().then(|| Box::new(move |status| callback.call(status)) as OpDone)
}

/// Makes the server ready for each fork of this process: see `pmix_server::process::will_fork`.
pub(super) fn watch_forks() {
    static IS_WATCHED: Once = Once::new();
    IS_WATCHED.call_once(|| {
        // SAFETY: the handlers may run in any thread that forks, and the system removes them when it unloads this library.
        // Without memory for them a child may find the server locked, as with other libraries.
        let _ = unsafe { libc::pthread_atfork(Some(will_fork), Some(has_forked), Some(is_forked)) };
    });
}

status_call! {
    /// `PMIx_server_init`: starts the server of this process; counted.
    fn PMIx_server_init(module: *mut pmix_server_module_t, info: *mut pmix_info_t, ninfo: usize) {
        // The reserve comes before all that allocates: without it a failed allocation would end the host.
        fallible_alloc::reserve_emergency()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        stock::adopt_defaults();
        // Before the server has threads, which might read the environment.
        let pipe = keepalive::take(pmix_dstore::environment::is_secure());
        process::init(|| {
            // SAFETY: as above; a topology among them is the host's and stays.
            if let Some(given) = unsafe { topology::given(info, ninfo) } {
                adopt(given);
            }
            let size = infos.iter().find(|info| info.key.as_bytes() == host::MODULE_SIZE.as_bytes());
            let size = size.and_then(|info| info.value.as_u64());
            // SAFETY: `module` is NULL or has the slots that all releases have, and as many bytes as the host says.
            let host = unsafe { CHost::new(module, size.map(|size| size as usize)) };
            Ok((Arc::new(host) as Arc<dyn Host>, infos))
        })?;
        watch_forks();
        if let Some(pipe) = pipe {
            server()?.watch_starter(pipe);
        }
        Ok(())
    }

    /// `PMIx_server_finalize`: undoes one [`PMIx_server_init`].
    fn PMIx_server_finalize() {
        process::finalize()
    }

    /// `PMIx_server_register_nspace`: registers a job with its attributes. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_nspace(
        nspace: *const c_char,
        nlocalprocs: i32,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        // SAFETY: `nspace` is NULL or readable to its NUL or to the capacity of a namespace.
        let nspace = unsafe { text::nspace(nspace) }?;
        if nspace.is_empty() {
            // Nothing is read of the infos: with this name PRRTE 3.0.8 passes one more than its array has (docs/openmpi.md).
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: `info` is an array of `ninfo` infos.
        let (infos, procs) = unsafe { registration::read(info, ninfo) }?;
        server.register_nspace_with(nspace, nlocalprocs, infos, procs, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_register_client`: registers a process that will be started on this node. Without a callback it blocks and
    /// answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_client(
        proc: *const pmix_proc_t,
        uid: uid_t,
        gid: gid_t,
        server_object: *mut c_void,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `proc` is NULL or a process.
        let proc = unsafe { object(proc) }?;
        server()?.register_client(proc, uid, gid, server_object.expose_provenance(), done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_setup_fork`: adds to an environment the variables with which a client finds its server.
    fn PMIx_server_setup_fork(proc: *const pmix_proc_t, env: *mut *mut *mut c_char) {
        let env = writable(env)?;
        let server = server()?;
        // SAFETY: `proc` is NULL or a process.
        let variables = server.setup_fork(&unsafe { object(proc) }?)?;
        for (name, value) in &variables {
            // SAFETY: `env` points to NULL, to `environ`, or to an array from `malloc` of strings from `malloc`.
            unsafe { environment::set(env, name, value.as_bytes()) }?;
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
        // SAFETY: `proc` is NULL or a process.
        let proc = unsafe { object(proc) }?;
        server.dmodex_request(proc, Box::new(move |status, data| callback.call(status, data))).ok()
    }

    /// `PMIx_server_setup_application`: the infos, such as environment variables, with which the host is to start a job.
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
        // SAFETY: `nspace` is NULL or readable to its NUL or to the capacity of a namespace.
        unsafe { text::nspace(nspace) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
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
        // SAFETY: `nspace` is NULL or readable to its NUL or to the capacity of a namespace.
        unsafe { text::nspace(nspace) }?;
        // SAFETY: `info` is an array of `ninfo` infos.
        unsafe { infos(info, ninfo) }?;
        server.setup_local_support(done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_collect_inventory`: the resources of this node that hwloc does not know. Networks would be some; this library
    /// manages none, so the answer is empty.
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
        // SAFETY: `directives` is an array of `ndirs` infos.
        unsafe { infos(directives, ndirs) }?;
        let nothing = InfoReply { status: Status::SUCCESS, infos: Vec::new() };
        server.client().later(Box::new(move || callback.call(Ok(nothing))));
        Ok(())
    }

    /// `PMIx_server_deliver_inventory`: takes the inventories of nodes and drops them, since only an allocation of networks would use
    /// them. Without a callback it blocks and answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_deliver_inventory(
        info: *mut pmix_info_t,
        ninfo: usize,
        directives: *mut pmix_info_t,
        ndirs: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let server = server()?;
        // SAFETY: `info` is an array of `ninfo` infos.
        unsafe { infos(info, ninfo) }?;
        // SAFETY: `directives` is an array of `ndirs` infos.
        unsafe { infos(directives, ndirs) }?;
        server.take_inventory(done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_define_process_set`: tells clients of a set of processes. Answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_define_process_set(members: *const pmix_proc_t, nmembers: usize, pset_name: *const c_char) {
        let server = server()?;
        // SAFETY: `pset_name` is NULL or a C string.
        let name = unsafe { set_name(pset_name) }?;
        // SAFETY: `members` is an array of `nmembers` processes.
        let members = unsafe { array::read(members, nmembers) }?;
        if members.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        server.define_process_set(name, members).ok()
    }

    /// `PMIx_server_delete_process_set`: tells clients that a set does not exist any more. Answers `OPERATION_SUCCEEDED`.
    fn PMIx_server_delete_process_set(pset_name: *mut c_char) {
        let server = server()?;
        // SAFETY: `pset_name` is NULL or a C string.
        server.delete_process_set(unsafe { set_name(pset_name) }?).ok()
    }

    /// `PMIx_server_register_resources`: adds values to all jobs. Without a callback it blocks and answers
    /// `OPERATION_SUCCEEDED`.
    fn PMIx_server_register_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        server()?.register_resources(unsafe { infos(info, ninfo) }?, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_deregister_resources`: removes the values with these keys from all jobs.
    fn PMIx_server_deregister_resources(
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        // SAFETY: `info` is an array of `ninfo` infos.
        let infos = unsafe { infos(info, ninfo) }?;
        server()?.deregister_resources(&infos, done(cbfunc, cbdata)).ok()
    }

    /// `PMIx_server_collect_job_info`: adds the data of the processes' jobs to a buffer.
    fn PMIx_server_collect_job_info(members: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t) {
        let (server, dbuf) = (server()?, writable(dbuf)?);
        // SAFETY: `members` is NULL or an array of `nprocs` processes.
        let members = unsafe { procs(present(members)?, nprocs) }?;
        let data = server.collect_job_info(&members)?;
        // SAFETY: `dbuf` is not NULL, hence a buffer whose memory comes from `malloc`.
        unsafe { append(dbuf, &data) }
    }

    /// `PMIx_Register_attributes`: which attributes the host supports in a function, by their names. Those of a client or a tool
    /// are listed in its own queries.
    fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char) {
        // SAFETY: `function` is NULL or a C string.
        let function = unsafe { set_name(function) }?;
        let mut next = present(attrs)?;
        let mut supported = Vec::new();
        // SAFETY: `attrs` is an array of C strings that ends with NULL, where this loop ends.
        while let Some(name) = unsafe { text::string(*next) } {
            supported.push(attributes::described(name));
            // SAFETY: not the NULL at the end, so the array goes on.
            next = unsafe { next.add(1) };
        }
        match server() {
            Ok(server) => server.register_attributes(function, supported),
            Err(status) => {
                let client = client_process::hold().ok_or(status)?;
                client.register_attributes(client_process::attribute_level(), function, supported)
            }
        }
    }

    /// `PMIx_generate_regex`: a list of nodes in its short form.
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) {
        // SAFETY: `regex` is NULL or a place for a string's address.
        let regex = unsafe { Out::new(regex) }?;
        // SAFETY: `input` is NULL or a C string.
        let map = unsafe { c_str(input) }?;
        regex.set(copy_bytes(&maps::generate_regex(map.to_bytes())?)?);
        Ok(())
    }

    /// `PMIx_generate_regex2`: a list in the second form that maps have. No attributes are defined for it.
    fn PMIx_generate_regex2(
        input: *const c_char,
        _info: *mut pmix_info_t,
        _ninfo: usize,
        regex: *mut pmix_regex2_t,
    ) {
        // SAFETY: `regex` is NULL or a place for a form of a list.
        let regex = unsafe { Out::new(regex) }?;
        // SAFETY: `input` is NULL or a C string.
        let list = unsafe { c_str(input) }?;
        regex.fill(&maps::generate_regex2(list)?)
    }

    /// `PMIx_parse_regex2`: the list of which [`PMIx_generate_regex2`] made the second form.
    fn PMIx_parse_regex2(
        regex: *const pmix_regex2_t,
        _info: *mut pmix_info_t,
        _ninfo: usize,
        output: *mut *mut c_char,
    ) {
        // SAFETY: `output` is NULL or a place for a string's address.
        let output = unsafe { Out::new(output) }?;
        // SAFETY: `regex` is NULL or a form of a list.
        let (ty, bytes) = unsafe { object(regex) }?;
        output.set(copy_text(&maps::parse_regex2(ty.as_deref(), &bytes)?)?);
        Ok(())
    }

    /// `PMIx_generate_ppn`: the ranks of each node in their short form.
    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) {
        // SAFETY: `ppn` is NULL or a place for a string's address.
        let ppn = unsafe { Out::new(ppn) }?;
        // SAFETY: `input` is NULL or a C string.
        let map = unsafe { c_str(input) }?;
        ppn.set(copy_bytes(&maps::generate_ppn(map.to_bytes())?)?);
        Ok(())
    }
}

call! {
    /// `PMIx_server_deregister_nspace`: removes a job.
    fn PMIx_server_deregister_nspace(
        nspace: *const c_char,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let started = server().and_then(|server| {
            // SAFETY: `nspace` is NULL or readable to its NUL or to the capacity of a namespace.
            let nspace = unsafe { text::nspace(nspace) }?;
            Ok(server.deregister_nspace(&nspace, done(cbfunc, cbdata)))
        });
        finish(started, cbfunc, cbdata);
    }

    /// `PMIx_server_deregister_client`: removes a process.
    fn PMIx_server_deregister_client(
        proc: *const pmix_proc_t,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) {
        let started = server().and_then(|server| {
            // SAFETY: `proc` is NULL or a process.
            let proc = unsafe { object(proc) }?;
            Ok(server.deregister_client(&proc, done(cbfunc, cbdata)))
        });
        finish(started, cbfunc, cbdata);
    }
}

/// The name of a process set or of a function: a text that is not empty.
///
/// # Errors
/// `BAD_PARAM` for NULL and for an empty text, `NOMEM`.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn set_name(name: *const c_char) -> Result<CString> {
    // SAFETY: the caller's promise.
    let name = unsafe { text::owned_string(name) }?;
    name.filter(|name| !name.is_empty()).ok_or(Status::ERR_BAD_PARAM)
}

/// Ends a function without a status: only the callback tells its caller of a failure.
pub(super) fn finish(started: Result<Status>, cbfunc: Option<pmix_op_cbfunc_t>, cbdata: *mut c_void) {
    match started {
        Ok(Status::SUCCESS) => {}
        Ok(status) | Err(status) => Callback::new(cbfunc, cbdata).call(status),
    }
}
