#include "tools/cli/find_run.hpp"

#include <string_view>
#include <vector>

#include "actors/config/stages.hpp"
#include "base/program.hpp"
#include "base/text.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

const fs::path usual_place = "runs";

std::string guess_run(const std::string& word) {
  std::vector<std::string> known;
  std::error_code code;
  for (fs::directory_iterator at(usual_place, code), end; !code && at != end; at.increment(code))
    known.push_back(at->path().filename().string());
  const std::vector<std::string_view> names(known.begin(), known.end());
  return base::did_you_mean(fs::path(word).filename().string(), names);
}

/// A word with a folder in it, or an absolute one, is a path.
bool is_name(const std::string& word) {
  return fs::path(word).filename() == fs::path(word);
}

}  // namespace

base::expected<fs::path> find_run_folder(const std::string& word) {
  std::error_code ignored;
  if (fs::exists(word, ignored)) return fs::path(word);
  const fs::path below = usual_place / word;
  if (is_name(word) && fs::exists(below, ignored)) return below;
  if (!is_name(word))
    return base::fail(base::errc::not_found, "{} is not a run directory: it is not there{}", word,
                      guess_run(word));
  return base::fail(base::errc::not_found,
                    "there is no run '{}'{}: neither {} nor {} is there; name the folder of a run",
                    word, guess_run(word), word, below.string());
}

base::expected<fs::path> find_run(const std::string& word) {
  QUERN_TRY(const fs::path folder, find_run_folder(word));
  return actors::present_stage(folder);
}

base::expected<fs::path> find_model(const std::string& word) {
  const auto run = find_run_folder(word);
  if (run) return *run;
  std::error_code ignored;
  if (const auto shipped = base::share_folder(word);
      shipped && fs::exists(*shipped / "config.json", ignored))
    return *shipped;
  if (!is_name(word))
    return base::fail(base::errc::not_found,
                      "there is no model {}: name a Hugging Face folder (with config.json) such as "
                      "policy/demo, a checkpoint, or the folder or name of a run{}",
                      word, guess_run(word));
  return base::fail(base::errc::not_found,
                    "there is no model '{}'{}: neither {} nor {} is there; name a Hugging Face "
                    "folder (with config.json) such as policy/demo, a checkpoint, or a run",
                    word, guess_run(word), word, (usual_place / word).string());
}

}  // namespace quern::tools
