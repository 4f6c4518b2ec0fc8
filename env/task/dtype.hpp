// Element types of kernel arguments: their names in task files, sizes and C++ spellings.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace quern::env {

/// What a task is written for. A KernelBench file is a task of a third lane, `pytorch`, without a
/// task file of ours.
enum class lane { cpp, cuda };

enum class dtype { f32, f64, i32, i64, u8, bf16, f16 };

/// Bytes of one element.
std::size_t size_of(dtype type);

/// The word used in task files ("f32").
std::string_view name_of(dtype type);

/// The type as the kernel's prototype spells it ("float"; bf16 and f16 are CUDA's __nv_bfloat16 and
/// __half).
std::string_view cpp_name_of(dtype type);

bool is_floating(dtype type);

/// Whether kernels of this lane may have arguments of this type: bf16 and f16 need lane cuda.
bool allowed_in(dtype type, lane where);

std::optional<dtype> parse_dtype(std::string_view name);

std::string_view name_of(lane where);
std::optional<lane> parse_lane(std::string_view name);

}  // namespace quern::env
