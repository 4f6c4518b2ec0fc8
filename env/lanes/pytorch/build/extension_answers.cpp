// What processes that ran a candidate's text say of its extensions: bounded, and believed in
// nothing.
#include <algorithm>
#include <array>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_requests = 16;

constexpr std::array<std::pair<std::string_view, extension_recording::end>, 4> end_words{
    {{"imported", extension_recording::end::imported},
     {"constructed", extension_recording::end::constructed},
     {"called", extension_recording::end::called},
     {"raised", extension_recording::end::raised}}};

base::expected<extension_recording::end> recording_end_of(std::string_view word) {
  for (const auto& [name, how] : end_words)
    if (name == word) return how;
  return base::fail(base::errc::invalid_argument, "a recording ends with '{}'", word.substr(0, 80));
}

base::status parse_recording_end(const base::json& object, extension_recording& recording) {
  QUERN_TRY(const auto word, base::get<std::string>(object, "end"));
  QUERN_TRY(recording.text, base::get<std::string>(object, "text"));
  QUERN_TRY(recording.ending, recording_end_of(word));
  recording.text.resize(std::min<std::size_t>(recording.text.size(), most_recording_text));
  return {};
}

}  // namespace

base::expected<extension_recording> parse_extension_recording(std::string_view lines) {
  extension_recording recording;
  for (const std::string_view line : base::split(lines, '\n')) {
    if (line.empty()) continue;
    if (recording.ending != extension_recording::end::lost)
      return base::fail(base::errc::invalid_argument, "a recording goes on behind its end");
    QUERN_TRY(const auto object, base::parse_json(line, 5));
    if (object.is_object() && object.size() == 1 && object.contains("request")) {
      if (recording.requests.size() == most_requests)
        return base::fail(base::errc::invalid_argument, "more than {} extensions", most_requests);
      QUERN_TRY(recording.requests.emplace_back(),
                parse_extension_request(base::dump(object.at("request"))));
      continue;
    }
    QUERN_CHECK(parse_recording_end(object, recording));
  }
  return recording;
}

base::expected<extension_recording> parse_recorded_extensions(std::string_view json) {
  QUERN_TRY(const auto answer, base::parse_json(json, 8));
  const auto list = answer.find("requests");
  if (list == answer.end() || !list->is_array() || list->size() > most_requests)
    return base::fail(base::errc::invalid_argument, "no list of at most {} extensions",
                      most_requests);
  extension_recording recording;
  QUERN_CHECK(parse_recording_end(answer, recording));
  QUERN_TRY(recording.asks_later, base::get<bool>(answer, "asks_later"));
  for (const auto& one : *list) {
    QUERN_TRY(recording.requests.emplace_back(), parse_extension_request(base::dump(one)));
  }
  return recording;
}

}  // namespace quern::env
