#include "tools/cli/find_run.hpp"

#include <string_view>
#include <vector>

#include "actors/config/stages.hpp"
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

}  // namespace

base::expected<fs::path> find_run(const std::string& word) {
  std::error_code ignored;
  if (fs::exists(word, ignored)) return actors::present_stage(word);
  const fs::path below = usual_place / word;
  // A word with a folder in it, or an absolute one, is a path.
  const bool is_name = fs::path(word).filename() == fs::path(word);
  if (is_name && fs::exists(below, ignored)) return actors::present_stage(below);
  if (!is_name)
    return base::fail(base::errc::not_found, "{} is not a run directory: it is not there{}", word,
                      guess_run(word));
  return base::fail(base::errc::not_found,
                    "there is no run '{}'{}: neither {} nor {} is there; name the folder of a run",
                    word, guess_run(word), word, below.string());
}

}  // namespace quern::tools
