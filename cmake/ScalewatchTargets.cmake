# How every target of the project is built: strict warnings, ccache where present, sanitizers by option.

find_program(SCALEWATCH_CCACHE ccache)
if(SCALEWATCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the source tree and no directory in the hash: build folders and clones share one cache.
  set(SCALEWATCH_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${SCALEWATCH_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${SCALEWATCH_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SCALEWATCH_LAUNCHER})
endif()

if(SCALEWATCH_SANITIZE)
  # Little optimisation, for the time to compile: with -O1 the checks of undefined behaviour take GCC two and a half times as long
  # as without any.
  add_compile_options(-fsanitize=${SCALEWATCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${SCALEWATCH_SANITIZE})
  if(SCALEWATCH_SANITIZE MATCHES thread)
    add_compile_options(-O1 -Wno-tsan)  # Asio's fences around handlers, which GCC's thread sanitizer does not model
  else()
    add_compile_options(-O0)
  endif()
endif()

# Applies the project's warnings and include root (the source tree) to a hand-written target.
# -Wrestrict is off for GCC 12, which sees overlaps in std::string's operator+ that are not there (GCC bug 105651).
function(scalewatch_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
                                           $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wno-psabi>
                                           $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
                                           -Werror)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
endfunction()

# For libraries that make and drop structures of some hundred bytes all the time: GCC clears those by `rep stos`, whose start
# alone costs more than memset takes for all of it.
function(scalewatch_clear_by_memset target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-mmemset-strategy=libcall:-1:noalign>)
  endif()
endfunction()

# A static library of one room: scalewatch_library(name SOURCES ... LIBS ...).
function(scalewatch_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LIBS})
  scalewatch_target(${name})
endfunction()

# What a test's process is told about sanitizers.
set(SCALEWATCH_TEST_ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")

# A GoogleTest executable whose cases ctest sees one by one: scalewatch_test(name SOURCES ... LIBS ... [LABEL unit]).
function(scalewatch_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest_main)
  scalewatch_target(${name})
  target_compile_definitions(${name} PRIVATE SCALEWATCH_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  include(GoogleTest)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${arg_LABEL} TIMEOUT 300
                       ENVIRONMENT "${SCALEWATCH_TEST_ENVIRONMENT}")
endfunction()
