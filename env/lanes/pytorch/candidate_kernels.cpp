// The Triton kernels of one candidate.
#include "env/lanes/pytorch/candidate_kernels.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"

namespace quern::env {
namespace {

constexpr std::size_t longest_kernel = std::size_t{64} << 20;
/// As record_triton_kernels() has it.
constexpr question_limits recording_kernels{longest_triton_recording_s, longest_triton_recording_s};

std::string_view torch_name(const module_tensor& of) {
  if (of.is_bool) return "bool";
  switch (of.type) {
    case dtype::f32:
      return "float32";
    case dtype::f64:
      return "float64";
    case dtype::i32:
      return "int32";
    case dtype::i64:
      return "int64";
    case dtype::u8:
      return "uint8";
    case dtype::bf16:
      return "bfloat16";
    case dtype::f16:
      return "float16";
  }
  return "float32";
}

/// As meta_model.made_input reads them.
base::json inputs_of(const module_sheet& sheet) {
  base::json list = base::json::array();
  for (const module_argument& one : sheet.arguments)
    list.push_back(one.value.empty()
                       ? base::json{{"shape", one.tensor.shape}, {"dtype", torch_name(one.tensor)}}
                       : base::json{{"literal", one.value}});
  return list;
}

/// Adds one kernel that was built to files and index.
base::status add_kernel(const triton_kernel& kernel, const triton_result& built, std::size_t number,
                        base::json& index, built_kernels& to) {
  base::json entry{{"key", kernel.launch_key}};
  if (built.outcome != compile_result::kind::built) {
    entry["error"] = built.text;
    index.push_back(std::move(entry));
    return {};
  }
  QUERN_TRY(const auto file, base::read_file(built.artefact, longest_kernel));
  QUERN_TRY(const auto artefact, read_triton_artefact(file));
  QUERN_TRY(auto launcher, base::read_file(built.launcher, longest_kernel));
  QUERN_TRY(entry["metadata"], base::parse_json(artefact.metadata));
  entry["cubin"] = fmt::format("kernel{}.cubin", number);
  entry["launcher"] = fmt::format("launcher{}.so", number);
  to.files.push_back({entry["cubin"], std::string(artefact.cubin)});
  to.files.push_back({entry["launcher"], std::move(launcher)});
  index.push_back(std::move(entry));
  return {};
}

}  // namespace

base::expected<triton_builder*> candidate_kernels::builder() {
  const std::lock_guard lock(guard_);
  if (!builder_) {
    if (cache_.empty() && !private_cache_) {
      QUERN_TRY(private_cache_, base::temp_folder::make_held("quern-triton"));
    }
    triton_options options;
    options.cache_dir = cache_.empty() ? private_cache_->path() : cache_ / "triton";
    QUERN_TRY(builder_, triton_builder::create(children_, std::move(options)));
  }
  return builder_.get();
}

std::shared_ptr<candidate_kernels::job> candidate_kernels::job_of(const std::string& name) {
  const std::lock_guard lock(guard_);
  if (const auto* known = jobs_.find(name)) return *known;
  return jobs_.add(name, std::make_shared<job>());
}

base::expected<built_kernels> candidate_kernels::build(std::string_view source,
                                                       const module_sheet& sheet) {
  const std::string init = base::dump(base::json(sheet.init));
  const std::string inputs = base::dump(inputs_of(sheet));
  const auto of = job_of(base::to_hex(base::hasher().add(source).add(init).add(inputs).digest()));
  const std::lock_guard lock(of->guard);
  if (!of->done) {
    QUERN_TRY(of->done, build_now(source, init, inputs));
  }
  return *of->done;
}

base::expected<triton_recording> candidate_kernels::recorded(const triton_builder& with,
                                                             std::string_view source,
                                                             const std::string& init,
                                                             const std::string& inputs) {
  QUERN_TRY(const auto asked, triton_recorder_job(source, init, inputs));
  if (auto child = python_.fork({})) {
    const auto lines = child->record_kernels(asked, recording_kernels);
    if (lines) return read_triton_recording(*lines);
    if (lines.error().failure_kind == runner_failure::kind::timeout) {
      triton_recording lost;
      lost.text = lines.error().text;
      return lost;
    }
  }
  // Its answer was too long, or it had too little memory.
  return record_triton_kernels(children_, with.python(), with.scripts(), source, init, inputs);
}

base::expected<built_kernels> candidate_kernels::build_now(std::string_view source,
                                                           const std::string& init,
                                                           const std::string& inputs) {
  QUERN_TRY(auto* with, builder());
  QUERN_TRY(const auto recorded, this->recorded(*with, source, init, inputs));
  built_kernels built;
  base::json index = base::json::array();
  for (std::size_t i = 0; i < recorded.kernels.size(); ++i) {
    QUERN_TRY(const auto result, with->build(recorded.kernels[i]));
    QUERN_CHECK(add_kernel(recorded.kernels[i], result, i, index, built));
  }
  built.index = base::dump(index);
  built.refused = recorded.reason == triton_reason::kernel_refused;
  if (recorded.reason != triton_reason::none && recorded.reason != triton_reason::no_launch)
    built.left_out = fmt::format("{}: {}", name_of(recorded.reason), recorded.text);
  return built;
}

}  // namespace quern::env
