// What an actor of control does with an exception: CAF would end the actor, and the run would wait
// for it for ever.
#pragma once

#include <string>
#include <utility>

#include "actors/caf.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"

namespace quern::actors {

/// The first thing that an actor's function does. What leaves a handler of `self`, or the rest of
/// that function, is passed to `tell` as text, which reports that the run cannot go on; then the
/// actor ends. `tell` runs on the actor's thread, with its state still there. It may not throw: an
/// exception that cannot even be reported ends the process (std::terminate, which says so). It must
/// hold no handle of `self`, which could then never be destroyed.
template <class Self, class Tell>
void end_on_exception(Self* self, const char* who, Tell tell) {
  self->set_exception_handler(
      [who, tell = std::move(tell)](std::exception_ptr& thrown) noexcept -> caf::error {
        const std::string what = base::exception_text(thrown);
        base::log_error(who, "cannot go on: {}", what);
        tell(what);
        return caf::make_error(caf::sec::runtime_error);
      });
}

}  // namespace quern::actors
