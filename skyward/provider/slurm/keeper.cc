#include "skyward/provider/slurm/keeper.h"

#include <fmt/format.h>

#include "skyward/spec/image.h"

namespace skyward::provider::slurm {

namespace {

// $d, $limit (minutes) and $look (seconds) are set before it. Daemons escape from sites that follow
// parents instead of groups of processes, so what the keeper has started is found by its marks, and
// signalled here. Pipes are opened on both ends before a line runs, so that whoever calls hears all
// of it. A line has the job's variables, but not those of the step: MPI and Lightning would take
// each task for a process that srun had started for them. SLURM_JOBID, of old, makes mpirun look
// for the others.
constexpr const char* kKeeper = R"sh(
of_step='STEP|PROCID|LOCALID|NODEID|GTIDS|NTASKS|NPROCS|TASK|NNODES|NODELIST'
of_step="$of_step|CPU_BIND|MPI_TYPE|EXPORT_ENV|JOBID"
unset $(env | sed -nE "s/^((PMI|SLURM_($of_step))[A-Za-z0-9_]*)=.*/\\1/p")
[ ! -O "$d" ] || rm -rf "$d"
mkdir -m 700 "$d" && mkfifo -m 600 "$d/calls" && true >"$d/claimed" || exit 1
told=
signal_all() {
  found=
  for e in /proc/[0-9]*/environ; do
    p=${e#/proc/}
    p=${p%/environ}
    [ $p != $$ ] && grep -qsz "^SLURM_JOB_ID=$SLURM_JOB_ID$" "$e" &&
      grep -qsz "^SKYWARD_KEEPER=$SKYWARD_KEEPER$" "$e" && kill -$1 $p && found=yes
  done
}
trap 'told=yes; signal_all TERM; touch "$d/over"' TERM
exec 3<>"$d/calls"
while read -r c <&3; do
  { sh "$c/line"; echo $? 1<>"$c/status"; } <"$c/in" >"$c/out" 2>"$c/err" 3<&- &
done &
calls=$!
)sh";

// The same, at its end. What was told to end gets a moment for its last words.
constexpr const char* kEnd = R"sh(
kill $calls
end=$(($(date +%s) + 4))
while [ "$told" ] && [ "$(date +%s)" -lt $end ]; do
  signal_all 0
  [ "$found" ] || break
  sleep 0.1
done
signal_all KILL
rm -rf "$d" "/dev/shm/${d##*/}".*
)sh";

// The job may have begun just now. Another user's directory is none. Where the disk is full, a call
// lies in memory; space for its status is reserved before the line runs. The third try says why the
// first one failed.
constexpr const char* kCall = R"sh(
tries=0
while [ ! -O "$d" ] || [ ! -p "$d/calls" ] || [ ! -e "$d/claimed" ]; do
  tries=$((tries + 1))
  [ $tries -le 50 ] || {
    echo "skyward: the process that holds this node for the job is not running" >&2
    exit 1
  }
  sleep 0.2
done
lay_call() {
  c=$(mktemp -d "$1.XXXXXXXX") && mkfifo "$c/in" "$c/out" "$c/err" &&
    printf '%s\n' "$2" >"$c/line" && echo 1 >"$c/status" && return
  [ -z "$c" ] || rm -rf "$c"
  return 1
}
lay_call "$d/c" "$1" 2>/dev/null || lay_call "/dev/shm/${d##*/}" "$1" || lay_call "$d/c" "$1" ||
  exit 1
exec 3<&0
echo "$c" >"$d/calls"
cat <&3 >"$c/in" &
in=$!
cat <"$c/err" >&2 3<&- &
err=$!
cat <"$c/out" 3<&-
wait $err
kill $in 2>/dev/null
read -r status <"$c/status"
rm -rf "$c"
exit ${status:-1}
)sh";

}  // namespace

std::string keeper_script(const KeeperTerms& terms) {
  return keeper_settings(kKeeperDirectory, terms) + kKeeper + kKeepWhileClaimed + kEnd;
}

// srun does not take the processors of a task from the job by itself.
std::string job_script(const KeeperTerms& terms) {
  return fmt::format(
      "#!/bin/sh\n"
      "exec srun --overlap --export=ALL,SKYWARD_KEEPER=\"$SLURM_JOB_ID\" --mpi=none \\\n"
      "  --no-kill --kill-on-bad-exit=0 --wait=0 \\\n"
      "  --nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=\"$SLURM_JOB_NUM_NODES\" "
      "--ntasks-per-node=1 \\\n"
      "  ${{SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}} sh -c {}\n",
      shell_quote(keeper_script(terms)));
}

Words call_words() {
  return {"sh", "-c", fmt::format("d={}{}", kKeeperDirectory, kCall), "skyward-call"};
}

// Before Slurm 22.05, --overlap shares processors alone. The keeper's step has all GPUs and memory
// of the job: one that asked for any would wait for them.
Words srun_words(std::string_view job, std::string_view node) {
  Words words{"srun",
              fmt::format("--jobid={}", job),
              fmt::format("--nodelist={}", node),
              "--nodes=1",
              "--ntasks=1",
              "--overlap",
              "--gres=none",
              "--mem=0",
              "--unbuffered",              // else it holds back what is no whole line
              "--export=PATH,HOME,USER"};  // none of the program's secrets
  const Words call = call_words();
  words.insert(words.end(), call.begin(), call.end());
  return words;
}

}  // namespace skyward::provider::slurm
