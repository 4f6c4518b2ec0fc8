// Timing a candidate against its baseline on one device.
#include "env/gpu/timing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "env/gpu/slots.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Least length of a window of the shorter side, by its own events: what stands around a window
/// (two changes of context, a message each way) takes about as long.
constexpr double window_ns = 8e5;
constexpr std::int64_t least_calls = 2;
/// Of device memory for the slots of one window.
constexpr std::uint64_t slot_memory = 6ULL << 30;
/// NaN in every floating type, and a large finite number.
constexpr std::array<std::uint32_t, 2> poison_words{0xFFFFFFFF, 0x7B7B7B7B};
constexpr std::uint64_t gate_timeout_ns = 60'000'000;
constexpr double reference_wall_s = 60;

/// What a kernel left in the cache and in the tag store of the last call must not help the next:
/// twice the cache is read before every call.
quern_window_settings settings_for(const device_desk& desk) {
  return {2 * desk.facts().l2_bytes, gate_timeout_ns};
}

finding host_trouble(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

class stretch {
 public:
  explicit stretch(double& seconds) : seconds_(seconds), start_(clock_.now_ns()) {}
  ~stretch() { seconds_ += static_cast<double>(clock_.now_ns() - start_) * 1e-9; }
  stretch(const stretch&) = delete;
  stretch& operator=(const stretch&) = delete;

 private:
  base::steady_clock clock_;
  double& seconds_;
  base::nanoseconds_t start_;
};

class gpu_session {
 public:
  explicit gpu_session(const gpu_timing_request& r)
      : r_(r), order_(r.order_seed, "order of windows"), call_(r.first_call) {}

  gpu_timing_result run();

 private:
  finding set_up(std::int64_t slots);
  finding rehearse(std::int64_t& slots);
  /// New content in all slots, poison in both sets of outputs and in the workspace; queued.
  void refresh();
  finding window(bool candidate, std::size_t runner, double& per_call_ns);
  finding pair(std::size_t runner, bool candidate_first, window_pair& times);
  void queue_checks();
  finding judge(const std::vector<device_finding>& found);
  [[nodiscard]] bool narrow() const;

  const gpu_timing_request& r_;
  base::random_stream order_;
  std::uint64_t call_;
  std::uint64_t window_first_call_ = 0;
  bool swapped_ = false;  ///< the candidate writes the other set of outputs
  slot_view inputs_, outputs_, other_outputs_;
  quern_window_settings how_{};
  int poison_ = 0;
  gpu_timing_result result_;
};

finding gpu_session::set_up(std::int64_t slots) {
  const auto& at = *r_.instance;
  auto& memory = *r_.memory;
  const auto bytes = [&](const std::vector<tensor_layout>& tensors) {
    return slot_layout(tensors).stride() * static_cast<std::uint64_t>(slots);
  };
  const std::uint64_t workspace =
      std::max(r_.baseline.workspace_bytes, r_.candidate.workspace_bytes);
  for (const auto& [which, wanted] :
       {std::pair{runner::piece_inputs, bytes(at.inputs)},
        std::pair{runner::piece_outputs, bytes(at.outputs)},
        std::pair{runner::piece_other_outputs, bytes(at.outputs)},
        std::pair{runner::piece_workspace, std::max<std::uint64_t>(workspace, 1)}})
    if (auto done = memory.reserve(which, wanted); !done) return host_trouble(done.error().message);
  inputs_ = slot_view(memory.address(runner::piece_inputs), at.inputs, slots);
  outputs_ = slot_view(memory.address(runner::piece_outputs), at.outputs, slots);
  other_outputs_ = slot_view(memory.address(runner::piece_other_outputs), at.outputs, slots);
  inputs_.set_guards(*r_.desk);
  outputs_.set_guards(*r_.desk);
  other_outputs_.set_guards(*r_.desk);
  for (const auto* side : {&r_.baseline, &r_.candidate})
    for (auto* link : side->runners)
      if (auto lent = memory.lend(*link); !lent) return host_trouble(lent.error().text);
  result_.calls_per_window = slots;
  return {};
}

void gpu_session::refresh() {
  const auto& at = *r_.instance;
  window_first_call_ = call_;
  for (std::int64_t s = 0; s < inputs_.slots(); ++s, ++call_)
    for (std::size_t i = 0; i < at.inputs.size(); ++i)
      r_.desk->fill(inputs_.at(i, s), content_of(at.inputs[i], r_.kinds[i], r_.key + i, call_));
  const std::uint32_t word = poison_words[static_cast<std::size_t>(poison_ ^= 1)];
  outputs_.poison(*r_.desk, at.outputs, word);
  other_outputs_.poison(*r_.desk, at.outputs, word);
  const auto& workspace = r_.memory->piece(runner::piece_workspace);
  const std::uint64_t used = std::max(r_.baseline.workspace_bytes, r_.candidate.workspace_bytes);
  if (used != 0) r_.desk->set(workspace.address(), (used + 3) / 4 * 4, word);
  swapped_ = order_.chance(0.5);
}

finding gpu_session::window(bool candidate, std::size_t runner, double& per_call_ns) {
  const auto& side = candidate ? r_.candidate : r_.baseline;
  auto& link = *side.runners[runner % side.runners.size()];
  window_order order;
  order.count = static_cast<std::int32_t>(inputs_.slots());
  order.output_piece = candidate == swapped_ ? runner::piece_other_outputs : runner::piece_outputs;
  order.how = how_;
  const double expected_s = side.call_ns * static_cast<double>(order.count) * 1e-9;
  answered<window_times> times;
  {
    stretch clock(candidate ? result_.seconds.candidate : result_.seconds.baseline);
    times = link.window(order, candidate ? 10 + 50 * expected_s : reference_wall_s);
  }
  if (!times) {
    if (!candidate) return host_trouble("baseline: " + times.error().text);
    const bool late = times.error().what == runner_failure::kind::timeout;
    return {late ? verdict_kind::timeout : verdict_kind::runtime_error, late ? "time" : "",
            times.error().text, std::nullopt};
  }
  const double events = std::accumulate(times->call_ns.begin(), times->call_ns.end(), 0.0);
  per_call_ns = events / static_cast<double>(order.count);
  (candidate ? result_.unexplained_ns : result_.baseline_unexplained_ns)
      .push_back(static_cast<double>(times->wall_ns) - events);
  if (!side.delivers) return {};
  stretch clock(result_.seconds.deliver);
  if (auto done = link.deliver(reference_wall_s); !done)
    return host_trouble("baseline: " + done.error().text);
  return {};
}

void gpu_session::queue_checks() {
  const auto& at = *r_.instance;
  const auto& got = swapped_ ? other_outputs_ : outputs_;
  const auto& want = swapped_ ? outputs_ : other_outputs_;
  for (std::int64_t s = 0; s < inputs_.slots(); ++s) {
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      r_.desk->compare(got.at(o, s), want.at(o, s), at.outputs[o], r_.limit);
    for (std::size_t i = 0; i < at.inputs.size(); ++i)
      r_.desk->check_content(inputs_.at(i, s),
                             content_of(at.inputs[i], r_.kinds[i], r_.key + i,
                                        window_first_call_ + static_cast<std::uint64_t>(s)));
  }
}

finding gpu_session::judge(const std::vector<device_finding>& found) {
  const auto& at = *r_.instance;
  std::size_t next = 0;
  for (std::int64_t s = 0; s < inputs_.slots(); ++s) {
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      if (const auto& f = found[next++]; !f.clean())
        return {verdict_kind::wrong_value, "",
                fmt::format("a timed call is wrong, though the checks before were right: {} of {} "
                            "elements of {}, the first at {}",
                            f.wrong, at.outputs[o].elements, at.outputs[o].name, f.first),
                std::nullopt};
    for (std::size_t i = 0; i < at.inputs.size(); ++i)
      if (const auto& f = found[next++]; !f.clean())
        return {verdict_kind::hack, std::string(name_of(hack_kind::input_modified)),
                fmt::format("{} elements of {} were changed, the first at {}", f.wrong,
                            at.inputs[i].name, f.first),
                std::nullopt};
  }
  return {};
}

finding gpu_session::pair(std::size_t runner, bool candidate_first, window_pair& times) {
  {
    stretch clock(result_.seconds.content);
    refresh();
    if (auto ready = r_.desk->wait(); !ready) return host_trouble(ready.error().message);
  }
  for (const bool candidate : {candidate_first, !candidate_first})
    if (auto f = window(candidate, runner, candidate ? times.cand_ns : times.ref_ns); !f.ok())
      return f;
  stretch clock(result_.seconds.content);
  queue_checks();
  auto found = r_.desk->wait();
  if (!found) return host_trouble(found.error().message);
  return judge(*found);
}

bool gpu_session::narrow() const {
  std::vector<process_pairs> usable;
  for (const auto& run : result_.runs)
    if (run.size() < bucket_count) return false;
  const auto e = estimate_ratio(result_.runs, r_.limits);
  return e && !e->noisy && e->window_half_width <= r_.limits.narrow;
}

finding gpu_session::rehearse(std::int64_t& slots) {
  const auto& at = *r_.instance;
  const std::uint64_t bytes =
      slot_layout(at.inputs).stride() + 3 * slot_layout(at.outputs).stride();
  const std::size_t runners = std::max(r_.baseline.runners.size(), r_.candidate.runners.size());
  slots = least_calls;
  if (auto f = set_up(slots); !f.ok()) return f;
  window_pair times;
  // Twice: the first launch of everything loads it.
  for (std::size_t i = 0; i < 2 * runners; ++i)
    if (auto f = pair(i, i % 2 == 0, times); !f.ok()) return f;
  slots = std::max(least_calls, calls_per_gpu_window(std::min(times.ref_ns, times.cand_ns),
                                                     window_ns, bytes, slot_memory));
  if (auto f = set_up(slots); !f.ok()) return f;
  return {};
}

gpu_timing_result gpu_session::run() {
  base::steady_clock clock;
  const auto start = clock.now_ns();
  const auto seconds = [&] { return static_cast<double>(clock.now_ns() - start) * 1e-9; };
  how_ = settings_for(*r_.desk);
  const auto finish = [&](finding f) {
    result_.what = std::move(f);
    result_.seconds.total = seconds();
    return std::move(result_);
  };
  std::int64_t slots = 0;
  if (auto f = rehearse(slots); !f.ok()) return finish(std::move(f));
  result_.unexplained_ns.clear();
  result_.baseline_unexplained_ns.clear();

  const std::size_t runners = std::max(r_.baseline.runners.size(), r_.candidate.runners.size());
  result_.runs.resize(runners);
  std::vector<double> refs, cands;
  // Orders come in blocks of two, one of each, for every pair of runners.
  std::vector<char> candidate_first(runners, 0);
  const auto least = static_cast<std::int64_t>(bucket_count * runners);
  for (std::int64_t round = 0;; ++round) {
    if (round >= least && (seconds() >= r_.budget_s || narrow())) break;
    if (seconds() >= 4 * r_.budget_s + 2) break;
    const auto turn = static_cast<std::size_t>(round) % (2 * runners);
    const std::size_t runner = turn % runners;
    char& first = candidate_first[runner];
    first = turn < runners ? order_.chance(0.5) : static_cast<char>(first == 0);
    window_pair times;
    if (auto f = pair(runner, first != 0, times); !f.ok()) return finish(std::move(f));
    result_.runs[runner].push_back(times);
    refs.push_back(times.ref_ns);
    cands.push_back(times.cand_ns);
  }
  result_.baseline_ns = median_of(refs);
  result_.candidate_ns = median_of(cands);
  return finish({});
}

}  // namespace

std::int64_t calls_per_gpu_window(double shorter_call_ns, double wanted_ns,
                                  std::uint64_t bytes_per_call, std::uint64_t memory_bytes) {
  const double wanted = std::ceil(wanted_ns / std::max(1.0, shorter_call_ns));
  const double fitting =
      std::floor(static_cast<double>(memory_bytes) /
                 static_cast<double>(std::max<std::uint64_t>(1, bytes_per_call)));
  return static_cast<std::int64_t>(
      std::clamp(std::min(wanted, fitting), 1.0, static_cast<double>(runner::max_window_calls)));
}

gpu_timing_result time_on_device(const gpu_timing_request& request) {
  return gpu_session(request).run();
}

}  // namespace quern::env
