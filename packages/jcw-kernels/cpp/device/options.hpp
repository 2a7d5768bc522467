// The command line of jcw-device.
#pragma once

#include <string>
#include <vector>

namespace jcw {

struct Options {
  std::string command;
  std::vector<std::string> files;
  std::string isa, input, output;
  int threads = 1, rounds = 1;
  double visit_ms = 0;  // 0: what fits the command
  std::string precision = "float32";  // of layers
  bool once = false;
};

// Throws UsageError.
Options parse_options(const std::vector<std::string>& words);

}  // namespace jcw
