// How fast the ledger commits and the archive answers, on this machine's disk: figures for
// docs/performance.md. Prints a line for people per figure, and one JSON object at the end.
#include <algorithm>
#include <ctime>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace {

using namespace quern;
using namespace quern::storage;

constexpr double wanted_transitions_per_s = 20'000;
constexpr double wanted_query_us = 1'000;
constexpr int group_size = 8;
constexpr int samples_per_step = 64;

double seconds_since(base::nanoseconds_t start) {
  return static_cast<double>(base::steady_clock().now_ns() - start) * 1e-9;
}

/// Of this process: what is left when others do not share the cores.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Median time in which this disk acknowledges a sync of a few pages: the floor of a commit.
base::expected<double> sync_ms(const std::filesystem::path& folder) {
  const base::unique_fd file(
      ::open((folder / "sync").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return base::fail_errno("cannot write in " + folder.string());
  std::vector<double> ms;
  for (int i = 0; i < 100; ++i) {
    QUERN_CHECK(base::write_all(file.get(), std::string(16384, 'x')));
    const auto start = base::steady_clock().now_ns();
    if (::fdatasync(file.get()) != 0) return base::fail_errno("cannot sync");
    ms.push_back(seconds_since(start) * 1e3);
  }
  std::nth_element(ms.begin(), ms.begin() + 50, ms.end());
  return ms[50];
}

verdict_row a_verdict(std::int64_t sample) {
  verdict_row verdict;
  verdict.sample = sample;
  verdict.incarnation = 1;
  verdict.attempt = 1;
  verdict.task = "softmax_rows@0123456789abcdef0123456789abcdef";
  verdict.source_hash = base::hash128{7, static_cast<std::uint64_t>(sample)};
  verdict.protocol = "paired/1";
  verdict.device_class = "cpu-avx512";
  verdict.env = "0123456789abcdef";
  verdict.speedup_e2 = 137;
  verdict.confirmed = true;
  verdict.json = std::string(900, 'x');  // about what a verdict of ours is long
  return verdict;
}

/// The whole life of `samples` samples, each operation as the control process gives it.
base::status live(ledger& book, std::int64_t samples) {
  std::int64_t step = 0;
  QUERN_CHECK(book.open_incarnation({"start", 0, {}}));
  for (std::int64_t done = 0; done < samples; done += samples_per_step) {
    std::vector<std::int64_t> ids;
    for (int g = 0; g < samples_per_step / group_size; ++g) {
      group_spec group;
      group.seq = done / group_size + g;
      group.task = "softmax_rows@0123456789abcdef0123456789abcdef";
      group.exemplars = {1, 2};
      group.size = group_size;
      QUERN_TRY(const issued_group issued, book.issue(group));
      for (int k = 0; k < group_size; ++k)
        ids.push_back(issued.first_sample + k);
    }
    for (const std::int64_t id : ids) {
      QUERN_CHECK(book.generated({id, 1, {{0, step, {1, 2}}}, {3, 4}}));
    }
    for (const std::int64_t id : ids)
      QUERN_CHECK(book.evaluated(a_verdict(id)));
    for (std::size_t at = 0; at < ids.size(); at += group_size) {
      std::vector<admission> group;
      for (int k = 0; k < group_size; ++k)
        group.push_back({ids[at + static_cast<std::size_t>(k)], 1.5});
      QUERN_CHECK(book.admit(group));
    }
    QUERN_CHECK(book.consume(ids, ++step));
    if (step % 8 == 0) QUERN_CHECK(book.record_checkpoint({step, 0, "checkpoints/x", {5, 6}}));
  }
  return book.commit();
}

base::expected<base::ordered_json> bench_ledger(const std::filesystem::path& folder,
                                                std::int64_t samples) {
  QUERN_TRY(auto db, database::open(folder / "run.db", database::access::write));
  QUERN_TRY(auto book, ledger::open(*db));
  QUERN_TRY(const double sync, sync_ms(folder));
  const auto start = base::steady_clock().now_ns();
  const double cpu_before = cpu_seconds();
  QUERN_CHECK(live(*book, samples));
  const double took = seconds_since(start);
  const double cpu = cpu_seconds() - cpu_before;
  QUERN_TRY(const state_counts counts, book->counts());
  QUERN_TRY(statement events, db->prepare("SELECT count(*) FROM events"));
  QUERN_TRY(const bool row, events.next());
  const double transitions = row ? static_cast<double>(events.integer(0)) : 0;
  events.reset();
  base::ordered_json figures;
  figures["transitions_per_s"] = transitions / took;
  figures["transitions_per_commit"] = transitions / static_cast<double>(db->commits());
  figures["rows_per_s"] = static_cast<double>(db->rows_written()) / took;
  figures["cpu_us_per_transition"] = cpu * 1e6 / transitions;
  figures["sync_ms_median"] = sync;
  figures["law_holds"] = counts.law_holds();
  fmt::print(
      "ledger: {:.0f} committed transitions/s with FULL, {:.1f} a commit ({:.0f} rows/s with "
      "events and verdicts); wanted {:.0f}; {:.1f} us CPU each, this disk syncs in {:.2f} ms\n",
      transitions / took, transitions / static_cast<double>(db->commits()),
      static_cast<double>(db->rows_written()) / took, wanted_transitions_per_s,
      cpu * 1e6 / transitions, sync);
  return figures;
}

/// Rows only, straight into the table: a million sources on disk would measure the file system.
base::status fill(database& db, int tasks, int each) {
  QUERN_CHECK(db.execute("BEGIN"));
  QUERN_TRY(
      statement add,
      db.prepare("INSERT INTO variants(task, source_hash, device_class, protocol, speedup_e2, "
                 "version, incarnation, parents, sample, text_hash) "
                 "VALUES (?, ?, 'cpu-avx512', 'paired/1', ?, ?, 1, '[]', ?, ?)"));
  for (int task = 0; task < tasks; ++task) {
    for (int i = 0; i < each; ++i) {
      const base::hash128 hash{static_cast<std::uint64_t>(task), static_cast<std::uint64_t>(i)};
      base::random_stream random(1, "bench", {hash.high, hash.low});
      QUERN_CHECK(add.bind(1, fmt::format("task_{:03}@0123456789abcdef0123456789abcdef", task))
                      .bind(2, hash)
                      .bind(3, random.between(5, 1200))
                      .bind(4, std::int64_t{i} * 1000 / each)
                      .bind(5, std::int64_t{task} * each + i)
                      .bind(6, hash)
                      .run());
    }
  }
  return db.execute("COMMIT");
}

/// What a prompt needs: the buckets as of a version, the best known score, two members of distinct
/// buckets with their rows and sources.
base::status query(const archive& store, const variant_key& key, base::random_stream& random) {
  const auto version = static_cast<std::int64_t>(random.below(1000)) + 1;
  const score_buckets* buckets = store.buckets(key);
  if (buckets == nullptr) return base::fail(base::errc::internal, "no buckets for {}", key.task);
  const auto filled = buckets->as_of(version);
  QUERN_TRY(const auto best, store.best(key, version));
  const std::size_t first = random.below(filled.size());
  const std::size_t second = (first + 1) % filled.size();
  for (const std::size_t which : {first, second}) {
    const auto k = random.below(static_cast<std::uint64_t>(filled[which].count));
    QUERN_TRY(const std::int64_t id,
              buckets->draw(filled[which].bucket, static_cast<std::int64_t>(k)));
    QUERN_TRY(const variant drawn, store.get(id));
    if (drawn.version > version || !best) return base::fail(base::errc::internal, "a wrong draw");
  }
  return {};
}

base::expected<base::ordered_json> bench_archive(const std::filesystem::path& folder, int tasks,
                                                 int each) {
  const auto name = fmt::format("{}x{}", tasks, each);
  QUERN_TRY(auto db, database::open(folder / (name + ".db"), database::access::write));
  QUERN_TRY(auto book, ledger::open(*db));
  QUERN_CHECK(book->open_incarnation({"start", 0, {}}));
  QUERN_CHECK(fill(*db, tasks, each));
  const blob_store blobs(folder / "blobs");
  const auto start = base::steady_clock().now_ns();
  QUERN_TRY(const auto store, archive::open(*db, blobs));
  const double opened = seconds_since(start);
  const auto keys = store->keys();
  base::random_stream random(2, "query");
  std::vector<double> us;
  constexpr int queries = 2000;
  for (int i = 0; i < queries; ++i) {
    const variant_key& key = keys[random.below(keys.size())];
    const auto before = base::steady_clock().now_ns();
    QUERN_CHECK(query(*store, key, random));
    us.push_back(seconds_since(before) * 1e6);
  }
  std::sort(us.begin(), us.end());
  const double median = us[us.size() / 2];
  const double p99 = us[us.size() * 99 / 100];
  fmt::print(
      "archive {} tasks x {}: exemplar query {:.0f} us median, {:.0f} us p99, {:.0f} us max; "
      "wanted {:.0f}; opened in {:.2f} s\n",
      tasks, each, median, p99, us.back(), wanted_query_us, opened);
  base::ordered_json figures;
  figures["tasks"] = tasks;
  figures["variants_each"] = each;
  figures["query_us_median"] = median;
  figures["query_us_p99"] = p99;
  figures["query_us_max"] = us.back();
  figures["open_s"] = opened;
  return figures;
}

base::expected<bool> bench(std::int64_t samples, int variants, const std::string& where) {
  std::optional<base::temp_folder> made;
  std::filesystem::path folder = where;
  if (where.empty()) {
    QUERN_TRY(made, base::temp_folder::make("bench_ledger"));
    folder = made->path();
  }
  base::ordered_json all;
  QUERN_TRY(all["ledger"], bench_ledger(folder, samples));
  QUERN_TRY(all["one_task"], bench_archive(folder, 1, variants));
  QUERN_TRY(all["many_tasks"], bench_archive(folder, 250, std::max(1, variants / 250)));
  const bool good = all["ledger"]["transitions_per_s"] >= wanted_transitions_per_s &&
                    all["ledger"]["law_holds"] == true &&
                    all["one_task"]["query_us_p99"] <= wanted_query_us &&
                    all["many_tasks"]["query_us_p99"] <= wanted_query_us;
  all["good"] = good;
  fmt::print("{}\n", base::dump(all));
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the ledger and the archive on this machine's disk."};
  std::int64_t samples = 40'000;
  int variants = 1'000'000;
  std::string folder;
  app.add_option("--samples", samples, "samples that live a whole life")
      ->check(CLI::Range(64, 10'000'000));
  app.add_option("--variants", variants, "variants in the archive")
      ->check(CLI::Range(500, 10'000'000));
  app.add_option("--folder", folder,
                 "existing empty folder on the disk to measure (default: TMPDIR)");
  CLI11_PARSE(app, argc, argv);
  const auto good = bench(samples, variants, folder);
  if (!good) {
    fmt::print(stderr, "bench_ledger: {}\n", good.error().message);
    return 1;
  }
  return *good ? 0 : 1;
}
