// Every typed interface between actors, and the registration of every message. Trusted processes of
// one build speak this; evaluator hosts speak the ZeroMQ protocol of env/plugin.
#pragma once

#include "actors/caf.hpp"
#include "actors/messages.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(quern, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(quern, (quern::actors::hello))
CAF_ADD_TYPE_ID(quern, (quern::actors::welcome))
CAF_ADD_TYPE_ID(quern, (quern::actors::open_weight_link))
CAF_ADD_TYPE_ID(quern, (quern::actors::weights_ready))
CAF_ADD_TYPE_ID(quern, (quern::actors::offer_weights))
CAF_ADD_TYPE_ID(quern, (quern::actors::weights_installed))
CAF_ADD_TYPE_ID(quern, (quern::actors::generation_credit))
CAF_ADD_TYPE_ID(quern, (quern::actors::generate_group))
CAF_ADD_TYPE_ID(quern, (quern::actors::token_segment))
CAF_ADD_TYPE_ID(quern, (quern::actors::wire_segment))
CAF_ADD_TYPE_ID(quern, (quern::actors::generated_sample))
CAF_ADD_TYPE_ID(quern, (quern::actors::cancel_generation))
CAF_ADD_TYPE_ID(quern, (quern::actors::training_sample))
CAF_ADD_TYPE_ID(quern, (quern::actors::train_batch))
CAF_ADD_TYPE_ID(quern, (quern::actors::learner_ready))
CAF_ADD_TYPE_ID(quern, (quern::actors::step_done))
CAF_ADD_TYPE_ID(quern, (quern::actors::save_checkpoint))
CAF_ADD_TYPE_ID(quern, (quern::actors::checkpoint_saved))
CAF_ADD_TYPE_ID(quern, (quern::actors::evaluate_sample))
CAF_ADD_TYPE_ID(quern, (quern::actors::sample_verdict))
CAF_ADD_TYPE_ID(quern, (quern::actors::verdict_committed))
CAF_ADD_TYPE_ID(quern, (quern::actors::incarnation_began))
CAF_ADD_TYPE_ID(quern, (quern::actors::jobs_withdrawn))
CAF_ADD_TYPE_ID(quern, (quern::actors::tick))
CAF_ADD_TYPE_ID(quern, (quern::actors::weights_arrived))
CAF_ADD_TYPE_ID(quern, (quern::actors::wire_device))
CAF_ADD_TYPE_ID(quern, (quern::actors::host_joined))
CAF_ADD_TYPE_ID(quern, (quern::actors::wire_quarantine))
CAF_ADD_TYPE_ID(quern, (quern::actors::host_devices))
CAF_ADD_TYPE_ID(quern, (quern::actors::host_credit))
CAF_ADD_TYPE_ID(quern, (quern::actors::host_answer))
CAF_ADD_TYPE_ID(quern, (quern::actors::host_leaves))
CAF_ADD_TYPE_ID(quern, (quern::actors::drain))
CAF_ADD_TYPE_ID(quern, (quern::actors::drained))
CAF_ADD_TYPE_ID(quern, (quern::actors::fatal_problem))
CAF_ADD_TYPE_ID(quern, (quern::actors::process_ended))
CAF_ADD_TYPE_ID(quern, (quern::actors::process_contact))
CAF_ADD_TYPE_ID(quern, (quern::actors::process_check))
CAF_ADD_TYPE_ID(quern, (quern::actors::evaluators_present))
CAF_ADD_TYPE_ID(quern, (quern::actors::evaluators_needed))
CAF_END_TYPE_ID_BLOCK(quern)

namespace quern::actors {

/// Samples completions. One a process; its device is its own.
using generator_ref =
    caf::typed_actor<caf::reacts_to<generate_group>, caf::reacts_to<weights_ready>,
                     caf::reacts_to<cancel_generation>, caf::reacts_to<weights_arrived>,
                     caf::reacts_to<tick>>;

/// Takes gradient steps. One a rank; rank 0 speaks for all, and sends weights over links.
using learner_ref =
    caf::typed_actor<caf::reacts_to<train_batch>, caf::reacts_to<save_checkpoint>,
                     caf::reacts_to<open_weight_link>, caf::reacts_to<offer_weights>>;

/// Sends candidates to evaluator hosts and verdicts to the orchestrator actor. The host messages
/// come from the gateway's thread.
using dispatch_ref =
    caf::typed_actor<caf::reacts_to<evaluate_sample>, caf::reacts_to<verdict_committed>,
                     caf::reacts_to<incarnation_began>, caf::reacts_to<drain>,
                     caf::reacts_to<host_joined>, caf::reacts_to<host_credit>,
                     caf::reacts_to<host_answer>, caf::reacts_to<host_leaves>,
                     caf::reacts_to<host_devices>, caf::reacts_to<tick>>;

/// Starts, watches and ends processes, and with them the run.
using supervisor_ref =
    caf::typed_actor<caf::reacts_to<process_ended>, caf::reacts_to<process_contact>,
                     caf::reacts_to<process_check>, caf::reacts_to<evaluators_present>,
                     caf::reacts_to<evaluators_needed>, caf::reacts_to<drain>,
                     caf::reacts_to<drained>, caf::reacts_to<fatal_problem>, caf::reacts_to<tick>>;

/// Remembers everything and decides what happens next; the only writer of the ledger. Processes
/// introduce themselves here.
using orchestrator_ref =
    caf::typed_actor<caf::replies_to<hello, generator_ref>::with<welcome>,
                     caf::replies_to<hello, learner_ref>::with<welcome>,
                     caf::reacts_to<generation_credit>, caf::reacts_to<weights_installed>,
                     caf::reacts_to<generated_sample>, caf::reacts_to<sample_verdict>,
                     caf::reacts_to<jobs_withdrawn>, caf::reacts_to<learner_ready>,
                     caf::reacts_to<step_done>, caf::reacts_to<weights_ready>,
                     caf::reacts_to<checkpoint_saved>, caf::reacts_to<process_check>,
                     caf::reacts_to<drain>, caf::reacts_to<fatal_problem>, caf::reacts_to<tick>>;

}  // namespace quern::actors

CAF_BEGIN_TYPE_ID_BLOCK(quern_refs, caf::id_block::quern::end)
CAF_ADD_TYPE_ID(quern_refs, (quern::actors::generator_ref))
CAF_ADD_TYPE_ID(quern_refs, (quern::actors::learner_ref))
CAF_END_TYPE_ID_BLOCK(quern_refs)
