// A process that runs the loop's bookkeeping is killed at random instants, many times over one run:
// the law holds, nothing acknowledged is lost, nothing is trained twice in the surviving weights.
#include <fstream>
#include <map>
#include <set>

#include "base/file.hpp"
#include "base/random.hpp"
#include "crash_support.hpp"
#include "storage/archive.hpp"
#include "storage/checkpoint.hpp"
#include "storage/run_directory.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

constexpr int group_size = 4;
constexpr int groups_in_flight = 3;

/// The bookkeeping of a run, without the work: what control does, in random order. The "weights"
/// are the list of samples that each step used, written into the checkpoints: proof of what was
/// trained.
class small_run {
 public:
  small_run(const run_paths& paths, std::uint64_t seed)
      : paths_(paths), random_(seed, "small run") {}

  base::status open() {
    QUERN_TRY(db_, database::open(paths_.database(), database::access::write));
    QUERN_TRY(book_, ledger::open(*db_));
    std::vector<std::int64_t> known;
    QUERN_TRY(const auto rows, book_->checkpoints());
    for (const checkpoint_row& row : rows)
      known.push_back(row.version);
    std::int64_t from = 0;
    if (!known.empty()) {
      QUERN_TRY(const auto choice, checkpoints_.choose(known));
      from = choice.chosen.version;
      QUERN_TRY(weights_, base::read_file(choice.chosen.folder / "weights"));
    }
    QUERN_CHECK(checkpoints_.set_aside_above(from));
    QUERN_TRY(
        const auto report,
        book_->open_incarnation({"crash", from, [&](std::int64_t, const base::hash128& tokens) {
                                   return blobs_.readable(tokens);
                                 }}));
    incarnation_ = report.incarnation;
    version_ = from;
    QUERN_TRY(archive_, archive::open(*db_, blobs_));
    return {};
  }

  /// One random operation; now and then a commit, after which everything so far is promised.
  base::status turn() {
    QUERN_TRY(const auto groups, book_->live_groups());
    if (std::ssize(groups) < groups_in_flight) {
      QUERN_TRY(const auto here, book_->position());
      QUERN_CHECK(book_->issue(group_of(here.next_seq, group_size)));
      return {};
    }
    switch (random_.below(8)) {
      case 0:
        return book_->commit();
      case 1:
        return step();
      case 2:
        return random_.chance(0.4) ? checkpoint_now() : base::status();
      default:
        return advance(groups[random_.below(groups.size())].samples[random_.below(group_size)]);
    }
  }

  std::int64_t trained() { return book_->counts()->of(sample_state::trained); }
  bool durable() { return book_->durable(); }

 private:
  base::status advance(const sample_row& sample) {
    if (sample.state == sample_state::issued) {
      QUERN_TRY(const auto tokens,
                blobs_.put(fmt::format("tokens {} {}", sample.id, incarnation_)));
      generation made =
          tokens_of(sample.id, incarnation_, std::max<std::int64_t>(0, version_ - 1), version_);
      made.tokens_hash = tokens;
      QUERN_CHECK(book_->generated(made));
    } else if (sample.state == sample_state::generated) {
      QUERN_CHECK(book_->evaluated(
          verdict_of(sample.id, incarnation_, random_.between(1, 9), random_.chance(0.8))));
    } else if (sample.state == sample_state::evaluated) {
      variant fresh;
      fresh.key = {"relu@1", "cpu", "paired/1"};
      fresh.source_hash = {1, static_cast<std::uint64_t>(sample.id) % 17};
      fresh.speedup_e2 = 100 + sample.id % 17;
      fresh.version = version_;
      fresh.sample = sample.id;
      QUERN_CHECK(archive_->record(fresh, fmt::format("source {}", sample.id % 17)));
      const admission one{sample.id, 0.5};
      QUERN_CHECK(book_->admit({&one, 1}));
    } else if (sample.state == sample_state::admitted && random_.chance(0.05)) {
      QUERN_CHECK(book_->drop({&sample.id, 1}, "stale"));
    }
    return {};
  }

  base::status step() {
    QUERN_TRY(const auto ready, book_->in_state(sample_state::admitted));
    if (ready.empty()) return {};
    std::vector<std::int64_t> ids;
    for (const sample_row& row : ready)
      ids.push_back(row.id);
    QUERN_CHECK(book_->consume(ids, ++version_));
    for (const std::int64_t id : ids)
      weights_ += fmt::format("{} ", id);
    return {};
  }

  base::status checkpoint_now() {
    QUERN_TRY(const auto here, book_->position());
    if (version_ <= (here.checkpoint ? here.checkpoint->version : 0)) return {};
    QUERN_TRY(const auto made, checkpoints_.write(version_, [&](const fs::path& folder) {
      std::ofstream(folder / "weights") << weights_;
      return base::status();
    }));
    QUERN_CHECK(book_->record_checkpoint(
        {version_, 0, made.folder.lexically_relative(paths_.root).string(), made.hash}));
    return checkpoints_.publish(version_);
  }

  run_paths paths_;
  base::random_stream random_;
  blob_store blobs_{paths_.blobs()};
  checkpoint_store checkpoints_{paths_.checkpoints()};
  std::unique_ptr<database> db_;
  std::unique_ptr<ledger> book_;
  std::unique_ptr<archive> archive_;
  std::string weights_;
  std::int64_t incarnation_ = 0;
  std::int64_t version_ = 0;
};

/// Says the number of trained samples whenever everything so far is durable.
template <class Say>
void run_for_ever(const run_paths& paths, std::uint64_t seed, Say say) {
  small_run run(paths, seed);
  if (const auto opened = run.open(); !opened) {
    fmt::print(stderr, "small run: {}\n", opened.error().message);
    ::_exit(5);
  }
  while (true) {
    if (const auto done = run.turn(); !done) {
      fmt::print(stderr, "small run: {}\n", done.error().message);
      ::_exit(6);
    }
    if (run.durable()) say(run.trained());
  }
}

/// What must hold of a run directory after a death, whatever happened.
void check_dead_run(const run_paths& paths) {
  auto db = must(database::open(paths.database(), database::access::write));
  auto book = must(ledger::open(*db));
  must(book->audit());
  const auto counts = must(book->counts());
  CHECK(counts.law_holds());
  // The surviving weights hold every trained sample exactly once, and no other.
  const auto here = must(book->position());
  std::map<std::int64_t, int> used;
  if (here.checkpoint) {
    checkpoint_store store(paths.checkpoints());
    const auto found = must(store.verify(here.checkpoint->version));
    CHECK(found.hash == here.checkpoint->hash);
    std::istringstream weights(must(base::read_file(found.folder / "weights")));
    for (std::int64_t id = 0; weights >> id;)
      ++used[id];
  }
  std::set<std::int64_t> trained;
  for (const sample_row& row : must(book->in_state(sample_state::trained)))
    trained.insert(row.id);
  CHECK(used.size() == trained.size());
  for (const auto& [id, times] : used) {
    CHECK_MESSAGE(times == 1, "sample " << id << " was trained " << times << " times");
    CHECK(trained.contains(id));
  }
  // Every variant that a row names can be read.
  const blob_store blobs(paths.blobs());
  if (here.incarnation > 0) {
    auto store = must(archive::open(*db, blobs));
    statement ids = must(db->prepare("SELECT id FROM variants"));
    while (must(ids.next()))
      CHECK(store->text(must(store->get(ids.integer(0)))).has_value());
  }
}

TEST_CASE("kill -9 of the ledger's writer, at random instants over one run") {
  const auto folder = must(base::temp_folder::make("run"));
  const run_paths paths =
      must(run_directory::create(folder.path() / "r", "", {{"seed", 1}})).paths();
  base::random_stream random(17, "ledger crash");
  std::int64_t trained = 0;
  std::map<sample_state, int> hit;
  for (std::uint64_t round = 0; round < 30; ++round) {
    CAPTURE(round);
    const random_death death{random.between(1, 60), static_cast<unsigned>(random.below(6'000))};
    const auto said = run_and_kill([&](auto say) { run_for_ever(paths, round, say); }, death);
    // A reader comes first: `quern status` of a run that has died, whose log nobody has recovered.
    auto db = must(database::open(paths.database(), database::access::read));
    const auto counts = must(must(ledger::open(*db))->counts());
    CHECK(counts.law_holds());
    db.reset();
    check_dead_run(paths);
    // Acknowledged training survives; it never goes back while checkpoints can be read.
    if (!said.empty()) CHECK(counts.of(sample_state::trained) >= said.back());
    CHECK(counts.of(sample_state::trained) >= trained);
    trained = counts.of(sample_state::trained);
    for (const sample_state state : all_sample_states)
      hit[state] += counts.of(state) > 0 ? 1 : 0;
  }
  CHECK(trained > 0);
  // Deaths must have met samples in every state, or this has shown little.
  for (const sample_state state : all_sample_states) {
    MESSAGE(to_string(state) << ": met by " << hit[state] << " of 30 deaths");
    CHECK(hit[state] > 0);
  }
  // The run ends in order: checkpoint and stop, nothing in flight.
  auto db = must(database::open(paths.database(), database::access::write));
  auto book = must(ledger::open(*db));
  const auto here = must(book->position());
  must(book->open_incarnation({"end", here.checkpoint ? here.checkpoint->version : 0, {}}));
  must(book->stop());
  CHECK(must(book->counts()).in_flight() == 0);
  must(book->audit());
}

TEST_CASE("a log torn at any byte, as a power cut leaves it, is a run cut off at a commit") {
  const auto folder = must(base::temp_folder::make("run"));
  const run_paths paths =
      must(run_directory::create(folder.path() / "r", "", {{"seed", 1}})).paths();
  run_and_kill([&](auto say) { run_for_ever(paths, 99, say); }, random_death{120, 500});
  const std::string file = must(base::read_file(paths.database()));
  const std::string log = must(base::read_file(paths.database().string() + "-wal"));
  REQUIRE(log.size() > 20'000);
  base::random_stream random(23, "torn log");
  std::set<std::int64_t> ends;
  for (int i = 0; i < 60; ++i) {
    const fs::path copy = folder.path() / fmt::format("copy{}.db", i);
    std::string torn = log.substr(0, random.below(log.size() + 1));
    if (random.chance(0.5) && !torn.empty()) {
      // The last sectors may hold anything.
      for (std::size_t n = std::min<std::size_t>(512, torn.size()); n > 0; --n) {
        torn[torn.size() - n] = static_cast<char>(random.below(256));
      }
    }
    std::ofstream(copy, std::ios::binary) << file;
    std::ofstream(copy.string() + "-wal", std::ios::binary) << torn;
    auto db = must(database::open(copy, database::access::write));
    auto book = must(ledger::open(*db));
    must(book->audit());
    ends.insert(must(book->counts()).issued_ever);
    if (must(book->position()).incarnation > 0) must(book->open_incarnation({"power cut", 0, {}}));
    must(book->audit());
  }
  // Different tears must have ended the run at different commits.
  CHECK(ends.size() > 3);
}

}  // namespace
}  // namespace quern::test
