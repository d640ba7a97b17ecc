#include "device/DeviceImages.h"

#include "base/Environment.h"
#include "base/Error.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

namespace kolo::runtime {
namespace {

/// 90 for "sm_90"; nothing for "sm_90a", which runs on sm_90 only, and for other texts.
std::optional<int> computeCapability(std::string_view architecture) {
  return architecture.starts_with("sm_") ? parseInt(architecture.substr(3), 1, 9999) : std::nullopt;
}

/// "gfx90a" of "gfx90a:sramecc+:xnack-".
std::string_view processor(std::string_view architecture) { return architecture.substr(0, architecture.find(':')); }

/// How well an image suits a device; larger is better. Nothing: the image does not run there.
std::optional<int> suitability(const KoloDeviceImage &image, std::string_view architecture) {
  constexpr int exact = 10000, particular = exact + 1; // PTX: its architecture's number, which is less
  bool isParticular = image.architecture == std::string(architecture) + "a";
  std::optional<int> needed = computeCapability(image.architecture), given = computeCapability(architecture);
  switch (image.format) {
  case KOLO_DEVICE_PTX:
    return isParticular ? exact - 1 : needed && given && *needed <= *given ? needed : std::nullopt;
  case KOLO_DEVICE_CUBIN:
    return isParticular                         ? std::optional(particular)
           : image.architecture == architecture ? std::optional(exact)
                                                : std::nullopt;
  case KOLO_DEVICE_HSACO:
    return processor(image.architecture) == processor(architecture) ? std::optional(exact) : std::nullopt;
  default: // of a later compiler
    return std::nullopt;
  }
}

std::string describe(const KoloDeviceImage &image) {
  return fmt::format("{}{}", image.architecture, image.format == KOLO_DEVICE_CUBIN ? " (cubin)" : "");
}

/// Whether all programs with inboxes can say whom a rank talks to.
bool hasPeers(const KoloDevicePlugin &table) {
  for (uint32_t index = 0; table.inboxBytes && index < table.numKernels; ++index)
    if (table.inboxBytes[index] && !(table.peers && table.peers[index]))
      return false;
  return true;
}

Status checkTable(const KoloDevicePlugin &table, const PluginState &plugin) {
  if (table.abiVersion != KOLO_DEVICE_ABI_VERSION)
    return error(StatusCode::BadPlugin, "{}: its code for devices has ABI version {}, this runtime {}", plugin.path,
                 table.abiVersion, KOLO_DEVICE_ABI_VERSION);
  if (table.numKernels != plugin.table->numPrograms || !table.kernels || !table.tableKernels)
    return error(StatusCode::BadPlugin, "{}: has {} programs, and {} kernels for devices", plugin.path,
                 plugin.table->numPrograms, table.kernels && table.tableKernels ? table.numKernels : 0);
  bool hasImages = table.images || table.numImages == 0, hasReductions = table.reductions || table.numReductions == 0;
  if (!hasImages || !hasReductions || !hasPeers(table))
    return error(StatusCode::BadPlugin, "{}: its table for devices is incomplete", plugin.path);
  for (uint32_t index = 0; index < table.numImages; ++index) {
    const KoloDeviceImage &image = table.images[index];
    if (!image.kind || !image.architecture || !image.data || image.sizeBytes == 0)
      return error(StatusCode::BadPlugin, "{}: its image {} for devices is incomplete", plugin.path, index);
  }
  return {};
}

Result<KoloDriverKernel> findKernel(const LoadedImage &loaded, const char *name) {
  const OpenDevice &device = *loaded.device;
  KoloDriverKernel kernel = {};
  int32_t code = device.driver().findKernel(device.ordinal(), loaded.module, name, &kernel);
  if (code != KOLO_DRIVER_OK)
    return error(StatusCode::BadPlugin, "kernel '{}': {}", name, device.driver().lastError());
  return kernel;
}

Status findKernels(const KoloDevicePlugin &table, LoadedImage &loaded) {
  for (uint32_t index = 0; index < table.numKernels; ++index) {
    Result<KoloDriverKernel> kernel = findKernel(loaded, table.kernels[index]);
    if (!kernel.isOk())
      return kernel.status();
    loaded.kernels.push_back(*kernel);
    std::optional<KoloDriverKernel> &forTables = loaded.tableKernels.emplace_back();
    if (!table.tableKernels[index])
      continue;
    Result<KoloDriverKernel> other = findKernel(loaded, table.tableKernels[index]);
    if (!other.isOk())
      return other.status();
    forTables = *other;
  }
  return {};
}

Result<std::shared_ptr<const LoadedImage>> load(const std::shared_ptr<OpenDevice> &device,
                                                const std::shared_ptr<const PluginState> &plugin) {
  Result<const KoloDevicePlugin *> table = deviceTable(*plugin);
  if (!table.isOk())
    return table.status();
  Result<std::vector<const KoloDeviceImage *>> images =
      chooseImages(**table, device->driver().kind, device->description().architecture);
  if (!images.isOk())
    return error(images.status().code(), "{}: {}", plugin->path, images.status().message());
  auto loaded = std::make_shared<LoadedImage>();
  loaded->device = device;
  loaded->plugin = plugin;
  loaded->table = *table;
  Status status;
  std::string refusals;
  for (const KoloDeviceImage *image : *images) {
    int32_t code = device->driver().loadModule(device->ordinal(), image->data, &loaded->module);
    status = device->status(code, fmt::format("loading the image for {}", describe(*image)));
    if (code != KOLO_DRIVER_BAD_IMAGE)
      break;
    refusals += (refusals.empty() ? "" : "; ") + status.message();
  }
  if (status.isOk())
    status = findKernels(**table, *loaded);
  else if (status.code() == StatusCode::BadPlugin)
    return error(status.code(), "{}: {}", plugin->path, refusals);
  if (!status.isOk())
    return error(status.code(), "{}: {}", plugin->path, status.message());
  return std::shared_ptr<const LoadedImage>(std::move(loaded));
}

} // namespace

Result<const KoloDevicePlugin *> deviceTable(const PluginState &plugin) {
  auto entry = reinterpret_cast<KoloDevicePluginEntry>(dlsym(plugin.library, KOLO_DEVICE_SYMBOL));
  const KoloDevicePlugin *table = entry ? entry() : nullptr;
  if (!table)
    return error(StatusCode::BadPlugin, "{}: has no code for devices", plugin.path);
  if (Status status = checkTable(*table, plugin); !status.isOk())
    return status;
  return table;
}

Result<std::vector<bool>> peersOf(const LoadedImage &image, int32_t program, const PeersQuestion &rank) {
  struct Found {
    std::vector<bool> peers;
    bool areRanks = true;
  } found;
  size_t numRanks = 1;
  for (int64_t size : rank.dimSizes)
    numRanks *= static_cast<size_t>(size);
  found.peers.resize(numRanks);
  KoloDevicePeers question = {};
  std::ranges::copy(rank.dimSizes, question.dimSizes);
  std::ranges::copy(rank.coordinates, question.coordinates);
  question.root = rank.root;
  question.context = &found;
  question.note = [](void *context, int64_t peer) {
    auto &[peers, areRanks] = *static_cast<Found *>(context);
    const bool isRank = peer >= 0 && static_cast<size_t>(peer) < peers.size();
    areRanks &= isRank;
    if (isRank)
      peers[static_cast<size_t>(peer)] = true;
  };
  image.table->peers[program](&question);
  if (!found.areRanks)
    return error(StatusCode::BadPlugin, "{}: program {} names peers that are no ranks of a mesh of {}",
                 image.plugin->path, program, numRanks);
  return std::move(found.peers);
}

Result<std::vector<const KoloDeviceImage *>> chooseImages(const KoloDevicePlugin &table, std::string_view kind,
                                                          std::string_view architecture) {
  std::multimap<int, const KoloDeviceImage *, std::greater<>> suitable; // by suitability, the best one first
  std::string others;
  for (uint32_t index = 0; index < table.numImages; ++index) {
    const KoloDeviceImage &image = table.images[index];
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", image.kind, describe(image));
    if (image.kind != kind)
      continue;
    if (std::optional<int> found = suitability(image, architecture))
      suitable.emplace(*found, &image);
  }
  if (suitable.empty())
    return error(StatusCode::BadPlugin, "has no code for {} devices of architecture {}; it has code for: {}", kind,
                 architecture, others.empty() ? "none" : others);
  std::vector<const KoloDeviceImage *> images;
  for (const auto &[number, image] : suitable)
    images.push_back(image);
  return images;
}

Status checkReduction(const KoloDevicePlugin &table, DataType type, Reduction reduction) {
  if (type == DataType::F16 && reduction == Reduction::Average) // see WideAverage.h; the range of bf16 is that of f32
    return error(StatusCode::BadPlugin, "devices do not average f16, whose sums may overflow: average f32 or bf16");
  for (uint32_t index = 0; index < table.numReductions; ++index)
    if (table.reductions[index].type == static_cast<int32_t>(type) &&
        table.reductions[index].reduction == static_cast<int32_t>(reduction))
      return {};
  return error(StatusCode::BadPlugin, "has no code for {} of {} on devices", toString(reduction), toString(type));
}

LoadedImage::~LoadedImage() {
  if (module)
    (void)device->driver().unloadModule(device->ordinal(), module);
}

Result<std::shared_ptr<const LoadedImage>> loadImage(const std::shared_ptr<OpenDevice> &device,
                                                     const std::shared_ptr<const PluginState> &plugin) {
  using Key = std::tuple<const KoloDeviceDriver *, int, uint64_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const LoadedImage>> images;
  std::scoped_lock lock(mutex);
  std::erase_if(images, [](const auto &entry) { return entry.second.expired(); });
  Key key = {&device->driver(), device->ordinal(), plugin->load};
  if (std::shared_ptr<const LoadedImage> loaded = images[key].lock())
    return loaded;
  Result<std::shared_ptr<const LoadedImage>> loaded = load(device, plugin);
  if (loaded.isOk())
    images[key] = *loaded;
  return loaded;
}

} // namespace kolo::runtime
