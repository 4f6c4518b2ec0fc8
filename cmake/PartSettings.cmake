# How the libraries that are loaded at run time are compiled, as a text of which their builds are hashes (PartBuilds.cmake).
# Options of the targets are not in it: their CMakeLists.txt is hashed as a source.
include_guard()

# quern_part_settings(TO_CUDA TO_ATEN): of libquern_cuda.so and of libquern_aten_cuda.so. No path of this checkout is in it.
function(quern_part_settings to_cuda to_aten)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  # nvcc has the C++ compiler compile what is the host's.
  string(JOIN " | " host "${CMAKE_CXX_COMPILER_ID}" "${CMAKE_CXX_COMPILER_VERSION}" "${CMAKE_BUILD_TYPE}"
    "${CMAKE_CXX_FLAGS}" "${CMAKE_CXX_FLAGS_${type}}" "sanitised: ${QUERN_SANITIZE}")
  string(JOIN " | " device "${CMAKE_CUDA_COMPILER_VERSION}" "${QUERN_CUDA_ARCHITECTURES}" "${CMAKE_CUDA_FLAGS}"
    "${CMAKE_CUDA_FLAGS_${type}}")
  set(${to_cuda} "${host} | ${device}" PARENT_SCOPE)
  # graph_part.cpp sees the headers of CUDA and of LibTorch.
  set(${to_aten} "${host} | ${CMAKE_CUDA_COMPILER_VERSION} | LibTorch ${QUERN_TORCH_VERSION}" PARENT_SCOPE)
endfunction()
