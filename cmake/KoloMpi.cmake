# The MPI libraries of this machine. FindMPI finds one only, so each compiler wrapper is asked what it would do.
find_program(KOLO_OPENMPI_CC mpicc.openmpi DOC "Open MPI's compiler wrapper")
find_program(KOLO_OPENMPI_RUN mpirun.openmpi DOC "Open MPI's launcher")
find_program(KOLO_MPICH_CC mpicc.mpich DOC "MPICH's compiler wrapper")
find_program(KOLO_MPICH_RUN mpirun.mpich DOC "MPICH's launcher")
find_program(KOLO_ABI_CC NAMES mpicc_abi mpicc.mpi_abi_mpich DOC "A compiler wrapper of MPI's standard ABI")
find_program(KOLO_ABI_RUN NAMES mpirun.mpi_abi_mpich mpirun.mpich DOC "A launcher for programs of MPI's standard ABI")

# kolo_add_mpi_library(ABI TITLE WRAPPER): the target kolo_mpi_library_ABI, to link with, where the wrapper was found and works.
function(kolo_add_mpi_library abi title wrapper)
  if(NOT wrapper)
    message(STATUS "Without ${title}, whose compiler wrapper was not found")
    return()
  endif()
  execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE flags RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT status EQUAL 0)
    message(STATUS "Without ${title}: ${wrapper} -show failed")
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${flags}")
  set(include_dirs ${words})
  list(FILTER include_dirs INCLUDE REGEX "^-I.")
  list(TRANSFORM include_dirs REPLACE "^-I" "")
  set(link_words ${words})
  list(FILTER link_words INCLUDE REGEX "^-(L|l|Wl,).")
  add_library(kolo_mpi_library_${abi} INTERFACE)
  target_include_directories(kolo_mpi_library_${abi} SYSTEM INTERFACE ${include_dirs})
  target_link_libraries(kolo_mpi_library_${abi} INTERFACE ${link_words})
  message(STATUS "With ${title}, through ${wrapper}")
endfunction()

kolo_add_mpi_library(openmpi "Open MPI" "${KOLO_OPENMPI_CC}")
kolo_add_mpi_library(mpich "MPICH" "${KOLO_MPICH_CC}")
kolo_add_mpi_library(abi "the standard ABI of MPI 5" "${KOLO_ABI_CC}")

# Some packages have header and library of the standard ABI but no wrapper that works.
find_path(KOLO_ABI_INCLUDE_DIR mpi.h DOC "The folder of the mpi.h of MPI's standard ABI" NO_DEFAULT_PATH
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/local/lib
  PATH_SUFFIXES mpi_abi_mpich/include openmpi/include/standard_abi)
find_library(KOLO_ABI_LIBRARY mpi_abi DOC "The library of MPI's standard ABI"
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} PATH_SUFFIXES mpi_abi_mpich/lib openmpi/lib)
if(NOT TARGET kolo_mpi_library_abi AND KOLO_ABI_INCLUDE_DIR AND KOLO_ABI_LIBRARY)
  add_library(kolo_mpi_library_abi INTERFACE)
  target_include_directories(kolo_mpi_library_abi SYSTEM INTERFACE ${KOLO_ABI_INCLUDE_DIR})
  target_link_libraries(kolo_mpi_library_abi INTERFACE ${KOLO_ABI_LIBRARY})
  # For the tests, which compile programs.
  file(WRITE ${CMAKE_BINARY_DIR}/bin/mpicc_abi
    "#!/bin/sh\nexec ${CMAKE_C_COMPILER} -I${KOLO_ABI_INCLUDE_DIR} \"$@\" ${KOLO_ABI_LIBRARY}\n")
  file(CHMOD ${CMAKE_BINARY_DIR}/bin/mpicc_abi
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(KOLO_ABI_CC ${CMAKE_BINARY_DIR}/bin/mpicc_abi)
  message(STATUS "With the standard ABI of MPI 5, through ${KOLO_ABI_INCLUDE_DIR}")
endif()
