# Run by CPack between installing and packing: Debian wants the manual page and the changelog compressed.
file(GLOB_RECURSE documents "${CPACK_TEMPORARY_DIRECTORY}/convoy.1" "${CPACK_TEMPORARY_DIRECTORY}/changelog")
foreach(document IN LISTS documents)
    execute_process(COMMAND gzip -9nf "${document}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
