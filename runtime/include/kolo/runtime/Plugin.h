// Plugin: a compiled file of collectives, checked and loaded.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"
#include "kolo/runtime/Types.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::runtime {

/// What a call does when its input and its output overlap.
enum class InPlace : uint8_t {
  Direct,    // the program runs in place
  CopyInput, // the runtime copies the input aside first
};

/// Where a wait of the program comes from in its author's source.
struct StatementInfo {
  std::string file;
  int line = 0;
  std::string text;
};

/// A mesh that the program was proved right on.
struct Proof {
  std::vector<int64_t> mesh;
  std::vector<int64_t> on; // what was run through: the same mesh, or a smaller one of the same kind
};

/// One collective of a plugin, as its manifest describes it.
struct ProgramInfo {
  std::string name;
  CollectiveKind collective = CollectiveKind::AllGather;
  std::vector<int> groupDims;               // the mesh dimensions the collective runs over, by index, ascending
  std::vector<std::string> meshDims;        // names, slowest first
  std::vector<std::vector<int64_t>> meshes; // the dimension sizes it was compiled for
  std::vector<Proof> proved;                // one for each of the meshes, but for those that are not proved
  bool isUnproved = false;                  // packed although some mesh is not proved; such meshes may be run on then
  int numSemaphores = 0;
  bool reduces = false;
  bool enters = false;      // it is proved only if no rank starts a call before all ranks have come to it
  bool usesLL128 = false;   // its packets are lines: see PluginAbi.h
  bool sharesInput = true;  // peers read this rank's input
  bool sharesOutput = true; // peers read or write this rank's output
  InPlace inPlace = InPlace::Direct;
  std::vector<StatementInfo> statements;

  /// Whether it was proved right on a mesh of these sizes. Where it was not, `Communicator::run` refuses, or, if
  /// `isUnproved`, runs and says nothing: the runtime never prints. Whoever starts such runs for a user warns.
  bool isProved(const std::vector<int64_t> &sizes) const {
    return std::any_of(proved.begin(), proved.end(), [&](const Proof &proof) { return proof.mesh == sizes; });
  }
};

/// Where a rank's input and output lie, as far as choosing a program goes.
enum class MemoryKind : uint8_t {
  Windows, // all that the collective uses on this rank is where peers access it directly; so it always is among threads
  Ordinary, // else
};
/// "windows", "ordinary".
KOLO_RUNTIME_API const char *toString(MemoryKind memory);
KOLO_RUNTIME_API std::optional<MemoryKind> parseMemoryKind(std::string_view name);

/// Which program a plugin takes for calls that name a collective only.
struct SelectionEntry {
  CollectiveKind collective = CollectiveKind::AllGather;
  int ranks = 0;
  MemoryKind memory = MemoryKind::Windows;
  int64_t upToBytes =
      0;           // of the larger buffer of any rank, inclusive; INT64_MAX: no end. From where the entry before ends
  int program = 0; // index into Plugin::programs()
};

struct PluginState;

/// A loaded plugin. Copies share it; the code is unloaded with the last copy, so keep one while a call runs. May be
/// used with any number of communicators and from any thread.
class KOLO_RUNTIME_API Plugin {
public:
  /// Checks the file from its last bytes to its manifest and its target, and only then maps code, from a private copy:
  /// changing the file later has no effect. BadPlugin: not a regular file, truncated, damaged, another ABI, a manifest
  /// that is incomplete or disagrees with the code. UnsupportedCpu: built for another kind of processor. SystemError:
  /// the file cannot be read. OutOfMemory.
  static Result<Plugin> load(const std::string &path);

  /// The manifest (JSON) of a plugin file; checks footer, sizes and checksum, and maps no code. Errors as for load.
  static Result<std::string> readManifest(const std::string &path);

  /// Valid while a copy of this plugin lives, as is all that the accessors return.
  const std::vector<ProgramInfo> &programs() const;
  /// Null when there is none of that name.
  const ProgramInfo *findProgram(std::string_view name) const;
  /// In order; empty for a plugin whose programs can only be called by name.
  const std::vector<SelectionEntry> &selection() const;
  /// What the selection takes for a call on so many ranks and bytes, of the larger buffer of any rank. Null when no
  /// entry fits.
  const ProgramInfo *select(CollectiveKind collective, int ranks, int64_t numBytes, MemoryKind memory) const;
  /// The manifest's JSON text.
  const std::string &manifest() const;
  /// The path given to load.
  const std::string &path() const;
  /// The file's checksum; equal on ranks that loaded the same bytes.
  uint64_t identity() const;

private:
  friend class Communicator;
  friend class DeviceCommunicator;
  explicit Plugin(std::shared_ptr<const PluginState> state);
  std::shared_ptr<const PluginState> state;
};

} // namespace kolo::runtime
