// Blobs: what goes in comes out, and nothing else ever does.
#include "storage/blobs.hpp"

#include <fstream>

#include <zstd.h>

#include "base/file.hpp"
#include "base/random.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

struct blob_folder {
  base::temp_folder folder = must(base::temp_folder::make("blobs"));
  blob_store blobs{folder.path()};
};

TEST_CASE("blobs of every size come back, by the hash of their content") {
  blob_folder store;
  for (const std::size_t size : {0U, 1U, 100U, 70'000U, 3'000'000U}) {
    std::string bytes(size, 'a');
    for (std::size_t i = 0; i < size; i += 7)
      bytes[i] = static_cast<char>(i);
    const auto hash = must(store.blobs.put(bytes));
    CHECK(hash == base::xxh128(bytes));
    CHECK(must(store.blobs.get(hash)) == bytes);
    CHECK(must(store.blobs.put(bytes)) == hash);
    const std::string hex = base::to_hex(hash);
    CHECK(store.blobs.path_of(hash) == store.folder.path() / hex.substr(0, 2) / (hex + ".zst"));
  }
  CHECK(store.blobs.get({1, 2}).error().code == base::errc::not_found);
  CHECK_FALSE(store.blobs.readable({1, 2}));
}

TEST_CASE("a damaged blob is never taken for its content, and is made again by the next put") {
  blob_folder store;
  std::string bytes;
  for (int i = 0; i < 500; ++i)
    bytes += std::to_string(i * 7919);
  const auto hash = must(store.blobs.put(bytes));
  const auto path = store.blobs.path_of(hash);
  const std::string good = must(base::read_file(path));
  base::random_stream random(1, "damage");
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    if (i % 2 == 0) {
      bad.resize(random.below(bad.size()));
    } else {
      bad[random.below(bad.size())] ^= static_cast<char>(1 + random.below(255));
    }
    std::ofstream(path, std::ios::binary) << bad;
    const auto got = store.blobs.get(hash);
    // A flipped bit that zstd ignores would still give the right content.
    if (got) CHECK(*got == bytes);
    if (!got) CHECK(got.error().code == base::errc::corrupt);
  }
  must(base::write_file_atomic(path, good.substr(0, 10)));
  CHECK_FALSE(store.blobs.readable(hash));
  CHECK(must(store.blobs.put(bytes)) == hash);
  CHECK(must(store.blobs.get(hash)) == bytes);
}

TEST_CASE("a small file that claims to be huge is refused before anything is allocated") {
  blob_folder store;
  const std::string zeros(max_blob_bytes + 1, '\0');
  CHECK(store.blobs.put(zeros).error().code == base::errc::exhausted);
  std::string packed(ZSTD_compressBound(zeros.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), zeros.data(), zeros.size(), 1));
  const base::hash128 hash = base::xxh128(zeros);
  must(base::make_folders(store.blobs.path_of(hash).parent_path()));
  must(base::write_file_atomic(store.blobs.path_of(hash), packed));
  CHECK(store.blobs.get(hash).error().message.find("larger than any blob") != std::string::npos);
}

}  // namespace
}  // namespace quern::test
