// libkolo_hip on the stand-in for HIP: memory for peers is of the best kind that there is.
#include "Ranks.h"
#include "device/DeviceDriver.h"
#include "device/hip/Find.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace {

/// The flags of memory for peers, in a process with these variables set to 0; or the error.
std::string flagsWithout(const std::vector<const char *> &variables) {
  return kolo::test::runProcesses(1, [&](int) -> std::string {
    for (const char *variable : variables)
      setenv(variable, "0", 1);
    const KoloDeviceDriver *driver =
        kolo::test::find<const KoloDeviceDriver *()>(KOLO_TEST_HIP, KOLO_DEVICE_DRIVER_SYMBOL)();
    void *memory = nullptr;
    if (driver->open(KOLO_TEST_HIP_STANDIN, nullptr) != KOLO_DRIVER_OK ||
        driver->allocate(0, KOLO_MEMORY_SHARED, 4096, &memory) != KOLO_DRIVER_OK)
      return driver->lastError();
    return std::to_string(kolo::test::find<unsigned int()>(KOLO_TEST_HIP_STANDIN, "standInFlags")());
  })[0];
}

} // namespace

TEST(HipMemory, ForPeersIsFineGrainedWhereUncachedIsRefused) {
  constexpr const char *fineGrained = "1",
                       *uncached = "3"; // hipDeviceMallocFinegrained and, in later headers, hipDeviceMallocUncached
  EXPECT_EQ(flagsWithout({}), uncached);
  EXPECT_EQ(flagsWithout({"KOLO_STANDIN_UNCACHED"}), fineGrained);
  EXPECT_NE(flagsWithout({"KOLO_STANDIN_FINE"}).find("hipExtMallocWithFlags"), std::string::npos);
}

TEST(HipMemory, IsFlushedForNicsByARegisterOfTheDevice) {
  std::string said = kolo::test::runProcesses(1, [](int) -> std::string {
    const KoloDeviceDriver *driver =
        kolo::test::find<const KoloDeviceDriver *()>(KOLO_TEST_HIP, KOLO_DEVICE_DRIVER_SYMBOL)();
    auto *stored = kolo::test::find<unsigned int(int)>(KOLO_TEST_HIP_STANDIN, "standInHostDataPath");
    KoloDriverDevice without = {}, with = {};
    if (driver->open(KOLO_TEST_HIP_STANDIN, nullptr) != KOLO_DRIVER_OK ||
        driver->openDevice(0, &without) != KOLO_DRIVER_OK)
      return driver->lastError();
    bool isRight = driver->flushAccesses(0) == KOLO_DRIVER_OK && stored(0) == 0 && !without.needsFlush &&
                   !without.needsFlushToSend && without.needsRead;
    setenv("KOLO_STANDIN_HDP", "1", 1);
    isRight &= driver->openDevice(1, &with) == KOLO_DRIVER_OK && with.needsFlush && with.needsFlushToSend &&
               with.needsRead && driver->flushAccesses(1) == KOLO_DRIVER_OK && stored(1) == 1;
    return isRight ? "" : "wrong";
  })[0];
  EXPECT_EQ(said, "");
}

TEST(HipMemory, OfTheHostIsRegisteredForDevices) {
  std::string said = kolo::test::runProcesses(1, [](int) -> std::string {
    const KoloDeviceDriver *driver =
        kolo::test::find<const KoloDeviceDriver *()>(KOLO_TEST_HIP, KOLO_DEVICE_DRIVER_SYMBOL)();
    std::vector<std::byte> memory(10000);
    void *address = nullptr;
    if (driver->open(KOLO_TEST_HIP_STANDIN, nullptr) != KOLO_DRIVER_OK ||
        driver->registerHost(0, memory.data(), memory.size(), &address) != KOLO_DRIVER_OK)
      return driver->lastError();
    const bool isSame = address == memory.data();
    bool isTwice = driver->registerHost(0, memory.data(), memory.size(), &address) == KOLO_DRIVER_OK;
    bool isGone = driver->unregisterHost(0, memory.data()) == KOLO_DRIVER_OK;
    return isSame && !isTwice && isGone ? "" : "wrong";
  })[0];
  EXPECT_EQ(said, "");
}
