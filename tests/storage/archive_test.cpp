// The archive: identity, exemplars as of a version, rollback, and the plain way beside it.
#include "storage/archive.hpp"

#include "base/file.hpp"
#include "base/random.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

struct archive_fixture : open_ledger {
  base::temp_folder folder = must(base::temp_folder::make("archive"));
  blob_store blobs{folder.path()};
  std::unique_ptr<archive> store;
  explicit archive_fixture(lost_variants lost = lost_variants::keep) { reopen(lost); }
  void reopen(lost_variants lost) {
    store = must(archive::open(*db, blobs, {equal_buckets(50, 6), lost}));
  }
};

const variant_key relu = {"relu@1", "cpu-avx2", "paired/1"};

variant made(const variant_key& key, std::uint64_t source, std::optional<std::int64_t> speedup,
             std::int64_t version, std::int64_t sample = 0) {
  variant fresh;
  fresh.key = key;
  fresh.source_hash = {source, source};
  fresh.speedup_e2 = speedup;
  fresh.version = version;
  fresh.sample = sample;
  fresh.parents = {4, 2};
  return fresh;
}

TEST_CASE("a variant is kept once, with its text, and found again") {
  archive_fixture run;
  const auto first = must(run.store->record(made(relu, 1, 120, 3), "int x;  // a comment"));
  CHECK(first.fresh);
  const auto again = must(run.store->record(made(relu, 1, 300, 9), "int x;"));
  CHECK_FALSE(again.fresh);
  CHECK(again.id == first.id);
  const variant found = must(run.store->get(first.id));
  CHECK(found.speedup_e2 == 120);
  CHECK(found.version == 3);
  CHECK(found.incarnation == 1);
  CHECK(found.parents == std::vector<std::int64_t>{4, 2});
  CHECK(must(run.store->text(found)) == "int x;  // a comment");
  CHECK(must(run.store->find(relu, {1, 1}))->id == first.id);
  CHECK_FALSE(must(run.store->find(relu, {2, 2})).has_value());
  // Another device class is another score.
  variant_key other = relu;
  other.device_class = "H200-SXM";
  CHECK(must(run.store->record(made(other, 1, 800, 3), "int x;")).fresh);
  CHECK(must(run.store->best(relu, 100))->speedup_e2 == 120);
  CHECK(run.store->get(77).error().code == base::errc::not_found);
  CHECK(run.store->keys().size() == 2);
}

TEST_CASE("the best of the policy is not one that was brought along") {
  archive_fixture run;
  must(run.store->record(made(relu, 1, 300, 0), "brought"));
  CHECK_FALSE(must(run.store->best(relu, 9, variants_of::the_policy)).has_value());
  must(run.store->record(made(relu, 2, 300, 5, 7), "written"));
  CHECK(must(run.store->best(relu, 9))->sample == 0);
  CHECK(must(run.store->best(relu, 9, variants_of::the_policy))->sample == 7);
  CHECK_FALSE(must(run.store->best(relu, 4, variants_of::the_policy)).has_value());
}

TEST_CASE("buckets by origin have those of that origin, also after rescoring and reopening") {
  archive_fixture run;
  run.group_in(sample_state::evaluated, 1);
  const auto brought = must(run.store->record(made(relu, 1, 110, 0), "brought"));
  CHECK(run.store->buckets(relu, variants_of::the_policy) == nullptr);
  must(run.store->record(made(relu, 2, 120, 2, 7), "written"));
  must(run.store->record(made(relu, 3, 260, 3, 8), "written later"));
  must(run.store->rescore(brought.id, 1, 210));
  for (int opened = 0; opened < 2; ++opened) {
    const auto count = [&](variants_of whose, std::int64_t version) {
      std::int64_t sum = 0;
      for (const bucket_summary& bucket : run.store->buckets(relu, whose)->as_of(version))
        sum += bucket.count;
      return sum;
    };
    CHECK(count(variants_of::everybody, 3) == 3);
    CHECK(count(variants_of::brought_along, 3) == 1);
    CHECK(count(variants_of::the_policy, 3) == 2);
    CHECK(count(variants_of::the_policy, 2) == 1);
    const auto seeds = run.store->buckets(relu, variants_of::brought_along);
    CHECK(must(seeds->draw(seeds->as_of(0)[0].bucket, 0)) == brought.id);
    CHECK(seeds->as_of(0)[0].sum_e2 == 210);
    CHECK(must(run.store->best(relu, 9, variants_of::brought_along))->id == brought.id);
    run.reopen(lost_variants::keep);
  }
}

TEST_CASE("variants without a score are remembered but never drawn") {
  archive_fixture run;
  must(run.store->record(made(relu, 1, std::nullopt, 0), "wrong"));
  CHECK(run.store->buckets(relu) == nullptr);
  CHECK_FALSE(must(run.store->best(relu, 10)).has_value());
  CHECK(must(run.store->find(relu, {1, 1})).has_value());
}

TEST_CASE("buckets and best are those of a version") {
  archive_fixture run;
  must(run.store->record(made(relu, 1, 110, 0), "a"));
  must(run.store->record(made(relu, 2, 120, 2), "b"));
  must(run.store->record(made(relu, 3, 260, 1), "c"));
  must(run.store->record(made(relu, 4, 900, 5), "d"));
  const auto* buckets = run.store->buckets(relu);
  REQUIRE(buckets != nullptr);
  CHECK(buckets->as_of(0).size() == 1);
  const auto at_two = buckets->as_of(2);
  REQUIRE(at_two.size() == 2);
  CHECK(at_two[0].mean() == doctest::Approx(1.15));
  CHECK(must(run.store->get(must(buckets->draw(at_two[0].bucket, 1)))).version == 2);
  CHECK(must(run.store->best(relu, 0))->speedup_e2 == 110);
  CHECK(must(run.store->best(relu, 4))->speedup_e2 == 260);
  CHECK(must(run.store->best(relu, 5))->speedup_e2 == 900);
  const auto speeds = [&](std::int64_t version, std::size_t most) {
    std::vector<std::int64_t> found;
    for (const variant& one : must(run.store->fastest(relu, version, most)))
      found.push_back(one.speedup_e2.value());
    return found;
  };
  CHECK(speeds(2, 2) == std::vector<std::int64_t>{260, 120});
  CHECK(speeds(5, 9) == std::vector<std::int64_t>{900, 260, 120, 110});
  CHECK(speeds(5, 0).empty());
}

TEST_CASE("a second measurement moves a variant to its new bucket") {
  archive_fixture run;
  run.group_in(sample_state::evaluated, 2);
  const auto kept = must(run.store->record(made(relu, 1, 110, 0), "a"));
  must(run.store->rescore(kept.id, 1, 260));
  auto filled = run.store->buckets(relu)->as_of(0);
  REQUIRE(filled.size() == 1);
  CHECK(filled[0].sum_e2 == 260);
  CHECK(must(run.store->get(kept.id)).verdict_id == 1);
  must(run.store->rescore(kept.id, 2, std::nullopt));
  CHECK(run.store->buckets(relu) == nullptr);
  must(run.store->rescore(kept.id, 2, 130));
  run.reopen(lost_variants::keep);
  CHECK(run.store->buckets(relu)->as_of(0)[0].sum_e2 == 130);
  CHECK_FALSE(run.store->rescore(99, 1, 100).has_value());
}

void roll_back_to_one(archive_fixture& run) {
  const auto a = run.group_in(sample_state::admitted, 1);
  const auto b = run.group_in(sample_state::admitted, 1);
  must(run.book->consume(a, 1));
  must(run.book->record_checkpoint({1, 0, "x", {}}));
  must(run.store->record(made(relu, 1, 110, 1, 1), "a"));
  must(run.book->consume(b, 2));
  must(run.store->record(made(relu, 2, 210, 2, 2), "b"));
  must(run.book->open_incarnation({"crash", 1, {}}));
  must(run.store->rebuild());
}

TEST_CASE("after a rollback a run that must repeat exactly forgets what it will make again") {
  archive_fixture run(lost_variants::forget);
  roll_back_to_one(run);
  CHECK(run.store->buckets(relu)->as_of(9).size() == 1);
  CHECK_FALSE(must(run.store->find(relu, {2, 2})).has_value());
  CHECK(must(run.store->best(relu, 9))->speedup_e2 == 110);
  const auto revived = must(run.store->record(made(relu, 2, 220, 2, 2), "b again"));
  CHECK(revived.fresh);
  CHECK(must(run.store->get(revived.id)).incarnation == 2);
  CHECK(must(run.store->text(must(run.store->get(revived.id)))) == "b again");
  CHECK(run.store->buckets(relu)->as_of(2).size() == 2);
  CHECK(run.store->buckets(relu)->as_of(1).size() == 1);
  CHECK_FALSE(must(run.store->record(made(relu, 2, 230, 3, 3), "b")).fresh);
}

TEST_CASE("after a rollback any other run keeps what it measured, known from there on") {
  archive_fixture run(lost_variants::keep);
  roll_back_to_one(run);
  CHECK(run.store->buckets(relu)->as_of(1).size() == 2);
  CHECK(run.store->buckets(relu)->as_of(0).empty());
  CHECK(must(run.store->best(relu, 1))->speedup_e2 == 210);
  CHECK_FALSE(must(run.store->record(made(relu, 2, 220, 2, 2), "b")).fresh);
  const auto lost = must(run.store->find(relu, {2, 2}));
  must(run.store->rescore(lost->id, 1, 60));
  CHECK(run.store->buckets(relu)->as_of(1)[0].low_e2 == 50);
}

TEST_CASE("random records, rescores, rollbacks and reopenings agree with a plain list") {
  struct known {
    variant row;
    std::int64_t from;  // the version since which it is known
  };
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    base::random_stream random(seed, "archive");
    archive_fixture run;
    run.group_in(sample_state::evaluated, 1);
    const std::vector<variant_key> keys = {relu, {"softmax@2", "cpu-avx2", "paired/1"}};
    std::map<std::int64_t, known> plain;
    std::int64_t version = 0;
    for (int i = 0; i < 120; ++i) {
      const auto choice = random.below(12);
      if (choice < 8) {
        variant fresh = made(keys[random.below(2)], random.below(60), random.between(0, 400),
                             version, random.between(0, 9));
        if (random.chance(0.2)) fresh.speedup_e2.reset();
        const auto result = must(run.store->record(fresh, fmt::format("source {}", i)));
        if (result.fresh) plain[result.id] = {fresh, version};
      } else if (choice == 8 && !plain.empty()) {
        const auto at =
            std::next(plain.begin(), static_cast<std::ptrdiff_t>(random.below(plain.size())));
        at->second.row.speedup_e2 = random.between(0, 400);
        must(run.store->rescore(at->first, 1, at->second.row.speedup_e2));
      } else if (choice == 9) {
        const auto ids = run.group_in(sample_state::admitted, 1, version);
        must(run.book->consume(ids, ++version));
        must(run.book->record_checkpoint({version, 0, "x", {}}));
      } else if (choice == 10) {
        const auto left = must(run.book->checkpoints());
        version = left.empty() ? 0 : left[random.below(left.size())].version;
        must(run.book->open_incarnation({"crash", version, {}}));
        must(run.store->rebuild());
        for (auto& [id, each] : plain)
          each.from = std::min(each.from, version);
      } else {
        run.reopen(lost_variants::keep);
      }
      const variant_key& key = keys[random.below(2)];
      const auto as_of = random.between(0, version + 1);
      std::int64_t count = 0;
      std::int64_t sum = 0;
      std::int64_t best = -1;
      for (const auto& [id, each] : plain) {
        if (each.row.key != key || !each.row.speedup_e2 || each.from > as_of) continue;
        ++count;
        sum += *each.row.speedup_e2;
        best = std::max(best, *each.row.speedup_e2);
      }
      const auto* buckets = run.store->buckets(key);
      if (buckets != nullptr) {
        for (const auto& each : buckets->as_of(as_of)) {
          count -= each.count;
          sum -= each.sum_e2;
          const auto drawn = must(buckets->draw(
              each.bucket,
              static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(each.count)))));
          CHECK(plain.at(drawn).from <= as_of);
        }
      }
      CHECK(count == 0);
      CHECK(sum == 0);
      const auto found = must(run.store->best(key, as_of));
      CHECK((found ? *found->speedup_e2 : -1) == best);
    }
  }
}

TEST_CASE("an archive is opened over an open incarnation and rising edges") {
  auto db = must(database::in_memory());
  const auto folder = must(base::temp_folder::make("archive"));
  const blob_store blobs(folder.path());
  CHECK_FALSE(archive::open(*db, blobs, {{5, 6}, lost_variants::keep}).has_value());
  auto store = must(archive::open(*db, blobs));
  CHECK(store->record(made(relu, 1, 100, 0), "a").error().code == base::errc::conflict);
  // It follows the incarnations that are opened over it.
  auto book = must(ledger::open(*db));
  must(book->open_incarnation({"start", 0, {}}));
  const auto first = must(store->record(made(relu, 1, 100, 3), "a"));
  CHECK(must(store->get(first.id)).incarnation == 1);
  must(book->open_incarnation({"crash", 0, {}}));
  const auto second = must(store->record(made(relu, 2, 100, 0), "b"));
  CHECK(must(store->get(second.id)).incarnation == 2);
  CHECK(store->buckets(relu)->as_of(0)[0].count == 2);
}

}  // namespace
}  // namespace quern::test
