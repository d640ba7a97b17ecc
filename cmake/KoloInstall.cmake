# What an installed Kolo consists of beyond the targets' own install lines: the CMake package and the licence.
include(CMakePackageConfigHelpers)
set(kolo_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
install(EXPORT koloTargets NAMESPACE kolo:: DESTINATION ${kolo_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/koloConfig.cmake.in ${CMAKE_BINARY_DIR}/koloConfig.cmake
  INSTALL_DESTINATION ${kolo_package_dir} NO_SET_AND_CHECK_MACRO)
# The interfaces may change with every minor version until 1.0.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/koloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/koloConfig.cmake ${CMAKE_BINARY_DIR}/koloConfigVersion.cmake
  DESTINATION ${kolo_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
