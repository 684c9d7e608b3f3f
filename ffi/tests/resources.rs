//! What a host knows of fabrics, sessions and blocks of resources reaches its ranks and itself.

mod programs;

use std::process::Command;

/// What happens on behalf of a rank or of the host itself, which has been asked of fabrics `before` times.
fn expected(who: &str, before: usize) -> String {
    let known = |turn: usize| format!("0, index 2: pmix.fab.idx=2 pmix.fab.nverts={}", before + turn);
    let (own, control) = ("pmix.euid=own pmix.egid=own", "pmix.ssnctrl.id=control pmix.euid=own pmix.egid=own");
    format!(
        "\
upcall fabric of 0: request pmix.fab.vndr=vendor
{who}: register: {}
upcall fabric of 0: update pmix.fab.idx=2
{who}: update: {}
upcall fabric of 0: update pmix.fab.idx=2
update_nb: called back: 0
{who}: update_nb: 0
{who}: after it: {}
{who}: deregister: 0, index 2:
upcall fabric of 0: request
register_nb: called back: 0
{who}: register_nb: 0
{who}: after it: {}
{who}: deregister_nb: -157, index 2:
{who}: register nothing: -27
upcall fabric of 0: request refuse=it
{who}: refused: -46, index 2:
upcall session 7 of 0: {control}
{who}: session 7: -157
upcall session 8 of 0: {control}
{who}: session 8: -46
upcall session 7 of 0: {control}
session: called back: 0 {control}
{who}: session 7, with a callback: 0
upcall block of 0: DEFINE block 4x2 1x4 {control}
{who}: define: 0
upcall block of 0: EXTEND block {own}
{who}: extend by nothing: -27
upcall block of 0: DELETE block {own}
{who}: delete: 0
upcall block of 0: DEFINE block 4x2 {own}
define: called back: 0
{who}: define, with a callback: 0
",
        known(1),
        known(2),
        known(3),
        known(4)
    )
}

#[test]
fn hosts_are_asked_for_fabrics_sessions_and_blocks() {
    let (directory, program) = programs::linked("resources.c", &programs::own_headers(), &["-Wall", "-Werror"]);
    let said = programs::run(
        Command::new(program)
            .env("LD_LIBRARY_PATH", programs::library().path())
            .env("PMIX_SERVER_TMPDIR", directory.path()),
    );
    assert_eq!(said, format!("host: session before init: -31\n{}{}", expected("rank", 0), expected("host", 5)));
}
