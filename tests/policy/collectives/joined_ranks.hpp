// Ranks that have met over a real socket, as threads of this process.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "policy/collectives/rendezvous.hpp"

namespace quern::test {

struct joined_ranks {
  base::temp_folder folder = base::temp_folder::make().value();
  std::vector<std::shared_ptr<policy::rendezvous>> ranks;

  explicit joined_ranks(std::int32_t count,
                        policy::watch_limits patience = {60'000'000'000, 5'000'000'000,
                                                         2'000'000'000})
      : ranks(static_cast<std::size_t>(count)) {
    std::vector<std::jthread> joining;
    for (std::int32_t i = 0; i < count; ++i)
      joining.emplace_back([&, i] {
        auto joined = policy::rendezvous::join(
            {"unix:" + (folder.path() / "m").string(), i, count, patience});
        if (joined) ranks[static_cast<std::size_t>(i)] = std::move(*joined);
      });
  }
};

}  // namespace quern::test
