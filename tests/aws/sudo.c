// A stand-in for sudo on machines of the tests, installed setuid: runs a command as root and asks nobody. Stricter than
// the real one: it takes "sudo -n COMMAND" and nothing else, and keeps no variable of its caller.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", home[] = "HOME=/root";
  char* environment[] = {path, home, NULL};
  if (argc < 3 || strcmp(argv[1], "-n") != 0 || argv[2][0] == '-') {
    fprintf(stderr, "sudo: only 'sudo -n COMMAND' is played here\n");
    return 1;
  }
  if (setgid(0) != 0 || setuid(0) != 0) {
    perror("sudo");
    return 1;
  }
  execvpe(argv[2], argv + 2, environment);
  perror(argv[2]);
  return 127;
}
