// Takes layers of a verdict away (env/judge/judge_layer.hpp), in this test program alone.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "env/judge/judge_layer.hpp"

namespace quern::test {

/// By its name; the test ends where there is none of that name.
env::judge_layer layer_named(std::string_view name);

/// As long as this object lives evaluators of the calling process judge without these layers. One
/// at a time.
class without_layers {
 public:
  without_layers(std::initializer_list<env::judge_layer> off)
      : without_layers(std::vector<env::judge_layer>(off)) {}
  explicit without_layers(const std::vector<env::judge_layer>& off);
  ~without_layers();
  without_layers(const without_layers&) = delete;
  without_layers& operator=(const without_layers&) = delete;
};

}  // namespace quern::test
