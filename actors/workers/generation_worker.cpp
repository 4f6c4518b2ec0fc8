#include "actors/workers/generation_worker.hpp"

#include <algorithm>

#include "actors/workers/arena_bytes.hpp"
#include "actors/workers/element_type.hpp"
#include "policy/engine/device.hpp"
#include "policy/text/model_config.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {

generation_worker::generation_worker(policy::generator engine, policy::tokenizer text,
                                     policy::chat_format format, const welcome& start,
                                     std::int64_t slots, std::int64_t max_prompt_tokens)
    : engine_(std::move(engine)),
      text_(std::move(text)),
      format_(format),
      weights_folder_(start.weights_folder),
      epoch_(start.epoch),
      slots_(slots),
      max_prompt_tokens_(max_prompt_tokens) {}

base::expected<generation_worker> generation_worker::make(const welcome& start,
                                                          const run_config& config) {
  QUERN_TRY(const at::Device device, policy::choose_device(config.actors.generator_device));
  QUERN_TRY(auto arena, policy::parameter_arena::load(start.checkpoint));
  // The weights that the learner begins with, by which the version is known.
  arena.flat.copy_(arena.flat.to(element_type_of(config)));
  QUERN_TRY(policy::tokenizer text, policy::tokenizer::load(start.checkpoint));
  QUERN_TRY(const auto format, policy::load_chat_format(start.checkpoint));
  // The groups of two steps decode together, the rest waits in order.
  const std::int64_t slots = 2 * config.algorithm.groups_per_step * config.algorithm.group_size;
  policy::generator_options options;
  options.slots = static_cast<std::int32_t>(slots);
  options.capacity = static_cast<std::int32_t>(std::min(
      arena.config.max_positions, config.policy.max_prompt_tokens + config.policy.max_new_tokens));
  options.valid_tokens = text.vocab_size();
  options.device = device;
  options.full_precision = config.actors.generator_precision == "float32";
  QUERN_TRY(auto engine, policy::generator::make(arena, start.version, options));
  generation_worker made(std::move(engine), std::move(text), format, start, slots,
                         config.policy.max_prompt_tokens);
  made.device_ = device;
  if (device.is_cuda()) {
    // The process sees this GPU alone.
    QUERN_TRY(made.share_,
              device_share::make(config, static_cast<int>(config.actors.generator_gpu), 0));
  }
  return made;
}

base::status generation_worker::submit(const generate_group& group) {
  const policy::chat_message message{"user", group.prompt};
  QUERN_TRY(const auto prompt, policy::encode_chat(text_, format_, std::span(&message, 1)));
  if (static_cast<std::int64_t>(prompt.size()) > max_prompt_tokens_) {
    return base::fail(base::errc::invalid_argument,
                      "group {} has a prompt of {} tokens, policy.max_prompt_tokens is {}",
                      group.group, prompt.size(), max_prompt_tokens_);
  }
  std::vector<policy::generation_request> requests;
  for (const sample_id sample : group.samples) {
    policy::generation_request request;
    request.id = static_cast<std::uint64_t>(sample);
    request.prompt = prompt;
    request.max_tokens = group.max_tokens;
    request.temperature = group.temperature;
    request.seed = static_cast<std::uint64_t>(group.seed);
    requests.push_back(std::move(request));
  }
  QUERN_CHECK(engine_.submit(requests));
  for (const sample_id sample : group.samples) {
    pending_[sample] = {group.epoch, to_block(prompt)};
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
    made.epoch = known.mapped().epoch;
    made.sample = sample;
    made.prompt_tokens = std::move(known.mapped().prompt_tokens);
    made.tokens = to_block(result.tokens);
    made.log_probs = to_block(result.log_probs);
    for (const policy::version_segment& part : result.segments) {
      made.segments.push_back({part.first, part.version, part.weights});
    }
    made.text = text_.decode(result.tokens);
    made.truncated = result.reason == policy::finish_reason::length;
    finished.push_back(std::move(made));
  }
  if (share_.shared()) {
    // What a step leaves under way would run beside a measurement.
    policy::wait_for(device_);
    engine_.idle() ? share_.leave() : share_.rest();
  }
  return finished;
}

base::expected<weights_installed> generation_worker::install(const weights_ready& ready) {
  share_.take();
  QUERN_CHECK(engine_.announce(ready.version, ready.hash));
  QUERN_TRY(policy::parameter_arena staging, engine_.staging());
  if (auto read = policy::read_weights(weights_folder_, ready.file, bytes_of(staging)); !read) {
    engine_.abort();
    return tl::make_unexpected(std::move(read).error());
  }
  QUERN_CHECK(engine_.commit());
  if (share_.shared()) {
    policy::wait_for(device_);
    share_.leave();
  }
  return installed();
}

weights_installed generation_worker::installed() const {
  return {epoch_, engine_.version(), engine_.weights_hash()};
}

}  // namespace quern::actors
