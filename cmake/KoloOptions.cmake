# Flags that every Kolo target is compiled with; linked privately as kolo_options.
add_library(kolo_options INTERFACE)
target_compile_options(kolo_options INTERFACE -Wall -Wextra -Wpedantic -Wno-unused-parameter)
if(NOT CMAKE_UNITY_BUILD) # else variables would hide those of other files: there, clang-tidy warns, which reads each file alone
  target_compile_options(kolo_options INTERFACE -Wshadow)
endif()
if(KOLO_SANITIZE)
  string(REPLACE ";" "," sanitizers "${KOLO_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
endif()

# Of programs of tests: see kolo_compile_tests_fast.
set(kolo_fast_flags -O0 -g0)

# With CMAKE_UNITY_BUILD, as in the presets for development, 8 or 16 files of a target are compiled as one: they share what
# their headers take. So names that are local to a file differ within a target.
# kolo_compile_alone(FILE...): not these files, which open a namespace that others do not.
function(kolo_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# kolo_list_sources(): builds sources/compile_commands.json, the commands for each file alone, which clang-tidy and editors need.
function(kolo_list_sources)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${PROJECT_SOURCE_DIR}/tests/support/list_sources.py)
  set(listing ${PROJECT_BINARY_DIR}/sources/compile_commands.json)
  add_custom_command(OUTPUT ${listing} COMMAND Python3::Interpreter -B ${script} ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/sources
    DEPENDS ${PROJECT_BINARY_DIR}/compile_commands.json ${script} VERBATIM)
  add_custom_target(kolo_sources ALL DEPENDS ${listing})
endfunction()

# The standard library's headers take most of the time of a compilation that includes no MLIR, so they are precompiled.
# kolo_precompile_standard(TARGET [HEADER...])
function(kolo_precompile_standard target)
  # Without a time in it the same headers give the same file, which ccache needs.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <charconv> <chrono> <cstring> <deque> <filesystem>
    <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <utility> <variant> <vector> ${ARGN})
endfunction()
