/* Runs a traced child up to a chosen system call, and kills it there, or makes the call fail or do less than asked.

   long inject(pid, nth, how, code): the child has stopped itself (PTRACE_TRACEME, SIGSTOP). Its system calls are counted
   from then on, in all its threads. `how`: 0 runs to the end, 1 kills before the call, 2 kills after it, 3 lets the call
   fail with `code`, 4 lets a write do half of what was asked (1 byte at least), 5 lets this call and every later one
   of the kind fail. The number of calls comes back; *number is that of the call concerned. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <linux/elf.h>

#if defined(__x86_64__)
#define NUMBER(r) ((r).orig_rax)
#define RESULT(r) ((r).rax)
#define THIRD(r) ((r).rdx)
#else
#error "the registers of this processor are not known"
#endif

enum { LONGEST = 20000 };
enum { RUN, KILL_BEFORE, KILL_AFTER, FAIL, SHORT, FAIL_ALL };

int trace_me(void) {
  if (ptrace(PTRACE_TRACEME, 0, 0, 0)) return errno;
  return raise(SIGSTOP);
}

static void finish(pid_t pid) {
  int status;
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, __WALL) >= 0 && !WIFEXITED(status) && !WIFSIGNALED(status)) {}
}

static int is_write(uint64_t number) {
  return number == SYS_write || number == SYS_pwrite64;
}

long inject(pid_t pid, long nth, int how, int code, long* number, int* exit_status) {
  int status, inside = 0, failing = 0, signal_to_pass = 0;
  long count = 0, kind = -1;
  *number = -1;
  *exit_status = -1;
  if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status)) return -1;
  ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, pid, 0, (long)signal_to_pass)) return -2;
    signal_to_pass = 0;
    if (waitpid(pid, &status, __WALL) < 0) return -3;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      *exit_status = status;
      return count;
    }
    if (!WIFSTOPPED(status)) continue;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal_to_pass = WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
      continue;
    }
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs)) return -4;
    inside = !inside;
    if (inside) {
      int here = ++count == nth;
      if (count > LONGEST) { /* it tries again and again what fails each time: nobody waits for that */
        finish(pid);
        return count;
      }
      if (here) *number = kind = (long)NUMBER(regs);
      if (here && how == KILL_BEFORE) {
        finish(pid);
        return count;
      }
      failing = (here && how == FAIL) || (how == FAIL_ALL && kind >= 0 && (long)NUMBER(regs) == kind);
      if (failing) {
        NUMBER(regs) = (uint64_t)-1; /* no such call: nothing is done, and the answer is replaced below */
        ptrace(PTRACE_SETREGS, pid, 0, &regs);
      }
      if (here && how == SHORT && is_write(NUMBER(regs)) && THIRD(regs) > 1) {
        THIRD(regs) /= 2;
        ptrace(PTRACE_SETREGS, pid, 0, &regs);
      }
      continue;
    }
    if (failing) {
      RESULT(regs) = (uint64_t)-code;
      ptrace(PTRACE_SETREGS, pid, 0, &regs);
      failing = 0;
    }
    if (count == nth && how == KILL_AFTER) {
      finish(pid);
      return count;
    }
  }
}
