// The table of configuration keys: for each its place in run_config, range, class and reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/config/run_config.hpp"

namespace quern::actors {

/// When a key may change: never in a run; with a resume.
enum class key_class { fixed, resume };

std::string_view to_string(key_class value);

/// One key. `low`/`high` bound numbers, `choices` text (empty: any text).
struct config_key {
  std::string path;  ///< "learner.learning_rate"
  key_class changes = key_class::fixed;
  double low = 0;
  double high = 0;
  std::vector<std::string_view> choices;
  std::string_view why;
  /// Where the value lives in a given configuration.
  std::function<std::variant<bool*, std::int64_t*, double*, std::string*>(run_config&)> at;
};

/// Every key, in the order of the file. Built once; thread-safe.
const std::vector<config_key>& config_keys();

}  // namespace quern::actors
