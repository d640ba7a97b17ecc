// DeviceImages: a plugin's code for devices, and the image that a device runs.
#pragma once

#include "device/OpenDevice.h"
#include "kolo/runtime/DeviceAbi.h"
#include "loader/PluginState.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kolo::runtime {

/// The plugin's table for devices. BadPlugin: the plugin has none, or this runtime does not understand it.
Result<const KoloDevicePlugin *> deviceTable(const PluginState &plugin);

/// The images for a device, the best one first: a cubin or a code object for exactly this architecture, then PTX of
/// this or earlier ones, the latest first. BadPlugin: no image fits; the message lists the images.
Result<std::vector<const KoloDeviceImage *>> chooseImages(const KoloDevicePlugin &table, std::string_view kind,
                                                          std::string_view architecture);

/// KoloDevicePlugin.inboxBytes of a program, or null.
using InboxBytes = int64_t (*)(const KoloShape *);
inline InboxBytes inboxBytesOf(const KoloDevicePlugin &table, int32_t program) {
  return table.inboxBytes ? table.inboxBytes[program] : nullptr;
}

/// BadPlugin: the images have no code for this type and reduction.
Status checkReduction(const KoloDevicePlugin &table, DataType type, Reduction reduction);

/// An image of a plugin, loaded on a device, and its kernels in the order of the plugin's programs. Owns the module.
struct LoadedImage {
  LoadedImage() = default;
  ~LoadedImage();
  LoadedImage(const LoadedImage &) = delete;
  LoadedImage &operator=(const LoadedImage &) = delete;

  std::shared_ptr<OpenDevice> device;
  std::shared_ptr<const PluginState> plugin;
  const KoloDevicePlugin *table = nullptr; // of the plugin
  void *module = nullptr;
  std::vector<KoloDriverKernel> kernels;
  std::vector<std::optional<KoloDriverKernel>> tableKernels; // of programs that take block tables
};

/// KoloDevicePlugin.peers of a program that has inboxes: the ranks that the rank with these coordinates signals or
/// waits for, by rank. BadPlugin: some are no ranks of the mesh.
struct PeersQuestion {
  std::span<const int64_t> dimSizes, coordinates; // KOLO_MAX_MESH_DIMS each
  int64_t root = 0;
};
Result<std::vector<bool>> peersOf(const LoadedImage &image, int32_t program, const PeersQuestion &rank);

/// Loads the best image that the driver accepts, unless a communicator of this process has already loaded it: a driver
/// refuses cubins of later toolkits, and translates PTX instead. All images of a plugin are the same programs. May
/// block while the driver translates. BadPlugin: it accepts none; the message says why, for each. OutOfMemory,
/// DeviceError.
Result<std::shared_ptr<const LoadedImage>> loadImage(const std::shared_ptr<OpenDevice> &device,
                                                     const std::shared_ptr<const PluginState> &plugin);

} // namespace kolo::runtime
