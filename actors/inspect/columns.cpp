#include "actors/inspect/columns.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace quern::actors {
namespace {

constexpr std::string_view between_columns = " | ";
constexpr std::size_t tab_stop = 4;

/// Code points that take two cells: East Asian scripts, their punctuation, and pictures.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 8> wide_ranges = {
    {{0x1100, 0x115f},
     {0x2e80, 0xa4cf},
     {0xac00, 0xd7a3},
     {0xf900, 0xfaff},
     {0xfe30, 0xfe6f},
     {0xff00, 0xff60},
     {0x1f300, 0x1faff},
     {0x20000, 0x3fffd}}};

std::size_t cells_of(std::uint32_t point) {
  if (point >= 0x300 && point <= 0x36f) return 0;  // accents that stand on the letter before
  for (const auto& [first, last] : wide_ranges)
    if (point >= first && point <= last) return 2;
  return 1;
}

/// Bytes of the code point that begins with `lead`, in valid UTF-8.
std::size_t bytes_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

std::uint32_t code_point(std::string_view bytes) {
  constexpr std::array<unsigned char, 5> lead_bits = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t point = static_cast<unsigned char>(bytes[0]) & lead_bits[bytes.size()];
  for (const char next : bytes.substr(1))
    point = point << 6U | (static_cast<unsigned char>(next) & 0x3fU);
  return point;
}

/// A line of a column, and how many cells it takes.
struct cell_line {
  std::string text;
  std::size_t cells = 0;
};

void break_line(std::string_view line, std::size_t width, std::vector<cell_line>& out) {
  out.emplace_back();
  const auto put = [&](std::string_view bytes, std::size_t cells) {
    if (out.back().cells + cells > width) out.emplace_back();
    out.back().text += bytes;
    out.back().cells += cells;
  };
  for (std::size_t at = 0, length = 0; at < line.size(); at += length) {
    length = std::min(bytes_of(static_cast<unsigned char>(line[at])), line.size() - at);
    const std::string_view bytes = line.substr(at, length);
    if (bytes != "\t") {
      put(bytes, cells_of(code_point(bytes)));
      continue;
    }
    for (std::size_t left = tab_stop - out.back().cells % tab_stop; left > 0; --left)
      put(" ", 1);
  }
}

std::vector<cell_line> column_of(const std::string& text, std::size_t width) {
  std::string shown = base::printable(text);
  while (shown.ends_with('\n'))
    shown.pop_back();
  std::vector<cell_line> lines;
  for (const std::string_view line : base::split(shown, '\n'))
    break_line(line, width, lines);
  return lines;
}

std::string one_below_another(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts)
    all += text + (text.ends_with('\n') ? "" : "\n");
  return all;
}

/// The columns beside each other, down to the last line of the longest.
std::string band_of(const std::vector<std::vector<cell_line>>& columns, std::size_t width) {
  std::size_t lines = 0;
  for (const auto& column : columns)
    lines = std::max(lines, column.size());
  std::string text;
  for (std::size_t at = 0; at < lines; ++at) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const cell_line cell = at < columns[c].size() ? columns[c][at] : cell_line();
      line += cell.text + std::string(width - cell.cells, ' ');
      if (c + 1 < columns.size()) line += between_columns;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::size_t columns_within(std::size_t width) {
  const std::size_t gap = between_columns.size();
  return std::max<std::size_t>(1, (width + gap) / (narrowest_column + gap));
}

std::string side_by_side(const std::vector<std::string>& texts, std::size_t width) {
  const std::size_t columns = std::min(columns_within(width), texts.size());
  if (columns < 2) return one_below_another(texts);
  const std::size_t each = (width - between_columns.size() * (columns - 1)) / columns;
  std::string all;
  for (std::size_t first = 0; first < texts.size(); first += columns) {
    std::vector<std::vector<cell_line>> band;
    for (std::size_t i = first; i < std::min(first + columns, texts.size()); ++i)
      band.push_back(column_of(texts[i], each));
    all += band_of(band, each);
  }
  return all;
}

}  // namespace quern::actors
