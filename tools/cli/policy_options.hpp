// The command lines of the commands that load a policy. `export` is read by quern, which answers
// --help and what is typed wrongly at once, and by quern-torch, which does the work. `sample` is a
// command of quern, which asks quern-torch for the completions alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace quern::tools {

/// Longest completion where nothing is said.
constexpr std::int64_t usual_completion = 420;
/// Longest text of a prompt, bytes.
constexpr std::size_t largest_prompt = 8U << 20U;

/// How completions are drawn.
struct sampling_options {
  bool greedy = false;
  bool ignore_eos = false;
  std::int64_t count = 1;
  std::optional<std::int64_t> max_tokens;  ///< none: usual_completion, or what the model has left
  std::int64_t seed = 1;
  std::optional<double> temperature;  ///< none: 1
};

void add_sampling_options(CLI::App& app, sampling_options& options);
/// The words that add_sampling_options reads as these.
std::vector<std::string> sampling_words(const sampling_options& options);

/// What quern-torch is asked: completions of a prompt, as lines of JSON in a file.
struct generation_order {
  std::string model;   ///< its folder
  std::string prompt;  ///< file with the prompt
  std::string out;     ///< file to write
  bool plain = false;  ///< without the chat template that the policy has
  sampling_options sampling;
};

struct export_options {
  std::string from;
  std::string to;
  std::int64_t shard_mb = 5000;
  bool older = false;
};

/// As tools::parse: the exit code to return at once, or nothing.
std::optional<int> parse_generation(int argc, char** argv, generation_order& order);
std::optional<int> parse_export(int argc, char** argv, export_options& options);

}  // namespace quern::tools
