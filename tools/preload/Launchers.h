// Launchers: how the programs that start ranks are told to pass environment variables on to other hosts. For
// `kolo preload`.
#pragma once

#include <string>
#include <vector>

namespace kolo::tools {

/// A variable and its value.
struct Variable {
  std::string name, value;
};

/// What to run, so that all ranks get the variables, whichever host they are on.
struct Forwarding {
  std::vector<std::string> command;
  std::vector<Variable> environment; // to set for the command, besides `variables`
};

/// Whether the word is one of the launchers below. Reads its file.
bool isLauncher(const std::string &word);

/// Looks for the first launcher among the words: Open MPI's and PRRTE's, MPICH's Hydra and its derivatives', or Slurm's
/// srun. Adds to its options the names of these variables, for all programs of the line; no value of theirs becomes a
/// word, because all users see the words of a command. Without a known launcher the command stays as it is.
/// `preload`: the value of LD_PRELOAD for the ranks. Where the launcher takes a value, it does not load what the ranks
/// preload, nor do its daemons: to load an MPI library takes each of them some ms. Reads files, and runs nothing.
Forwarding forwardVariables(const std::vector<std::string> &command, const std::string &preload,
                            const std::vector<std::string> &variables);

/// Where the words set LD_PRELOAD for the ranks, puts `preload` before what they set. Before forwardVariables.
void addToPreload(std::vector<std::string> &command, const std::string &preload);

} // namespace kolo::tools
