# Rmpi's slaves, which it starts with MPI_Comm_spawn.
library(Rmpi)
mpi.spawn.Rslaves(nslaves = 3, quiet = TRUE)
cat("rank and size of each:", unlist(mpi.remote.exec(10 * mpi.comm.rank() + mpi.comm.size())), "\n")
cat("squares:", unlist(mpi.applyLB(1:20, function(x) x * x)), "\n")
invisible(mpi.close.Rslaves())
invisible(mpi.finalize())
