// Device targets by name, and the images that plugins carry.
#include "tools/compile/Devices.h"
#include "tools/compile/DeviceTarget.h"
#include "tools/compile/Ptxas.h"

#include "compiler/Pipeline.h"
#include "ir/Kolo.h"
#include "kolo/runtime/Plugin.h"
#include "targets/cpu/CpuTarget.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

using namespace mlir;

namespace kolo::tools {

namespace {

const NamedDeviceTarget *findTarget(StringRef kind) {
  for (const NamedDeviceTarget &target : deviceTargets())
    if (kind == target.kind)
      return &target;
  return nullptr;
}

std::vector<std::string> splitAtCommas(const std::string &text) {
  std::vector<std::string> words;
  for (StringRef word : llvm::split(text, ','))
    words.push_back(word.str());
  return words;
}

/// Kinds are numbered from 0 on; `parse` knows their names.
template <typename Kind, typename Parse>
std::vector<Kind> parseKinds(const std::string &text, const std::string &flag, int numKinds, Parse parse) {
  std::vector<Kind> kinds;
  for (const std::string &word : text == "all" ? std::vector<std::string>() : splitAtCommas(text)) {
    auto parsed = parse(word);
    if (!parsed)
      throw ToolError(ExitCode::Usage, flag + ": '" + word + "' is unknown");
    if (Kind kind = Kind(int(*parsed)); !llvm::is_contained(kinds, kind))
      kinds.push_back(kind);
  }
  for (int number = 0; text == "all" && number < numKinds; ++number)
    kinds.push_back(Kind(number));
  std::ranges::sort(kinds);
  return kinds;
}

} // namespace

/// Throws ToolError (Usage).
static DeviceArchitecture parseDevice(const std::string &word) {
  auto [kind, name] = StringRef(word).split(':');
  const NamedDeviceTarget *target = findTarget(kind);
  if (!target) {
    std::string known = "cpu";
    for (const NamedDeviceTarget &each : deviceTargets())
      known += std::string(", ") + each.kind + ":ARCHITECTURE";
    throw ToolError(ExitCode::Usage, "--target: '" + word + "' is none of " + known);
  }
  if (name.empty())
    throw ToolError(ExitCode::Usage, "--target: " + kind.str() + " needs an architecture, for example " + kind.str() +
                                         ":" + target->example);
  return {kind.str(), name.str()};
}

Targets parseTargets(const std::string &text) {
  Targets targets;
  std::set<std::string> seen;
  for (const std::string &word : splitAtCommas(text)) {
    auto [kind, level] = StringRef(word).split(':');
    bool isCpu = kind == "cpu";
    if (!seen.insert(isCpu ? kind.str() : word).second)
      throw ToolError(ExitCode::Usage, "--target: " + word + " is there twice");
    if (!isCpu)
      targets.devices.push_back(parseDevice(word));
    else if (word != kind && !cpu::isCpuLevel(level))
      throw ToolError(ExitCode::Usage,
                      "--target: '" + word + "' is none of cpu, cpu:x86-64-v3 (AVX2), cpu:x86-64-v4 (AVX-512)");
    else
      targets.cpu = level.str();
  }
  if (!seen.count("cpu"))
    throw ToolError(ExitCode::Usage, "--target: cpu must be among them, for example cpu," + text +
                                         ": the host's part sizes the buffers");
  return targets;
}

std::vector<KoloType> parseTypes(const std::string &text, const std::string &flag) {
  return parseKinds<KoloType>(text, flag, KOLO_NUM_TYPES, runtime::parseDataType);
}

std::vector<KoloReduction> parseReductions(const std::string &text, const std::string &flag) {
  return parseKinds<KoloReduction>(text, flag, KOLO_NUM_REDUCTIONS, runtime::parseReduction);
}

/// Side by side: each takes a good part of a second.
static llvm::Expected<std::vector<DeviceImage>> finishImages(std::vector<PendingImage> pending) {
  std::vector<std::future<llvm::Expected<DeviceImage>>> running;
  for (PendingImage &image : pending)
    running.push_back(std::async(std::launch::async, std::move(image)));
  std::vector<DeviceImage> images;
  llvm::Error problems = llvm::Error::success();
  for (std::future<llvm::Expected<DeviceImage>> &each : running)
    if (llvm::Expected<DeviceImage> image = each.get())
      images.push_back(std::move(*image));
    else
      problems = llvm::joinErrors(std::move(problems), image.takeError());
  if (problems)
    return std::move(problems);
  return images;
}

llvm::Expected<DeviceCode> compileDevices(ModuleOp programs, const PipelineOptions &options,
                                          const CompileRequest &request) {
  DeviceCode code;
  if (request.devices.empty())
    return code;
  code.options = request.deviceOptions;
  std::vector<std::string> names;
  for (auto program : programs.getOps<ProgramOp>())
    names.push_back(program.getSymName().str());
  std::vector<PendingImage> pending;
  for (const DeviceArchitecture &device : request.devices) {
    const NamedDeviceTarget *target = findTarget(device.kind);
    if (!target)
      return llvm::createStringError("there is no target " + device.kind);
    llvm::Expected<PendingImage> image = target->startImage(programs, options, request.deviceOptions, device.name);
    if (!image)
      return image.takeError();
    pending.push_back(std::move(*image));
  }
  llvm::Expected<std::vector<DeviceImage>> images = finishImages(std::move(pending));
  if (!images)
    return images.takeError();
  for (DeviceImage &image : *images) {
    code.images.push_back(std::move(image));
    if (const DeviceImage &ptx = code.images.back(); ptx.format == KOLO_DEVICE_PTX && !request.ptxas.empty())
      code.images.push_back(assemble(ptx, names, request.ptxas));
  }
  return code;
}

llvm::Expected<std::string> emitAssembly(ModuleOp programs, const PipelineOptions &options,
                                         const CompileRequest &request, const std::string &kind) {
  const NamedDeviceTarget *target = findTarget(kind);
  auto device = std::ranges::find(request.devices, kind, &DeviceArchitecture::kind);
  if (!target || device == request.devices.end())
    return llvm::createStringError("there is no target " + kind);
  return target->emitAssembly(programs, options, request.deviceOptions, device->name);
}

/// The bytes of a section of the library that a plugin file begins with.
static std::string readSection(const std::string &plugin, const std::string &name) {
  std::ifstream stream(plugin, std::ios::binary);
  std::string file(std::istreambuf_iterator<char>(stream), {});
  auto fail = [&](llvm::Error problem) {
    throw ToolError(ExitCode::Usage, plugin + ": " + llvm::toString(std::move(problem)));
  };
  auto elf = llvm::object::ELFFile<llvm::object::ELF64LE>::create(file);
  if (!elf)
    fail(elf.takeError());
  auto sections = elf->sections();
  if (!sections)
    fail(sections.takeError());
  for (const auto &section : *sections) {
    llvm::Expected<StringRef> found = elf->getSectionName(section);
    llvm::Expected<ArrayRef<uint8_t>> bytes = elf->getSectionContents(section);
    if (!found)
      fail(found.takeError());
    if (!bytes)
      fail(bytes.takeError());
    if (*found == name)
      return std::string(bytes->begin(), bytes->end());
  }
  throw ToolError(ExitCode::Usage, plugin + ": has no section " + name);
}

/// Follows no link: whoever made one would choose where the bytes go.
static void writeFile(const std::filesystem::path &path, StringRef bytes) {
  auto fail = [&](std::error_code problem) {
    throw ToolError(ExitCode::Usage, "cannot write " + path.string() + ": " + problem.message());
  };
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0)
    fail(std::error_code(errno, std::generic_category()));
  llvm::raw_fd_ostream stream(file, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  std::error_code problem = stream.error();
  stream.clear_error();
  if (problem)
    fail(problem);
}

namespace {

using Json = nlohmann::json;

/// An image as a manifest describes it, which nobody vouches for.
struct StoredImage {
  std::string name; // of a file, without a folder
  bool isText = false;
  StringRef bytes;
};

/// Reads the images of a manifest. Throws ToolError (Usage), naming the plugin and the field.
class ImageReader {
public:
  ImageReader(const std::string &plugin, StringRef section) : plugin(plugin), section(section) {}

  StoredImage read(const Json &image, size_t number) {
    where = "devices.images[" + std::to_string(number) + "]";
    std::string kind = text(image, "kind"), architecture = text(image, "architecture"), format = text(image, "format");
    if (!findTarget(kind))
      fail("kind", "is neither cuda nor hip");
    StringRef prefix = kind == "cuda" ? "sm_" : "gfx";
    static constexpr StringLiteral allowed = "abcdefghijklmnopqrstuvwxyz0123456789_:+-";
    if (!StringRef(architecture).starts_with(prefix) ||
        StringRef(architecture).find_first_not_of(allowed) != StringRef::npos)
      fail("architecture", "is no name such as " + prefix.str() + "90");
    if (format != "ptx" && format != "cubin" && format != "hsaco")
      fail("format", "is none of ptx, cubin, hsaco");
    StoredImage stored{kind + "-" + architecture + "." + format, format == "ptx", {}};
    uint64_t offset = number64(image, "offset"), size = number64(image, "bytes");
    if (offset > section.size() || size > section.size() - offset)
      fail("bytes", "reaches beyond the images of the file");
    stored.bytes = section.substr(offset, size);
    return stored;
  }

private:
  [[noreturn]] void fail(const std::string &field, const std::string &problem) const {
    throw ToolError(ExitCode::Usage, plugin + ": its manifest's field '" + where + "." + field + "' " + problem);
  }
  const Json &field(const Json &image, const char *name) const {
    auto found = image.is_object() ? image.find(name) : image.end();
    if (!image.is_object() || found == image.end())
      fail(name, "is missing");
    return *found;
  }
  std::string text(const Json &image, const char *name) const {
    const Json &value = field(image, name);
    if (!value.is_string())
      fail(name, "has the wrong type");
    return value.get<std::string>();
  }
  uint64_t number64(const Json &image, const char *name) const {
    const Json &value = field(image, name);
    if (!value.is_number_unsigned())
      fail(name, "is no number from 0 on");
    return value.get<uint64_t>();
  }

  const std::string &plugin;
  StringRef section;
  std::string where;
};

/// Throws ToolError (Usage): the manifest is no JSON, or has no images.
Json readImages(const std::string &plugin) {
  auto manifest = runtime::Plugin::readManifest(plugin);
  if (!manifest.isOk())
    throw ToolError(ExitCode::Usage, manifest.status().message());
  Json parsed = Json::parse(*manifest, nullptr, false);
  if (!parsed.is_object())
    throw ToolError(ExitCode::Usage, plugin + ": its manifest is not a JSON object");
  if (!parsed.contains("devices"))
    throw ToolError(ExitCode::Usage, plugin + ": carries no code for devices");
  const Json &devices = parsed["devices"];
  if (!devices.is_object() || !devices.contains("images") || !devices["images"].is_array())
    throw ToolError(ExitCode::Usage, plugin + ": its manifest's field 'devices.images' is missing or no array");
  return devices["images"];
}

} // namespace

std::vector<std::string> extractImages(const std::string &plugin, const std::string &folder) {
  const Json images = readImages(plugin);
  std::string section = readSection(plugin, ".kolo.images");
  std::vector<StoredImage> stored; // all are read before one is written
  ImageReader reader(plugin, section);
  for (const Json &image : images) {
    StoredImage next = reader.read(image, stored.size());
    if (std::ranges::find(stored, next.name, &StoredImage::name) != stored.end())
      throw ToolError(ExitCode::Usage, plugin + ": its manifest has two images " + next.name);
    stored.push_back(std::move(next));
  }
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem)
    throw ToolError(ExitCode::Usage, "cannot make " + folder + ": " + problem.message());
  std::vector<std::string> paths;
  for (const StoredImage &image : stored) {
    std::filesystem::path path = std::filesystem::path(folder) / image.name;
    writeFile(path, image.isText ? image.bytes.rtrim('\0') : image.bytes); // the driver wants a zero behind text
    paths.push_back(path.string());
  }
  return paths;
}

} // namespace kolo::tools
