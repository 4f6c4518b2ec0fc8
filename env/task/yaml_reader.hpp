// Strict reading of YAML maps: unknown and doubled keys, wrong kinds and numbers that do not fit
// are errors that say where. Includes yaml-cpp: for .cpp files of env only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/status.hpp"

namespace quern::env {

/// Loads one YAML document of at most `limit` bytes, without aliases; an error names line and
/// column. `what` is the kind of file, for messages.
base::expected<YAML::Node> load_yaml(std::string_view what, std::string_view text,
                                     std::size_t limit);

/// Calls `body` and turns whatever yaml-cpp throws inside into an error.
base::status guard_yaml(std::string_view what, const std::function<base::status()>& body);

/// Reads the keys of one map. `where` names the map in messages.
class yaml_map {
 public:
  /// Refuses what is not a map, keys outside of `known` (with the nearest known one) and doubled
  /// keys. An empty `known` admits any key.
  static base::expected<yaml_map> open(const YAML::Node& node, std::string where,
                                       std::span<const std::string_view> known);

  bool has(std::string_view key) const;
  const std::string& where() const { return where_; }

  /// Keys in file order.
  std::vector<std::string> keys() const;

  /// The value, or an error that the key is missing.
  base::expected<YAML::Node> node(std::string_view key) const;
  base::expected<std::string> text(std::string_view key) const;
  base::expected<std::int64_t> integer(std::string_view key) const;
  base::expected<double> number(std::string_view key) const;
  base::expected<bool> boolean(std::string_view key) const;

  /// Scalars of a list.
  base::expected<std::vector<std::string>> texts(std::string_view key) const;

  /// Elements of a list.
  base::expected<std::vector<YAML::Node>> list(std::string_view key) const;

 private:
  struct entry {
    std::string key;
    YAML::Node value;
  };
  std::string where_;
  std::vector<entry> entries_;
};

/// Error for the word `found` that is not of the closed list `known`, with the nearest that is.
tl::unexpected<base::error> not_of(const yaml_map& map, std::string_view key,
                                   std::string_view found, std::span<const std::string_view> known);

/// Refuses a version other than `known`, saying what was found and what to do. `key` is like
/// "quern_task".
base::status check_version(const yaml_map& map, std::string_view key, std::int64_t known);

}  // namespace quern::env
