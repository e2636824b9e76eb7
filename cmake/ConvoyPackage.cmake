# Packages of what `make install` installs: cpack --config build/CPackConfig.cmake makes convoy_VERSION_ARCH.deb, and
# -G TGZ an archive for other systems.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME convoy)
set(CPACK_PACKAGE_CONTACT "The Convoy authors <nobody@convoy.invalid>" CACHE STRING "Who answers for a package")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "strict-FP32 2-D convolution with large kernels")
set(CPACK_PACKAGE_DESCRIPTION "A library and a command for 2-D convolution on CPUs and NVIDIA GPUs
by tiled FFT, tuned per shape, and for results that are bit-identical on
every machine.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # asks dpkg-shlibdeps, so that the versions of libc and cJSON are true
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libdnnl2 | libdnnl3")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers) # the loader's cache
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/compress.cmake)
install(FILES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME changelog)
include(CPack)
