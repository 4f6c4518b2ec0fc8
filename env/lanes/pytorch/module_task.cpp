// What does not depend on the candidate.
#include "env/lanes/pytorch/module_task.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "env/lanes/pytorch/calibration.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr question_limits load_limits{60, 240};
constexpr question_limits describe_limits{120, 480};
constexpr question_limits reference_limits{120, 480};

/// Runs a described reference on contents, in its precision or in f64.
class module_oracle {
 public:
  module_oracle(python_child& process, const task_instance& at) : process_(process), at_(at) {}

  base::status open(bool in_f64);
  base::expected<std::vector<tensor_bytes>> run(const std::vector<tensor_bytes>& inputs);

 private:
  python_child& process_;
  const task_instance& at_;
  std::optional<tensor_arena> inputs_, outputs_;
  std::vector<tensor_layout> results_;
};

base::status module_oracle::open(bool in_f64) {
  results_ = at_.outputs;
  if (in_f64)
    for (tensor_layout& one : results_)
      if (is_floating(one.type)) {
        one.type = dtype::f64;
        one.bytes = one.elements * static_cast<std::int64_t>(sizeof(double));
      }
  QUERN_TRY(auto inputs, make_input_arena(at_, 1));
  QUERN_TRY(auto outputs, tensor_arena::create(memory_use::outputs, results_, 1));
  QUERN_TRY(auto plan, make_plan(at_, inputs, outputs));
  plan.in_f64 = in_f64 ? 1 : 0;
  auto& link = process_.link();
  auto step = link.map(inputs.request(0), inputs.fd(), reference_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), reference_limits);
  if (step) step = link.plan(plan, reference_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  inputs_.emplace(std::move(inputs));
  outputs_.emplace(std::move(outputs));
  return {};
}

base::expected<std::vector<tensor_bytes>> module_oracle::run(
    const std::vector<tensor_bytes>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::ranges::copy(inputs[i], inputs_->at(i, 0).begin());
  if (const auto ran = process_.link().run(0, 1, reference_limits); !ran)
    return tl::make_unexpected(reference_error(ran.error()));
  std::vector<tensor_bytes> results;
  for (std::size_t o = 0; o < results_.size(); ++o) {
    const auto bytes = outputs_->at(o, 0);
    results.emplace_back(bytes.begin(), bytes.end());
  }
  return results;
}

/// Numbers of contents, so that none is drawn twice: those of timed calls begin behind them.
constexpr std::uint64_t nominal_call = 0, second_call = 1, first_family_call = 2;

bool has_whole_numbers(const task_instance& at) {
  return std::any_of(at.outputs.begin(), at.outputs.end(),
                     [](const tensor_layout& one) { return !is_floating(one.type); });
}

/// Where results are whole numbers, equal inputs make ties, of which each may be right.
bool makes_ties(std::string_view family) {
  return family == "constant" || family == "sparse";
}

/// Whether a floating element is zero in one of two contents and not in the other.
bool zeros_differ(const task_instance& at, const std::vector<tensor_bytes>& one,
                  const std::vector<tensor_bytes>& other) {
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    if (!is_floating(at.inputs[i].type)) continue;
    const auto found = std::ranges::mismatch(one[i], other[i]);
    if (found.in1 == one[i].end()) continue;
    const auto width = static_cast<std::ptrdiff_t>(size_of(at.inputs[i].type));
    const auto element = (found.in1 - one[i].begin()) / width * width;
    const auto is_zero = [&](const tensor_bytes& bytes) {
      return std::all_of(bytes.begin() + element, bytes.begin() + element + width,
                         [](std::byte b) { return b == std::byte{0}; });
    };
    return is_zero(one[i]) != is_zero(other[i]);
  }
  return false;
}

/// One element changed, and zeros kept: a kernel may rely on those of a triangular input. Of inputs
/// that are hardly anything but zeros, one changes all the same.
std::vector<tensor_bytes> with_one_change(const task_instance& at,
                                          const std::vector<tensor_bytes>& inputs,
                                          std::uint64_t seed) {
  constexpr std::uint64_t tries = 24;
  std::vector<tensor_bytes> changed;
  for (std::uint64_t t = 0; t < tries; ++t) {
    changed = inputs;
    change_one_element(at, changed, seed + t);
    if (!zeros_differ(at, inputs, changed)) break;
  }
  return changed;
}

base::status draw_cases(module_task& to) {
  const task_instance& at = to.timed.instance;
  auto& cases = to.timed.cases;
  const auto add = [&](std::string name, std::uint64_t call,
                       std::string_view family) -> base::status {
    QUERN_TRY(auto inputs, to.content->draw(call, family));
    cases.push_back({std::move(name), std::move(inputs), {}});
    return {};
  };
  QUERN_CHECK(add("as get_inputs makes them", nominal_call, "nominal"));
  QUERN_CHECK(add("once more", second_call, "nominal"));
  if (at.inputs.empty()) return {};
  cases.push_back(
      {"one element changed", with_one_change(at, cases.front().inputs, to.making.seed), {}});
  for (std::size_t f = 0; f < module_families.size(); ++f) {
    const std::string_view family = module_families[f];
    if (makes_ties(family) && has_whole_numbers(at)) continue;
    QUERN_CHECK(add(std::string(family), first_family_call + f, family));
  }
  return {};
}

/// What the reference gives on every case, and how far from it a candidate may be. Hidden cases on
/// which it cannot judge are left out.
base::status expect(module_task& to, python_child& process) {
  const task_instance& at = to.timed.instance;
  module_oracle oracle(process, at);
  QUERN_CHECK(oracle.open(false));
  for (expected_case& one : to.timed.cases) {
    auto want = oracle.run(one.inputs);
    if (!want) return base::in_context(one.name, want.error());
    one.want = std::move(*want);
  }
  std::vector<std::vector<tensor_bytes>> wide(to.timed.cases.size());
  to.compared_with_f64 = oracle.open(true).has_value();
  for (std::size_t c = 0; c < wide.size() && to.compared_with_f64; ++c) {
    auto results = oracle.run(to.timed.cases[c].inputs);
    to.compared_with_f64 = results.has_value();
    if (results) wide[c] = std::move(*results);
  }
  std::vector<expected_case> kept;
  double first_error = 0;
  for (std::size_t c = 0; c < wide.size(); ++c) {
    expected_case& one = to.timed.cases[c];
    const result_scale scale = scale_of(
        at.outputs, one.want, to.compared_with_f64 ? wide[c] : std::vector<tensor_bytes>());
    one.limit = calibrated(to.subject->tolerance, scale);
    if (c == 0) first_error = scale.worst_error;
    if (c == 0 && !one.limit)
      return base::fail(
          base::errc::invalid_argument,
          "the reference differs from itself in f64 by {:.3g}, its results have a root "
          "mean square of {:.3g}: more than a sixteenth",
          scale.worst_error, scale.least_rms);
    if (!one.limit || (c > 0 && !scale.finite && kept.front().limit)) continue;
    kept.push_back(std::move(one));
  }
  to.timed.cases = std::move(kept);
  to.limit = *to.timed.cases.front().limit;
  if (to.limit.atol > 0) to.share_of_limit = first_error / to.limit.atol;
  return {};
}

base::status check_size_of(const module_sheet& sheet, const task_instance& at) {
  QUERN_TRY(const auto weights, weight_layouts(sheet));
  std::int64_t bytes = 0;
  for (const auto* list : {&at.inputs, &at.outputs, &weights})
    for (const tensor_layout& one : *list)
      bytes += one.bytes;
  if (bytes <= most_call_bytes) return {};
  return base::fail(
      base::errc::exhausted,
      "inputs, results and weights have {} MiB, on a core at most {}: no core can judge it",
      bytes >> 20, most_call_bytes >> 20);
}

base::status check_use_of(const module_sheet& sheet) {
  if (sheet.keeps_state)
    return base::fail(
        base::errc::invalid_argument,
        "the reference's result depends on the calls before: no two runs of it can be "
        "compared");
  if (sheet.draws)
    return base::fail(base::errc::invalid_argument,
                      "the reference draws random numbers in forward: no two runs of it can be "
                      "compared");
  return {};
}

/// Before memory is taken: sizes by tensors without values, where the module can be described by
/// them.
base::status check_size_ahead(python_child& reference, const module_making& making) {
  const auto text = reference.describe_without_values(making, describe_limits);
  if (!text) return {};
  const auto sheet = parse_module_sheet(*text);
  if (!sheet) return {};
  const auto at = instance_of(*sheet);
  return at ? check_size_of(*sheet, *at) : base::status();
}

/// What is not on this machine, and cannot be had in a sandbox.
base::status check_needs_of(const task& subject) {
  for (const torch_need& need : pytorch_of(subject).needs)
    if (need.what == torch_need::kind::weights)
      return base::fail(base::errc::exhausted, "needs {}, which no host of this device class has",
                        to_text(need));
  return {};
}

/// The weights of a described reference, in memory that nobody else can write.
base::expected<module_weights> weights_of(python_child& reference, const module_sheet& sheet) {
  QUERN_TRY(const auto written, make_weights(sheet, memory_use::outputs));
  if (const auto answered = reference.write_weights(written, reference_limits); !answered)
    return tl::make_unexpected(reference_error(answered.error()));
  QUERN_TRY(auto kept, make_weights(sheet, memory_use::inputs));
  std::ranges::copy(written.file.bytes(), kept.file.bytes().begin());
  return kept;
}

}  // namespace

base::expected<text_file> write_module(std::string_view name, const std::string& text) {
  QUERN_TRY(auto folder, base::temp_folder::make_held("quern-module"));
  const fs::path path = folder.path() / name;
  QUERN_CHECK(base::write_file_atomic(path, text));
  // Children are other users.
  std::error_code failed;
  fs::permissions(folder.path(),
                  fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec, failed);
  if (!failed)
    fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read,
                    failed);
  if (failed)
    return base::fail(base::errc::io, "making {} readable: {}", path.string(), failed.message());
  return text_file{std::move(folder), path};
}

base::expected<python_child> loaded_reference(python_zygote& zygote, const std::string& path,
                                              int core) {
  python_start how;
  how.core = core;
  how.read_only = {path};
  QUERN_TRY(auto child, zygote.fork(how));
  if (const auto loaded = child.load(path, load_limits); !loaded)
    return tl::make_unexpected(reference_error(loaded.error()));
  return child;
}

base::expected<described_module> describe_module(std::shared_ptr<const task> subject,
                                                 python_zygote& zygote, std::uint64_t input_seed) {
  QUERN_CHECK(validate(*subject));
  QUERN_CHECK(check_needs_of(*subject));
  QUERN_TRY(auto file, write_module("reference.py", subject->reference));
  QUERN_TRY(auto child, loaded_reference(zygote, file.path.string(), -1));
  base::random_stream numbers(input_seed, "weights of a module");
  const module_making making{std::string(name_of(pytorch_of(*subject).precision)),
                             numbers.next_u64() >> 2};
  QUERN_CHECK(check_size_ahead(child, making));
  const auto text = child.describe(making, describe_limits);
  if (!text) return tl::make_unexpected(reference_error(text.error()));
  QUERN_TRY(auto sheet, parse_module_sheet(*text));
  QUERN_TRY(auto at, instance_of(sheet));
  QUERN_CHECK(check_size_of(sheet, at));
  QUERN_TRY(auto weights, weights_of(child, sheet));

  auto made = std::make_unique<module_task>(std::move(file.folder), std::move(weights));
  made->subject = std::move(subject);
  made->id = task_id(*made->subject);
  made->reference = file.path;
  made->sheet = std::move(sheet);
  made->making = making;
  made->timed.instance = std::move(at);
  return described_module{std::move(made), std::move(child)};
}

std::unique_ptr<module_content> content_of(const module_task& of, python_child process,
                                           std::uint64_t input_seed) {
  return std::make_unique<module_content>(std::move(process), of.timed.instance,
                                          base::hasher().add(input_seed).add(of.id).digest().low);
}

base::expected<std::unique_ptr<module_task>> prepare_module(std::shared_ptr<const task> subject,
                                                            python_zygote& zygote,
                                                            std::uint64_t input_seed,
                                                            core_peak& peak) {
  QUERN_TRY(auto described, describe_module(std::move(subject), zygote, input_seed));
  auto& [made, child] = described;
  QUERN_CHECK(check_use_of(made->sheet));
  made->floor_ns =
      roofline_floor_ns(made->timed.instance, peak.at(made->timed.instance.cost_bytes, false));

  QUERN_TRY(auto source, loaded_reference(zygote, made->reference.string(), -1));
  if (const auto again = source.describe(made->making, describe_limits); !again)
    return tl::make_unexpected(reference_error(again.error()));
  made->content = content_of(*made, std::move(source), input_seed);
  QUERN_CHECK(draw_cases(*made));
  QUERN_CHECK(expect(*made, child));
  made->bytes = bytes_of(made->timed) + made->weights.file.bytes().size();
  return std::move(made);
}

base::expected<std::unique_ptr<module_process>> fresh_reference(const module_task& of,
                                                                python_zygote& zygote, int core) {
  QUERN_TRY(auto child, loaded_reference(zygote, of.reference.string(), core));
  auto process = std::make_unique<module_process>(zygote, std::move(child));
  const auto made = process->child().construct(of.making, of.sheet, of.weights, describe_limits);
  if (!made) return tl::make_unexpected(reference_error(made.error()));
  return process;
}

}  // namespace quern::env
