// Names and sizes of element types.
#include "env/tensor_task/dtype.hpp"

#include <array>
#include <stdexcept>

#include <fmt/core.h>

namespace quern::env {

namespace {

struct row {
  dtype type;
  std::string_view name;
  std::string_view cpp_name;
  std::size_t size;
  bool floating;
};

constexpr std::array<row, 7> rows{{
    {dtype::f32, "f32", "float", 4, true},
    {dtype::f64, "f64", "double", 8, true},
    {dtype::i32, "i32", "int32_t", 4, false},
    {dtype::i64, "i64", "int64_t", 8, false},
    {dtype::u8, "u8", "uint8_t", 1, false},
    {dtype::bf16, "bf16", "__nv_bfloat16", 2, true},
    {dtype::f16, "f16", "__half", 2, true},
}};

const row& row_of(dtype type) {
  const auto at = static_cast<std::size_t>(type);
  if (at >= rows.size()) unknown_dtype(type);
  return rows[at];
}

}  // namespace

std::size_t size_of(dtype type) {
  return row_of(type).size;
}

std::string_view name_of(dtype type) {
  return row_of(type).name;
}

std::string_view cpp_name_of(dtype type) {
  return row_of(type).cpp_name;
}

bool is_floating(dtype type) {
  return row_of(type).floating;
}

std::optional<dtype> parse_dtype(std::string_view name) {
  for (const row& one : rows) {
    if (one.name == name) return one.type;
  }
  return std::nullopt;
}

void unknown_dtype(dtype type) {
  throw std::logic_error(
      fmt::format("element type number {}, but there are {}: rows of env/tensor_task/dtype.cpp",
                  static_cast<int>(type), rows.size()));
}

}  // namespace quern::env
