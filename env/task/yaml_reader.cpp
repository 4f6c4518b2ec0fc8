// Strict reading of YAML maps.
#include "env/task/yaml_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>

#include "base/text.hpp"

namespace quern::env {

namespace {

std::string_view kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsScalar()) return "a word";
  return "nothing";
}

/// Sees the events of a document without building it.
class watcher : public YAML::EventHandler {
 public:
  std::optional<int> alias_line;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { alias_line = mark.line + 1; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// The whole text as a number of type T.
template <class T>
std::optional<T> parse_whole(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

base::expected<YAML::Node> load_yaml(std::string_view what, std::string_view text,
                                     std::size_t limit) {
  if (text.size() > limit) {
    return base::fail(base::errc::invalid_argument, "{} has {} bytes, at most {} are allowed", what,
                      text.size(), limit);
  }
  YAML::Node root;
  QUERN_CHECK(guard_yaml(what, [&]() -> base::status {
    // Not YAML::LoadAll: on text such as ", a: 1" it makes empty documents for ever.
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    watcher events;
    const bool one = parser.HandleNextDocument(events);
    if (one && parser.HandleNextDocument(events)) {
      return base::fail(base::errc::invalid_argument,
                        "{} holds more than one YAML document, exactly one is allowed", what);
    }
    if (events.alias_line) {
      return base::fail(base::errc::invalid_argument,
                        "{} uses an alias in line {}: write the value out", what,
                        *events.alias_line);
    }
    root = YAML::Load(std::string(text));
    return {};
  }));
  return root;
}

base::status guard_yaml(std::string_view what, const std::function<base::status()>& body) {
  try {
    return body();
  } catch (const YAML::Exception& problem) {
    return base::fail(base::errc::invalid_argument, "{} is not valid YAML: line {}, column {}: {}",
                      what, problem.mark.line + 1, problem.mark.column + 1, problem.msg);
  } catch (const std::exception& problem) {
    return base::fail(base::errc::invalid_argument, "{} cannot be read: {}", what, problem.what());
  }
}

base::expected<yaml_map> yaml_map::open(const YAML::Node& node, std::string where,
                                        std::span<const std::string_view> known) {
  if (!node.IsMap()) {
    return base::fail(base::errc::invalid_argument, "{} is {}, it must be a map of key: value",
                      where, kind_of(node));
  }
  yaml_map result;
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      return base::fail(base::errc::invalid_argument, "{} has a key that is {}, keys are words",
                        where, kind_of(pair.first));
    }
    std::string key = pair.first.Scalar();
    if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end()) {
      return base::fail(base::errc::invalid_argument, "{} has the unknown key '{}'{}; known are {}",
                        where, key, base::did_you_mean(key, known), fmt::join(known, ", "));
    }
    if (result.has(key)) {
      return base::fail(base::errc::invalid_argument, "{} has the key '{}' twice: remove one",
                        where, key);
    }
    result.entries_.push_back({std::move(key), pair.second});
  }
  result.where_ = std::move(where);
  return result;
}

bool yaml_map::has(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const entry& one) { return one.key == key; });
}

std::vector<std::string> yaml_map::keys() const {
  std::vector<std::string> result;
  for (const entry& one : entries_)
    result.push_back(one.key);
  return result;
}

base::expected<YAML::Node> yaml_map::node(std::string_view key) const {
  for (const entry& one : entries_) {
    if (one.key == key) return one.value;
  }
  return base::fail(base::errc::invalid_argument, "{} lacks the key '{}': add it", where_, key);
}

base::expected<std::string> yaml_map::text(std::string_view key) const {
  QUERN_TRY(const YAML::Node value, node(key));
  if (!value.IsScalar()) {
    return base::fail(base::errc::invalid_argument, "{}: '{}' is {}, it must be a word or text",
                      where_, key, kind_of(value));
  }
  return value.Scalar();
}

base::expected<std::int64_t> yaml_map::integer(std::string_view key) const {
  QUERN_TRY(const std::string value, text(key));
  if (const auto parsed = parse_whole<std::int64_t>(value)) return *parsed;
  return base::fail(base::errc::invalid_argument,
                    "{}: '{}' is '{}', it must be an integer of 64 bits", where_, key, value);
}

base::expected<double> yaml_map::number(std::string_view key) const {
  QUERN_TRY(const std::string value, text(key));
  if (const auto parsed = parse_whole<double>(value); parsed && std::isfinite(*parsed))
    return *parsed;
  return base::fail(base::errc::invalid_argument, "{}: '{}' is '{}', it must be a finite number",
                    where_, key, value);
}

base::expected<bool> yaml_map::boolean(std::string_view key) const {
  QUERN_TRY(const std::string value, text(key));
  if (value == "true") return true;
  if (value == "false") return false;
  return base::fail(base::errc::invalid_argument, "{}: '{}' is '{}', it must be true or false",
                    where_, key, value);
}

base::expected<std::vector<std::string>> yaml_map::texts(std::string_view key) const {
  QUERN_TRY(const auto elements, list(key));
  std::vector<std::string> result;
  for (const YAML::Node& element : elements) {
    if (!element.IsScalar()) {
      return base::fail(base::errc::invalid_argument,
                        "{}: '{}' lists {}, its elements must be words", where_, key,
                        kind_of(element));
    }
    result.push_back(element.Scalar());
  }
  return result;
}

base::expected<std::vector<YAML::Node>> yaml_map::list(std::string_view key) const {
  QUERN_TRY(const YAML::Node value, node(key));
  if (!value.IsSequence()) {
    return base::fail(base::errc::invalid_argument, "{}: '{}' is {}, it must be a list: [a, b]",
                      where_, key, kind_of(value));
  }
  std::vector<YAML::Node> result;
  for (const auto& element : value)
    result.push_back(element);
  return result;
}

tl::unexpected<base::error> not_of(const yaml_map& map, std::string_view key,
                                   std::string_view found,
                                   std::span<const std::string_view> known) {
  return base::fail(base::errc::invalid_argument, "{}: '{}' is '{}'{}; known are {}", map.where(),
                    key, found, base::did_you_mean(found, known), fmt::join(known, ", "));
}

base::status check_version(const yaml_map& map, std::string_view key, std::int64_t known) {
  QUERN_TRY(const std::int64_t found, map.integer(key));
  if (found == known) return {};
  return base::fail(base::errc::version, "{} has {} {}, this program reads version {}: {}",
                    map.where(), key, found, known,
                    found > known ? "use a newer Quern" : "convert the file to the current format");
}

}  // namespace quern::env
