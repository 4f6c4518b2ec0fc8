// Takes completions apart and writes them.
#include "env/prompt/completion.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace quern::env {

namespace {

constexpr std::array<std::string_view, malformed_reason_count> reason_names{
    "empty",
    "too_long",
    "bad_bytes",
    "missing_section",
    "duplicate_section",
    "section_order",
    "no_code_block",
    "several_code_blocks",
    "unterminated_code_block",
    "empty_code"};

constexpr std::array<std::string_view, 3> headings{"## Performance Analysis", "## Algorithm Design",
                                                   "## Code"};

tl::unexpected<malformed> bad(malformed_reason reason, std::string detail) {
  return tl::make_unexpected(malformed{reason, std::move(detail)});
}

/// First byte that is zero or does not belong to valid UTF-8; size if none.
std::size_t first_bad_byte(std::string_view text) {
  return std::min(text.find('\0'), base::first_invalid_utf8(text));
}

struct line {
  std::size_t begin = 0;
  std::size_t end = 0;   // without the line break
  std::size_t next = 0;  // begin of the next line
};

std::vector<line> lines_of(std::string_view text) {
  std::vector<line> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = text.find('\n', at);
    const std::size_t end = newline == std::string_view::npos ? text.size() : newline;
    const std::size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
    result.push_back({at, end > at && text[end - 1] == '\r' ? end - 1 : end, next});
    at = next;
  }
  return result;
}

std::string_view without_end_space(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

/// Number of backticks that a fence line begins with; 0 for other lines. `rest` is what follows
/// them.
std::size_t fence_length(std::string_view text, std::string_view& rest) {
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  if (indent > 3) return 0;
  std::size_t ticks = 0;
  while (indent + ticks < text.size() && text[indent + ticks] == '`')
    ++ticks;
  rest = without_end_space(text.substr(indent + ticks));
  return ticks >= 3 && rest.find('`') == std::string_view::npos ? ticks : 0;
}

struct block {
  std::size_t section = 0;  // index of the heading it stands under; 3 before the first
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What a scan over the lines finds.
struct outline {
  std::vector<std::size_t> order;                               // headings in order of occurrence
  std::array<std::size_t, 3> heading_begin{}, content_begin{};  // of the first occurrence
  std::vector<block> blocks;
  bool open_fence = false;
};

std::string trim_lines(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  const std::size_t line_begin = text.substr(0, first).rfind('\n');
  return std::string(text.substr(line_begin == std::string_view::npos ? 0 : line_begin + 1));
}

std::size_t heading_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::find(headings.begin(), headings.end(), without_end_space(text)) - headings.begin());
}

/// Where reading begins: behind the line of a </think> that comes before every heading, else 0.
std::size_t skip_thoughts(std::string_view text, const std::vector<line>& lines) {
  for (const line& one : lines) {
    const std::string_view content = text.substr(one.begin, one.end - one.begin);
    if (without_end_space(content).ends_with("</think>")) return one.next;
  }
  return 0;
}

outline scan(std::string_view text, const std::vector<line>& lines, std::size_t from) {
  outline result;
  std::size_t section = headings.size();
  std::size_t fence = 0;
  for (const line& one : lines) {
    if (one.begin < from) continue;
    const std::string_view content = text.substr(one.begin, one.end - one.begin);
    std::string_view rest;
    const std::size_t ticks = fence_length(content, rest);
    if (fence > 0) {
      if (ticks >= fence && rest.empty()) {
        result.blocks.back().end = one.begin;
        fence = 0;
      }
      continue;
    }
    if (ticks > 0) {
      fence = ticks;
      result.blocks.push_back({section, one.next, text.size()});
      continue;
    }
    const std::size_t heading = heading_of(content);
    if (heading == headings.size()) continue;
    if (std::find(result.order.begin(), result.order.end(), heading) == result.order.end()) {
      result.heading_begin[heading] = one.begin;
      result.content_begin[heading] = one.next;
    }
    result.order.push_back(heading);
    section = heading;
  }
  result.open_fence = fence > 0;
  return result;
}

tl::expected<void, malformed> check_sections(const outline& found) {
  for (std::size_t i = 0; i < headings.size(); ++i) {
    const auto count = std::count(found.order.begin(), found.order.end(), i);
    if (count == 0) {
      // An open fence swallows whatever headings follow it: that is the cause worth naming.
      if (found.open_fence) {
        return bad(malformed_reason::unterminated_code_block,
                   "a fence of backticks is never closed");
      }
      return bad(malformed_reason::missing_section,
                 fmt::format("the line '{}' is missing", headings[i]));
    }
    if (count > 1) {
      return bad(malformed_reason::duplicate_section,
                 fmt::format("the line '{}' occurs {} times", headings[i], count));
    }
  }
  if (!std::is_sorted(found.order.begin(), found.order.end())) {
    return bad(malformed_reason::section_order,
               "the sections must be Performance Analysis, Algorithm Design, Code");
  }
  return {};
}

}  // namespace

std::string_view name_of(malformed_reason reason) {
  return reason_names[static_cast<std::size_t>(reason)];
}

std::optional<malformed_reason> parse_malformed_reason(std::string_view name) {
  for (std::size_t i = 0; i < reason_names.size(); ++i) {
    if (reason_names[i] == name) return static_cast<malformed_reason>(i);
  }
  return std::nullopt;
}

tl::expected<completion, malformed> parse_completion(std::string_view text) {
  if (text.size() > max_completion_bytes) {
    return bad(malformed_reason::too_long,
               fmt::format("{} bytes, at most {} are read", text.size(), max_completion_bytes));
  }
  if (const std::size_t at = first_bad_byte(text); at < text.size()) {
    return bad(malformed_reason::bad_bytes, fmt::format("byte {:#04x} at position {} is not text",
                                                        static_cast<std::uint8_t>(text[at]), at));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return bad(malformed_reason::empty, "nothing was written");
  }
  const std::vector<line> lines = lines_of(text);
  const outline found = scan(text, lines, skip_thoughts(text, lines));
  if (auto checked = check_sections(found); !checked)
    return tl::make_unexpected(std::move(checked).error());
  if (found.open_fence)
    return bad(malformed_reason::unterminated_code_block, "a fence of backticks is never closed");

  std::vector<block> code;
  for (const block& one : found.blocks) {
    if (one.section == 2) code.push_back(one);
  }
  if (code.empty())
    return bad(malformed_reason::no_code_block, "no fenced block follows '## Code'");
  if (code.size() > 1) {
    return bad(malformed_reason::several_code_blocks,
               fmt::format("{} fenced blocks follow '## Code'", code.size()));
  }
  completion result;
  result.analysis = trim_lines(
      text.substr(found.content_begin[0], found.heading_begin[1] - found.content_begin[0]));
  result.design = trim_lines(
      text.substr(found.content_begin[1], found.heading_begin[2] - found.content_begin[1]));
  result.code = trim_lines(text.substr(code[0].begin, code[0].end - code[0].begin));
  if (result.code.empty())
    return bad(malformed_reason::empty_code, "the block under '## Code' is empty");
  result.code += '\n';
  return result;
}

std::string render_completion(const completion& what, std::string_view fence) {
  std::size_t longest = 2;
  for (std::size_t at = 0, run = 0; at < what.code.size(); ++at) {
    run = what.code[at] == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string ticks(longest + 1, '`');
  auto section = [](std::string_view heading, std::string_view body) {
    return fmt::format("{}\n{}{}", heading, body, body.empty() || body.ends_with('\n') ? "" : "\n");
  };
  std::string text =
      section(headings[0], what.analysis) + section(headings[1], what.design) +
      section(headings[2], fmt::format("{}{}\n{}{}{}", ticks, fence, what.code,
                                       what.code.ends_with('\n') ? "" : "\n", ticks));
  // A line of the code that ends so would close thoughts, were there none before it.
  if (skip_thoughts(text, lines_of(text)) > 0) text.insert(0, "</think>\n");
  return text;
}

}  // namespace quern::env
