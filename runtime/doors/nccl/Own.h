// The functions of the table that Kolo handles itself. None is called from inside of the real library.
#pragma once

#include "Types.h"

namespace kolo::nccl::own {

#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)
#define KOLO_NCCL_HANDLED(since, result, name, parameters, arguments) result name parameters;
#include "Api.def"

} // namespace kolo::nccl::own
