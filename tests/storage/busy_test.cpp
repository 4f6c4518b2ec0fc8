// Another process that holds run.db: how long a run waits for it, and what it says.
#include <chrono>
#include <thread>
#include <utility>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "ledger_support.hpp"
#include "storage/busy_wait.hpp"
#include "storage/lock_holder.hpp"
#include "support/caught_stderr.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;
using base::operator""_s;
using base::operator""_ms;

enum class holding { to_write, to_read };

/// A process that opens a database when it is told to, and holds its write lock or only reads. Made
/// before this process has opened one: SQLite must not be carried across a fork.
class holder {
 public:
  explicit holder(const fs::path& database, holding what = holding::to_write) {
    REQUIRE(::pipe(orders_) == 0);
    REQUIRE(::pipe(answers_) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    ::close(orders_[1]);
    char order = 0;
    if (::read(orders_[0], &order, 1) != 1) ::_exit(1);
    auto db = database::open(database, database::access::write);
    const char* const begin =
        what == holding::to_write ? "BEGIN IMMEDIATE" : "BEGIN; SELECT count(*) FROM samples";
    if (!db || !(*db)->execute(begin)) ::_exit(2);
    (void)!::write(answers_[1], "h", 1);
    (void)!::read(orders_[0], &order, 1);
    ::_exit(0);
  }
  ~holder() {
    let_go();
    for (const int fd : {orders_[0], orders_[1], answers_[0], answers_[1]})
      ::close(fd);
  }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  void hold() {
    REQUIRE(::write(orders_[1], "o", 1) == 1);
    char answer = 0;
    REQUIRE(::read(answers_[0], &answer, 1) == 1);
  }
  void let_go_soon() { REQUIRE(::write(orders_[1], "x", 1) == 1); }
  void let_go() {
    if (pid_ <= 0) return;  // 0 would be this whole group
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  int orders_[2] = {-1, -1}, answers_[2] = {-1, -1};
  pid_t pid_ = -1;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines)
    all += line + "\n";
  return all;
}

TEST_CASE("a wait for run.db: short pauses first, one word after a while, an end") {
  busy_wait wait({60_s, 3_s});
  CHECK(wait.held(0, 10_s).pause == 1_ms);
  CHECK(wait.held(1, 10_s).pause == 2_ms);
  CHECK(wait.held(30, 11_s).pause == 100_ms);
  CHECK_FALSE(wait.held(31, 12_s).say);
  CHECK(wait.held(32, 13_s).say);
  CHECK_FALSE(wait.held(33, 14_s).say);
  CHECK(wait.waited(19_s) == 9_s);
  // It is had: that is said once, as the wait was.
  CHECK(wait.had());
  CHECK_FALSE(wait.had());
  CHECK_FALSE(wait.held(0, 20_s).say);
  CHECK_FALSE(wait.had());
  // The last pause does not go beyond the end.
  CHECK(wait.held(0, 100_s).pause == 1_ms);
  const auto last = wait.held(99, 160_s - 5_ms);
  CHECK(last.pause == 5_ms);
  CHECK_FALSE(last.give_up);
  CHECK(wait.held(100, 160_s).give_up);
  CHECK(wait.gave_up());
  CHECK_FALSE(wait.held(0, 161_s).give_up);
  CHECK_FALSE(wait.gave_up());
}

TEST_CASE("lines of /proc/locks are read, and what is none is left out") {
  const auto locks = read_locks(
      "1: POSIX  ADVISORY  WRITE 4711 fd:10:1234567 120 120\n"
      "1: -> POSIX  ADVISORY  WRITE 4712 fd:10:1234567 120 120\n"
      "2: FLOCK  ADVISORY  WRITE 4713 00:1a:99 0 EOF\n"
      "3: OFDLCK ADVISORY  READ  -1 00:1a:99 0 EOF\n"
      "4: POSIX  ADVISORY  READ  4714 08:101:5 1073741826 1073742335\n"
      "5: POSIX  ADVISORY  READ  0 00:1a:99 0 EOF\n"
      "POSIX\n: :\n\n6: POSIX ADVISORY READ 1 zz:00:1 0");
  REQUIRE(locks.size() == 2);
  CHECK(locks[0].pid == 4711);
  CHECK(locks[0].exclusive);
  CHECK(locks[0].file == file_id{0xfd, 0x10, 1234567});
  CHECK(locks[0].first == 120);
  CHECK(locks[0].last == 120);
  CHECK(locks[1].pid == 4714);
  CHECK_FALSE(locks[1].exclusive);
  CHECK(locks[1].file.minor == 0x101);
  CHECK(locks[1].first == 1073741826);
  CHECK(locks[1].last == 1073742335);
  const auto to_the_end = read_locks("7: POSIX  ADVISORY  WRITE 4715 08:01:5 0 EOF\n");
  REQUIRE(to_the_end.size() == 1);
  CHECK(to_the_end[0].last > 1073742335);
  CHECK(read_locks("8: POSIX  ADVISORY  WRITE 4715 08:01:5 0 some\n").empty());
}

TEST_CASE("only a process with the write lock is named as the one that holds run.db") {
  const file_id main{8, 1, 5}, memory{8, 1, 6}, other{8, 2, 5};
  constexpr std::int64_t own = 100, reader = 4711, writer = 4712;
  // SQLite's: a connection's share of the main file, that it uses the -shm, that it reads.
  const std::vector<file_lock> of_reader = {{reader, false, main, 1073741826, 1073742335},
                                            {reader, false, memory, 128, 128},
                                            {reader, false, memory, 124, 124}};
  const auto beside = [&](file_lock lock) {
    std::vector<file_lock> locks = of_reader;
    locks.push_back(lock);
    return writer_among(locks, main, memory, own);
  };
  CHECK_FALSE(writer_among(of_reader, main, memory, own));
  CHECK_FALSE(writer_among({}, main, memory, own));
  CHECK(beside({writer, true, memory, 120, 120}) == writer);
  // Neighbours of one process are one lock: the writer recovers the log.
  CHECK(beside({writer, true, memory, 120, 127}) == writer);
  // One that checkpoints or recovers, and one that sets its mark to read from.
  CHECK_FALSE(beside({reader, true, memory, 121, 121}));
  CHECK_FALSE(beside({reader, true, memory, 121, 127}));
  CHECK_FALSE(beside({reader, true, memory, 124, 124}));
  CHECK_FALSE(beside({reader, false, memory, 120, 120}));
  // Without a log: reserved, pending, exclusive.
  for (const std::int64_t byte : {1073741824, 1073741825, 1073741826})
    CHECK(beside({writer, true, main, byte, byte}) == writer);
  CHECK_FALSE(beside({writer, true, main, 0, 10}));
  // Another file, this process itself, and no -shm to compare with.
  CHECK_FALSE(beside({writer, true, other, 1073741825, 1073741825}));
  CHECK_FALSE(beside({own, true, memory, 120, 120}));
  CHECK_FALSE(writer_among({{writer, true, memory, 120, 120}}, main, std::nullopt, own));
}

TEST_CASE("a reader of run.db is not named, and the message says where to look instead") {
  const auto folder = must(base::temp_folder::make("busy"));
  const fs::path path = folder.path() / "run.db";
  holder other(path, holding::to_read);
  {
    auto db = must(database::open(path, database::access::write));
    must(must(ledger::open(*db))->open_incarnation({"start", 0, {}}));
  }
  other.hold();
  const lock_holder found = holder_of(path);
  CHECK(found.who == "a process that cannot be seen from here");
  CHECK(test::contains(found.remedy, "fuser " + path.string()));
}

TEST_CASE("a process that holds run.db for 6 s is waited for, and named") {
  const auto folder = must(base::temp_folder::make("busy"));
  const fs::path path = folder.path() / "run.db";
  holder other(path);
  std::vector<std::string> lines;
  {
    auto db = must(database::open(path, database::access::write));
    auto book = must(ledger::open(*db));
    must(book->open_incarnation({"start", 0, {}}));
    other.hold();
    // Some sandboxes have no such file.
    const bool tells = fs::exists("/proc/locks");
    caught_stderr said(folder.path() / "said");
    const auto begin = std::chrono::steady_clock::now();
    // Three seconds behind the first line, which comes after three: before it nobody need have
    // begun to wait.
    std::thread later([&] {
      for (int k = 0; k < 500 && base::read_file(folder.path() / "said").value_or("").empty(); ++k)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::this_thread::sleep_for(std::chrono::seconds(3));
      other.let_go_soon();
    });
    const auto issued = book->issue(group_of(0, 8));
    later.join();
    REQUIRE_MESSAGE(issued, (issued ? "" : issued.error().message));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(5));
    must(book->commit());
    CHECK(must(book->counts()).issued_ever == 8);
    lines = said.lines();
    const std::string all = joined(lines);
    CAPTURE(all);
    REQUIRE(lines.size() == 2);
    const std::string who = tells ? "process " + std::to_string(other.pid())
                                  : "a process that cannot be seen from here";
    CHECK(test::contains(lines[0], who));
    CHECK(test::contains(lines[0], path.string() + " has been held by"));
    CHECK(test::contains(lines[0], "waiting up to 60.0 s"));
    CHECK(test::contains(lines[1], "run.db is free again, after"));
  }
}

TEST_CASE("after that the error says who held run.db and what to do, and nothing is lost") {
  const auto folder = must(base::temp_folder::make("busy"));
  const fs::path path = folder.path() / "run.db";
  holder other(path);
  auto db = must(database::open(path, database::access::write, default_batch_rows,
                                {2'000'000'000, 50'000'000}));
  auto book = must(ledger::open(*db));
  must(book->open_incarnation({"start", 0, {}}));
  other.hold();
  std::string message;
  {
    caught_stderr said(folder.path() / "said");
    const auto refused = book->issue(group_of(0, 8));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::conflict);
    message = refused.error().message;
    CHECK(said.lines().size() == 1);
  }
  CAPTURE(message);
  CHECK(test::contains(message, fs::exists("/proc/locks")
                                    ? "longer than a run waits: end that process, or the transac"
                                    : "longer than a run waits: find it outside"));
  CHECK(test::contains(message, "and quern resume"));
  CHECK(test::contains(message, path.string()));
  other.let_go();
  must(book->issue(group_of(0, 8)));
  must(book->commit());
  CHECK(must(book->counts()).issued_ever == 8);
}

TEST_CASE("a process that only looks at run.db ends a run without a long wait") {
  const auto folder = must(base::temp_folder::make("busy"));
  const fs::path path = folder.path() / "run.db";
  auto db = must(database::open(path, database::access::write));
  auto book = must(ledger::open(*db));
  must(book->open_incarnation({"start", 0, {}}));
  auto reader = must(database::open(path, database::access::read));
  must(reader->execute("BEGIN; SELECT count(*) FROM samples"));
  const auto begin = std::chrono::steady_clock::now();
  const auto folded = db->fold();
  REQUIRE_FALSE(folded);
  CHECK(test::contains(folded.error().message, "copy run.db-wal with run.db"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  // Its own writes are waited for as before.
  must(book->issue(group_of(0, 8)));
  must(book->commit());
}

}  // namespace
}  // namespace quern::test
