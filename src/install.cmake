# What `cmake --install` lays down, and how other projects find it: find_package(maxsim_jit) and pkg-config. The tree
# can be moved: each installed file finds the others from its own place.
include(CMakePackageConfigHelpers)

set(cmake_directory ${CMAKE_INSTALL_LIBDIR}/cmake/maxsim_jit)
set(pkgconfig_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pkgconfig_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pkgconfig_to_prefix ${pkgconfig_to_prefix})
file(RELATIVE_PATH pkgconfig_to_include ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set_target_properties(maxsim_jit_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")

install(TARGETS maxsim_jit EXPORT maxsim_jit-targets)
install(TARGETS maxsim_jit_command)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/maxsim_jit TYPE INCLUDE)
install(FILES cli/maxsim-jit.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES cli/maxsim-jit.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME maxsim-jit)

install(EXPORT maxsim_jit-targets NAMESPACE maxsim_jit:: DESTINATION ${cmake_directory})
configure_package_config_file(maxsim_jit-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit-config.cmake
                              INSTALL_DESTINATION ${cmake_directory} NO_SET_AND_CHECK_MACRO)
# As the SONAME says: the ABI only grows within a major version.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit-config-version.cmake
                                 COMPATIBILITY SameMajorVersion)
configure_file(maxsim_jit.pc.in ${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit-config-version.cmake DESTINATION ${cmake_directory})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/maxsim_jit.pc DESTINATION ${pkgconfig_directory})
