// The life of a sample, from its prompt to a gradient step, as a list of events in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "storage/sample_reader.hpp"

namespace quern::actors {

struct life_event {
  /// issued, generated, attempt, evaluated, admitted, consumed, trained, dropped, or returned: a
  /// new incarnation took it back to an earlier state.
  std::string name;
  base::nanoseconds_t t_ns = 0;  ///< since 1970; 0: not recorded
  std::int64_t incarnation = 0;
  std::string words;
};

/// In order. Steps and tokens of lives that an incarnation took back are not stored; the words say
/// so.
std::vector<life_event> life_of(const storage::sample_record& sample);

/// An event a line, with its time in UTC, under a line that says which sample it is.
std::string life_text(const storage::sample_record& sample);
base::ordered_json to_json(const std::vector<life_event>& life);
/// docs/formats/show.md.
base::ordered_json life_json(const storage::sample_record& sample);

}  // namespace quern::actors
