// A stand-in for NVIDIA's management library: the devices 0 to 7 of a machine, with NVLink between them unless
// KOLO_STANDIN_NVLINK is 0.
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" {

int nvmlInit_v2() { return 0; }

/// "GPU-4n4n4n4n-4n4n-4n4n-4n4n-4n4n4n4n4n4n", of device n.
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  constexpr int notFound = 6;
  for (intptr_t number = 0; number < 8; ++number) {
    std::string byte = "4" + std::to_string(number), text = "GPU-";
    for (int size : {4, 2, 2, 2, 6}) {
      for (int i = 0; i < size; ++i)
        text += byte;
      text += size == 6 ? "" : "-";
    }
    if (text != uuid)
      continue;
    *device = reinterpret_cast<void *>(number + 1);
    return 0;
  }
  return notFound;
}

int nvmlDeviceGetP2PStatus(void *, void *, int index, int *status) {
  constexpr int invalidArgument = 2, nvlink = 2, isFine = 0, isMissing = 1;
  if (index != nvlink)
    return invalidArgument;
  const char *text = std::getenv("KOLO_STANDIN_NVLINK");
  *status = text && std::string(text) == "0" ? isMissing : isFine;
  return 0;
}
}
