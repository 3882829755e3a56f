#include "skyward/init.h"

#include <iostream>

#include "skyward/pool/executable.h"
#include "skyward/pool/program_end.h"
#include "skyward/pool/program_start.h"
#include "skyward/worker/mpi_rank.h"
#include "skyward/worker/user_code.h"
#include "skyward/worker/worker.h"

namespace skyward {

void init(int, char**, const char* agent) {
  note_init();
  note_agent(agent);
  watch_program_end();
  set_stream_flush([] {
    std::cout.flush();
    std::cerr.flush();
  });
  run_if_rank();
  run_if_worker();
}

}  // namespace skyward
