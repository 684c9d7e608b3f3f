//! Gets and queries with more than key and rank: qualifiers, sessions, time limits; and queries about the library
//! itself.

use pmix_tests::registry::{told, told_to};
use pmix_tests::{Library, left_out};

const NOT_FOUND: &str = "status -46";
const BAD_PARAM: &str = "status -27";
const TIMEOUT: &str = "status -24";
const OPTIONAL: &str = "pmix.optional bool 1";

/// A rank's puts in the tests of qualified values: one key three times, and another one.
const PUTS: &str = "
    put 3 pmix.qual.val ( cid uint32 10 ~group string a )
    put 3 pmix.qual.val ( cid uint32 19 ~group string b )
    put 3 pmix.qual.val ( cid uint32 20 ~group string b )
    put 2 pmix.qual.val ( cid uint32 30 ~group string b ~part uint32 3 )
    put 1 pmix.qual.val ( other string text ~group string a )
    put 3 cid uint32 40
    put 3 plain uint32 50
    commit
";

#[test]
fn values_under_one_key_are_found_by_their_qualifiers() {
    told(&format!(
        "
        register job 2 pmix.nmap string node0 pmix.pmap string 0%2C1 \
            pmix.qual.val ( of.job uint32 1 ~which string first ) \
            pmix.job.arr ( pmix.qual.val ( of.job uint32 2 ~which string second ) ) \
            pmix.pdata ( pmix.rank rank 1 pmix.qual.val ( of.rank uint32 3 ~which string first ) \
                pmix.qual.val ( of.rank uint32 4 ~which string second ) )
        client job 0
        client job 1
        rank job 0
        {PUTS}
        put 3 pmix.qual.val uint32 1 => {BAD_PARAM}
        put 3 pmix.qual.val ( ) => {BAD_PARAM}
        get job 0 cid ~group string a => uint32 10 status 0
        get job 0 cid ~group string b => uint32 20 status 0
        get job 0 cid ~part uint32 3 => uint32 30 status 0
        get job 0 cid => uint32 40 status 0
        get job 0 plain {OPTIONAL} ~group string a => {NOT_FOUND}
        store job 1 pmix.qual.val ( cid uint32 70 ~group string c )
        get job 1 cid {OPTIONAL} ~group string c => uint32 70 status 0
        end
        rank job 1
        // Another rank of the node: its puts with global and local scope.
        get job 0 cid ~group string a => uint32 10 status 0
        get job 0 cid ~group string b => uint32 20 status 0
        get job 0 cid pmix.immediate bool 1 ~group string c => {NOT_FOUND}
        get job 0 cid pmix.immediate bool 1 ~part uint32 3 => {NOT_FOUND}
        get job 0 cid pmix.immediate bool 1 ~group string a ~part uint32 3 => {NOT_FOUND}
        get job 0 other ~group string a => string text status 0
        get job 0 cid => uint32 40 status 0
        get job 0 plain pmix.immediate bool 1 ~group string a => {NOT_FOUND}
        // The host's registration.
        get job 4294967294 of.job {OPTIONAL} ~which string second => uint32 2 status 0
        get job 4294967294 of.job {OPTIONAL} ~which string first => uint32 1 status 0
        get job 1 of.job {OPTIONAL} ~which string first => uint32 1 status 0
        get job 4294967294 of.job {OPTIONAL} ~which string third => {NOT_FOUND}
        get job 1 of.rank {OPTIONAL} ~which string first => uint32 3 status 0
        get job 1 of.rank {OPTIONAL} ~which string second => uint32 4 status 0
        get job 0 of.rank {OPTIONAL} ~which string second => {NOT_FOUND}
        end
        // The host itself.
        get job 0 cid ~group string b => uint32 20 status 0
        get job 1 of.rank ~which string second => uint32 4 status 0
        get job 4294967294 of.job ~which string second => uint32 2 status 0
        get job 4294967294 of.job ~which string third => {NOT_FOUND}
        "
    ));
}

/// Open MPI puts it with the group's context id as its qualifier. Programs also put it without one, as is possible from
/// release 6.1 on.
#[test]
fn each_rank_puts_its_own_context_id_of_a_group() {
    let of_two = "register job 2 pmix.nmap string node0 pmix.pmap string 0%2C1\nclient job 0\nclient job 1";
    let puts = "
        put 3 pmix.grp.lclid size 7
        put 3 pmix.qual.val ( pmix.grp.lclid size 8 ~pmix.grp.ctxid size 1 )
        put 3 pmix.mine uint32 9
        commit
        fence";
    let own = "get job 0 pmix.grp.lclid => size 7 status 0
        get job 0 pmix.grp.lclid pmix.optional bool 1 => size 7 status 0
        get job 0 pmix.grp.lclid ~pmix.grp.ctxid size 1 => size 8 status 0
        get - 4294967295 pmix.grp.lclid => size 7 status 0";
    let others = format!("{own}\n get job 0 pmix.mine => {NOT_FOUND}");
    told(&format!(
        "{of_two}\nrank job 0\n{puts_alone}\n{own}\nend\nrank job 1\n{others}\nend",
        puts_alone = puts.replace("fence", "")
    ));
    // From shared memory, where an optional Get finds it without a request. The job has one rank with a second process,
    // which has put nothing.
    let of_one = "register job 1 pmix.nmap string node0 pmix.pmap string 0\nclient job 0";
    let found = "get job 0 pmix.grp.lclid pmix.optional bool 1 => size 7 status 0";
    told_to(&format!("{of_one}\nrank job 0\n{puts}\n{own}\nend\nrank job 0\n{found}\nend"), &[(Library::ours(), "")]);
}

/// The second process of a rank has no values of its own: a value found without a request is in shared memory.
#[test]
fn qualified_values_lie_in_shared_memory() {
    let script = format!(
        "
        register job 1 pmix.nmap string node0 pmix.pmap string 0
        client job 0
        rank job 0
        {PUTS}
        fence
        put 3 pmix.qual.val ( cid uint32 60 ~group string d )
        commit
        fence
        end
        rank job 0
        get job 0 cid {OPTIONAL} ~group string a => uint32 10 status 0
        get job 0 cid {OPTIONAL} ~group string b => uint32 20 status 0
        get job 0 cid {OPTIONAL} ~group string d => uint32 60 status 0
        get job 0 cid {OPTIONAL} ~part uint32 3 => {NOT_FOUND}
        get job 0 cid {OPTIONAL} => uint32 40 status 0
        end
        "
    );
    told_to(&script, &[(Library::ours(), "")]);
}

/// Stock clients put qualified values, read them, and read the host's. 4.2.2 finds none that ranks put.
#[test]
fn stock_clients_have_qualified_values() {
    let host = format!(
        "
        register job 2 pmix.nmap string node0 pmix.pmap string 0%2C1 \\
            pmix.qual.val ( of.job uint32 1 ~which string first ) \\
            pmix.qual.val ( of.job uint32 2 ~which string second ) \\
            pmix.pdata ( pmix.rank rank 1 pmix.qual.val ( of.rank uint32 3 ~which string first ) \\
                pmix.qual.val ( of.rank uint32 4 ~which string second ) )
        client job 0
        client job 1
        rank job 1
        get job 4294967294 of.job {OPTIONAL} ~which string second => uint32 2 status 0
        get job 1 of.rank {OPTIONAL} ~which string first => uint32 3 status 0
        get job 1 of.rank {OPTIONAL} ~which string second => uint32 4 status 0
        get job 1 of.rank {OPTIONAL} ~which string third => {NOT_FOUND}
        end
        "
    );
    told_to(&host, &[(Library::Stock, "")]);
    let ranks = format!(
        "
        {host}
        rank job 0
        {PUTS}
        end
        rank job 1
        get job 0 cid ~group string a => uint32 10 status 0
        get job 0 cid ~group string b => uint32 20 status 0
        get job 0 cid => uint32 40 status 0
        get job 0 other ~group string a => string text status 0
        end
        "
    );
    let others: Vec<_> = Library::others().iter().map(|library| (*library, "")).collect();
    if others.is_empty() {
        left_out("peers", "PMIX_TEST_PEERS names no release in which ranks have qualified values");
    }
    told_to(&ranks, &others);
}

#[test]
fn jobs_are_of_sessions() {
    told(&format!(
        "
        // The session of a job: the one that it names, the one with the job in its array, the only one.
        register one 1 pmix.ssn.arr ( pmix.session.id uint32 7 pmix.univ.size uint32 70 site.session string seven ) \\
            pmix.ssn.arr ( pmix.session.id uint32 8 pmix.univ.size uint32 80 pmix.clid string here \\
                pmix.job.arr ( pmix.nmap string node9 pmix.pmap string 0 pmix.job.size uint32 1 ) ) \\
            pmix.job.arr ( pmix.session.id uint32 7 pmix.nmap string node0 pmix.pmap string 0%2C1 )
        register two 0 pmix.ssn.arr ( pmix.session.id uint32 9 pmix.univ.size uint32 90 ) \\
            pmix.ssn.arr ( pmix.session.id uint32 7 pmix.clid string there \\
                pmix.job.arr ( pmix.nmap string node0 pmix.pmap string 2 ) )
        register three 0 pmix.session.id uint32 7 pmix.nmap string node0 pmix.pmap string 3
        register four 1 pmix.ssn.arr ( pmix.session.id uint32 8 site.session string eight ) pmix.nmap string node0 pmix.pmap string 0
        client one 0
        client four 0
        rank one 0
        get one 4294967294 pmix.session.id {OPTIONAL} => uint32 7 status 0
        get one 4294967294 pmix.job.size {OPTIONAL} => uint32 2 status 0
        get one 4294967294 pmix.univ.size {OPTIONAL} => uint32 70 status 0
        get one 4294967294 pmix.univ.size {OPTIONAL} pmix.ssn.info bool 1 => uint32 70 status 0
        get one 4294967294 pmix.univ.size {OPTIONAL} pmix.ssn.info bool 1 pmix.session.id uint32 7 => uint32 70 status 0
        // Session data registered with another job apply to this one, too; its own take precedence.
        get one 4294967294 pmix.clid {OPTIONAL} => string there status 0
        // Only the server knows other sessions.
        get one 4294967294 pmix.univ.size {OPTIONAL} pmix.ssn.info bool 1 pmix.session.id uint32 8 => {NOT_FOUND}
        get one 4294967294 pmix.univ.size pmix.ssn.info bool 1 pmix.session.id uint32 8 => uint32 80 status 0
        get one 4294967294 pmix.univ.size pmix.ssn.info bool 1 pmix.session.id uint32 9 => uint32 90 status 0
        get one 4294967294 pmix.clid pmix.session.id uint32 8 => string here status 0
        get one 4294967294 site.session pmix.session.id uint32 8 => string eight status 0
        get one 4294967294 pmix.univ.size pmix.ssn.info bool 1 pmix.session.id uint32 10 => {NOT_FOUND}
        get one 4294967294 pmix.univ.size {OPTIONAL} => uint32 70 status 0
        // Other jobs of the session.
        get two 4294967294 site.session pmix.ssn.info bool 1 => string seven status 0
        get three 4294967294 pmix.univ.size => uint32 70 status 0
        get three 3 pmix.hname => string node0 status 0
        end
        rank four 0
        get four 4294967294 pmix.session.id {OPTIONAL} => uint32 8 status 0
        get four 4294967294 pmix.univ.size {OPTIONAL} => uint32 80 status 0
        get four 4294967294 site.session {OPTIONAL} pmix.ssn.info bool 1 => string eight status 0
        end
        // A later registration adds data of a session, and the first job reads them. Session data of a deregistered job
        // stay.
        register five 0 pmix.ssn.arr ( pmix.session.id uint32 7 site.later string word pmix.univ.size uint32 77 )
        deregister two
        get one 4294967294 site.later pmix.ssn.info bool 1 => string word status 0
        get one 4294967294 pmix.clid => string there status 0
        get one 4294967294 pmix.univ.size => uint32 70 status 0
        get three 4294967294 pmix.univ.size => uint32 77 status 0
        get one 4294967294 pmix.univ.size pmix.session.id uint32 8 => uint32 80 status 0
        query pmix.univ.size pmix.nspace string one pmix.session.id uint32 8 => ( pmix.univ.size uint32 80 ) status 0
        query pmix.univ.size pmix.nspace string one => ( pmix.univ.size uint32 70 ) status 0
        rank one 0
        get one 4294967294 site.later {OPTIONAL} pmix.ssn.info bool 1 => string word status 0
        query pmix.univ.size pmix.session.id uint32 8 => ( pmix.univ.size uint32 80 ) status 0
        end
        "
    ));
}

/// The derived number of an application's processes on a node: of the caller's application and of others.
#[test]
fn an_application_has_a_size_on_each_node() {
    let app = |appnum: u32, ranks: &[u32]| {
        let procs = ranks.iter().map(|rank| format!("pmix.pdata ( pmix.rank rank {rank} ) ")).collect::<String>();
        format!("pmix.app.arr ( pmix.appnum uint32 {appnum} {procs})")
    };
    let (five, nine) = (app(5, &[0, 1, 2]), app(9, &[3, 4]));
    told(&format!(
        "
        register job 1 pmix.nmap string node0%2Cnode1 pmix.pmap string 0%2C2%2C3%3B1%2C4 {five} {nine}
        register told 1 pmix.nmap string node0%2Cnode1 pmix.pmap string 0%3B1 \\
            pmix.app.arr ( pmix.appnum uint32 0 pmix.local.size uint32 7 )
        client job 0
        rank job 0
        get job 4294967294 pmix.local.size {OPTIONAL} => uint32 3 status 0
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.app.info bool 1 => uint32 2 status 0
        get job 0 pmix.local.size {OPTIONAL} pmix.app.info bool 1 => uint32 2 status 0
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.app.info bool 1 pmix.appnum uint32 5 => uint32 2 status 0
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.app.info bool 1 pmix.appnum uint32 9 => uint32 1 status 0
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.app.info bool 1 pmix.appnum uint32 6 => {NOT_FOUND}
        // On another node.
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.app.info bool 1 pmix.appnum uint32 5 pmix.hname string node1 => uint32 1 status 0
        get job 4294967294 pmix.local.size {OPTIONAL} pmix.hname string node1 => uint32 2 status 0
        // The host's own value takes precedence.
        get told 4294967294 pmix.local.size pmix.app.info bool 1 pmix.appnum uint32 0 => uint32 7 status 0
        end
        "
    ));
}

#[test]
fn a_get_without_a_key_gives_all_there_is() {
    let job = "pmix.ssn.arr ( pmix.session.id uint32 7 ) pmix.job.arr ( pmix.nmap string node0 pmix.pmap string 0%2C1 \\
        pmix.app.arr ( pmix.appnum uint32 0 site.app string app ) pmix.qual.val ( of.job uint32 1 ~which string first ) ) \\
        pmix.pdata ( pmix.rank rank 1 pmix.cpuset string 3 pmix.qual.val ( of.rank uint32 2 ~which string first ) )";
    let places = "pmix.appnum uint32 0 pmix.apprank rank 1 pmix.cpuset string 3 pmix.grank rank 1 pmix.hname string node0 \\
        pmix.lrank uint16 1 pmix.nodeid uint32 0 pmix.nrank uint16 1";
    let of_rank = "pmix.qual.val ( of.rank uint32 2 which string first ) pmix.rank rank 1";
    let of_job = "pmix.app.arr ( pmix.aldr rank 0 pmix.app.size uint32 2 pmix.appnum uint32 0 site.app string app ) \\
        pmix.job.napps uint32 1 pmix.job.size uint32 2 pmix.max.size uint32 2 pmix.nlist string node0 pmix.nmap string node0 \\
        pmix.node.arr ( pmix.hname string node0 pmix.lldr rank 0 pmix.local.size uint32 2 pmix.lpeers string 0%2C1 \\
        pmix.nodeid uint32 0 ) pmix.num.nodes uint32 1 pmix.pmap string 0%2C1 \\
        pmix.qual.val ( of.job uint32 1 which string first ) pmix.ssn.arr ( pmix.session.id uint32 7 )";
    let of_job_told = of_job.replace("pmix.nmap string node0 ", "").replace("pmix.pmap string 0%2C1 ", "");
    let script = |of_job: &str| {
        format!(
            "
            register job 2 {job}
            register other 0 pmix.nmap string node0 pmix.pmap string 0%2C1 pmix.pdata ( pmix.rank rank 1 pmix.cpuset string 3 )
            client job 0
            client job 1
            rank job 1
            // Before any put: the Get waits for no rank.
            get job 1 - => ( {places} {of_rank} ) status 0
            get job 1 - {OPTIONAL} => ( {places} {of_rank} ) status 0
            put 3 mine uint32 5
            put 3 pmix.qual.val ( cid uint32 6 ~group string a )
            get job 1 - {OPTIONAL} => ( mine uint32 5 {places} pmix.qual.val ( of.rank uint32 2 which string first ) \\
                pmix.qual.val ( cid uint32 6 group string a ) pmix.rank rank 1 ) status 0
            commit
            end
            rank job 0
            // Another rank's puts have not arrived; the host's registration has.
            get job 1 - {OPTIONAL} => ( {places} {of_rank} ) status 0
            get job 1 - => ( mine uint32 5 {places} pmix.qual.val ( of.rank uint32 2 which string first ) \\
                pmix.qual.val ( cid uint32 6 group string a ) pmix.rank rank 1 ) status 0
            get job 4294967294 - {OPTIONAL} => ( {of_job} ) status 0
            // For another job the server returns the host's registration.
            get other 1 - pmix.immediate bool 1 => ( {places} pmix.rank rank 1 ) status 0
            end
            "
        )
    };
    told_to(&script(of_job), &[(Library::ours(), "")]);
    told_to(&script(&of_job_told), &[(Library::ours(), " PMIX_DSTORE_SHM=0")]);
}

#[test]
fn a_get_waits_as_long_as_it_says() {
    told(&format!(
        "
        register job 2 pmix.nmap string node0 pmix.pmap string 0%2C1
        client job 0
        client job 1
        rank job 0
        put 3 first uint32 1
        commit
        // Of a rank that has not connected, and of one that has put another key.
        get job 1 first pmix.timeout int 1 => {TIMEOUT}
        get job 1 - pmix.timeout int 1 => {TIMEOUT}
        get job 0 second pmix.timeout int 1 => {TIMEOUT}
        get job 1 first pmix.immediate bool 1 => {NOT_FOUND}
        get job 1 first {OPTIONAL} pmix.timeout int 1 => {NOT_FOUND}
        get job 0 second pmix.timeout int 0 => {NOT_FOUND}
        end
        "
    ));
}

#[test]
fn data_registered_for_all_jobs_is_read_from_each() {
    told(&format!(
        "
        register old 1 pmix.nmap string node0 pmix.pmap string 0 site.own string mine
        resources site.all string word site.own string other site.number uint32 5
        register new 1 pmix.nmap string node0 pmix.pmap string 0
        client old 0
        client new 0
        rank old 0
        get old 4294967294 site.all {OPTIONAL} => string word status 0
        get old 4294967294 site.own {OPTIONAL} => string mine status 0
        end
        rank new 0
        get new 4294967294 site.all {OPTIONAL} => string word status 0
        get new 4294967294 site.own {OPTIONAL} => string other status 0
        end
        resources site.all string newer
        withdraw site.number undef 0
        get new 4294967294 site.all => string newer status 0
        rank new 0
        get new 4294967294 site.all {OPTIONAL} => string newer status 0
        get new 4294967294 site.number {OPTIONAL} => {NOT_FOUND}
        get new 4294967294 site.own {OPTIONAL} => string other status 0
        end
        register new 1 site.more uint32 1
        get new 4294967294 site.all => string newer status 0
        withdraw site.all undef 0 site.own undef 0
        get new 4294967294 site.all {OPTIONAL} => {NOT_FOUND}
        get old 4294967294 site.own {OPTIONAL} => string mine status 0
        "
    ));
}

#[test]
fn sessions_are_described_apart_from_their_jobs() {
    told(&format!(
        "
        session 7 pmix.univ.size uint32 64 site.own string session
        // The first description counts; the largest number is no session.
        session 7 pmix.univ.size uint32 1
        session 4294967295 pmix.univ.size uint32 1 => status -27
        register early 1 pmix.nmap string node0 pmix.pmap string 0 pmix.session.id uint32 7
        register other 1 pmix.nmap string node0 pmix.pmap string 0 pmix.session.id uint32 8
        client early 0
        client other 0
        rank early 0
        get early 4294967294 pmix.univ.size {OPTIONAL} pmix.ssn.info bool 1 => uint32 64 status 0
        get early 4294967294 site.own {OPTIONAL} pmix.ssn.info bool 1 => string session status 0
        end
        rank other 0
        get other 4294967294 site.own {OPTIONAL} pmix.ssn.info bool 1 => {NOT_FOUND}
        end
        // A session outlives its last job.
        deregister early
        session 8 site.own string late
        register late 1 pmix.nmap string node0 pmix.pmap string 0 pmix.session.id uint32 7
        get late 4294967294 site.own pmix.ssn.info bool 1 => string session status 0
        get other 4294967294 site.own pmix.ssn.info bool 1 => string late status 0
        end-session 7
        end-session 9
        get late 4294967294 site.own {OPTIONAL} pmix.ssn.info bool 1 => {NOT_FOUND}
        get other 4294967294 site.own pmix.ssn.info bool 1 => string late status 0
        "
    ));
}

#[test]
fn supported_attributes_can_be_queried() {
    told(
        "
        register job 1 pmix.nmap string node0 pmix.pmap string 0
        client job 0
        attributes PMIx_Spawn PMIX_TIMEOUT PMIX_MAPBY SITE_OWN
        attributes PMIx_Spawn PMIX_TIMEOUT => status -171
        rank job 0
        query pmix.qry.attrs pmix.host.fns undef 0 => ( pmix.qry.attrs ( pmix.host.fns string PMIx_Spawn ) ) status 0
        query pmix.qry.attrs pmix.host.attrs string PMIx_Spawn => ( pmix.qry.attrs \\
            ( PMIx_Spawn attributes PMIX_TIMEOUT pmix.timeout 6 PMIX_MAPBY pmix.mapby 3 SITE_OWN SITE_OWN 0 ) ) status 0
        query pmix.qry.attrs pmix.client.attrs string PMIx_Finalize => ( pmix.qry.attrs \\
            ( PMIx_Finalize attributes PMIX_EMBED_BARRIER pmix.embed.barrier 1 ) ) status 0
        end
        query pmix.qry.attrs pmix.host.fns undef 0 => ( pmix.qry.attrs ( pmix.host.fns string PMIx_Spawn ) ) status 0
        ",
    );
}

/// The attributes that a rank declares are in its own queries alone.
#[test]
fn attributes_of_a_client_are_in_its_own_queries() {
    let run = "Site_run attributes PMIX_TIMEOUT pmix.timeout 6 SITE_OWN SITE_OWN 0";
    let finalize = "PMIx_Finalize attributes PMIX_EMBED_BARRIER pmix.embed.barrier 1";
    told(&format!(
        "
        register job 2 pmix.nmap string node0 pmix.pmap string 0%2C1
        client job 0
        client job 1
        attributes PMIx_Spawn PMIX_MAPBY
        rank job 0
        attributes Site_run PMIX_TIMEOUT SITE_OWN
        attributes Site_run PMIX_TIMEOUT => status -171
        query pmix.qry.attrs pmix.client.attrs string Site_run => ( pmix.qry.attrs ( {run} ) ) status 0
        query pmix.qry.attrs pmix.client.attrs string Site_run%2CPMIx_Finalize => ( pmix.qry.attrs ( {finalize} {run} ) ) status 0
        query pmix.qry.attrs pmix.host.fns undef 0 => ( pmix.qry.attrs ( pmix.host.fns string PMIx_Spawn ) ) status 0
        end
        rank job 1
        query pmix.qry.attrs pmix.client.attrs string Site_run => status -47
        query pmix.qry.attrs pmix.client.attrs string PMIx_Finalize => ( pmix.qry.attrs ( {finalize} ) ) status 0
        end
        "
    ));
}

/// The host answers no queries.
#[test]
fn registered_data_answers_queries() {
    told(
        "
        register job 2 pmix.nmap string node0%2Cnode7 pmix.pmap string 0%2C1%3B2
        client job 0
        rank job 0
        query pmix.lpeers pmix.nodeid uint32 1 => ( pmix.lpeers string 2 ) status 0
        query pmix.lpeers pmix.nodeid uint32 0 pmix.nodeid uint32 1 => ( pmix.lpeers string 0%2C1%2C2 ) status 0
        query pmix.job.size pmix.nspace string nowhere => status -44
        end
        ",
    );
}
