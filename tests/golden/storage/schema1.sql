user_version 1
application_id 0x5175726e

CREATE INDEX events_born ON events(seq) WHERE old IS NULL;

CREATE UNIQUE INDEX samples_grp ON samples(grp, k);

CREATE INDEX samples_state ON samples(state, step);

CREATE INDEX variants_best ON variants(task, device_class, protocol, speedup_e2 DESC, sample);

CREATE TABLE checkpoints(
  version INTEGER NOT NULL CHECK (version >= 0),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  path TEXT NOT NULL,
  hash TEXT NOT NULL,
  t_ns INTEGER NOT NULL,
  PRIMARY KEY (version, epoch)
) STRICT;

CREATE TABLE epochs(
  id INTEGER PRIMARY KEY,
  from_version INTEGER NOT NULL CHECK (from_version >= 0),
  reason TEXT NOT NULL CHECK (reason <> ''),
  t_ns INTEGER NOT NULL,
  opening INTEGER REFERENCES never(id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE TABLE events(
  seq INTEGER PRIMARY KEY,
  sample INTEGER NOT NULL,
  old TEXT,
  new TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  t_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE groups(
  id INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL UNIQUE CHECK (seq >= 0),
  task TEXT NOT NULL,
  exemplars TEXT NOT NULL,
  prompt_hash TEXT NOT NULL,
  template_hash TEXT NOT NULL,
  epoch INTEGER NOT NULL REFERENCES epochs(id)
) STRICT;

CREATE TABLE never(id INTEGER PRIMARY KEY CHECK (0)) STRICT;

CREATE TABLE pairs(old TEXT NOT NULL, new TEXT NOT NULL, kind TEXT NOT NULL,
  PRIMARY KEY (old, new)) STRICT, WITHOUT ROWID;

CREATE TABLE samples(
  id INTEGER PRIMARY KEY,
  grp INTEGER NOT NULL REFERENCES groups(id),
  k INTEGER NOT NULL CHECK (k >= 0),
  state TEXT NOT NULL,
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  v_min INTEGER,
  v_max INTEGER,
  segments TEXT,
  tokens_hash TEXT,
  source_hash TEXT,
  verdict_id INTEGER REFERENCES verdicts(id),
  reward REAL,
  step INTEGER,
  drop_reason TEXT,
  t_ns INTEGER NOT NULL,
  CHECK (v_min <= v_max),
  CONSTRAINT issued_has_no_result CHECK (state <> 'issued' OR
    coalesce(v_min, v_max, segments, tokens_hash, source_hash, verdict_id, reward, step) IS NULL),
  CONSTRAINT generated_has_tokens CHECK (state = 'issued' OR state = 'dropped' OR
    (v_min IS NOT NULL AND v_max IS NOT NULL AND segments IS NOT NULL AND tokens_hash IS NOT NULL)),
  CONSTRAINT evaluated_has_a_verdict CHECK (verdict_id IS NOT NULL OR
    state = 'issued' OR state = 'generated' OR state = 'dropped'),
  CONSTRAINT admitted_has_a_reward CHECK (reward IS NOT NULL OR
    NOT (state = 'admitted' OR state = 'consumed' OR state = 'trained')),
  CONSTRAINT consumed_has_a_step
    CHECK ((state = 'consumed' OR state = 'trained') = (step IS NOT NULL)),
  CONSTRAINT dropped_has_a_reason CHECK ((state = 'dropped') = (coalesce(drop_reason, '') <> '')),
  CONSTRAINT age_is_not_negative CHECK (step IS NULL OR v_max < step)
) STRICT;

CREATE TABLE variants(
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  device_class TEXT NOT NULL,
  protocol TEXT NOT NULL,
  verdict_id INTEGER REFERENCES verdicts(id),
  speedup_e2 INTEGER CHECK (speedup_e2 >= 0),
  version INTEGER NOT NULL CHECK (version >= 0),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  parents TEXT NOT NULL,
  sample INTEGER NOT NULL,
  text_hash TEXT NOT NULL,
  UNIQUE (task, source_hash, device_class, protocol)
) STRICT;

CREATE TABLE verdicts(
  id INTEGER PRIMARY KEY,
  sample INTEGER NOT NULL REFERENCES samples(id),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  task TEXT NOT NULL,
  source_hash TEXT,
  protocol TEXT NOT NULL,
  device_class TEXT NOT NULL,
  env TEXT NOT NULL,
  speedup_e2 INTEGER,
  confirmed INTEGER NOT NULL CHECK (confirmed IN (0, 1)),
  json TEXT NOT NULL,
  UNIQUE (sample, epoch, attempt)
) STRICT;

CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are never deleted'); END;

CREATE TRIGGER epochs_close BEFORE UPDATE ON epochs
WHEN NEW.opening IS NOT NULL OR NEW.id <> OLD.id OR NEW.from_version <> OLD.from_version
BEGIN SELECT RAISE(ABORT, 'an epoch can only be closed'); END;

CREATE TRIGGER epochs_follow BEFORE INSERT ON epochs
WHEN NEW.id <> (SELECT coalesce(max(id), 0) + 1 FROM epochs)
BEGIN SELECT RAISE(ABORT, 'epochs follow each other'); END;

CREATE TRIGGER epochs_stay BEFORE DELETE ON epochs
BEGIN SELECT RAISE(ABORT, 'epochs are never deleted'); END;

CREATE TRIGGER events_keep BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;

CREATE TRIGGER groups_keep BEFORE UPDATE ON groups
BEGIN SELECT RAISE(ABORT, 'groups are never changed'); END;

CREATE TRIGGER groups_stay BEFORE DELETE ON groups
BEGIN SELECT RAISE(ABORT, 'groups are never deleted'); END;

CREATE TRIGGER samples_are_born AFTER INSERT ON samples
BEGIN
  INSERT INTO events(sample, old, new, epoch, t_ns)
    VALUES (NEW.id, NULL, NEW.state, (SELECT max(id) FROM epochs), NEW.t_ns);
END;

CREATE TRIGGER samples_are_born_so BEFORE INSERT ON samples
WHEN NEW.state <> 'issued'
BEGIN SELECT RAISE(ABORT, 'a sample is born issued'); END;

CREATE TRIGGER samples_keep_identity BEFORE UPDATE OF id, grp, k ON samples
BEGIN SELECT RAISE(ABORT, 'a sample keeps its id, group and place'); END;

CREATE TRIGGER samples_stay BEFORE DELETE ON samples
BEGIN SELECT RAISE(ABORT, 'samples are never deleted'); END;

CREATE TRIGGER samples_step AFTER UPDATE OF state ON samples
BEGIN
  SELECT RAISE(ABORT, 'this pair of states is not legal now') WHERE NOT EXISTS
    (SELECT 1 FROM pairs WHERE old = OLD.state AND new = NEW.state AND (kind = 'forward' OR
      (SELECT opening FROM epochs ORDER BY id DESC LIMIT 1) IS NOT NULL));
  SELECT RAISE(ABORT, 'trained without a checkpoint that holds the step')
    WHERE NEW.state = 'trained' AND NOT EXISTS (SELECT 1 FROM checkpoints
      WHERE version >= NEW.step AND epoch = (SELECT max(id) FROM epochs));
  INSERT INTO events(sample, old, new, epoch, t_ns)
    VALUES (NEW.id, OLD.state, NEW.state, (SELECT max(id) FROM epochs), NEW.t_ns);
END;

CREATE TRIGGER verdicts_keep BEFORE UPDATE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never changed'); END;

CREATE TRIGGER verdicts_stay BEFORE DELETE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never deleted'); END;

admitted > consumed: forward
admitted > dropped: forward
admitted > issued: backward
consumed > admitted: backward
consumed > issued: backward
consumed > trained: forward
evaluated > admitted: forward
evaluated > dropped: forward
evaluated > issued: backward
generated > dropped: forward
generated > evaluated: forward
generated > issued: backward
issued > dropped: forward
issued > generated: forward
trained > admitted: backward
trained > issued: backward
