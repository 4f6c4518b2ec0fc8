# The builds of what is loaded at run time: libquern_cuda.so, libquern_aten_cuda.so and compiled_reference.py. Each carries a
# hash of what it is made of; programs that load one carry the hash that it must have (env/device/part_build.hpp).
#
# Included: quern_part_builds() makes the target quern_part_builds, which writes part_builds.h. Run as a script (-P): writes it.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  include_guard()
  include(PartSettings)
  function(quern_part_builds)
    file(GLOB cuda CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/env/device/*.cu" "${PROJECT_SOURCE_DIR}/env/device/*.cuh"
      "${PROJECT_SOURCE_DIR}/env/device/*.h")
    foreach(name content.hpp driver.hpp window_state.hpp CMakeLists.txt)
      list(APPEND cuda "${PROJECT_SOURCE_DIR}/env/device/${name}")
    endforeach()
    foreach(name graph_part.cpp graph_part.h CMakeLists.txt)
      list(APPEND aten "${PROJECT_SOURCE_DIR}/env/reference/${name}")
    endforeach()
    set(python "${PROJECT_SOURCE_DIR}/env/reference/compiled_reference.py")
    set(folder "${CMAKE_BINARY_DIR}/part_builds/env/device")
    quern_part_settings(how_cuda how_aten)
    set(script "${PROJECT_SOURCE_DIR}/cmake/PartBuilds.cmake")
    add_custom_command(OUTPUT "${folder}/part_builds.h" "${folder}/compiled_reference_text.h"
      COMMAND "${CMAKE_COMMAND}" "-DCUDA=${cuda}" "-DATEN=${aten}" "-DPYTHON=${python}" "-DHOW_CUDA=${how_cuda}"
        "-DHOW_ATEN=${how_aten}" "-DTO=${folder}" -P "${script}"
      DEPENDS ${cuda} ${aten} ${python} "${script}" VERBATIM)
    add_custom_target(quern_part_builds DEPENDS "${folder}/part_builds.h")
  endfunction()

  # TARGET sees part_builds.h, which is there before it is compiled.
  function(quern_knows_part_builds target)
    target_include_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/part_builds")
    add_dependencies(${target} quern_part_builds)
  endfunction()
  return()
endif()

# hash_of(TO TEXT FILES...): of the text and, file by file, of names and contents.
function(hash_of to text)
  set(all "${text}")
  foreach(path ${ARGN})
    file(SHA256 "${path}" content)
    get_filename_component(name "${path}" NAME)
    string(APPEND all "\n${name} ${content}")
  endforeach()
  string(SHA256 hash "${all}")
  string(SUBSTRING "${hash}" 0 16 hash)
  set(${to} "${hash}" PARENT_SCOPE)
endfunction()
hash_of(cuda "${HOW_CUDA}" ${CUDA})
hash_of(aten "${HOW_ATEN}" ${ATEN})
file(WRITE "${TO}/part_builds.h" "// Made by cmake/PartBuilds.cmake.\n#define QUERN_CUDA_PART_BUILD \"${cuda}\"\n"
  "#define QUERN_ATEN_PART_BUILD \"${aten}\"\n")
# Whole: whoever starts the file compares it with this.
file(READ "${PYTHON}" text)
file(WRITE "${TO}/compiled_reference_text.h" "R\"quern_text(${text})quern_text\"\n")
