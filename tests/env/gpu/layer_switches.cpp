// Layers that can be turned off: in test programs alone, which link this in the place of
// env/gpu/layers_on.cpp. A runner of tests has the names of the layers that it lacks in its own:
// "quern-runner-without-seal-files".
#include "layer_switches.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include "env/judge/judge_layer.hpp"

namespace quern::test {
namespace {

std::array<bool, layer_count> off{};

bool named(const char* layer) {
  const char* at = std::strstr(program_invocation_short_name, "-without-");
  return at != nullptr && std::strstr(at, layer) != nullptr;
}

}  // namespace

void turn(env::check_layer which, bool on) {
  off[static_cast<std::size_t>(which)] = !on;
}

}  // namespace quern::test

namespace quern::env {

bool is_on(check_layer which) {
  const auto i = static_cast<std::size_t>(which);
  return !test::off[i] && !test::named(check_layer_names[i]);
}

// In the place of the library's, which is weak. Links to runners are of both lanes.
bool judges_with(judge_layer which) {
  return which != judge_layer::messages || is_on(check_layer::messages);
}

}  // namespace quern::env
