#include "skyward/init.h"

#include "skyward/pool/program_end.h"
#include "skyward/pool/program_start.h"
#include "skyward/worker/mpi_rank.h"
#include "skyward/worker/worker.h"

namespace skyward {

void init(int, char**) {
  note_init();
  watch_program_end();
  run_if_rank();
  run_if_worker();
}

}  // namespace skyward
