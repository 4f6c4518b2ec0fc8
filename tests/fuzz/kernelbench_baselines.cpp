// Tables of times and names of files that people bring from KernelBench.
#include "tools/bench/kernelbench_baselines.hpp"

#include <cmath>

#include "fuzz.hpp"
#include "tools/bench/kernelbench_names.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  if (const auto named = tools::parse_kernelbench_name(text)) {
    const std::string again = fmt::format("level_{}_problem_{}_sample_{}_kernel.py", named->level,
                                          named->problem, named->sample);
    require(again == text, "a name that is read is the only one of its sample");
  }
  const auto found = tools::parse_kernelbench_baselines(text, "times");
  if (!found) {
    require(!found.error().message.empty(), "an error has a message");
    return;
  }
  require(found->mean_ms.size() <= tools::max_baselines, "entries are bounded");
  for (const auto& [place, mean] : found->mean_ms) {
    require(place.first >= 1 && !place.second.empty(), "an entry has a place");
    require(std::isfinite(mean) && mean > 0, "a time is above 0");
  }
  for (const char c : found->hardware_text())
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "hardware is printable");
}
