#include "storage/schema1.hpp"

namespace quern::storage {

const char* schema1_views() {
  return R"sql(
CREATE TEMP VIEW incarnations AS
  SELECT id, from_version, reason, t_ns, opening FROM main.epochs;
CREATE TEMP VIEW groups AS
  SELECT id, seq, task, exemplars, prompt_hash, template_hash, epoch AS incarnation
  FROM main.groups;
CREATE TEMP VIEW samples AS
  SELECT id, grp, k, state, epoch AS incarnation, v_min, v_max, segments, tokens_hash, source_hash,
    verdict_id, reward, step, drop_reason, t_ns
  FROM main.samples;
CREATE TEMP VIEW events AS
  SELECT seq, sample, old, new, epoch AS incarnation, t_ns FROM main.events;
CREATE TEMP VIEW verdicts AS
  SELECT id, sample, epoch AS incarnation, attempt, task, source_hash, protocol, device_class, env,
    speedup_e2, confirmed, json
  FROM main.verdicts;
CREATE TEMP VIEW variants AS
  SELECT id, task, source_hash, device_class, protocol, verdict_id, speedup_e2, version,
    epoch AS incarnation, parents, sample, text_hash
  FROM main.variants;
CREATE TEMP VIEW checkpoints AS
  SELECT version, epoch AS incarnation, path, hash, t_ns FROM main.checkpoints;
)sql";
}

const char* schema1_renames() {
  return R"sql(
DROP TRIGGER IF EXISTS samples_are_born;
DROP TRIGGER IF EXISTS samples_step;
DROP TRIGGER IF EXISTS epochs_follow;
DROP TRIGGER IF EXISTS epochs_close;
DROP TRIGGER IF EXISTS epochs_stay;
ALTER TABLE epochs RENAME TO incarnations;
ALTER TABLE groups RENAME COLUMN epoch TO incarnation;
ALTER TABLE samples RENAME COLUMN epoch TO incarnation;
ALTER TABLE events RENAME COLUMN epoch TO incarnation;
ALTER TABLE verdicts RENAME COLUMN epoch TO incarnation;
ALTER TABLE variants RENAME COLUMN epoch TO incarnation;
ALTER TABLE checkpoints RENAME COLUMN epoch TO incarnation;
)sql";
}

}  // namespace quern::storage
