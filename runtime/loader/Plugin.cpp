// Plugin: checks a plugin file step by step, and maps its code last.
#include "kolo/runtime/Plugin.h"

#include "base/Error.h"
#include "loader/CpuFeatures.h"
#include "loader/PluginFile.h"
#include "loader/PluginState.h"
#include "loader/Selection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace kolo::runtime {
namespace {

Status checkTarget(const Manifest &manifest) {
  if (manifest.targetKind != "cpu")
    return error(StatusCode::UnsupportedCpu, "it is built for '{}', this runtime runs 'cpu'", manifest.targetKind);
#if defined(__x86_64__)
  constexpr std::string_view architecture = "x86_64-";
#elif defined(__aarch64__)
  constexpr std::string_view architecture = "aarch64-";
#endif
  if (!manifest.triple.starts_with(architecture) || manifest.triple.find("linux") == std::string::npos)
    return error(StatusCode::UnsupportedCpu, "it is built for '{}', which this host is not", manifest.triple);
  return checkCpu(manifest.cpu);
}

/// Instrumented code calls the sanitizer of the process that loads it.
Status checkSanitizer(const Manifest &manifest) {
  if (manifest.sanitizer.empty())
    return {};
  if (manifest.sanitizer != "thread")
    return error(StatusCode::BadPlugin, "it is instrumented for '{}', which is no sanitizer that this runtime knows",
                 manifest.sanitizer);
  if (!dlsym(RTLD_DEFAULT, "__tsan_init"))
    return error(StatusCode::BadPlugin, "it is instrumented for the thread sanitizer, which this process does not run");
  return {};
}

Status writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemError("copying it to memory", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

/// Maps the library from a sealed copy of the checked bytes.
Status mapLibrary(PluginState &state, std::string_view elf) {
  state.fd = memfd_create("kolo-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (state.fd < 0 && errno == EINVAL) // kernels before 6.3 have no MFD_EXEC
    state.fd = memfd_create("kolo-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (state.fd < 0 && errno == EACCES)
    return error(StatusCode::SystemError, "this system runs no code of files in memory, where Kolo keeps its copy: set "
                                          "vm.memfd_noexec to 0 or 1 (sysctl)");
  if (state.fd < 0)
    return limitError("memfd_create", errno);
  if (Status status = writeAll(state.fd, elf); !status.isOk())
    return status;
  if (fcntl(state.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return systemError("sealing its copy in memory", errno);
  state.library = dlopen(fmt::format("/proc/self/fd/{}", state.fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!state.library) {
    const char *reason = dlerror();
    // The loader opens the copy once more, and keeps no errno.
    const OpenFile another(fcntl(state.fd, F_DUPFD_CLOEXEC, 0));
    if (another.descriptor() < 0)
      return limitError("loading its library", errno);
    return error(StatusCode::BadPlugin, "its library cannot be loaded: {}", reason ? reason : "unknown error");
  }
  return {};
}

/// The last kernels that this host can execute.
Status chooseKernels(PluginState &state) {
  const KoloPlugin &table = *state.table;
  for (uint64_t index = 0; index < table.numKernels; ++index) {
    const KoloKernels &kernels = table.kernels[index];
    if (!kernels.cpu || !kernels.reduce || !kernels.average)
      return error(StatusCode::BadPlugin, "its reduction kernels number {} are incomplete", index);
    if (checkCpu(kernels.cpu).isOk())
      state.kernels = &kernels;
  }
  bool reduces = false;
  for (const ProgramInfo &program : state.manifest.programs)
    reduces |= program.reduces;
  if (reduces && !state.kernels)
    return error(StatusCode::BadPlugin, "it has programs that reduce, but no reduction kernels for this host");
  return {};
}

Status checkCodecs(const KoloPlugin &table, const Manifest &manifest) {
  if (table.numCodecs != manifest.codecs.size() || (table.numCodecs > 0 && !table.codecs))
    return error(StatusCode::BadPlugin, "its manifest has {} codecs, its code {}", manifest.codecs.size(),
                 table.codecs ? table.numCodecs : 0);
  for (size_t index = 0; index < manifest.codecs.size(); ++index)
    if (const KoloCodec &codec = table.codecs[index];
        !codec.text || manifest.codecs[index].text != codec.text || !codec.roundTrip)
      return error(StatusCode::BadPlugin, "codec {} is '{}' in its manifest and '{}' in its code", index,
                   manifest.codecs[index].text, codec.text ? codec.text : "");
  return {};
}

Status checkTable(const KoloPlugin *table, const Manifest &manifest) {
  if (!table)
    return error(StatusCode::BadPlugin, "its entry function returned null");
  if (table->abiVersion != KOLO_ABI_VERSION)
    return error(StatusCode::BadPlugin, "its code has ABI version {}, this runtime {}", table->abiVersion,
                 KOLO_ABI_VERSION);
  if (table->numPrograms != manifest.programs.size() || !table->programs)
    return error(StatusCode::BadPlugin, "its manifest has {} programs, its code {}", manifest.programs.size(),
                 table->programs ? table->numPrograms : 0);
  for (size_t index = 0; index < manifest.programs.size(); ++index) {
    const KoloProgram &program = table->programs[index];
    const std::string &name = manifest.programs[index].name;
    if (!program.name || name != program.name)
      return error(StatusCode::BadPlugin, "program {} is '{}' in its manifest and '{}' in its code", index, name,
                   program.name ? program.name : "");
    if (!program.run || !program.scratchBytes)
      return error(StatusCode::BadPlugin, "program '{}' has no code", name);
  }
  for (size_t index = 0; index < manifest.programs.size(); ++index)
    if (!table->programs[index].publish != !table->programs[index].publishedBytes)
      return error(StatusCode::BadPlugin, "program '{}' publishes without saying how much",
                   table->programs[index].name);
  return checkCodecs(*table, manifest);
}

/// Everything after the checks of the file's bytes.
Status openPlugin(PluginState &state, const PluginFile &file) {
  Result<Manifest> manifest = parseManifest(file.manifest());
  if (!manifest.isOk())
    return manifest.status();
  state.manifest = std::move(manifest).value();
  state.content = {file.checksum, std::make_shared<const std::string>(file.manifest())};
  if (Status status = checkTarget(state.manifest); !status.isOk())
    return status;
  if (Status status = checkSanitizer(state.manifest); !status.isOk())
    return status;
  if (Status status = checkElf(file.elf()); !status.isOk())
    return status;
  if (Status status = mapLibrary(state, file.elf()); !status.isOk())
    return status;
  auto entry = reinterpret_cast<KoloPluginEntry>(dlsym(state.library, KOLO_PLUGIN_SYMBOL));
  if (!entry)
    return error(StatusCode::BadPlugin, "its library has no symbol '{}'", KOLO_PLUGIN_SYMBOL);
  state.table = entry();
  if (Status status = checkTable(state.table, state.manifest); !status.isOk())
    return status;
  return chooseKernels(state);
}

} // namespace

uint64_t PluginState::nextLoad() {
  static std::atomic<uint64_t> loads = 0;
  return ++loads;
}

PluginState::~PluginState() {
  if (library)
    dlclose(library);
  if (fd >= 0)
    close(fd);
}

Plugin::Plugin(std::shared_ptr<const PluginState> shared) : state(std::move(shared)) {}

namespace {

Result<std::shared_ptr<const PluginState>> loadState(const std::string &path, const Result<PluginFile> &file) {
  if (!file.isOk())
    return file.status();
  auto opened = std::make_shared<PluginState>();
  opened->path = path;
  if (Status status = openPlugin(*opened, *file); !status.isOk())
    return error(status.code(), "{}: {}", path, status.message());
  return std::shared_ptr<const PluginState>(std::move(opened));
}

} // namespace

Result<Plugin> Plugin::load(const std::string &path) {
  return guarded([&]() -> Result<Plugin> {
    auto loaded = loadState(path, readPluginFile(path));
    return loaded.isOk() ? Result(Plugin(*loaded)) : loaded.status();
  });
}

Result<Plugin> Plugin::loadTrusted(const std::string &path) {
  return guarded([&]() -> Result<Plugin> {
    Result<OpenFile> file = openTrusted(path);
    if (!file.isOk())
      return file.status();
    auto loaded = loadState(path, readPluginFile(*file, path));
    return loaded.isOk() ? Result(Plugin(*loaded)) : loaded.status();
  });
}

Result<std::string> Plugin::readManifest(const std::string &path) {
  return guarded([&]() -> Result<std::string> {
    Result<PluginFile> file = readPluginFile(path);
    if (!file.isOk())
      return file.status();
    return std::string(file->manifest());
  });
}

const std::vector<ProgramInfo> &Plugin::programs() const { return state->manifest.programs; }

int Plugin::numRepresented() const {
  auto isRepresented = [](const ProgramInfo &info) { return std::ranges::any_of(info.proved, &Proof::isRepresented); };
  return static_cast<int>(std::ranges::count_if(programs(), isRepresented));
}

const ProgramInfo *Plugin::findProgram(std::string_view name) const {
  for (const ProgramInfo &program : programs())
    if (program.name == name)
      return &program;
  return nullptr;
}

const std::vector<SelectionEntry> &Plugin::selection() const { return state->manifest.selection; }

std::optional<SelectedProgram> Plugin::select(const SelectionQuery &query) const {
  const SelectionEntry *entry = runtime::select(state->manifest.selection, programs(), query);
  if (!entry)
    return std::nullopt;
  const ProgramInfo &info = programs()[static_cast<size_t>(entry->program)];
  return SelectedProgram{&info, meshFor(*entry, info, query.mesh), entry->lanes};
}

Status Plugin::roundTrip(std::string_view codec, DataType type, const void *in, void *out, int64_t count) const {
  if (type != DataType::F16 && type != DataType::BF16 && type != DataType::F32)
    return error(StatusCode::InvalidArgument, "codecs are for f16, bf16 and f32, not {}", toString(type));
  if (count < 0)
    return error(StatusCode::InvalidArgument, "count is {}", count);
  if (count > 0 && (!in || !out))
    return error(StatusCode::InvalidArgument, "a buffer is null");
  if (codec == "none" || codec == "f32") {
    if (count > 0)
      std::memmove(out, in, static_cast<size_t>(count) * sizeBytes(type));
    return {};
  }
  const std::vector<CodecInfo> &codecs = state->manifest.codecs;
  auto found = std::find_if(codecs.begin(), codecs.end(),
                            [&](const CodecInfo &info) { return info.text == codec || info.name == codec; });
  if (found == codecs.end()) {
    std::string names;
    for (const CodecInfo &info : codecs)
      names += (names.empty() ? "" : ", ") + info.name;
    return error(StatusCode::InvalidArgument, "{}: no program has the codec '{}'; there are {}", path(), codec,
                 names.empty() ? "none" : names);
  }
  KoloInvocation invocation = {};
  invocation.type = static_cast<int64_t>(type);
  invocation.elementBytes = static_cast<int64_t>(sizeBytes(type));
  invocation.count = count;
  invocation.local[KOLO_INPUT] = const_cast<void *>(in);
  invocation.local[KOLO_OUTPUT] = out;
  state->table->codecs[found - codecs.begin()].roundTrip(&invocation);
  return {};
}

const std::string &Plugin::manifest() const { return *state->content.manifest; }
const std::string &Plugin::path() const { return state->path; }
uint64_t Plugin::identity() const { return state->content.checksum; }

} // namespace kolo::runtime
