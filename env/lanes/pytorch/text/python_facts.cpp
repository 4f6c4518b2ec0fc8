// What a Python module shows without being run.
#include "env/lanes/pytorch/text/python_facts.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace quern::env {
namespace {

/// What `import` statements bind: a name, and the paths that it stands for. Only paths that lead to
/// a used_path are kept, cut at it. So a name has few, however often a module binds it.
using python_bindings = std::map<std::string, std::set<std::string>, std::less<>>;

struct used_path {
  std::string_view path;
  bool python_facts::*fact;
  bool if_imported;  ///< an import is a use
};

constexpr used_path used_paths[] = {
    {"torch.utils.cpp_extension.load_inline", &python_facts::uses_load_inline, false},
    {"torch.utils.cpp_extension.load", &python_facts::uses_load, false},
    {"triton.jit", &python_facts::uses_triton_jit, false},
    {"triton.runtime.jit.jit", &python_facts::uses_triton_jit, false},
    {"torch.compile", &python_facts::uses_torch_compile, false},
    {"torch.cuda.CUDAGraph", &python_facts::uses_cuda_graph, false},
    {"torch.cuda.graph", &python_facts::uses_cuda_graph, false},
    {"torch.cuda.graphs", &python_facts::uses_cuda_graph, false},
    {"torch.cuda.make_graphed_callables", &python_facts::uses_cuda_graph, false},
    {"cutlass.cute", &python_facts::uses_cute, true},
    {"tilelang", &python_facts::uses_tilelang, true}};

void sort_names_once(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

std::string_view first_part_of(std::string_view path) {
  return path.substr(0, path.find('.'));
}

/// Whether `path` is `of` or something in it.
bool is_in_path(std::string_view path, std::string_view of) {
  return path.starts_with(of) && (path.size() == of.size() || path[of.size()] == '.');
}

/// Whether statements may follow in the line of `first`, behind a colon.
bool begins_block(std::string_view first) {
  constexpr std::string_view words[] = {"if",  "elif",   "else",    "for", "while",
                                        "try", "except", "finally", "with"};
  return std::find(std::begin(words), std::end(words), first) != std::end(words);
}

/// `path` itself if it leads to a used_path, that one if `path` is in it; else empty.
std::string_view path_of_interest(std::string_view path) {
  for (const used_path& one : used_paths) {
    if (is_in_path(path, one.path)) return one.path;
    if (is_in_path(one.path, path)) return path;
  }
  return {};
}

class python_facts_reader {
 public:
  explicit python_facts_reader(const python_tokens& text) : text_(text) {}

  python_facts run() {
    while (at_ < count())
      line();
    for (const auto& [begin, end] : chains_)
      use(begin, end);
    sort_names_once(facts_.names);
    sort_names_once(facts_.imports);
    return std::move(facts_);
  }

 private:
  [[nodiscard]] std::size_t count() const { return text_.tokens.size(); }
  [[nodiscard]] bool is(std::size_t at, python_token_kind of) const {
    return at < count() && text_.tokens[at].kind == of;
  }
  [[nodiscard]] std::string_view word(std::size_t at) const {
    return at < count() ? text_.text_of(text_.tokens[at]) : std::string_view();
  }
  [[nodiscard]] bool is_name(std::size_t at, std::string_view name) const {
    return is(at, python_token_kind::name) && word(at) == name;
  }
  [[nodiscard]] bool is_sign(std::size_t at, std::string_view sign) const {
    return is(at, python_token_kind::operation) && word(at) == sign;
  }

  void line();
  void definition(std::size_t at, bool at_module_scope);
  void assignment();
  bool import_statement(bool at_module_scope);
  void import_list(const std::string& from, bool at_module_scope);
  std::string dotted_name();
  void chain();
  void use(std::size_t begin, std::size_t end);
  void reach(std::string_view path, bool only_imports);

  const python_tokens& text_;
  python_facts facts_;
  std::size_t at_ = 0;
  std::size_t level_ = 0;
  /// Of the outermost class or function whose body is being read.
  std::size_t body_of_ = 0;
  bool in_body_ = false;
  python_bindings bindings_;
  std::set<std::string> stars_;  ///< modules of interest of which all names are imported
  /// Tokens [begin, end) of names with what follows them by dots: a.b.c.
  std::vector<std::pair<std::size_t, std::size_t>> chains_;
};

void python_facts_reader::line() {
  for (; is(at_, python_token_kind::indent) || is(at_, python_token_kind::dedent); ++at_)
    level_ = is(at_, python_token_kind::indent) ? level_ + 1 : level_ - 1;
  in_body_ = in_body_ && level_ > body_of_;
  definition(at_, !in_body_);
  const bool is_module_scope = !in_body_;
  const bool is_block = begins_block(word(at_));
  bool begins_statement = !is_block;
  int open = 0;
  for (bool is_done = false; at_ < count() && !is_done;) {
    if (begins_statement && is_module_scope) assignment();
    begins_statement = false;
    if (import_statement(is_module_scope)) continue;
    is_done = is(at_, python_token_kind::newline);
    if (is(at_, python_token_kind::name)) {
      chain();
      continue;
    }
    const std::string_view sign =
        is(at_, python_token_kind::operation) ? word(at_) : std::string_view();
    if (sign == "(" || sign == "[" || sign == "{") ++open;
    if (sign == ")" || sign == "]" || sign == "}") --open;
    begins_statement = open == 0 && (sign == ";" || (is_block && sign == ":"));
    ++at_;
  }
}

void python_facts_reader::definition(std::size_t at, bool at_module_scope) {
  if (is_name(at, "async")) ++at;
  const bool is_class = is_name(at, "class");
  if ((!is_class && !is_name(at, "def")) || !is(at + 1, python_token_kind::name)) return;
  if (!at_module_scope) return;
  const std::string name(word(at + 1));
  (is_class ? facts_.classes : facts_.functions).push_back(name);
  facts_.names.push_back(name);
  in_body_ = true;
  body_of_ = level_;
}

/// Looks at a statement that begins with names and `=`, or with a name and a colon; reads nothing.
void python_facts_reader::assignment() {
  if (is(at_, python_token_kind::name) && is_sign(at_ + 1, ":") &&
      !is(at_ + 2, python_token_kind::newline)) {
    if (word(at_) != "lambda") facts_.names.emplace_back(word(at_));
    return;
  }
  for (std::size_t at = at_; is(at, python_token_kind::name) && is_sign(at + 1, "="); at += 2)
    facts_.names.emplace_back(word(at));
}

/// Names with dots between them, behind the dots of a relative import. Each token is read at most
/// once more by others, so that reading stays linear.
std::string python_facts_reader::dotted_name() {
  std::string path;
  const auto take = [&] {
    // Copied once for each imported name. Nothing of interest is as long.
    constexpr std::size_t longest = 200;
    if (path.size() + word(at_).size() <= longest) path += word(at_);
    ++at_;
  };
  while (is_sign(at_, ".") || is_sign(at_, "..."))
    take();
  const auto is_part = [&](std::size_t at) {
    return is(at, python_token_kind::name) && !is_name(at, "import") && !is_name(at, "as");
  };
  if (!is_part(at_)) return path;
  take();
  while (is_sign(at_, ".") && is_part(at_ + 1)) {
    take();
    take();
  }
  return path;
}

bool python_facts_reader::import_statement(bool at_module_scope) {
  const std::size_t begin = at_;
  std::string from;
  if (is_name(at_, "from")) {
    ++at_;
    from = dotted_name();
  }
  // `yield from x` and `raise x from y` import nothing.
  if (!is_name(at_, "import") || (is_name(begin, "from") && from.empty())) {
    at_ = begin;
    return false;
  }
  ++at_;
  import_list(from, at_module_scope);
  return true;
}

/// What is between `import` and the end of the statement. `from` is empty where there is none.
void python_facts_reader::import_list(const std::string& from, bool at_module_scope) {
  if (!from.empty() && from.front() != '.') facts_.imports.emplace_back(first_part_of(from));
  if (is_sign(at_, "(")) ++at_;
  if (is_sign(at_, "*")) {
    if (const auto path = path_of_interest(from); !path.empty()) stars_.emplace(path);
    reach(from, true);
    ++at_;
  }
  while (is(at_, python_token_kind::name)) {
    const std::string path = dotted_name();
    if (path.empty()) break;
    std::string bound(first_part_of(path));
    const std::string whole = from.empty() ? path : from + "." + path;
    std::string stands_for = from.empty() ? bound : whole;
    if (from.empty()) facts_.imports.push_back(bound);
    reach(whole, true);
    if (is_name(at_, "as") && is(at_ + 1, python_token_kind::name)) {
      bound = word(at_ + 1);
      stands_for = whole;
      at_ += 2;
    }
    if (at_module_scope) facts_.names.push_back(bound);
    auto& paths = bindings_[std::move(bound)];
    if (const auto kept = path_of_interest(stands_for); !kept.empty()) paths.emplace(kept);
    if (is_sign(at_, ",")) ++at_;
  }
  if (is_sign(at_, ")")) ++at_;
}

/// At a name.
void python_facts_reader::chain() {
  const std::size_t begin = at_++;
  while (is_sign(at_, ".") && is(at_ + 1, python_token_kind::name))
    at_ += 2;
  if (begin == 0 || !is_sign(begin - 1, ".")) chains_.emplace_back(begin, at_);
}

void python_facts_reader::use(std::size_t begin, std::size_t end) {
  std::string rest;
  for (std::size_t at = begin + 1; at < end; ++at)
    rest += word(at);
  const std::string_view first = word(begin);
  if (const auto bound = bindings_.find(first); bound != bindings_.end()) {
    for (const std::string& path : bound->second)
      reach(path + rest, false);
    return;
  }
  for (const std::string& module : stars_)
    reach(module + "." + std::string(first) + rest, false);
}

/// `path` is used, or only imported.
void python_facts_reader::reach(std::string_view path, bool only_imports) {
  for (const used_path& one : used_paths)
    if ((one.if_imported || !only_imports) && is_in_path(path, one.path)) facts_.*one.fact = true;
}

}  // namespace

bool python_facts::binds(std::string_view name) const {
  return std::binary_search(names.begin(), names.end(), name, std::less<>());
}

python_facts facts_of_python(const python_tokens& text) {
  return python_facts_reader(text).run();
}

}  // namespace quern::env
