// Limits by what a reference says of its results.
#include "env/lanes/pytorch/gpu/module_limits.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "env/lanes/pytorch/calibration.hpp"
#include "env/lanes/pytorch/module_content.hpp"

namespace quern::env {
namespace {

/// On tensors of gigabytes, in f64.
constexpr question_limits of_calibration = device_limits(300);

/// What a reference said of its results on the content that is there.
struct described_results {
  std::vector<result_scale> scales;
  bool in_f64 = false;  ///< the reference could be run so
};

base::expected<described_results> scales_from(const std::string& text, std::size_t outputs) {
  QUERN_TRY(const auto json, base::parse_json(text, 16));
  const auto found = json.find("scales");
  if (found == json.end() || !found->is_array() || found->size() != outputs)
    return base::fail(base::errc::invalid_argument, "a reference told no scales of its {} results",
                      outputs);
  described_results results;
  for (const auto& one : *found) {
    result_scale scale;
    QUERN_TRY(scale.rms, base::get<double>(one, "rms"));
    QUERN_TRY(scale.worst_error, base::get<double>(one, "worst_error"));
    QUERN_TRY(scale.finite, base::get<bool>(one, "finite"));
    QUERN_TRY(scale.agrees, base::get<bool>(one, "agrees"));
    results.scales.push_back(scale);
  }
  QUERN_TRY(results.in_f64, base::get<bool>(json, "in_f64"));
  return results;
}

/// Of the smallest floating output; the largest number where there is none.
std::int64_t fewest_elements(const task_instance& at) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const tensor_layout& one : at.outputs)
    if (is_floating(one.type)) fewest = std::min(fewest, std::max<std::int64_t>(one.elements, 1));
  return fewest;
}

/// Of what elements of any size are allowed: those that are not small are allowed more.
double largest_share_of(std::span<const result_scale> scales, const output_limits& limits) {
  double largest = 0;
  for (std::size_t o = 0; o < scales.size(); ++o)
    if (const double allowed = limits.at(o).atol; allowed > 0)
      largest = std::max(largest, scales[o].worst_error / allowed);
  return largest;
}

/// `in_f64`: the results are compared with those in f64.
base::expected<described_results> calibrate(device_module_task& of, const module_case& one,
                                            device_context& context, module_memory& memory,
                                            bool in_f64) {
  QUERN_CHECK(make_content(of, {&one, 1}, context, memory));
  context.copy(memory.reference_inputs(), memory.staging(), of.places.inputs.stride());
  if (const auto waited = context.wait(); !waited) return tl::make_unexpected(waited.error());
  const auto text = of.processes.reference->child().calibrate(in_f64, of_calibration);
  if (!text) return base::in_context(one.name, reference_error(text.error()));
  return scales_from(*text, of.places.at.outputs.size());
}

bool all_finite(std::span<const result_scale> scales) {
  return std::ranges::all_of(scales, &result_scale::finite);
}

/// Exhausted: it did not run in f64, which it did on another content, or may do alone.
base::status check_f64(const device_module_task& of, const described_results& results,
                       device_use use) {
  const bool never_ran = of.in_f64 == false || (!of.in_f64 && use == device_use::alone);
  if (results.in_f64 || never_ran) return {};
  return base::fail(base::errc::exhausted,
                    "the reference does not run in f64, maybe for lack of memory");
}

bool is_of_first(const device_module_task& of, const module_case& one) {
  return one.family == of.cases.front().family;
}

void set_first_limit(device_module_task& of, const output_limits& limit) {
  of.is_widened = true;
  for (module_case& one : of.cases)
    if (is_of_first(of, one)) one.limit = limit;
}

/// Of the first case, with what more contents of its distribution show.
base::expected<output_limits> limit_of_more(device_module_task& of, device_context& context,
                                            module_memory& memory) {
  std::vector<std::vector<result_scale>> of_output;
  for (const result_scale& one : of.first_scales)
    of_output.push_back({one});
  module_case other = of.cases.front();
  for (int more = contents_for_limit(fewest_elements(of.places.at)); more > 1; --more) {
    ++other.seed;
    QUERN_TRY(const auto results, calibrate(of, other, context, memory, true));
    // Alone, too: with fewer errors than there are the limit would stay narrow for all.
    if (!results.in_f64)
      return base::fail(base::errc::exhausted,
                        "the reference ran in f64 on one content, and does not on another");
    for (std::size_t o = 0; o < of_output.size(); ++o)
      of_output[o].push_back(results.scales[o]);
  }
  std::vector<result_scale> all;
  for (const auto& contents : of_output)
    all.push_back(pooled(contents));
  auto limit = limits_of(of.places.at, of.subject->tolerance, all);
  if (limit)
    of.share_of_limit = largest_share_of(all, *limit);
  else
    of.cannot_widen = limit.error();  // what the task itself says, it says to all
  return limit;
}

/// By one content, where that is enough or gives one.
base::status find_first_limit(device_module_task& of, described_results results,
                              device_context& context, module_memory& memory) {
  of.first_scales = std::move(results.scales);
  const bool has_more = results.in_f64 && contents_for_limit(fewest_elements(of.places.at)) > 1;
  auto limit = limits_of(of.places.at, of.subject->tolerance, of.first_scales);
  if (!limit && has_more) {
    QUERN_TRY(auto of_more, limit_of_more(of, context, memory));
    const auto& narrow = of.cases.front().narrow;
    set_first_limit(of, narrow ? narrow->widest(of_more) : of_more);
    return {};
  }
  if (!limit) {
    of.cannot_widen = limit.error();
    return tl::make_unexpected(limit.error());
  }
  of.share_of_limit = largest_share_of(of.first_scales, *limit);
  of.cases.front().limit = std::move(*limit);
  of.is_widened = !has_more;
  return {};
}

void leave_out(device_module_task& of, std::size_t place) {
  of.cases.erase(of.cases.begin() + static_cast<std::ptrdiff_t>(place));
}

/// find_limit() as it is now.
base::expected<bool> limit_now(device_module_task& of, std::size_t place, device_context& context,
                               module_memory& memory, device_use use) {
  module_case& one = of.cases[place];
  if (one.limit) return true;
  // Of one distribution: the limits of timed calls, whose contents differ from call to call, too.
  if (is_of_first(of, one) && place > 0) {
    QUERN_CHECK(limit_now(of, 0, context, memory, use));
    one.limit = of.cases.front().limit;
    return true;
  }
  QUERN_TRY(auto results, calibrate(of, one, context, memory, true));
  if (place > 0 && !all_finite(results.scales)) {
    leave_out(of, place);
    return false;
  }
  QUERN_CHECK(check_f64(of, results, use));
  of.in_f64 = of.in_f64.value_or(false) || results.in_f64;
  if (place == 0) {
    QUERN_CHECK(find_first_limit(of, std::move(results), context, memory));
    return true;
  }
  auto limit = limits_of(of.places.at, of.subject->tolerance, results.scales);
  if (!limit) {
    leave_out(of, place);
    return false;
  }
  one.limit = std::move(*limit);
  return true;
}

/// widen_limits() as it is now.
base::expected<bool> wider_now(device_module_task& of, std::span<const module_case> window,
                               device_context& context, module_memory& memory, device_use use) {
  bool wider = false;
  for (const module_case& one : window) {
    const auto known = std::ranges::find(of.cases, one.family, &module_case::family);
    if (known == of.cases.end() || known->limit) continue;
    QUERN_CHECK(
        limit_now(of, static_cast<std::size_t>(known - of.cases.begin()), context, memory, use));
    wider = true;
  }
  const std::string_view first = of.cases.front().family;
  if (wider || std::ranges::find(window, first, &module_case::family) == window.end()) return wider;
  return widen_limit(of, context, memory);
}

/// What the task has said of a distribution stays so.
base::status check_can_widen(const device_module_task& of, const module_case& one) {
  if (of.cannot_widen && is_of_first(of, one)) return tl::make_unexpected(*of.cannot_widen);
  return {};
}

/// What `ask` says, beside others or behind the end of the candidate.
base::expected<bool> or_alone(const device_module_task& of, device_use& use,
                              const candidate_end& end,
                              const std::function<base::expected<bool>(device_use)>& ask) {
  const bool refused = of.cannot_widen.has_value();
  auto found = ask(use);
  // Libraries tell a lack of memory by errors of many kinds. What the task says now, it says alone.
  const bool of_task = !refused && of.cannot_widen;
  if (found || of_task || use == device_use::alone || !end) return found;
  if (!end())
    return base::fail(base::errc::unavailable,
                      "the candidate's process does not end, whose memory the reference needs");
  use = device_use::alone;
  return ask(use);
}

}  // namespace

base::expected<bool> find_limit(device_module_task& of, std::size_t place, device_context& context,
                                module_memory& memory, device_use& use, const candidate_end& end) {
  if (of.cases[place].limit) return true;
  if (!of.cases.front().limit) QUERN_CHECK(check_can_widen(of, of.cases[place]));
  return or_alone(of, use, end,
                  [&](device_use now) { return limit_now(of, place, context, memory, now); });
}

base::expected<bool> find_narrow_limit(device_module_task& of, std::size_t place,
                                       device_context& context, module_memory& memory) {
  module_case& one = of.cases[place];
  if (one.limit || one.narrow) return true;
  if (is_of_first(of, one) && place > 0) {
    QUERN_TRY(const bool found, find_narrow_limit(of, 0, context, memory));
    one.limit = of.cases.front().limit;
    one.narrow = of.cases.front().narrow;
    return found;
  }
  QUERN_TRY(const auto results, calibrate(of, one, context, memory, false));
  if (!all_finite(results.scales)) return false;
  QUERN_TRY(one.narrow, limits_of(of.places.at, of.subject->tolerance, results.scales));
  return true;
}

base::expected<bool> widen_limit(device_module_task& of, device_context& context,
                                 module_memory& memory) {
  if (of.is_widened) return false;
  QUERN_CHECK(check_can_widen(of, of.cases.front()));
  auto limit = limit_of_more(of, context, memory);
  if (!limit) return tl::make_unexpected(limit.error());
  // The first content may have had larger results than others: nobody is held to less than before.
  set_first_limit(of, of.cases.front().limit->widest(*limit));
  return true;
}

const output_limits* limit_of(const device_module_task& of, std::string_view family) {
  const auto one = std::ranges::find(of.cases, family, &module_case::family);
  if (one == of.cases.end()) return nullptr;
  return one->limit ? &*one->limit : one->narrow ? &*one->narrow : nullptr;
}

bool is_left_out(const device_module_task& of, std::string_view family) {
  return std::ranges::find(of.cases, family, &module_case::family) == of.cases.end();
}

base::expected<bool> widen_limits(device_module_task& of, std::span<const module_case> window,
                                  device_context& context, module_memory& memory, device_use& use,
                                  const candidate_end& end) {
  for (const module_case& one : window)
    QUERN_CHECK(check_can_widen(of, one));
  return or_alone(of, use, end,
                  [&](device_use now) { return wider_now(of, window, context, memory, now); });
}

}  // namespace quern::env
