"""A tool of the module's: calls its methods and says what each answers.

    tool.py KEY SERVER ACT...

KEY is the attribute that SERVER is found by. The acts are methods of Tool, with an argument behind `=`.
"""

import sys

import said

from pmix import *

WHO = "tool"
JOB = {"nspace": "test-job", "rank": PMIX_RANK_WILDCARD}


class Tool:
    """The tool and what it does."""

    def __init__(self):
        self.tool = PMIxTool()

    def call(self, name, *arguments):
        return said.call(WHO, name, getattr(self.tool, name), *arguments)

    def begin(self, key, server):
        by_pid = key == PMIX_SERVER_PIDINFO
        self.call("initialized")
        self.call("init", [said.info(key, int(server) if by_pid else server, PMIX_PID if by_pid else PMIX_STRING)])
        said.say(WHO, "library", said.library())
        self.call("initialized")

    def end(self):
        self.call("finalize")
        self.call("initialized")

    def servers(self):
        """All servers, the one in use first."""
        return self.call("get_servers")[1]

    def asks(self, name):
        """Has the server in use find a job, and its host hear of a name."""
        said.call(WHO, "get", self.tool.get, JOB, PMIX_JOB_SIZE, [])
        said.call(WHO, "publish", self.tool.publish, [said.info(name, 42, PMIX_UINT32)])
        said.call(WHO, "query", self.tool.query, [{"keys": [PMIX_QUERY_NAMESPACES], "qualifiers": []}])

    def pulls(self):
        self.call("iof_pull", [JOB], PMIX_FWD_STDOUT_CHANNEL, [], print)
        self.call("iof_deregister", 77, [])

    def pushes(self):
        self.call("iof_push", [JOB], {"bytes": "a line.\n", "size": 8}, [])

    def attaches(self, uri):
        self.call("attach_to_server", [said.info(PMIX_SERVER_URI, uri, PMIX_STRING)])

    def turns(self, rank):
        self.call("set_server", {"nspace": "test-host", "rank": int(rank)}, [])

    def leaves(self, rank):
        """The module declares it without the object it is called on."""
        self.call("disconnect", {"nspace": "test-host", "rank": int(rank)})


def main():
    key, server, *acts = sys.argv[1:]
    tool = Tool()
    tool.begin(key.encode(), server)
    for act in acts:
        name, *arguments = act.split("=", 1)
        getattr(tool, name)(*arguments)
    tool.end()


main()
