// The decisions of `quern tasks check`.
#include "env/tensor_task/check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"
#include "env/tensor_task/check_numbers.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

constexpr double most_error = 0.5;    // share of the tolerance that the reference itself may use up
constexpr double widest_rtol = 0.05;  // beyond it, results of the wrong formula pass
constexpr double most_constant = 0.99;  // share of elements that one constant may get right
// Share of the stated arithmetic that no honest kernel avoids: fast algorithms (Winograd's
// convolution, Strassen's product, short polynomials) compute the same with fewer operations.
constexpr double honest_share = 0.25;
// Share of a lane's shortest baseline below which a task is refused. Load only lengthens a call,
// for its clock runs from question to answer. Machines differ: a task of cpu_quick takes 150 us on
// one and 90 us on another. The limit is not sharp, either: windows have the more calls the shorter
// these are, and on a core the null distribution is 1.8 % wide at the limit and 1.6 % at three
// times that. Half of it leaves room for a machine that is twice as fast as the author's.
constexpr double surely_too_fast = 0.5;
constexpr std::uint32_t other_round = 1000;  // round of the contents that replace an input

using outputs_t = std::vector<tensor_bytes>;

bool has_special(std::span<const distribution> kinds) {
  return std::find(kinds.begin(), kinds.end(), distribution::special) != kinds.end();
}

std::string kinds_text(std::span<const distribution> kinds) {
  std::string text;
  for (const distribution kind : kinds)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(kind));
  return text;
}

std::string sizes_text(const task& what, const task_instance& at) {
  std::string text;
  for (std::size_t i = 0; i < at.sizes.size(); ++i) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", tensors_of(what).size_names[i],
                        at.sizes[i]);
  }
  return text;
}

/// The checks of one task; collects findings.
class checker {
 public:
  checker(const task& what, reference_oracle& oracle, const machine_peak& peak, std::uint64_t seed)
      : task_(what), tensors_(tensors_of(what)), oracle_(oracle), peak_(peak), seed_(seed) {}

  base::expected<task_report> run() {
    if (!check_text()) return std::move(report_);
    if (tensors_.hidden_sizes.empty())
      advise("no_hidden_sizes", "the task has no hidden sizes: a kernel for one size only passes");
    QUERN_CHECK(check_results());
    QUERN_TRY(const task_instance timed, instantiate(task_, tensors_.sizes));
    if (oracle_.makes_content()) {
      // Whether the work has to be done does not depend on the size.
      const auto& small =
          tensors_.hidden_sizes.empty() ? tensors_.sizes : tensors_.hidden_sizes.back();
      QUERN_TRY(const task_instance last, instantiate(task_, small));
      QUERN_TRY(const auto some, make_inputs(last, timed_distributions(task_), seed_, 0));
      note_failure(check_worth(last, some));
      note_failure(check_time(timed, {}));
      return std::move(report_);
    }
    QUERN_TRY(const auto inputs, make_inputs(timed, timed_distributions(task_), seed_, 0));
    QUERN_CHECK(check_worth(timed, inputs));
    QUERN_CHECK(check_time(timed, inputs));
    return std::move(report_);
  }

  base::expected<task_report> run_quickly(plain_baselines plain) {
    if (!check_text()) return std::move(report_);
    auto ran = run_untimed(plain);
    if (!ran && ran.error().code == base::errc::unavailable)
      return tl::make_unexpected(std::move(ran.error()));
    note_failure(ran);
    return std::move(report_);
  }

 private:
  /// False: the reference must not be run.
  bool check_text() {
    report_.findings = check_reference_text(task_);
    if (!report_.ok()) return false;
    if (task_.tolerance.rtol > widest_rtol)
      refuse("tolerance", fmt::format("rtol is {}, at most {}: a kernel that computes something "
                                      "else would pass; lower it",
                                      task_.tolerance.rtol, widest_rtol));
    return true;
  }

  base::status run_untimed(plain_baselines plain) {
    QUERN_TRY(const task_instance timed, instantiate(task_, tensors_.sizes));
    check_cost(timed);
    if (oracle_.only_compiles()) return oracle_.compile(task_);
    QUERN_CHECK(check_results());
    // Of a reference that fails a case, worth and baseline say nothing.
    if (!report_.ok()) return {};
    QUERN_TRY(const auto inputs, make_inputs(timed, timed_distributions(task_), seed_, 0));
    QUERN_CHECK(check_worth(timed, inputs));
    const bool measured_over = task_.baseline == baseline_kind::plain;
    return measured_over && plain == plain_baselines::try_them ? try_baseline(timed, inputs)
                                                               : base::status();
  }

  base::status try_baseline(const task_instance& at, const std::vector<tensor_bytes>& inputs) {
    auto tried = oracle_.try_plain(task_, at, inputs);
    if (tried || tried.error().code == base::errc::unavailable) return tried;
    refuse("baseline", tried.error().message);
    return {};
  }

  /// What failed refuses the task, and the check goes on. False: it failed.
  bool note_failure(const base::status& step, const std::string& where = {}) {
    if (step) return true;
    refuse("failed", fmt::format("{}{}{}", step.error().message, where.empty() ? "" : " ", where));
    return false;
  }

  void refuse(std::string rule, std::string text) {
    report_.findings.push_back({true, std::move(rule), std::move(text)});
  }
  void advise(std::string rule, std::string text) {
    report_.findings.push_back({false, std::move(rule), std::move(text)});
  }

  /// Runs the reference and refuses outputs of another number or size than the task says.
  base::expected<outputs_t> run_reference(const task_instance& at,
                                          std::span<const tensor_bytes> inputs, bool in_f64) {
    QUERN_TRY(outputs_t outputs, oracle_.run(task_, at, inputs, in_f64));
    if (outputs.size() != at.outputs.size()) {
      return base::fail(base::errc::invalid_argument,
                        "the reference of {} returns {} tensors, the task has {} outputs",
                        task_.name, outputs.size(), at.outputs.size());
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t want = static_cast<std::size_t>(at.outputs[i].elements) *
                               size_of(output_type(at.outputs[i], in_f64));
      if (outputs[i].size() != want) {
        return base::fail(base::errc::invalid_argument,
                          "output '{}' of {}'s reference has {} bytes, the task says {}",
                          at.outputs[i].name, task_.name, outputs[i].size(), want);
      }
    }
    return outputs;
  }

  static dtype output_type(const tensor_layout& output, bool in_f64) {
    return in_f64 && is_floating(output.type) ? dtype::f64 : output.type;
  }

  /// Finite, repeatable and accurate at every size and distribution.
  base::status check_results() {
    std::vector<std::vector<std::int64_t>> all_sizes{tensors_.sizes};
    all_sizes.insert(all_sizes.end(), tensors_.hidden_sizes.begin(), tensors_.hidden_sizes.end());
    for (const auto& sizes : all_sizes) {
      QUERN_TRY(const task_instance at, instantiate(task_, sizes));
      if (oracle_.makes_content()) {
        check_cases_there(at);
        continue;
      }
      QUERN_CHECK(check_case(at, timed_distributions(task_), 0));
      for (int round = 0; round < hidden_rounds(task_); ++round) {
        QUERN_CHECK(check_case(at, hidden_distributions(task_, round),
                               static_cast<std::uint32_t>(round) + 1));
      }
    }
    return {};
  }

  /// All rounds of one size, by the oracle; the first that fails is the last of this size.
  void check_cases_there(const task_instance& at) {
    for (int round = 0; round <= hidden_rounds(task_); ++round) {
      const auto kinds =
          round == 0 ? timed_distributions(task_) : hidden_distributions(task_, round - 1);
      const std::string where = case_text(at, kinds);
      const auto judged = oracle_.judge_case(task_, at, round, seed_);
      if (!judged) {
        refuse("failed", fmt::format("{} {}", judged.error().message, where));
        return;
      }
      for (std::size_t i = 0; i < judged->size(); ++i) {
        const output_judgement& one = (*judged)[i];
        if (!one.repeats) refuse_two_results(where);
        if (!one.finite && !has_special(kinds))
          refuse_infinite(at.outputs[i], where);
        else
          judge_error(at.outputs[i], one.worst_error, where);
      }
    }
  }

  std::string case_text(const task_instance& at, std::span<const distribution> kinds) const {
    return fmt::format("at {} with {}", sizes_text(task_, at), kinds_text(kinds));
  }

  void refuse_two_results(const std::string& where) {
    refuse("nondeterministic", "the reference gives two results on equal inputs " + where);
  }

  void refuse_infinite(const tensor_layout& output, const std::string& where) {
    refuse("not_finite",
           fmt::format("output '{}' is infinite or NaN {}: leave out distributions for which the "
                       "reference has no finite result",
                       output.name, where));
  }

  void judge_error(const tensor_layout& output, double error, const std::string& where) {
    if (error > report_.worst_error) {
      report_.worst_error = error;
      report_.worst_at = where;
    }
    if (error > most_error)
      refuse("tolerance",
             fmt::format(
                 "output '{}' of the reference is off by {:.3g} of the tolerance from its result "
                 "in f64 {}, at most {} leaves room for other orders of summation: raise atol or "
                 "rtol",
                 output.name, error, where, most_error));
  }

  base::status check_case(const task_instance& at, const std::vector<distribution>& kinds,
                          std::uint32_t round) {
    const std::string where = case_text(at, kinds);
    const base::status done = run_case(at, kinds, round, where);
    return done ? base::status() : base::in_context(where, done.error());
  }

  base::status run_case(const task_instance& at, const std::vector<distribution>& kinds,
                        std::uint32_t round, const std::string& where) {
    QUERN_TRY(const auto inputs, make_inputs(at, kinds, seed_, round));
    QUERN_TRY(const outputs_t got, run_reference(at, inputs, false));
    QUERN_TRY(const outputs_t again, run_reference(at, inputs, false));
    QUERN_TRY(const outputs_t wide, run_reference(at, inputs, true));
    if (got != again) refuse_two_results(where);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const tensor_layout& output = at.outputs[i];
      const auto values = widen(got[i], output.type);
      const bool finite =
          std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
      if (!finite && !has_special(kinds)) {
        refuse_infinite(output, where);
        continue;
      }
      judge_error(output,
                  worst_error(task_.tolerance, values, widen(wide[i], output_type(output, true))),
                  where);
    }
    return {};
  }

  /// Does a kernel have to do the work? Timed sizes and distributions.
  base::status check_worth(const task_instance& at, const std::vector<tensor_bytes>& inputs) {
    if (task_.degenerate) return {};
    QUERN_TRY(const outputs_t plain, run_reference(at, inputs, false));
    std::vector<std::vector<double>> want;
    for (std::size_t i = 0; i < plain.size(); ++i)
      want.push_back(widen(plain[i], at.outputs[i].type));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double share = std::max(share_of(task_.tolerance, want[i], 0),
                                    share_of(task_.tolerance, want[i], median(want[i])));
      if (share >= most_constant && want[i].size() > 1) {
        refuse(
            "constant_output",
            fmt::format(
                "a constant gets {:.1f} % of output '{}' right within the tolerance: tighten it, "
                "choose other inputs, or say degenerate: true",
                100 * share, at.outputs[i].name));
      }
    }
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      std::vector<tensor_bytes> changed = inputs;
      QUERN_CHECK(fill_input(at.inputs[input], tensors_.inputs[input].dists[0],
                             {seed_, static_cast<std::uint32_t>(input), other_round},
                             changed[input]));
      QUERN_TRY(const outputs_t other, run_reference(at, changed, false));
      bool matters = false;
      for (std::size_t i = 0; i < other.size(); ++i) {
        matters = matters ||
                  worst_error(task_.tolerance, widen(other[i], at.outputs[i].type), want[i]) > 1;
      }
      if (!matters) {
        refuse("ignored_input",
               fmt::format(
                   "other content of input '{}' changes no output beyond the tolerance: drop the "
                   "input, or say degenerate: true",
                   at.inputs[input].name));
      }
    }
    return {};
  }

  void check_cost(const task_instance& at) {
    std::int64_t written = 0;
    for (const tensor_layout& output : at.outputs)
      written += output.bytes;
    std::int64_t all = written;
    for (const tensor_layout& input : at.inputs)
      all += input.bytes;
    if (at.cost_bytes < written || at.cost_bytes > all) {
      refuse("cost", fmt::format("cost.bytes is {} at the timed sizes, it must be from {} (all "
                                 "outputs) to {} (all inputs and outputs)",
                                 at.cost_bytes, written, all));
    }
  }

  base::status check_time(const task_instance& at, const std::vector<tensor_bytes>& inputs) {
    check_cost(at);
    QUERN_TRY(report_.baseline_ns, oracle_.time_baseline(task_, at, inputs));
    report_.floor_ns = roofline_floor_ns(at, peak_);
    if (auto found = check_baseline_time(report_.baseline_ns, task_.lane->least_baseline_ns))
      report_.findings.push_back(std::move(*found));
    if (report_.floor_ns >= report_.baseline_ns) {
      refuse(
          "floor",
          fmt::format(
              "cost says that no kernel can take less than {}, the baseline takes {}: correct cost",
              base::human_duration(report_.floor_ns), base::human_duration(report_.baseline_ns)));
    }
    return {};
  }

  const task& task_;
  const tensor_body& tensors_;
  reference_oracle& oracle_;
  machine_peak peak_;
  std::uint64_t seed_;
  task_report report_;
};

}  // namespace

base::expected<std::vector<output_judgement>> reference_oracle::judge_case(const task&,
                                                                           const task_instance&,
                                                                           int, std::uint64_t) {
  return base::fail(base::errc::internal, "this oracle makes no content");
}

std::int64_t roofline_floor_ns(const task_instance& at, const machine_peak& peak) {
  const double moving = static_cast<double>(at.cost_bytes) / peak.bytes_per_s;
  const double computing = honest_share * static_cast<double>(at.cost_flops) / peak.flops_per_s;
  return static_cast<std::int64_t>(std::max(moving, computing) * 1e9);
}

std::optional<task_finding> check_baseline_time(std::int64_t baseline_ns, std::int64_t least_ns) {
  if (baseline_ns >= least_ns) return std::nullopt;
  const auto refused_below =
      static_cast<std::int64_t>(surely_too_fast * static_cast<double>(least_ns));
  if (baseline_ns < refused_below)
    return task_finding{
        true, "too_fast",
        fmt::format(
            "the baseline takes {}, at least {} can be timed on any machine: raise the sizes",
            base::human_duration(baseline_ns), base::human_duration(refused_below))};
  return task_finding{
      false, "too_fast",
      fmt::format(
          "the baseline takes {} on this machine, at least {} can be timed well: larger sizes "
          "would let smaller differences show",
          base::human_duration(baseline_ns), base::human_duration(least_ns))};
}

base::expected<task_report> check_task(const task& what, reference_oracle& oracle,
                                       const machine_peak& peak, std::uint64_t seed) {
  QUERN_CHECK(validate(what));
  return checker(what, oracle, peak, seed).run();
}

base::status reference_oracle::compile(const task&) {
  return base::fail(base::errc::internal, "this oracle compiles nothing alone");
}

base::status reference_oracle::try_plain(const task&, const task_instance&,
                                         std::span<const tensor_bytes>) {
  return base::fail(base::errc::internal, "this oracle tries no plain kernels");
}

base::expected<task_report> check_task_quickly(const task& what, reference_oracle& oracle,
                                               std::uint64_t seed, plain_baselines plain) {
  QUERN_CHECK(validate(what));
  return checker(what, oracle, {}, seed).run_quickly(plain);
}

base::expected<task_report> tensor_checker::check(const task& what, std::uint64_t seed) {
  QUERN_TRY(const task_instance timed, instantiate(what, tensors_of(what).sizes));
  return check_task(what, *oracle_, oracle_->peak(timed), seed);
}

base::expected<task_report> tensor_checker::check_quickly(const task& what, std::uint64_t seed,
                                                          plain_baselines plain) {
  return check_task_quickly(what, *oracle_, seed, plain);
}

}  // namespace quern::env
