// DeviceImages: what a plugin carries for devices, and which of it a device can run.
#pragma once

#include "device/OpenDevice.h"
#include "kolo/runtime/DeviceAbi.h"
#include "loader/PluginState.h"

#include <memory>
#include <vector>

namespace kolo::runtime {

/// The plugin's table for devices. BadPlugin: it has none, or one that this runtime does not understand.
Result<const KoloDevicePlugin *> deviceTable(const PluginState &plugin);

/// The best image for a device: a cubin or a code object for exactly this architecture, else PTX for the latest one
/// that is not later. BadPlugin: there is none; the message says which there are.
Result<const KoloDeviceImage *> chooseImage(const KoloDevicePlugin &table, std::string_view kind,
                                            std::string_view architecture);

/// BadPlugin: there is no code for this type and reduction.
Status checkReduction(const KoloDevicePlugin &table, DataType type, Reduction reduction);

/// A plugin's image, loaded on a device, and its kernels in the order of the plugin's programs.
struct LoadedImage {
  LoadedImage() = default;
  ~LoadedImage();
  LoadedImage(const LoadedImage &) = delete;
  LoadedImage &operator=(const LoadedImage &) = delete;

  std::shared_ptr<OpenDevice> device;
  std::shared_ptr<const PluginState> plugin;
  void *module = nullptr;
  std::vector<KoloDriverKernel> kernels;
};

/// Loads it, or finds it where some communicator of this process has it loaded. Translating PTX takes its time.
/// BadPlugin, OutOfMemory, DeviceError.
Result<std::shared_ptr<const LoadedImage>> loadImage(std::shared_ptr<OpenDevice> device,
                                                     std::shared_ptr<const PluginState> plugin);

} // namespace kolo::runtime
