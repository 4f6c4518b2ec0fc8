// What stands before a candidate of lane `cuda`, and which headers it may name: one place for the
// screen, both compilers and the prompt.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::env {

/// Headers that a candidate may include, `cuda_fp16.h`, `cuda/std/limits`, … With `library_calls`
/// also those of vendor libraries (cuBLAS, cuDNN, CUTLASS), as far as the toolkit has them. A name
/// that ends in '/' stands for all below it.
std::span<const std::string_view> cuda_headers();
std::span<const std::string_view> cuda_library_headers();
bool is_cuda_header(std::string_view name, bool library_calls);

/// Headers that NVRTC lacks, made up of what kernels take from them: fixed-width integers, limits,
/// min and max, a few traits. Name and text; nvcc has the host's own.
const std::vector<std::pair<std::string, std::string>>& nvrtc_headers();

/// Text before `source`, so that it compiles without any include: fixed-width integers,
/// cudaStream_t, and the half and bfloat16 types where the source or the prototype has such a word
/// (they take NVRTC as long as a whole small kernel). The candidate's first line is line 1 of
/// "kernel.cu".
std::string cuda_device_prelude(std::string_view source);
std::string cuda_host_prelude(std::string_view source, std::string_view prototype);

}  // namespace quern::env
