// Keys are never overwritten, never readable by others, and a bad line is named.
#include "env/plugin/key_file.hpp"

#include <sys/stat.h>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

mode_t mask_of_files() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

}  // namespace

TEST_CASE("a key pair is made once, comes back as it was, and is for its owner only") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "host.key";
  const auto made = make_key_file(file);
  REQUIRE(made);
  const auto read = read_key_file(file);
  REQUIRE(read);
  CHECK(read->public_key == made->public_key);
  CHECK(read->secret_key == made->secret_key);
  CHECK(make_key_file(file).error().code == base::errc::already_exists);
  REQUIRE(chmod(file.c_str(), 0644) == 0);
  CHECK(read_key_file(file).error().message.find("chmod 600") != std::string::npos);
  CHECK(read_key_file(folder.path() / "none").error().code == base::errc::not_found);
}

TEST_CASE(
    "the public key stands in a file of its own, for a command line and for a folder of hosts") {
  const auto folder = base::temp_folder::make().value();
  const auto place = [&](const char* name) { return (folder.path() / name).string(); };
  const auto run = make_key_file(place("run.key")).value();
  const auto host = make_key_file(place("host.key")).value();
  struct stat info {};
  REQUIRE(stat(place("run.key.pub").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == (0644 & ~mask_of_files()));
  CHECK(base::read_file(place("run.key.pub")) == run.public_key + "\n");
  CHECK(public_key_of(run.public_key) == run.public_key);
  CHECK(public_key_of(place("run.key.pub")) == run.public_key);
  // Neither is the pair taken for its public key, nor what is nothing of both.
  const auto pair = public_key_of(place("run.key"));
  REQUIRE_FALSE(pair);
  CHECK(quern::test::contains(pair.error().message, "run.key has 2 keys"));
  CHECK_FALSE(quern::test::contains(pair.error().message, run.secret_key));
  CHECK(quern::test::contains(public_key_of("abc").error().message, "'abc' is neither"));
  CHECK(read_public_keys(folder.path()).value() ==
        std::set<std::string>{run.public_key, host.public_key});
  // A public key that is there is not overwritten, and no secret is made for it.
  REQUIRE(base::write_file_atomic(place("third.key.pub"), "mine"));
  CHECK(make_key_file(place("third.key")).error().code == base::errc::already_exists);
  CHECK_FALSE(std::filesystem::exists(place("third.key")));
}

TEST_CASE("a list of public keys: notes are skipped, what is no key is named by its line") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "hosts";
  const auto key = make_curve_keys()->public_key;
  REQUIRE(base::write_file_atomic(file, "# the lab\n\n" + key + " rack 3\n"));
  CHECK(read_public_keys(file).value() == std::set<std::string>{key});
  REQUIRE(base::write_file_atomic(file, key + "\nshort\n"));
  CHECK(read_public_keys(file).error().message.find(":2:") != std::string::npos);
  REQUIRE(base::write_file_atomic(file, "# nobody\n"));
  CHECK_FALSE(read_public_keys(file));
}
