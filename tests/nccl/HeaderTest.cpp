// The table agrees with NVIDIA's headers, where those are installed: every function of NCCL 2.28 has as many
// parameters, each of the same size and class.
#ifdef KOLO_HAS_NCCL_HEADER
#include <nccl.h>

#include <nccl_device.h>

#include "doors/nccl/Types.h"

#include <gtest/gtest.h>

#include <type_traits>

#pragma clang diagnostic ignored "-Wdeprecated-declarations" // ncclResetDebugInit

extern "C" void ncclResetDebugInitInternal(); // exported, and in no header

// Functions that the headers overload for devices: here are those of the host.
#define KOLO_HOST(result, name, parameters)                                                                            \
  result host##name parameters;                                                                                        \
  [[maybe_unused]] constexpr auto name##IsThere = static_cast<result(*) parameters>(&nccl##name);
KOLO_HOST(ncclTeam_t, TeamWorld, (ncclComm_t))
KOLO_HOST(ncclTeam_t, TeamLsa, (ncclComm_t))
KOLO_HOST(ncclTeam_t, TeamRail, (ncclComm_t))
KOLO_HOST(int, TeamRankToWorld, (ncclComm_t, ncclTeam_t, int))
KOLO_HOST(int, TeamRankToLsa, (ncclComm_t, ncclTeam_t, int))
#define ncclTeamWorld hostTeamWorld
#define ncclTeamLsa hostTeamLsa
#define ncclTeamRail hostTeamRail
#define ncclTeamRankToWorld hostTeamRankToWorld
#define ncclTeamRankToLsa hostTeamRankToLsa

namespace {

template <class Left, class Right> constexpr bool isAlike() {
  if constexpr (std::is_void_v<Left> || std::is_void_v<Right>)
    return std::is_void_v<Left> && std::is_void_v<Right>;
  else
    return sizeof(Left) == sizeof(Right) && alignof(Left) == alignof(Right) &&
           std::is_pointer_v<Left> == std::is_pointer_v<Right> && std::is_class_v<Left> == std::is_class_v<Right> &&
           std::is_floating_point_v<Left> == std::is_floating_point_v<Right>;
}

template <class Left, class... Lefts, class Right, class... Rights>
constexpr bool isAlike(Left (*)(Lefts...), Right (*)(Rights...)) {
  if constexpr (sizeof...(Lefts) != sizeof...(Rights))
    return false;
  else
    return isAlike<Left, Right>() && (isAlike<Lefts, Rights>() && ...);
}

} // namespace

namespace kolo::nccl {

// By the release that has a function first; the headers may be those of 2.28.
#define KOLO_CHECK_228(result, name, parameters)                                                                       \
  static_assert(isAlike(static_cast<result(*) parameters>(nullptr), static_cast<decltype(&::nccl##name)>(nullptr)),    \
                "nccl" #name);
#define KOLO_CHECK_0(result, name, parameters)
#define KOLO_CHECK_229(result, name, parameters)
#define KOLO_CHECK_230(result, name, parameters)
#define KOLO_CHECK_231(result, name, parameters)
#define KOLO_CHECK_232(result, name, parameters)
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments) KOLO_CHECK_##since(result, name, parameters)
#include "doors/nccl/Api.def"

} // namespace kolo::nccl

TEST(NcclHeader, NumbersAndLayoutsAreThoseOfTheTable) {
  using namespace kolo::nccl;
  EXPECT_EQ(static_cast<int>(ncclSuccess), static_cast<int>(Code::Success));
  EXPECT_EQ(static_cast<int>(ncclUnhandledCudaError), static_cast<int>(Code::UnhandledCudaError));
  EXPECT_EQ(static_cast<int>(ncclSystemError), static_cast<int>(Code::SystemError));
  EXPECT_EQ(static_cast<int>(ncclInvalidArgument), static_cast<int>(Code::InvalidArgument));
  EXPECT_EQ(static_cast<int>(ncclInvalidUsage), static_cast<int>(Code::InvalidUsage));
  EXPECT_EQ(static_cast<int>(ncclRemoteError), static_cast<int>(Code::RemoteError));
  EXPECT_EQ(static_cast<int>(ncclInProgress), static_cast<int>(Code::InProgress));
  EXPECT_EQ(static_cast<int>(ncclSum), redSum);
  EXPECT_EQ(static_cast<int>(ncclProd), redProduct);
  EXPECT_EQ(static_cast<int>(ncclMax), redMax);
  EXPECT_EQ(static_cast<int>(ncclMin), redMin);
  EXPECT_EQ(static_cast<int>(ncclAvg), redAverage);
  EXPECT_EQ(static_cast<int>(ncclNumOps), numFixedReductions);
  EXPECT_EQ(sizeof(ncclUniqueId), sizeof(UniqueId));
  EXPECT_EQ(offsetof(ncclConfig_t, magic), offsetof(Config, magic));
  EXPECT_EQ(offsetof(ncclConfig_t, blocking), offsetof(Config, blocking));
}
#endif
