// Names of input distributions.
#include "env/tensor_task/distribution.hpp"

#include <array>
#include <cstddef>

namespace quern::env {

namespace {

constexpr std::array<std::string_view, distribution_count> names_by_distribution{
    "normal",   "uniform",  "large",    "sparse", "sorted",
    "constant", "denormal", "positive", "special"};

}  // namespace

std::string_view name_of(distribution kind) {
  return names_by_distribution[static_cast<std::size_t>(kind)];
}

std::optional<distribution> parse_distribution(std::string_view name) {
  for (std::size_t i = 0; i < names_by_distribution.size(); ++i) {
    if (names_by_distribution[i] == name) return static_cast<distribution>(i);
  }
  return std::nullopt;
}

bool has_integer_form(distribution kind) {
  return kind == distribution::uniform || kind == distribution::sparse ||
         kind == distribution::sorted || kind == distribution::constant;
}

}  // namespace quern::env
