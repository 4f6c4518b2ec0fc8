// From the best kernel of a search back to what it came from: which sample wrote it, which kernels
// its prompt showed, which those of theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/decide/search_book.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {

/// A kernel of the archive. `kernel.evaluation` is not told here, and `generation` by lineage_of()
/// alone.
struct ancestor {
  std::int64_t variant = 0;
  std::int64_t group = 0;  ///< of its sample; 0: it was brought along
  /// 0: brought along; 1: its prompt showed no kernel; else one more than the highest that it
  /// showed.
  std::int64_t generation = 0;
  found_kernel kernel;
  std::string verdict;                ///< JSON; empty: it was brought along
  std::vector<std::int64_t> parents;  ///< variants that its prompt showed
  std::string source;
};

/// A kernel and all its ancestors, each once, parents before children: the kernel is the last.
using lineage = std::vector<ancestor>;

/// The fastest kernels that samples of the run wrote, at most `most`, the fastest first; none: no
/// sample was right. Errors: those of ledger and archive, a text that is lost.
base::expected<std::vector<ancestor>> fastest_of_run(const storage::archive& archive,
                                                     const storage::ledger& ledger,
                                                     const storage::variant_key& key,
                                                     std::size_t most);

/// Of a variant of the archive. Errors as above.
base::expected<lineage> lineage_of(const storage::archive& archive, const storage::ledger& ledger,
                                   std::int64_t variant);

/// docs/formats/optimize.md.
base::ordered_json to_json(const lineage& chain);
/// A table for people, the best first.
std::string text_of(const lineage& chain);

}  // namespace quern::actors
