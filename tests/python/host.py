"""A host of the module's: serves clients of its, and says what its methods answer and what it is asked.

    host.py LIBRARY PLAN

PLAN is jobs, one after the other: `RANKS:ACT,ACT,...`, the acts being those of client.py. `RANKS:ACTS:DEED` does DEED, a
method of Host, while all ranks hold. The jobs have the library of the directory LIBRARY.
"""

import os
import socket
import subprocess
import sys

import said

from pmix import *

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = socket.gethostname()


class Upcalls:
    """What the library asks of its host. Each is said in a line in the end: when it comes is chance between the ranks."""

    def __init__(self):
        self.heard = []
        self.published = {}

    def map(self):
        return {
            "clientconnected": self.quietly("clientconnected"),
            "clientfinalized": self.quietly("clientfinalized"),
            "abort": self.quietly("abort"),
            "publish": self.publish,
            "lookup": self.lookup,
            "unpublish": self.quietly("unpublish"),
            "spawn": self.spawn,
            "connect": self.quietly("connect"),
            "disconnect": self.quietly("disconnect"),
            "registerevents": self.quietly("registerevents"),
            "deregisterevents": self.quietly("deregisterevents"),
            "notify_event": self.quietly("notify_event"),
            "query": self.query,
            "log": self.quietly("log"),
            "allocate": self.allocate,
            "jobcontrol": self.quietly("jobcontrol"),
            "monitor": self.quietly("monitor"),
            "getcredential": self.getcredential,
            "validatecredential": self.validatecredential,
            "iofpull": self.quietly("iofpull"),
            "pushstdin": self.quietly("pushstdin"),
            "fencenb": self.fencenb,
            "directmodex": self.directmodex,
            "group": self.group,
            "fabric": self.quietly("fabric", PMIX_ERR_NOT_SUPPORTED),
        }

    def quietly(self, name, answer=PMIX_SUCCESS):
        def upcall(*arguments):
            self.heard.append(f"{name}: {said.plain(arguments)}")
            return answer

        return upcall

    def publish(self, asked):
        self.quietly("publish")(asked)
        for entry in asked["directives"]:
            self.published[entry["key"]] = entry
        return PMIX_SUCCESS

    def lookup(self, asked):
        self.quietly("lookup")(asked)
        keys = [key.decode() for key in asked["keys"]]
        found = [self.published[key] for key in keys if key in self.published]
        return (PMIX_SUCCESS if found else PMIX_ERR_NOT_FOUND), found

    def spawn(self, asked):
        self.quietly("spawn")(asked)
        return PMIX_SUCCESS, "spawned"

    def query(self, asked, queries):
        self.quietly("query")(asked)
        return PMIX_SUCCESS, [said.info("py.asked", "answered", PMIX_STRING)]

    def allocate(self, asked):
        self.quietly("allocate")(asked)
        return PMIX_SUCCESS, [said.info(PMIX_ALLOC_ID, "allocation", PMIX_STRING)]

    def getcredential(self, asked):
        self.quietly("getcredential")(asked)
        return PMIX_SUCCESS, {"bytes": "secret78", "size": 8}, []

    def validatecredential(self, asked):
        self.quietly("validatecredential")(asked)
        return PMIX_SUCCESS, [said.info(PMIX_USERID, 17, PMIX_UINT32)]

    def fencenb(self, asked):
        self.quietly("fencenb")(asked)
        return PMIX_SUCCESS, b""

    def directmodex(self, asked):
        self.quietly("directmodex")(asked)
        return PMIX_ERR_NOT_FOUND, b""

    def group(self, asked):
        self.quietly("group")(asked)
        return PMIX_OPERATION_SUCCEEDED


class Host:
    """The server, and what is done with it. Those of its methods that a plan names are things to do while a job runs."""

    def __init__(self, library):
        self.library = library
        self.server = PMIxServer()
        self.upcalls = Upcalls()
        # A client that holds writes a byte.
        self.holding = os.pipe()

    def call(self, name, *arguments):
        return said.call("host", name, getattr(self.server, name), *arguments)

    def begin(self):
        self.call("initialized")
        self.call("init", [said.info("py.unknown", 7, PMIX_INT32)], self.upcalls.map())
        self.call("initialized")
        said.say("host", "library", said.library())
        self.call("generate_regex", ["node1", "node2", "other"])
        self.call("generate_ppn", ["0,1,2", "3,4", "5"])

    def end(self):
        for line in sorted(self.upcalls.heard):
            print("upcall", line)
        self.call("finalize")

    def start(self, nspace, rank, acts):
        """Starts one process of a job."""
        proc = {"nspace": nspace, "rank": rank}
        self.call("register_client", proc, os.getuid(), os.getgid())
        holding = self.holding[1]
        environment = dict(os.environ, LD_LIBRARY_PATH=self.library, HOST_NAME=HOST, HOLDING=str(holding))
        self.call("setup_fork", proc, environment)
        command = [sys.executable, os.path.join(HERE, "client.py"), *acts]
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        return subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=both, text=True, pass_fds=[holding]
        )

    def job(self, nspace, size, acts, meanwhile):
        """Registers a job of `size` ranks on this node, lets it run, and says what they said."""
        ranks = ",".join(map(str, range(size)))
        _, node_map = self.server.generate_regex([HOST])
        _, proc_map = self.server.generate_ppn([ranks])
        data = [(PMIX_NODE_MAP, node_map, PMIX_STRING), (PMIX_PROC_MAP, proc_map, PMIX_STRING)]
        data += [(key, size, PMIX_UINT32) for key in [PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_LOCAL_SIZE]]
        data += [(PMIX_LOCAL_PEERS, ranks, PMIX_STRING)]
        self.call("register_nspace", nspace, size, [said.info(*entry) for entry in data])
        running = [self.start(nspace, rank, acts) for rank in range(size)]
        if meanwhile is not None:
            for _ in running:
                os.read(self.holding[0], 1)
            meanwhile(nspace)
        for process in running:
            process.stdin.close()
        # Calls of the module hold Python's lock, upcalls need it: this process sleeps until the job is over.
        for rank, process in enumerate(running):
            output = process.stdout.read()
            process.wait()
            print(output, end="")
            said.say("host", f"{nspace}.{rank} ended", process.returncode)
            self.call("deregister_client", {"nspace": nspace, "rank": rank})
        self.call("deregister_nspace", nspace)

    def setup(self, nspace):
        self.call("setup_application", nspace, [])
        self.call("setup_local_support", nspace, [])
        self.call("generate_cpuset_string", {})
        self.call("generate_locality_string", {})
        # The module declares these without the object they are called on.
        for name, arguments in [("register_resources", [[]]), ("deregister_resources", [[]]),
                                ("register_attributes", ["PMIx_Get", ["PMIX_OPTIONAL"]]), ("collect_inventory", [[]]),
                                ("deliver_inventory", [[], []]), ("define_process_set", [[], "py.set"]),
                                ("delete_process_set", ["py.set"]), ("iof_deliver", [{}, 2, {}, []])]:
            self.call(name, *arguments)

    def notify(self, _):
        source = {"nspace": "host", "rank": 0}
        about = [said.info("py.about", "this", PMIX_STRING)]
        self.call("notify_event", -3002, source, PMIX_RANGE_LOCAL, about)



def main():
    host = Host(sys.argv[1])
    host.begin()
    for number, job in enumerate(sys.argv[2:]):
        size, acts, *meanwhile = job.split(":")
        meanwhile = getattr(host, meanwhile[0]) if meanwhile else None
        host.job(f"job{number}", int(size), acts.split(","), meanwhile)
    host.end()


main()
