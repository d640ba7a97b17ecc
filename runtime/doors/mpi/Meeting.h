// Meeting: connects communicators on which the program calls MPI_Ibarrier, and no collective that waits: such a call
// may wait for all ranks, and MPI_Ibarrier must not. So ranks meet in a few of the barriers on MPI_COMM_WORLD.
#pragma once

namespace kolo::mpi {

/// At the begin of each MPI_Barrier on MPI_COMM_WORLD. In the 4th, 8th, 16th and so on, it connects those communicators
/// that all of their ranks wish to connect. Not in other collectives: ranks may go on in some before others have come.
void meetInBarrier();

} // namespace kolo::mpi
