# Builds for 64-bit ARM Linux on another machine, with Debian's g++-aarch64-linux-gnu:
#   cmake -B build -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DJCW_PYTHON=OFF -DJCW_DEVICE=ON
# The Python extension also needs the headers of an arm64 userland, in the environment variable ARM_ROOT;
# tools/arm_tests.py makes one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Programs such as ninja are the host's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

if(DEFINED ENV{ARM_ROOT})
  # Debian's pyconfig.h includes <aarch64-linux-gnu/python3.11/pyconfig.h>. As system headers, after the compiler's own.
  set(CMAKE_CXX_FLAGS_INIT "-idirafter $ENV{ARM_ROOT}/usr/include")
endif()
