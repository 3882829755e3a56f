#include "skyward/init.h"

#include "skyward/program_end.h"
#include "skyward/program_start.h"
#include "skyward/worker.h"

namespace skyward {

void init(int, char**) {
  note_init();
  watch_program_end();
  run_if_worker();
}

}  // namespace skyward
