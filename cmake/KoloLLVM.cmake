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
