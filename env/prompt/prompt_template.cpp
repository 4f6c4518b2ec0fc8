// Reads template files.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/prompt/prompt.hpp"

namespace quern::env {

namespace {

using part = prompt_template::part;

constexpr std::size_t max_template_bytes = 64 * 1024;

constexpr auto value_names = std::to_array<std::string_view>(
    {"task.name", "task.family", "task.reference", "task.prototype", "task.workspace",
     "task.signature", "task.sizes", "task.inputs", "task.outputs", "task.tolerance", "lane",
     "language", "fence", "device_class", "baseline", "restrictions"});
constexpr auto exemplar_names =
    std::to_array<std::string_view>({"exemplar.number", "exemplar.score", "exemplar.code"});
constexpr auto block_names = std::to_array<std::string_view>({"exemplars", "no_exemplars"});

/// Position in the template, for messages.
std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

bool holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Reads the part behind the header.
class body_parser {
 public:
  body_parser(std::string_view text, std::size_t begin) : text_(text), at_(begin), begin_(begin) {}

  base::expected<std::vector<part>> run() {
    while (true) {
      const std::size_t open = text_.find("{{", at_);
      literal(text_.substr(at_, open == std::string_view::npos ? open : open - at_));
      if (open == std::string_view::npos) break;
      const std::size_t close = text_.find("}}", open);
      if (close == std::string_view::npos) return wrong(open, "'{{' is never closed");
      at_ = close + 2;
      QUERN_CHECK(tag(open, base::trim(text_.substr(open + 2, close - open - 2))));
    }
    if (!block_.empty())
      return wrong(text_.size(), fmt::format("the block '{}' is never closed", block_));
    return std::move(parts_);
  }

 private:
  tl::unexpected<base::error> wrong(std::size_t where, std::string_view what) const {
    return base::fail(base::errc::invalid_argument, "template, line {}: {}", line_of(text_, where),
                      what);
  }

  void literal(std::string_view text) {
    if (!text.empty()) parts_.push_back({part::kind::text, std::string(text)});
  }

  base::status tag(std::size_t where, std::string_view name) {
    if (name.starts_with('#') || name.starts_with('/')) {
      QUERN_CHECK(name[0] == '#' ? open_block(where, name.substr(1))
                                 : close_block(where, name.substr(1)));
      swallow_line(where);
      return {};
    }
    const bool known =
        holds(value_names, name) || (block_ == "exemplars" && holds(exemplar_names, name));
    if (known) {
      parts_.push_back({part::kind::value, std::string(name)});
      return {};
    }
    if (holds(exemplar_names, name)) {
      return wrong(
          where,
          fmt::format("'{}' stands outside of {{{{#exemplars}}}} … {{{{/exemplars}}}}", name));
    }
    std::vector<std::string_view> all(value_names.begin(), value_names.end());
    all.insert(all.end(), exemplar_names.begin(), exemplar_names.end());
    return wrong(where,
                 fmt::format("unknown placeholder '{}'{}", name, base::did_you_mean(name, all)));
  }

  base::status open_block(std::size_t where, std::string_view name) {
    if (!holds(block_names, name)) {
      return wrong(
          where, fmt::format("unknown block '{}'{}", name, base::did_you_mean(name, block_names)));
    }
    if (!block_.empty())
      return wrong(where,
                   fmt::format("block '{}' opens inside '{}': blocks do not nest", name, block_));
    block_ = name;
    parts_.push_back({name == "exemplars" ? part::kind::each_exemplar : part::kind::no_exemplars,
                      std::string(name)});
    return {};
  }

  base::status close_block(std::size_t where, std::string_view name) {
    if (block_.empty() || block_ != name)
      return wrong(where, fmt::format("'/{}' closes a block that is not open", name));
    block_ = {};
    parts_.push_back({part::kind::block_end, std::string(name)});
    return {};
  }

  /// Where the tag [where, at_) is alone on its line, leaves the line break out.
  void swallow_line(std::size_t where) {
    const bool first = where == begin_ || text_[where - 1] == '\n';
    if (first && at_ < text_.size() && text_[at_] == '\n') ++at_;
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t begin_;
  std::string_view block_;
  std::vector<part> parts_;
};

/// The line that begins at `at`, which moves behind it.
std::string_view next_line(std::string_view text, std::size_t& at) {
  const std::size_t end = std::min(text.find('\n', at), text.size());
  const std::string_view result = text.substr(at, end - at);
  at = std::min(end + 1, text.size());
  return base::trim(result);
}

}  // namespace

base::expected<prompt_template> prompt_template::parse(std::string_view text) {
  if (text.size() > max_template_bytes) {
    return base::fail(base::errc::invalid_argument, "template has {} bytes, at most {} are allowed",
                      text.size(), max_template_bytes);
  }
  std::size_t at = 0;
  const std::string_view version = next_line(text, at);
  if (!version.starts_with("quern_prompt: ")) {
    return base::fail(base::errc::invalid_argument,
                      "template begins with '{}', its first line must be 'quern_prompt: {}'",
                      version.substr(0, 40), prompt_version);
  }
  if (version != fmt::format("quern_prompt: {}", prompt_version)) {
    return base::fail(base::errc::version,
                      "template says '{}', this program reads version {}: use a newer Quern",
                      version.substr(0, 40), prompt_version);
  }
  const std::string_view name = next_line(text, at);
  if (!name.starts_with("name: ") || name.size() > 70) {
    return base::fail(base::errc::invalid_argument,
                      "template, line 2: write 'name: NAME' with at most 64 letters");
  }
  if (next_line(text, at) != "---") {
    return base::fail(base::errc::invalid_argument,
                      "template, line 3: write '---', the text begins behind it");
  }
  prompt_template result;
  result.name_ = base::trim(name.substr(6));
  result.hash_ = base::xxh128(text);
  QUERN_TRY(result.parts_, body_parser(text, at).run());
  return result;
}

base::expected<prompt_template> prompt_template::load(const std::filesystem::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, max_template_bytes));
  auto result = parse(text);
  if (!result) return base::in_context(file.string(), std::move(result).error());
  return result;
}

}  // namespace quern::env
