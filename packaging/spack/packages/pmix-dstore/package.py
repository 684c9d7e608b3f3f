"""Spack's recipe of pmix-dstore, for Spack 1.0 and newer: `spack repo add packaging/spack`, then `spack install pmix-dstore`."""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class PmixDstore(Package):
    """PMIx library with a shared-memory store, for Open MPI, Slurm and other launchers. It has the interface and the protocol of the
    stock library, which ranks and servers may also have on the other side."""

    # The tree that this recipe is a part of.
    git = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), "../../../.."))

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("gmake", type="build")
    # Opened when a process first needs a topology.
    depends_on("hwloc@2:", type="run")

    def install(self, spec, prefix):
        make("install", "PREFIX={0}".format(prefix))

    def setup_run_environment(self, env):
        # Programs of other packages have a run path to the library with which they were built.
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
