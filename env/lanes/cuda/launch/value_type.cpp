// Properties of types and C++'s conversions between them.
#include "env/lanes/cuda/launch/value_type.hpp"

#include <array>
#include <utility>

namespace quern::env::plan {
namespace {

struct scalar_row {
  std::string_view name;
  int size;
  int rank;  // 0 for floating types
  bool with_sign;
};

constexpr std::array<scalar_row, 14> scalar_rows{{{"bool", 1, 1, false},
                                                  {"char", 1, 2, true},
                                                  {"signed char", 1, 2, true},
                                                  {"unsigned char", 1, 2, false},
                                                  {"short", 2, 3, true},
                                                  {"unsigned short", 2, 3, false},
                                                  {"int", 4, 4, true},
                                                  {"unsigned int", 4, 4, false},
                                                  {"long", 8, 5, true},
                                                  {"unsigned long", 8, 5, false},
                                                  {"long long", 8, 6, true},
                                                  {"unsigned long long", 8, 6, false},
                                                  {"float", 4, 0, true},
                                                  {"double", 8, 0, true}}};

const scalar_row& row_of_scalar(scalar type) {
  return scalar_rows[static_cast<std::size_t>(type)];
}

constexpr auto integer_names = std::to_array<std::pair<std::string_view, scalar>>({
    {"int8_t", scalar::signed_char},
    {"uint8_t", scalar::unsigned_char},
    {"int16_t", scalar::short_int},
    {"uint16_t", scalar::unsigned_short},
    {"int32_t", scalar::int_type},
    {"uint32_t", scalar::unsigned_int},
    {"int64_t", scalar::long_int},
    {"uint64_t", scalar::unsigned_long},
    {"size_t", scalar::unsigned_long},
    {"ptrdiff_t", scalar::long_int},
    {"intptr_t", scalar::long_int},
    {"uintptr_t", scalar::unsigned_long},
    {"uint", scalar::unsigned_int},
    {"ushort", scalar::unsigned_short},
    {"ulong", scalar::unsigned_long},
});

struct opaque_row {
  std::string_view name;
  std::string_view meant;
  std::uint32_t bytes;
};

constexpr auto opaque_names = std::to_array<opaque_row>({
    {"__half", "__half", 2},
    {"half", "__half", 2},
    {"__half2", "__half2", 4},
    {"half2", "__half2", 4},
    {"__nv_bfloat16", "__nv_bfloat16", 2},
    {"nv_bfloat16", "__nv_bfloat16", 2},
    {"__nv_bfloat162", "__nv_bfloat162", 4},
    {"nv_bfloat162", "__nv_bfloat162", 4},
    {"__nv_fp8_e4m3", "__nv_fp8_e4m3", 1},
    {"__nv_fp8_e5m2", "__nv_fp8_e5m2", 1},
});

// char1 ... double4: the element's name and one digit.
constexpr auto vector_elements = std::to_array<std::pair<std::string_view, std::uint32_t>>({
    {"char", 1},
    {"uchar", 1},
    {"short", 2},
    {"ushort", 2},
    {"int", 4},
    {"uint", 4},
    {"long", 8},
    {"ulong", 8},
    {"float", 4},
    {"longlong", 8},
    {"ulonglong", 8},
    {"double", 8},
});

value_type opaque_type(std::string_view name, std::uint32_t bytes) {
  value_type type;
  type.base = form::opaque;
  type.name = name;
  type.bytes = bytes;
  return type;
}

}  // namespace

std::string_view name_of(scalar type) {
  return row_of_scalar(type).name;
}

int size_of(scalar type) {
  return row_of_scalar(type).size;
}

bool is_signed(scalar type) {
  return row_of_scalar(type).with_sign;
}

bool is_floating(scalar type) {
  return row_of_scalar(type).rank == 0;
}

scalar promoted(scalar type) {
  return !is_floating(type) && row_of_scalar(type).rank < 4 ? scalar::int_type : type;
}

scalar common_of(scalar left, scalar right) {
  if (left == scalar::double_type || right == scalar::double_type) return scalar::double_type;
  if (left == scalar::float_type || right == scalar::float_type) return scalar::float_type;
  const scalar a = promoted(left);
  const scalar b = promoted(right);
  if (is_signed(a) == is_signed(b)) return row_of_scalar(a).rank >= row_of_scalar(b).rank ? a : b;
  const scalar without_sign = is_signed(a) ? b : a;
  const scalar with_sign = is_signed(a) ? a : b;
  if (row_of_scalar(without_sign).rank >= row_of_scalar(with_sign).rank) return without_sign;
  if (size_of(with_sign) > size_of(without_sign)) return with_sign;
  // long long and unsigned long: the unsigned type of the signed one's rank.
  return with_sign == scalar::long_long ? scalar::unsigned_long_long : scalar::unsigned_long;
}

value_type number_of(scalar type) {
  value_type made;
  made.base = form::number;
  made.number = type;
  return made;
}

value_type plain(form base) {
  value_type made;
  made.base = base;
  return made;
}

value_type pointer_to(value_type pointee) {
  ++pointee.stars;
  return pointee;
}

value_type pointee_of(value_type pointer) {
  --pointer.stars;
  return pointer;
}

std::string spelling(const value_type& type) {
  std::string text = type.constant ? "const " : "";
  switch (type.base) {
    case form::nothing:
      text += "void";
      break;
    case form::number:
      text += name_of(type.number);
      break;
    case form::opaque:
      text += type.name;
      break;
    case form::dim3:
      text += "dim3";
      break;
    case form::stream:
      text += "cudaStream_t";
      break;
    case form::arguments:
      text += "void*[]";
      break;
    case form::null:
      text += "nullptr_t";
      break;
  }
  return text + std::string(static_cast<std::size_t>(type.stars), '*');
}

std::uint32_t size_of(const value_type& type) {
  if (type.stars > 0) return 8;
  if (type.base == form::number) return static_cast<std::uint32_t>(size_of(type.number));
  if (type.base == form::dim3) return 12;
  return type.base == form::opaque ? type.bytes : 0;
}

bool same_base(const value_type& left, const value_type& right) {
  return left.base == right.base && left.stars == right.stars &&
         (left.base != form::number || left.number == right.number) && left.name == right.name;
}

bool same(const value_type& left, const value_type& right) {
  return same_base(left, right) && left.constant == right.constant;
}

bool pointer_converts(const value_type& from, const value_type& to) {
  if (!to.is_pointer()) return false;
  if (from.is(form::null)) return true;
  if (!from.is_pointer()) return false;
  if (to.base == form::nothing && to.stars == 1) {
    return from.stars > 1 || to.constant || !from.constant;
  }
  if (!same_base(from, to)) return false;
  return from.constant == to.constant || (to.constant && to.stars == 1);
}

std::optional<value_type> known_type(std::string_view name) {
  if (name == "dim3") return plain(form::dim3);
  if (name == "cudaStream_t") return plain(form::stream);
  for (const auto& [written, type] : integer_names)
    if (written == name) return number_of(type);
  for (const opaque_row& one : opaque_names)
    if (one.name == name) return opaque_type(one.meant, one.bytes);
  if (name.size() > 3 && name.back() >= '1' && name.back() <= '4') {
    for (const auto& [element, bytes] : vector_elements)
      if (name.substr(0, name.size() - 1) == element)
        return opaque_type(name, bytes * static_cast<std::uint32_t>(name.back() - '0'));
  }
  return std::nullopt;
}

value_type type_of(dtype type) {
  switch (type) {
    case dtype::f32:
      return number_of(scalar::float_type);
    case dtype::f64:
      return number_of(scalar::double_type);
    default:
      return *known_type(cpp_name_of(type));
  }
}

bool same_representation(const value_type& left, const value_type& right) {
  if (left.stars != right.stars) return false;
  if (left.base != form::number || right.base != form::number) return same_base(left, right);
  return size_of(left.number) == size_of(right.number) &&
         is_signed(left.number) == is_signed(right.number) &&
         is_floating(left.number) == is_floating(right.number) &&
         (left.number == scalar::boolean) == (right.number == scalar::boolean);
}

}  // namespace quern::env::plan
