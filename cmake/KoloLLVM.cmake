# Finds LLVM and MLIR 22 and offers them as kolo_mlir: always the shared libMLIR and libLLVM, never a static part beside
# them, which would duplicate type ids and options.
list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-22)
find_package(MLIR 22.1 REQUIRED CONFIG)
find_package(LLD 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(kolo_mlir INTERFACE)
target_include_directories(kolo_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(kolo_mlir INTERFACE ${llvm_definitions})
target_link_libraries(kolo_mlir INTERFACE MLIR LLVM)
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(kolo_mlir INTERFACE -fno-rtti)
endif()

# Most of the time of a compilation that includes MLIR goes into its headers and those of Kolo's dialect, so they are
# precompiled. Libraries use `kolo_precompiled_mlir`; the executables of tests, which have other flags, use
# `kolo_precompiled_mlir_tests`, without optimisation as those have it. Those that have KOLO_WORKS are compiled as libraries are.
set(kolo_mlir_headers
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/ControlFlow/IR/ControlFlowOps.h> <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/IR/BuiltinOps.h> <mlir/IR/IRMapping.h>
  <mlir/IR/SymbolTable.h> <mlir/Pass/PassManager.h> <llvm/ADT/TypeSwitch.h> <fmt/format.h> <nlohmann/json.hpp>
  ${PROJECT_SOURCE_DIR}/ir/Kolo.h)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "") # written when it is missing only

# kolo_precompile(OWNER FLAG HEADER...)
function(kolo_precompile owner flag)
  add_library(${owner} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(${owner} PRIVATE kolo_mlir kolo_options fmt::fmt nlohmann_json::nlohmann_json)
  target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/dsl/include)
  target_include_directories(${owner} SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/ir)
  add_dependencies(${owner} kolo_ir_tablegen)
  set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  # Without a time in it the same headers give the same file, which ccache needs.
  target_compile_options(${owner} PRIVATE ${flag} $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  target_precompile_headers(${owner} PRIVATE ${ARGN})
endfunction()
kolo_precompile(kolo_precompiled_mlir -fPIC ${kolo_mlir_headers})
if(KOLO_TESTS)
  kolo_precompile(kolo_precompiled_mlir_tests -fPIE ${kolo_mlir_headers} <gtest/gtest.h>)
  target_link_libraries(kolo_precompiled_mlir_tests PRIVATE GTest::gtest)
  if(NOT KOLO_SANITIZE)
    target_compile_options(kolo_precompiled_mlir_tests PRIVATE ${kolo_fast_flags})
  endif()
endif()

# Libraries and executables that include MLIR. All but the executables of tests are compiled as libraries are.
function(kolo_use_precompiled_mlir)
  foreach(target ${ARGN})
    get_target_property(type ${target} TYPE)
    get_target_property(works ${target} KOLO_WORKS)
    cmake_path(IS_PREFIX kolo_tests_folder ${CMAKE_CURRENT_SOURCE_DIR} isOfTests)
    if(type STREQUAL EXECUTABLE AND isOfTests AND NOT works)
      target_precompile_headers(${target} REUSE_FROM kolo_precompiled_mlir_tests)
      continue()
    elseif(type STREQUAL EXECUTABLE)
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
    target_precompile_headers(${target} REUSE_FROM kolo_precompiled_mlir)
  endforeach()
endfunction()
set(kolo_tests_folder ${PROJECT_SOURCE_DIR}/tests)
