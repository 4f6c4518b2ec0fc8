#include "env/lanes/pytorch/tasks/python_outline.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>

#include "env/lanes/pytorch/text/python_tokens.hpp"

namespace quern::env {

namespace {

/// Longest text of a value that prompts show as a size, and how many of them.
constexpr std::size_t max_outline_size_bytes = 60;
constexpr std::size_t max_outline_sizes = 40;
/// Names of one list; more are left out.
constexpr std::size_t max_outline_names = 2000;

/// Modules that are there wherever Python and torch are. Sorted.
constexpr auto own_python_modules = std::to_array<std::string_view>({
    "__future__",  "abc",        "argparse",  "array",      "ast",         "asyncio",
    "atexit",      "base64",     "bisect",    "builtins",   "cmath",       "codecs",
    "collections", "concurrent", "copy",      "copyreg",    "csv",         "ctypes",
    "dataclasses", "datetime",   "decimal",   "difflib",    "dis",         "enum",
    "errno",       "fractions",  "functools", "gc",         "getpass",     "glob",
    "gzip",        "hashlib",    "heapq",     "importlib",  "inspect",     "io",
    "itertools",   "json",       "keyword",   "linecache",  "locale",      "logging",
    "marshal",     "math",       "mmap",      "numbers",    "operator",    "os",
    "pathlib",     "pickle",     "pkgutil",   "platform",   "pprint",      "profile",
    "queue",       "random",     "re",        "reprlib",    "resource",    "secrets",
    "select",      "shutil",     "signal",    "socket",     "sqlite3",     "stat",
    "statistics",  "string",     "struct",    "subprocess", "symtable",    "sys",
    "sysconfig",   "tempfile",   "textwrap",  "threading",  "time",        "timeit",
    "token",       "tokenize",   "torch",     "traceback",  "tracemalloc", "types",
    "typing",      "unittest",   "urllib",    "uuid",       "warnings",    "weakref",
    "zipfile",     "zlib",
});
static_assert(std::is_sorted(own_python_modules.begin(), own_python_modules.end()));

enum class outline_kind : std::uint8_t { name, number, string, sign };

/// A part of python_tokens::text. An operator of several bytes is a sign for each.
struct outline_token {
  outline_kind kind = outline_kind::sign;
  std::string_view text;
  int depth = 0;  ///< brackets that are open around it; those themselves count as inside
};

/// The tokens of one statement of a line, at least one.
struct outline_statement {
  bool at_margin = false;
  std::vector<outline_token> tokens;
};

outline_kind outline_kind_of(python_token_kind kind) {
  switch (kind) {
    case python_token_kind::name:
      return outline_kind::name;
    case python_token_kind::number:
      return outline_kind::number;
    case python_token_kind::string:
    case python_token_kind::formatted:
      return outline_kind::string;
    default:
      return outline_kind::sign;
  }
}

/// Statements end with their line or with `;`. `from` outlives the result.
std::vector<outline_statement> statements_of(const python_tokens& from) {
  std::vector<outline_statement> all;
  outline_statement now;
  int level = 0, depth = 0;
  const auto end_statement = [&] {
    now.at_margin = level == 0;
    if (!now.tokens.empty()) all.push_back(std::move(now));
    now = {};
  };
  for (const python_token& one : from.tokens) {
    const std::string_view text = from.text_of(one);
    if (one.kind == python_token_kind::indent || one.kind == python_token_kind::dedent) {
      level += one.kind == python_token_kind::indent ? 1 : -1;
    } else if (one.kind == python_token_kind::newline || text == ";") {
      end_statement();
    } else if (const auto kind = outline_kind_of(one.kind); kind != outline_kind::sign) {
      now.tokens.push_back({kind, text, depth});
    } else {
      for (std::size_t i = 0; i < text.size(); ++i) {
        const char sign = text[i];
        if (sign == '(' || sign == '[' || sign == '{') ++depth;
        now.tokens.push_back({kind, text.substr(i, 1), depth});
        if ((sign == ')' || sign == ']' || sign == '}') && depth > 0) --depth;
      }
    }
  }
  end_statement();  // where a fault ended the tokens
  return all;
}

bool is_own_module(std::string_view module) {
  return std::binary_search(own_python_modules.begin(), own_python_modules.end(), module);
}

bool is_outline_word(const outline_token& token, std::string_view word) {
  return token.kind == outline_kind::name && token.text == word;
}

bool is_outline_sign(const outline_token& token, char sign) {
  return token.kind == outline_kind::sign && token.text[0] == sign;
}

void add_outline_name(std::vector<std::string>& to, std::string_view name) {
  if (to.size() < max_outline_names) to.emplace_back(name);
}

/// The text between the quotes of a plain string; empty where it has a prefix, three quotes or a
/// backslash.
std::string_view plain_outline_string(const outline_token& token) {
  const std::string_view text = token.text;
  if (token.kind != outline_kind::string || text.size() < 3 || text.front() != text.back())
    return {};
  if (text.front() != '"' && text.front() != '\'') return {};
  if (text.find('\\') != std::string_view::npos || text[1] == text[0]) return {};
  return text.substr(1, text.size() - 2);
}

class outline_maker {
 public:
  explicit outline_maker(const std::vector<outline_statement>& all) : all_(all) {}

  python_outline make() {
    for (const outline_statement& one : all_) {
      read_imports(one);
      if (one.at_margin)
        read_at_margin(one.tokens);
      else if (in_model_)
        read_in_model(one.tokens);
    }
    for (const outline_statement& one : all_)
      read_weights(one.tokens);
    made_.modules.assign(modules_.begin(), modules_.end());
    made_.weights.assign(weights_.begin(), weights_.end());
    return std::move(made_);
  }

 private:
  using tokens = std::vector<outline_token>;

  void read_at_margin(const tokens& line) {
    in_model_ = false;
    const std::size_t at = is_outline_word(line[0], "async") ? 1 : 0;
    if (at + 1 >= line.size()) return;
    const outline_token& second = line[at + 1];
    if (is_outline_word(line[at], "class") && second.kind == outline_kind::name) {
      add_outline_name(made_.classes, second.text);
      in_model_ = second.text == "Model";
    } else if (is_outline_word(line[at], "def") && second.kind == outline_kind::name) {
      add_outline_name(made_.functions, second.text);
    } else if (line[0].kind == outline_kind::name &&
               (is_outline_sign(line[1], ':') ||
                (is_outline_sign(line[1], '=') && !is_equality(line)))) {
      read_value(line);
    }
  }

  static bool is_equality(const tokens& line) {
    return line.size() > 2 && is_outline_sign(line[2], '=');
  }

  /// NAME = ..., and NAME: TYPE = ...
  void read_value(const tokens& line) {
    const auto equals = std::find_if(line.begin(), line.end(), [](const outline_token& one) {
      return one.depth == 0 && is_outline_sign(one, '=');
    });
    // `else:` and its like stand at the margin, too.
    if (equals == line.end() || equals + 1 == line.end()) return;
    add_outline_name(made_.values, line[0].text);
    const std::span<const outline_token> value(equals + 1, line.end());
    if (value.size() == 1)
      if (const std::string_view text = plain_outline_string(value[0]); !text.empty())
        texts_.emplace_back(line[0].text, text);
    const char* begin = value.front().text.data();
    const auto bytes =
        static_cast<std::size_t>(value.back().text.data() + value.back().text.size() - begin);
    const std::string_view shown(begin, bytes);
    const bool is_short =
        bytes <= max_outline_size_bytes && shown.find('\n') == std::string_view::npos;
    if (is_short && calls_nothing(value) && made_.sizes.size() < max_outline_sizes)
      made_.sizes.emplace_back(line[0].text, shown);
  }

  static bool calls_nothing(std::span<const outline_token> value) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (is_outline_sign(value[i], '.')) return false;
      if (i > 0 && is_outline_sign(value[i], '(') && value[i - 1].kind == outline_kind::name)
        return false;
    }
    return true;
  }

  void read_in_model(const tokens& line) {
    if (line.size() < 3 || !is_outline_word(line[0], "def") || !is_outline_sign(line[2], '('))
      return;
    if (line[1].text == "forward" && made_.forward_arguments.empty())
      made_.forward_arguments = arguments_of(line);
    if (line[1].text == "__init__" && made_.init_arguments.empty())
      made_.init_arguments = arguments_of(line);
  }

  /// Of `def NAME ( ... )`: what stands between commas of that depth, without annotations.
  static std::vector<std::string> arguments_of(const tokens& line) {
    std::vector<std::string> names;
    std::string argument;
    bool is_shown = true;
    const auto end_argument = [&] {
      if (argument.find_first_not_of("*/") != std::string::npos && argument != "self")
        add_outline_name(names, argument);
      argument.clear();
      is_shown = true;
    };
    for (std::size_t i = 3; i < line.size(); ++i) {
      const outline_token& one = line[i];
      const bool outer = one.depth == 1;
      if (outer && is_outline_sign(one, ')')) break;
      if (outer && is_outline_sign(one, ',')) {
        end_argument();
        continue;
      }
      if (outer && is_outline_sign(one, ':')) is_shown = false;
      if (outer && is_outline_sign(one, '=')) is_shown = true;
      if (is_shown) argument += one.text;
      // A default that is long is as good as its beginning.
      if (argument.size() > max_outline_size_bytes) is_shown = false;
    }
    end_argument();
    return names;
  }

  void read_imports(const outline_statement& from) {
    const tokens& line = from.tokens;
    if (line.size() < 2) return;
    if (is_outline_word(line[0], "from")) {
      // "from .x" is a part of a package, which a task is not.
      if (line[1].kind == outline_kind::name) add_module(line[1].text);
      const auto import = std::find_if(line.begin(), line.end(), [](const outline_token& one) {
        return is_outline_word(one, "import");
      });
      if (import != line.end() && from.at_margin) add_imported(import + 1, line.end());
    } else if (is_outline_word(line[0], "import")) {
      bool first = true;
      for (auto at = line.begin() + 1; at != line.end(); ++at) {
        if (first && at->kind == outline_kind::name) add_module(at->text);
        first = is_outline_sign(*at, ',');
      }
      if (from.at_margin) add_imported(line.begin() + 1, line.end());
    }
  }

  /// The names that are bound: the last word before each comma.
  void add_imported(tokens::const_iterator at, tokens::const_iterator end) {
    std::string_view last;
    for (; at != end; ++at) {
      if (at->kind == outline_kind::name) last = at->text;
      if (!is_outline_sign(*at, ',')) continue;
      add_outline_name(made_.imported, last);
      last = {};
    }
    if (!last.empty()) add_outline_name(made_.imported, last);
  }

  void add_module(std::string_view name) {
    if (!is_own_module(name) && modules_.size() < max_outline_names) modules_.emplace(name);
  }

  void read_weights(const tokens& line) {
    for (std::size_t i = 0; i + 2 < line.size(); ++i) {
      if (!is_outline_word(line[i], "from_pretrained") || !is_outline_sign(line[i + 1], '('))
        continue;
      std::string_view name = plain_outline_string(line[i + 2]);
      if (line[i + 2].kind == outline_kind::name)
        for (const auto& [value, text] : texts_)
          if (value == line[i + 2].text) name = text;
      if (!name.empty() && weights_.size() < max_outline_names) weights_.emplace(name);
    }
  }

  const std::vector<outline_statement>& all_;
  python_outline made_;
  std::set<std::string> modules_, weights_;
  std::vector<std::pair<std::string_view, std::string_view>> texts_;
  bool in_model_ = false;
};

}  // namespace

bool python_outline::defines(std::string_view name) const {
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has(classes) || has(functions) || has(values) || has(imported);
}

python_outline outline_of(std::string_view text) {
  const python_tokens tokens = tokenize_python(text);
  const auto statements = statements_of(tokens);
  return outline_maker(statements).make();
}

}  // namespace quern::env
