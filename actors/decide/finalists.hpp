// Which kernel of a search is kept. Those that its own measurements do not tell apart are measured
// again, and the fastest of them is kept. Plain functions, for any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "actors/decide/search_book.hpp"
#include "base/status.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {

/// Kernels that are measured again at most.
inline constexpr std::size_t most_finalists = 3;

/// How many at the front of `kernels` (the fastest first) cannot be told apart from the first: the
/// interval of each reaches the lower end of the first one's. A protocol that gives none is exact.
std::size_t count_finalists(std::span<const found_kernel> kernels);

/// Whether the intervals of two measurements of one kernel have no speed-up in common. One without
/// an interval agrees with any.
bool disagree(const found_kernel& one, const found_kernel& other);

/// Indices: those that are `ok`, the fastest first, then the others.
std::vector<std::size_t> ranked_again(std::span<const env::verdict> again);

/// Judges one kernel within `seconds` of measuring.
using kernel_judge = std::function<base::expected<env::verdict>(double seconds)>;

/// Judges for `seconds`, and while the verdict is `noisy`, which says nothing of the kernel, anew
/// for twice as long, at most three times in all. Errors: those of `judge`.
base::expected<env::verdict> judge_while_noisy(double seconds, const kernel_judge& judge);

}  // namespace quern::actors
