#include "actors/orchestrator/lineage.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/orchestrator/search_start.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {
namespace {

base::expected<ancestor> read_ancestor(const storage::archive& archive,
                                       const storage::ledger& ledger,
                                       const storage::variant& known) {
  ancestor made;
  made.variant = known.id;
  made.parents = known.parents;
  made.kernel.sample = known.sample;
  made.kernel.speedup_e2 = known.speedup_e2.value_or(0);
  QUERN_TRY(made.source, archive.text(known));
  if (known.sample == 0) return made;
  QUERN_TRY(const auto sample, ledger.sample(known.sample));
  made.group = sample.group;
  if (!known.verdict_id) return made;
  QUERN_TRY(const auto stored, ledger.verdict(*known.verdict_id));
  QUERN_TRY(const env::verdict value, env::parse_verdict(stored.row.json));
  made.kernel = found_kernel_of(value, known.sample);
  made.verdict = stored.row.json;
  return made;
}

/// Parents are older than their children, so that ids ascend along every path.
std::int64_t generation_of(const ancestor& one, const std::map<std::int64_t, ancestor>& all) {
  if (one.kernel.sample == 0) return 0;
  std::int64_t highest = 0;
  for (const std::int64_t parent : one.parents)
    highest = std::max(highest, all.at(parent).generation);
  return highest + 1;
}

std::string times(std::int64_t e2) {
  return fmt::format("{}.{:02}", e2 / 100, e2 % 100);
}

}  // namespace

base::expected<std::vector<ancestor>> fastest_of_run(const storage::archive& archive,
                                                     const storage::ledger& ledger,
                                                     const storage::variant_key& key,
                                                     std::size_t most) {
  QUERN_TRY(const auto known,
            archive.fastest(key, INT64_MAX, most, storage::variants_of::the_policy));
  std::vector<ancestor> found;
  for (const storage::variant& one : known) {
    QUERN_TRY(ancestor made, read_ancestor(archive, ledger, one));
    found.push_back(std::move(made));
  }
  return found;
}

base::expected<lineage> lineage_of(const storage::archive& archive, const storage::ledger& ledger,
                                   std::int64_t variant) {
  std::map<std::int64_t, ancestor> all;
  std::set<std::int64_t> waiting = {variant};
  while (!waiting.empty()) {
    const std::int64_t id = waiting.extract(waiting.begin()).value();
    QUERN_TRY(const storage::variant known, archive.get(id));
    QUERN_TRY(ancestor made, read_ancestor(archive, ledger, known));
    for (const std::int64_t parent : made.parents)
      if (!all.contains(parent)) waiting.insert(parent);
    all.emplace(id, std::move(made));
  }
  lineage chain;
  for (auto& [id, one] : all) {
    one.generation = generation_of(one, all);
    chain.push_back(one);
  }
  return chain;
}

base::ordered_json to_json(const lineage& chain) {
  base::ordered_json variants = base::ordered_json::array();
  for (const ancestor& one : chain) {
    base::ordered_json told = {{"variant", one.variant},
                               {"generation", one.generation},
                               {"sample", one.kernel.sample},
                               {"group", one.group},
                               {"speedup_e2", one.kernel.speedup_e2}};
    if (one.kernel.high_e2 > 0) {
      told["low_e2"] = one.kernel.low_e2;
      told["high_e2"] = one.kernel.high_e2;
    }
    told["shown"] = one.parents;
    told["source"] = one.source;
    variants.push_back(std::move(told));
  }
  return {{"quern_lineage", 1}, {"best", chain.back().variant}, {"variants", std::move(variants)}};
}

std::string text_of(const lineage& chain) {
  constexpr auto row = "{:>10}  {:>7}  {:>6}  {:>8}   {:<14}  {}\n";
  std::map<std::int64_t, std::int64_t> speedups;
  for (const ancestor& one : chain)
    speedups[one.variant] = one.kernel.speedup_e2;
  std::string text = fmt::format(row, "generation", "variant", "sample", "speed-up",
                                 "95 % interval", "variants that its prompt showed");
  for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
    std::vector<std::string> shown;
    for (const std::int64_t parent : one->parents)
      shown.push_back(fmt::format("{} ({}x)", parent, times(speedups.at(parent))));
    const found_kernel& kernel = one->kernel;
    text += fmt::format(
        row, one->generation, one->variant,
        kernel.sample == 0 ? "-" : std::to_string(kernel.sample), times(kernel.speedup_e2) + "x",
        kernel.high_e2 == 0 ? "not told"
                            : fmt::format("{} to {}", times(kernel.low_e2), times(kernel.high_e2)),
        kernel.sample == 0 ? "brought along"
        : shown.empty()    ? "none"
                           : fmt::format("{}", fmt::join(shown, ", ")));
  }
  return text;
}

}  // namespace quern::actors
