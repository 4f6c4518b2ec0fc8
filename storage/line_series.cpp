#include "storage/line_series.hpp"

namespace quern::storage {
namespace {

void add_numbers(const base::ordered_json& object, const std::string& before,
                 std::vector<series_value>& found) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) add_numbers(value, before + key + "/", found);
    if (value.is_number()) found.push_back({before + key, value.get<double>()});
  }
}

}  // namespace

std::vector<series_value> numbers_of(const base::ordered_json& line) {
  std::vector<series_value> found;
  if (line.is_object()) add_numbers(line, "", found);
  return found;
}

}  // namespace quern::storage
