// Element types of kernel arguments: their names in task files, sizes and C++ spellings.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace quern::env {

enum class dtype { f32, f64, i32, i64, u8, bf16, f16 };

/// Bytes of one element.
std::size_t size_of(dtype type);

/// The word used in task files ("f32").
std::string_view name_of(dtype type);

/// The type as the kernel's prototype spells it ("float"; bf16 and f16 are CUDA's __nv_bfloat16 and
/// __half).
std::string_view cpp_name_of(dtype type);

bool is_floating(dtype type);

std::optional<dtype> parse_dtype(std::string_view name);

/// For a value of `dtype` that is none of its names: throws std::logic_error with the value.
[[noreturn]] void unknown_dtype(dtype type);

}  // namespace quern::env
