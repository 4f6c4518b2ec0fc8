// Learns which extensions a candidate asks for, in a sandboxed Python of its own.
#include "env/lanes/pytorch/build/extension_recording.hpp"

#include "base/json.hpp"
#include "env/build/tool.hpp"

namespace quern::env {
namespace {

constexpr std::int64_t most_answer_bytes = 20 << 20;
constexpr double recording_wall_s = 60;
// An import of torch maps more than it uses; only a control group bounds what it uses.
constexpr std::int64_t python_memory_bytes = std::int64_t{24} << 30;

}  // namespace

child_spec python_spec(const python_torch& python, std::vector<std::string> arguments) {
  child_spec spec = tool_spec(python.program, std::move(arguments), false);
  spec.read_only.insert(spec.read_only.end(), python.read_only.begin(), python.read_only.end());
  for (const char* path : {"/proc/cpuinfo", "/dev/urandom"})
    spec.read_only.emplace_back(path);
  spec.env.insert(spec.env.end(), {"HOME=.", "USER=nobody", "OMP_NUM_THREADS=1",
                                   "PYTHONDONTWRITEBYTECODE=1", "TRITON_CACHE_DIR=."});
  spec.limits.wall_s = spec.limits.cpu_s = recording_wall_s;
  spec.limits.memory_bytes = python_memory_bytes;
  spec.limits.processes = 16;
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
  spec.err = child_stream::captured(most_recording_text);
  QUERN_TRY(auto ran, run_tool(children, spec));
  QUERN_TRY(auto recording, parse_extension_recording(ran.out));
  if (recording.ending == extension_recording::end::lost)
    recording.text = fmt::format("{} {}", ran.end.text(), ran.err);
  return recording;
}

}  // namespace quern::env
