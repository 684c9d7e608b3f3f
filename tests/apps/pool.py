"""mpi4py's pool of processes, which it starts with MPI_Comm_spawn. The argument is the program that the workers are."""

import sys

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

WORKERS = 3


def work(number):
    parent = MPI.Comm.Get_parent()
    assert parent != MPI.COMM_NULL and MPI.COMM_WORLD.Get_size() == WORKERS
    return number * number


if __name__ == "__main__":
    for repetition in range(2):
        with MPIPoolExecutor(max_workers=WORKERS, python_exe=sys.argv[1]) as pool:
            results = list(pool.map(work, range(200), chunksize=5))
            assert results == [number * number for number in range(200)], results
            try:
                pool.submit(work, "not a number").result()
            except TypeError as error:
                failed = str(error)
        print(f"pool {repetition}: {sum(results)}, then {failed}")
