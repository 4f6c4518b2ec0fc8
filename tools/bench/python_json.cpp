#include "tools/bench/python_json.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace quern::tools {
namespace {

void write_value(const base::ordered_json& value, int indent, std::size_t level, std::string& out);

std::string quoted_ascii(const std::string& text) {
  return base::ordered_json(text).dump(-1, ' ', true, base::ordered_json::error_handler_t::replace);
}

void write_members(const base::ordered_json& value, int indent, std::size_t level,
                   std::string& out) {
  const auto line = [&](std::size_t depth) {
    out += '\n';
    out.append(depth * static_cast<std::size_t>(indent), ' ');
  };
  const bool object = value.is_object();
  out += object ? '{' : '[';
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    if (!first) out += ',';
    first = false;
    line(level + 1);
    if (object) out += quoted_ascii(key) + ": ";
    write_value(member, indent, level + 1, out);
  }
  if (!first) line(level);
  out += object ? '}' : ']';
}

void write_value(const base::ordered_json& value, int indent, std::size_t level, std::string& out) {
  if (value.is_structured()) return write_members(value, indent, level, out);
  if (value.is_number_float()) {
    out += python_float(value.get<double>());
  } else if (value.is_string()) {
    out += quoted_ascii(value.get_ref<const std::string&>());
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::array<char, 400> room{};
  const auto text_in = [&](std::chars_format format) {
    const auto end = std::to_chars(room.data(), room.data() + room.size(), value, format).ptr;
    return std::string(room.data(), end);
  };
  const std::string with_exponent = text_in(std::chars_format::scientific);
  const int exponent =
      value == 0 ? 0 : std::atoi(with_exponent.c_str() + with_exponent.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return with_exponent;
  std::string plain = text_in(std::chars_format::fixed);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

std::string python_json(const base::ordered_json& value, int indent) {
  std::string out;
  write_value(value, indent, 0, out);
  return out;
}

}  // namespace quern::tools
