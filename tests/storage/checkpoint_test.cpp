// Checkpoints: whole or absent, checked on reading, the newest few kept.
#include "storage/checkpoint.hpp"

#include <fstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/random.hpp"
#include "ledger_support.hpp"
#include "storage/manifest.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

base::status write_model(const fs::path& folder, std::int64_t version) {
  QUERN_CHECK(base::make_folders(folder / "model"));
  std::ofstream(folder / "model" / "model.safetensors") << std::string(3000, 'w') << version;
  std::ofstream(folder / "model" / "config.json") << "{}";
  std::ofstream(folder / "optimizer.safetensors") << std::string(2000, 'o') << version;
  std::ofstream(folder / "state.json") << "{\"version\":" << version << "}";
  return {};
}

struct checkpoint_fixture {
  base::temp_folder root = must(base::temp_folder::make("checkpoints"));
  fs::path folder = root.path() / "checkpoints";
  checkpoint_store store{folder};
  checkpoint add(std::int64_t version) {
    auto made = must(
        store.write(version, [&](const fs::path& draft) { return write_model(draft, version); }));
    must(store.publish(version));
    return made;
  }
};

/// Files and folders below, by name, with what they hold: what a test may compare.
std::string tree(const fs::path& folder) {
  std::vector<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all.push_back(entry.path().string() +
                  (entry.is_regular_file() ? " " + must(base::read_file(entry.path())) : "/"));
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& each : all)
    text += each + "\n";
  return text;
}

void flip_a_byte(const fs::path& file) {
  std::string bytes = must(base::read_file(file));
  bytes[bytes.size() / 2] ^= 1;
  must(base::write_file_atomic(file, bytes));
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// This process may open no file any more.
class no_more_files {
 public:
  no_more_files() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const base::unique_fd next(::open("/", O_RDONLY | O_CLOEXEC));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~no_more_files() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// A user who may not read what root made: permissions do not bind root.
class another_user {
 public:
  another_user() : root_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~another_user() {
    if (root_) REQUIRE(::seteuid(0) == 0);
  }

 private:
  bool root_;
};

TEST_CASE("a checkpoint is written, verified, published; two are kept") {
  checkpoint_fixture run;
  const checkpoint first = run.add(1);
  CHECK(first.folder == run.folder / "v00000001");
  CHECK(must(run.store.latest()) == 1);
  CHECK(must(run.store.verify(1)).hash == first.hash);
  run.add(4);
  run.add(12);
  CHECK(run.store.versions() == std::vector<std::int64_t>{12, 4});
  CHECK(must(run.store.latest()) == 12);
  CHECK(must(base::read_file(run.folder / "LATEST")) == "v00000012\n");
  CHECK(must(run.store.choose({12, 4})).chosen.version == 12);
  const auto twice = run.store.write(12, [](const fs::path&) { return base::status(); });
  CHECK(twice.error().code == base::errc::already_exists);
  CHECK(run.store.verify(1).error().code == base::errc::not_found);
  CHECK(run.store.publish(99).error().code == base::errc::not_found);
  CHECK(must(base::read_file(run.folder / "v00000012/MANIFEST.json"))
            .find("\"quern_checkpoint\": 1") != std::string::npos);
}

TEST_CASE("as many are kept as are asked for, but never fewer than two") {
  checkpoint_fixture run;
  run.store = checkpoint_store(run.folder, 3);
  for (const std::int64_t version : {1, 2, 3, 4, 5})
    run.add(version);
  CHECK(run.store.versions() == std::vector<std::int64_t>{5, 4, 3});
  run.store = checkpoint_store(run.folder, 0);
  run.add(6);
  CHECK(run.store.versions() == std::vector<std::int64_t>{6, 5});
  CHECK(must(run.store.latest()) == 6);
}

TEST_CASE("the one that is held stays, until another is held") {
  checkpoint_fixture run;
  run.add(1);
  run.add(2);
  run.store.hold(2);
  for (const std::int64_t version : {3, 4, 5, 6})
    run.add(version);
  CHECK(run.store.versions() == std::vector<std::int64_t>{6, 5, 2});
  run.store.hold(6);
  for (const std::int64_t version : {7, 8})
    run.add(version);
  CHECK(run.store.versions() == std::vector<std::int64_t>{8, 7, 6});
}

TEST_CASE("a writer that fails leaves nothing behind") {
  checkpoint_fixture run;
  run.add(1);
  const auto failed = run.store.write(2, [](const fs::path& draft) {
    (void)write_model(draft, 2);
    return base::status(base::fail(base::errc::io, "the disk is full"));
  });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().message == "writing checkpoint 2: the disk is full");
  const auto empty = run.store.write(2, [](const fs::path&) { return base::status(); });
  CHECK(empty.error().message.find("no file") != std::string::npos);
  const auto linked = run.store.write(2, [](const fs::path& draft) {
    fs::create_symlink("/etc/passwd", draft / "model");
    return base::status();
  });
  CHECK(linked.error().message.find("not a regular file") != std::string::npos);
  CHECK(run.store.versions() == std::vector<std::int64_t>{1});
  CHECK(std::distance(fs::directory_iterator(run.folder), fs::directory_iterator()) == 2);
}

TEST_CASE("whatever is damaged is named, and the older checkpoint is chosen") {
  const std::vector<std::string> files = {"MANIFEST.json", "model/model.safetensors",
                                          "model/config.json", "optimizer.safetensors",
                                          "state.json"};
  for (const std::string& name : files) {
    for (const char* damage : {"missing", "torn", "flipped", "longer"}) {
      CAPTURE(name);
      CAPTURE(std::string(damage));
      checkpoint_fixture run;
      run.add(7);
      run.add(8);
      const fs::path path = run.store.folder_of(8) / name;
      std::string bytes = must(base::read_file(path));
      if (std::string(damage) == "torn") bytes.resize(bytes.size() / 2);
      if (std::string(damage) == "flipped") bytes[bytes.size() / 2] ^= 1;
      if (std::string(damage) == "longer") bytes += "}";
      if (std::string(damage) == "missing") {
        fs::remove(path);
      } else {
        must(base::write_file_atomic(path, bytes));
      }
      const auto choice = must(run.store.choose({8, 7}));
      CHECK(choice.chosen.version == 7);
      REQUIRE(choice.problems.size() == 1);
      CHECK(choice.problems[0].find("v00000008") != std::string::npos);
      const bool names_it = choice.problems[0].find(name) != std::string::npos;
      // A flipped byte in the manifest may be seen as a file that does not fit it.
      CHECK((names_it || name == "MANIFEST.json"));
    }
  }
}

TEST_CASE("a link, a folder with another version's files and an unknown format are refused") {
  checkpoint_fixture run;
  run.add(1);
  const fs::path home = run.store.folder_of(1);
  base::errc chosen = base::errc::not_found;
  SUBCASE("link") {
    fs::remove(home / "state.json");
    fs::create_symlink("/etc/hostname", home / "state.json");
    CHECK(run.store.verify(1).error().code == base::errc::corrupt);
  }
  SUBCASE("format") {
    std::string text = must(base::read_file(home / "MANIFEST.json"));
    text.replace(text.find("\"quern_checkpoint\": 1"), 21, "\"quern_checkpoint\": 9");
    must(base::write_file_atomic(home / "MANIFEST.json", text));
    CHECK(run.store.verify(1).error().code == base::errc::version);
    // Another build may read it: it is not passed over.
    chosen = base::errc::version;
    CHECK(says(run.store.choose({1}).error().message, "use the build that wrote it"));
  }
  SUBCASE("renamed") {
    fs::rename(home, run.store.folder_of(2));
    CHECK(says(run.store.verify(2).error().message, "says version 1"));
  }
  CHECK(run.store.choose({1}).error().code == chosen);
  CHECK(says(run.store.choose({}).error().message, "there is no checkpoint in"));
}

TEST_CASE("without a usable checkpoint those that were deleted on purpose are a count alone") {
  checkpoint_fixture run;
  run.store = checkpoint_store(run.folder, 3);
  std::vector<std::int64_t> recorded;
  for (std::int64_t version = 12; version >= 1; --version)
    recorded.push_back(version);
  for (std::int64_t version = 1; version <= 12; ++version)
    run.add(version);
  REQUIRE(run.store.versions() == std::vector<std::int64_t>{12, 11, 10});
  SUBCASE("the newest is missing: one problem, and the next is used") {
    fs::remove_all(run.store.folder_of(12));
    const auto choice = must(run.store.choose(recorded));
    CHECK(choice.chosen.version == 11);
    CHECK(choice.problems.size() == 1);
  }
  SUBCASE("an old one that was held is used: those between were deleted") {
    run.store.hold(3);
    for (const std::int64_t version : {10, 11, 12})
      fs::rename(run.store.folder_of(version), run.folder / std::to_string(version));
    CHECK_FALSE(run.store.choose({12, 11, 10, 9, 8}).has_value());
    run.add(3);
    const auto choice = must(run.store.choose(recorded));
    CHECK(choice.chosen.version == 3);
    CHECK(choice.problems.size() == 3);
  }
  SUBCASE("one is missing, two are damaged") {
    fs::remove_all(run.store.folder_of(12));
    flip_a_byte(run.store.folder_of(11) / "state.json");
    fs::remove(run.store.folder_of(10) / "MANIFEST.json");
    const auto none = run.store.choose(recorded);
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code == base::errc::not_found);
    const std::string text = none.error().message;
    CAPTURE(text);
    for (const char* part :
         {"v00000012 is not there", "v00000011/state.json", "v00000010/MANIFEST.json",
          "9 older checkpoints are not there on "
          "purpose: storage.keep_checkpoints keeps the newest 3"})
      CHECK(says(text, part));
    CHECK_FALSE(says(text, "v00000009"));
    // What to do stands before what is wrong with each.
    CHECK(text.find("back from a copy") < text.find("v00000012"));
  }
}

TEST_CASE("of many unusable checkpoints the first few are named, and the others counted") {
  unusable_checkpoints none{{"a", "b", "c"}, 0, 3};
  CHECK(unusable_text("R/checkpoints", none) ==
        "no checkpoint in R/checkpoints can be used: put the files of one back from a copy of the "
        "run. Damaged or missing: a; b; c");
  none.problems = {"a", "b", "c", "d", "e"};
  none.deleted = 1;
  const std::string text = unusable_text("R/checkpoints", none);
  CHECK(says(text, "a; b; c; and 2 more checkpoints. 1 older checkpoint is not there on purpose"));
}

TEST_CASE("without a ledger LATEST tells of a checkpoint whose folder is gone") {
  checkpoint_fixture run;
  CHECK(must(run.store.known()).empty());
  run.add(1);
  run.add(2);
  CHECK(must(run.store.known()) == std::vector<std::int64_t>{2, 1});
  fs::remove_all(run.store.folder_of(2));
  CHECK(must(run.store.known()) == std::vector<std::int64_t>{2, 1});
  CHECK(must(run.store.choose(must(run.store.known()))).chosen.version == 1);
  fs::remove_all(run.store.folder_of(1));
  CHECK(must(run.store.known()) == std::vector<std::int64_t>{2});
}

TEST_CASE("files that a checkpoint did not have are named and do no harm") {
  checkpoint_fixture run;
  run.add(1);
  run.add(2);
  const fs::path home = run.store.folder_of(2);
  std::ofstream(home / "model/notes.txt") << "hi";
  fs::create_symlink("/etc/hostname", home / "link");
  CHECK(must(run.store.verify(2)).version == 2);
  const auto choice = must(run.store.choose({2, 1}));
  CHECK(choice.chosen.version == 2);
  CHECK(choice.problems.empty());
  CHECK(choice.strays == std::vector<fs::path>{home / "link", home / "model/notes.txt"});
  CHECK(must(run.store.choose({2, 1}, model_part)).strays ==
        std::vector<fs::path>{home / "model/notes.txt"});
  CHECK(says(stray_text(choice.strays[1]), "model/notes.txt is not in the manifest"));
}

TEST_CASE("of a checkpoint whose optimizer is damaged the model can be chosen by itself") {
  checkpoint_fixture run;
  run.add(1);
  run.add(2);
  flip_a_byte(run.store.folder_of(2) / "optimizer.safetensors");
  CHECK(must(run.store.choose({2, 1})).chosen.version == 1);
  CHECK(must(run.store.choose({2, 1}, model_part)).chosen.version == 2);
  flip_a_byte(run.store.folder_of(2) / "model/model.safetensors");
  CHECK(must(run.store.choose({2, 1}, model_part)).chosen.version == 1);
  // A folder that is no part has nothing that could be whole.
  CHECK(run.store.choose({1}, "modes").error().code == base::errc::not_found);
}

TEST_CASE("what the system cannot read ends the choice: nothing is passed over or moved") {
  checkpoint_fixture run;
  run.add(1);
  run.add(2);
  const fs::path home = run.store.folder_of(2);
  const std::string before = tree(run.folder);
  std::string refused, moved;
  base::errc code = base::errc::internal;
  const auto ask = [&] {
    const auto choice = run.store.choose({2, 1});
    const auto newer = run.store.set_aside_above(1);
    REQUIRE_FALSE(choice.has_value());
    REQUIRE_FALSE(newer.has_value());
    code = choice.error().code;
    refused = choice.error().message;
    moved = newer.error().message;
  };
  std::string file, reason;
  SUBCASE("too many open files") {
    {
      const no_more_files now;
      ask();
      CHECK_FALSE(run.store.list().has_value());
    }
    CHECK(code == base::errc::exhausted);
    file = (home / "MANIFEST.json").string();
    reason = "Too many open files";
    CHECK(says(moved, run.folder.string()));
  }
  SUBCASE("a shard that may not be read") {
    file = (home / "optimizer.safetensors").string();
    reason = "Permission denied";
    // The folders of the test are for root alone, where it is root.
    fs::permissions(run.root.path(), fs::perms::all);
    fs::permissions(file, fs::perms::none);
    {
      const another_user now;
      ask();
    }
    fs::permissions(file, fs::perms::owner_all);
    CHECK(code == base::errc::io);
    CHECK(says(moved, file));
  }
  CAPTURE(refused);
  for (const std::string& part : {file, reason, std::string("mend that"),
                                  std::string("move the folder to another place"), home.string()})
    CHECK(says(refused, part));
  CHECK(says(moved, reason));
  CHECK(tree(run.folder) == before);
  CHECK(must(run.store.choose({2, 1})).chosen.version == 2);
}

TEST_CASE("a newer checkpoint is moved aside as it is, whatever is left of it") {
  using model_is = set_aside_checkpoint::model_is;
  checkpoint_fixture run;
  run.add(1);
  run.add(2);
  const fs::path home = run.store.folder_of(2), aside = run.folder / "set_aside/v00000002";
  model_is model = model_is::whole;
  std::string damaged, advice;
  SUBCASE("whole") {
    advice = "does not know a newer checkpoint that is whole";
  }
  SUBCASE("whole, with a stray file") {
    std::ofstream(home / "model/notes.txt") << "hi";
    advice = "does not know a newer checkpoint that is whole";
  }
  SUBCASE("a flipped byte in the optimizer") {
    damaged = "optimizer.safetensors";
    flip_a_byte(home / damaged);
    advice = "Its model is whole: quern export " + aside.string();
  }
  SUBCASE("no state") {
    damaged = "state.json";
    fs::remove(home / damaged);
    advice = "policy.model=" + (aside / "model").string();
  }
  SUBCASE("a flipped byte in the model") {
    damaged = "model/model.safetensors";
    flip_a_byte(home / damaged);
    model = model_is::damaged;
    advice = "Its model is damaged, too";
  }
  SUBCASE("no manifest") {
    damaged = "MANIFEST.json";
    fs::remove(home / damaged);
    model = model_is::unknown;
    advice = "cannot be told";
  }
  SUBCASE("a manifest of another format") {
    damaged = "MANIFEST.json";
    must(base::write_file_atomic(home / damaged, R"({"quern_checkpoint": 9})"));
    model = model_is::unknown;
    advice = "use the build that wrote it";
  }
  std::string before = tree(home);
  for (std::size_t at = 0; (at = before.find(home.string(), at)) != std::string::npos;)
    before.replace(at, home.string().size(), aside.string());
  const auto moved = must(run.store.set_aside_above(1));
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].folder == aside);
  CHECK(moved[0].model == model);
  CHECK(moved[0].damage.empty() == damaged.empty());
  CHECK(says(moved[0].damage, damaged));
  CHECK(tree(aside) == before);
  CHECK(run.store.versions() == std::vector<std::int64_t>{1});
  const std::string text = set_aside_text(moved[0], 1);
  CAPTURE(text);
  for (const std::string& part : {aside.string(), damaged, advice, std::string("from version 1"),
                                  std::string("until you delete the folder")})
    CHECK(says(text, part));
}

TEST_CASE("what a run does not go on from is set aside; only drafts are deleted") {
  checkpoint_fixture run;
  run.store = checkpoint_store(run.folder, 3);
  run.add(1);
  run.add(2);
  run.add(3);
  fs::create_directories(run.folder / ".writing-v00000004-77" / "model");
  std::ofstream(run.folder / ".LATEST.abcdef") << "v";
  std::ofstream(run.store.folder_of(3) / "state.json") << "damaged";
  const auto moved_above = [&](std::int64_t version) {
    std::vector<fs::path> folders;
    for (const set_aside_checkpoint& each : must(run.store.set_aside_above(version)))
      folders.push_back(each.folder);
    return folders;
  };
  const fs::path aside = run.folder / "set_aside";
  CHECK(moved_above(1) == std::vector<fs::path>{aside / "v00000003", aside / "v00000002"});
  CHECK(checkpoint_store(aside).verify(2).has_value());
  CHECK(run.store.versions() == std::vector<std::int64_t>{1});
  CHECK(must(run.store.latest()) == 1);
  // v00000001, LATEST and set_aside.
  CHECK(std::distance(fs::directory_iterator(run.folder), fs::directory_iterator()) == 3);
  CHECK(moved_above(1).empty());
  // The same version a second time: the first one stays.
  run.add(2);
  CHECK(moved_above(1) == std::vector<fs::path>{aside / "v00000002-2"});
  CHECK(checkpoint_store(aside).verify(2).has_value());
  CHECK(must(check_checkpoint(aside / "v00000002-2")).whole());
  CHECK(moved_above(0) == std::vector<fs::path>{aside / "v00000001"});
  CHECK(run.store.versions().empty());
  CHECK(run.store.latest().error().code == base::errc::not_found);
}

TEST_CASE("names of checkpoints, set aside or not") {
  CHECK(version_in_name("v00000012") == 12);
  CHECK(version_in_name("v123456789") == 123456789);
  CHECK(version_in_name("v00000012-2") == 12);
  for (const char* name : {"", "v", "v12", "v000000012", "v0000000x", "x00000012", "v00000012-",
                           "v00000012-x", "v00000012-2-3", "v-0000012", ".writing-v00000012-2"}) {
    CAPTURE(std::string(name));
    CHECK_FALSE(version_in_name(name).has_value());
  }
}

TEST_CASE("LATEST with any other text is an error, not a path") {
  checkpoint_fixture run;
  run.add(1);
  for (const char* text :
       {"", "v1", "../../etc", "v00000001/..", "v0000000x", "v-0000001", "v99999999999999999999"}) {
    std::ofstream(run.folder / "LATEST") << text;
    CHECK_FALSE(run.store.latest().has_value());
  }
  must(base::write_file_atomic(run.folder / "LATEST", "v00000001"));
  CHECK(must(run.store.latest()) == 1);
}

TEST_CASE("manifests: what is written is read, paths cannot leave the folder") {
  const manifest value{12, {{"model/a", 3, {1, 2}}, {"state.json", 0, {3, 4}}}};
  const manifest back = must(parse_manifest(to_json(value)));
  CHECK(back.version == 12);
  REQUIRE(back.files.size() == 2);
  CHECK(back.files[0].path == "model/a");
  CHECK(back.files[0].hash == base::hash128{1, 2});
  for (const char* path : {"/etc/passwd", "../x", "a/../b", ".", "..", "a/", "./a", "a//b"}) {
    CAPTURE(std::string(path));
    CHECK_FALSE(parse_manifest(to_json({1, {{path, 1, {}}}})).has_value());
  }
  CHECK(parse_manifest(to_json({1, {{"a", 1, {}}, {"a", 1, {}}}})).error().message.find("twice") !=
        std::string::npos);
  CHECK_FALSE(parse_manifest(to_json({1, {}})).has_value());
  CHECK_FALSE(parse_manifest(to_json({-1, {{"a", 1, {}}}})).has_value());
}

TEST_CASE("manifests: damaged text is an error or the same kind of value, never a crash") {
  const std::string good = to_json({12, {{"model/a", 3, {1, 2}}, {"state.json", 0, {3, 4}}}});
  base::random_stream random(3, "manifest");
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n) {
      const std::size_t at = random.below(text.size());
      switch (random.below(4)) {
        case 0:
          text[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          text.erase(at, random.below(20));
          break;
        case 2:
          text.insert(at, text.substr(random.below(text.size()), random.below(20)));
          break;
        default:
          text.insert(at, std::string(random.below(3000), "[{\"0-."[random.below(6)]));
      }
      if (text.empty()) text = "x";
    }
    const auto parsed = parse_manifest(text);
    if (!parsed) {
      ++refused;
      continue;
    }
    CHECK(parsed->version >= 0);
    for (const manifest_file& file : parsed->files) {
      CHECK(fs::path(file.path).is_relative());
      CHECK(*fs::path(file.path).lexically_normal().begin() != "..");
    }
  }
  CHECK(refused > 3000);
}

}  // namespace
}  // namespace quern::test
