//! The command codes of requests.

/// The command code: the first field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command(pub u8);

macro_rules! commands {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Command {
            $(#[doc = $text] pub const $name: Command = Command($code);)*

            /// The command's name; `UNKNOWN` for numbers without one.
            pub fn name(self) -> &'static str {
                match self {
                    $(Command::$name => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}

commands! {
    JOB_INFO = 0, "Get the data of the client's job.";
    ABORT = 1, "Abort processes.";
    COMMIT = 2, "Store the values that the client put.";
    FENCE = 3, "Enter a fence.";
    GET = 4, "Get data of a process or of a job.";
    FINALIZE = 5, "The client finalizes.";
    PUBLISH = 6, "Publish data.";
    LOOKUP = 7, "Look up published data.";
    UNPUBLISH = 8, "Unpublish data.";
    SPAWN = 9, "Start a job.";
    CONNECT = 10, "Connect processes.";
    DISCONNECT = 11, "Disconnect processes.";
    NOTIFY = 12, "An event has happened; also the first field of a notification.";
    REGISTER_EVENTS = 13, "Send events of these codes.";
    DEREGISTER_EVENTS = 14, "Stop sending events of these codes.";
    QUERY = 15, "Query the host.";
    LOG = 16, "Log data.";
    ALLOCATE = 17, "Request, extend or release an allocation.";
    JOB_CONTROL = 18, "Act on processes.";
    MONITOR = 19, "Monitor a process or a file.";
    GET_CREDENTIAL = 20, "Get a credential.";
    VALIDATE_CREDENTIAL = 21, "Check a credential.";
    IO_PULL = 22, "Send output of processes.";
    IO_PUSH = 23, "Send input to processes.";
    GROUP_CONSTRUCT = 24, "Form a group.";
    GROUP_JOIN = 25, "Not sent: joining is done with events.";
    GROUP_INVITE = 26, "Not sent: inviting is done with events.";
    GROUP_LEAVE = 27, "Leave a group.";
    GROUP_DESTRUCT = 28, "Dissolve a group.";
    IO_DEREGISTER = 29, "Stop sending output.";
    FABRIC_REGISTER = 30, "Describe a fabric.";
    FABRIC_UPDATE = 31, "Refresh the description of a fabric.";
    DEVICE_DISTANCES = 32, "Get distances to devices.";
    REFRESH_CACHE = 33, "Get all values that the server has of a process now.";
    RESOURCE_BLOCK = 34, "Define a resource block.";
    SESSION_CONTROL = 35, "Act on a session.";
    SYSTEM_INFO = 36, "Reserved.";
    RESOLVE_PEERS = 37, "Get the processes of a node.";
    RESOLVE_NODES = 38, "Get the nodes of a job.";
    JOB_INFO_FALLBACK = 39, "Get the data of the client's job, for another data store than the one in the handshake.";
}
