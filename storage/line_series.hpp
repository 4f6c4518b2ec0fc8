// The numbers of a line of metrics.jsonl, as series.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"

namespace quern::storage {

struct series_value {
  std::string name;  ///< the keys that lead to it, with '/' between: "batch/verdicts/ok"
  double value = 0;
  bool operator==(const series_value&) const = default;
};

/// Every number of the line, in its order. What is no number, or stands in a list, is left out.
std::vector<series_value> numbers_of(const base::ordered_json& line);

}  // namespace quern::storage
