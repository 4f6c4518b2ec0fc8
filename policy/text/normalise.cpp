// NFC with utf8proc's tables. Its own ordering of marks is quadratic in their number, which text
// from outside could use against us, so that step is done here.
#include "policy/text/normalise.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "policy/text/utf8.hpp"

namespace quern::policy {

namespace {

constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t code) {
  return static_cast<int>(utf8proc_get_property(code)->combining_class);
}

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary = 0;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_char c = decode_utf8(text, at);
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    out.insert(out.end(), parts.begin(), parts.begin() + std::max<utf8proc_ssize_t>(count, 0));
    at += c.size;
  }
  return out;
}

/// Marks between two starters are put in the order of their classes; equal classes keep their
/// order.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto is_mark = [](utf8proc_int32_t code) { return combining_class(code) != 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if(begin, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    begin = end;
  }
}

}  // namespace

std::string normalise_nfc(std::string_view text) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), ascii) || !is_valid_utf8(text))
    return std::string(text);
  auto codes = decompose(text);
  order_marks(codes);
  const auto size =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < size; ++i)
    append_utf8(out, static_cast<char32_t>(codes[static_cast<std::size_t>(i)]));
  return out;
}

}  // namespace quern::policy
