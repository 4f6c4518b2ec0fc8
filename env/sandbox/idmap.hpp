// Which numbers a user namespace knows its users by. A process that is not root may map only
// itself, unless the system gave its user a range of subordinate numbers (/etc/subuid, newuidmap):
// one of those is then the foreign uid.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace quern::env {

/// A subordinate uid and gid that belong to nobody else, and the programs that may map them.
struct subordinate_ids {
  uid_t first_uid = 0, uid_count = 0;
  gid_t first_gid = 0, gid_count = 0;
  std::string newuidmap, newgidmap;
};

/// None for root, which needs none; otherwise the first ranges of this user, or none with `why`.
const std::optional<subordinate_ids>& find_subordinate_ids();
const std::string& why_no_subordinate_ids();

/// Writes the maps of the new user namespace of process `pid`: this process's own user and group
/// under their own numbers and, with `foreign`, the number `inside` as a user that owns nothing
/// outside: itself for root, a subordinate number otherwise. False with errno.
bool write_id_maps(pid_t pid, bool foreign, uid_t inside);

}  // namespace quern::env
