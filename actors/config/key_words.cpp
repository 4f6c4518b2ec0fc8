#include "actors/config/key_words.hpp"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"

namespace quern::actors {
namespace {

/// "2", or "\"a\"; in stage self_train \"b\"".
std::string default_words(const config_key& key) {
  const std::string usual = value_text(key, usual_config({}, {}));
  std::vector<std::string> said = {usual};
  const auto add_others = [&](const char* what, const std::string& name, const run_config& config) {
    const std::string value = value_text(key, config);
    if (key.path != what && value != usual)
      said.push_back(fmt::format("with {}: {} it is {}", what, name, value));
  };
  for (const config_key& one : config_keys()) {
    if (one.path == "stage")
      for (const std::string_view name : one.choices)
        add_others("stage", std::string(name), usual_config(std::string(name), {}));
    if (one.path == "algorithm.preset")
      for (const std::string_view name : one.choices)
        add_others("algorithm.preset", std::string(name), usual_config({}, std::string(name)));
  }
  return fmt::format("{}", fmt::join(said, "; "));
}

std::string change_words(const config_key& key) {
  return key.changes == key_class::fixed
             ? "never after the run has begun"
             : fmt::format("with quern resume RUN --set {}=VALUE", key.path);
}

std::string words_of(const config_key& key) {
  return fmt::format("{}: {}\n  default   {}\n  possible  {}\n  changes   {}\n", key.path, key.why,
                     default_words(key), range_text(key), change_words(key));
}

}  // namespace

base::expected<std::string> key_words(const std::string& path) {
  std::string text;
  for (const config_key& key : config_keys())
    if (key.path == path || key.path.starts_with(path + ".")) text += words_of(key);
  if (!text.empty()) return text;
  // Its error has the guess.
  run_config scratch;
  const auto unknown = apply_setting(scratch, path + "=");
  return unknown ? base::fail(base::errc::invalid_argument, "'{}' is no key", path)
                 : tl::make_unexpected(unknown.error());
}

}  // namespace quern::actors
