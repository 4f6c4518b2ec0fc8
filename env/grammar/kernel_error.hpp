// The mistakes that a generated kernel can be written with.
#pragma once

#include <cstdint>
#include <string_view>

namespace quern::env {

/// Mistakes. Those up to wrong_operator are made in the composition, the others in the text.
enum class kernel_error : std::uint8_t {
  none,
  dropped_step,
  swapped_steps,
  wrong_constant,
  wrong_operator,
  missing_columns,  ///< the last m % 8 columns
  missing_rows,     ///< the last n % 4 rows: free of races, but incomplete
  unshifted,        ///< softmax without subtracting the maximum
  missing_barrier,  ///< on a GPU: threads read what others may not have written yet
  unguarded         ///< on a GPU: the last block goes on beyond the end
};

std::string_view name_of(kernel_error error);

}  // namespace quern::env
