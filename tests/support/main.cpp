// Entry of every test program, compiled once for all of them: runs the cases, and says of each
// whether it passed, failed or was skipped. tools/count_cases adds up what stands in the file that
// $QUERN_TEST_CASES names.
#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

namespace {

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

/// What became of the cases of this process, in memory and, line by line, in a file: of a program
/// that is killed the cases before are known, and that it did not come to its end.
class case_book {
 public:
  static case_book& of_process() {
    static case_book only;
    return only;
  }

  /// `program` goes to the file's first line. False: the file cannot be written.
  bool open(const std::string& program) {
    const char* path = std::getenv("QUERN_TEST_CASES");
    if (path == nullptr || *path == '\0') return true;
    file_ = std::fopen(path, "we");
    if (file_ == nullptr) {
      std::fprintf(stderr, "QUERN_TEST_CASES: cannot write '%s'; its folder must exist\n", path);
      return false;
    }
    // What a test starts has its own.
    ::unsetenv("QUERN_TEST_CASES");
    line("program\t" + program);
    return true;
  }

  /// Within a case, any number of times: the case did not do all that it stands for.
  void skip(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    // A reason that comes again, once a subcase, is one.
    if (("; " + reasons_ + "; ").find("; " + reason + "; ") != std::string::npos) return;
    reasons_ += (reasons_.empty() ? "" : "; ") + reason;
  }
  void begin_case(const std::string& name) {
    const std::lock_guard lock(mutex_);
    ++run_;
    name_ = on_one_line(name);
    reasons_.clear();
  }
  void end_case(const doctest::CurrentTestCaseStats& stats) {
    const std::lock_guard lock(mutex_);
    if (!is_ours()) return;
    if (!stats.testCaseSuccess) {
      failed("a check");
    } else if (!reasons_.empty()) {
      ++skipped_;
      line("skipped\t" + name_ + "\t" + on_one_line(reasons_));
    } else if (stats.numAssertsCurrentTest == 0) {
      std::printf("FAILED: '%s' checked nothing; a case checks, or calls skip with a reason\n",
                  name_.c_str());
      failed("it checked nothing");
    } else {
      ++passed_;
      line("passed\t" + name_);
    }
  }
  /// One that its text says not to run.
  void never_run(const std::string& name) {
    ++skipped_;
    line("skipped\t" + on_one_line(name) + "\ta decorator");
  }
  /// The end of a run, also of one that a signal cut short.
  void end_run() {
    if (!is_ours()) return;
    ended_ = true;
    line("end");
  }

  /// Whether cases were run, not listed, and all is well; no case at all is not: a filter that fits
  /// none. Prints the counts, below doctest's, where a skipped case is a passed one.
  [[nodiscard]] bool is_good() const {
    if (!ended_) return true;
    std::printf("[cases] %d passed, %d failed, %d skipped\n", passed_, failed_, skipped_);
    if (run_ == 0) std::printf("FAILED: no case was run\n");
    return failed_ == 0 && run_ > 0;
  }

 private:
  // A child of a test that forked has nothing to say here.
  [[nodiscard]] bool is_ours() const { return ::getpid() == owner_; }

  void failed(const char* why) {
    ++failed_;
    line("failed\t" + name_ + "\t" + why);
  }
  void line(const std::string& text) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "%s\n", text.c_str());
    std::fflush(file_);
  }

  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  pid_t owner_ = ::getpid();
  std::string name_, reasons_;
  int run_ = 0, passed_ = 0, failed_ = 0, skipped_ = 0;
  bool ended_ = false;
};

struct case_listener : doctest::IReporter {
  explicit case_listener(const doctest::ContextOptions& /*unused*/) {}
  void report_query(const doctest::QueryData& /*unused*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*unused*/) override {
    case_book::of_process().end_run();
  }
  void test_case_start(const doctest::TestCaseData& data) override {
    case_book::of_process().begin_case(data.m_name);
  }
  void test_case_reenter(const doctest::TestCaseData& /*unused*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    case_book::of_process().end_case(stats);
  }
  void test_case_exception(const doctest::TestCaseException& /*unused*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*unused*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*unused*/) override {}
  void log_message(const doctest::MessageData& /*unused*/) override {}
  void test_case_skipped(const doctest::TestCaseData& data) override {
    // Others are those that the command line's filter leaves out.
    if (data.m_skip) case_book::of_process().never_run(data.m_name);
  }
};

REGISTER_LISTENER("cases", 1, case_listener);

}  // namespace

// Declared in support/test.hpp, which may bring LibTorch along.
namespace quern::test {

void skip(const std::string& reason) {
  std::printf("SKIPPED: %s\n", reason.c_str());
  std::fflush(stdout);
  case_book::of_process().skip(reason);
}

}  // namespace quern::test

int main(int argc, char** argv) {
  const std::string path = argc > 0 ? argv[0] : "";
  if (!case_book::of_process().open(path.substr(path.rfind('/') + 1))) return 1;
  doctest::Context context(argc, argv);
  const int code = context.run();
  const bool good = case_book::of_process().is_good();
  return code == 0 && !good ? 1 : code;
}
