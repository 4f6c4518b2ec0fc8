// Runs and times references and baselines for `quern tasks check`.
#include "env/lanes/cpp/cpp_oracle.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "env/core/candidate_checks.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/measure/stats.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

constexpr question_limits oracle_limits{30, 120};
constexpr int timed_calls = 15;

/// The line of a compiler's text that says most.
std::string first_error(const compile_result& built) {
  if (built.outcome == compile_result::kind::timeout) return "the compiler did not finish in time";
  const auto lines = base::split(built.text, '\n');
  const auto told = std::find_if(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find("error: ") != line.npos;
  });
  return std::string(told == lines.end() ? lines.front() : *told);
}

class sandboxed_oracle final : public reference_oracle {
 public:
  sandboxed_oracle(evaluator_options options, int core)
      : options_(std::move(options)), core_(core) {}

  base::status open() {
    const auto mode =
        options_.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
    QUERN_TRY(children_, spawner::create(mode));
    QUERN_TRY(service_, reference_service::start(options_.reference_program, mode));
    return {};
  }

  base::expected<std::vector<tensor_bytes>> run(const task& what, const task_instance& at,
                                                std::span<const tensor_bytes> inputs,
                                                bool in_f64) override {
    QUERN_TRY(auto* runner, reference_of(what));
    return runner->run(at, inputs, in_f64);
  }

  base::status try_plain(const task& what, const task_instance& at,
                         std::span<const tensor_bytes> inputs) override {
    QUERN_TRY(auto plain, prepare_plain(what, at, inputs));
    return check_plain(plain, what, at, inputs);
  }

  base::expected<std::int64_t> time_baseline(const task& what, const task_instance& at,
                                             std::span<const tensor_bytes> inputs) override {
    QUERN_TRY(auto lease, core_lease::take(core_, 120));
    std::optional<plain_side> plain;
    if (!tensors_of(what).plain.empty()) {
      QUERN_TRY(plain, prepare_plain(what, at, inputs));
      QUERN_CHECK(check_plain(*plain, what, at, inputs));
    }
    if (what.baseline == baseline_kind::plain) return time_calls(plain->process->link(), false);
    QUERN_TRY(auto* runner, reference_of(what));
    // A full run leaves the plan and the memory of its own calls behind: the plan is laid anew
    // here.
    QUERN_TRY(auto in, inputs_of(at, inputs));
    QUERN_TRY(auto out, tensor_arena::create(memory_use::outputs, at.outputs, 1));
    QUERN_TRY(auto plan, make_plan(at, in, out));
    auto& link = runner->link();
    auto step = link.map(in.request(0), in.fd(), oracle_limits);
    if (step) step = link.map(out.request(1), out.fd(), oracle_limits);
    if (step) step = link.plan(plan, oracle_limits);
    if (!step)
      return base::fail(base::errc::unavailable, "reference runner: {}", step.error().text);
    return time_calls(link, true);
  }

  machine_peak peak(const task_instance& at) override { return measure_peak(at); }

 private:
  /// The plain kernel, loaded, with memory for one call.
  struct plain_side {
    std::unique_ptr<candidate_process> process;
    candidate_memory memory;
    tensor_arena in;
  };

  base::expected<reference_runner*> reference_of(const task& what) {
    const std::string id = task_id(what);
    if (!runner_ || id != runner_task_) {
      runner_.reset();
      QUERN_TRY(auto opened, service_->open(what.reference, core_));
      runner_.emplace(std::move(opened));
      runner_task_ = id;
    }
    return &*runner_;
  }

  static base::expected<tensor_arena> inputs_of(const task_instance& at,
                                                std::span<const tensor_bytes> inputs) {
    QUERN_TRY(auto in, make_input_arena(at, 1));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      std::copy(inputs[i].begin(), inputs[i].end(), in.at(i, 0).begin());
    return in;
  }

  static base::expected<std::int64_t> time_calls(runner_link& link, bool flush) {
    std::vector<double> times;
    for (int i = 0; i < timed_calls; ++i) {
      auto ns = link.run(0, 1, oracle_limits);
      if (!ns)
        return base::fail(base::errc::invalid_argument, "the baseline failed: {}", ns.error().text);
      if (flush)
        if (auto flushed = link.flush(oracle_limits); !flushed)
          return base::fail(base::errc::invalid_argument, "the reference failed: {}",
                            flushed.error().text);
      if (i > 1) times.push_back(static_cast<double>(*ns));
    }
    return std::llround(median_of(times));
  }

  base::expected<plain_side> prepare_plain(const task& what, const task_instance& at,
                                           std::span<const tensor_bytes> inputs) {
    if (!cxx_) {
      cpp_compiler_options compiling;
      compiling.cache_dir = options_.cache_dir;
      if (compiling.cache_dir.empty()) {
        QUERN_TRY(auto folder, base::temp_folder::make_held("quern-cc"));
        private_cache_.emplace(std::move(folder));
        compiling.cache_dir = private_cache_->path();
        compiling.prelude_dir = base::user_cache_folder();
      }
      auto made = cpp_compiler::create(*children_, std::move(compiling));
      if (!made) return base::fail(base::errc::unavailable, "{}", made.error().message);
      cxx_ = std::move(*made);
    }
    QUERN_TRY(auto built, cxx_->compile(compile_request_for(what, tensors_of(what).plain)));
    if (built.outcome != compile_result::kind::built)
      return base::fail(base::errc::invalid_argument, "the plain baseline does not compile: {}",
                        first_error(built));
    QUERN_TRY(auto process, candidate_process::start(
                                *children_, {options_.runner_program, built.artefact, core_}));
    QUERN_TRY(auto in, inputs_of(at, inputs));
    plain_side side{std::move(process), {}, std::move(in)};
    candidate_checker checker(*side.process, oracle_limits);
    auto f = checker.load(built.artefact.string());
    if (f.ok()) f = checker.prepare(at, 1, &side.in, side.memory);
    if (!f.ok())
      return base::fail(base::errc::invalid_argument, "the plain baseline failed: {}", f.detail);
    return side;
  }

  /// A plain kernel that computes something else would be what candidates are measured against.
  base::status check_plain(plain_side& side, const task& what, const task_instance& at,
                           std::span<const tensor_bytes> inputs) {
    if (auto ran = side.process->link().run(0, 1, oracle_limits); !ran)
      return base::fail(base::errc::invalid_argument, "the plain kernel failed: {}",
                        ran.error().text);
    QUERN_TRY(const auto want, run(what, at, inputs, false));
    for (std::size_t o = 0; o < at.outputs.size(); ++o) {
      const auto wrong =
          compare_tensor(at.outputs[o], what.tolerance, side.memory.outputs->at(o, 0), want[o]);
      if (wrong)
        return base::fail(base::errc::invalid_argument,
                          "the plain kernel does not compute what the reference does: {}",
                          describe(*wrong));
    }
    return {};
  }

  evaluator_options options_;
  int core_;
  std::unique_ptr<spawner> children_;
  std::unique_ptr<reference_service> service_;
  std::optional<base::temp_folder> private_cache_;
  std::unique_ptr<cpp_compiler> cxx_;
  std::optional<reference_runner> runner_;
  std::string runner_task_;
};

}  // namespace

base::expected<std::unique_ptr<reference_oracle>> open_cpp_oracle(const evaluator_options& given) {
  evaluator_options options = given;
  QUERN_CHECK(fill_in(options));
  QUERN_TRY(auto choice, core_choice::choose(options.core));
  auto oracle = std::make_unique<sandboxed_oracle>(std::move(options), choice.core());
  QUERN_CHECK(oracle->open());
  return oracle;
}

machine_peak measure_peak(const task_instance& at) {
  return {measure_bandwidth(static_cast<std::size_t>(std::max<std::int64_t>(at.cost_bytes, 4096))),
          measure_flops()};
}

}  // namespace quern::env
