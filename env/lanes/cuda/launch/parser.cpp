// Entries, tokens, errors and names.
#include "env/lanes/cuda/launch/parser.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace quern::env::plan {
namespace {

constexpr auto keywords = std::to_array<std::string_view>(
    {"alignas",  "alignof",   "and",       "asm",      "auto",          "bool",     "break",
     "case",     "catch",     "char",      "class",    "concept",       "const",    "const_cast",
     "continue", "constexpr", "decltype",  "default",  "delete",        "do",       "double",
     "else",     "enum",      "explicit",  "export",   "extern",        "false",    "float",
     "for",      "friend",    "goto",      "if",       "inline",        "int",      "long",
     "mutable",  "namespace", "new",       "noexcept", "not",           "nullptr",  "operator",
     "or",       "private",   "protected", "public",   "register",      "requires", "return",
     "short",    "signed",    "sizeof",    "static",   "static_assert", "struct",   "switch",
     "template", "this",      "throw",     "true",     "try",           "typedef",  "typeid",
     "typename", "union",     "unsigned",  "using",    "virtual",       "void",     "volatile",
     "while"});

}  // namespace

// ---- tokens and errors ----

const plan_token& parser::peek(std::size_t ahead) const {
  const std::size_t at = here_.cursor + ahead;
  // Behind a range stands the bracket that closes it: where an error points to.
  return unit_.tokens[std::min(at < here_.stop ? at : here_.stop, unit_.tokens.size() - 1)];
}

bool parser::at(std::string_view text, std::size_t ahead) const {
  return here_.cursor + ahead < here_.stop && peek(ahead).text == text;
}

bool parser::at_identifier(std::size_t ahead) const {
  return here_.cursor + ahead < here_.stop && peek(ahead).kind == token_kind::identifier;
}

bool parser::at_launch_end() const {
  return at(">") && at(">", 1) && peek(1).glued && at(">", 2) && peek(2).glued;
}

bool parser::accept(std::string_view text) {
  if (!at(text)) return false;
  skip();
  return true;
}

std::string parser::found() const {
  if (at_end()) return "the end";
  const std::string& text = peek().text;
  return text.size() <= 40 ? "'" + text + "'" : "'" + text.substr(0, 37) + "...'";
}

bool parser::expect(std::string_view text, std::string_view where) {
  if (accept(text)) return true;
  fail(peek(), fmt::format("found {}, allowed {}: '{}'", found(), where, text));
  return false;
}

void parser::fail(const plan_token& where, std::string text) {
  fail(place_of(where), std::move(text));
}

void parser::fail(place where, std::string text) {
  if (!error_) error_ = plan_error{where.line, where.column, std::move(text)};
  here_.cursor = here_.stop;
}

parser::nested::nested(parser& of) : parser_(of) {
  if (++of.depth_ > plan_limits::nesting)
    of.fail(of.peek(), fmt::format("nested deeper than {}", plan_limits::nesting));
}

parser::elsewhere::elsewhere(parser& of, token_range range, const std::vector<std::string>& path)
    : parser_(of), aside_(std::move(of.here_)) {
  of.here_ = context{};
  of.here_.cursor = range.first;
  of.here_.stop = range.last;
  of.here_.path = path;
  if (of.failed()) of.here_.cursor = of.here_.stop;
}

parser::elsewhere::~elsewhere() {
  parser_.here_ = std::move(aside_);
  if (parser_.failed()) parser_.here_.cursor = parser_.here_.stop;
}

// ---- names ----

parser::binding* parser::find_name(std::string_view name) {
  for (auto one = here_.names.rbegin(); one != here_.names.rend(); ++one)
    if (one->name == name) return &*one;
  return nullptr;
}

parser::name_path parser::path_here() const {
  name_path path;
  std::size_t ahead = 0;
  if (at("::")) {
    path.global = true;
    ahead = 1;
  }
  while (at_identifier(ahead)) {
    path.parts.push_back(peek(ahead).text);
    ++ahead;
    if (!at("::", ahead) || !at_identifier(ahead + 1)) break;
    ++ahead;
  }
  path.behind = here_.cursor + ahead;
  if (path.parts.size() > 1 && path.parts.front() == "std") {
    path.standard = true;
    path.parts.erase(path.parts.begin());
  }
  return path;
}

std::string parser::text_of(const name_path& path) {
  std::string whole = path.standard ? "std" : "";
  for (const std::string& part : path.parts)
    whole += (whole.empty() && !path.global ? "" : "::") + part;
  return whole;
}

// Declares a name in the innermost block.
bool parser::bind(binding made, const plan_token& where) {
  const bool taken =
      std::any_of(here_.names.begin() + static_cast<std::ptrdiff_t>(here_.scope), here_.names.end(),
                  [&](const binding& one) { return one.name == made.name; });
  const bool keyword = std::find(keywords.begin(), keywords.end(), made.name) != keywords.end();
  if (keyword || known_type(made.name)) {
    fail(where, fmt::format("'{}' is no name for a variable", made.name));
  } else if (taken) {
    fail(where, fmt::format("'{}' is declared a second time", made.name));
  } else {
    here_.names.push_back(std::move(made));
  }
  return !failed();
}

const std::vector<std::size_t>* parser::find_entity(const std::vector<std::string>& parts,
                                                    bool global) {
  if (parts.empty()) return nullptr;
  std::string tail;
  for (const std::string& one : parts)
    tail += (tail.empty() ? "" : "::") + one;
  const auto look = [&](const std::vector<std::string>& path,
                        std::size_t count) -> const std::vector<std::size_t>* {
    std::string key;
    for (std::size_t i = 0; i < count; ++i)
      key += path[i] + "::";
    const auto found = unit_.by_name.find(key + tail);
    return found == unit_.by_name.end() ? nullptr : &found->second;
  };
  for (std::size_t count = global ? 0 : here_.path.size();; --count) {
    if (const auto* indices = look(here_.path, count)) return indices;
    if (count == 0) break;
  }
  if (global) return nullptr;
  for (const auto& opened : unit_.opened)
    if (const auto* indices = look(opened, opened.size())) return indices;
  return nullptr;
}

const declaration* parser::entity_here(const name_path& path) {
  if (path.standard) return nullptr;
  if (path.parts.size() == 1 && !path.global && find_name(path.parts[0]) != nullptr) return nullptr;
  const auto* indices = find_entity(path.parts, path.global);
  if (indices == nullptr) return nullptr;
  // A definition rather than the declarations before it.
  const declaration* chosen = nullptr;
  for (const std::size_t index : *indices) {
    const declaration& one = unit_.declarations[index];
    if (chosen == nullptr || (one.defined && !chosen->defined)) chosen = &one;
  }
  return chosen;
}

const parser::resolved_constant& parser::constant_of(std::size_t index) {
  resolved_constant& known = resolved_[index];
  if (known.done) return known;
  const declaration& of = unit_.declarations[index];
  if (known.busy) {
    fail(unit_.tokens[of.name_at], fmt::format("'{}' is defined by itself", of.name));
    return known;
  }
  known.busy = true;
  const nested level(*this);
  type_reading reading;
  {
    const elsewhere there(*this, of.type, of.path);
    read_type(reading);
    if (!failed() && (!at_end() || (!reading.automatic && !reading.type.is_number())))
      fail(peek(), fmt::format("'{}' is no number: no constant of a plan", of.name));
  }
  const elsewhere there(*this, of.initialiser, of.path);
  node_id initial = parse_expression();
  if (!failed() && !at_end())
    fail(peek(), fmt::format("found {}, allowed: the end of the initialiser", found()));
  if (!failed() && reading.automatic) reading.type = node(initial).type;
  if (!failed()) initial = convert(initial, reading.type, conversion::implicit, "the initialiser");
  if (!failed() && known_value(initial, known.known)) known.type = reading.type;
  known.type.constant = false;
  known.done = true;
  return known;
}

// ---- entries ----

const declaration* parser::find_entry(std::string_view name) {
  const declaration* chosen = nullptr;
  for (const declaration& one : unit_.declarations) {
    if (one.name != name || !one.defined) continue;
    if (one.kind != entity::function) {
      fail(unit_.tokens[one.name_at], fmt::format("'{}' has to be a host function", name));
    } else if (chosen != nullptr) {
      fail(unit_.tokens[one.name_at], fmt::format("'{}' is defined a second time", name));
    }
    chosen = &one;
  }
  if (chosen == nullptr || failed()) return chosen;
  const plan_token& where = unit_.tokens[chosen->name_at];
  if (!chosen->external_c) fail(where, fmt::format("'{}' is not extern \"C\"", name));
  if (chosen->is_template) fail(where, fmt::format("'{}' is a template", name));
  if (chosen->device)
    fail(where, fmt::format("'{}' is __device__: it has to run on the host", name));
  return chosen;
}

bool parser::read_kernel(const declaration& entry) {
  const plan_signature& signature = program_.signature;
  const plan_token& name = unit_.tokens[entry.name_at];
  const std::vector<parameter> given = read_parameters(entry, false);
  std::vector<value_type> wanted;
  std::vector<std::string> wanted_names;
  for (const plan_tensor& one : signature.inputs) {
    value_type type = type_of(one.type);
    type.constant = true;
    wanted.push_back(pointer_to(type));
    wanted_names.push_back(one.name);
  }
  for (const plan_tensor& one : signature.outputs) {
    wanted.push_back(pointer_to(type_of(one.type)));
    wanted_names.push_back(one.name);
  }
  for (const std::string& one : signature.sizes) {
    wanted.push_back(number_of(scalar::long_int));
    wanted_names.push_back(one);
  }
  wanted.push_back(pointer_to(plain(form::nothing)));
  wanted_names.emplace_back("workspace");
  wanted.push_back(plain(form::stream));
  wanted_names.emplace_back("stream");
  if (!failed() && given.size() != wanted.size())
    fail(name,
         fmt::format("'kernel' has {} parameters, the task's has {}", given.size(), wanted.size()));
  for (std::size_t i = 0; i < wanted.size() && !failed(); ++i) {
    value_type type = given[i].type;
    if (type.stars == 0) type.constant = false;
    if (given[i].automatic || !same_representation(type, wanted[i]) ||
        type.constant != wanted[i].constant)
      fail(given[i].at, fmt::format("parameter {} is {}, the task's '{}' is {}", i + 1,
                                    spelling(given[i].type), wanted_names[i], spelling(wanted[i])));
  }
  if (failed()) return false;
  program_.kernel_function = read_function(entry, {}, {});
  if (!failed() &&
      !program_.functions[static_cast<std::size_t>(program_.kernel_function)].result.is(
          form::nothing))
    fail(name, "'kernel' has to return void");
  return !failed();
}

bool parser::read_workspace(const declaration& entry) {
  const plan_token& name = unit_.tokens[entry.name_at];
  const std::vector<parameter> given = read_parameters(entry, false);
  const value_type wanted = number_of(scalar::long_int);
  if (!failed() && given.size() != program_.signature.sizes.size())
    fail(name, fmt::format("'workspace_bytes' has {} parameters, the task has {} sizes",
                           given.size(), program_.signature.sizes.size()));
  for (std::size_t i = 0; i < given.size() && !failed(); ++i)
    if (given[i].automatic || !same_representation(given[i].type, wanted))
      fail(given[i].at,
           fmt::format("parameter {} is {}, the task's '{}' is {}", i + 1, spelling(given[i].type),
                       program_.signature.sizes[i], spelling(wanted)));
  if (failed()) return false;
  program_.workspace_function = read_function(entry, {}, {});
  if (failed()) return false;
  const function& made = program_.functions[static_cast<std::size_t>(program_.workspace_function)];
  if (!same_representation(made.result, wanted))
    fail(name, "'workspace_bytes' has to return int64_t");
  if (made.launches) fail(name, "'workspace_bytes' launches something: only 'kernel' may");
  return !failed();
}

std::optional<plan_error> parser::run() {
  const declaration* entry = find_entry("kernel");
  if (entry == nullptr && !failed())
    fail(place{}, "no function 'kernel' is defined: extern \"C\" void kernel(...)");
  if (failed() || !read_kernel(*entry)) return error_;
  if (const declaration* workspace = find_entry("workspace_bytes");
      workspace != nullptr && !failed())
    read_workspace(*workspace);
  return error_;
}

}  // namespace quern::env::plan
