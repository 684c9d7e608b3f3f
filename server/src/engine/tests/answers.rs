//! Queries that the server answers itself, because the host does not.

use super::*;

#[test]
fn queries_fall_back_to_registered_data() {
    let mut bench = Bench::new(0, 2, 2);
    let none = || UpcallResult::Op(Status::ERR_NOT_SUPPORTED);
    let one = |(status, infos): (Status, Vec<Info>)| {
        assert_eq!(status, Status::SUCCESS);
        infos.into_iter().next().map(|info| info.value)
    };
    assert_eq!(one(bench.asked(keys::QUERY_NAMESPACES, Vec::new(), none())), Some(Value::string("job")));
    assert_eq!(one(bench.asked(keys::JOB_SIZE, Vec::new(), none())), Some(Value::Uint32(4)));
    let unknown = UpcallResult::Op(Status::ERR_NOT_FOUND);
    assert_eq!(one(bench.asked(keys::JOB_SIZE, Vec::new(), unknown)), Some(Value::Uint32(4)));
    for (key, ranks) in [(keys::QUERY_PROC_TABLE, 4), (keys::QUERY_LOCAL_PROC_TABLE, 2)] {
        let job = vec![Info::new(keys::NSPACE, Value::string("job"))];
        let Some(Value::DataArray(table)) = one(bench.asked(key, job, none())) else { panic!("{key}") };
        let hosts: Vec<_> = table
            .items
            .iter()
            .map(|item| match item {
                Value::ProcInfo(info) => (info.proc.rank.0, info.hostname.clone().unwrap().into_string().unwrap()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: Vec<_> = (0..ranks).map(|rank| (rank, NODES[rank as usize / 2].to_owned())).collect();
        assert_eq!(hosts, expected, "{key}");
    }
    let of_rank = vec![Info::new(keys::RANK, Value::Rank(Rank(3)))];
    assert_eq!(one(bench.asked(keys::HOSTNAME, of_rank, none())), Some(Value::string("nodeB")));
    let Some(Value::DataArray(all)) = one(bench.asked(keys::QUERY_NAMESPACE_INFO, Vec::new(), none())) else {
        panic!()
    };
    assert_eq!(all.items.len(), 1);
    // An unknown key; and the host's answer takes precedence over registered data.
    assert_eq!(bench.asked("pmix.nobody", Vec::new(), none()), (Status::ERR_NOT_SUPPORTED, Vec::new()));
    let said = vec![Info::new(keys::QUERY_NAMESPACES, Value::string("a,b"))];
    let answer = UpcallResult::Infos(Status::SUCCESS, Info::copies(&said).unwrap());
    assert_eq!(bench.asked(keys::QUERY_NAMESPACES, Vec::new(), answer), (Status::SUCCESS, said));
    // A query of which only a part can be answered.
    let keys = [keys::JOB_SIZE, "pmix.nobody"].map(|key| CString::new(key).unwrap()).to_vec();
    bench.request(0, 61, Request::Query { queries: vec![Query { keys, qualifiers: Vec::new() }] });
    bench.answer_last(none());
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos.map(|infos| infos.len())), (Status::QUERY_PARTIAL_SUCCESS, Some(1)));
}

/// The host answers what it knows itself, and leaves the other keys to the server.
#[test]
fn keys_that_a_host_leaves_out_are_looked_up_in_registered_data() {
    let mut bench = Bench::new(0, 2, 2);
    for (tag, others, status, count) in
        [(61, &[keys::JOB_SIZE][..], Status::SUCCESS, 2), (62, &["pmix.nobody"], Status::QUERY_PARTIAL_SUCCESS, 1)]
    {
        let keys = [&[keys::QUERY_NAMESPACES], others].concat();
        let keys = keys.into_iter().map(|key| CString::new(key).unwrap()).collect();
        bench.request(0, tag, Request::Query { queries: vec![Query { keys, qualifiers: Vec::new() }] });
        let said = vec![Info::new(keys::QUERY_NAMESPACES, Value::string("a,b"))];
        bench.answer_last(UpcallResult::Infos(Status::QUERY_PARTIAL_SUCCESS, said));
        let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, tag).unwrap()).unwrap();
        let infos = reply.infos.unwrap();
        assert_eq!((reply.status, infos.len()), (status, count));
        assert_eq!(Info::find(&infos, keys::QUERY_NAMESPACES), Some(&Value::string("a,b")));
    }
}

#[test]
fn process_sets_are_known_without_the_host() {
    let mut bench = Bench::new(0, 1, 2);
    bench.engine.set_process_set(c"two".into(), Some(vec![proc(1)]));
    bench.engine.set_process_set(c"one".into(), Some(everybody()));
    let names = bench.asked(keys::QUERY_PSET_NAMES, Vec::new(), UpcallResult::Op(Status::ERROR));
    assert_eq!(names.1[0].value, Value::string("one,two"));
    assert_eq!(
        bench.asked(keys::QUERY_NUM_PSETS, Vec::new(), UpcallResult::Op(Status::ERROR)).1[0].value,
        Value::Size(2)
    );
    let set = vec![Info::new(keys::PSET_NAME, Value::string("two"))];
    let told = bench.asked(keys::QUERY_PSET_MEMBERSHIP, set, UpcallResult::Op(Status::ERROR));
    assert_eq!(told.1[0].value, Value::procs([proc(1)]));
    assert!(bench.upcalls.is_empty());
    // With something that is the host's.
    let keys = [keys::QUERY_NUM_PSETS, keys::QUERY_QUEUE_LIST].map(|key| CString::new(key).unwrap()).to_vec();
    bench.request(0, 61, Request::Query { queries: vec![Query { keys, qualifiers: Vec::new() }] });
    let asked = bench.answer_last(UpcallResult::Op(Status::ERR_NOT_FOUND));
    assert!(
        matches!(asked, Upcall::Query { queries, .. } if queries[0].keys == [CString::new(keys::QUERY_QUEUE_LIST).unwrap()])
    );
    let reply = InfosReply::decode(PLAIN, Version::OURS, &bench.reply(0, 61).unwrap()).unwrap();
    assert_eq!((reply.status, reply.infos.map(|infos| infos.len())), (Status::QUERY_PARTIAL_SUCCESS, Some(1)));
    // The last one is gone: all of it is the host's again.
    bench.engine.set_process_set(c"one".into(), None);
    bench.engine.set_process_set(c"two".into(), None);
    let gone = bench.asked(keys::QUERY_NUM_PSETS, Vec::new(), UpcallResult::Op(Status::ERR_NOT_SUPPORTED));
    assert_eq!((gone.0, &gone.1[0].value), (Status::SUCCESS, &Value::Size(0)));
    let names = bench.asked(keys::QUERY_PSET_NAMES, Vec::new(), UpcallResult::Op(Status::ERR_NOT_FOUND));
    assert_eq!(names, (Status::ERR_NOT_FOUND, Vec::new()), "as the host says");
}

#[test]
fn attributes_are_known_of_the_library_and_of_the_host() {
    let mut bench = Bench::new(0, 1, 1);
    let none = || UpcallResult::Op(Status::ERR_NOT_SUPPORTED);
    let described = |name: &str, key: &'static str, ty| Regattr {
        name: CString::new(name).ok(),
        key: key.into(),
        ty,
        description: vec![c"words".into()],
    };
    let spawn = vec![described("PMIX_SPAWN_WHERE", "host.where", DataType::STRING)];
    assert_eq!(bench.engine.register_attributes(c"PMIx_Spawn".into(), spawn.clone()), Status::SUCCESS);
    let again = bench.engine.register_attributes(c"PMIx_Spawn".into(), Vec::new());
    assert_eq!(again, Status::ERR_REPEAT_ATTR_REGISTRATION);
    assert_eq!(bench.engine.register_attributes(c"PMIx_Log".into(), Vec::new()), Status::SUCCESS);

    let mut ask = |qualifiers: &[(&'static str, Value)]| -> Vec<Info> {
        let qualifiers = qualifiers.iter().map(|(key, value)| Info::new(*key, value.clone())).collect();
        let (status, infos) = bench.asked(keys::QUERY_ATTRIBUTE_SUPPORT, qualifiers, none());
        assert_eq!((status, infos.len()), (Status::SUCCESS, 1));
        infos[0].value.iter_infos().cloned().collect()
    };
    let text = |info: &Info| String::from_utf8_lossy(info.value.as_text().unwrap()).into_owned();
    let of_host = ask(&[(keys::HOST_FUNCTIONS, Value::Undef)]);
    assert_eq!(of_host, [Info::new(keys::HOST_FUNCTIONS, Value::string("PMIx_Log,PMIx_Spawn"))]);
    let regattrs = |attributes: &[Regattr]| {
        let items = attributes.iter().map(|attribute| Value::Regattr(Box::new(attribute.clone()))).collect();
        Value::DataArray(Box::new(DataArray { ty: DataType::REGATTR, items }))
    };
    let of_spawn = ask(&[(keys::HOST_ATTRIBUTES, Value::string("PMIx_Spawn,PMIx_Get"))]);
    assert_eq!(of_spawn, [Info::new("PMIx_Spawn", regattrs(&spawn))]);
    assert_eq!(ask(&[(keys::HOST_ATTRIBUTES, Value::string("all"))]).len(), 2);
    let get = ask(&[(keys::CLIENT_ATTRIBUTES, Value::string("PMIx_Get"))]);
    let Value::DataArray(attributes) = &get[0].value else { panic!("{get:?}") };
    let names = attributes.items.iter().map(|item| match item {
        Value::Regattr(attribute) => (attribute.name.clone().unwrap(), attribute.key.to_string(), attribute.ty),
        other => panic!("{other:?}"),
    });
    let names: Vec<_> = names.collect();
    assert!(names.contains(&(c"PMIX_TIMEOUT".into(), keys::TIMEOUT.into(), DataType::INT)), "{names:?}");
    let functions = ask(&[(keys::SERVER_FUNCTIONS, Value::Undef), (keys::TOOL_FUNCTIONS, Value::Undef)]);
    assert!(
        text(&functions[0]).contains("PMIx_server_register_nspace") && text(&functions[1]).contains("PMIx_tool_init")
    );
    let everything = ask(&[]);
    assert!(everything.iter().any(|info| info.key.is(keys::CLIENT_FUNCTIONS)) && everything.len() > 40);
    assert!(everything.iter().any(|info| info.key.is("PMIx_Spawn") && info.value == regattrs(&spawn)));

    let (status, infos) = bench.asked(keys::QUERY_SUPPORTED_KEYS, Vec::new(), none());
    assert!(status.is_success() && text(&infos[0]).split(',').any(|key| key == keys::QUERY_PROC_TABLE), "{infos:?}");
    let (status, infos) = bench.asked(keys::QUERY_SUPPORTED_QUALIFIERS, Vec::new(), none());
    assert!(status.is_success() && text(&infos[0]).split(',').any(|key| key == keys::SESSION_ID), "{infos:?}");
    // A host's own list of supported keys takes precedence.
    let said = vec![Info::new(keys::QUERY_SUPPORTED_KEYS, Value::string("own"))];
    let (_, infos) =
        bench.asked(keys::QUERY_SUPPORTED_KEYS, Vec::new(), UpcallResult::Infos(Status::SUCCESS, said.clone()));
    assert_eq!(infos, said);
}
