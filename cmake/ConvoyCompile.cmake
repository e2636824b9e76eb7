# How Convoy's sources are compiled: strict arithmetic, warnings, sanitizers, and kernels once per instruction set.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# FMA is written out where it is meant, so the compiler must not make more of them: contracts are about bits.
add_library(convoy_flags INTERFACE)
target_compile_options(convoy_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off -fno-math-errno -fno-trapping-math>
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes>
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${CONVOY_WERROR}>>:-Werror>)
target_compile_definitions(convoy_flags INTERFACE _GNU_SOURCE)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
endif()
if(CONVOY_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:C>:-fsanitize=${CONVOY_SANITIZE}>
                        $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>
                        $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>)
    add_link_options(-fsanitize=${CONVOY_SANITIZE})
endif()

# The name of the object library that holds a kernel source for one instruction set: for tests that reach inside.
function(convoy_isa_target path isa name)
    get_filename_component(stem ${path} NAME_WE)
    string(SHA1 id "${path}")
    string(SUBSTRING ${id} 0 8 id)
    set(${name} isa_${stem}_${id}_${isa} PARENT_SCOPE)
endfunction()

if(CONVOY_FUZZ)
    add_compile_options($<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>) # so that the fuzzers see where they have been
endif()

# convoy_isa_sources(file.c ...): adds each file to the library once per instruction set, as src/simd/simd.h describes.
function(convoy_isa_sources)
    set(flags_AVX512 -mavx512f -mavx512vl -mavx512dq -mfma)
    set(flags_AVX2 -mavx2 -mfma)
    set(flags_SCALAR "")
    foreach(source IN LISTS ARGN)
        get_filename_component(path ${source} ABSOLUTE)
        foreach(isa AVX512 AVX2 SCALAR)
            convoy_isa_target(${path} ${isa} target)
            add_library(${target} OBJECT ${path})
            target_link_libraries(${target} PRIVATE convoy_flags)
            target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
            target_compile_definitions(${target} PRIVATE CV_ISA_${isa})
            target_compile_options(${target} PRIVATE ${flags_${isa}})
            if(CONVOY_FUZZ) # kernels branch little and would take minutes each
                target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link)
            endif()
            target_sources(convoy PRIVATE $<TARGET_OBJECTS:${target}>)
        endforeach()
    endforeach()
endfunction()
