# The manual page, and the reference of the header where Doxygen is installed: cmake --build build --target reference.
configure_file(docs/man/convoy.1.in ${PROJECT_BINARY_DIR}/convoy.1 @ONLY)
if(TARGET convoy_cli AND NOT DEFINED SKBUILD)
    install(FILES ${PROJECT_BINARY_DIR}/convoy.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
find_program(DOXYGEN doxygen)
mark_as_advanced(DOXYGEN)
if(DOXYGEN)
    configure_file(docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
    add_custom_target(reference COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                      COMMENT "Writing ${PROJECT_BINARY_DIR}/reference/html/index.html" VERBATIM)
endif()
