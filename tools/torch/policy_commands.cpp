// What quern sample asks for: completions of a policy. quern export: its policy as a Hugging Face
// folder.
#include <fmt/format.h>

#include "actors/config/policy_folder.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/threads.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"
#include "policy/text/tokenizer_files.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/policy_options.hpp"
#include "tools/torch/roles.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the policy that a person named; says what was chosen.
base::expected<fs::path> find_model(const fs::path& name, actors::older_checkpoint older) {
  QUERN_TRY(const auto found, actors::find_policy(name, older));
  for (const std::string& note : found.notes)
    base::log_warn("checkpoint", "{}", note);
  return found.model;
}

/// Tokens that a completion may have, of a model with so many positions.
base::expected<std::int64_t> longest_completion(const sampling_options& options,
                                                std::int64_t prompt, std::int64_t positions) {
  const std::int64_t left = positions - prompt;
  if (left < 1)
    return base::fail(base::errc::invalid_argument,
                      "the prompt has {} tokens, the model takes {} in all "
                      "(max_position_embeddings): shorten it by {} or more",
                      prompt, positions, 1 - left);
  if (!options.max_tokens) return std::min(usual_completion, left);
  if (*options.max_tokens <= left) return *options.max_tokens;
  return base::fail(base::errc::invalid_argument,
                    "--max-tokens is {}, but the prompt has {} tokens and the model takes {} in "
                    "all (max_position_embeddings): give {} or less",
                    *options.max_tokens, prompt, positions, left);
}

std::vector<policy::generation_request> requests_of(const sampling_options& options,
                                                    const std::vector<policy::token_id>& prompt,
                                                    std::int64_t longest) {
  std::vector<policy::generation_request> requests;
  for (std::int64_t i = 0; i < options.count; ++i) {
    policy::generation_request request;
    request.id = static_cast<std::uint64_t>(i) + 1;
    request.prompt = prompt;
    request.max_tokens = static_cast<std::int32_t>(longest);
    request.temperature = options.temperature.value_or(1);
    request.seed = static_cast<std::uint64_t>(options.seed);
    request.greedy = options.greedy;
    request.ignore_eos = options.ignore_eos;
    requests.push_back(std::move(request));
  }
  return requests;
}

base::status generate(const generation_order& order) {
  QUERN_TRY(const fs::path folder, find_model(order.model, actors::older_checkpoint::take));
  QUERN_TRY(const std::string prompt, base::read_file(order.prompt, largest_prompt));
  QUERN_TRY(const auto arena, policy::parameter_arena::load(folder));
  QUERN_TRY(const policy::tokenizer text, policy::tokenizer::load(folder));
  auto format = policy::chat_format::none;
  if (!order.plain) {
    QUERN_TRY(format, policy::load_chat_format(folder));
  }
  const policy::chat_message message{"user", prompt};
  QUERN_TRY(const auto tokens, policy::encode_chat(text, format, std::span(&message, 1)));
  const auto prompt_tokens = static_cast<std::int64_t>(tokens.size());
  QUERN_TRY(const std::int64_t longest,
            longest_completion(order.sampling, prompt_tokens, arena.config.max_positions));
  policy::generator_options engine_options;
  engine_options.slots =
      static_cast<std::int32_t>(std::min<std::int64_t>(order.sampling.count, 32));
  engine_options.valid_tokens = text.vocab_size();
  engine_options.capacity = static_cast<std::int32_t>(prompt_tokens + longest);
  QUERN_TRY(auto engine, policy::generator::make(arena, 0, engine_options));
  QUERN_CHECK(engine.submit(requests_of(order.sampling, tokens, longest)));
  auto results = engine.run();
  std::sort(results.begin(), results.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::string lines;
  for (const policy::generation_result& result : results) {
    lines += base::dump(base::json{{"text", text.decode(result.tokens)},
                                   {"truncated", result.reason == policy::finish_reason::length},
                                   {"prompt_tokens", prompt_tokens},
                                   {"max_tokens", longest},
                                   {"token_ids", result.tokens},
                                   {"log_probs", result.log_probs}}) +
             "\n";
  }
  return base::write_file_atomic(order.out, lines);
}

}  // namespace

int role_sample(int argc, char** argv) {
  generation_order order;
  if (const auto code = parse_generation(argc, argv, order)) return *code;
  const auto result = generate(order);
  return result ? int{done} : report("sample", result.error());
}

int role_export(int argc, char** argv) {
  export_options options;
  if (const auto code = parse_export(argc, argv, options)) return *code;
  const std::string &from = options.from, &to = options.to;
  const auto older =
      options.older ? actors::older_checkpoint::take : actors::older_checkpoint::refuse;
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    return report("export",
                  {base::errc::already_exists, to + " is there already: name another folder"});
  }
  const auto write = [&]() -> base::status {
    QUERN_TRY(const fs::path folder, find_model(from, older));
    QUERN_TRY(const auto arena, policy::parameter_arena::load(folder));
    // What `sample` would refuse is no model to hand out.
    if (const auto text = policy::tokenizer::load(folder); !text)
      return tl::make_unexpected(text.error());
    if (const auto made = base::make_folders(to); !made)
      return base::fail(base::errc::invalid_argument, "{}; name another folder",
                        made.error().message);
    const auto shard_bytes = static_cast<std::uint64_t>(options.shard_mb) * 1'000'000;
    QUERN_CHECK(policy::save_model(arena, to, folder, {}, shard_bytes));
    return policy::fit_tokenizer_config(to);
  };
  if (const auto result = write(); !result) return report("export", result.error());
  return done;
}

}  // namespace quern::tools
