// Seeded bugs: each one is a mistake that a maintainer could make here. They exist only in the
// build with which the simulation shows that it would find them (QUERN_MUTATIONS); everywhere else
// `mutated()` is a constant false and the compiler removes the branch.
#pragma once

namespace quern::actors {

enum class mutation {
  none,
  slot_freed_at_admission,   ///< the window frees a group's slot before an optimiser step used it
  second_verdict_accepted,   ///< a doubled verdict of a closed lease counts again
  session_nonce_ignored,     ///< a restarted host inherits the session of its former life
  retry_not_counted,         ///< what could not be measured is measured again for ever
  lease_kept_on_host_death,  ///< the jobs of a dead host are not queued again
  version_stamped_at_end,    ///< a sample's age is judged by its last token
  credit_added_not_raised,   ///< a doubled CREDIT counts twice
  dropped_sample_trained,    ///< a batch takes members that were dropped
  incarnation_not_bumped,    ///< recovery goes on in the old incarnation
  old_incarnation_accepted,  ///< messages of an earlier incarnation are taken for this one's
  late_verdict_accepted,     ///< a verdict is taken although its lease has expired
  step_applied_twice,        ///< a doubled "stepped" consumes a batch again
  age_not_checked,           ///< a batch is formed without looking at ages
  lonely_group_trained,      ///< a group trains with a single member
  sick_group_trained,        ///< a group trains though most of it was lost to infrastructure
  unoffered_announced,       ///< generators are told of weights that nobody offers them
  unoffered_forgotten,       ///< a version that was not offered is never asked for again
  restarted_at_once,         ///< a process that died is started again without a pause
  quarantine_ignored,        ///< a device that takes no work is sent jobs
  failure_stays_here,        ///< what a host failed at goes back to it though another one works
  claim_stays_capped,        ///< a large claim counts without a second measurement
  evaluations_share_a_seed,  ///< what one evaluation draws, every other one draws, too
  withdrawn_awaited,         ///< a drain waits for verdicts of jobs that were given back
  withdrawn_answer_used,     ///< a host's answer to a job that was cancelled counts
  withdrawn_slot_kept,       ///< a cancelled job keeps its place among the known ones
  doomed_group_kept,         ///< a group that can never train keeps its samples
  doomed_slot_kept           ///< and its slot in the window
};

#ifdef QUERN_MUTATIONS
/// The bug that this thread runs with; the simulation sets it.
inline thread_local mutation active_mutation = mutation::none;
inline bool mutated(mutation which) {
  return active_mutation == which;
}
#else
constexpr bool mutated(mutation) {
  return false;
}
#endif

}  // namespace quern::actors
