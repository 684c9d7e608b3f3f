"""A client of the module's: calls its methods and says what each answers. What it is asked to call is its argument."""

import os
import sys
import time

import said

from pmix import *

RANK = os.environ["PMIX_RANK"]
NSPACE = os.environ["PMIX_NAMESPACE"]
WHO = f"{NSPACE}.{RANK}"
PEER = {"nspace": NSPACE, "rank": 1 - int(RANK) if int(RANK) < 2 else 0}
ALL = [{"nspace": NSPACE, "rank": PMIX_RANK_WILDCARD}]

# One value of each type that the module can hand over.
VALUES = {
    "bool": (True, PMIX_BOOL),
    "byte": (200, PMIX_BYTE),
    "string": ("a string", PMIX_STRING),
    "empty": ("", PMIX_STRING),
    "size": (1 << 40, PMIX_SIZE),
    "pid": (4711, PMIX_PID),
    "int": (-70000, PMIX_INT),
    "int8": (-128, PMIX_INT8),
    "int16": (-32768, PMIX_INT16),
    "int32": (-(1 << 31), PMIX_INT32),
    "int64": (-(1 << 61), PMIX_INT64),
    "uint": (70000, PMIX_UINT),
    "uint8": (255, PMIX_UINT8),
    "uint16": (65535, PMIX_UINT16),
    "uint32": ((1 << 32) - 1, PMIX_UINT32),
    "uint64": (1 << 61, PMIX_UINT64),
    "float": (0.5, PMIX_FLOAT),
    "double": (-1.25e300, PMIX_DOUBLE),
    "timeval": ({"sec": 12, "usec": 999999}, PMIX_TIMEVAL),
    "time": (0, PMIX_TIME),
    "status": (PMIX_ERR_NOT_FOUND, PMIX_STATUS),
    "rank": (7, PMIX_PROC_RANK),
    "proc": ({"nspace": "elsewhere", "rank": 3}, PMIX_PROC),
    "bytes": ({"bytes": b"\0\1\2\xff", "size": 4}, PMIX_BYTE_OBJECT),
    "scope": (PMIX_GLOBAL, PMIX_SCOPE),
    "state": (4, PMIX_PROC_STATE),
    "procinfo": (
        {"proc": {"nspace": "elsewhere", "rank": 3}, "hostname": "node", "executable": "a.out", "pid": 17,
         "exitcode": 3, "state": 5}, PMIX_PROC_INFO),
    "directive": (PMIX_ALLOC_NEW, PMIX_ALLOC_DIRECTIVE),
    "envar": ({"envar": "PATH", "value": "/bin", "separator": ":"}, PMIX_ENVAR),
    "numbers": ({"type": PMIX_UINT32, "array": [1, 2, 3]}, PMIX_DATA_ARRAY),
    "strings": ({"type": PMIX_STRING, "array": ["one", "two"]}, PMIX_DATA_ARRAY),
    "procs": ({"type": PMIX_PROC, "array": [{"nspace": "elsewhere", "rank": 3}]}, PMIX_DATA_ARRAY),
}


def value(name):
    held, kind = VALUES[name]
    return {"value": held, "val_type": kind}


class Acts:
    """Each method is one thing that a test asks for."""

    def __init__(self):
        self.client = PMIxClient()

    def call(self, name, *arguments):
        return said.call(WHO, name, getattr(self.client, name), *arguments)

    def turn(self, rank):
        """Whether it is this rank's turn; a fence stands before it."""
        self.client.fence(ALL, [])
        return int(RANK) == rank

    @staticmethod
    def told(information):
        """What an event is about, without what the stock library's server adds for its own clients."""
        return [entry for entry in information if entry["key"] != "pmix.srvr.internal.notify"]

    def begin(self):
        self.call("initialized")
        said.say(WHO, "named", b"OpenPMIx 4.2.2" in self.client.get_version())
        self.call("init", [])
        self.call("initialized")

    def end(self):
        self.call("finalize", [])
        self.call("initialized")

    def data(self):
        for name in VALUES:
            said.call(WHO, f"put {name}", self.client.put, PMIX_GLOBAL, f"py.{name}", value(name))
        self.client.put(PMIX_LOCAL, "py.local", value("int"))
        self.client.put(PMIX_REMOTE, "py.remote", value("int"))
        self.call("commit")
        self.call("fence", ALL, [said.info(PMIX_COLLECT_DATA, True, PMIX_BOOL)])
        self.call("fence", None, None)
        self.call("fence", [], [])
        for name in VALUES:
            said.call(WHO, f"get {name}", self.client.get, PEER, f"py.{name}", [])
        for proc, key in [(None, "py.string"), (PEER, "py.local"),
                          (PEER, PMIX_RANK), (PEER, PMIX_HOSTNAME), (PEER, PMIX_LOCAL_RANK), (None, PMIX_JOB_SIZE),
                          (ALL[0], PMIX_JOB_SIZE), (ALL[0], PMIX_UNIV_SIZE), (ALL[0], PMIX_LOCAL_PEERS),
                          (ALL[0], PMIX_NUM_NODES), (ALL[0], PMIX_NODE_MAP), (ALL[0], PMIX_PROC_MAP)]:
            said.call(WHO, f"get {key} of {proc and proc['rank']}", self.client.get, proc, key, [])
        optional = [said.info(PMIX_OPTIONAL, True, PMIX_BOOL)]
        for proc, key in [(PEER, "py.nobody"), (PEER, "py.remote"), (ALL[0], "py.nobody"),
                          ({"nspace": "nowhere", "rank": 0}, "py.nobody")]:
            said.call(WHO, f"get {key} of {proc['rank']} if it is there", self.client.get, proc, key, optional)

    def peers(self):
        here = os.environ["HOST_NAME"]
        for node, nspace in [(here, NSPACE), (None, NSPACE), (here, None), ("nowhere", NSPACE)]:
            said.call(WHO, f"resolve_peers {node}", self.client.resolve_peers, node, nspace)
        self.call("resolve_nodes", NSPACE)
        self.call("resolve_nodes", None)

    def services(self):
        if self.turn(0):
            self.call("publish", [said.info("py.service", "here", PMIX_STRING), said.info("py.number", 42, PMIX_UINT32)])
        if self.turn(1):
            self.call("lookup", [{"key": "py.service"}], [])
            self.call("lookup", [{"key": "py.number"}], None)
            self.call("lookup", [{"key": "py.nobody"}], [])
        if self.turn(0):
            self.call("unpublish", ["py.service"], [])
            self.call("unpublish", None, [])
        if self.turn(1):
            self.call("lookup", [{"key": "py.service"}], [])

    def query(self):
        if self.turn(0):
            self.call("query", [{"keys": ["py.asked"], "qualifiers": []}])
            self.call("query", [{"keys": ["py.asked"], "qualifiers": [said.info(PMIX_NSPACE, NSPACE, PMIX_STRING)]}])

    def jobs(self):
        if self.turn(0):
            app = {"cmd": "/bin/true", "argv": ["true", "x"], "env": [], "maxprocs": 2}
            self.call("spawn", [], [app])
            self.call("spawn", None, [])
        self.call("connect", ALL, [])
        self.call("disconnect", ALL, [])
        self.call("connect", None, None)
        self.call("disconnect", [], [])

    def requests(self):
        if self.turn(0):
            self.call("allocation_request", PMIX_ALLOC_NEW, [said.info(PMIX_ALLOC_NUM_NODES, 2, PMIX_UINT64)])
            self.call("job_control", [], [])

    def credentials(self):
        if self.turn(0):
            self.call("get_credential", [])
            self.call("validate_credential", {"bytes": "secret78", "size": 8}, [])

    def events(self):
        heard = []

        def handler(reference, status, source, information, results):
            heard.append((status, source, self.told(information)))
            return PMIX_EVENT_ACTION_COMPLETE, []

        result = self.client.register_event_handler([-3001], [], handler)
        said.say(WHO, "register_event_handler", result[0], result[1] >= 0)
        if self.turn(0):
            self.call("notify_event", -3001, {"nspace": NSPACE, "rank": 0}, PMIX_RANGE_NAMESPACE,
                      [said.info("py.about", "this", PMIX_STRING)])
        self.wait_for(heard, 1)
        said.say(WHO, "heard", heard)
        self.call("deregister_event_handler", result[1])
        self.call("fence", ALL, [])

    def hear(self):
        """Hears what the host notifies of while it lets this process hold."""
        heard = []

        def handler(reference, status, source, information, results):
            heard.append((status, source, self.told(information)))
            return PMIX_EVENT_ACTION_COMPLETE, []

        self.client.register_event_handler([-3002], [], handler)
        self.hold()
        self.wait_for(heard, 1)
        said.say(WHO, "heard", heard)

    def put(self):
        self.call("put", PMIX_GLOBAL, "py.string", value("string"))
        self.call("commit")

    def hold(self):
        """Tells the host, and waits until it closes the standard input. Calls of the module hold Python's lock, so a client
        that hears of an event inside one waits for ever: the host is told otherwise."""
        os.write(int(os.environ["HOLDING"]), b".")
        sys.stdin.read()

    def strings(self):
        for name, numbers in [("error_string", [0, -1, -46, -47, -1366, 17]), ("proc_state_string", range(0, 8)),
                              ("scope_string", range(0, 6)), ("persistence_string", range(0, 6)),
                              ("data_range_string", range(0, 10)), ("info_directives_string", [0, 1, 2, 4, 5]),
                              ("data_type_string", range(0, 70)), ("alloc_directive_string", [0, 1, 2, 3, 4, 200]),
                              ("iof_channel_string", range(0, 16)), ("job_state_string", range(0, 60, 3)),
                              ("link_state_string", range(0, 4)), ("device_type_string", [0, 1, 2, 4, 8, 16, 32])]:
            for number in numbers:
                said.call(WHO, f"{name} {number}", getattr(self.client, name), number)
        for name in ["PMIX_JOB_SIZE", "PMIX_NOBODY", "pmix.job.size"]:
            said.call(WHO, f"get_attribute_string {name}", self.client.get_attribute_string, name)
        for name in ["pmix.job.size", "pmix.nobody", "PMIX_JOB_SIZE"]:
            said.call(WHO, f"get_attribute_name {name}", self.client.get_attribute_name, name)

    def places(self):
        self.call("parse_cpuset_string", "hwloc:0")
        for other in ["hwloc:NM0:SK0:L30:L21:L11:CR1:HT1", "hwloc:SK1"]:
            said.call(WHO, f"get_relative_locality {other}", self.client.get_relative_locality,
                      "hwloc:NM0:SK0:L30:L20:L10:CR0:HT0", other)

    def cpuset(self):
        rc, cpuset = self.client.get_cpuset(PMIX_CPUBIND_PROCESS)
        # The module splits the text of the set at its commas.
        said.say(WHO, "get_cpuset", rc, ",".join(cpuset["cpus"]), sorted(os.sched_getaffinity(0)))

    def topology(self):
        self.call("load_topology")
        # What devices there are is the machine's matter.
        said.say(WHO, "compute_distances", self.client.compute_distances({"cpus": "hwloc:0"}, [])[0])

    def fabric(self):
        self.call("fabric_update")
        self.call("fabric_deregister")
        self.call("fabric_register", [])

    def progress(self):
        self.call("progress")

    def formed(self):
        self.call("group_construct", "py.group", ALL, [])
        self.call("fence", [{"nspace": "py.group", "rank": PMIX_RANK_WILDCARD}], [])

    def dissolved(self):
        self.call("group_destruct", "py.group", [])

    def contexts(self):
        wanted = [said.info(PMIX_GROUP_ASSIGN_CONTEXT_ID, True, PMIX_BOOL)]
        for name in ["py.first", "py.second"]:
            rc, results = self.client.group_construct(name, ALL, wanted)
            context = [entry["value"] > 0 for entry in results if entry["key"] == "pmix.grp.ctxid"]
            said.say(WHO, "group_construct with a context id", rc, context)
        self.call("group_leave", "py.second", [])
        self.call("group_leave", "py.nobody", [])
        self.call("group_destruct", "py.first", [])
        self.call("group_destruct", "py.nobody", [])

    def invited(self):
        heard = []

        def handler(reference, status, source, information, results):
            heard.append(status)
            return PMIX_EVENT_ACTION_COMPLETE, []

        # Who invites waits inside a call, where it could not hear.
        if int(RANK) == 1:
            self.client.register_event_handler([PMIX_GROUP_INVITED, PMIX_GROUP_CONSTRUCT_COMPLETE], [], handler)
        self.client.fence(ALL, [])
        members = [{"nspace": NSPACE, "rank": rank} for rank in range(2)]
        if int(RANK) == 0:
            rc, _ = self.client.group_invite("py.invited", members, [])
            said.say(WHO, "group_invite", rc)
        else:
            self.wait_for(heard, 1)
            self.call("group_join", "py.invited", PEER, PMIX_GROUP_ACCEPT, [])
            self.wait_for(heard, 2)
            said.say(WHO, "heard", heard)
        self.client.fence(ALL, [])

    @staticmethod
    def wait_for(heard, count):
        """Calls of the module hold Python's lock, events need it: only who sleeps hears."""
        deadline = time.monotonic() + 60
        while len(heard) < count and time.monotonic() < deadline:
            time.sleep(0.01)

    def heeded(self):
        """What the module's own hosts never answer."""
        self.call("log", [said.info(PMIX_LOG_STDERR, "a line", PMIX_STRING)], [])
        self.call("job_control", ALL, [said.info(PMIX_JOB_CTRL_RESUME, True, PMIX_BOOL)])
        self.call("monitor", [said.info(PMIX_MONITOR_HEARTBEAT, True, PMIX_BOOL)], PMIX_MONITOR_HEARTBEAT_ALERT, [])

    def regex(self):
        self.call("put", PMIX_GLOBAL, "py.regex", {"value": b"plain:one,two", "val_type": PMIX_REGEX})
        self.call("commit")

    def internal(self):
        self.call("store_internal", None, "py.own", value("string"))

    def abort(self):
        self.call("abort", 3, "given up", [{"nspace": NSPACE, "rank": int(RANK)}])


def main():
    acts = Acts()
    said.say(WHO, "library", said.library())
    for name in sys.argv[1:]:
        getattr(acts, name)()


main()
