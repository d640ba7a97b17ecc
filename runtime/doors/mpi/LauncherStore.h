// LauncherStore: the key-value store of the program that started the ranks. It reaches all of them outside of MPI, so
// ranks can tell each other something although some of them know nothing of Kolo.
//
// What a rank puts before MPI_Init, every rank finds after it: MPI_Init has a barrier of the launcher in between.
#pragma once

#include "kolo/runtime/Status.h"

#include <memory>
#include <optional>
#include <string>

namespace kolo::mpi {

/// One thread uses it at a time, and not while another one is in a function of MPI: MPI may use the same connection.
class LauncherStore {
public:
  virtual ~LauncherStore() = default;

  /// The number that the launcher gave this process, which MPI_COMM_WORLD has too.
  virtual int rank() const = 0;

  /// Only before MPI_Init, and once. `text` has letters, digits, '.', '-' and '/' alone. SystemError.
  virtual runtime::Status put(const std::string &text) = 0;

  /// What that rank has put; nothing: it put nothing. Only after MPI_Init. Never waits for the rank. SystemError.
  virtual runtime::Result<std::optional<std::string>> get(int rank) = 0;
};

/// Opens the launcher's store before MPI_Init. Null: there is none that Kolo can use; `why` is then a few words.
std::unique_ptr<LauncherStore> openLauncherStore(std::string &why);

/// The two kinds: PMI-1, as the launchers of MPICH and its derivatives speak it, and PMIx.
std::unique_ptr<LauncherStore> openPmiStore(std::string &why);
std::unique_ptr<LauncherStore> openPmixStore(std::string &why);

} // namespace kolo::mpi
