//! Errors that say which operation failed, with which key and which process.

use std::fmt;

use pmix_dstore::model::{DataType, NameError, Proc, Status};

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation that failed. Its text names the operation, the key, the process, the cause, and what to do next where that is known.
///
/// ```
/// use pmix::{Client, Key, Status};
///
/// const PORT: Key<u16> = Key::own("app.port");
///
/// let client = Client::singleton()?;
/// let error = client.get(&client.peer(0), PORT).unwrap_err();
/// assert_eq!((error.status(), error.key()), (Status::ERR_NOT_FOUND, Some("app.port")));
/// assert!(error.to_string().starts_with(&format!("get of app.port of {}: PMIX_ERR_NOT_FOUND", client.me())));
/// # Ok::<(), pmix::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Error(Box<Parts>);

#[derive(Clone, PartialEq)]
struct Parts {
    operation: &'static str,
    key: Option<String>,
    process: Option<Proc>,
    cause: Cause,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The library, the server or the host answered with this status.
    Status(Status),
    /// The value has another type than the key, or is a number that the key's type cannot hold.
    Type {
        /// The type of the key.
        wanted: DataType,
        /// The type of the value.
        found: DataType,
    },
    /// The arguments contradict themselves, or name what cannot be; in words.
    Arguments(String),
}

impl Error {
    pub(crate) fn new(operation: &'static str, cause: impl Into<Cause>) -> Error {
        Error(Box::new(Parts { operation, key: None, process: None, cause: cause.into() }))
    }

    pub(crate) fn with_key(mut self, key: &str) -> Error {
        self.0.key = Some(key.to_owned());
        self
    }

    pub(crate) fn with_process(mut self, process: &Proc) -> Error {
        self.0.process = Some(process.clone());
        self
    }

    /// The operation, in words.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The key, if the operation is about one.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The process or job, if the operation is about one.
    pub fn process(&self) -> Option<&Proc> {
        self.0.process.as_ref()
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The cause as a status of PMIx.
    pub fn status(&self) -> Status {
        match self.0.cause {
            Cause::Status(status) => status,
            Cause::Type { .. } => Status::ERR_TYPE_MISMATCH,
            Cause::Arguments(_) => Status::ERR_BAD_PARAM,
        }
    }

    /// What to do next, where the cause tells it.
    fn advice(&self) -> Option<&'static str> {
        let is_get = self.0.operation == GET;
        match self.status() {
            Status::ERR_NOT_FOUND if is_get => {
                Some("the process has not put this key, has not committed it, or no fence came after the commit")
            }
            Status::ERR_LOST_CONNECTION if [CONNECT, DISCONNECT].contains(&self.0.operation) => {
                Some("a process that takes part has ended, or the server: see the host's messages")
            }
            Status::ERR_LOST_CONNECTION => {
                Some("the server has ended, or has closed the connection: see its host's messages")
            }
            Status::ERR_UNREACH => Some("no server: start the program with a launcher, pmixrun for example"),
            Status::ERR_NOT_SUPPORTED => Some("the host does not offer this: see its documentation"),
            Status::ERR_INIT => Some("the client or server has been finalized"),
            Status::ERR_TYPE_MISMATCH => Some("give the key the type with which the value was put or registered"),
            _ => None,
        }
    }
}

/// The name of the operation that reads a value.
pub(crate) const GET: &str = "get";
/// The names of the operations that several processes enter and that fail where one of them ends.
pub(crate) const CONNECT: &str = "connect";
pub(crate) const DISCONNECT: &str = "disconnect";

impl From<Status> for Cause {
    fn from(status: Status) -> Cause {
        Cause::Status(status)
    }
}

impl From<NameError> for Cause {
    fn from(error: NameError) -> Cause {
        Cause::Arguments(error.to_string())
    }
}

impl From<String> for Cause {
    fn from(words: String) -> Cause {
        Cause::Arguments(words)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Status(status) => write!(f, "{status}"),
            Cause::Type { wanted, found } => write!(f, "the value is of type {found}, the key is of type {wanted}"),
            Cause::Arguments(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { operation, key, process, cause } = &*self.0;
        f.write_str(operation)?;
        key.iter().try_for_each(|key| write!(f, " of {key}"))?;
        process.iter().try_for_each(|process| write!(f, " of {process}"))?;
        write!(f, ": {cause}")?;
        self.advice().iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

/// The same text: a `main` that returns the error prints it in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// The result of a call of the server: without a callback it is over when it returns, and says so.
pub(crate) fn done(status: Status) -> Result<(), Status> {
    if status == Status::OPERATION_SUCCEEDED { Ok(()) } else { status.ok() }
}
