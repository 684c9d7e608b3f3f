//! A host's C module as the server sees it: what it is called with, and how its answers come back.

use crossbeam::channel::unbounded;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use pmix::convert::object::Object;
use pmix::host::CHost;
use pmix::types::*;
use pmix_dstore::model::{App, Info, Key, Nspace, Proc, Rank, Status, Value};
use pmix_server::{Completion, Host, Server};

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

fn host(fill: impl FnOnce(&mut pmix_server_module_t)) -> CHost {
    // SAFETY: a module of NULL slots, which is a valid one.
    unsafe {
        let mut module: pmix_server_module_t = std::mem::zeroed();
        fill(&mut module);
        CHost::new(&raw const module, None)
    }
}

#[test]
fn empty_slots_are_not_supported() {
    // SAFETY: NULL is allowed.
    for host in [host(|_| {}), unsafe { CHost::new(ptr::null(), None) }] {
        assert_eq!(host.client_connected(&proc(0), 0, &[]), Status::OPERATION_SUCCEEDED);
        assert_eq!(host.client_finalized(&proc(0), 0, Completion::by_id(900)), Status::OPERATION_SUCCEEDED);
        assert_eq!(host.publish(&proc(0), &[], Completion::by_id(901)), Status::ERR_NOT_SUPPORTED);
        assert_eq!(host.fence_nb(&[], &[], [1].into(), Completion::by_id(902)), Status::ERR_NOT_SUPPORTED);
        assert_eq!(host.query(&proc(0), &[], Completion::by_id(903)), Status::ERR_NOT_SUPPORTED);
        assert_eq!(host.log(&proc(0), &[], &[], Completion::by_id(904)), Status::ERR_NOT_SUPPORTED);
    }
}

#[test]
fn connection_is_answered_by_the_return_value_alone() {
    unsafe extern "C" fn connected(
        _proc: *const pmix_proc_t,
        object: *mut c_void,
        cbfunc: Option<pmix_op_cbfunc_t>,
        _cbdata: *mut c_void,
    ) -> pmix_status_t {
        assert!(cbfunc.is_none());
        assert_eq!(object.addr(), 0x50);
        0
    }
    unsafe extern "C" fn connected2(
        proc: *const pmix_proc_t,
        _object: *mut c_void,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) -> pmix_status_t {
        // SAFETY: what the library passes.
        unsafe {
            assert_eq!(pmix_proc_t::read(proc).unwrap().rank, Rank(7));
            assert_eq!(ninfo, 1);
            assert_eq!(pmix_info_t::read(info).unwrap(), Info::new("k", Value::Int(1)));
            // Hosts do this; nothing may come of it.
            cbfunc.unwrap()(-1, cbdata);
            cbfunc.unwrap()(-1, cbdata);
        }
        Status::ERR_NO_PERMISSIONS.0
    }
    let old = host(|module| module.client_connected = Some(connected));
    assert_eq!(old.client_connected(&proc(7), 0x50, &[]), Status::SUCCESS);
    let both = host(|module| {
        module.client_connected = Some(connected);
        module.client_connected2 = Some(connected2);
    });
    let infos = [Info::new("k", Value::Int(1))];
    assert_eq!(both.client_connected(&proc(7), 0x50, &infos), Status::ERR_NO_PERMISSIONS);
}

/// What the upcall below was called with: the infos' address, the callback and its data.
static CONNECTED: Mutex<Option<(usize, usize, usize)>> = Mutex::new(None);

/// PRRTE 5.0 reads them in a thread of its own, after it has returned.
#[test]
fn infos_of_a_connection_stay_until_the_callback() {
    unsafe extern "C" fn connected2(
        _proc: *const pmix_proc_t,
        _object: *mut c_void,
        info: *mut pmix_info_t,
        _ninfo: usize,
        cbfunc: Option<pmix_op_cbfunc_t>,
        cbdata: *mut c_void,
    ) -> pmix_status_t {
        let function = cbfunc.unwrap() as usize;
        *CONNECTED.lock() = Some((info.expose_provenance(), function, cbdata.addr()));
        0
    }
    let host = host(|module| module.client_connected2 = Some(connected2));
    let infos = [Info::new("k", Value::String(Some(c"kept".into())))];
    assert_eq!(host.client_connected(&proc(7), 0, &infos), Status::SUCCESS);
    let (info, function, cbdata) = CONNECTED.lock().take().unwrap();
    // SAFETY: the infos stay until the callback, which is of the type it was passed as.
    unsafe {
        let info: *const pmix_info_t = ptr::with_exposed_provenance(info);
        assert_eq!(pmix_info_t::read(info).unwrap(), infos[0]);
        let done: pmix_op_cbfunc_t = std::mem::transmute(function);
        done(0, ptr::without_provenance_mut(cbdata));
        done(0, ptr::without_provenance_mut(cbdata));
    }
}

/// What the lookup below was called with: the keys' address, the callback and its data.
static LATER: Mutex<Option<(usize, usize, usize)>> = Mutex::new(None);

#[test]
fn arguments_stay_until_the_answer_and_answers_count_once() {
    unsafe extern "C" fn lookup(
        _proc: *const pmix_proc_t,
        keys: *mut *mut c_char,
        _info: *const pmix_info_t,
        _ninfo: usize,
        cbfunc: Option<pmix_lookup_cbfunc_t>,
        cbdata: *mut c_void,
    ) -> pmix_status_t {
        let function = cbfunc.unwrap() as usize;
        *LATER.lock() = Some((keys.expose_provenance(), function, cbdata.addr()));
        0
    }
    let host = host(|module| module.lookup = Some(lookup));
    let keys = [Key::from("one"), Key::from("two")];
    assert_eq!(host.lookup(&proc(1), &keys, &[], Completion::by_id(700)), Status::SUCCESS);
    let (keys, function, cbdata) = LATER.lock().take().unwrap();
    assert_eq!(cbdata, 700);
    // SAFETY: the keys stay until the callback, which is of the type it was passed as.
    unsafe {
        let keys: *mut *mut c_char = ptr::with_exposed_provenance_mut(keys);
        assert_eq!(CStr::from_ptr(*keys.add(1)), c"two");
        assert!((*keys.add(2)).is_null());
        let done: pmix_lookup_cbfunc_t = std::mem::transmute(function);
        done(Status::ERR_NOT_FOUND.0, ptr::null_mut(), 0, ptr::without_provenance_mut(cbdata));
        done(Status::ERR_NOT_FOUND.0, ptr::null_mut(), 0, ptr::without_provenance_mut(cbdata));
    }
}

static RELEASED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The callback of a spawn upcall, and its data.
static SPAWNING: Mutex<Option<(pmix_spawn_cbfunc_t, usize)>> = Mutex::new(None);

#[test]
fn the_callback_of_a_hosts_own_spawn_may_wait_for_another() {
    unsafe extern "C" fn spawn(
        _proc: *const pmix_proc_t,
        _job_info: *const pmix_info_t,
        _ninfo: usize,
        _apps: *const pmix_app_t,
        _napps: usize,
        cbfunc: Option<pmix_spawn_cbfunc_t>,
        cbdata: *mut c_void,
    ) -> pmix_status_t {
        *SPAWNING.lock() = Some((cbfunc.unwrap(), cbdata.expose_provenance()));
        0
    }
    let server = Server::init(Arc::new(host(|module| module.spawn = Some(spawn))), &[]).unwrap();
    let app =
        App { cmd: Some(c"true".into()), argv: Vec::new(), env: Vec::new(), cwd: None, maxprocs: 1, infos: Vec::new() };
    let (sender, results) = unbounded();
    let inner = Arc::clone(&server);
    let callback = move |started: Result<Nspace, Status>| {
        let (registered, wait) = unbounded();
        let done = move |status| registered.send(status).unwrap();
        inner.register_nspace(started.unwrap(), 1, Vec::new(), Some(Box::new(done)));
        sender.send((thread::current().id(), wait.recv_timeout(Duration::from_secs(30)))).unwrap();
    };
    server.client().spawn(Vec::new(), vec![app]).start(Box::new(callback)).unwrap();
    let (answer, data) = loop {
        match SPAWNING.lock().take() {
            Some(asked) => break asked,
            None => thread::yield_now(),
        }
    };
    // SAFETY: the answer that the upcall asks for, once.
    unsafe { answer(0, c"started".as_ptr().cast_mut(), ptr::with_exposed_provenance_mut(data)) };
    assert_eq!(results.try_recv(), Ok((thread::current().id(), Ok(Status::SUCCESS))));
    server.finalize();
}

#[test]
fn host_data_is_released_at_once_without_waiters() {
    unsafe extern "C" fn release(cbdata: *mut c_void) {
        RELEASED.lock().push(cbdata.addr());
    }
    unsafe extern "C" fn fence(
        procs: *const pmix_proc_t,
        nprocs: usize,
        _info: *const pmix_info_t,
        _ninfo: usize,
        data: *mut c_char,
        ndata: usize,
        cbfunc: Option<pmix_modex_cbfunc_t>,
        cbdata: *mut c_void,
    ) -> pmix_status_t {
        // SAFETY: what the library passes; the data is the host's to free.
        unsafe {
            let answer = cbfunc.unwrap();
            answer(0, data, ndata, cbdata, Some(release), ptr::without_provenance_mut(ndata));
            libc::free(data.cast());
            // Still there: this has not returned yet.
            assert_eq!(pmix_proc_t::read(procs.add(nprocs - 1)).unwrap(), proc(2));
        }
        0
    }
    let host = host(|module| module.fence_nb = Some(fence));
    let status = host.fence_nb(&[proc(1), proc(2)], &[], vec![5; 33].into(), Completion::by_id(800));
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(*RELEASED.lock(), [33]);
}

#[test]
fn of_a_module_that_does_not_tell_its_size_the_common_slots_are_read() {
    // The last bytes before memory that nobody may read: a host compiled against 4.2 may have its module there.
    const COMMON: usize = 224;
    let page = 4096;
    // SAFETY: memory of this test's own, of which the second page is taken away.
    let end = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(ptr::null_mut(), 2 * page, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(map.byte_add(page), page, libc::PROT_NONE), 0);
        map.byte_add(page)
    };
    for (size, told) in [(COMMON, None), (COMMON, Some(0)), (COMMON, Some(COMMON)), (COMMON + 8, Some(COMMON + 8))] {
        // SAFETY: so many bytes lie before the end, and the module has no more.
        let host = unsafe {
            let module = end.byte_sub(size).cast::<pmix_server_module_t>();
            (&raw mut (*module).log).write(Some(logged));
            (&raw mut (*module).fabric).write(None);
            CHost::new(module, told)
        };
        assert_eq!(host.log(&proc(0), &[], &[], Completion::by_id(904)), Status::OPERATION_SUCCEEDED, "{told:?}");
    }
    // SAFETY: it is this test's, and nothing points into it any more.
    assert_eq!(unsafe { libc::munmap(end.byte_sub(page), 2 * page) }, 0);
}

#[test]
fn of_a_module_that_tells_its_size_all_slots_are_read() {
    // SAFETY: a module of NULL slots, which is a valid one.
    let mut module: pmix_server_module_t = unsafe { std::mem::zeroed() };
    module.log = Some(logged);
    module.log2 = Some(refused);
    module.tool_connected = Some(tool_let_in);
    module.tool_connected2 = Some(tool_refused);
    // SAFETY: it is as large as each of these.
    let host = |told| unsafe { CHost::new(&raw const module, told) };
    for told in [None, Some(232)] {
        assert_eq!(host(told).log(&proc(0), &[], &[], Completion::by_id(952)), Status::OPERATION_SUCCEEDED);
        assert_eq!(host(told).tool_connected(&[], Completion::by_id(950)), Status::SUCCESS);
    }
    for told in [size_of::<pmix_server_module_t>(), usize::MAX] {
        assert_eq!(host(Some(told)).log(&proc(0), &[], &[], Completion::by_id(952)), Status::ERR_NO_PERMISSIONS);
        assert_eq!(host(Some(told)).tool_connected(&[], Completion::by_id(951)), Status::ERR_INVALID_CRED);
    }
}

unsafe extern "C" fn logged(
    _client: *const pmix_proc_t,
    _data: *const pmix_info_t,
    _ndata: usize,
    _directives: *const pmix_info_t,
    _ndirs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) {
    // SAFETY: what the library passes.
    unsafe { cbfunc.unwrap()(0, cbdata) }
}

unsafe extern "C" fn refused(
    _client: *const pmix_proc_t,
    _data: *const pmix_info_t,
    _ndata: usize,
    _directives: *const pmix_info_t,
    _ndirs: usize,
    _cbfunc: Option<pmix_op_cbfunc_t>,
    _cbdata: *mut c_void,
) -> pmix_status_t {
    Status::ERR_NO_PERMISSIONS.0
}

unsafe extern "C" fn tool_let_in(
    _info: *mut pmix_info_t,
    _ninfo: usize,
    _cbfunc: Option<pmix_tool_connection_cbfunc_t>,
    _cbdata: *mut c_void,
) {
}

unsafe extern "C" fn tool_refused(
    _info: *mut pmix_info_t,
    _ninfo: usize,
    _cbfunc: Option<pmix_tool_connection_cbfunc_t>,
    _cbdata: *mut c_void,
) -> pmix_status_t {
    Status::ERR_INVALID_CRED.0
}
