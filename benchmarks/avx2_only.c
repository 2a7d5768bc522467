/* Preloaded into a process (LD_PRELOAD), lets it see a processor that ends at AVX2.

   Linux lets the instruction CPUID fault in a thread and those that it starts (man 2 arch_prctl, ARCH_SET_CPUID), where the
   processor can. The fault is answered with what CPUID says, less what came after AVX2 and FMA. */

#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct answer {
  unsigned eax, ebx, ecx, edx;
};

static long let_fault(int yes) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, !yes); }

#define BIT(n) (1u << (n))

/* By the numbers of Intel's manual, volume 2, CPUID. */
static struct answer lesser(unsigned leaf, unsigned part) {
  struct answer a;
  __cpuid_count(leaf, part, a.eax, a.ebx, a.ecx, a.edx);
  if (leaf == 7 && part == 0) {
    a.ebx &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)); /* AVX-512 */
    a.ecx &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));                                 /* of bytes, VNNI */
    a.edx &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));              /* FP16, AMX */
  } else if (leaf == 7 && part == 1) {
    a.eax &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23)); /* AVX-VNNI, bfloat16 */
    a.edx &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));
  } else if (leaf == 0xd && part == 0) {
    a.eax &= BIT(0) | BIT(1) | BIT(2); /* the registers that an operating system keeps: x87, SSE, AVX */
  } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
    memset(&a, 0, sizeof a); /* tiles, AVX10 */
  }
  return a;
}

static void answer(int number, siginfo_t *info, void *context) {
  (void)info;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
  if (instruction[0] != 0x0f || instruction[1] != 0xa2) {
    signal(number, SIG_DFL); /* a fault of another kind, which comes again */
    return;
  }
  let_fault(0);
  const struct answer found = lesser((unsigned)registers[REG_RAX], (unsigned)registers[REG_RCX]);
  let_fault(1);
  registers[REG_RAX] = found.eax;
  registers[REG_RBX] = found.ebx;
  registers[REG_RCX] = found.ecx;
  registers[REG_RDX] = found.edx;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, NULL) || let_fault(1)) {
    perror("CPUID cannot be made to fault here");
    _exit(1);
  }
}
