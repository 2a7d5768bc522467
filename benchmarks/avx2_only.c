/* Preloaded into a process (LD_PRELOAD), lets it see a processor that ends at AVX2.

   Linux lets the instruction CPUID fault in a thread and those that it starts (man 2 arch_prctl, ARCH_SET_CPUID), where the
   processor can. The fault is answered with what CPUID says, less what came after AVX2 and FMA. Who wants to hear of faults
   (DeepSparse does) hears of all others. Who reads /proc/cpuinfo instead (DeepSparse does that, too) finds no flags of these either. */

#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

typedef int set_action(int, const struct sigaction *, struct sigaction *);

static set_action *real_sigaction;
static struct sigaction others; /* of those who handle faults as well */

static void pass_on(int number, siginfo_t *info, void *context) {
  if (others.sa_flags & SA_SIGINFO)
    others.sa_sigaction(number, info, context);
  else if (others.sa_handler == SIG_DFL || others.sa_handler == SIG_IGN)
    real_sigaction(number, &others, NULL); /* the fault comes again */
  else
    others.sa_handler(number);
}

static void answer(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *instruction = (const unsigned char *)registers[REG_RIP];
  if (info->si_addr || instruction[0] != 0x0f || instruction[1] != 0xa2) return pass_on(number, info, context);
  let_fault(0);
  const struct answer found = lesser((unsigned)registers[REG_RAX], (unsigned)registers[REG_RCX]);
  let_fault(1);
  registers[REG_RAX] = found.eax;
  registers[REG_RBX] = found.ebx;
  registers[REG_RCX] = found.ecx;
  registers[REG_RDX] = found.edx;
  registers[REG_RIP] += 2;
}

static void find(void) {
  if (!real_sigaction) real_sigaction = (set_action *)dlsym(RTLD_NEXT, "sigaction");
}

/* In place of the C library's. */
int sigaction(int number, const struct sigaction *wanted, struct sigaction *before) {
  find();
  if (number != SIGSEGV) return real_sigaction(number, wanted, before);
  const struct sigaction now = others;
  if (wanted) others = *wanted;
  if (before) *before = now;
  return 0;
}

/* By the names of /proc/cpuinfo. */
static int came_later(const char *flag) {
  static const char *const later[] = {"avx512", "avx_vnni", "avx_ifma", "avx_ne_convert", "avx10", "amx", "vaes", "vpclmulqdq", "gfni"};
  for (size_t i = 0; i < sizeof later / sizeof *later; ++i)
    if (!strncmp(flag, later[i], strlen(later[i]))) return 1;
  return 0;
}

/* A file in memory with what /proc/cpuinfo says, less such flags. */
static FILE *lesser_cpuinfo(void) {
  static FILE *(*real)(const char *, const char *);
  if (!real) real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
  FILE *from = real("/proc/cpuinfo", "r"), *to = fdopen(memfd_create("cpuinfo", 0), "w+");
  char *line = NULL, *rest = NULL;
  size_t size = 0;
  while (from && to && getline(&line, &size, from) > 0) {
    if (strncmp(line, "flags", 5)) {
      fputs(line, to);
      continue;
    }
    for (const char *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
      if (!came_later(word)) fprintf(to, "%s ", word);
    fputc('\n', to);
  }
  free(line);
  if (from) fclose(from);
  if (to) rewind(to);
  return to;
}

/* In place of the C library's: whoever asks for /proc/cpuinfo gets the other one. */
#define OPENS(name)                                                         \
  FILE *name(const char *path, const char *mode) {                          \
    static FILE *(*real)(const char *, const char *);                       \
    if (!strcmp(path, "/proc/cpuinfo")) return lesser_cpuinfo();            \
    if (!real) real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, #name); \
    return real(path, mode);                                                \
  }
OPENS(fopen)
OPENS(fopen64)

#define OPENS_NUMBER(name)                                                  \
  int name(const char *path, int flags, ...) {                              \
    static int (*real)(const char *, int, ...);                             \
    va_list more;                                                           \
    va_start(more, flags);                                                  \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                           \
    if (!strcmp(path, "/proc/cpuinfo")) return fileno(lesser_cpuinfo());    \
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
    return real(path, flags, mode);                                         \
  }
OPENS_NUMBER(open)
OPENS_NUMBER(open64)

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  find();
  if (real_sigaction(SIGSEGV, &action, &others) || let_fault(1)) {
    perror("CPUID cannot be made to fault here");
    _exit(1);
  }
}
