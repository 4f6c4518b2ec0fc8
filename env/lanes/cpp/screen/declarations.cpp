// The part of the static screen that reads declarations.
#include "env/lanes/cpp/screen/declarations.hpp"

#include <optional>
#include <string>
#include <vector>

#include "env/screen/common_rules.hpp"
#include "env/screen/walk.hpp"

namespace quern::env {
namespace {

using namespace walk;

constexpr std::size_t longest_declarator = 512;  // tokens; keeps rows of "static" linear
constexpr int deepest_scope = 64;

// One declaration at namespace scope or one that begins with static, without its body or
// initialiser and without attributes: what its words say.
struct declaration {
  bool is_extern = false, is_static = false, is_const_object = false, is_function = false,
       is_template_or_type = false, has_pointer = false;
  std::string name;  // the function's, where it is one
  const token* at = nullptr;
};

// Whether the object itself cannot change: constexpr, or const behind the last '*' (or, where there
// is no '*', anywhere).
declaration read_declaration(tokens all) {
  declaration result;
  if (!all.empty()) result.at = &all[0];
  bool const_since_pointer = false;
  bool is_constexpr = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& text = all[i].text;
    if (rules::is_attribute_word(text) || text == "alignas" || text == "decltype" ||
        text == "noexcept") {
      if (i + 1 < all.size() && is(all[i + 1], "(")) i = behind_group(all, i + 1) - 1;
      continue;
    }
    if (is(all[i], "[")) {  // an attribute or the size of an array
      i = behind_group(all, i) - 1;
      continue;
    }
    if (text == "extern") result.is_extern = true;
    if (text == "static" || text == "thread_local" || text == "__thread") result.is_static = true;
    if (text == "constexpr") is_constexpr = true;
    if (text == "const") const_since_pointer = true;
    if (text == "operator") {
      result.is_function = true;
      break;
    }
    if (rules::begins_other_declaration(text)) result.is_template_or_type = true;
    if (is(all[i], "*")) {
      result.has_pointer = true;
      const_since_pointer = false;
    }
    if (is(all[i], "(")) {
      // T (*name)(…): a pointer to function; else a name before it makes it a function.
      const bool inner_pointer = i + 1 < all.size() && is(all[i + 1], "*");
      if (inner_pointer) {
        result.has_pointer = true;
        const_since_pointer = i + 2 < all.size() && is(all[i + 2], "const");
      } else if (i > 0 && is_word(all[i - 1])) {
        result.is_function = true;
        result.name = all[i - 1].text;
      }
      break;
    }
  }
  result.is_const_object = is_constexpr || const_since_pointer;
  return result;
}

bool is_entry(const std::string& name) {
  return name == "kernel" || name == "workspace_bytes";
}

class declarations {
 public:
  explicit declarations(tokens all) : all_(all) {}

  std::optional<screen_finding> screen() {
    scope(0, false);
    return found_;
  }

 private:
  // From `at` at namespace scope to the brace that closes it; returns the index behind it.
  std::size_t scope(std::size_t at, bool c_linkage) {
    while (at < all_.size() && !found_) {
      if (is(all_[at], "}")) return at + 1;
      if (is(all_[at], ";")) {
        ++at;
        continue;
      }
      at = one(at, c_linkage);
    }
    return all_.size();
  }

  // One declaration beginning at `at`; the index behind it.
  std::size_t one(std::size_t at, bool c_linkage) {
    const std::size_t begin = at;
    std::vector<token> head;  // up to the body or initialiser
    bool initialised = false;
    for (; at < all_.size() && !found_; ++at) {
      const token& item = all_[at];
      if (is(item, ";")) break;
      if (is(item, "{")) {
        if (const auto inner = opens_scope(head)) {
          if (++depth_ > deepest_scope) {
            found_ = finding_at(screen_rule::malformed_text, item, "scopes nested too deeply");
            return all_.size();
          }
          const std::size_t behind = scope(at + 1, c_linkage || *inner);
          --depth_;
          return behind;
        }
        locals(at + 1, behind_group(all_, at));
        at = behind_group(all_, at) - 1;
        // A body ends a function; braces of a type or an initialiser go on to the ';'.
        if (!initialised && read_declaration(head).is_function) {
          judge(head, c_linkage, true, false, begin);
          return at + 1;
        }
        initialised = true;
        continue;
      }
      if (is(item, "(") || is(item, "[")) {
        const std::size_t behind = behind_group(all_, at);
        if (!initialised)
          head.insert(head.end(), all_.begin() + static_cast<std::ptrdiff_t>(at),
                      all_.begin() + static_cast<std::ptrdiff_t>(behind));
        locals(at + 1, behind);
        at = behind - 1;
        continue;
      }
      if (is(item, "}")) {  // closes the scope: leave it to the caller
        judge(head, c_linkage, false, initialised, begin);
        return at;
      }
      if (is(item, "=")) initialised = true;
      if (!initialised) head.push_back(item);
    }
    judge(head, c_linkage, false, initialised, begin);
    return at + 1;
  }

  // `namespace x {`, `inline namespace {`: false; `extern "C" {`: true; else none.
  static std::optional<bool> opens_scope(const std::vector<token>& head) {
    if (head.size() == 2 && head[0].text == "extern" && head[1].kind == token_kind::string)
      return true;
    for (std::size_t i = 0; i < head.size() && i < 2; ++i)
      if (head[i].text == "namespace") return false;
    return std::nullopt;
  }

  void judge(const std::vector<token>& head, bool c_linkage, bool defined, bool initialised,
             std::size_t begin) {
    if (head.empty() || found_) return;
    const declaration what = read_declaration(head);
    if (what.is_extern || c_linkage) {
      const bool entry = what.is_function && is_entry(what.name);
      // `F socket;` with F a function type declares a function too: only what is certainly
      // defined here is ours.
      const bool object = !what.is_extern && what.is_const_object && initialised;
      const bool own = (defined && what.is_function) || object ||
                       (!what.is_extern && (what.is_static || what.is_template_or_type));
      if (!entry && !own) {
        found_ = finding_at(screen_rule::external, all_[begin],
                            "only kernel and workspace_bytes may be declared extern");
        return;
      }
    }
    if (what.is_template_or_type || what.is_function) return;
    kept_pointer(what, all_[begin]);
  }

  void kept_pointer(const declaration& what, const token& at) {
    if (found_ || !what.has_pointer || what.is_const_object || what.is_function) return;
    found_ =
        finding_at(screen_rule::kept_pointer, at,
                   "a pointer that outlives the call; inputs and outputs of a call are gone after "
                   "it. Make it local or const");
  }

  // static and thread_local variables inside functions, extern declarations anywhere.
  void locals(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && !found_; ++i) {
      const std::string& text = all_[i].text;
      if (!is_word(all_[i])) continue;
      if (text == "extern") {
        found_ = finding_at(screen_rule::external, all_[i],
                            "only kernel and workspace_bytes may be declared extern");
        return;
      }
      if (text != "static" && text != "thread_local" && text != "__thread") continue;
      std::size_t stop = i;
      const std::size_t last = std::min(end, i + longest_declarator);
      while (stop < last && !is(all_[stop], ";") && !is(all_[stop], "=") && !is(all_[stop], "{"))
        ++stop;
      const declaration what = read_declaration(all_.subspan(i, stop - i));
      if (!what.is_template_or_type) kept_pointer(what, all_[i]);
    }
  }

  tokens all_;
  int depth_ = 0;
  std::optional<screen_finding> found_;
};

}  // namespace

std::optional<screen_finding> screen_declarations(std::span<const token> program) {
  return declarations(program).screen();
}

}  // namespace quern::env
