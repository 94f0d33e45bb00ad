# Finds MLIR and gives the helpers with which kvc's compiler libraries are made.
# Everything links the one shared libMLIR: mixing it with MLIR's static archives registers options twice.
find_package(LLVM 22.1 REQUIRED CONFIG PATHS /usr/lib/llvm-22/lib/cmake/llvm)
find_package(MLIR 22.1 REQUIRED CONFIG PATHS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${LLVM_CMAKE_DIR}" "${MLIR_CMAKE_DIR}")
set(MLIR_BINARY_DIR "${PROJECT_BINARY_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# mlir_tablegen searches the directory property, not the targets.
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS})
include_directories("${PROJECT_SOURCE_DIR}/dialects")

add_library(kvc_mlir INTERFACE)
target_include_directories(kvc_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_include_directories(kvc_mlir INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_BINARY_DIR}/include" "${PROJECT_BINARY_DIR}/dialects")
target_compile_options(kvc_mlir INTERFACE -fno-exceptions $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
target_link_libraries(kvc_mlir INTERFACE MLIR LLVM)

# One precompiled header for all compiler sources: a file with seven dialect headers takes 9 s without it.
# The header is included by name (clang would look for a precompiled one beside a path) and found as an option that
# ccache rewrites to a relative path (it leaves CMake's own `-Xclang PATH` alone).
set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH -include kvc_mlir_pch.h -x c++-header)
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
file(WRITE "${PROJECT_BINARY_DIR}/kvc_mlir_pch.cpp" "// Owner of the compiler's precompiled header.\n")
add_library(kvc_mlir_pch OBJECT "${PROJECT_BINARY_DIR}/kvc_mlir_pch.cpp")
target_link_libraries(kvc_mlir_pch PRIVATE kvc_mlir)
kvc_compile_options(kvc_mlir_pch)
target_compile_options(kvc_mlir_pch PUBLIC "SHELL:-Xclang -fno-pch-timestamp")
target_include_directories(kvc_mlir_pch PRIVATE "${PROJECT_SOURCE_DIR}/cmake")
target_precompile_headers(kvc_mlir_pch PRIVATE <kvc_mlir_pch.h>)
set_target_properties(kvc_mlir_pch PROPERTIES CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/compile-pch.sh")

# kvc_use_compiler_pch(<target>): the precompiled header for a target of ours that links kvc_mlir.
function(kvc_use_compiler_pch target)
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  # Executables would get -fPIE, for which the header was not made.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM kvc_mlir_pch)
endfunction()

# kvc_compiler_library(<name> SOURCES ... [DEPENDS tablegen targets ...] [LINK libraries ...])
function(kvc_compiler_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC kvc_mlir ${ARG_LINK})
  kvc_compile_options(${name})
  kvc_use_compiler_pch(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()
