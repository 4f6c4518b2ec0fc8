#include "tools/cli/policy_options.hpp"

#include <fmt/format.h>

#include "tools/cli/parse.hpp"

namespace quern::tools {

void add_sampling_options(CLI::App& app, sampling_options& options) {
  CLI::Option* greedy = app.add_flag("--greedy", options.greedy, "the most likely token each time");
  app.add_option("--n", options.count, "completions")
      ->check(whole_within(1, 100000))
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens,
                 "longest completion; with the prompt at most the model's positions. Not given: "
                 "with --task policy.max_new_tokens of the model's run, else 420, or as many as "
                 "the prompt leaves")
      ->check(whole_within(1, 1000000));
  app.add_option("--temperature", options.temperature,
                 "of sampling. Not given: with --task that of the model's run, else 1")
      ->check(number_within(0.01, 10))
      ->excludes(greedy);
  app.add_option("--seed", options.seed, "address of the random numbers")
      ->check(whole_within(0, 9'000'000'000'000'000))
      ->capture_default_str();
  app.add_flag("--ignore-eos", options.ignore_eos, "go on past the end token");
}

std::vector<std::string> sampling_words(const sampling_options& options) {
  std::vector<std::string> words = {"--n", std::to_string(options.count), "--seed",
                                    std::to_string(options.seed)};
  if (options.greedy) words.emplace_back("--greedy");
  if (options.ignore_eos) words.emplace_back("--ignore-eos");
  if (options.max_tokens)
    words.insert(words.end(), {"--max-tokens", std::to_string(*options.max_tokens)});
  if (options.temperature && !options.greedy)
    words.insert(words.end(), {"--temperature", fmt::format("{}", *options.temperature)});
  return words;
}

std::optional<int> parse_generation(int argc, char** argv, generation_order& order) {
  CLI::App app("quern-torch sample: what quern sample asks for");
  app.add_option("model", order.model, "folder of the policy")->required();
  app.add_option("--prompt", order.prompt, "file with the prompt")->required();
  app.add_option("--out", order.out, "file for the completions, a line of JSON each")->required();
  app.add_flag("--plain", order.plain, "the prompt without the policy's chat template");
  add_sampling_options(app, order.sampling);
  return parse(app, argc, argv);
}

std::optional<int> parse_export(int argc, char** argv, export_options& options) {
  CLI::App app(
      "quern export: a checkpoint's policy as a Hugging Face folder that transformers loads, with "
      "a README.md of where it comes from");
  app.add_option("from", options.from,
                 "checkpoint, run, chain, or the name of a run below runs/: its last weights")
      ->required();
  app.add_option("to", options.to, "folder to write; must not exist")->required();
  app.add_flag(
      "--older", options.older,
      "where the newest checkpoint of the run is missing or damaged, the newest before it");
  app.add_option("--shard-mb", options.shard_mb, "largest file of weights")
      ->check(whole_within(1, 1000000));
  return parse(app, argc, argv);
}

}  // namespace quern::tools
