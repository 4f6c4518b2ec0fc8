# LibTorch from a Python environment's torch wheel; find_package(Torch) would insist on a full CUDA. Defines quern::torch.
set(QUERN_TORCH_DIR "" CACHE PATH "Folder `torch` of a wheel of torch 2.11.0; empty: .venv, then python3's own")
if(NOT QUERN_TORCH_DIR)
  file(GLOB candidates "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  if(NOT candidates)
    execute_process(
      COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE candidates OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(candidates)
    list(GET candidates 0 first)
    set(QUERN_TORCH_DIR "${first}" CACHE PATH "" FORCE)
  endif()
endif()
if(NOT EXISTS "${QUERN_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found (looked in '${QUERN_TORCH_DIR}'): run tools/setup.sh, give -DQUERN_TORCH_DIR=..., or build without it with -DQUERN_TORCH=OFF")
endif()
file(STRINGS "${QUERN_TORCH_DIR}/version.py" version_line REGEX "^__version__")
if(NOT version_line MATCHES "2\\.11\\.")
  message(FATAL_ERROR "LibTorch 2.11 is needed, ${QUERN_TORCH_DIR} has ${version_line}: run tools/setup.sh")
endif()
string(REGEX MATCH "[0-9][^'\"]*" QUERN_TORCH_VERSION "${version_line}")

add_library(quern::torch INTERFACE IMPORTED GLOBAL)
# -idirafter: torch ships its own fmt, which must not shadow the system's.
foreach(folder include include/torch/csrc/api/include)
  target_compile_options(quern::torch INTERFACE "SHELL:-idirafter ${QUERN_TORCH_DIR}/${folder}")
endforeach()
target_link_libraries(quern::torch INTERFACE
  "${QUERN_TORCH_DIR}/lib/libtorch_cpu.so" "${QUERN_TORCH_DIR}/lib/libc10.so")
target_link_options(quern::torch INTERFACE "-Wl,--allow-shlib-undefined" "-Wl,-rpath,${QUERN_TORCH_DIR}/lib")
