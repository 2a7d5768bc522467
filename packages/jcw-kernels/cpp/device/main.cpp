// jcw-device: times layers and runs models on machines without Python.
//
// It talks in lines of JSON on standard output, each written when it is known, so that whoever drives
// it over a network sees progress and loses nothing but the last round when the line breaks.
//
//   jcw-device describe
//       {"cpu": "Cortex-A72, Raspberry Pi 4 ...", "isa": "neon", "isas": ["neon", "scalar"], "version": "0.1.0"}
//   jcw-device layers FILE
//       FILE has one JSON object per line: the fields of jcw_core.network.problem.LayerProblem. As many layers as fit
//       in memory are prepared at a time, then visited once per round. For each such batch one line says
//       which kernels it runs, and one per round how long each layer took for one image; `first` counts layers from 0:
//         {"first": 0, "kernels": ["sparse", "dense, depthwise", ...], "macs": [...]}
//         {"first": 0, "round": 0, "seconds": [0.00123, null, ...]}
//       null is a layer that this machine cannot hold; standard error says why.
//   jcw-device run MODEL...
//       The same line per round for whole models. With --input, a file of raw float32 images (channel-major,
//       little-endian), one model's outputs are written to the file --output, and nothing is timed.
//
// Options: --rounds N (default 1), --visit-ms X (how long a visit repeats a layer, default 1, or a model, default
// 20), --threads N, --isa NAME, --precision NAME (of layers, as in a model of that precision), --once (one cold pass over
// everything, for counting instructions).
// Exit status: 0, or 2 with one line on standard error.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/isa.hpp"
#include "program.hpp"
#include "device/describe.hpp"
#include "device/options.hpp"
#include "device/problem.hpp"
#include "device/rounds.hpp"

namespace {

using Batch = std::vector<std::unique_ptr<jcw::Timed>>;

// Layers that are in memory at one time; the smallest boards have 512 MB.
constexpr std::int64_t kBatchBytes = 256 << 20;

std::string contents(const std::string& path) try {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw jcw::FormatError(path + ": cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
} catch (const std::ios_base::failure&) {
  throw jcw::FormatError(path + ": cannot be read");
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const std::string text = contents(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::unique_ptr<jcw::Program> bind(jcw::Model model, const jcw::Options& options) {
  return std::make_unique<jcw::Program>(std::move(model), options.threads, options.isa);
}

void time_batch(Batch& batch, std::size_t first, double default_ms, const jcw::Options& options) {
  const double visit_ms = options.visit_ms > 0 ? options.visit_ms : default_ms;
  if (options.once) jcw::print_once(batch, first);
  else jcw::print_rounds(batch, first, options.rounds, visit_ms / 1e3);
}

struct Work {
  std::string kernels;
  double macs = 0.0;
};

// What is timed of a layer: its steps, copies around the others left out.
Work work_of(const jcw::Timed& layer) {
  Work work;
  for (const jcw::Step& step : layer.program().steps()) {
    if (step.unit < layer.first() || step.kernel == "copy") continue;
    work.kernels.append(work.kernels.empty() ? "" : ", ").append(step.kernel);
    work.macs += step.macs;
  }
  if (work.kernels.empty()) work.kernels = "copy";
  return work;
}

void print_layers(const Batch& batch, std::size_t first) {
  std::string kernels, macs;
  for (const auto& layer : batch) {
    const char* comma = kernels.empty() ? "" : ", ";
    const Work work = layer ? work_of(*layer) : Work{};
    kernels.append(comma).append(layer ? jcw::quoted(work.kernels) : "null");
    macs.append(comma).append(layer ? std::to_string(static_cast<long long>(work.macs)) : "null");
  }
  std::printf("{\"first\": %zu, \"kernels\": [%s], \"macs\": [%s]}\n", first, kernels.c_str(), macs.c_str());
  std::fflush(stdout);
}

// Fills the layer's place, which stays null when the machine cannot hold it. Returns the bytes that it takes.
std::int64_t prepare(const std::string& line, std::size_t number, std::unique_ptr<jcw::Timed>& place,
                     const jcw::Options& options) try {
  jcw::Layer layer = jcw::parse_layer(line, options.precision);
  const std::int64_t weights = layer.weight_bytes();
  place = std::make_unique<jcw::Timed>(bind(std::move(layer.model), options), layer.unit);
  return weights + place->program().memory_floats() * static_cast<std::int64_t>(sizeof(float));
} catch (const std::bad_alloc&) {
  std::fprintf(stderr, "jcw-device: layer %zu: not enough memory\n", number);
  return 0;
} catch (const jcw::DeviceError& error) {
  std::fprintf(stderr, "jcw-device: layer %zu: %s\n", number, error.what());
  return 0;
} catch (const jcw::Error& error) {
  throw jcw::Error("layer " + std::to_string(number) + ": " + error.what());
}

void time_layers(const jcw::Options& options) {
  jcw::choose_isa(options.isa);  // an unknown one is the caller's mistake, not a layer's
  const std::vector<std::string> lines = lines_of(options.files[0]);
  for (std::size_t first = 0; first < lines.size();) {
    Batch batch;
    std::int64_t bytes = 0;
    while (first + batch.size() < lines.size() && bytes < kBatchBytes) {
      const std::size_t number = first + batch.size();
      batch.push_back(nullptr);
      bytes += prepare(lines[number], number, batch.back(), options);
    }
    print_layers(batch, first);
    time_batch(batch, first, 1.0, options);
    first += batch.size();
  }
}

jcw::Model parsed(const std::string& path, const std::string& file) try {
  return jcw::Model::parse(std::as_bytes(std::span(file)));
} catch (const jcw::FormatError& error) {
  throw jcw::FormatError(path + ": " + error.what());
}

std::unique_ptr<jcw::Program> load(const std::string& path, const jcw::Options& options) {
  return bind(parsed(path, contents(path)), options);
}

void time_models(const jcw::Options& options) {
  Batch batch;
  for (const std::string& path : options.files) batch.push_back(std::make_unique<jcw::Timed>(load(path, options), 0));
  time_batch(batch, 0, 20.0, options);
}

void run_model(const jcw::Options& options) {
  const std::unique_ptr<jcw::Program> program = load(options.files[0], options);
  const std::string bytes = contents(options.input);
  const std::size_t image = static_cast<std::size_t>(program->input_floats()) * sizeof(float);
  if (bytes.empty() || bytes.size() % image)
    throw jcw::FormatError(options.input + ": " + std::to_string(bytes.size()) + " bytes, expected images of " +
                           std::to_string(image));
  std::vector<float> images(bytes.size() / sizeof(float));
  std::memcpy(images.data(), bytes.data(), bytes.size());
  const auto count = static_cast<std::int64_t>(bytes.size() / image);
  std::vector<float> outputs(static_cast<std::size_t>(count * program->output_floats()));
  program->run(images.data(), count, outputs.data());
  std::ofstream file(options.output, std::ios::binary);
  file.write(reinterpret_cast<const char*>(outputs.data()), static_cast<std::streamsize>(outputs.size() * sizeof(float)));
  if (!file.flush()) throw jcw::FormatError(options.output + ": cannot be written");
}

void describe(const jcw::Options& options) {
  std::string isas;
  for (const std::string& isa : jcw::available_isas()) isas.append(isas.empty() ? "" : ", ").append(jcw::quoted(isa));
  std::printf("{\"cpu\": %s, \"isa\": \"%s\", \"isas\": [%s], \"version\": \"%s\"}\n", jcw::quoted(jcw::cpu_name()).c_str(),
              jcw::choose_isa(options.isa).name, isas.c_str(), JCW_VERSION);
}

}  // namespace

int main(int count, char** words) {
  try {
    const jcw::Options options = jcw::parse_options({words + 1, words + count});
    if (options.command == "describe") describe(options);
    else if (options.command == "layers") time_layers(options);
    else if (options.input.empty()) time_models(options);
    else run_model(options);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "jcw-device: not enough memory\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jcw-device: %s\n", error.what());
    return 2;
  }
  return 0;
}
