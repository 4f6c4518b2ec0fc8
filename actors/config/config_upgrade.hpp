// `quern config upgrade`: a person's file of an earlier version of the format becomes one of this
// build.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

/// A person's file with the version and names of this build.
struct upgraded_config {
  std::string text;
  std::vector<std::string> changes;  ///< "line 14: observe.x is called observe.y"; empty: none
};

/// Changes the version and the names, and leaves every other byte as it is. Errors: no YAML;
/// another version; a key that belongs into another group now, with its line and what to do.
base::expected<upgraded_config> upgrade_config(std::string_view text);

}  // namespace quern::actors
