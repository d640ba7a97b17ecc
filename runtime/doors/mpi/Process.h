// Process: the door of this process, from its first collective to MPI_Finalize.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Door.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kolo::mpi {

class Carrier;
class PageHeap;
class RollCall;

/// Calls MPI's own initialisation, and learns around it which ranks have the door. Returns MPI's code. Aborts the job
/// with one line if KOLO_MPI_CARRY_FROM is bad or the launcher does not answer.
int initialize(const std::function<int()> &initializeMpi);

/// Which ranks have the door.
const RollCall &rollCall();

/// The door. The first caller opens it; MPI is initialised then. If it cannot be opened, the job is aborted with one
/// line that says why. Without the memory or descriptors for plugins it has none.
runtime::Door &door();
/// For lack of which the door has no plugins; else empty. Valid as long as the process.
const std::string &shortage();

/// KOLO_MPI_CARRY_FROM: the number of the collective on a communicator from which on Kolo carries. Nothing: it is not
/// set.
std::optional<int> carryFrom();

/// Whether calls may be carried at all: between MPI_Init and MPI_Finalize, and not inside the door's own calls of MPI.
/// Opens the door at once where the user set a variable of it, so that a wrong one is named.
bool mayCarry();

/// Counts a call that the caller forwards, if the door is open.
void countForwarded(const char *reason);

/// While it lives, this thread's calls of MPI are the door's own, and are not carried.
class OwnCalls {
public:
  OwnCalls();
  ~OwnCalls();
  OwnCalls(const OwnCalls &) = delete;
  OwnCalls &operator=(const OwnCalls &) = delete;
};

/// Whether a collective of the program has reached the door, or MPI_Init has.
bool wasSeen();

/// The carrier that hangs on this communicator; made when there is none. Null for MPI_COMM_NULL and where MPI refuses.
Carrier *carrierOf(MPI_Comm communicator);

/// Before the program frees a communicator. Ends what the door has begun on it: MPICH keeps a communicator until the
/// last request of it is over, and would free it inside of any other call. Blocks until rank 0 of it has begun as many
/// barriers as this rank: freeing is collective.
void prepareToFree(MPI_Comm communicator);

/// Those of communicators that were not freed yet.
std::vector<Carrier *> allCarriers();

/// Memory for MPI_Alloc_mem that can become a window; null: the caller forwards.
void *allocateMemory(MPI_Aint sizeBytes, MPI_Info info);
/// Where that memory lies.
PageHeap &pageHeap();

/// Lets MPI make progress. For waits.
void driveMpi();

/// One line on stderr, with this process's place in MPI_COMM_WORLD.
void print(const std::string &text);

} // namespace kolo::mpi
