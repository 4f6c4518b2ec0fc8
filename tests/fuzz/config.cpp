// Configurations of runs: YAML, of this version and the one before.
#include "actors/config/config_file.hpp"
#include "actors/config/config_upgrade.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

// The reader alone: it never asks for the rules between keys, which look at hosts and devices.
base::status actors::check_config(const run_config&) {
  std::abort();
}

QUERN_FUZZ(text) {
  if (const auto upgraded = actors::upgrade_config(text)) {
    const auto twice = actors::upgrade_config(upgraded->text);
    require(twice.has_value(), "what was upgraded can be upgraded");
    require(twice->changes.empty() && twice->text == upgraded->text, "and has nothing to change");
  }
  actors::run_config config;
  if (const auto read = actors::apply_yaml(config, text); !read) {
    require(!read.error().message.empty(), "an error has a message");
    return;
  }
  actors::run_config again;
  require(actors::apply_yaml(again, actors::to_yaml(config)).has_value(),
          "what was read can be written");
  require(actors::differences(config, again).empty(), "what was written is read the same");
}
