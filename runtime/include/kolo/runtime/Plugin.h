// Plugin: a file of compiled collectives, checked and loaded.
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

/// The author's statement that a wait belongs to.
struct StatementInfo {
  std::string file;
  int line = 0;
  std::string text;
};

/// A mesh on which the checker proved the program right or, with `kolo compile --represented`, one that a smaller mesh
/// represents, which is no proof.
struct Proof {
  std::vector<int64_t> mesh;
  std::vector<int64_t> on; // the mesh that was proved: the same one, or a smaller one of the same kind
  /// By dimension: the size from which on all meshes are proved that have the other sizes of `mesh`; 0: not decided.
  /// Communicator::run takes the meshes that the program was compiled for, all the same.
  std::vector<int64_t> from;
  bool takesTables = false; // calls may have block tables: the proof holds for a count of each block
  bool takesRows = false;   // such calls may choose rows by lists: see RowLists
  std::string whyNoTables;  // without tables, of a collective that has blocks, the reason
  bool isRepresented() const { return on != mesh; }
};

/// What encodings with a codec add to an error: `factor` times the codec's own worst error, in units of the largest
/// magnitude of the element's block over all ranks.
struct CodecLoss {
  std::string codec; // "none": the call's type
  int64_t factor = 0;
};

/// How far results on a mesh may be from exact ones: at most the sum of all that `bound` names.
struct Loss {
  std::vector<int64_t> mesh;
  int64_t encodings = 0; // on the longest path from an input to an output
  std::vector<CodecLoss> bound;
};

/// One collective of a plugin, as its manifest describes it.
struct ProgramInfo {
  std::string name;
  CollectiveKind collective = CollectiveKind::AllGather;
  std::vector<int> groupDims;               // the mesh dimensions the collective runs over, by index, slowest first
  std::vector<std::string> meshDims;        // names, slowest first
  std::vector<std::vector<int64_t>> meshes; // the dimension sizes it was compiled for
  std::vector<Proof> proved;                // for every mesh of `meshes` that is proved
  bool isUnproved = false;                  // compiled with --unproved: runs on meshes that are not proved, too
  std::vector<Loss> lossy;                  // for every proved mesh, if results are not exact; else empty
  int numSemaphores = 0;
  bool reduces = false;
  bool enters = false;      // the proof needs an entry barrier: no rank starts before all ranks have entered the call
  int64_t granule = 0;      // elements that it cuts buffers at; 0: 16 bytes, since no buffer has a codec
  bool usesLL128 = false;   // its packets are LL128 lines of 128 bytes: see PluginAbi.h
  bool sharesInput = true;  // peers read this rank's input
  bool sharesOutput = true; // peers read or write this rank's output
  std::string choreography; // of a program with codecs: what it was compiled from, as textual IR; else empty
  InPlace inPlace = InPlace::Direct;
  std::vector<int> networkDims; // the mesh dimensions whose ranks may be on different hosts, by index
  std::vector<StatementInfo> statements;

  /// Whether results may differ from exact ones because a buffer has a codec.
  bool isLossy() const { return !lossy.empty() || (granule != 0 && isUnproved); }
  /// Whether the program is proved, or represented, on a mesh of these sizes. On another mesh, Communicator::run
  /// refuses the call unless `isUnproved`. The runtime never prints, so a tool that runs a program that is not proved
  /// itself warns its user.
  bool isProved(const std::vector<int64_t> &sizes) const { return proofOf(sizes) != nullptr; }
  /// Null where there is none. Valid as long as this object.
  const Proof *proofOf(const std::vector<int64_t> &sizes) const {
    auto found = std::find_if(proved.begin(), proved.end(), [&](const Proof &proof) { return proof.mesh == sizes; });
    return found == proved.end() ? nullptr : &*found;
  }
};

/// Where the input and output of a call lie on this rank. The selection of a program depends on it.
enum class MemoryKind : uint8_t {
  Windows,  // peers access all buffers of the call directly; always so when ranks are threads
  Ordinary, // some buffer lies outside of windows
};
/// "windows", "ordinary".
KOLO_RUNTIME_API const char *toString(MemoryKind memory);
KOLO_RUNTIME_API std::optional<MemoryKind> parseMemoryKind(std::string_view name);

/// One line of the table by which a plugin selects a program for a call that names only a collective.
struct SelectionEntry {
  CollectiveKind collective = CollectiveKind::AllGather;
  int ranks = 0; // of the mesh, if there is one
  Mesh mesh;     // for calls on this mesh; no dimension: for calls on any mesh of so many ranks
  MemoryKind memory = MemoryKind::Windows;
  int64_t upToBytes = 0;   // largest size of the largest buffer of any rank, inclusive; INT64_MAX: no end
  int program = 0;         // index into Plugin::programs()
  std::string tag;         // not empty: for communicators with this tag alone
  bool allowsLoss = false; // whether it may name a lossy program
  int lanes = 0;           // of every rank on devices, where DeviceOptions leave it to the table; 0: it does not say
};

/// A call that names only a collective.
struct SelectionQuery {
  CollectiveKind collective = CollectiveKind::AllGather;
  Mesh mesh;
  int64_t numBytes = 0; // of the largest buffer of any rank
  MemoryKind memory = MemoryKind::Windows;
  DataType type = DataType::F32;
  Reduction reduction = Reduction::Sum;
  std::string_view tag = {}; // CommunicatorOptions::tag
  bool allowsLoss = false;   // CallArguments::allowsLoss
  bool hasTables = false;    // CallArguments::blocks
};

/// What a plugin selects for a call.
struct SelectedProgram {
  const ProgramInfo *info = nullptr;
  Mesh mesh;     // to run it on: the call's, or all of its ranks in one dimension
  int lanes = 0; // on devices: see CallArguments
};

struct PluginState;

/// The text on one line: control characters, which a terminal may obey, and bytes that are no UTF-8 become \u001b and
/// the like, as in JSON.
KOLO_RUNTIME_API std::string printable(std::string_view text);

/// A loaded plugin. Copies share it. The last copy unloads the code, so the caller keeps one while a call runs. Any
/// number of communicators and any thread may use it.
class KOLO_RUNTIME_API Plugin {
public:
  /// Checks footer, checksum, manifest and target, and only then maps the code. It maps a private copy, so later
  /// changes to the file have no effect.
  ///   BadPlugin       not a regular file, truncated, damaged, of another ABI version, or with a bad manifest
  ///   UnsupportedCpu  built for another kind of processor
  ///   SystemError     the file cannot be read
  ///   OutOfMemory
  static Result<Plugin> load(const std::string &path);
  /// As load, for a path that no person gave just now, such as one in a variable of the environment.
  ///   BadPlugin       also: others than this process's user and root may write the file, or put another one in its
  ///   place
  static Result<Plugin> loadTrusted(const std::string &path);

  /// Returns the manifest (JSON) of a plugin file. Checks footer, sizes and checksum; maps no code. Errors as for load.
  /// Nobody has checked its text: see printable.
  static Result<std::string> readManifest(const std::string &path);

  /// References and pointers that the accessors return are valid while a copy of this plugin lives.
  const std::vector<ProgramInfo> &programs() const;
  /// Programs that are represented on some mesh, and not proved on it: see Proof.
  int numRepresented() const;
  /// Null when no program has that name.
  const ProgramInfo *findProgram(std::string_view name) const;
  /// In the manifest's order. Empty when the plugin's programs can only be called by name.
  const std::vector<SelectionEntry> &selection() const;
  /// The program that the selection gives for a call. An entry for its tag goes before one without, and then one for
  /// its mesh before one for its number of ranks. An entry is left out whose program is not for the type or the
  /// reduction, or is lossy where neither the entry nor the call allows it. A call with block tables leaves out
  /// programs that take none. A call with tables for which no entry is left at its size takes that of the largest size
  /// below. Nothing when no entry fits.
  std::optional<SelectedProgram> select(const SelectionQuery &query) const;
  /// What a receiver makes of elements that a program of this plugin encodes, bit by bit: for callers that add what was
  /// lost to what they send next. `codec` is one that some program's buffer has, as the manifest writes it or as `kolo
  /// codec` names it ("int8(256)"); "none" and "f32" copy. `in` has `count` elements of f16, bf16 or f32: one block of
  /// a call. `out` has as many, and may be `in`. Allocates nothing, and any thread may call it. InvalidArgument.
  Status roundTrip(std::string_view codec, DataType type, const void *in, void *out, int64_t count) const;
  /// The manifest's JSON text.
  const std::string &manifest() const;
  /// The path given to load.
  const std::string &path() const;
  /// The file's checksum (FNV-1a, 64 bits): equal on ranks that loaded the same bytes.
  uint64_t identity() const;

private:
  friend class Communicator;
  friend class DeviceCommunicator;
  explicit Plugin(std::shared_ptr<const PluginState> state);
  std::shared_ptr<const PluginState> state;
};

} // namespace kolo::runtime
