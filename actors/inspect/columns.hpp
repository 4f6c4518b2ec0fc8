// Texts side by side on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quern::actors {

/// Narrowest column: lines of kernels are seldom longer than 80 characters.
inline constexpr std::size_t narrowest_column = 60;

/// How many columns a terminal of `width` cells has room for; 1 where it is unknown (0).
std::size_t columns_within(std::size_t width);

/// `texts` in columns of one width, as many beside each other as there is room for, and what is
/// left below them. Long lines are broken, nothing is left out, and what a terminal acts on is
/// shown (base::printable). Where there is room for one column, or one text: the texts as they are,
/// one below another. Ends with a line end, but for no texts at all.
std::string side_by_side(const std::vector<std::string>& texts, std::size_t width);

}  // namespace quern::actors
