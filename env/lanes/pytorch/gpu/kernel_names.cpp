// Whose a kernel is, by its name. The names are those that profiles of CUDA 11 to 13 show.
#include "env/lanes/pytorch/gpu/kernel_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace quern::env {
namespace {

constexpr std::array<std::string_view, 7> kind_names{"own",   "cublas",   "cudnn", "other_library",
                                                     "torch", "compiled", "copy"};

constexpr auto starts_of_copy = std::to_array<std::string_view>({"Memcpy", "Memset"});
constexpr auto starts_of_torch = std::to_array<std::string_view>(
    {"at::", "at_cuda_detail::", "c10::", "torch::", "pytorch_flash::", "fmha_cutlass",
     "PyTorchMemEffAttention::"});
constexpr auto starts_of_inductor = std::to_array<std::string_view>(
    {"triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_mm", "triton_for_"});
constexpr auto starts_of_others =
    std::to_array<std::string_view>({"cufft", "regular_fft", "vector_fft", "regular_bluestein_fft",
                                     "cusparse", "cusolver", "nccl", "ncclDevKernel"});
constexpr auto parts_of_cudnn = std::to_array<std::string_view>(
    {"cudnn", "xmma_fprop", "xmma_dgrad", "xmma_wgrad", "implicit_convolve", "explicit_convolve",
     "precomputed_convolve", "convolve_common_engine"});
/// Of kernels of cuDNN without parameters in their names; others are words that anybody uses.
constexpr auto words_of_cudnn =
    std::to_array<std::string_view>({"winograd", "nchwToNhwc", "nhwcToNchw"});
constexpr auto parts_of_cublas = std::to_array<std::string_view>(
    {"cublas", "xmma_gemm", "cutlass::Kernel2<", "gemmSN_", "gemmk1_", "gemv2T", "gemv2N", "gemvx",
     "gemvNSP", "splitKreduce_kernel"});
/// Of kernels that cuBLAS names after a generation of GPUs, without parameters:
/// ampere_sgemm_128x64_tn. Those of C++ have parameters in their names.
constexpr auto generations = std::to_array<std::string_view>(
    {"maxwell_", "volta_", "turing_", "ampere_", "hopper_", "blackwell_", "sm80_", "sm86_", "sm89_",
     "sm90_", "sm100_", "nvjet_", "cutlass_75_", "cutlass_80_", "cutlass_90_"});

bool starts_with_any(std::string_view name, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts,
                             [&](std::string_view start) { return name.starts_with(start); });
}

bool has_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return name.find(part) != name.npos; });
}

/// Without the type that templates return.
std::string_view without_result(std::string_view name) {
  constexpr std::string_view nothing = "void ";
  if (name.starts_with(nothing)) name.remove_prefix(nothing.size());
  return name;
}

bool has_parameters(std::string_view name) {
  return name.find('(') != name.npos;
}

bool is_cudnn(std::string_view name) {
  return has_any(name, parts_of_cudnn) || (!has_parameters(name) && has_any(name, words_of_cudnn));
}

bool is_cublas(std::string_view name) {
  return has_any(name, parts_of_cublas) ||
         (!has_parameters(name) && starts_with_any(name, generations));
}

/// What a name says of types: of a kernel of somebody's own its template arguments and parameters.
std::string_view about_types(std::string_view name) {
  if (kind_of_kernel(name) != kernel_kind::own) return name;
  return name.substr(std::min(name.find_first_of("<("), name.size()));
}

/// Whether `part` stands there as a word: no letter before it; of a whole one nor one of
/// "_0123456789" before or behind it.
bool has_word(std::string_view name, std::string_view part, bool whole = false) {
  const auto joins = [&](std::size_t at) {
    if (at >= name.size()) return false;
    const auto c = static_cast<unsigned char>(name[at]);
    return std::isalpha(c) != 0 || (whole && (c == '_' || std::isdigit(c) != 0));
  };
  for (auto at = name.find(part); at != name.npos; at = name.find(part, at + 1))
    if (!(at > 0 && joins(at - 1)) && !(whole && joins(at + part.size()))) return true;
  return false;
}

bool shows_tf32(std::string_view name) {
  return name.find("tf32") != name.npos || has_word(name, "s1688");
}

bool shows_bf16(std::string_view name) {
  return name.find("bf16") != name.npos || name.find("BFloat16") != name.npos ||
         name.find("bfloat16") != name.npos || name.starts_with("nvjet_t");
}

bool shows_fp16(std::string_view name) {
  if (name.find("c10::Half") != name.npos || name.find("__half") != name.npos) return true;
  for (const std::string_view part : {"fp16", "f16", "hgemm", "h16816", "h1688", "h884", "half_t"})
    if (has_word(name, part)) return true;
  if (has_word(name, "half", true)) return true;
  return name.starts_with("nvjet_h");
}

bool shows_fp8(std::string_view name) {
  return name.find("e4m3") != name.npos || name.find("e5m2") != name.npos ||
         name.find("Float8") != name.npos || name.starts_with("nvjet_q");
}

}  // namespace

std::string_view name_of(kernel_kind kind) {
  return kind_names.at(static_cast<std::size_t>(kind));
}

kernel_kind kind_of_kernel(std::string_view name) {
  name = without_result(name);
  if (starts_with_any(name, starts_of_copy)) return kernel_kind::copy;
  if (starts_with_any(name, starts_of_torch)) return kernel_kind::torch;
  if (starts_with_any(name, starts_of_inductor)) return kernel_kind::compiled;
  if (is_cudnn(name)) return kernel_kind::cudnn;
  if (is_cublas(name)) return kernel_kind::cublas;
  if (starts_with_any(name, starts_of_others)) return kernel_kind::other_library;
  return kernel_kind::own;
}

std::vector<std::string> narrow_types_of(std::string_view name) {
  name = about_types(without_result(name));
  std::vector<std::string> types;
  if (shows_tf32(name)) types.emplace_back("tf32");
  if (shows_bf16(name)) types.emplace_back("bf16");
  if (shows_fp16(name)) types.emplace_back("fp16");
  if (shows_fp8(name)) types.emplace_back("fp8");
  return types;
}

}  // namespace quern::env
