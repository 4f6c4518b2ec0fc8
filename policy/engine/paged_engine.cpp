// The paged method: a schedule decides, a paged decoder computes, results are read a step late.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "base/log.hpp"
#include "policy/engine/device_queue.hpp"
#include "policy/engine/generation_engine.hpp"
#include "policy/engine/generation_schedule.hpp"
#include "policy/engine/paged_decoder.hpp"
#include "policy/engine/paged_input.hpp"
#include "policy/engine/paged_requests.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// A pass whose results are on their way.
struct passed {
  std::int64_t step = 0;
  version_segment made_by;
  std::vector<std::uint64_t> serials;  ///< of each sample
  device_results results;
};

/// Input and output of one kind of pass, at addresses that graphs know.
struct pass_buffers {
  at::Tensor input, output;
  std::vector<std::int32_t> uploaded;  ///< what `input` holds
};

/// Pages of a sequence that its slot's table on the device has.
struct sent_table {
  std::uint64_t serial = 0;
  std::size_t pages = 0;
};

class paged_engine final : public generation_engine {
 public:
  paged_engine(const generator_options& options, device_queue queue, parameter_arena weights,
               paged_decoder decoder, const schedule_limits& limits)
      : options_(options),
        queue_(std::move(queue)),
        weights_(std::move(weights)),
        decoder_(std::move(decoder)),
        schedule_(limits),
        requests_(options.slots, options.capacity, weights_.config.eos_tokens),
        tables_sent_(static_cast<std::size_t>(limits.slots)) {}

  void start(std::int64_t version, const base::hash128& hash);
  void submit(std::span<const generation_request> requests) override;
  bool cancel(std::uint64_t id) override;
  std::vector<generation_result> step() override;
  bool in_flight(std::uint64_t id) const override { return requests_.serial_of(id).has_value(); }
  std::size_t in_flight() const override { return requests_.size(); }
  bool idle() const override { return requests_.size() == 0 && !requests_.has_ended(); }
  base::status install(parameter_arena& staged, std::int64_t version,
                       const base::hash128& hash) override;
  const generator_counters& counters() const override { return counters_; }
  base::status copy_weights(const parameter_arena& from);

 private:
  void compute(const schedule_step& plan);
  void send_edits(const schedule_step& plan);
  void add_table_edits(std::int32_t slot, std::uint64_t serial, std::vector<std::int32_t>& edits);
  void pass_prompts(const schedule_step& plan);
  void pass_rows(const schedule_step& plan);
  void pass_together(const schedule_step& plan);
  void run_graph(pass_input& input, std::vector<std::uint64_t> serials);
  void launch(const pass_input& input, pass_buffers& buffers);
  void remember(const at::Tensor& output, std::vector<std::uint64_t> serials);
  void read_before(std::int64_t step);
  void read(passed& pass);

  generator_options options_;
  device_queue queue_;
  parameter_arena weights_;
  paged_decoder decoder_;
  generation_schedule schedule_;
  paged_requests requests_;
  std::vector<sent_table> tables_sent_;                         ///< of each slot
  pass_buffers fixed_;                                          ///< of passes that can be captured
  std::map<std::int32_t, std::optional<std::int32_t>> graphs_;  ///< by rows; none: not captured
  std::vector<std::uint64_t> cancelled_;
  std::deque<passed> pending_;
  generator_counters counters_;
  version_segment made_by_;
  std::int64_t steps_ = 0;
};

void paged_engine::start(std::int64_t version, const base::hash128& hash) {
  made_by_ = {0, version, hash};
  const device_queue::scope here(queue_);
  const std::int32_t rows = options_.exact ? options_.rows : options_.slots;
  fixed_.uploaded.assign(static_cast<std::size_t>(pass_input(rows, options_.slots).words().size()),
                         0);
  fixed_.input = queue_.upload(fixed_.uploaded);
  fixed_.output =
      queue_.upload(std::vector<std::int32_t>(static_cast<std::size_t>(options_.slots) * 4, 0));
}

void paged_engine::submit(std::span<const generation_request> requests) {
  for (const auto& group : requests_.add(requests))
    schedule_.add(group);
}

bool paged_engine::cancel(std::uint64_t id) {
  const auto serial = requests_.serial_of(id);
  if (serial) cancelled_.push_back(*serial);
  return serial.has_value();
}

void paged_engine::read(passed& pass) {
  const auto words = pass.results.wait();
  for (std::size_t i = 0; i < pass.serials.size(); ++i)
    if (requests_.take(pass.serials[i], words.data() + 4 * i, pass.made_by))
      schedule_.finish(pass.serials[i]);
}

void paged_engine::read_before(std::int64_t step) {
  while (!pending_.empty() && pending_.front().step < step) {
    read(pending_.front());
    pending_.pop_front();
  }
}

void paged_engine::remember(const at::Tensor& output, std::vector<std::uint64_t> serials) {
  const auto count = static_cast<std::int64_t>(serials.size());
  if (count == 0) return;
  pending_.push_back(
      {steps_, made_by_, std::move(serials), queue_.download(output.narrow(0, 0, 4 * count))});
}

/// The pages of the sequence in a slot that the slot's table on the device does not have yet.
void paged_engine::add_table_edits(std::int32_t slot, std::uint64_t serial,
                                   std::vector<std::int32_t>& edits) {
  const auto pages = schedule_.book().pages_of(slot);
  sent_table& sent = tables_sent_[static_cast<std::size_t>(slot)];
  // Who takes up the prompt of a leader that is gone begins behind the prompt's first chunk.
  if (sent.serial != serial) sent = {serial, 0};
  for (; sent.pages < pages.size(); ++sent.pages) {
    edits.push_back(static_cast<std::int32_t>(decoder_.table_offset(slot)) +
                    static_cast<std::int32_t>(sent.pages));
    edits.push_back(pages[sent.pages]);
  }
}

void paged_engine::send_edits(const schedule_step& plan) {
  std::vector<std::int32_t> edits;
  for (const prompt_chunk& p : plan.chunks) {
    if (p.begin == 0) tables_sent_[static_cast<std::size_t>(p.slot)] = {};
    add_table_edits(p.slot, p.serial, edits);
    if (!p.last) continue;
    const auto add_state = [&](std::uint64_t serial, std::int32_t slot) {
      requests_.add_state(serial, static_cast<std::int32_t>(decoder_.state_offset(slot)), p.end - 1,
                          edits);
    };
    add_state(p.serial, p.slot);
    for (const prompt_chunk::member& m : p.members) {
      tables_sent_[static_cast<std::size_t>(m.slot)] = {};
      add_table_edits(m.slot, m.serial, edits);
      add_state(m.serial, m.slot);
    }
  }
  for (const decode_row& row : plan.rows)
    add_table_edits(row.slot, row.serial, edits);
  if (!edits.empty()) decoder_.apply(queue_.upload(edits));
}

void paged_engine::launch(const pass_input& input, pass_buffers& buffers) {
  if (buffers.uploaded.size() < input.words().size() ||
      !std::equal(input.words().begin(), input.words().end(), buffers.uploaded.begin())) {
    queue_.upload_into(buffers.input, input.words());
    std::copy(input.words().begin(), input.words().end(), buffers.uploaded.begin());
  }
  const pass_shape& shape = input.shape();
  const auto graph = graphs_.find(shape.rows);
  if (graph != graphs_.end() && graph->second) {
    queue_.replay(*graph->second);
  } else {
    decoder_.queue(shape, buffers.input, buffers.output);
  }
}

/// A pass of a shape that comes again and again. The first time it runs on padding, so that
/// libraries load and choose, and is captured; where that fails it is queued kernel by kernel ever
/// after, which takes the host longer and gives the same.
void paged_engine::run_graph(pass_input& input, std::vector<std::uint64_t> serials) {
  const pass_shape& shape = input.shape();
  if (queue_.can_capture() && !graphs_.contains(shape.rows)) {
    const pass_input padding(shape.rows, shape.samples);
    launch(padding, fixed_);
    const auto graph = queue_.capture([&] { decoder_.queue(shape, fixed_.input, fixed_.output); });
    auto& known = graphs_[shape.rows];
    if (graph) {
      known = *graph;
      ++counters_.graphs;
    } else {
      base::log_warn("generator", "passes of {} rows go kernel by kernel, at less speed: {}",
                     shape.rows, graph.error().message);
    }
  }
  launch(input, fixed_);
  ++counters_.forward_passes;
  remember(fixed_.output, std::move(serials));
}

void paged_engine::pass_rows(const schedule_step& plan) {
  counted_pass pass = input_of_rows(plan, requests_, options_.slots);
  counters_.padded_rows += pass.padding;
  run_graph(pass.input, std::move(pass.serials));
}

void paged_engine::pass_prompts(const schedule_step& plan) {
  const bool flash = queue_.device().is_cuda() && !options_.full_precision;
  counted_pass pass = input_of_prompts(plan, requests_, flash);
  counters_.prompt_rows += pass.prompt_rows;
  const at::Tensor words = queue_.upload(pass.input.finished_words());
  const at::Tensor output = queue_.upload(
      std::vector<std::int32_t>(4 * std::max<std::size_t>(pass.serials.size(), 1), 0));
  decoder_.queue(pass.input.shape(), words, output);
  ++counters_.forward_passes;
  remember(output, std::move(pass.serials));
}

void paged_engine::pass_together(const schedule_step& plan) {
  counted_pass pass = input_of_everything(plan, requests_, options_.rows, options_.slots);
  counters_.padded_rows += pass.padding;
  counters_.prompt_rows += pass.prompt_rows;
  run_graph(pass.input, std::move(pass.serials));
}

void paged_engine::compute(const schedule_step& plan) {
  send_edits(plan);
  const auto copy_pages = [&] {
    if (plan.copies.empty()) return;
    std::vector<std::int32_t> pairs;
    for (const page_copy& c : plan.copies)
      pairs.insert(pairs.end(), {c.from, c.to});
    decoder_.copy_pages(queue_.upload(pairs));
  };
  if (options_.exact) {
    pass_together(plan);
    copy_pages();
    return;
  }
  if (!plan.chunks.empty()) pass_prompts(plan);
  copy_pages();
  if (!plan.rows.empty()) pass_rows(plan);
}

std::vector<generation_result> paged_engine::step() {
  const device_queue::scope here(queue_);
  for (std::uint64_t serial : std::exchange(cancelled_, {}))
    if (requests_.end(serial, finish_reason::cancelled)) schedule_.finish(serial);
  const schedule_step plan = schedule_.next();
  counters_.preemptions = schedule_.preemptions();
  const bool had_results = !pending_.empty();
  if (!plan.empty()) {
    ++steps_;
    counters_.cache_held += schedule_.book().pages() - schedule_.book().free_pages();
    counters_.cache_room += schedule_.book().pages();
    compute(plan);
    read_before(steps_);
  } else {
    read_before(steps_ + 1);
    if (!had_results && !requests_.has_ended() && !schedule_.idle())
      throw std::runtime_error(
          fmt::format("{} sequences are in flight, but there is nothing to do", requests_.size()));
  }
  counters_.sampled_tokens = requests_.sampled_tokens();
  return requests_.take_ended();
}

/// In chunks, so that a conversion never needs a second copy of everything.
base::status paged_engine::copy_weights(const parameter_arena& from) {
  const device_queue::scope here(queue_);
  try {
    constexpr std::int64_t chunk = std::int64_t{1} << 26;
    for (std::int64_t at = 0; at < from.flat.numel(); at += chunk) {
      const std::int64_t count = std::min(chunk, from.flat.numel() - at);
      weights_.flat.narrow(0, at, count).copy_(from.flat.narrow(0, at, count));
    }
    queue_.wait();
  } catch (const std::exception& e) {
    return fail(errc::unavailable, "copying weights to {}: {}", queue_.device().str(), e.what());
  }
  return {};
}

base::status paged_engine::install(parameter_arena& staged, std::int64_t version,
                                   const base::hash128& hash) {
  if (options_.exact) {
    const device_queue::scope here(queue_);
    read_before(steps_ + 1);
    schedule_.restart();
  }
  QUERN_CHECK(copy_weights(staged));
  made_by_ = {0, version, hash};
  return {};
}

/// Of a process on a GPU: CUDA's context, cuBLAS, buffers of decoding.
constexpr std::int64_t context_bytes = std::int64_t{1} << 30;

/// How many pages: for everybody in full, or what memory allows.
base::expected<std::int32_t> pages_of_store(const quern_policy_kernels& kernels,
                                            const model_config& config,
                                            const generator_options& options, bool half,
                                            std::int64_t weight_bytes, std::int64_t next_bytes) {
  const std::int64_t bytes = paged_decoder::page_bytes(config, options.page, half),
                     one = (options.capacity + options.page - 1) / options.page;
  std::int64_t allowed = options.cache_bytes;
  if (allowed == 0) {
    std::int64_t free_bytes = 0, total_bytes = 0;
    if (const auto code = kernels.memory(&free_bytes, &total_bytes); code != 0)
      return fail(errc::unavailable, "memory of the device: {}", kernels.problem(code));
    // Of what is left to itself, weights, those of the next version and context are taken already.
    const std::int64_t own =
        options.leave_bytes > 0 ? weight_bytes + next_bytes + context_bytes : 0;
    allowed =
        std::clamp<std::int64_t>(total_bytes - options.leave_bytes - own, 0, free_bytes) / 5 * 4;
  }
  const std::int64_t pages = std::min(one * options.slots, allowed / bytes);
  if (pages < one)
    return fail(errc::exhausted,
                "{} bytes hold {} pages of {} positions, but one sequence of {} positions needs "
                "{}: raise cache_bytes or lower the capacity ({} bytes are left to others)",
                allowed, pages, options.page, options.capacity, one, options.leave_bytes);
  return static_cast<std::int32_t>(pages);
}

}  // namespace

base::expected<std::unique_ptr<generation_engine>> make_paged_engine(
    const parameter_arena& initial, std::int64_t version, const base::hash128& hash,
    const generator_options& options, const parallel_context& context) {
  QUERN_CHECK(check(context));
  const at::Device device = options.device.value_or(initial.flat.device());
  const model_config& config = initial.config;
  if (options.slots < 1 || options.slots > 4096 || options.page < 32 || options.page % 32 != 0 ||
      options.capacity < 1 || options.capacity > config.max_positions || options.prompt_rows < 1 ||
      (options.exact && (options.rows < 1 || options.rows > 4096)))
    return fail(errc::invalid_argument,
                "slots {} (1 to 4096), page {} (a multiple of 32), capacity {} (1 to {}), "
                "prompt_rows {} (above 0), rows {} (1 to 4096)",
                options.slots, options.page, options.capacity, config.max_positions,
                options.prompt_rows, options.rows);
  const quern_policy_kernels* kernels = &host_policy_kernels();
  generator_options own = options;
  if (device.is_cpu()) {
    own.full_precision = true;  // LibTorch's CPU products have no use for bfloat16
  } else {
    QUERN_TRY(kernels, cuda_policy_kernels());
  }
  const bool half = !own.full_precision;
  QUERN_TRY(device_queue queue, device_queue::make(device, own.graphs));
  const device_queue::scope here(queue);
  parameter_arena weights;
  try {
    weights = initial.empty_as(half ? at::kBFloat16 : at::kFloat, queue.device());
  } catch (const std::exception& e) {
    return fail(errc::exhausted, "cannot allocate {} weights on {}: {}", initial.flat.numel(),
                device.str(), e.what());
  }
  QUERN_TRY(
      const std::int32_t pages,
      pages_of_store(*kernels, config, own, half, static_cast<std::int64_t>(weights.flat.nbytes()),
                     static_cast<std::int64_t>(initial.flat.nbytes())));
  paged_sizes sizes;
  sizes.slots = own.slots;
  sizes.capacity = own.capacity;
  sizes.pages = pages;
  sizes.page = own.page;
  sizes.decode_rows = own.exact ? own.rows : own.slots;
  sizes.rows = own.exact ? own.rows : std::max(own.slots, own.prompt_rows);
  sizes.valid = own.valid_tokens > 0 ? own.valid_tokens : config.vocab_size;
  QUERN_TRY(paged_decoder decoder, paged_decoder::make(*kernels, weights, sizes));
  const schedule_limits limits{own.slots, pages, own.page, own.prompt_rows,
                               own.exact ? own.rows : 0};
  auto engine = std::make_unique<paged_engine>(own, std::move(queue), std::move(weights),
                                               std::move(decoder), limits);
  QUERN_CHECK(engine->copy_weights(initial));
  engine->start(version, hash);
  return std::unique_ptr<generation_engine>(std::move(engine));
}

}  // namespace quern::policy
