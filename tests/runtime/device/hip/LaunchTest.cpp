// libkolo_hip on stand-ins for HIP: launches are cooperative where HIP has such launches.
#include "Ranks.h"
#include "device/DeviceDriver.h"
#include "device/hip/Find.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

/// What a launch by this HIP says of itself, in a process of its own: a library of HIP is opened once. A device that
/// can launch its blocks together is asked to.
std::string launchBy(const char *hip) {
  return kolo::test::runProcesses(1, [hip](int) -> std::string {
    const KoloDeviceDriver *driver =
        kolo::test::find<const KoloDeviceDriver *()>(KOLO_TEST_HIP, KOLO_DEVICE_DRIVER_SYMBOL)();
    KoloDriverDevice device = {};
    if (driver->open(hip, nullptr) != KOLO_DRIVER_OK || driver->openDevice(0, &device) != KOLO_DRIVER_OK)
      return driver->lastError();
    KoloDriverKernel kernel = {nullptr, 512};
    KoloDriverLaunch launch = {&kernel, 3, 2, 128, nullptr, reinterpret_cast<void *>(0x1230), device.canLaunchTogether};
    if (driver->launch(0, &launch) != KOLO_DRIVER_OK)
      return driver->lastError();
    return kolo::test::find<const char *()>(hip, "fakeHipLaunched")();
  })[0];
}

} // namespace

TEST(HipLaunch, IsCooperativeWhereHipHasThatAndOtherwiseNot) {
  EXPECT_EQ(launchBy(KOLO_TEST_FAKE_HIP), "together: 3x2x1 blocks of 128x1x1 threads with 0x1230");
  EXPECT_EQ(launchBy(KOLO_TEST_OLD_HIP), "alone: 3x2x1 blocks of 128x1x1 threads with 0x1230");
}
