// The canonical form of Python modules beside the one that Python's own tokenize gives: recorded
// (tools/goldens/python_identity.py), and computed again by each Python that is installed.
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "env/lanes/pytorch/text/python_identity.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;
namespace fs = std::filesystem;

namespace {

struct golden_text {
  std::string name;
  std::string bytes;
  env::python_canonical canonical;
};

/// The file has one character for each byte.
std::string bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    REQUIRE(c < 0xC4);
    if (c < 0x80) {
      bytes += utf8[i];
    } else {
      ++i;
      bytes += static_cast<char>((c << 6U) | (static_cast<unsigned char>(utf8.at(i)) & 0x3FU));
    }
  }
  return bytes;
}

std::vector<golden_text> golden_texts() {
  const auto text = base::read_file(test::source_dir() / "tests/golden/pytorch/identity.json");
  REQUIRE(text);
  const auto entries = base::parse_json(*text);
  REQUIRE(entries);
  std::vector<golden_text> all;
  for (const auto& entry : *entries) {
    const bool by_tokens = entry.at("form") == "tokens";
    all.push_back({entry.at("name"),
                   bytes_of(entry.at("text")),
                   {by_tokens ? env::python_form::tokens : env::python_form::bytes,
                    bytes_of(entry.at("canonical"))}});
  }
  return all;
}

const golden_text& named(const std::vector<golden_text>& all, std::string_view name) {
  for (const golden_text& one : all)
    if (one.name == name) return one;
  FAIL("no golden text ", std::string(name));
  return all.front();
}

/// Exit code of a Python with `arguments`, or -1; what it says goes to `log`.
int run_python(const std::string& python, std::vector<std::string> arguments, const fs::path& log) {
  std::vector<std::string> argv = {"/usr/bin/env", python};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto child = base::subprocess::start({.argv = std::move(argv), .log = log});
  if (!child) return -1;
  const auto end = child->wait(60_s);
  return end && end->signal == 0 ? end->code : -1;
}

/// pythonX.Y on the path, or one that pyenv has; empty: there is none. tools/count_cases looks at
/// the same places.
std::string find_python(const std::string& version, const fs::path& log) {
  std::vector<std::string> known = {"python" + version};
  const char* home = std::getenv("HOME");
  std::error_code ignored;
  if (home != nullptr)
    for (const auto& one : fs::directory_iterator(fs::path(home) / ".pyenv/versions", ignored))
      if (one.path().filename().string().starts_with(version + "."))
        known.push_back(one.path() / "bin" / known.front());
  for (const std::string& python : known)
    if (run_python(python, {"-c", "import tokenize"}, log) == 0) return python;
  return {};
}

void check_python(const std::string& version) {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const std::string python = find_python(version, folder->path() / "found");
  if (python.empty()) return test::skip("no Python " + version + " here");
  const fs::path log = folder->path() / "log";
  const fs::path script = test::source_dir() / "tools/goldens/python_identity.py";
  const int code = run_python(python, {script.string(), "--check"}, log);
  const std::string said = base::read_file(log).value_or("");
  CAPTURE(said);
  CHECK(code == 0);
  CHECK(test::contains(said, "Python " + version + "."));
  CHECK(test::contains(said, "texts agree"));
}

}  // namespace

TEST_CASE("canonical forms are those that Python's tokenize gives") {
  const auto all = golden_texts();
  REQUIRE(all.size() > 100);
  for (const golden_text& one : all) {
    CAPTURE(one.name);
    const auto canonical = env::canonical_python(one.bytes);
    CHECK(canonical.text == one.canonical.text);
    CHECK((canonical.form == one.canonical.form));
    // What is canonical stays so, and is the same candidate.
    CHECK(env::canonical_python(canonical.text) == canonical);
    CHECK(env::python_hash(canonical.text) == env::python_hash(one.bytes));
  }
}

TEST_CASE("no two golden texts are one candidate but those that are laid out anew") {
  const auto all = golden_texts();
  for (const golden_text& one : all)
    for (const golden_text& other : all) {
      CAPTURE(one.name);
      CAPTURE(other.name);
      CHECK((env::python_hash(one.bytes) == env::python_hash(other.bytes)) ==
            (one.canonical == other.canonical));
    }
  CHECK(env::python_hash(named(all, "a reference").bytes) ==
        env::python_hash(named(all, "a reference, laid out anew").bytes));
  CHECK(env::python_hash(named(all, "a candidate with Triton").bytes) !=
        env::python_hash(named(all, "a candidate with inline CUDA").bytes));
}

TEST_CASE("hashes are what they were, on every machine") {
  // Stored verdicts have them: a change here is a new version of the form.
  CHECK(base::to_hex(env::python_hash("a = 1\n")) == "c5ca178eeb64db1f4d6d2227abc9a6b0");
  CHECK(base::to_hex(env::python_hash("a = $\n")) == "e8c5c7ed46f37fe855fb32656e912424");
}

TEST_CASE("Python 3.11 computes the golden forms") {
  check_python("3.11");
}

TEST_CASE("Python 3.12 computes the golden forms") {
  check_python("3.12");
}

TEST_CASE("Python 3.13 computes the golden forms") {
  check_python("3.13");
}
