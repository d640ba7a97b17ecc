// LL128 where a process sees its own device alone: NVIDIA's management library knows the others.
#include "device/Support.h"

using namespace kolo::test;

namespace {

/// Whether device 1, the only one that a process sees, keeps lines to device `peer` of the machine.
std::string answerOf(int peer, const char *management, const char *nvlink) {
  return runProcesses(1, [&](int) -> std::string {
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("KOLO_STANDIN_DEVICES", "1", 1);
    setenv("KOLO_NVML", management, 1);
    setenv("KOLO_STANDIN_NVLINK", nvlink, 1);
    const KoloDeviceDriver &driver = cudaLibrary();
    KoloDriverDevice device = {};
    if (driver.openDevice(0, &device) != KOLO_DRIVER_OK)
      return driver.lastError();
    const std::vector<uint8_t> uuid(16, static_cast<uint8_t>(0x40 + peer)); // as the stand-in makes it
    int32_t answer = -1;
    if (driver.keepsLines(0, uuid.data(), &answer) != KOLO_DRIVER_OK)
      return driver.lastError();
    return answer == 1 ? "yes" : "no";
  })[0];
}

} // namespace

TEST(Nvlink, IsKnownOfDevicesThatAreInvisibleHere) {
  EXPECT_EQ(answerOf(1, "/nowhere", "1"), "yes") << "itself";
  EXPECT_EQ(answerOf(0, KOLO_TEST_NVML, "1"), "yes");
  EXPECT_EQ(answerOf(2, KOLO_TEST_NVML, "1"), "yes");
  EXPECT_EQ(answerOf(0, KOLO_TEST_NVML, "0"), "no");
}

TEST(Nvlink, IsNotThereWhereNobodyKnows) {
  EXPECT_EQ(answerOf(0, "/nowhere", "1"), "no");
  EXPECT_EQ(answerOf(60, KOLO_TEST_NVML, "1"), "no") << "the machine has no such device";
}
