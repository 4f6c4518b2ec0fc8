// The simulation's own proof: each seeded bug is found, and without one nothing is.
#include "actors/decide/mutation.hpp"

#include <array>
#include <cstdio>

#include "support/test.hpp"
#include "tools/sim/world.hpp"

namespace {

using quern::actors::active_mutation;
using quern::actors::mutation;
using quern::sim::scenario;
using quern::sim::simulate;

struct seeded {
  mutation bug;
  const char* name;
};

constexpr std::array bugs = {
    seeded{mutation::slot_freed_at_admission, "slot freed at admission"},
    seeded{mutation::second_verdict_accepted, "second verdict accepted"},
    seeded{mutation::session_nonce_ignored, "session nonce ignored"},
    seeded{mutation::retry_not_counted, "retry not counted"},
    seeded{mutation::lease_kept_on_host_death, "lease kept on host death"},
    seeded{mutation::version_stamped_at_end, "version stamped at the end"},
    seeded{mutation::credit_added_not_raised, "credit added, not raised"},
    seeded{mutation::dropped_sample_trained, "dropped sample trained"},
    seeded{mutation::incarnation_not_bumped, "incarnation not bumped"},
    seeded{mutation::old_incarnation_accepted, "old incarnation accepted"},
    seeded{mutation::late_verdict_accepted, "late verdict accepted"},
    seeded{mutation::step_applied_twice, "step applied twice"},
    seeded{mutation::age_not_checked, "age not checked"},
    seeded{mutation::lonely_group_trained, "lonely group trained"},
    seeded{mutation::sick_group_trained, "sick group trained"},
    seeded{mutation::unoffered_announced, "unoffered version announced"},
    seeded{mutation::unoffered_forgotten, "unoffered version forgotten"},
    seeded{mutation::restarted_at_once, "restarted at once"},
    seeded{mutation::quarantine_ignored, "quarantine ignored"},
    seeded{mutation::failure_stays_here, "failure stays with its host"},
    seeded{mutation::claim_stays_capped, "claim stays capped"},
    seeded{mutation::evaluations_share_a_seed, "evaluations share a seed"},
    seeded{mutation::withdrawn_awaited, "withdrawn jobs awaited"},
    seeded{mutation::withdrawn_answer_used, "withdrawn job's answer used"},
    seeded{mutation::withdrawn_slot_kept, "withdrawn job's slot kept"},
    seeded{mutation::doomed_group_kept, "doomed group kept"},
    seeded{mutation::doomed_slot_kept, "doomed group's slot kept"},
};

constexpr std::uint64_t most_schedules = 1000;

TEST_CASE("every seeded bug is found") {
  for (const auto& [bug, name] : bugs) {
    active_mutation = bug;
    std::uint64_t seed = 1;
    std::string found;
    for (; seed <= most_schedules && found.empty(); ++seed) {
      found = simulate(scenario::drawn(seed)).violation;
    }
    active_mutation = mutation::none;
    std::printf("%-28s found in schedule %3d: %s\n", name, static_cast<int>(seed - 1),
                found.c_str());
    CHECK_MESSAGE(!found.empty(), name);
  }
}

TEST_CASE("the same build without a bug holds") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CHECK(simulate(scenario::drawn(seed)).violation == "");
  }
}

}  // namespace
