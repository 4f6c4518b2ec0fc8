#include "tools/benchmarks/bench_pytorch/build_check.hpp"

#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/text/python_facts.hpp"

namespace quern::tools {
namespace {

constexpr env::question_limits build_question{120, 240};

}  // namespace

base::expected<std::unique_ptr<build_check>> build_check::open(env::sandbox_mode mode) {
  QUERN_TRY(auto children, env::spawner::create(mode));
  QUERN_TRY(auto zygote, env::python_zygote::start(mode));
  return std::unique_ptr<build_check>(
      new build_check(std::move(children), std::move(zygote), mode));
}

base::expected<const env::module_sheet*> build_check::sheet_of(const honest_module& candidate) {
  const auto known = sheets_.find(candidate.subject.get());
  if (known != sheets_.end()) return &known->second;
  QUERN_TRY(auto described, env::describe_module(candidate.subject, zygote_, 1));
  (void)zygote_.end(described.process);
  return &sheets_.emplace(candidate.subject.get(), described.task->sheet).first->second;
}

base::status build_check::build_extensions(const honest_module& candidate, built_parts& into) {
  QUERN_TRY(const auto* sheet, sheet_of(candidate));
  QUERN_TRY(const auto file, env::write_module("candidate.py", candidate.source));
  const auto requests = env::recorded_extensions(zygote_, file.path.string(), sheet,
                                                 {build_question, build_question});
  if (!requests) {
    if (!env::finding_of_recording(requests.error())) return tl::make_unexpected(requests.error());
    into.problem = requests.error().message;
    return {};
  }
  into.extensions = static_cast<int>(requests->size());
  QUERN_TRY(const auto built, builds_.build(*requests, file.folder.path()));
  if (requests->empty())
    into.problem = "it asks for no extension";
  else if (!built.told || built.told->outcome != env::compile_result::kind::built)
    into.problem = built.told ? built.told->text : "nothing was built";
  return {};
}

base::status build_check::build_kernels(const honest_module& candidate, built_parts& into) {
  QUERN_TRY(const auto* sheet, sheet_of(candidate));
  QUERN_TRY(const auto built, kernels_.build(candidate.source, *sheet));
  into.kernels = static_cast<int>(built.files.size());
  into.problem = built.left_out;
  if (into.problem.empty() && built.files.empty()) into.problem = "it launches no kernel";
  return {};
}

base::expected<built_parts> build_check::build(const honest_module& candidate) {
  built_parts parts;
  const auto facts = env::facts_of_python(env::tokenize_python(candidate.source));
  if (facts.uses_load || facts.uses_load_inline) QUERN_CHECK(build_extensions(candidate, parts));
  if (facts.uses_triton_jit && parts.problem.empty()) QUERN_CHECK(build_kernels(candidate, parts));
  return parts;
}

}  // namespace quern::tools
