#pragma once

// What every program that opens pools does first.

// Where find_package(skyward) found the agent.
#ifndef SKYWARD_PACKAGE_AGENT
#define SKYWARD_PACKAGE_AGENT ""
#endif

namespace skyward {

// The first line of main():
//
//   int main(int argc, char** argv) {
//     sky::init(argc, argv);
//
// A pool's workers are processes of the program's own executable. In such a process this runs tasks
// until the pool closes, and never returns; a rank of MPI (worker/mpi.h) runs its function. In any
// other process it makes sure that pools which are open when the program ends are closed
// (pool/program_end.h). `agent`: where to look for skyward-agent when it is not beside the program
// (pool/executable.h).
void init(int argc, char** argv, const char* agent = SKYWARD_PACKAGE_AGENT);

}  // namespace skyward
