// Learns which extensions a candidate asks for, in a sandboxed Python of its own.
#include "env/lanes/pytorch/build/extension_recording.hpp"

#include <array>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "env/build/tool.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_requests = 16;
constexpr std::int64_t most_answer_bytes = 20 << 20;
constexpr std::int64_t most_text_bytes = 16 << 10;
constexpr double recording_wall_s = 60;
// An import of torch maps more than it uses; only a control group bounds what it uses.
constexpr std::int64_t python_memory_bytes = std::int64_t{24} << 30;

constexpr std::array<std::pair<std::string_view, extension_recording::end>, 3> end_words{
    {{"imported", extension_recording::end::imported},
     {"constructed", extension_recording::end::constructed},
     {"raised", extension_recording::end::raised}}};

base::expected<extension_recording::end> recording_end_of(std::string_view word) {
  for (const auto& [name, how] : end_words)
    if (name == word) return how;
  return base::fail(base::errc::invalid_argument, "a recording ends with '{}'", word.substr(0, 80));
}

}  // namespace

base::expected<extension_recording> parse_extension_recording(std::string_view lines) {
  extension_recording recording;
  for (const std::string_view line : base::split(lines, '\n')) {
    if (line.empty()) continue;
    if (recording.how != extension_recording::end::lost)
      return base::fail(base::errc::invalid_argument, "a recording goes on behind its end");
    QUERN_TRY(const auto object, base::parse_json(line, 5));
    if (object.is_object() && object.size() == 1 && object.contains("request")) {
      if (recording.requests.size() == most_requests)
        return base::fail(base::errc::invalid_argument, "more than {} extensions", most_requests);
      QUERN_TRY(recording.requests.emplace_back(),
                parse_extension_request(base::dump(object.at("request"))));
      continue;
    }
    QUERN_TRY(const auto word, base::get<std::string>(object, "end"));
    QUERN_TRY(recording.text, base::get<std::string>(object, "text"));
    QUERN_TRY(recording.how, recording_end_of(word));
    recording.text.resize(std::min<std::size_t>(recording.text.size(), most_text_bytes));
  }
  return recording;
}

base::expected<std::vector<extension_request>> parse_recorded_extensions(std::string_view json) {
  QUERN_TRY(const auto answer, base::parse_json(json, 8));
  const auto list = answer.find("requests");
  if (list == answer.end() || !list->is_array() || list->size() > most_requests)
    return base::fail(base::errc::invalid_argument, "no list of at most {} extensions",
                      most_requests);
  std::vector<extension_request> requests;
  for (const auto& one : *list) {
    QUERN_TRY(requests.emplace_back(), parse_extension_request(base::dump(one)));
  }
  return requests;
}

child_spec python_spec(const python_torch& python, std::vector<std::string> arguments) {
  child_spec spec = tool_spec(python.program, std::move(arguments), false, -1);
  spec.read_only.insert(spec.read_only.end(), python.read_only.begin(), python.read_only.end());
  for (const char* path : {"/proc/cpuinfo", "/dev/urandom"})
    spec.read_only.emplace_back(path);
  spec.env.insert(spec.env.end(), {"HOME=.", "USER=nobody", "OMP_NUM_THREADS=1",
                                   "PYTHONDONTWRITEBYTECODE=1", "TRITON_CACHE_DIR=."});
  spec.limits.wall_s = spec.limits.cpu_s = recording_wall_s;
  spec.limits.memory_bytes = python_memory_bytes;
  spec.limits.processes = 64;
  spec.limits.open_files = 256;
  return spec;
}

base::expected<extension_recording> record_extensions(spawner& children, const python_torch& python,
                                                      const std::string& scripts,
                                                      std::string_view source,
                                                      std::string_view init_args) {
  QUERN_TRY(const auto arguments, base::parse_json(init_args, 16));
  const base::json job{{"source", source}, {"init_args", arguments}};
  QUERN_TRY(const auto input, as_memory_file(base::dump(job)));
  child_spec spec = python_spec(python, {"-s", "-E", scripts + "/extension_recorder.py"});
  spec.read_only.push_back(scripts);
  spec.in = child_stream::from(input.get());
  spec.out = child_stream::captured(most_answer_bytes);
  spec.err = child_stream::captured(most_text_bytes);
  QUERN_TRY(auto ran, run_tool(children, spec));
  QUERN_TRY(auto recording, parse_extension_recording(ran.out));
  if (recording.how == extension_recording::end::lost)
    recording.text = fmt::format("{} {}", ran.end.text(), ran.err);
  return recording;
}

}  // namespace quern::env
