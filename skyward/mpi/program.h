#pragma once

// `skyward-agent meet` and `skyward-agent mpi`, as a worker of any language runs them: one order on
// standard input, one answer on the descriptor $SKYWARD_READY or, without it, on standard output.
// An order is a line of JSON; that of a world is followed by the bytes of the call. An answer is a
// line of JSON, and the bytes of the results follow. Both say how many bytes follow.

namespace skyward::mpi {

// {"place", "call", "timeout", "brought", "port_timeout"?} → {"all"} or {"error"}
int run_meeting();

// {"place", "name", "timeout", "ranks_per_node", "implementation", "secret", "rank", "streams",
// "bytes"} → {"raised", "sizes"} or {"error"}; {"find"} → {"kind", "version"} or {"error"}
int run_world();

}  // namespace skyward::mpi
