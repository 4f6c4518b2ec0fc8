#include "actors/workers/generation_worker.hpp"

#include <algorithm>

#include "actors/config/learner_setup.hpp"
#include "actors/config/length_check.hpp"
#include "actors/config/placement.hpp"
#include "actors/workers/element_type.hpp"
#include "actors/workers/generator_setup.hpp"
#include "actors/workers/weight_file_reader.hpp"
#include "actors/workers/weight_receiver.hpp"
#include "policy/engine/device.hpp"
#include "policy/text/model_config.hpp"

namespace quern::actors {
namespace {

/// The process sees the generator's GPU alone.
base::expected<device_share> generator_share(const run_config& config, at::Device device) {
  if (!device.is_cuda()) return device_share();
  QUERN_TRY(const placement where, placement_of(config));
  return device_share::make(config, where.generator, static_cast<int>(config.actors.generator_gpu),
                            0);
}

/// The weights that the learner begins with, of its type and where they are computed with. On the
/// host they stay float32, rounded: that is what is computed with there.
base::expected<policy::parameter_arena> first_weights(const welcome& start,
                                                      const run_config& config, at::Device device) {
  if (device.is_cuda() || !start.weights_link.empty())
    return policy::parameter_arena::load(start.checkpoint, element_type_of(config), device);
  QUERN_TRY(auto arena, policy::parameter_arena::load(start.checkpoint));
  arena.flat.copy_(arena.flat.to(element_type_of(config)));
  return arena;
}

/// Over a link where the welcome names one, else from files.
base::expected<std::unique_ptr<weight_fetcher>> open_weights(const welcome& start,
                                                             const run_config& config,
                                                             const own_address& here,
                                                             at::Device device,
                                                             weight_fetcher::news told) {
  QUERN_TRY(device_share share, generator_share(config, device));
  if (start.weights_link.empty()) {
    weight_file_reader::source files{start.weights_folder, start.version};
    files.type = element_type_of(config);
    return std::make_unique<weight_file_reader>(std::move(files), std::move(share),
                                                std::move(told));
  }
  weight_source from;
  from.address = start.weights_link;
  from.host = here.host;
  from.version = start.version;
  QUERN_TRY(from.model, policy::load_model_config(start.checkpoint));
  from.ranks = static_cast<std::int32_t>(config.learner.ranks);
  from.type = element_type_of(config);
  from.device = device;
  return weight_receiver::make(std::move(from), std::move(share), std::move(told));
}

}  // namespace

generation_worker::generation_worker(policy::generator engine, policy::tokenizer text,
                                     policy::chat_format format, const welcome& start,
                                     std::int64_t slots, std::int64_t max_prompt_tokens)
    : engine_(std::move(engine)),
      text_(std::move(text)),
      format_(format),
      incarnation_(start.incarnation),
      slots_(slots),
      max_prompt_tokens_(max_prompt_tokens) {}

base::expected<generation_worker> generation_worker::make(const welcome& start,
                                                          const run_config& config,
                                                          const own_address& here,
                                                          weight_fetcher::news told) {
  QUERN_TRY(const at::Device device, policy::choose_device(config.actors.generator_device));
  // Before anything that takes long: the learner waits for it.
  QUERN_TRY(auto weights, open_weights(start, config, here, device, std::move(told)));
  QUERN_TRY(auto arena, first_weights(start, config, device));
  QUERN_CHECK(check_positions(config, arena.config));
  QUERN_TRY(policy::tokenizer text, policy::tokenizer::load(start.checkpoint));
  QUERN_TRY(const auto format, policy::load_chat_format(start.checkpoint));
  policy::generator_options options =
      generator_options_of(config, arena.config, text.vocab_size(), device);
  QUERN_TRY(options.leave_bytes, learner_bytes_beside_generator(config, arena.config));
  std::vector<policy::token_id> end_tokens = arena.config.eos_tokens;
  QUERN_TRY(auto engine, policy::generator::make(std::move(arena), start.version, options));
  generation_worker made(std::move(engine), std::move(text), format, start, options.slots,
                         config.policy.max_prompt_tokens);
  made.end_tokens_ = std::move(end_tokens);
  made.device_ = device;
  QUERN_TRY(made.share_, generator_share(config, device));
  made.weights_ = std::move(weights);
  made.weights_->inbox().begin(made.engine_.landing());
  return made;
}

base::expected<std::vector<std::vector<policy::token_id>>> generation_worker::given_tokens(
    const generate_group& group) const {
  if (!group.recorded.empty() && group.recorded.size() != group.samples.size())
    return base::fail(base::errc::internal, "group {} has {} samples and {} recorded completions",
                      group.group, group.samples.size(), group.recorded.size());
  std::vector<std::vector<policy::token_id>> given;
  for (const std::string& text : group.recorded) {
    given.push_back(policy::encode_answer(text_, format_, end_tokens_, text));
    if (std::ssize(given.back()) > group.max_tokens)
      return base::fail(base::errc::invalid_argument,
                        "group {} has a recorded completion of {} tokens, policy.max_new_tokens "
                        "is {}: raise that",
                        group.group, given.back().size(), group.max_tokens);
  }
  return given;
}

base::status generation_worker::submit(const generate_group& group) {
  const policy::chat_message message{"user", group.prompt};
  QUERN_TRY(const auto prompt, policy::encode_chat(text_, format_, std::span(&message, 1)));
  if (static_cast<std::int64_t>(prompt.size()) > max_prompt_tokens_) {
    return base::fail(base::errc::invalid_argument,
                      "group {} has a prompt of {} tokens, policy.max_prompt_tokens is {}",
                      group.group, prompt.size(), max_prompt_tokens_);
  }
  QUERN_TRY(auto given, given_tokens(group));
  std::vector<policy::generation_request> requests;
  for (const sample_id sample : group.samples) {
    policy::generation_request request;
    request.id = static_cast<std::uint64_t>(sample);
    if (!given.empty()) request.given = std::move(given[requests.size()]);
    request.prompt = prompt;
    request.max_tokens = group.max_tokens;
    request.temperature = group.temperature;
    request.seed = static_cast<std::uint64_t>(group.seed);
    requests.push_back(std::move(request));
  }
  QUERN_CHECK(engine_.submit(requests));
  for (const sample_id sample : group.samples) {
    pending_[sample] = {group.incarnation, to_block(prompt), !group.recorded.empty()};
  }
  return {};
}

void generation_worker::cancel(const std::vector<sample_id>& samples) {
  for (const sample_id sample : samples) {
    // Not in flight any more: it has ended in the meantime, and its result is on its way.
    (void)engine_.cancel(static_cast<std::uint64_t>(sample));
  }
}

std::vector<generated_sample> generation_worker::step() {
  std::vector<generated_sample> finished;
  share_.take();
  for (policy::generation_result& result : engine_.step()) {
    const auto sample = static_cast<sample_id>(result.id);
    auto known = pending_.extract(sample);
    if (known.empty() || result.reason == policy::finish_reason::cancelled) continue;
    generated_sample made;
    made.incarnation = known.mapped().incarnation;
    made.sample = sample;
    made.segments = single_turn(count_in_block<std::int32_t>(known.mapped().prompt_tokens),
                                std::ssize(result.tokens));
    made.tokens = std::move(known.mapped().prompt_tokens) + to_block(result.tokens);
    made.log_probs = to_block(result.log_probs);
    for (const policy::version_segment& part : result.segments) {
      made.versions.push_back({part.first, part.version, part.weights});
    }
    made.text = text_.decode(result.tokens);
    made.truncated = result.reason == policy::finish_reason::length && !known.mapped().recorded;
    finished.push_back(std::move(made));
  }
  if (share_.shared()) {
    // What a step leaves under way would run beside a measurement.
    policy::wait_for(device_);
    engine_.idle() ? share_.leave() : share_.rest();
  }
  return finished;
}

base::expected<std::optional<weights_installed>> generation_worker::install(
    const weights_ready& ready) {
  if (ready.version <= engine_.version()) return std::nullopt;
  weights_->inbox().announce(ready);
  return install_arrived();
}

base::expected<std::optional<weights_installed>> generation_worker::install_arrived() {
  weight_inbox& inbox = weights_->inbox();
  if (!inbox.due()) return std::nullopt;
  share_.take();
  const base::steady_clock clock;
  const base::nanoseconds_t begun = clock.now_ns();
  QUERN_TRY(const bool done, inbox.install(engine_));
  leave_device();
  if (!done) return std::nullopt;
  ++installs_;
  install_ns_ += clock.now_ns() - begun;
  return installed();
}

generator_work generation_worker::work() const {
  const policy::generator_counters& engine = engine_.counters();
  return {engine.preemptions, engine.cache_held, engine.cache_room, installs_, install_ns_};
}

/// What is under way on the device would run beside a measurement.
void generation_worker::leave_device() {
  if (!share_.shared()) return;
  policy::wait_for(device_);
  share_.leave();
}

weights_installed generation_worker::installed() const {
  return {incarnation_, engine_.version(), engine_.weights_hash()};
}

}  // namespace quern::actors
