#include "actors/config/config_upgrade.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/renamed_keys.hpp"
#include "env/task/yaml_reader.hpp"

namespace quern::actors {
namespace {

constexpr std::size_t largest_upgrade = 1U << 20U;
/// What some editors begin a file in UTF-8 with. YAML does not count it among the columns.
constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";

/// Puts words in the place of others, counted by line and column.
class edited_text {
 public:
  explicit edited_text(std::string_view text) : text_(text) {
    for (std::size_t at = text.starts_with(utf8_mark) ? utf8_mark.size() : 0;
         at != std::string::npos;) {
      lines_.push_back(at);
      at = text.find('\n', at);
      if (at != std::string::npos) ++at;
    }
  }

  /// False: `before` does not stand there, with quotes or without.
  bool replace(int line, std::size_t column, std::string_view before, std::string_view now) {
    if (line < 1 || static_cast<std::size_t>(line) > lines_.size()) return false;
    std::size_t at = lines_[static_cast<std::size_t>(line) - 1] + column;
    if (at < text_.size() && (text_[at] == '"' || text_[at] == '\'')) ++at;
    if (text_.compare(std::min(at, text_.size()), before.size(), before) != 0) return false;
    edits_.push_back({at, before.size(), std::string(now)});
    return true;
  }

  [[nodiscard]] std::string result() {
    std::sort(edits_.begin(), edits_.end(),
              [](const edit& a, const edit& b) { return a.at > b.at; });
    std::string made = text_;
    for (const edit& one : edits_)
      made.replace(one.at, one.size, one.now);
    return made;
  }

 private:
  struct edit {
    std::size_t at, size;
    std::string now;
  };
  std::string text_;
  std::vector<std::size_t> lines_;
  std::vector<edit> edits_;
};

/// Whether a group of `tree` has a key more than once, by its present and its earlier names
/// together.
bool stands_twice(const YAML::Node& tree, std::string_view now) {
  if (!tree.IsMap()) return false;
  const std::string group_name(group_of_key(now));
  const YAML::Node group = tree[group_name];
  if (!group || !group.IsMap()) return false;
  int found = 0;
  for (const auto& entry : group) {
    if (!entry.first.IsScalar()) continue;
    const std::string path = group_name + "." + entry.first.Scalar();
    found += path == now || present_name(path) == now ? 1 : 0;
  }
  return found > 1;
}

bool stands_twice_anywhere(const YAML::Node& root, std::string_view now) {
  if (stands_twice(root, now)) return true;
  const YAML::Node stages = root["stages"];
  if (!stages || !stages.IsSequence()) return false;
  return std::any_of(stages.begin(), stages.end(),
                     [&](const auto& stage) { return stands_twice(stage, now); });
}

base::status upgrade_tree(const YAML::Node& root, edited_text& text,
                          std::vector<std::string>& changes) {
  QUERN_TRY(const bool earlier, has_earlier_names(root));
  const YAML::Node version = root["quern_config"];
  const auto by_hand = [](int line, std::string_view before, std::string_view now) {
    return base::fail(
        base::errc::invalid_argument,
        "line {}: {} is called {} now, which cannot be written by itself: do it by hand, "
        "then type this again; nothing was changed",
        line, before, now);
  };
  if (earlier) {
    const YAML::Mark at = version.Mark();
    if (!text.replace(at.line + 1, static_cast<std::size_t>(std::max(at.column, 0)),
                      version.Scalar(), std::to_string(config_version)))
      return base::fail(base::errc::invalid_argument,
                        "line {}: quern_config is written in a form that is not replaced here: "
                        "write `quern_config: {}` by hand, then type this again; nothing was "
                        "changed",
                        at.line + 1, config_version);
    changes.push_back(fmt::format("line {}: quern_config is {}", at.line + 1, config_version));
  }
  for (const earlier_name& key : earlier_names(root)) {
    if (moves(key))
      return base::fail(base::errc::invalid_argument,
                        "line {}: {}; then type this again, nothing was changed", key.line,
                        words_for_move(key));
    if (stands_twice_anywhere(root, key.now))
      return base::fail(
          base::errc::invalid_argument,
          "line {}: {} is called {} now, and its group has it more than once, by either name: "
          "keep one of them, then type this again; nothing was changed",
          key.line, key.before, key.now);
    if (!text.replace(key.line, key.column, last_part(key.before), last_part(key.now)))
      return by_hand(key.line, key.before, key.now);
    changes.push_back(fmt::format("line {}: {} is called {}", key.line, key.before, key.now));
  }
  return {};
}

}  // namespace

base::expected<upgraded_config> upgrade_config(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return base::fail(base::errc::invalid_argument,
                      "the file is in UTF-16: save it as UTF-8, then type this again; nothing was "
                      "changed");
  upgraded_config made;
  edited_text edited(text);
  const auto read = env::guard_yaml("configuration", [&]() -> base::status {
    QUERN_TRY(const YAML::Node root, env::load_yaml("configuration", text, largest_upgrade));
    return upgrade_tree(root, edited, made.changes);
  });
  QUERN_CHECK(read);
  made.text = edited.result();
  return made;
}

}  // namespace quern::actors
