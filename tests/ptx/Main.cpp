// The devices that the runtime of these tests sees: the stand-in driver's, which records what is launched.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char **argv) {
  for (auto [name, value] : {std::pair("KOLO_CUDA_DRIVER", KOLO_TEST_STANDIN), std::pair("KOLO_STANDIN_RECORD", "1"),
                             std::pair("KOLO_STANDIN_DEVICES", "8")})
    if (setenv(name, value, 1) != 0)
      return 2;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
