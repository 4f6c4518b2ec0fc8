// Whose a kernel is, and in which types it computes, by its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::env {

/// Whose a kernel is. Names of libraries are not a candidate's to choose, so what no rule knows is
/// its own: a library that the rules do not know counts as its own, too.
enum class kernel_kind {
  own,            ///< none of the following
  cublas,         ///< cuBLAS and cuBLASLt
  cudnn,          ///< cuDNN
  other_library,  ///< cuFFT, cuSPARSE, cuSOLVER, NCCL
  torch,          ///< PyTorch's own
  compiled,       ///< made by TorchInductor
  copy            ///< copies and fills by the driver
};

/// "own", "cublas", "cudnn", "other_library", "torch", "compiled", "copy".
std::string_view name_of(kernel_kind kind);

/// `name`: demangled, as CUPTI tells it.
kernel_kind kind_of_kernel(std::string_view name);

/// Whether it belongs to a vendor's library, which a suite may forbid.
constexpr bool is_vendors(kernel_kind kind) {
  return kind == kernel_kind::cublas || kind == kernel_kind::cudnn ||
         kind == kernel_kind::other_library;
}

/// Types narrower than f32 that the name shows: tf32, bf16, fp16, fp8; in this order, each once.
/// Libraries name the types that they compute in. Other kernels show those of their template
/// arguments alone, so that an empty list says nothing of a kernel of the candidate's own.
std::vector<std::string> narrow_types_of(std::string_view name);

}  // namespace quern::env
