"""Parallel HDF5: all ranks write one file, collectively and each for itself, and read what the others wrote."""

import sys

import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
assert h5py.get_config().mpi
ROWS, COLUMNS = 64, 500


def rows(owner):
    return np.sin(np.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS) + owner)


with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    table = file.create_dataset("table", (size * ROWS, COLUMNS), dtype="f8")
    with table.collective:
        table[rank * ROWS : (rank + 1) * ROWS] = rows(rank)
    # Chunks whose rows belong to different ranks.
    mixed = file.create_dataset("group/mixed", (ROWS, size), dtype="i8", chunks=(16, size))
    with mixed.collective:
        mixed[:, rank] = np.arange(ROWS) * 1000 + rank
    single = file.create_dataset("single", (size,), dtype="i4")
    single[rank] = rank * rank
    file.attrs["ranks"] = size
with h5py.File(sys.argv[1], "r", driver="mpio", comm=comm) as file:
    left = (rank - 1) % size
    with file["table"].collective:
        assert (file["table"][left * ROWS : (left + 1) * ROWS] == rows(left)).all()
    assert (file["group/mixed"][:, left] == np.arange(ROWS) * 1000 + left).all()
    assert (file["single"][:] == np.arange(size) ** 2).all()
    assert file.attrs["ranks"] == size
if rank == 0:
    print(f"HDF5 {h5py.version.hdf5_version}: {size} ranks wrote and read one file")
