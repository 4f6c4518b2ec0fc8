// Types: their words, names and stars, and the parameters of functions and kernels.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

template <std::size_t Count>
bool is_word(const std::array<std::string_view, Count>& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

constexpr auto type_words =
    std::to_array<std::string_view>({"unsigned", "signed", "long", "short", "int", "char", "bool",
                                     "float", "double", "void", "auto"});
// Words around a type that change nothing here.
constexpr auto idle_words = std::to_array<std::string_view>(
    {"typename", "struct", "class", "union", "enum", "inline", "volatile", "register", "extern",
     "__host__", "__device__", "__forceinline__", "__noinline__", "__inline__", "__grid_constant__",
     "__restrict__", "__restrict", "\"C\""});

struct word_count {
  int with_sign = 0;
  int without_sign = 0;
  int longs = 0;
  int shorts = 0;
  std::string base;
  bool twice = false;  // two base words

  void add(std::string_view word) {
    if (word == "unsigned") {
      ++without_sign;
    } else if (word == "signed") {
      ++with_sign;
    } else if (word == "long") {
      ++longs;
    } else if (word == "short") {
      ++shorts;
    } else {
      twice = twice || !base.empty();
      base = word;
    }
  }

  [[nodiscard]] std::optional<value_type> type() const {
    const bool has_sign = with_sign + without_sign > 0;
    const bool lengthened = longs + shorts > 0;
    if (twice || with_sign + without_sign > 1 || longs > 2 || shorts > 1 ||
        (longs > 0 && shorts > 0))
      return std::nullopt;
    const bool is_unsigned = without_sign > 0;
    if (base.empty() || base == "int") {
      if (shorts > 0) return number_of(is_unsigned ? scalar::unsigned_short : scalar::short_int);
      if (longs == 1) return number_of(is_unsigned ? scalar::unsigned_long : scalar::long_int);
      if (longs == 2)
        return number_of(is_unsigned ? scalar::unsigned_long_long : scalar::long_long);
      return number_of(is_unsigned ? scalar::unsigned_int : scalar::int_type);
    }
    if (lengthened) return std::nullopt;  // long double too
    if (base == "char") {
      if (is_unsigned) return number_of(scalar::unsigned_char);
      return number_of(with_sign > 0 ? scalar::signed_char : scalar::character);
    }
    if (has_sign) return std::nullopt;
    if (base == "bool") return number_of(scalar::boolean);
    if (base == "float") return number_of(scalar::float_type);
    if (base == "double") return number_of(scalar::double_type);
    return plain(form::nothing);
  }
};

}  // namespace

std::optional<value_type> parser::alias_of(std::size_t index) {
  const auto known = aliases_.find(index);
  if (known != aliases_.end()) return known->second;
  aliases_[index] = std::nullopt;  // an alias of itself has no meaning
  const declaration& of = unit_.declarations[index];
  if (of.is_template) return std::nullopt;
  const nested level(*this);
  type_reading reading;
  const elsewhere there(*this, of.type, of.path);
  if (!starts_type() || !read_type(reading, true) || !at_end() || reading.automatic ||
      reading.reference)
    return std::nullopt;
  aliases_[index] = reading.type;
  return reading.type;
}

// The type that a path names, without looking behind it; nothing where it names none.
std::optional<value_type> parser::type_named(const name_path& path) {
  if (path.parts.empty()) return std::nullopt;
  const std::string& last = path.parts.back();
  if (path.standard) {
    const auto type = path.parts.size() == 1 ? known_type(last) : std::nullopt;
    return type && type->base == form::number ? type : std::nullopt;
  }
  if (path.parts.size() == 1 && !path.global) {
    if (const binding* local = find_name(last)) {
      if (local->kind == binding::role::type) return local->type;
      return std::nullopt;
    }
  }
  if (const auto* indices = find_entity(path.parts, path.global)) {
    const declaration& one = unit_.declarations[indices->front()];
    if (one.kind == entity::alias) return alias_of(indices->front());
    if (one.kind != entity::type) return std::nullopt;
    value_type type = plain(form::opaque);
    type.name = one.qualified;
    return type;
  }
  return path.parts.size() == 1 ? known_type(last) : std::nullopt;
}

bool parser::starts_type() {
  if (at("::")) return type_named(path_here()).has_value();
  if (!at_identifier()) return false;
  const std::string& word = peek().text;
  if (is_word(type_words, word) || word == "const" || word == "constexpr" || word == "static")
    return true;
  if (is_word(idle_words, word)) return word != "extern" && word != "inline";
  return type_named(path_here()).has_value();
}

// A name, with template arguments taken as they are written.
bool parser::read_type_name(value_type& out, bool any_name) {
  const name_path path = path_here();
  auto type = type_named(path);
  if (failed()) return false;
  if (!type && any_name && !path.parts.empty()) {
    type = plain(form::opaque);
    if (path.standard) type->name = "std::";
    for (std::size_t i = 0; i < path.parts.size(); ++i)
      type->name += (i > 0 ? "::" : "") + path.parts[i];
  }
  if (!type) return false;
  here_.cursor = path.behind;
  if (type->is(form::opaque) && at("<")) {
    const std::size_t close = closing(unit_.tokens, here_.cursor, here_.stop);
    if (close >= here_.stop) {
      fail(peek(), "'<' is never closed");
      return false;
    }
    for (; here_.cursor <= close; skip()) {
      const bool spaced = peek().kind == token_kind::identifier &&
                          std::isalnum(static_cast<unsigned char>(type->name.back())) != 0;
      type->name += (spaced ? " " : "") + peek().text;
      if (type->name.size() > 1000) {
        fail(peek(), "a type of more than 1000 characters");
        return false;
      }
    }
    type->bytes = 0;
  }
  out = *type;
  return true;
}

bool parser::read_base_type(type_reading& out, bool any_name) {
  const plan_token& first = peek();
  word_count words;
  bool worded = false;
  bool named = false;
  bool with_const = false;
  for (;;) {
    if (at("[") && at("[", 1)) {  // [[maybe_unused]]
      here_.cursor = std::min(closing(unit_.tokens, here_.cursor, here_.stop) + 1, here_.stop);
      continue;
    }
    if (!at_identifier() && !at("::") && !at("\"C\"")) break;
    const std::string& word = peek().text;
    if (word == "const") {
      with_const = true;
    } else if (word == "constexpr") {
      out.is_constexpr = true;
    } else if (word == "static") {
      out.is_static = true;
    } else if (word == "auto") {
      if (worded || named) break;
      out.automatic = true;
      named = true;
    } else if (is_word(type_words, word)) {
      if (named) break;
      words.add(word);
      worded = true;
    } else if (!is_word(idle_words, word)) {
      if (named || worded) break;
      if (!read_type_name(out.type, any_name)) break;
      named = true;
      continue;  // the name has moved the cursor
    }
    skip();
  }
  if (failed()) return false;
  if (worded) {
    const auto type = words.type();
    if (!type) {
      fail(first,
           fmt::format("'{}' begins no type of a plan: allowed are the integer types, float, "
                       "double and bool",
                       first.text));
      return false;
    }
    out.type = *type;
  }
  if (!worded && !named) {
    fail(peek(), fmt::format("found {}, allowed: a type", found()));
    return false;
  }
  if (with_const) out.type.constant = true;
  return true;
}

void parser::read_stars(type_reading& out) {
  out.fixed = out.is_constexpr || (out.type.stars == 0 && out.type.constant);
  for (;;) {
    if (accept("*")) {
      ++out.type.stars;
      out.fixed = out.is_constexpr;
    } else if (at("const") && !at_end()) {
      out.fixed = true;
      skip();
    } else if (at("__restrict__") || at("__restrict") || at("restrict") || at("volatile")) {
      skip();
    } else if (at("&") || at("&&")) {
      out.reference = true;
      skip();
    } else {
      return;
    }
  }
}

bool parser::read_type(type_reading& out, bool any_name) {
  if (!read_base_type(out, any_name)) return false;
  read_stars(out);
  return !failed();
}

std::vector<parser::parameter> parser::read_parameters(const declaration& of, bool any_name) {
  std::vector<parameter> read;
  std::vector<binding> names = here_.names;
  elsewhere there(*this, of.parameters, of.path);
  here_.names = std::move(names);
  if (at("void") && here_.cursor + 1 == here_.stop) return read;
  while (!at_end() && !failed()) {
    parameter one;
    one.at = place_of(peek());
    type_reading reading;
    if (!read_type(reading, any_name)) break;
    if (reading.reference && !reading.type.constant) {
      fail(one.at, fmt::format("a reference: parameters of '{}' are numbers and pointers by value",
                               of.name));
      break;
    }
    if (at_identifier()) {
      one.name = peek().text;
      skip();
    }
    if (accept("[")) {  // float x[]
      while (!at_end() && !at("]"))
        skip();
      expect("]", "behind an array parameter");
      ++reading.type.stars;
      reading.fixed = false;
    }
    one.type = reading.type;
    one.automatic = reading.automatic;
    one.fixed = reading.fixed;
    read.push_back(std::move(one));
    if (read.size() > plan_limits::parameters) {
      fail(peek(), fmt::format("more than {} parameters", plan_limits::parameters));
      break;
    }
    if (at_end()) break;
    if (at("=")) {
      fail(peek(), "default arguments are not in the grammar");
      break;
    }
    expect(",", "between parameters");
  }
  if (failed()) read.clear();
  return read;
}

}  // namespace quern::env::plan
