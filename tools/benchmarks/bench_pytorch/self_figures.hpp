// What bench_pytorch self makes of verdicts on references as candidates. Pure but for printing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "env/verdict/verdict.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"

namespace quern::tools {

/// Work that candidates do once more, in percent; 0: the reference as it is.
inline constexpr std::array<int, 4> percents_more = {0, 2, 5, 20};

/// Candidates of one kind.
struct self_case {
  std::string name;
  std::size_t module = 0;  ///< of self_modules
  int percent = 0;         ///< of percents_more
  int trials = 0;
};

/// Verdicts on such candidates.
struct self_seen {
  int trials = 0, noisy = 0;
  int other = 0;  ///< neither ok nor noisy
  int told = 0;   ///< of the reference: called different from 1.00; else called slower
  std::vector<double> logs, calls_us;  ///< of those with a time: ln(speed-up), the reference's call

  /// Whether the verdict is one that such a candidate may get.
  bool take(const self_case& one, const env::verdict& v);
  void add(const self_seen& one);
  [[nodiscard]] std::int64_t judged() const { return static_cast<std::int64_t>(logs.size()); }
  [[nodiscard]] double told_percent() const;
  /// A quantile of the absolute values of ln(speed-up).
  [[nodiscard]] double error(double quantile) const;
};

/// By percents_more, of modules whose calls take longer than 200 us, and of the others.
struct pooled_self {
  std::array<self_seen, percents_more.size()> above, below;
  int unmeasured = 0;  ///< cases of whose verdicts none has a time
};

/// `seen`: by place of `cases`. A module is on the side on which the median of all its calls is.
pooled_self pool(std::span<const self_case> cases, std::span<const self_seen> seen);

/// The figures that are wanted of what was asked for.
figure_table self_figures(const pooled_self& p);

}  // namespace quern::tools
