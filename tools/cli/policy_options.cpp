#include "tools/cli/policy_options.hpp"

#include "tools/cli/parse.hpp"

namespace quern::tools {

std::optional<int> parse_sample(int argc, char** argv, sample_options& options) {
  CLI::App app("quern sample: completions of a policy for a prompt");
  app.add_option("model", options.model,
                 "Hugging Face folder, checkpoint, run or chain; its weights write the "
                 "completions, whatever policy.engine a run has")
      ->required();
  app.add_option("--prompt", options.prompt_file, "file with the prompt; -: standard input")
      ->required();
  CLI::Option* greedy = app.add_flag("--greedy", options.greedy, "the most likely token each time");
  app.add_option("--n", options.count, "completions")->check(whole_within(1, 100000));
  app.add_option("--max-tokens", options.max_tokens,
                 "longest completion; with the prompt at most the model's positions. Not given: "
                 "420, or as many as the prompt leaves")
      ->check(whole_within(1, 1000000));
  app.add_option("--temperature", options.temperature, "of sampling")
      ->check(number_within(0.01, 10))
      ->excludes(greedy);
  app.add_option("--seed", options.seed, "address of the random numbers")
      ->check(whole_within(0, 9'000'000'000'000'000));
  app.add_flag("--ignore-eos", options.ignore_eos, "go on past the end token");
  app.add_flag("--json", options.as_json, "an object a line: text, token_ids, log_probs");
  return parse(app, argc, argv);
}

std::optional<int> parse_export(int argc, char** argv, export_options& options) {
  CLI::App app(
      "quern export: a checkpoint's policy as a Hugging Face folder that transformers loads");
  app.add_option("from", options.from, "checkpoint, run or chain")->required();
  app.add_option("to", options.to, "folder to write; must not exist")->required();
  app.add_flag(
      "--older", options.older,
      "where the newest checkpoint of the run is missing or damaged, the newest before it");
  app.add_option("--shard-mb", options.shard_mb, "largest file of weights")
      ->check(whole_within(1, 1000000));
  return parse(app, argc, argv);
}

}  // namespace quern::tools
