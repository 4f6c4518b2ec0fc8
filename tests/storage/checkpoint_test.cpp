// Checkpoints: whole or absent, checked on reading, the newest few kept.
#include "storage/checkpoint.hpp"

#include <fstream>

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

TEST_CASE("a stray file, a link and an unknown format are refused") {
  checkpoint_fixture run;
  run.add(1);
  const fs::path home = run.store.folder_of(1);
  SUBCASE("stray") {
    std::ofstream(home / "extra") << "x";
    CHECK(run.store.verify(1).error().message.find("extra is not in the manifest") !=
          std::string::npos);
  }
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
  }
  SUBCASE("renamed") {
    fs::rename(home, run.store.folder_of(2));
    CHECK(run.store.verify(2).error().message.find("says version 1") != std::string::npos);
  }
  CHECK(run.store.choose({1}).error().code == base::errc::not_found);
  CHECK(run.store.choose({}).error().message.find("there is no checkpoint in") == 0);
}

TEST_CASE("what the ledger does not know goes: what is whole to set_aside, the rest for good") {
  checkpoint_fixture run;
  run.store = checkpoint_store(run.folder, 3);
  run.add(1);
  run.add(2);
  run.add(3);
  fs::create_directories(run.folder / ".writing-v00000004-77" / "model");
  std::ofstream(run.folder / ".LATEST.abcdef") << "v";
  std::ofstream(run.store.folder_of(3) / "state.json") << "damaged";
  const auto moved = must(run.store.discard_above(1));
  const fs::path aside = run.folder / "set_aside";
  CHECK(moved == std::vector<fs::path>{aside / "v00000002"});
  CHECK(checkpoint_store(aside).verify(2).has_value());
  CHECK(run.store.versions() == std::vector<std::int64_t>{1});
  CHECK(must(run.store.latest()) == 1);
  CHECK(std::distance(fs::directory_iterator(aside), fs::directory_iterator()) == 1);
  // v00000001, LATEST and set_aside.
  CHECK(std::distance(fs::directory_iterator(run.folder), fs::directory_iterator()) == 3);
  CHECK(must(run.store.discard_above(1)).empty());
  // The same version a second time: the first one stays.
  run.add(2);
  CHECK(must(run.store.discard_above(1)) == std::vector<fs::path>{aside / "v00000002-2"});
  CHECK(checkpoint_store(aside).verify(2).has_value());
  must(run.store.discard_above(0));
  CHECK(run.store.versions().empty());
  CHECK(run.store.latest().error().code == base::errc::not_found);
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
