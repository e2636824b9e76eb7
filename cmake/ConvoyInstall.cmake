# Installation: library, header, command, suites, and the files that find_package and pkg-config read.
include(CMakePackageConfigHelpers)

# A wheel carries the library beside the package's modules, under a name without a version.
if(DEFINED SKBUILD)
    set_property(TARGET convoy PROPERTY VERSION)
    set_property(TARGET convoy PROPERTY SOVERSION)
    set_property(TARGET convoy PROPERTY NO_SONAME ON)
    install(TARGETS convoy LIBRARY DESTINATION convoy COMPONENT python)
    # the leaderboard file is composed of the kernels' own sources
    foreach(part chain engines/cuda_fft gpu match)
        install(DIRECTORY src/${part}/ DESTINATION convoy/leaderboard/kernels/${part} COMPONENT python
                FILES_MATCHING PATTERN "*.cu" PATTERN "*.cuh" PATTERN "*.h" PATTERN "spectral_*.c"
                PATTERN "scatter_plan.c")
    endforeach()
    return()
endif()

install(TARGETS convoy EXPORT convoy-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY include/convoy DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT convoy-targets NAMESPACE convoy:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
# Who links an archive with CUDA code needs the CUDA runtime as well.
if(CONVOY_WITH_CUDA AND NOT CONVOY_SHARED)
    set(CONVOY_CONFIG_CUDA "find_dependency(CUDAToolkit)")
    set(CONVOY_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
configure_package_config_file(cmake/convoy-config.cmake.in ${PROJECT_BINARY_DIR}/convoy-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/convoy-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/convoy-config.cmake ${PROJECT_BINARY_DIR}/convoy-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/convoy)
# A shared library brings its own needs along, an archive does not.
if(CONVOY_SHARED)
    set(CONVOY_PC_PRIVATE " -lm -ldl -pthread")
else()
    set(CONVOY_PC_PUBLIC " -lm -ldl -pthread${CONVOY_PC_CUDA}")
endif()
# The prefix is known when files are installed: `cmake --install --prefix`, and CPack, choose it then.
set(CONVOY_PC_PREFIX "@CMAKE_INSTALL_PREFIX@")
configure_file(cmake/convoy.pc.in ${PROJECT_BINARY_DIR}/convoy.pc.in @ONLY)
install(CODE "configure_file(\"${PROJECT_BINARY_DIR}/convoy.pc.in\" \"${PROJECT_BINARY_DIR}/convoy.pc\" @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/convoy.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET convoy_cli)
    install(TARGETS convoy_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(DIRECTORY bench/suites DESTINATION ${CMAKE_INSTALL_DATADIR}/convoy)
endif()
