// JSON in the bytes that Python's json.dump writes, for files that are compared with its own.
#pragma once

#include <string>

#include "base/json.hpp"

namespace quern::tools {

/// The text of json.dumps(value, indent=indent): ASCII alone, numbers as repr() has them, NaN and
/// Infinity by name, no line end behind the last bracket. Bytes that are not UTF-8 become U+FFFD.
/// indent >= 1.
std::string python_json(const base::ordered_json& value, int indent);

/// repr() of a Python float: the shortest digits that are read back as the same number.
std::string python_float(double value);

}  // namespace quern::tools
