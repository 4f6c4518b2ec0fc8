// Every message between actors, as plain values: the classes that decide take and return them
// without seeing CAF. Typed interfaces: protocol.hpp. Who sends what to whom: README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/decide/ids.hpp"
#include "actors/decide/token_segments.hpp"
#include "actors/generation_messages.hpp"
#include "actors/wire.hpp"
#include "base/hash.hpp"

namespace quern::actors {

/// Samples outside the ledger have numbers of their own: kernels that are timed to be shown in
/// prompts, and the evaluation set's.
inline constexpr sample_id first_seed_variant = sample_id{1} << 60;
inline constexpr sample_id first_evaluation_set = sample_id{1} << 61;

// ---- joining -------------------------------------------------------------------------------

/// A process to control, first thing. Refused unless it knows the run's secret, and build and
/// configuration are control's own.
struct hello {
  std::string role;  ///< "generator" or "learner"
  std::string build;
  base::hash128 config;
  std::int32_t start = 0;  ///< which start of a process by the supervisor it is
  std::int32_t rank = 0;   ///< of a learner
  std::string secret;
  /// Of rank 0 in a run on several hosts: the directory of its rendezvous (policy/collectives).
  std::string rendezvous;
};
QUERN_MESSAGE(hello, role, build, config, start, rank, secret, rendezvous)

/// What it works on. `checkpoint`: folder of the weights that the incarnation begins with.
struct welcome {
  incarnation_id incarnation = 0;
  weights_version version = 0;
  std::string checkpoint;
  std::string optimizer;  ///< file or folder of the optimiser's state; empty: fresh
  std::string reference;  ///< folder of the run's first weights, for presets with a KL term
  std::string config_yaml;
  std::string weights_folder;  ///< where weights are exchanged on this host
  std::string rendezvous;      ///< where the learner's ranks of this incarnation meet
  std::string weights_link;    ///< of a generator: where its link is; empty: weights are in files
};
QUERN_MESSAGE(welcome, incarnation, version, checkpoint, optimizer, reference, config_yaml,
              weights_folder, rendezvous, weights_link)

// ---- weights -------------------------------------------------------------------------------

/// To rank 0 of the learner: a generator of this incarnation waits for weights at `address`.
struct open_weight_link {
  incarnation_id incarnation = 0;
  std::string address;
};
QUERN_MESSAGE(open_weight_link, incarnation, address)

/// New weights lie ready, or come over the generator's link: first half of the installation. A
/// version is announced once. Rank 0 says the same to control, of a version that it offers after
/// its step.
struct weights_ready {
  incarnation_id incarnation = 0;
  weights_version version = 0;
  base::hash128 hash;
  /// In the weights folder, good until the next but one is announced. Empty: they come over links.
  std::string file;
};
QUERN_MESSAGE(weights_ready, incarnation, version, hash, file)

/// To rank 0, once each look_interval: its newest version is not offered to generators yet. No
/// answer: it still cannot be.
struct offer_weights {
  incarnation_id incarnation = 0;
};
QUERN_MESSAGE(offer_weights, incarnation)

/// A generator samples with them from the next token on: second half.
struct weights_installed {
  incarnation_id incarnation = 0;
  weights_version version = 0;
  base::hash128 hash;
};
QUERN_MESSAGE(weights_installed, incarnation, version, hash)

// ---- learning ------------------------------------------------------------------------------

/// One sample of a batch, with everything that the loss needs; tokens and what belongs to them as
/// in generated_sample.
struct training_sample {
  sample_id sample = 0;
  group_id group = 0;
  std::string tokens;
  std::vector<token_segment> segments;  ///< not trained: also what is too old for this step
  std::string log_probs;
  std::vector<wire_segment> versions;
  float_bits reward = 0.0;
};
QUERN_MESSAGE(training_sample, sample, group, tokens, segments, log_probs, versions, reward)

/// The batch of the step from version `from` to `from + 1`.
struct train_batch {
  incarnation_id incarnation = 0;
  weights_version from = 0;
  std::vector<training_sample> samples;
  std::int64_t number = 0;  ///< among the batches of the incarnation
};
QUERN_MESSAGE(train_batch, incarnation, from, samples, number)

/// Rank 0: all ranks of the learner have loaded what they were welcomed with, and wait for a batch.
struct learner_ready {
  incarnation_id incarnation = 0;
  weights_version version = 0;
  base::hash128 hash;
};
QUERN_MESSAGE(learner_ready, incarnation, version, hash)

/// Rank 0: the step is done; weights are in memory, and published where `offered`.
struct step_done {
  incarnation_id incarnation = 0;
  weights_ready weights;
  std::string metrics;              ///< JSON object
  std::int64_t device_wait_ns = 0;  ///< for its turn on a GPU that it shares, since its hello
  std::int64_t batch = 0;           ///< number of the batch
  /// The gradient was not finite: no step was made. `weights` says which stand, and has no file.
  bool left_out = false;
  /// Generators can have the new weights. Not where links send both copies: control announces none
  /// that were not offered.
  bool offered = true;
};
QUERN_MESSAGE(step_done, incarnation, weights, metrics, device_wait_ns, batch, left_out, offered)

/// To every rank: write its part of model/ and optimizer/ of the current version into `folder`,
/// while steps go on.
struct save_checkpoint {
  weights_version version = 0;
  std::string folder;
  incarnation_id incarnation = 0;
};
QUERN_MESSAGE(save_checkpoint, version, folder, incarnation)

/// Rank 0, when the parts of all ranks are durable.
struct checkpoint_saved {
  weights_version version = 0;
  std::string folder;
  std::string problem;             ///< empty: all is well
  incarnation_id incarnation = 0;  ///< of the order
};
QUERN_MESSAGE(checkpoint_saved, version, folder, problem, incarnation)

// ---- evaluation (inside control) -----------------------------------------------------------

/// A candidate for the evaluators. Attempts are numbered by the dispatcher.
struct evaluate_sample {
  incarnation_id incarnation = 0;
  sample_id sample = 0;
  std::string task;  ///< id
  std::string source;
  std::int32_t attempt = 0;
  std::int64_t best_known_e2 = 0;
  std::int64_t turn = 0;  ///< lower ones are evaluated first: the group that waits for it
};
QUERN_MESSAGE(evaluate_sample, incarnation, sample, task, source, attempt, best_known_e2, turn)

/// A verdict under a living lease. `lease` is committed by the orchestrator actor when it is
/// durable.
struct sample_verdict {
  incarnation_id incarnation = 0;
  sample_id sample = 0;
  std::uint64_t lease = 0;  ///< 0: made in control (malformed), nothing to acknowledge
  std::int32_t attempt = 0;
  bool counts = true;      ///< it judges the candidate
  bool exhausted = false;  ///< it does not, and there will be no further attempt
  std::string json;        ///< the verdict
};
QUERN_MESSAGE(sample_verdict, incarnation, sample, lease, attempt, counts, exhausted, json)

struct verdict_committed {
  std::uint64_t lease = 0;
};
QUERN_MESSAGE(verdict_committed, lease)

/// A new incarnation has begun: evaluations of an older one are of no use any more.
struct incarnation_began {
  incarnation_id incarnation = 0;
};
QUERN_MESSAGE(incarnation_began, incarnation)

/// The run drains, and no host holds these: they have no verdict and get none in this life of the
/// run.
struct jobs_withdrawn {
  incarnation_id incarnation = 0;
  std::vector<sample_id> samples;
};
QUERN_MESSAGE(jobs_withdrawn, incarnation, samples)

// ---- inside an actor ------------------------------------------------------------------------

/// An actor to itself: the next piece of work, after the messages that are already there.
struct tick {
  std::int32_t purpose = 0;
};
QUERN_MESSAGE(tick, purpose)

/// A generator to itself: weights have come over its link, or that is over.
struct weights_arrived {
  std::string problem;  ///< why it is over; empty: weights have come
};
QUERN_MESSAGE(weights_arrived, problem)

// ---- from the gateway's thread to the dispatch actor --------------------------------------------

struct wire_device {
  std::int64_t id = 0;
  std::string device_class;
  std::int64_t slots = 1;
  std::vector<std::string> lanes = {};  ///< of the host's; empty: all
};
QUERN_MESSAGE(wire_device, id, device_class, slots, lanes)

/// An evaluator host was welcomed.
struct host_joined {
  std::uint64_t session = 0;
  std::string build;
  std::vector<std::string> lanes;
  std::vector<wire_device> devices;
  std::int32_t pid = 0;    ///< 0: unknown
  std::string name = {};   ///< for people; may be empty
  std::int32_t start = 0;  ///< which start of a process by the supervisor it is; 0: of none
};
QUERN_MESSAGE(host_joined, session, build, lanes, devices, pid, name, start)

/// A device of a host that takes no work.
struct wire_quarantine {
  std::int64_t device = 0;
  std::string reason;
  std::int64_t for_ms = 0;
};
QUERN_MESSAGE(wire_quarantine, device, reason, for_ms)

/// All of a host's devices that take no work from now on.
struct host_devices {
  std::uint64_t session = 0;
  std::vector<wire_quarantine> quarantined;
};
QUERN_MESSAGE(host_devices, session, quarantined)

/// A device has asked for `granted` jobs in all.
struct host_credit {
  std::uint64_t session = 0;
  std::int64_t device = 0;
  std::int64_t granted = 0;
};
QUERN_MESSAGE(host_credit, session, device, granted)

/// A verdict (JSON), or why there is none.
struct host_answer {
  std::uint64_t session = 0;
  std::uint64_t lease = 0;
  bool failed = false;
  std::string text;
  bool returned = false;  ///< with `failed`: not begun, another device should
};
QUERN_MESSAGE(host_answer, session, lease, failed, text, returned)

/// A host takes nothing more (`draining`) or is gone.
struct host_leaves {
  std::uint64_t session = 0;
  bool draining = false;
  std::string why;
  bool gives_back = false;  ///< it said goodbye: what it held counts as not begun
};
QUERN_MESSAGE(host_leaves, session, draining, why, gives_back)

// ---- running -------------------------------------------------------------------------------

/// How a run is asked to end.
enum class ending : std::uint8_t { pause, stop };

/// Issue nothing more, let the evaluations that run come in, take a checkpoint, say `drained`. The
/// dispatcher sends hosts nothing more and gives back what waits for one. Processes that work to an
/// end of their own are asked to pause.
struct drain {
  std::uint8_t ending_kind = 0;  ///< ending
  bool at_once = false;          ///< of those: kill who has not paused
};
QUERN_MESSAGE(drain, ending_kind, at_once)

/// The run came to its end in order: all steps done, paused or stopped.
struct drained {
  std::uint8_t ending_kind = 0;  ///< ending
  bool finished = false;         ///< all steps were done, and nobody had asked for an end
};
QUERN_MESSAGE(drained, ending_kind, finished)

/// Something that no retry mends; the run ends with exit code 1 and can be resumed.
struct fatal_problem {
  std::string where;
  std::string message;
};
QUERN_MESSAGE(fatal_problem, where, message)

/// A process of ours ended.
struct process_ended {
  std::string role;
  std::string exit_text;
  std::int32_t start = 0;
};
QUERN_MESSAGE(process_ended, role, exit_text, start)

/// Whether a process answers: told to the supervisor by who talks to it. One that does not, though
/// it lives, is frozen and is killed after a grace. `start` is the number that it was started with;
/// its process number may be one of another host.
struct process_contact {
  std::int32_t start = 0;
  bool lost = false;
  bool evaluator = false;  ///< so it says itself: of another role it is not believed
};
QUERN_MESSAGE(process_contact, start, lost, evaluator)

/// The dispatch actor to the supervisor, when it changes: evaluator hosts that take work, whoever
/// started them.
struct evaluators_present {
  std::int64_t count = 0;
  /// Not empty: hosts are there, and none takes work since all devices are in quarantine: each
  /// device with its reason.
  std::string shortage;
};
QUERN_MESSAGE(evaluators_present, count, shortage)

/// The orchestrator actor to the supervisor, when it changes: whether verdicts are still to come
/// that a step may use.
struct evaluators_needed {
  bool needed = true;
};
QUERN_MESSAGE(evaluators_needed, needed)

/// The supervisor to itself: if this process still does not answer, kill it. Of one that has never
/// answered it asks the orchestrator actor first, which sends the check back, `heard`, behind
/// whatever it had not looked at: a hello may have waited there as long as run.db was held by
/// others.
struct process_check {
  std::string role;
  std::int32_t start = 0;
  bool heard = false;
};
QUERN_MESSAGE(process_check, role, start, heard)

}  // namespace quern::actors
