# Flags that every Kolo target is compiled with; linked privately as kolo_options.
add_library(kolo_options INTERFACE)
target_compile_options(kolo_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter)
if(KOLO_SANITIZE)
  string(REPLACE ";" "," sanitizers "${KOLO_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
endif()

# The standard library's headers take most of the time of a compilation that includes no MLIR, so they are precompiled.
# kolo_precompile_standard(TARGET [HEADER...])
function(kolo_precompile_standard target)
  # Without a time in it the same headers give the same file, which ccache needs.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <charconv> <chrono> <cstring> <deque> <filesystem>
    <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <utility> <variant> <vector> ${ARGN})
endfunction()
