//! The pipe from the process that started a server.

use std::env;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, IntoRawFd};

use pmix::keepalive::take;
use pmix_server::KEEPALIVE_VARIABLE;

// One test: the environment is the process's.
#[test]
fn the_variable_is_removed_whether_the_pipe_is_taken_or_not() {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let number = reader.into_raw_fd();
    let name = CString::new(KEEPALIVE_VARIABLE).expect("no NUL");
    let take_with = |value: &CStr, is_secure| {
        // SAFETY: C strings; no other thread of this program uses the environment.
        assert_eq!(unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) }, 0);
        let taken = take(is_secure);
        assert_eq!(env::var_os(KEEPALIVE_VARIABLE), None, "{value:?}, {is_secure}");
        taken
    };
    let text = CString::new(number.to_string()).expect("no NUL");
    assert!(take_with(&text, true).is_none());
    assert!(take_with(c"\xff", false).is_none());
    assert_eq!(take_with(&text, false).expect("the pipe").as_raw_fd(), number);
}
