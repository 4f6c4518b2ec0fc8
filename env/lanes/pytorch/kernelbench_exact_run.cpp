// kernelbench_exact/1 of one candidate: both modules in one child of the warm Python.
#include "env/lanes/pytorch/kernelbench_exact.hpp"
#include "env/lanes/pytorch/pytorch_state.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

constexpr double exact_lease_wait_s = 120;
constexpr double exact_wall_margin_s = 60;
constexpr question_limits exact_record_limits{60, 300};

struct exact_files {
  text_file reference, candidate;
};

base::expected<exact_files> write_both(const exact_request& request) {
  QUERN_TRY(auto reference, write_module("reference.py", request.subject->reference));
  QUERN_TRY(auto candidate, write_module("candidate.py", request.source));
  return exact_files{std::move(reference), std::move(candidate)};
}

/// Why no answer came, of a child that somebody still knows.
std::string loss_of(const runner_failure& why, const exact_terms& terms, python_zygote& zygote,
                    const python_child& child) {
  switch (why.failure_kind) {
    case runner_failure::kind::timeout:
      return fmt::format("it took longer than {:g} s of processor time, or hung", terms.limit_s);
    case runner_failure::kind::gone:
    case runner_failure::kind::fault:
      return "the process of reference and candidate ended: " + zygote.end(child).text();
    case runner_failure::kind::refused:
    case runner_failure::kind::forged:
    case runner_failure::kind::host:
      break;
  }
  return why.text;
}

}  // namespace

/// One candidate, one child. Lives as long as the call.
class kernelbench_exact_run {
 public:
  kernelbench_exact_run(pytorch_evaluator::state& with, const exact_request& request,
                        const exact_terms& terms)
      : state_(with),
        request_(request),
        terms_(terms),
        precision_(name_of(pytorch_of(*request.subject).precision)) {}

  base::expected<base::json> run();

 private:
  /// Learns what the candidate asks for and builds it. A text: why it is unsupported.
  base::expected<std::string> build(const exact_files& files);
  base::expected<base::json> ask(const exact_files& files);
  /// A warm Python that died is started again, once.
  base::expected<python_child> fork(const python_start& how);

  pytorch_evaluator::state& state_;
  const exact_request& request_;
  const exact_terms& terms_;
  std::string_view precision_;
  candidate_extensions built_;
};

base::expected<python_child> kernelbench_exact_run::fork(const python_start& how) {
  QUERN_TRY(auto* zygote, state_.tasks->zygote());
  auto child = zygote->fork(how);
  if (child) return child;
  state_.tasks->renew();
  QUERN_TRY(zygote, state_.tasks->zygote());
  return zygote->fork(how);
}

base::expected<std::string> kernelbench_exact_run::build(const exact_files& files) {
  const python_facts facts = facts_of_python(tokenize_python(request_.source));
  if (std::string why = cannot_run_here(facts); !why.empty()) return why;
  if (!facts.uses_load && !facts.uses_load_inline) return std::string();
  // A reference that Quern refuses has no sheet: then a constructor has no arguments, and a call
  // those that the candidate's own text has.
  const auto prepared = state_.tasks->get(request_.subject);
  QUERN_TRY(auto* zygote, state_.tasks->zygote());
  const auto requests = recorded_extensions(*zygote, files.candidate.path.string(),
                                            prepared ? &(*prepared)->sheet : nullptr,
                                            {exact_record_limits, exact_record_limits});
  // What is no request, or takes too long, fails where the candidate runs.
  if (!requests && (requests.error().code == base::errc::invalid_argument ||
                    requests.error().code == base::errc::timeout))
    return std::string();
  if (!requests) return tl::make_unexpected(requests.error());
  if (std::string why = cannot_run_here(*requests); !why.empty()) return why;
  QUERN_TRY(built_, state_.builds->build(*requests, files.candidate.folder.path()));
  return std::string();
}

base::expected<base::json> kernelbench_exact_run::ask(const exact_files& files) {
  const std::string reference = files.reference.path.string();
  const std::string candidate = files.candidate.path.string();
  python_start how;
  how.core = state_.core.core();
  how.read_only = built_.files;
  how.read_only.insert(how.read_only.end(), {reference, candidate});
  how.extensions = built_.folder;
  QUERN_TRY(auto child, fork(how));
  QUERN_TRY(auto* zygote, state_.tasks->zygote());
  QUERN_TRY(const auto lease, core_lease::take(state_.core.core(), exact_lease_wait_s));
  const auto told =
      child.kernelbench_exact(exact_question(terms_, precision_, reference, candidate),
                              {terms_.limit_s, terms_.limit_s + exact_wall_margin_s});
  if (!told && told.error().failure_kind == runner_failure::kind::host)
    return base::fail(base::errc::unavailable, "{}", told.error().text);
  if (!told)
    return exact_without_result(exact_loss::lost, loss_of(told.error(), terms_, *zygote, child));
  const auto answer = parse_exact_answer(*told);
  if (!answer) return exact_without_result(exact_loss::lost, answer.error().message);
  return exact_result(*answer, terms_, state_.device_class);
}

base::expected<base::json> kernelbench_exact_run::run() {
  if (const auto refused = refused_by_kernelbench(terms_, precision_))
    return exact_raised(*refused);
  QUERN_TRY(const auto files, write_both(request_));
  if (terms_.reference_only) return ask(files);
  QUERN_TRY(const auto obstacle, build(files));
  if (!obstacle.empty()) return exact_without_result(exact_loss::unsupported, obstacle);
  return ask(files);
}

base::expected<base::json> pytorch_evaluator::evaluate_exactly(const exact_request& request) {
  if (request.subject->lane != &pytorch_lane)
    return base::fail(base::errc::invalid_argument, "task {} is of lane {}, this judge of {}",
                      request.subject->name, request.subject->lane->name, pytorch_lane.name);
  QUERN_TRY(const auto terms, parse_exact_terms(request.terms));
  return kernelbench_exact_run(*state_, request, terms).run();
}

}  // namespace quern::env
