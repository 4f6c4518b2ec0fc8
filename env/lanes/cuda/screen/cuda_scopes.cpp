// The part of lane `cuda`'s static screen that knows where a token stands.
#include "env/lanes/cuda/screen/cuda_scopes.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "env/lanes/cuda/screen/cuda_rules.hpp"
#include "env/screen/common_rules.hpp"
#include "env/screen/walk.hpp"

namespace quern::env {
namespace {

using namespace walk;

constexpr std::size_t deepest_nesting = 512;
constexpr std::size_t longest_head = 4096;  // tokens; keeps rows of one statement linear

// Between two brackets, or the whole file.
struct frame {
  char bracket = '\0';
  bool function = false;   // inside a function's body
  bool device = false;     // of a function for the device …
  bool host = false;       // … or (also) for the host
  bool c_linkage = false;  // within extern "C" { … }
  bool linkage = false;    // … whose braces these are
  bool judged = false;     // what stands before its '=' was
  // An '=' is an initialiser's: __device__, static or extern was read, which come behind the
  // defaults of a template.
  bool declares = false;
  // Of the declaration or statement that is being read; of what is in brackets only a value that
  // they begin with.
  std::vector<token> head;
};

// What a declaration's words say.
struct reading {
  std::set<std::string> has;
  const token* function = nullptr;  // the name before the parameters
  bool plain_counter = true;
};

class cuda_scopes {
 public:
  cuda_scopes(tokens all, const specifier_macros& macros) : all_(all), macros_(macros) {}

  std::optional<screen_finding> screen() {
    frames_.emplace_back();
    for (std::size_t i = 0; i < all_.size() && !found_; ++i)
      step(i);
    if (!found_) judge(';');
    return found_;
  }

 private:
  frame& here() { return frames_.back(); }

  void begin_again() {
    here().head.clear();
    here().judged = here().declares = false;
  }

  void step(std::size_t i) {
    const token& item = all_[i];
    if (is(item, "(") || is(item, "[")) {
      note(item);
      if (i + 1 < all_.size() && begins_value(all_[i + 1])) note_value(all_[i + 1]);
      open(item, false, here().device, here().host, here().function);
    } else if (is(item, "{")) {
      open_brace(item);
    } else if (is(item, ")") || is(item, "]") || is(item, "}")) {
      close(item);
    } else if (is(item, ";")) {
      if (here().bracket != '(') judge(';');
      begin_again();
    } else {
      const bool named = i > 0 && is(all_[i - 1], "operator");  // operator=
      if (is(item, "=") && !named && here().bracket != '(' && here().bracket != '[' &&
          (here().function || here().declares))
        judge('=');
      look_at(i);
      note(item);
    }
  }

  void look_at(std::size_t i) {
    const token& item = all_[i];
    const bool device_code = here().function && here().device;
    if (is_word(item) && rules::is_assembler(item.text) && (!device_code || here().host))
      found_ = finding_at(screen_rule::assembler, item,
                          "assembler is PTX and stands in __device__ and __global__ functions that "
                          "are not for the host as well");
    if (device_code && is(item, "<") && item.glued && i > 0 && is(all_[i - 1], "<<"))
      found_ = finding_at(screen_rule::device_launch, item, "a kernel starts no kernels");
    const bool deleted = i > 0 && is(all_[i - 1], "=");
    if (device_code && (item.text == "new" || (item.text == "delete" && !deleted)) && is_word(item))
      found_ = finding_at(screen_rule::forbidden_name, item,
                          "device code has no heap: memory is the outputs, the workspace and "
                          "shared memory");
  }

  bool declares(const token& item) const {
    constexpr auto words = std::to_array<std::string_view>({"__device__", "static", "extern"});
    if (!is_word(item)) return false;
    const auto macro = macros_.find(item.text);
    return is_one_of(item, words) ||
           (macro != macros_.end() &&
            std::any_of(words.begin(), words.end(), [&](std::string_view word) {
              return macro->second.contains(std::string(word));
            }));
  }

  // A bracket would have no partner in the head.
  void note_value(token item) {
    if (is(item, "(") || is(item, "{")) {
      item.kind = token_kind::number;
      item.text = "0";
    }
    note(item);
  }

  void note(const token& item) {
    if (here().head.size() < longest_head) here().head.push_back(item);
    here().declares = here().declares || declares(item);
  }

  void open(const token& bracket, bool c_linkage, bool device, bool host, bool function) {
    if (frames_.size() > deepest_nesting) {
      found_ = finding_at(screen_rule::malformed_text, bracket, "brackets nested too deeply");
      return;
    }
    frame inner;
    inner.bracket = bracket.text[0];
    inner.c_linkage = c_linkage;
    inner.device = device;
    inner.host = host;
    inner.function = function;
    frames_.push_back(std::move(inner));
  }

  void open_brace(const token& item) {
    const frame& outer = here();
    if (outer.function) {
      judge('{');
      note(item);
      return open(item, false, outer.device, outer.host, true);
    }
    const reading what = read(outer.head);
    // Pragmas may stand before it, no declaration that a macro ends.
    const std::size_t words = outer.head.size();
    const bool linkage = words >= 2 && is(outer.head[words - 2], "extern") &&
                         outer.head[words - 1].kind == token_kind::string &&
                         read({outer.head.begin(), outer.head.end() - 2}).has.empty();
    const bool function = what.function != nullptr && !linkage;
    if (!linkage) judge('{');
    const bool device = what.has.contains("__device__") || what.has.contains("__global__");
    note(item);
    open(item, linkage || (outer.c_linkage && !function), function && device,
         function && (!device || what.has.contains("__host__")), function);
    here().linkage = linkage;
  }

  void close(const token& item) {
    if (frames_.size() == 1) return;  // one too many; the compiler will say so
    const bool brace = here().bracket == '{';
    const bool complete = here().function || here().linkage;
    if (brace) judge(';');
    frames_.pop_back();
    if (!brace) return note(item);
    // A body and extern "C" end what they belong to; braces of a type or an initialiser go on to
    // the ';'.
    const reading what = read(here().head);
    if (complete || what.function != nullptr || here().head.size() <= 2 || opens_namespace())
      begin_again();
    else
      note(item);
  }

  bool opens_namespace() {
    return std::any_of(here().head.begin(), here().head.end(),
                       [](const token& item) { return item.text == "namespace"; });
  }

  reading read(const std::vector<token>& head) const {
    reading result;
    int depth = 0;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const token& item = head[i];
      if (is(item, "(") && depth == 0 && result.function == nullptr)
        result.function = function_named_before(head, i);
      if (is(item, "[")) result.plain_counter = false;
      if (is(item, "*") || is(item, "&") || is(item, ",") || is(item, "{"))
        result.plain_counter = false;
      if (is(item, ")") || is(item, "]")) --depth;
      if (is(item, "(") || is(item, "[")) ++depth;
      if (!is_word(item)) continue;
      if (cuda_rules::is_specifier(item.text)) result.has.insert(item.text);
      if (const auto macro = macros_.find(item.text); macro != macros_.end())
        result.has.insert(macro->second.begin(), macro->second.end());
      const bool last = i + 1 == head.size() || is(head[i + 1], "(");
      if (!last && !cuda_rules::is_specifier(item.text) && !macros_.contains(item.text) &&
          !cuda_rules::is_counter_type(item.text))
        result.plain_counter = false;
    }
    return result;
  }

  // The function whose parameters are in the parentheses that open at head[i]: a word, an operator,
  // a specialisation f<…>. Not what is initialised there, and not what goes on behind them.
  static const token* function_named_before(const std::vector<token>& head, std::size_t i) {
    if (i == 0 || (i + 1 < head.size() && begins_value(head[i + 1]))) return nullptr;
    const std::size_t behind = behind_group(head, i);
    if (behind < head.size() && !follows_parameters(head[behind])) return nullptr;
    for (std::size_t back = 2; back <= 3 && back <= i; ++back)
      if (is(head[i - back], "operator")) return &head[i - back];
    const token& before = head[i - 1];
    if (is_word(before))
      return takes_arguments(before.text) || is_type(before.text) ? nullptr : &before;
    int open = 0;
    for (std::size_t k = i; k-- > 1;) {
      open += is(head[k], ">") ? 1 : is(head[k], ">>") ? 2 : is(head[k], "<") ? -1 : 0;
      if (open <= 0) return is(head[k], "<") && is_word(head[k - 1]) ? &head[k - 1] : nullptr;
    }
    return nullptr;
  }

  static bool begins_value(const token& item) {
    constexpr auto values = std::to_array<std::string_view>(
        {"-", "+", "!", "~", "{", "(", "true", "false", "nullptr", "sizeof"});
    return item.kind == token_kind::number || item.kind == token_kind::string ||
           item.kind == token_kind::character || is_one_of(item, values);
  }

  static bool follows_parameters(const token& item) {
    constexpr auto words = std::to_array<std::string_view>(
        {"const", "volatile", "noexcept", "override", "final", "requires", "throw", "try",
         "__attribute__", "->", ":", "=", "&", "&&", "{"});
    return is_one_of(item, words);
  }

  static bool is_type(const std::string& word) {
    return cuda_rules::is_counter_type(word) || word == "float" || word == "double" ||
           word == "void" || word == "auto";
  }

  static bool is_one_of(const token& item, std::span<const std::string_view> texts) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return is(item, text); });
  }

  // Words of a declaration that are followed by a parenthesis and are not its name.
  static bool takes_arguments(const std::string& word) {
    return word == "__launch_bounds__" || word == "__align__" || word == "alignas" ||
           word == "decltype" || word == "__attribute__" || word == "__cluster_dims__" ||
           word == "__maxnreg__" || word == "noexcept" || word == "__block_size__" ||
           word == "requires" || word == "explicit";
  }

  void judge(char terminator) {
    const std::vector<token>& head = here().head;
    if (head.empty() || found_ || here().judged) return;
    here().judged = terminator == '=';
    const reading what = read(head);
    const auto has = [&](const char* word) { return what.has.contains(word); };
    if (has("extern") || here().c_linkage) judge_external(head, what, terminator);
    if (what.function != nullptr || found_) return;
    const bool constant = has("const") || has("constexpr") || has("__constant__");
    if (constant || has("__shared__")) return;
    const bool on_device = has("__device__") || (here().function && here().device && has("static"));
    if (on_device && !what.plain_counter)
      found_ = finding_at(
          screen_rule::device_state, head[0],
          "a __device__ variable keeps what one call computed for the next; use the workspace, "
          "shared memory, __constant__ or constexpr (one integer, as a counter of blocks, is "
          "allowed)");
  }

  void judge_external(const std::vector<token>& head, const reading& what, char terminator) {
    if (what.has.contains("__shared__") || terminator == '{') return;
    const bool entry = what.function != nullptr && (what.function->text == "kernel" ||
                                                    what.function->text == "workspace_bytes");
    const bool own = std::any_of(head.begin(), head.end(), [](const token& item) {
      return rules::begins_other_declaration(item.text) || item.text == "static" ||
             item.text == "constexpr";
    });
    if (entry || (own && !what.has.contains("extern"))) return;
    found_ = finding_at(screen_rule::external, head[0],
                        "only kernel, workspace_bytes and shared memory may be declared extern");
  }

  tokens all_;
  const specifier_macros& macros_;
  std::vector<frame> frames_;
  std::optional<screen_finding> found_;
};

}  // namespace

std::optional<screen_finding> screen_cuda_scopes(std::span<const token> program,
                                                 const specifier_macros& macros) {
  return cuda_scopes(program, macros).screen();
}

}  // namespace quern::env
