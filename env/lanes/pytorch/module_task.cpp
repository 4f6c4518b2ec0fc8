// What does not depend on the candidate.
#include "env/lanes/pytorch/module_task.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "env/lanes/pytorch/calibration.hpp"
#include "env/lanes/pytorch/module_oracle.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr question_limits load_limits{60, 240};
constexpr question_limits describe_limits{120, 480};
constexpr question_limits reference_limits{120, 480};

/// Numbers of contents, so that none is drawn twice: those of timed calls begin behind them.
constexpr std::uint64_t nominal_call = 0, second_call = 1, first_family_call = 2,
                        first_call_in_a_row = first_family_call + module_families.size();
/// Calls that a state is followed through.
constexpr std::uint64_t calls_in_a_row = 4;

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

/// Contents of calls through which a state is followed.
base::status draw_calls_in_a_row(module_task& to) {
  for (std::uint64_t c = 0; to.sheet.keeps_state && c < calls_in_a_row; ++c) {
    QUERN_TRY(auto inputs, to.content->draw(first_call_in_a_row + c, "nominal"));
    to.timed.in_a_row.push_back({fmt::format("call {} in a row", c + 1), std::move(inputs), {}});
  }
  return {};
}

/// Limits of all outputs on one content. Error: which output of the reference is itself too far
/// from what it computes in f64.
base::expected<output_limits> limits_of(const task_instance& at, const tolerance& relative,
                                        std::span<const result_scale> scales) {
  std::vector<tolerance> limits;
  for (std::size_t o = 0; o < scales.size(); ++o) {
    const auto limit = calibrated(relative, scales[o]);
    if (!limit)
      return base::fail(base::errc::invalid_argument,
                        "output '{}' of the reference differs from itself in f64 by {:.3g}, its "
                        "root mean square is {:.3g}: more than a sixteenth",
                        at.outputs[o].name, scales[o].worst_error, scales[o].rms);
    limits.push_back(*limit);
  }
  if (limits.empty()) return output_limits(relative);
  return output_limits(std::move(limits));
}

/// The results of the reference in f64 on every case; none where it does not run in f64.
std::vector<std::vector<tensor_bytes>> results_in_f64(module_oracle& oracle,
                                                      std::span<const expected_case> cases) {
  std::vector<std::vector<tensor_bytes>> wide;
  if (!oracle.open(true)) return {};
  for (const expected_case& one : cases) {
    auto results = oracle.run(one.inputs);
    if (!results) return {};
    wide.push_back(std::move(*results));
  }
  return wide;
}

bool are_finite(std::span<const result_scale> scales) {
  return std::ranges::all_of(scales, [](const result_scale& one) { return one.finite; });
}

/// Largest share of its limit that the reference's own error takes in an output.
double largest_share(std::span<const result_scale> scales, const output_limits& limits) {
  double most = 0;
  for (std::size_t o = 0; o < scales.size(); ++o)
    if (limits.at(o).atol > 0) most = std::max(most, scales[o].worst_error / limits.at(o).atol);
  return most;
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
  // In f64 other numbers are drawn.
  const auto wide = to.sheet.draws ? std::vector<std::vector<tensor_bytes>>()
                                   : results_in_f64(oracle, to.timed.cases);
  to.compared_with_f64 = !wide.empty();
  std::vector<expected_case> kept;
  for (std::size_t c = 0; c < to.timed.cases.size(); ++c) {
    expected_case& one = to.timed.cases[c];
    const auto scales =
        scales_of(at.outputs, one.want, wide.empty() ? std::span<const tensor_bytes>() : wide[c]);
    auto limits = limits_of(at, to.subject->tolerance, scales);
    if (c == 0) {
      QUERN_TRY(to.limit, limits);
      to.share_of_limit = largest_share(scales, to.limit);
    } else if (!limits || !are_finite(scales)) {
      continue;
    }
    one.limit = std::move(*limits);
    kept.push_back(std::move(one));
  }
  to.timed.cases = std::move(kept);
  return {};
}

/// The same of calls in a row. Of each the reference must be able to judge: nothing else tells that
/// a state is kept as it should be.
base::status expect_in_a_row(module_task& to, python_child& process) {
  auto& calls = to.timed.in_a_row;
  if (calls.empty()) return {};
  const task_instance& at = to.timed.instance;
  module_oracle oracle(process, at);
  std::vector<std::vector<tensor_bytes>> wide(calls.size());
  if (to.compared_with_f64) {
    QUERN_CHECK(oracle.open(true, std::ssize(calls)));
    QUERN_TRY(wide, oracle.run_in_a_row(calls));
  }
  QUERN_CHECK(oracle.open(false, std::ssize(calls)));
  QUERN_TRY(auto want, oracle.run_in_a_row(calls));
  for (std::size_t c = 0; c < calls.size(); ++c) {
    calls[c].want = std::move(want[c]);
    const auto scales = scales_of(at.outputs, calls[c].want, wide[c]);
    auto limits = limits_of(at, to.subject->tolerance, scales);
    if (!limits)
      return base::fail(base::errc::invalid_argument,
                        "the reference keeps state, and of {} {}: no candidate can follow it. Give "
                        "the task fewer or smaller steps between calls",
                        calls[c].name, limits.error().message);
    calls[c].limit = std::move(*limits);
  }
  return {};
}

base::status check_use_of(const module_sheet& sheet) {
  const bool has_tensors = std::any_of(sheet.arguments.begin(), sheet.arguments.end(),
                                       [](const auto& one) { return one.value.empty(); });
  if (!sheet.repeats)
    return base::fail(
        base::errc::invalid_argument,
        "the reference gives two results for one input: what a call leaves behind may be in "
        "buffers, and in tensors, numbers and texts that its modules have as attributes, and "
        "random "
        "numbers may be those of torch, random and numpy. Keep to these, so that it can be judged");
  if (sheet.draws && !has_tensors)
    return base::fail(base::errc::invalid_argument,
                      "the reference draws random numbers in forward and takes no tensor: numbers "
                      "are seeded by the inputs of a call. Give get_inputs a tensor");
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

base::status check_needs_of(const task& subject) {
  for (const torch_need& need : pytorch_of(subject).needs)
    if (need.what == torch_need::kind::weights)
      return base::fail(base::errc::exhausted, "needs {}, which no host of this device class has",
                        to_text(need));
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

base::expected<std::unique_ptr<module_task>> prepare_module(std::shared_ptr<const task> subject,
                                                            python_zygote& zygote,
                                                            std::uint64_t input_seed,
                                                            core_peak& peak) {
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
  QUERN_CHECK(check_use_of(sheet));
  QUERN_TRY(auto at, instance_of(sheet));
  QUERN_CHECK(check_size_of(sheet, at));
  QUERN_TRY(auto weights, weights_of(child, sheet));

  auto made = std::make_unique<module_task>(std::move(file.folder), std::move(weights));
  made->subject = subject;
  made->id = task_id(*subject);
  made->reference = file.path;
  made->sheet = std::move(sheet);
  made->making = making;
  made->timed.instance = std::move(at);
  made->floor_ns =
      roofline_floor_ns(made->timed.instance, peak.at(made->timed.instance.cost_bytes, false));

  QUERN_TRY(auto source, loaded_reference(zygote, made->reference.string(), -1));
  if (const auto described = source.describe(making, describe_limits); !described)
    return tl::make_unexpected(reference_error(described.error()));
  made->content =
      std::make_unique<module_content>(std::move(source), made->timed.instance,
                                       base::hasher().add(input_seed).add(made->id).digest().low);
  QUERN_CHECK(draw_cases(*made));
  QUERN_CHECK(draw_calls_in_a_row(*made));
  QUERN_CHECK(expect(*made, child));
  QUERN_CHECK(expect_in_a_row(*made, child));
  made->bytes = bytes_of(made->timed) + made->weights.file.bytes().size();
  return made;
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
