"""What a test of a launcher asks of mpi4py: words that only the right peers can answer."""
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert world.allreduce(rank) == size * (size - 1) // 2
assert world.allgather({"rank": rank}) == [{"rank": r} for r in range(size)]
right, left = (rank + 1) % size, (rank - 1) % size
assert world.sendrecv("from %d" % rank, dest=right, source=left) == "from %d" % left
print("rank %d of %d: mpi4py" % (rank, size), flush=True)
