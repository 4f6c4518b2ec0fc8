// kernelbench_exact/1 of one candidate on a GPU: both modules in one child of the warm Python.
#include "env/lanes/pytorch/gpu/candidate_files.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"
#include "env/lanes/pytorch/kernelbench_exact.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

constexpr double device_exact_wait_s = 300 + make_baseline_s;
constexpr question_limits device_exact_recording = device_limits(60);

}  // namespace

/// One candidate, one child. Lives as long as the call.
class device_exact_run {
 public:
  device_exact_run(pytorch_device_evaluator::state& with, const exact_request& request,
                   const exact_terms& terms)
      : state_(with),
        request_(request),
        terms_(terms),
        precision_(name_of(pytorch_of(*request.subject).precision)) {}

  base::expected<base::json> run();

 private:
  /// Builds what the candidate asks for. A text: why it is unsupported.
  base::expected<std::string> build();
  base::expected<std::string> build_extensions(const module_sheet* sheet);
  base::expected<base::json> ask();
  /// A warm Python that died is started again, once.
  base::expected<python_child> fork(const python_start& how);

  pytorch_device_evaluator::state& state_;
  const exact_request& request_;
  const exact_terms& terms_;
  std::string_view precision_;
  std::optional<text_file> file_;  ///< its folder has the index of extensions
  candidate_extensions built_;
  std::optional<built_kernels> kernels_;
};

base::expected<std::string> device_exact_run::build_extensions(const module_sheet* sheet) {
  QUERN_TRY(auto file, write_module("candidate.py", request_.source));
  file_.emplace(std::move(file));
  const auto requests = recorded_extensions(*state_.recorder, file_->path.string(), sheet,
                                            {device_exact_recording, device_exact_recording});
  // What is no request, or takes too long, fails where the candidate runs.
  if (!requests && finding_of_recording(requests.error())) return std::string();
  if (!requests) return tl::make_unexpected(requests.error());
  QUERN_TRY(built_, state_.builds->build(*requests, file_->folder.path()));
  return std::string();
}

base::expected<std::string> device_exact_run::build() {
  const python_facts facts = facts_of_python(tokenize_python(request_.source));
  if (std::string why = cannot_run_on_device(facts); !why.empty()) return why;
  const bool extensions = facts.uses_load || facts.uses_load_inline;
  if (!extensions && !facts.uses_triton_jit) return std::string();
  const auto sheet = state_.sheets->of(*request_.subject);
  if (facts.uses_triton_jit) {
    // Its launches are learnt from a call as the reference is called.
    if (!sheet)
      return "kernels in Triton are compiled ahead for what the reference is called with, and that "
             "is not known: " +
             sheet.error().message;
    QUERN_TRY(kernels_, state_.kernels->build(request_.source, *sheet));
  }
  return extensions ? build_extensions(sheet ? &*sheet : nullptr) : std::string();
}

base::expected<python_child> device_exact_run::fork(const python_start& how) {
  QUERN_TRY(auto* zygote, state_.manager->zygote());
  auto child = zygote->fork(how);
  if (child) return child;
  state_.manager->renew();
  QUERN_TRY(zygote, state_.manager->zygote());
  return zygote->fork(how);
}

base::expected<base::json> device_exact_run::ask() {
  if (const auto& out = state_.care->quarantine().entry())
    return base::fail(base::errc::unavailable, "the device is in quarantine: {}", out->reason);
  QUERN_TRY(auto turn, device_turn::open(state_.care->watch().bus_id()));
  if (!turn.wait(device_exact_wait_s + terms_.limit_s))
    return base::fail(base::errc::timeout, "the GPU was used by others for {:g} s",
                      device_exact_wait_s + terms_.limit_s);
  QUERN_CHECK(state_.care->take_up());
  python_start how = device_start(!built_.folder.empty());
  how.kernels = kernels_.has_value();
  how.core = state_.core.core();
  QUERN_TRY(auto child, fork(how));
  QUERN_TRY(auto* zygote, state_.manager->zygote());
  device_module both(*zygote, std::move(child));
  QUERN_CHECK(put_extensions(both, built_));
  if (kernels_) QUERN_CHECK(put_kernels(both, *kernels_));
  QUERN_TRY(const auto reference, both.put("reference.py", request_.subject->reference));
  QUERN_TRY(const auto candidate, both.put("candidate.py", request_.source));
  // As for every time that is taken here.
  const device_quiet::hold quiet(state_.manager->quiet());
  const watching_thread watching;
  const coming_first both_first(both.child().pid());
  const auto told = both.child().kernelbench_exact(
      exact_question(terms_, precision_, reference, candidate), device_limits(terms_.limit_s));
  if (!told) {
    using enum runner_failure::kind;
    switch (told.error().failure_kind) {
      case host:
        return base::fail(base::errc::unavailable, "{}", told.error().text);
      case timeout:
        return exact_without_result(
            exact_loss::lost, fmt::format("it took longer than {:g} s, or hung", terms_.limit_s));
      case gone:
      case fault:
        return exact_without_result(
            exact_loss::lost,
            "the process of reference and candidate ended: " + zygote->end(both.child()).text());
      default:
        return exact_without_result(exact_loss::lost, told.error().text);
    }
  }
  const auto answer = parse_exact_answer(*told);
  if (!answer) return exact_without_result(exact_loss::lost, answer.error().message);
  return exact_result(*answer, terms_, state_.manager->context().facts().name, "cuda:0");
}

base::expected<base::json> device_exact_run::run() {
  if (const auto refused = refused_by_kernelbench(terms_, precision_))
    return exact_raised(*refused);
  if (!terms_.reference_only) {
    QUERN_TRY(const auto obstacle, build());
    if (!obstacle.empty()) return exact_without_result(exact_loss::unsupported, obstacle);
  }
  return ask();
}

base::expected<base::json> evaluate_exactly_on_device(pytorch_device_evaluator::state& with,
                                                      const exact_request& request) {
  if (request.subject->lane != &pytorch_lane)
    return base::fail(base::errc::invalid_argument, "task {} is of lane {}, this judge of {}",
                      request.subject->name, request.subject->lane->name, pytorch_lane.name);
  QUERN_TRY(const auto terms, parse_exact_terms(request.terms));
  return device_exact_run(with, request, terms).run();
}

base::expected<base::json> pytorch_device_evaluator::evaluate_exactly(
    const exact_request& request) {
  return evaluate_exactly_on_device(*state_, request);
}

}  // namespace quern::env
