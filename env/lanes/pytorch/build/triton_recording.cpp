// Learns which Triton kernels a candidate launches, in a sandboxed Python of its own.
#include "base/json.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/build/triton_kernel.hpp"

namespace quern::env {
namespace {

constexpr std::int64_t most_triton_answer_bytes = 80 << 20;

}  // namespace

base::expected<base::json> triton_recorder_job(std::string_view source, std::string_view init_args,
                                               std::string_view inputs) {
  QUERN_TRY(const auto arguments, base::parse_json(init_args, 16));
  QUERN_TRY(const auto given, base::parse_json(inputs, 16));
  return base::json{{"source", source}, {"init_args", arguments}, {"inputs", given}};
}

triton_recording read_triton_recording(std::string_view lines) {
  auto recording = parse_triton_recording(lines);
  if (recording) return std::move(*recording);
  triton_recording lost;
  lost.text = recording.error().message;
  return lost;
}

base::expected<triton_recording> record_triton_kernels(
    spawner& children, const python_torch& python, const std::string& scripts,
    std::string_view source, std::string_view init_args, std::string_view inputs) {
  QUERN_TRY(const auto job, triton_recorder_job(source, init_args, inputs));
  QUERN_TRY(const auto input, as_memory_file(base::dump(job)));
  child_spec spec = python_spec(python, {"-s", "-E", scripts + "/triton_recorder.py"});
  spec.read_only.push_back(scripts);
  spec.in = child_stream::from(input.get());
  spec.out = child_stream::captured(most_triton_answer_bytes);
  spec.err = child_stream::captured(most_triton_text);
  spec.limits.wall_s = spec.limits.cpu_s = longest_triton_recording_s;
  QUERN_TRY(auto ran, run_tool(children, spec));
  triton_recording recording = read_triton_recording(ran.out);
  if (recording.reason == triton_reason::lost)
    recording.text = fmt::format("{} {} {}", recording.text, ran.end.text(), ran.err);
  return recording;
}

}  // namespace quern::env
