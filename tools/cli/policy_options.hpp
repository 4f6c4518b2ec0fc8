// The command lines of the commands that load a policy: read by quern, which answers --help and
// what is typed wrongly at once, and by quern-torch, which does the work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quern::tools {

/// Longest completion where nothing is said.
constexpr std::int64_t usual_completion = 420;

struct sample_options {
  std::string model;
  std::string prompt_file;
  bool greedy = false;
  bool ignore_eos = false;
  bool as_json = false;
  std::int64_t count = 1;
  std::optional<std::int64_t> max_tokens;  ///< none: usual_completion, or what the model has left
  std::int64_t seed = 1;
  double temperature = 1.0;
};

struct export_options {
  std::string from;
  std::string to;
  std::int64_t shard_mb = 5000;
  bool older = false;
};

/// As tools::parse: the exit code to return at once, or nothing.
std::optional<int> parse_sample(int argc, char** argv, sample_options& options);
std::optional<int> parse_export(int argc, char** argv, export_options& options);

}  // namespace quern::tools
