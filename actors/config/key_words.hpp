// What a configuration key is, for a person who asks for it by name.
#pragma once

#include <string>

#include "base/status.hpp"

namespace quern::actors {

/// Of a key: what it is, its default (with those of stages and presets that have another one), what
/// is possible, and when it may change. Of a group ("learner"): of each of its keys. Error:
/// invalid_argument, with the key that may be meant.
base::expected<std::string> key_words(const std::string& path);

}  // namespace quern::actors
