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

/// "observe" and "panel_seed" of "observe.panel_seed".
std::string_view group_of_key(std::string_view path);
std::string_view last_part(std::string_view path);

/// A key of a file that is called otherwise now.
struct earlier_name {
  int line = 0;            ///< from 1
  std::size_t column = 0;  ///< of its last part, from 0, in bytes
  std::string before;
  std::string_view now;
  std::string value;   ///< as YAML reads it; empty where it is no short text of one line
  bool twice = false;  ///< the present name stands beside it, in its own group
};

/// Whether it belongs into another group now: no change of its line alone makes it the present one.
bool moves(const earlier_name& key);

/// "algorithm.max_attempts is called env.max_attempts now, in another group: by hand, take
/// `max_attempts: 7` out of `algorithm` and write it into `env`", for a key that moves.
std::string words_for_move(const earlier_name& key);

/// Those of a file in their order, in the entries of `stages`, too.
std::vector<earlier_name> earlier_names(const YAML::Node& root);

/// Whether a person's file has the present version and names. Errors: `version`, with the line, and
/// all earlier names with their lines and what they are called now. `quern config upgrade` is named
/// for those that it writes; for one that moves, what to do by hand.
base::status check_names(const YAML::Node& root);

/// Whether a file that a run keeps has a version that this build reads; whether that is an earlier
/// one, whose names count as the present ones. Error: `version`.
base::expected<bool> has_earlier_names(const YAML::Node& root);

}  // namespace quern::actors
