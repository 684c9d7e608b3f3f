"""mpi4py between the ranks of one job: messages of objects and of buffers, collectives, one-sided access.

Every value that arrives is asserted; rank 0 prints the checked sums."""

import array
import zlib

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size


def numbers(owner, count):
    return array.array("q", (owner * 1_000_003 + at * at for at in range(count)))


# Objects, pickled, around a ring.
token = {"from": rank, "words": ["ring"] * (rank + 1)}
received = comm.sendrecv(token, dest=right, sendtag=1, source=left, recvtag=1)
assert received == {"from": left, "words": ["ring"] * (left + 1)}, received

# Buffers below and above the eager limit, in both directions, not waited for in the order in which they were sent.
lengths = [1, 100, 10_000, 200_000]
incoming = [array.array("q", bytes(8 * length)) for length in lengths]
requests = [comm.Irecv([into, MPI.INT64_T], source=left, tag=tag) for tag, into in enumerate(incoming)]
for tag, length in reversed(list(enumerate(lengths))):
    requests.append(comm.Isend([numbers(rank, length), MPI.INT64_T], dest=right, tag=tag))
MPI.Request.Waitall(requests)
for into, length in zip(incoming, lengths):
    assert into == numbers(left, length), length

# Collectives, of objects and of buffers.
assert comm.allgather(rank * rank) == [peer * peer for peer in range(size)]
assert comm.bcast({"root": 1} if rank == 1 else None, root=1) == {"root": 1}
total = array.array("q", [0] * 1000)
comm.Allreduce([numbers(rank, 1000), MPI.INT64_T], [total, MPI.INT64_T], op=MPI.SUM)
assert total == array.array("q", (sum(column) for column in zip(*(numbers(peer, 1000) for peer in range(size)))))

# One-sided: put into the right neighbour's window, add to everybody's counter, read it all back under locks.
window = MPI.Win.Allocate(8 * (1 + size), 8, comm=comm)
mine = memoryview(window.tomemory()).cast("q")
mine[:] = array.array("q", [0] * (1 + size))
window.Fence()
window.Put([array.array("q", [rank + 100]), MPI.INT64_T], right, target=1 + rank)
for peer in range(size):
    window.Accumulate([array.array("q", [rank + 1]), MPI.INT64_T], peer, target=0, op=MPI.SUM)
window.Fence()
for peer in range(size):
    found = array.array("q", [0] * (1 + size))
    window.Lock(peer, MPI.LOCK_SHARED)
    window.Get([found, MPI.INT64_T], peer)
    window.Unlock(peer)
    expected = [size * (size + 1) // 2] + [0] * size
    expected[1 + (peer - 1) % size] = (peer - 1) % size + 100
    assert found.tolist() == expected, (peer, found)
# A counter that each increments a hundred times, fetching: nobody gets the same number twice.
comm.Barrier()
fetched, one = array.array("q", [0]), array.array("q", [1])
got = []
window.Lock_all()
for _ in range(100):
    window.Fetch_and_op([one, MPI.INT64_T], [fetched, MPI.INT64_T], 0, 1, op=MPI.SUM)
    window.Flush(0)
    got.append(fetched[0])
window.Unlock_all()
everybody = sorted(sum(comm.allgather(got), []))
assert everybody == list(range(everybody[0], everybody[0] + 100 * size)), everybody
comm.Barrier()
window.Free()

digest = zlib.crc32(b"".join(comm.allgather(zlib.crc32(bytes(total)).to_bytes(4, "big"))))
if rank == 0:
    print(f"mpi4py: messages, collectives and windows of {size} ranks as they should be, {digest:08x}")
