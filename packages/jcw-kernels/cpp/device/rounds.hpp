// Interleaved timing: everything is prepared first, then each program is visited once per round.
#pragma once

#include <memory>
#include <vector>

#include "program.hpp"

namespace jcw {

// A program and an image to run it on. Null where the machine cannot hold the program.
class Timed {
 public:
  // Times the steps from unit `first` on; those before only make its inputs.
  Timed(std::unique_ptr<Program> program, int first);

  const Program& program() const { return *program_; }
  int first() const { return first_; }
  void warm_up();
  // Median seconds of one image, repeated for about `visit` seconds.
  double visit(double visit);
  // Seconds of a single pass over all steps, without a warm-up: for counting instructions.
  double once();

 private:
  std::unique_ptr<Program> program_;
  int first_;
  std::vector<float> image_;
};

// Visits all once for warmth, then prints one line per round, as soon as the round has ended:
// {"first": 0, "round": 0, "seconds": [0.0012, null]}. `first` is the number of the first of them;
// what could not be prepared is null.
void print_rounds(std::vector<std::unique_ptr<Timed>>& timed, std::size_t first, int rounds, double visit);

// The same line for a single cold pass of each.
void print_once(std::vector<std::unique_ptr<Timed>>& timed, std::size_t first);

}  // namespace jcw
