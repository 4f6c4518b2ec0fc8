// Keys of a configuration that an earlier version of the format called otherwise. One table: what
// refuses an earlier name in a person's file, what reads the files that earlier runs keep, and
// `quern config upgrade` follow from it. Includes yaml-cpp: for .cpp files of this folder only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/status.hpp"

namespace quern::actors {

struct renamed_key {
  std::string_view before;
  std::string_view now;
};

std::span<const renamed_key> renamed_keys();

/// The present name of a key that was renamed; empty: it was not.
std::string_view present_name(std::string_view before);

/// A key of a file that is called otherwise now.
struct earlier_name {
  int line = 0;            ///< from 1
  std::size_t column = 0;  ///< of its last part, from 0, in bytes
  std::string before;
  std::string_view now;
};

/// Those of a file in their order, in the entries of `stages`, too.
std::vector<earlier_name> earlier_names(const YAML::Node& root);

/// Whether a person's file has the present version and names. Errors: `version`, with the line, and
/// all earlier names with their lines and what they are called now.
base::status check_names(const YAML::Node& root);

/// Whether a file that a run keeps has a version that this build reads; whether that is an earlier
/// one, whose names count as the present ones. Error: `version`.
base::expected<bool> has_earlier_names(const YAML::Node& root);

}  // namespace quern::actors
