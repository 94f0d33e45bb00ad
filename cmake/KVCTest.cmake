# Helpers that register tests, so that every test program is counted case by case.
find_package(GTest REQUIRED)
include(GoogleTest)

# kvc_add_gtest(<name> [COMPILER] SOURCES ... [LINK libraries ...] LABELS labels ... [TIMEOUT seconds])
# A GoogleTest program whose cases are ctest tests. COMPILER: it includes MLIR and gets the compiler's precompiled
# header. Labels say which suites of utils/test run them:
#   unit, cts, differential    the suite of that name
#   asan, tsan                 also run in the sanitizer builds (presets dev and tsan)
# Targets kvc-asan-tests and kvc-tsan-tests build the programs with that label.
function(kvc_add_gtest name)
  cmake_parse_arguments(ARG "COMPILER" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES OR NOT ARG_LABELS)
    message(FATAL_ERROR "kvc_add_gtest(${name}): expects SOURCES and LABELS, but got ${ARGN}")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  kvc_compile_options(${name})
  if(ARG_COMPILER)
    target_link_libraries(${name} PRIVATE kvc_mlir)
    kvc_use_compiler_pch(${name})
  endif()
  foreach(sanitizer asan tsan)
    if(sanitizer IN_LIST ARG_LABELS)
      if(NOT TARGET kvc-${sanitizer}-tests)
        add_custom_target(kvc-${sanitizer}-tests)
      endif()
      add_dependencies(kvc-${sanitizer}-tests ${name})
    endif()
  endforeach()
  gtest_discover_tests(${name} TEST_PREFIX "${name}/" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # Labels are a list, which gtest_discover_tests would split: they are set after its discovery.
  set(labels_script "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_script}" "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${ARG_LABELS}\")
endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_script}")
endfunction()
