// The roles of quern-torch: processes of a run, and the commands that load a policy.
#pragma once

namespace quern::tools {

/// `argv[0]` is the role's name. Each returns an exit code.
int role_generator(int argc, char** argv);
int role_learner(int argc, char** argv);
int role_sft(int argc, char** argv);
int role_sample(int argc, char** argv);
int role_export(int argc, char** argv);

}  // namespace quern::tools
