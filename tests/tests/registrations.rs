//! Random registrations, and a simple model of the readable values: every Get and Resolve of our clients, from shared
//! memory and without it, and of stock clients as far as they support it, returns what the model predicts.
//!
//! The model is independent of the library's sorting and derivation: it starts with the layout of a job, chooses what the host
//! omits, and computes the results. Then the examples of the document on resolving peers and nodes, and of RFC0009.

use std::collections::BTreeMap;

use pmix_tests::registry::{self, text, told};
use pmix_tests::{Library, Random, times};

const WILDCARD: u32 = u32::MAX - 1;
const NOT_FOUND: &str = "status -46";
const INVALID_NAMESPACE: &str = "status -44";
const DATA_VALUE_NOT_FOUND: &str = "status -30";

const OPTIONAL: &str = "pmix.optional bool 1";

/// Values by key, in the notation of scripts and answers: "uint32 5".
type Values = BTreeMap<&'static str, String>;

fn string(value: impl AsRef<[u8]>) -> String {
    format!("string {}", text(value))
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

struct Node {
    name: String,
    alias: String,
    ranks: Vec<u32>,
    /// Its readable values.
    values: Values,
}

/// The readable values of a job.
struct Model {
    session: Values,
    job: Values,
    apps: Vec<Values>,
    nodes: Vec<Node>,
    procs: Vec<Values>,
    app_of: Vec<Option<usize>>,
    node_of: Vec<usize>,
    /// The host's registration.
    infos: String,
}

/// Infos to be nested in arrays of any depth.
struct Pieces {
    job: Vec<String>,
    session: Vec<String>,
}

impl Pieces {
    /// All infos. The nodes keep their order unless `in_any_order`.
    fn nest(self, mut nodes: Vec<String>, in_any_order: bool, random: &mut Random) -> String {
        let Pieces { mut job, mut session } = self;
        if in_any_order {
            random.shuffle(&mut nodes);
        }
        random.shuffle(&mut job);
        // Nodes are placed between the job's other infos, or after them.
        let mut rest = nodes.into_iter();
        let mut inner = Vec::new();
        for info in job {
            if random.one_in(2) {
                inner.extend(rest.next());
            }
            inner.push(info);
        }
        let behind: Vec<String> = rest.collect();
        inner.extend(behind);
        for _ in 0..random.below(4) {
            if !inner.is_empty() {
                inner = vec![format!("pmix.job.arr ( {} )", inner.join(" "))];
            }
        }
        let is_wrapped = inner.len() == 1 && inner[0].starts_with("pmix.job.arr");
        if !session.is_empty() && random.one_in(2) {
            if is_wrapped {
                session.append(&mut inner);
            }
            random.shuffle(&mut session);
            session = vec![format!("pmix.ssn.arr ( {} )", session.join(" "))];
        }
        session.append(&mut inner);
        session.join(" ")
    }
}

fn array(key: &str, mut infos: Vec<String>, random: &mut Random, first: usize) -> String {
    random.shuffle(&mut infos[first..]);
    format!("{key} ( {} )", infos.join(" "))
}

fn infos(values: &Values) -> Vec<String> {
    values.iter().map(|(key, value)| format!("{key} {value}")).collect()
}

/// Adds a value. The host gives it in some registrations; in the others the library derives it.
fn maybe(random: &mut Random, given: &mut Values, all: &mut Values, key: &'static str, said: String, derived: String) {
    if random.one_in(2) {
        given.insert(key, said.clone());
        all.insert(key, said);
    } else {
        all.insert(key, derived);
    }
}

/// Adds a value that only the host can know, or leaves it out.
fn extra(random: &mut Random, given: &mut Values, all: &mut Values, key: &'static str, value: String) {
    if random.one_in(2) {
        given.insert(key, value.clone());
        all.insert(key, value);
    }
}

/// The ranks of each node. Nodes have as many, or any number; they are filled one after the other, or by one or two ranks in turn.
fn place(size: usize, node_count: usize, random: &mut Random) -> Vec<Vec<u32>> {
    let mut room = vec![1; node_count];
    let is_even = random.one_in(2);
    for rank in node_count..size {
        room[if is_even { rank % node_count } else { random.below(node_count) }] += 1;
    }
    let at_once = [size, 1, 2][random.below(3)];
    let mut ranks_of = vec![Vec::new(); node_count];
    let mut ranks = 0..size as u32;
    while !ranks.is_empty() {
        for (list, room) in ranks_of.iter_mut().zip(&mut room) {
            let count = at_once.min(*room);
            *room -= count;
            list.extend(ranks.by_ref().take(count));
        }
    }
    ranks_of
}

impl Model {
    fn random(random: &mut Random) -> Model {
        let node_count = if random.one_in(6) { 1 + random.below(50) } else { 1 + random.below(6) };
        let most = if random.one_in(2) { 1 } else { 5 };
        let app_count = 1 + random.below(most);
        let size = node_count + random.below(3 * node_count);
        let mut ranks_of = place(size, node_count, random);
        // The source of the ranks' locations: maps, lists of the nodes, or the ranks' own infos.
        let [by_map, by_node] = [random.one_in(2), random.one_in(2)];
        let by_rank = !by_map && !by_node || random.one_in(3);
        if by_map || by_node {
            for ranks in &mut ranks_of {
                if random.one_in(4) {
                    random.shuffle(ranks);
                }
            }
        }
        let numbered = random.one_in(2);
        let mut node_of = vec![0; size];
        ranks_of
            .iter()
            .enumerate()
            .for_each(|(node, ranks)| ranks.iter().for_each(|rank| node_of[*rank as usize] = node));

        let mut pieces = Pieces { job: Vec::new(), session: Vec::new() };
        let mut nodes = Vec::new();
        let mut node_arrays = Vec::new();
        for (row, ranks) in ranks_of.into_iter().enumerate() {
            let (name, alias) = (format!("node{row}"), format!("alias{row}"));
            let id = if numbered { 100 + (row as u32 * 7) % 64 } else { row as u32 };
            let (mut given, mut all) = (Values::new(), Values::new());
            if numbered {
                given.insert("pmix.nodeid", format!("uint32 {id}"));
            }
            all.insert("pmix.nodeid", format!("uint32 {id}"));
            all.insert("pmix.hname", string(&name));
            if by_node {
                given.insert("pmix.lpeers", string(list(&ranks)));
            }
            all.insert("pmix.lpeers", string(list(&ranks)));
            let count = ranks.len();
            maybe(
                random,
                &mut given,
                &mut all,
                "pmix.local.size",
                format!("uint64 {count}"),
                format!("uint32 {count}"),
            );
            let leader = ranks.iter().min().expect("each node has a rank");
            maybe(random, &mut given, &mut all, "pmix.lldr", format!("uint32 {leader}"), format!("rank {leader}"));
            extra(random, &mut given, &mut all, "pmix.node.size", format!("uint32 {}", row + 8));
            extra(random, &mut given, &mut all, "pmix.pmem", format!("uint64 {}", row + (1 << 40)));
            extra(random, &mut given, &mut all, "site.node", string(format!("of {name}")));
            let has_alias = random.one_in(2);
            if has_alias {
                given.insert("pmix.alias", string(format!("{alias},{alias}.site")));
                all.insert("pmix.alias", string(format!("{alias},{alias}.site")));
            }
            // A node without values is known by the map. Without a map the order of the arrays is the order of the
            // nodes.
            if !given.is_empty() || !by_map {
                given.insert("pmix.hname", string(&name));
                node_arrays.push(array("pmix.node.arr", infos(&given), random, 0));
            }
            nodes.push(Node { name, alias: if has_alias { alias } else { String::new() }, ranks, values: all });
        }

        let mut procs = Vec::new();
        let mut app_of = Vec::new();
        let mut proc_arrays: Vec<Vec<String>> = vec![Vec::new(); app_count + 1];
        let offset = if random.one_in(3) { 1000 } else { 0 };
        for rank in 0..size as u32 {
            let node = &nodes[node_of[rank as usize]];
            let (mut given, mut all) = (Values::new(), Values::new());
            all.insert("pmix.rank", format!("rank {rank}"));
            if by_rank {
                given.insert("pmix.hname", string(&node.name));
            }
            all.insert("pmix.hname", string(&node.name));
            all.insert("pmix.nodeid", node.values["pmix.nodeid"].clone());
            let local = node.ranks.iter().position(|other| *other == rank).expect("it is there");
            let either = |ty: &str| format!("{ty} {local}");
            maybe(random, &mut given, &mut all, "pmix.lrank", either("uint32"), either("uint16"));
            maybe(random, &mut given, &mut all, "pmix.nrank", either("int"), either("uint16"));
            let global = rank + offset;
            maybe(random, &mut given, &mut all, "pmix.grank", format!("uint32 {global}"), format!("rank {global}"));
            extra(random, &mut given, &mut all, "pmix.cpuset", string(format!("hwloc:{rank}")));
            extra(random, &mut given, &mut all, "pmix.reinc", format!("uint32 {}", rank % 3));
            extra(random, &mut given, &mut all, "pmix.spawned", format!("bool {}", rank % 2));
            extra(random, &mut given, &mut all, "site.proc", string(format!("of {rank}")));
            let app = rank as usize % app_count;
            let nested = random.one_in(2);
            let is_known = app_count == 1 || nested || !random.one_in(8);
            if app_count > 1 && !nested && is_known {
                given.insert("pmix.appnum", format!("int {app}"));
                all.insert("pmix.appnum", format!("int {app}"));
            } else if is_known {
                all.insert("pmix.appnum", format!("uint32 {app}"));
            }
            app_of.push(is_known.then_some(app));
            let is_told = !given.is_empty() || nested && app_count > 1;
            if is_told {
                let mut infos = infos(&given);
                infos.insert(0, format!("pmix.rank rank {rank}"));
                proc_arrays[if nested { app } else { app_count }].push(array("pmix.pdata", infos, random, 1));
            }
            procs.push(all);
        }

        let mut apps = Vec::new();
        let mut counts = vec![0u32; app_count];
        for (rank, app) in app_of.iter().enumerate() {
            if let Some(app) = app {
                procs[rank].insert("pmix.apprank", format!("rank {}", counts[*app]));
                counts[*app] += 1;
            }
        }
        let mut app_arrays = Vec::new();
        for app in 0..app_count {
            let (mut given, mut all) = (Values::new(), Values::new());
            let count = counts[app];
            all.insert("pmix.appnum", format!("uint32 {app}"));
            if count > 0 {
                maybe(random, &mut given, &mut all, "pmix.app.size", format!("int {count}"), format!("uint32 {count}"));
                let leader = app_of.iter().position(|of| *of == Some(app)).expect("there is one");
                maybe(random, &mut given, &mut all, "pmix.aldr", format!("uint32 {leader}"), format!("rank {leader}"));
            }
            extra(random, &mut given, &mut all, "pmix.wdir", string(format!("/home/{app}")));
            let is_described = app_count > 1 || random.one_in(2);
            if is_described {
                extra(random, &mut given, &mut all, "site.app", string(format!("of {app}")));
            }
            let mut inner = infos(&given);
            inner.append(&mut proc_arrays[app]);
            // If there is more than one application, each is described, so that their number is known.
            if is_described {
                inner.insert(0, format!("pmix.appnum uint32 {app}"));
                app_arrays.push(array("pmix.app.arr", inner, random, 0));
            } else {
                // Outside an array, as is allowed in a job of one application.
                pieces.job.append(&mut inner);
            }
            apps.push(all);
        }

        let (mut given, mut job) = (Values::new(), Values::new());
        maybe(random, &mut given, &mut job, "pmix.job.size", format!("int {size}"), format!("uint32 {size}"));
        maybe(
            random,
            &mut given,
            &mut job,
            "pmix.num.nodes",
            format!("uint64 {node_count}"),
            format!("uint32 {node_count}"),
        );
        maybe(
            random,
            &mut given,
            &mut job,
            "pmix.job.napps",
            format!("int {app_count}"),
            format!("uint32 {app_count}"),
        );
        maybe(random, &mut given, &mut job, "pmix.max.size", format!("int {}", size + 3), format!("uint32 {size}"));
        extra(random, &mut given, &mut job, "pmix.jobid", string("the id"));
        extra(random, &mut given, &mut job, "pmix.mapby", string("slot:PE=2"));
        extra(random, &mut given, &mut job, "site.job", string("of all"));
        if offset > 0 {
            given.insert("pmix.offset", format!("rank {offset}"));
            job.insert("pmix.offset", format!("rank {offset}"));
        }
        pieces.job.append(&mut infos(&given));
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        if by_map {
            let fields: Vec<String> = nodes.iter().map(|node| list(&node.ranks)).collect();
            pieces.job.push(format!("pmix.nmap {}", string(names.join(","))));
            pieces.job.push(format!("pmix.pmap {}", string(fields.join(";"))));
        }
        job.insert("pmix.nlist", string(names.join(",")));

        let (mut given, mut session) = (Values::new(), Values::new());
        extra(random, &mut given, &mut session, "pmix.session.id", format!("uint32 {}", size + 7));
        extra(random, &mut given, &mut session, "pmix.univ.size", format!("uint32 {}", size * 2));
        extra(random, &mut given, &mut session, "pmix.clid", string("cluster"));
        pieces.session.append(&mut infos(&given));

        pieces.job.append(&mut app_arrays);
        pieces.job.append(&mut proc_arrays[app_count]);
        let infos = pieces.nest(node_arrays, by_map, random);
        Model { session, job, apps, nodes, procs, app_of, node_of, infos }
    }

    /// The answer to a Get.
    fn get(&self, caller: u32, question: &Question) -> Option<&String> {
        let of_rank = |values: &dyn Fn(usize) -> Option<usize>| match question.rank {
            WILDCARD => values(caller as usize),
            rank => values(rank as usize),
        };
        let key = question.key;
        match question.realm {
            Realm::Session => self.session.get(key),
            Realm::Job => self.job.get(key),
            Realm::Proc => self.procs.get(question.rank as usize)?.get(key),
            Realm::App => {
                let app = question.app.or_else(|| of_rank(&|rank| self.app_of[rank]))?;
                self.apps.get(app)?.get(key)
            }
            Realm::Node => {
                let node = question.node.unwrap_or(self.node_of[caller as usize]);
                self.nodes.get(node)?.values.get(key)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Realm {
    Session,
    Job,
    App,
    Node,
    Proc,
}

/// Requested keys, with or without a value.
const KEYS: [(Realm, &[&str]); 5] = [
    (Realm::Session, &["pmix.session.id", "pmix.univ.size", "pmix.clid"]),
    (
        Realm::Job,
        &[
            "pmix.job.size",
            "pmix.max.size",
            "pmix.num.nodes",
            "pmix.job.napps",
            "pmix.jobid",
            "pmix.mapby",
            "pmix.offset",
            "pmix.nlist",
            "site.job",
        ],
    ),
    (Realm::App, &["pmix.app.size", "pmix.aldr", "pmix.wdir", "site.app"]),
    (
        Realm::Node,
        &["pmix.lpeers", "pmix.local.size", "pmix.lldr", "pmix.node.size", "pmix.pmem", "pmix.alias", "site.node"],
    ),
    (
        Realm::Proc,
        &[
            "pmix.rank",
            "pmix.hname",
            "pmix.nodeid",
            "pmix.lrank",
            "pmix.nrank",
            "pmix.grank",
            "pmix.cpuset",
            "pmix.reinc",
            "pmix.spawned",
            "site.proc",
            "pmix.appnum",
            "pmix.apprank",
        ],
    ),
];

/// A Get.
#[derive(Debug)]
struct Question {
    realm: Realm,
    key: &'static str,
    rank: u32,
    app: Option<usize>,
    node: Option<usize>,
    infos: Vec<String>,
}

impl Question {
    fn random(model: &Model, random: &mut Random) -> Question {
        let (realm, keys) = *random.pick(&KEYS);
        let key = *random.pick(keys);
        let any_rank = random.below(model.procs.len() + 1) as u32;
        let mut question = Question { realm, key, rank: WILDCARD, app: None, node: None, infos: Vec::new() };
        let mut add = |info: String| question.infos.push(info);
        match realm {
            Realm::Session if random.one_in(3) => add("pmix.ssn.info bool 1".into()),
            Realm::Session => {}
            Realm::Job if random.one_in(3) => add("pmix.job.info bool 1".into()),
            // Also with a rank, as programs request it.
            Realm::Job if key.starts_with("pmix") && random.one_in(3) => question.rank = any_rank,
            Realm::Job => {}
            Realm::App if random.one_in(2) => {
                let app = random.below(model.apps.len() + 1);
                add("pmix.app.info bool 1".into());
                add(format!("pmix.appnum uint32 {app}"));
                question.app = Some(app);
            }
            Realm::App if any_rank < model.procs.len() as u32 && random.one_in(2) => question.rank = any_rank,
            Realm::App => {}
            Realm::Node => {
                let row = random.below(model.nodes.len() + 1);
                let node = model.nodes.get(row);
                match random.below(3) {
                    0 => {}
                    1 => {
                        let id = node.map_or("uint32 99".into(), |node| node.values["pmix.nodeid"].clone());
                        add(format!("pmix.nodeid {id}"));
                        question.node = Some(row);
                    }
                    _ => {
                        let name = match node {
                            None => "nowhere",
                            Some(node) if !node.alias.is_empty() && random.one_in(2) => &node.alias,
                            Some(node) => &node.name,
                        };
                        add("pmix.node.info bool 1".into());
                        add(format!("pmix.hname string {name}"));
                        question.node = Some(row);
                    }
                }
            }
            Realm::Proc => question.rank = any_rank,
        }
        question
    }

    /// Whether the stock client answers it as the standard requires. It finds neither job-level keys with a rank nor
    /// the number of another rank's node.
    fn is_for_stock(&self) -> bool {
        match self.realm {
            Realm::Job => self.rank == WILDCARD && self.infos.is_empty(),
            Realm::Proc => self.key != "pmix.nodeid",
            _ => false,
        }
    }
}

/// One request with its expected answer.
struct Asked {
    line: String,
    answer: String,
    for_stock: bool,
}

fn questions(model: &Model, nspace: &str, caller: u32, count: usize, random: &mut Random) -> Vec<Asked> {
    (0..count).map(|_| ask(model, nspace, caller, random)).collect()
}

fn ask(model: &Model, nspace: &str, caller: u32, random: &mut Random) -> Asked {
    if random.one_in(12) {
        let row = random.below(model.nodes.len() + 1);
        let (name, ranks) = match model.nodes.get(row) {
            Some(node) if !node.alias.is_empty() && random.one_in(2) => (node.alias.as_str(), &node.ranks[..]),
            Some(node) => (node.name.as_str(), &node.ranks[..]),
            None => ("nowhere", &[][..]),
        };
        let peers: String = ranks.iter().map(|rank| format!("{nspace}:{rank} ")).collect();
        return Asked { line: format!("peers {name} {nspace}"), answer: format!("{peers}status 0"), for_stock: false };
    }
    if random.one_in(12) {
        let names: Vec<&str> = model.nodes.iter().map(|node| node.name.as_str()).collect();
        let answer = format!("{} status 0", text(names.join(",")));
        return Asked { line: format!("nodes {nspace}"), answer, for_stock: true };
    }
    let mut question = Question::random(model, random);
    let found = model.get(caller, &question).cloned();
    // Without this directive a Get of a missing key waits: it may still be put.
    if found.is_none() || random.one_in(2) {
        question.infos.push(OPTIONAL.into());
    }
    random.shuffle(&mut question.infos);
    let Question { key, rank, infos, .. } = &question;
    let line = format!("get {nspace} {rank} {key} {}", infos.join(" "));
    let answer = found.map_or(NOT_FOUND.into(), |value| format!("{value} status 0"));
    Asked { line, answer, for_stock: question.is_for_stock() }
}

#[test]
fn registered_data_reads_as_in_a_plain_model() {
    let (jobs, count) = times((12, 150), (450, 1000));
    let ours = Library::ours().directory();
    let readers = [
        (ours.clone(), "", "ours"),
        (ours, "PMIX_DSTORE_SHM=0", "ours over the socket"),
        (Library::Stock.directory(), "", "stock"),
    ];
    let mut asked = 0;
    for seed in 0..jobs {
        let mut random = Random::new(seed + 1);
        let model = Model::random(&mut random);
        let nspace = format!("job{seed}");
        let caller = random.below(model.procs.len()) as u32;
        let questions = questions(&model, &nspace, caller, count, &mut random);
        let local = model.nodes[model.node_of[caller as usize]].ranks.len();
        let mut script = format!("register {nspace} {local} {}\nclient {nspace} {caller}\n", model.infos);
        for (library, variable, name) in &readers {
            script += &format!("rank {nspace} {caller} {} {variable}\n", text(library.display().to_string()));
            questions.iter().filter(|asked| *name != "stock" || asked.for_stock).for_each(|asked| {
                script += &asked.line;
                script.push('\n');
            });
            script += "end\n";
        }
        let answers = registry::run(Library::ours(), &script);
        assert_eq!(answers[..2], ["status 0", "status 0"], "seed {seed}: {}", model.infos);
        let mut answers = answers[2..].iter();
        for (_, _, name) in &readers {
            for Asked { line, answer, .. } in questions.iter().filter(|asked| *name != "stock" || asked.for_stock) {
                let found = answers.next().expect("an answer to each question");
                assert_eq!(found, answer, "{name}, seed {seed}, rank {caller}: {line}\n{}", model.infos);
                asked += 1;
            }
            assert_eq!(answers.next().map(String::as_str), Some("rank ended with 0"));
        }
    }
    eprintln!("{asked} questions");
}

/// The jobs of the examples of the document on resolving. node2 has no processes, node3 is registered without its processes;
/// `bare` has no node data, `mapped` only a map.
const RESOLVED: &str = "
    register job 1 pmix.job.size uint32 3 \\
        pmix.node.arr ( pmix.hname string node0 pmix.lpeers string 0%2C2 ) \\
        pmix.node.arr ( pmix.hname string node1 pmix.alias string one%2Ceins pmix.lpeers string 1 ) \\
        pmix.node.arr ( pmix.hname string node2 pmix.lpeers string - ) \\
        pmix.node.arr ( pmix.hname string node3 pmix.node.size uint32 4 )
    register bare 0 pmix.univ.size uint32 4
    register mapped 0 pmix.nmap string node0%2Cnode7%2Cnode8 pmix.pmap string 0%3B1%2C2
    client job 0
";

/// One example, in the server's process and in a rank.
fn resolved(lines: &str) {
    told(&format!("{RESOLVED}\n{lines}\nrank job 0\n{lines}\nend"));
}

#[test]
fn the_peers_of_a_node_are_those_that_the_host_lists() {
    resolved("peers node0 job => job:0 job:2 status 0\npeers node1 job => job:1 status 0");
}

#[test]
fn a_node_is_found_by_its_other_names() {
    resolved("peers eins job => job:1 status 0\npeers one job => job:1 status 0");
}

#[test]
fn a_node_that_is_not_the_jobs_has_no_peers() {
    resolved("peers nowhere job => status 0");
}

#[test]
fn a_null_list_of_peers_is_empty() {
    resolved("peers node2 job => status 0");
}

#[test]
fn without_a_list_or_a_map_the_peers_are_not_known() {
    resolved(&format!("peers node3 job => {DATA_VALUE_NOT_FOUND}"));
}

#[test]
fn peers_are_reconstructed_from_the_process_map() {
    resolved("peers node7 mapped => mapped:1 mapped:2 status 0");
    // A node of the map without processes, and one that is not in the map.
    resolved("peers node8 mapped => status 0\npeers nowhere mapped => status 0");
}

#[test]
fn an_unknown_job_is_an_invalid_namespace() {
    resolved(&format!("peers node0 unknown => {INVALID_NAMESPACE}\nnodes unknown => {INVALID_NAMESPACE}"));
}

/// The host has no upcall for queries.
#[test]
fn a_job_without_nodes_resolves_to_no_peers() {
    resolved("peers node0 bare => status 0\npeers - bare => status 0\nnodes bare => NULL status 0");
}

#[test]
fn the_nodes_of_a_job_are_those_on_its_list() {
    resolved("nodes job => node0%2Cnode1%2Cnode2%2Cnode3 status 0\nnodes mapped => node0%2Cnode7%2Cnode8 status 0");
}

#[test]
fn without_a_node_it_is_the_callers() {
    told(&format!("{RESOLVED}\nrank job 0\npeers - job => job:0 job:2 status 0\nend"));
}

#[test]
fn without_a_namespace_it_is_all_jobs_that_the_server_knows() {
    resolved(
        "peers node0 - => job:0 job:2 mapped:0 status 0
        peers node7 - => mapped:1 mapped:2 status 0
        peers nowhere - => status 0
        nodes - => node0%2Cnode1%2Cnode2%2Cnode3%2Cnode7%2Cnode8 status 0",
    );
    // The caller's node has a name of its own in the caller's job; other jobs know it by the machine's.
    told(&format!("{RESOLVED}\nrank job 0\npeers - - => job:0 job:2 status 0\nend"));
    // The own job's processes come first.
    told(&format!(
        "{RESOLVED}
        client mapped 0
        rank mapped 0
        peers node0 - => mapped:0 job:0 job:2 status 0
        nodes - => node0%2Cnode7%2Cnode8%2Cnode1%2Cnode2%2Cnode3 status 0
        end"
    ));
}

/// One rule of RFC0009 with its examples, in rank 0 of a job of three ranks on two nodes.
fn by_rfc0009(lines: &str) {
    told(&format!(
        "
        register job 2 pmix.univ.size uint32 16 pmix.nmap string node0%2Cnode1 pmix.pmap string 0%2C1%3B2 \\
            pmix.pdata ( pmix.rank rank 0 pmix.appnum uint32 0 ) pmix.pdata ( pmix.rank rank 2 pmix.appnum uint32 1 )
        register other 0 pmix.job.size uint32 5 pmix.pdata ( pmix.rank rank 3 pmix.cpuset string 7 )
        client job 0
        rank job 0
        {lines}
        end
        "
    ));
}

#[test]
fn values_of_a_process_are_marked_with_its_rank() {
    by_rfc0009("get job 2 pmix.lrank => uint16 0 status 0\nget job 1 pmix.lrank => uint16 1 status 0");
    by_rfc0009(&format!("get job {WILDCARD} pmix.lrank => {NOT_FOUND}"));
}

#[test]
fn values_that_differ_by_process_are_marked_with_its_rank() {
    by_rfc0009("get job 2 pmix.appnum => uint32 1 status 0\nget job 0 pmix.local.size => uint32 2 status 0");
}

#[test]
fn values_of_a_job_are_marked_with_the_wildcard() {
    by_rfc0009(&format!("get job {WILDCARD} pmix.univ.size => uint32 16 status 0"));
}

/// Existing programs put such keys, so it is no error.
#[test]
fn reserved_keys_cannot_be_put() {
    by_rfc0009(&format!(
        "put 3 pmix.mine uint32 1 => status 0
        put 3 mine uint32 2 => status 0
        commit => status 0
        get job 0 pmix.mine {OPTIONAL} => {NOT_FOUND}
        get job 0 mine => uint32 2 status 0"
    ));
}

#[test]
fn with_a_value_of_another_job_come_all_of_that_job() {
    by_rfc0009(&format!(
        "get other {WILDCARD} pmix.job.size {OPTIONAL} => {NOT_FOUND}
        get other 3 pmix.cpuset => string 7 status 0"
    ));
}

/// A line in the server's log names the job, the key and the error. Nothing of the job is registered, and earlier
/// registrations are unchanged.
#[test]
fn a_refused_registration_is_told_with_its_key() {
    let map = "pmix.nmap string node0%2Cnode1 pmix.pmap string 0%2C1%3B2";
    let cases = [
        ("pmix.pmap", "site.a string a pmix.nmap string node0%2Cnode1 pmix.pmap string 0%2C1%3B1".to_owned()),
        ("pmix.nmap", "site.a string a pmix.nmap string node0%2Cnode0 pmix.pmap string 0%3B1".to_owned()),
        ("pmix.job.size", format!("site.a string a {map} pmix.job.size uint32 9")),
        ("pmix.job.size", format!("site.a string a {map} pmix.job.size string 3")),
        (
            "pmix.local.size",
            format!("{map} pmix.node.arr ( pmix.hname string node1 site.a string a pmix.local.size uint32 4 )"),
        ),
        ("pmix.pdata", format!("{map} site.a string a pmix.pdata ( site.a string a )")),
        ("pmix.node.arr", format!("{map} site.a string a pmix.node.arr ( )")),
        ("pmix.qual.val", format!("{map} site.a string a pmix.qual.val uint32 1")),
    ];
    for (index, (key, infos)) in cases.iter().enumerate() {
        let script = format!(
            "register bad{index} 1 {infos}
            get bad{index} {WILDCARD} site.a {OPTIONAL}
            nodes bad{index}
            register good 1 {map} site.b uint32 1
            register good 1 {infos} site.b uint32 2
            get good {WILDCARD} site.b {OPTIONAL}
            get good {WILDCARD} site.a {OPTIONAL}"
        );
        let script: String = script.lines().map(|line| format!("{}\n", line.trim())).collect();
        let ended = registry::ended(Library::ours(), &script);
        let answers: Vec<&str> = ended.stdout.lines().collect();
        let bad_param = "status -27";
        let expected = [bad_param, NOT_FOUND, INVALID_NAMESPACE, "status 0", bad_param, "uint32 1 status 0", NOT_FOUND];
        assert_eq!((ended.code(), &answers[..]), (0, &expected[..]), "{infos}: {}", ended.stderr);
        for job in [format!("bad{index}"), "good".to_owned()] {
            let line = format!("job {job} is not registered: {key}: ");
            let said = ended.stderr.lines().filter(|said| said.contains(&line)).count();
            assert_eq!(said, 1, "{line}{}", ended.stderr);
        }
    }
}

/// A session's array may describe several jobs. A job's own registration takes precedence; a job without one ends
/// with the job that describes it.
#[test]
fn other_jobs_in_the_array_of_a_session_are_jobs() {
    let other = "pmix.job.arr ( pmix.nspace string other pmix.job.size uint32 3 pmix.nmap string node0%2Cnode7 \\
        pmix.pmap string 0%3B1%2C2 site.key string said )";
    told(&format!(
        "
        register job 1 pmix.ssn.arr ( pmix.session.id uint32 4 site.session uint32 9 \\
            pmix.job.arr ( pmix.job.size uint32 1 ) {other} )
        client job 0
        rank job 0
        get job {WILDCARD} pmix.job.size => uint32 1 status 0
        get other {WILDCARD} pmix.job.size => uint32 3 status 0
        get other {WILDCARD} site.key => string said status 0
        get other 2 pmix.hname => string node7 status 0
        get other {WILDCARD} pmix.session.id pmix.ssn.info bool 1 => uint32 4 status 0
        peers node7 other => other:1 other:2 status 0
        end
        register other 1 pmix.job.size uint32 5
        register job 1 pmix.ssn.arr ( pmix.session.id uint32 4 {other} )
        rank job 0
        get other {WILDCARD} pmix.job.size => uint32 5 status 0
        end
        "
    ));
    let described = "register job 1 pmix.job.size uint32 1 pmix.ssn.arr ( pmix.session.id uint32 4 \\
        pmix.job.arr ( pmix.nspace string other pmix.job.size uint32 3 ) )";
    told(&format!(
        "
        {described}
        get other {WILDCARD} pmix.job.size => uint32 3 status 0
        deregister job
        get other {WILDCARD} pmix.job.size {OPTIONAL} => {NOT_FOUND}
        "
    ));
}
