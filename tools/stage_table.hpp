// The seconds of an evaluator's stages, one after the other.
#pragma once

#include "env/judge/evaluation_request.hpp"

namespace quern::tools {

/// Calls take(name, seconds) for each stage, with what went by between two readings.
template <class Take>
void each_stage(const env::stage_seconds& before, const env::stage_seconds& after, Take take) {
  take("screen", after.screen - before.screen);
  take("compile", after.compile - before.compile);
  take("start", after.start - before.start);
  take("reference", after.reference - before.reference);
  take("verify", after.verify - before.verify);
  take("probe", after.probe - before.probe);
  take("time", after.time - before.time);
  take("reverify", after.reverify - before.reverify);
}

}  // namespace quern::tools
