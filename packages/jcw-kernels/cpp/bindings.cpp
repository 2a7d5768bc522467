// The Python face of the engine. Shapes and types are checked in jcw_kernels.program, which says what
// is wrong in a user's words; the checks here only keep memory safe.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "base/error.hpp"
#include "base/isa.hpp"
#include "program.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Images = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

// A program runs one image at a time, whichever Python thread asks.
class Engine {
 public:
  Engine(nb::bytes file, int threads, const std::string& isa)
      : program_(jcw::Model::parse({static_cast<const std::byte*>(file.data()), file.size()}), some(threads), isa) {}

  Array run(const Images& images) {
    const std::int64_t count = count_of(images), outputs = program_.output_floats();
    auto result = std::make_unique<float[]>(static_cast<std::size_t>(count * outputs) + 1);
    {
      const nb::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      program_.run(images.data(), count, result.get());
    }
    float* data = result.release();
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    return Array(data, {static_cast<std::size_t>(count), static_cast<std::size_t>(outputs)}, owner);
  }

  std::vector<double> profile(const Images& image, int rounds) {
    require_one(image);
    const nb::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return program_.profile(image.data(), rounds);
  }

  std::vector<double> time(int unit, const Images& image, int runs) {
    require_one(image);
    const nb::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return program_.time(unit, image.data(), runs);
  }

  void poison() {
    const std::scoped_lock lock(mutex_);
    program_.poison();
  }

  // (unit, kernel, density, multiply-accumulates, bytes) of each step.
  using Row = std::tuple<std::string, std::string, double, double, double>;
  std::vector<Row> steps() const {
    std::vector<Row> rows;
    for (const jcw::Step& step : program_.steps())
      rows.emplace_back(step.unit < 0 ? "output" : program_.model().units[static_cast<std::size_t>(step.unit)].name, step.kernel, step.density,
                        step.macs, step.bytes);
    return rows;
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
  std::mutex mutex_;
};

// GFLOP/s of the tile loop with its data in L1 cache, the best of `rounds` runs.
double peak_gflops(const std::string& isa, int rounds) {
  const jcw::Kernels& kernels = jcw::choose_isa(isa);
  const auto data = std::make_unique<float[]>(2048);
  constexpr int inner = 2000;
  const double flops = 2.0 * 4 * kernels.tile_vectors * kernels.width * 32 * inner;
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernels.peak(inner, data.get());
    best = std::max(best, flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best / 1e9;
}

// GB/s, read and written, of copies between arrays that no cache holds.
double copy_gbytes() {
  constexpr std::size_t count = 32 << 20;
  std::vector<char> from(count, 1), to(count, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), count);
    best = std::max(best, 2.0 * count / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
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
      .def(nb::init<nb::bytes, int, const std::string&>(), "file"_a, "threads"_a = 1, "isa"_a = "")
      .def("run", &Engine::run, nb::arg("images").noconvert(), "(n, c, h, w) float32 to (n, outputs) float32.")
      .def("profile", &Engine::profile, nb::arg("image").noconvert(), "rounds"_a, "Mean seconds of each step.")
      .def("time", &Engine::time, "unit"_a, nb::arg("image").noconvert(), "runs"_a,
           "Seconds of all steps from the unit with this number on, for each run.")
      .def("poison", &Engine::poison, "Fill all activations with NaN, for tests.")
      .def("steps", &Engine::steps, "(unit, kernel, density, multiply-accumulates, bytes) of each step.")
      .def_prop_ro("input_shape", &Engine::input_shape)
      .def_prop_ro("outputs", &Engine::outputs)
      .def_prop_ro("memory_bytes", &Engine::memory_bytes)
      .def_prop_ro("isa", &Engine::isa)
      .def_prop_ro("threads", &Engine::threads);
  m.def("available_isas", &jcw::available_isas, "Instruction sets that run here, best first.");
  m.def("chosen_isa", [](const std::string& isa) { return std::string(jcw::choose_isa(isa).name); }, "isa"_a = "",
        "The instruction set that a program would use.");
  m.def("peak_gflops", &peak_gflops, "isa"_a = "", "rounds"_a = 20,
        "GFLOP/s of the tile loop with its data in L1 cache.");
  m.def("copy_gbytes", &copy_gbytes, "GB/s, read and written, of large copies.");
}
