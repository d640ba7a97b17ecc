// Which sanitizers this code is compiled with.
#pragma once

#ifndef __has_feature // GCC before 14 has macros instead
#define __has_feature(feature) 0
#endif

namespace kolo::test {

#ifdef __SANITIZE_THREAD__
inline constexpr bool isThreadSanitized = true;
#else
inline constexpr bool isThreadSanitized = __has_feature(thread_sanitizer);
#endif

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool isAddressSanitized = true;
#else
inline constexpr bool isAddressSanitized = __has_feature(address_sanitizer);
#endif

} // namespace kolo::test
