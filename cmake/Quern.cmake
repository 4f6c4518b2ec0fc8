# How Quern's targets are made: compiler settings, third-party targets, and quern_library / quern_program / quern_test.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Sanitised code is compiled for its reports, not for its speed. -O0 would save a third of its compile time, and the
# tests that parse or simulate much would take that and more.
if(QUERN_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEV "-O1")
else()
  set(CMAKE_CXX_FLAGS_DEV "-O2")
endif()
# As in development: -O3 everywhere draws false warnings from g++ 12, and what needs it asks for it.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

# Most of a clean build is the parsing of headers that all files share: batches share one parse. Names in anonymous
# namespaces are therefore unique in their library, not only in their file.
option(QUERN_UNITY "Compile several files of a target at once; OFF rebuilds a single file sooner" ON)
set(CMAKE_UNITY_BUILD ${QUERN_UNITY})
include(QuernUnity)

# Paths below the checkout are relative for ccache, so that what one checkout compiled serves the others.
find_program(QUERN_CCACHE ccache)
if(QUERN_CCACHE)
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "${QUERN_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${launcher}")
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(doctest REQUIRED)
find_package(CLI11 REQUIRED)
find_package(CAF 0.17.6 EXACT REQUIRED)
find_package(PkgConfig REQUIRED)
foreach(name libxxhash libzstd libseccomp libzmq sqlite3 libutf8proc cpp-httplib)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${name})
endforeach()
if(QUERN_TORCH)
  include(QuernTorch)
endif()

add_library(quern_settings INTERFACE)
target_include_directories(quern_settings INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(quern_settings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
# Keeps build paths out of binaries: those of the checkout and, as ccache writes them, those from the build folder.
file(RELATIVE_PATH to_sources "${CMAKE_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
set(QUERN_PREFIX_MAPS "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${to_sources}=")
target_compile_options(quern_settings INTERFACE ${QUERN_PREFIX_MAPS})
if(QUERN_SANITIZE)
  # Warnings are errors in the other builds; instrumented code draws false ones from this compiler.
  target_compile_options(quern_settings INTERFACE -Wno-error)
  target_compile_options(quern_settings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  # Checks at each pointer and member call, a quarter of the compile time. AddressSanitizer sees the null pointers and
  # the objects overrun; wrong dynamic types and misaligned accesses go unseen.
  target_compile_options(quern_settings INTERFACE -fno-sanitize=null,vptr,alignment,object-size)
  target_link_options(quern_settings INTERFACE -fsanitize=address,undefined)
endif()

function(quern_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC quern_settings ${arg_DEPS})
endfunction()

function(quern_program name)
  cmake_parse_arguments(arg "NO_INSTALL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE quern_settings ${arg_DEPS})
  if(NOT arg_NO_INSTALL)
    install(TARGETS ${name} DESTINATION bin)
  endif()
endfunction()

add_custom_target(quern_all_tests)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/cases")

# A doctest executable and its ctest entry. NO_SANITIZER: its children live under a sandbox or are killed, or it
# compiles kernels by the hundred; a sanitised build leaves it out. OPTIMISED: tools/test runs it in build/dev, too, where
# others that a sanitised build has are not. ALONE: it needs a verdict of a clock, so nothing runs beside it; so do tests
# with the label gpu. FLAVOUR names the heavy header that its files may see: plain, caf or torch.
function(quern_test name)
  cmake_parse_arguments(arg "MUST_FAIL;NO_SANITIZER;OPTIMISED;ALONE" "FLAVOUR;TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT QUERN_TESTS)
    return()
  endif()
  if(NOT arg_FLAVOUR)
    set(arg_FLAVOUR plain)
  endif()
  # Against hangs alone: a busy machine is three times slower than a quiet one. What takes above 200 s has its own.
  set(cost 300)
  if(arg_TIMEOUT)
    set(cost ${arg_TIMEOUT})
  else()
    set(arg_TIMEOUT 900)
  endif()
  if(arg_FLAVOUR STREQUAL "torch" AND NOT QUERN_TORCH)
    return()
  endif()
  if(QUERN_SANITIZE AND (arg_NO_SANITIZER OR arg_FLAVOUR STREQUAL "caf"))
    return()
  endif()
  if(NOT TARGET quern_test_main)
    add_library(quern_test_main STATIC "${PROJECT_SOURCE_DIR}/tests/support/main.cpp"
      "${PROJECT_SOURCE_DIR}/tests/support/source_dir.cpp")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/source_dir.cpp" TARGET_DIRECTORY quern_test_main
      PROPERTIES COMPILE_DEFINITIONS "QUERN_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
    target_include_directories(quern_test_main PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    target_link_libraries(quern_test_main PUBLIC quern_settings doctest::doctest)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE quern_settings quern_test_main quern_base ${arg_DEPS})
  if(arg_FLAVOUR STREQUAL "torch")
    target_compile_definitions(${name} PRIVATE QUERN_TEST_TORCH)
    target_link_libraries(${name} PRIVATE quern::torch)
  elseif(arg_FLAVOUR STREQUAL "caf")
    target_link_libraries(${name} PRIVATE quern::caf)
  endif()
  add_dependencies(quern_all_tests ${name})
  set_target_properties(${name} PROPERTIES QUERN_TEST ON QUERN_OPTIMISED ${arg_OPTIMISED})
  add_test(NAME ${name} COMMAND ${name})
  # Tests run side by side: threads that spin while they wait would take each other's cores (tools/quern.cpp).
  set(environment "OMP_WAIT_POLICY=passive")
  if(NOT arg_MUST_FAIL)
    # Where the program says what became of each case (tests/support/main.cpp); tools/count_cases adds them up.
    list(APPEND environment "QUERN_TEST_CASES=${CMAKE_BINARY_DIR}/cases/${name}")
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
  # The long ones start first, so that none of them is alone at the end.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${cost} LABELS "${arg_FLAVOUR};${arg_LABELS}")
  # With sanitisers no time counts.
  if((arg_ALONE OR "gpu" IN_LIST arg_LABELS) AND NOT QUERN_SANITIZE)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
  if(arg_MUST_FAIL)
    set_tests_properties(${name} PROPERTIES WILL_FAIL TRUE)
  endif()
endfunction()

# Programs and libraries that a test starts or loads are built before it; those that this build leaves out are not.
function(quern_test_needs name)
  foreach(needed ${ARGN})
    if(TARGET ${name} AND TARGET ${needed})
      add_dependencies(${name} ${needed})
    endif()
  endforeach()
endfunction()

# Once all targets are there: they are compiled in batches, and quern_programs builds all but the tests. Test programs
# stand in test_programs.txt, for tools/test.
function(quern_finish_targets)
  quern_targets(targets "${PROJECT_SOURCE_DIR}")
  add_custom_target(quern_programs)
  set(tests "")
  foreach(target ${targets})
    quern_batch_target(${target})
    get_target_property(is_test ${target} QUERN_TEST)
    if(is_test)
      get_target_property(optimised ${target} QUERN_OPTIMISED)
      string(APPEND tests "${target}$<$<BOOL:${optimised}>: optimised>\n")
    else()
      add_dependencies(quern_programs ${target})
    endif()
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/test_programs.txt" CONTENT "${tests}")
endfunction()
