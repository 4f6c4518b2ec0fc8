// Configurations of runs: YAML.
#include "actors/config/config_file.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

// The reader alone: it never asks for the rules between keys, which look at hosts and devices.
base::status actors::check_config(const run_config&) {
  std::abort();
}

QUERN_FUZZ(text) {
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
