// Which operators a reference may use: those of `aten` that compute with tensors and numbers.
//
// The list is by signature, because `aten` has thousands of operators and a task may need any that
// computes: tensors, numbers, types and devices, lists and options of these may go in. What names a
// file, holds memory, an object or a function has another type, and is not in it. Text is one of
// those types, too: few operators that compute take it, and those are listed here.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace quern::env {

/// Operators of `aten` with an option or an equation as text.
inline constexpr std::array<std::string_view, 40> operators_with_text{"div",
                                                                      "div_",
                                                                      "divide",
                                                                      "divide_",
                                                                      "gelu",
                                                                      "einsum",
                                                                      "meshgrid",
                                                                      "scatter_reduce",
                                                                      "scatter_reduce_",
                                                                      "index_reduce",
                                                                      "index_reduce_",
                                                                      "segment_reduce",
                                                                      "searchsorted",
                                                                      "bucketize",
                                                                      "pad",
                                                                      "conv1d",
                                                                      "conv2d",
                                                                      "conv3d",
                                                                      "quantile",
                                                                      "nanquantile",
                                                                      "stft",
                                                                      "linalg_norm",
                                                                      "linalg_matrix_norm",
                                                                      "linalg_cond",
                                                                      "linalg_qr",
                                                                      "linalg_svd",
                                                                      "linalg_svdvals",
                                                                      "linalg_lstsq",
                                                                      "linalg_eigh",
                                                                      "linalg_eigvalsh",
                                                                      "norm",
                                                                      "nuclear_norm",
                                                                      "scatter",
                                                                      "scatter_",
                                                                      "fft_fft",
                                                                      "fft_ifft",
                                                                      "fft_rfft",
                                                                      "fft_irfft",
                                                                      "format",
                                                                      "cdist"};

/// Instructions of TorchScript itself that a reference is made of; all others (Python's objects,
/// printing, threads) are refused.
inline constexpr std::array<std::string_view, 38> script_instructions{"Constant",
                                                                      "If",
                                                                      "Loop",
                                                                      "ListConstruct",
                                                                      "ListUnpack",
                                                                      "TupleConstruct",
                                                                      "TupleUnpack",
                                                                      "TupleIndex",
                                                                      "TupleSlice",
                                                                      "DictConstruct",
                                                                      "Uninitialized",
                                                                      "RaiseException",
                                                                      "unchecked_cast",
                                                                      "unchecked_unwrap_optional",
                                                                      "CallFunction",
                                                                      "Return",
                                                                      "Param",
                                                                      "NumToTensor",
                                                                      "min",
                                                                      "max",
                                                                      "abs",
                                                                      "dtype",
                                                                      "device",
                                                                      "layout",
                                                                      "is_cuda",
                                                                      "is_cpu",
                                                                      "itemsize",
                                                                      "requires_grad",
                                                                      "shape",
                                                                      "numel",
                                                                      "Store",
                                                                      "Load",
                                                                      "Drop",
                                                                      "Enter",
                                                                      "Exit",
                                                                      "isinstance",
                                                                      "type",
                                                                      "AutogradZero"};

constexpr bool is_listed(auto const& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace quern::env
