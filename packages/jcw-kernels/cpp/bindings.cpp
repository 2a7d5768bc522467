// The Python face of the engine. Shapes and types are checked in jcw_kernels.program, which says what
// is wrong in a user's words; the checks here only keep memory safe.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "base/error.hpp"
#include "base/isa.hpp"
#include "model/windows.hpp"
#include "peak.hpp"
#include "program.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Images = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Lets Python act on signals such as Ctrl-C, a few times a second.
class Signals {
 public:
  void operator()() {
    if (seconds_since(last_) < 0.05) return;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals()) throw nb::python_error();
    last_ = Clock::now();
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// A program runs one image at a time, whichever Python thread asks.
class Engine {
  // Calls body() without the interpreter's lock and, as the only thread, with the program's: whoever waits for the second
  // must not hold the first, which `Signals` takes. In a child of fork nobody is left to give the second back.
  template <class Body>
  auto alone(const Body& body) {
    if (process_ != getpid()) {
      mutex_.release();
      mutex_ = std::make_unique<std::mutex>();
      process_ = getpid();
    }
    std::mutex& mutex = *mutex_;
    const nb::gil_scoped_release release;
    const std::scoped_lock lock(mutex);
    return body();
  }

 public:
  Engine(nb::bytes file, int threads, const std::string& isa, bool together)
      : program_(jcw::Model::parse({static_cast<const std::byte*>(file.data()), file.size()}), some(threads), isa, together) {}

  void add_lanes(nb::bytes file) {
    const std::span bytes{static_cast<const std::byte*>(file.data()), file.size()};
    alone([&] { program_.add_lanes([&] { return jcw::Model::parse(bytes); }); });
  }

  Array run(const Images& images) {
    const std::int64_t count = count_of(images), outputs = program_.output_floats();
    auto result = std::make_unique<float[]>(static_cast<std::size_t>(count * outputs) + 1);
    alone([&] { program_.run(images.data(), count, result.get(), Signals()); });
    float* data = result.release();
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    return Array(data, {static_cast<std::size_t>(count), static_cast<std::size_t>(outputs)}, owner);
  }

  std::vector<double> profile(const Images& image, int rounds) {
    require_one(image);
    return alone([&] { return program_.profile(image.data(), rounds, Signals()); });
  }

  std::vector<double> time(int layer, const Images& image, int runs) {
    require_one(image);
    return alone([&] { return program_.time(layer, image.data(), runs, Signals()); });
  }

  // Those of `tensors` that are written, (channels, pixels) each.
  std::vector<std::pair<int, Array>> observe(const Images& image, const std::vector<int>& tensors) {
    require_one(image);
    std::vector<std::pair<int, std::vector<float>>> found;
    alone([&] {
      program_.observe(image.data(), tensors, [&](int tensor, const std::vector<float>& values) { found.emplace_back(tensor, values); });
    });
    std::vector<std::pair<int, Array>> arrays;
    for (const auto& [tensor, values] : found) {
      auto memory = std::make_unique<float[]>(values.size());
      std::copy(values.begin(), values.end(), memory.get());
      float* data = memory.release();
      const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
      const auto channels = static_cast<std::size_t>(program_.model().shape(tensor).channels);
      arrays.emplace_back(tensor, Array(data, {channels, values.size() / channels}, owner));
    }
    return arrays;
  }

  void poison() {
    alone([&] { program_.poison(); });
  }

  // (layer, kernel, density, multiply-accumulates, bytes) of each step.
  using Row = std::tuple<std::string, std::string, double, double, double>;
  std::vector<Row> steps() const {
    std::vector<Row> rows;
    for (const jcw::Step& step : program_.steps())
      rows.emplace_back(name_of(step.unit), step.kernel, step.density, step.macs, step.bytes);
    return rows;
  }

  const std::string& name_of(int unit) const {
    static const std::string output = "output";
    return unit < 0 ? output : program_.model().units[static_cast<std::size_t>(unit)].name;
  }

  std::tuple<int, int, int> input_shape() const {
    const jcw::Shape& shape = program_.model().input;
    return {shape.channels, shape.height, shape.width};
  }
  std::int64_t outputs() const { return program_.output_floats(); }
  std::int64_t memory_bytes() const { return program_.memory_floats() * static_cast<std::int64_t>(sizeof(float)); }
  std::string isa() const { return program_.kernels().name; }
  int threads() const { return program_.threads(); }

 private:
  static int some(int threads) {
    if (threads < 1) throw nb::value_error("threads is below 1");
    return threads;
  }

  std::int64_t count_of(const Images& images) const {
    const auto size = static_cast<std::int64_t>(images.size());
    if (size % program_.input_floats()) throw nb::value_error("not a whole number of images");
    return size / program_.input_floats();
  }

  void require_one(const Images& image) const {
    if (count_of(image) != 1) throw nb::value_error("expected one image");
  }

  jcw::Program program_;
  pid_t process_ = getpid();
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

// The best of `rounds` runs of the loop that computes in a precision.
double peak_gflops(const std::string& isa, const std::string& precision, int rounds) {
  const jcw::Kernels& kernels = jcw::choose_isa(isa);
  if (precision == "int8") return jcw::peak_gflops(jcw::quantized_kernels(kernels), rounds);
  return jcw::peak_gflops(precision == "float16" ? jcw::half_kernels(kernels) : kernels, rounds);
}

// GB/s, read and written, of copies between arrays that no cache holds.
double copy_gbytes() {
  constexpr std::size_t count = 32 << 20;
  std::vector<char> from(count, 1), to(count, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), count);
    best = std::max(best, 2.0 * count / seconds_since(start));
  }
  return best / 1e9;
}

}  // namespace

NB_MODULE(_engine, m) {
  const nb::module_ errors = nb::module_::import_("jcw_core.errors");
  // What is registered last is asked first, so the base class comes before the others.
  nb::exception<jcw::Error>(m, "EngineError", errors.attr("JcwError"));
  nb::exception<jcw::FormatError>(m, "EngineFormatError", errors.attr("FormatError"));
  nb::exception<jcw::DeviceError>(m, "EngineDeviceError", errors.attr("DeviceError"));
  nb::class_<Engine>(m, "Engine", "A loaded model, bound to memory and kernels.")
      .def(nb::init<nb::bytes, int, const std::string&, bool>(), "file"_a, "threads"_a = 1, "isa"_a = "", "together"_a = true)
      .def("run", &Engine::run, nb::arg("images").noconvert(), "(n, c, h, w) float32 to (n, outputs) float32.")
      .def("profile", &Engine::profile, nb::arg("image").noconvert(), "rounds"_a, "Mean seconds of each step.")
      .def("time", &Engine::time, "layer"_a, nb::arg("image").noconvert(), "runs"_a,
           "Seconds of all steps from the layer with this number on, for each run.")
      .def("observe", &Engine::observe, nb::arg("image").noconvert(), "tensors"_a, "(tensor, (channels, pixels) float32) of those of them that are written.")
      .def("add_lanes", &Engine::add_lanes, "file"_a,
           "Has each thread compute an image of its own where there are many; `file` is that of the constructor.")
      .def("poison", &Engine::poison, "Fill all activations with NaN, for tests.")
      .def("steps", &Engine::steps, "(layer, kernel, density, multiply-accumulates, bytes) of each step.")
      .def_prop_ro("input_shape", &Engine::input_shape)
      .def_prop_ro("outputs", &Engine::outputs)
      .def_prop_ro("memory_bytes", &Engine::memory_bytes)
      .def_prop_ro("isa", &Engine::isa)
      .def_prop_ro("threads", &Engine::threads);
  m.def("available_isas", &jcw::available_isas, "Instruction sets that run here, best first.");
  m.def("chosen_isa", [](const std::string& isa) { return std::string(jcw::choose_isa(isa).name); }, "isa"_a = "",
        "The instruction set that a program would use.");
  m.def("numbers_at_once", [](const std::string& isa) { return jcw::quantized_kernels(jcw::choose_isa(isa)).inputs; }, "isa"_a = "",
        "How many products of whole numbers one instruction sums up.");
  m.def("gains_from_numbers", [](int rows, int columns, double kept) { return jcw::gains_from_numbers({rows, columns}, kept); },
        "rows"_a, "columns"_a, "kept_inputs"_a, "Whether a convolution is taken to be faster with whole numbers.");
  m.def("linear_gains_from_numbers", &jcw::linear_gains_from_numbers, "inputs"_a, "outputs"_a, "density"_a,
        "Whether a linear layer is, or a convolution of one output pixel.");
  m.def("depthwise_gains_from_numbers",
        [](std::pair<int, int> kernel, std::pair<int, int> stride, bool clamps, int out_width) {
          return jcw::depthwise_gains_from_numbers({kernel.first, kernel.second}, {stride.first, stride.second}, clamps, out_width);
        },
        "kernel_size"_a, "stride"_a, "clamps"_a, "out_width"_a, "Whether a depthwise one is, whose activation only clamps or does more.");
  m.def("peak_gflops", &peak_gflops, "isa"_a = "", "precision"_a = "float32", "rounds"_a = 20,
        "GFLOP/s of the tile loop with its data in L1 cache, at the clock of this moment: the best of some runs.");
  m.def("copy_gbytes", &copy_gbytes, "GB/s, read and written, of large copies.");
}
