//! The numbers of the requests.

/// The kind of a request: its first field.
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
    JOB_INFO = 0, "All that is known of the client's job.";
    ABORT = 1, "Abort processes.";
    COMMIT = 2, "Take the values that the client put.";
    FENCE = 3, "Meet other processes.";
    GET = 4, "Data of a process or of a job.";
    FINALIZE = 5, "The client leaves.";
    PUBLISH = 6, "Publish data.";
    LOOKUP = 7, "Look up published data.";
    UNPUBLISH = 8, "Take published data back.";
    SPAWN = 9, "Start a job.";
    CONNECT = 10, "Connect processes.";
    DISCONNECT = 11, "Disconnect processes.";
    NOTIFY = 12, "An event has happened; also the first field of a notification.";
    REGISTER_EVENTS = 13, "Tell me of events.";
    DEREGISTER_EVENTS = 14, "Tell me no more of events.";
    QUERY = 15, "Ask the host.";
    LOG = 16, "Log data.";
    ALLOCATE = 17, "Ask for, extend or release an allocation.";
    JOB_CONTROL = 18, "Act on processes.";
    MONITOR = 19, "Watch a process.";
    GET_CREDENTIAL = 20, "Give me a credential.";
    VALIDATE_CREDENTIAL = 21, "Check a credential.";
    IO_PULL = 22, "Send me the output of processes.";
    IO_PUSH = 23, "Give input to processes.";
    GROUP_CONSTRUCT = 24, "Form a group.";
    GROUP_JOIN = 25, "Not sent: joining is done with events.";
    GROUP_INVITE = 26, "Not sent: inviting is done with events.";
    GROUP_LEAVE = 27, "Leave a group.";
    GROUP_DESTRUCT = 28, "Dissolve a group.";
    IO_DEREGISTER = 29, "Send me no more output.";
    FABRIC_REGISTER = 30, "Tell me of fabrics.";
    FABRIC_UPDATE = 31, "Tell me again of a fabric.";
    DEVICE_DISTANCES = 32, "How far devices are.";
    REFRESH_CACHE = 33, "All that the server has of a process by now.";
    RESOURCE_BLOCK = 34, "Define a resource block.";
    SESSION_CONTROL = 35, "Act on a session.";
    SYSTEM_INFO = 36, "Reserved.";
    RESOLVE_PEERS = 37, "The processes of a node.";
    RESOLVE_NODES = 38, "The nodes of a job.";
    JOB_INFO_FALLBACK = 39, "All that is known of the client's job, for another data store than the handshake named.";
}
