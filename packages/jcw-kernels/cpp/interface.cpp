// The C face of the engine: jcw.h. Everything is checked here, and nothing is thrown past it.
#include "jcw.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "program.hpp"

struct jcw_model {
  jcw::Program program;
};

namespace {

constexpr int kMostThreads = 256;
constexpr int kMostRounds = 1000000;

// Of fixed size, so that the failure to allocate can be told.
thread_local char last_error[512] = "";

jcw_status fail(jcw_status status, const char* what) {
  std::snprintf(last_error, sizeof last_error, "%s", what);
  return status;
}

// Calls body(), and turns what it throws into a status and a message.
template <class Body>
jcw_status guarded(const Body& body) noexcept {
  try {
    body();
    return JCW_OK;
  } catch (const jcw::UsageError& error) {
    return fail(JCW_BAD_ARGUMENT, error.what());
  } catch (const jcw::FormatError& error) {
    return fail(JCW_BAD_FILE, error.what());
  } catch (const jcw::DeviceError& error) {
    return fail(JCW_NO_DEVICE, error.what());
  } catch (const std::bad_alloc&) {
    return fail(JCW_NO_MEMORY, "not enough memory");
  } catch (const std::exception& error) {
    return fail(JCW_INTERNAL, error.what());
  } catch (...) {
    return fail(JCW_INTERNAL, "an unknown failure");
  }
}

void require(const void* pointer, const char* name) {
  if (!pointer) throw jcw::UsageError(std::string(name) + " is null");
}

void require_between(int value, int most, const char* name) {
  if (value < 1 || value > most)
    throw jcw::UsageError(std::string(name) + " is " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
}

// Throws unless `floats` is `count` times `each`, which is above zero.
void require_floats(std::size_t floats, std::size_t count, std::size_t each, const char* name) {
  if (floats % each || floats / each != count)  // the product may be more than a size_t holds
    throw jcw::UsageError(std::string(name) + " is " + std::to_string(floats) + ", expected " + std::to_string(count) +
                          " x " + std::to_string(each));
}

std::size_t input_floats(const jcw_model& model) { return static_cast<std::size_t>(model.program.input_floats()); }
std::size_t output_floats_of(const jcw_model& model) { return static_cast<std::size_t>(model.program.output_floats()); }

jcw_model* loaded(std::span<const std::byte> file, int threads) {
  return new jcw_model{jcw::Program(jcw::Model::parse(file), threads, "")};
}

std::vector<std::byte> contents(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw jcw::FormatError(path + ": cannot be opened");
  std::vector<std::byte> bytes;
  std::size_t filled = 0;
  do {
    bytes.resize(filled + std::max<std::size_t>(filled, 1 << 16));
    filled += std::fread(bytes.data() + filled, 1, bytes.size() - filled, file.get());
  } while (filled == bytes.size());
  if (std::ferror(file.get())) throw jcw::FormatError(path + ": cannot be read");
  bytes.resize(filled);
  return bytes;
}

jcw_shape plain(const jcw::Shape& shape) { return {shape.channels, shape.height, shape.width}; }

const char* layer_of(const jcw::Program& program, const jcw::Step& step) {
  return step.unit < 0 ? "output" : program.model().units[static_cast<std::size_t>(step.unit)].name.c_str();
}

}  // namespace

jcw_status jcw_load(const void* bytes, size_t size, int threads, jcw_model** model) {
  return guarded([&] {
    require(model, "model");
    *model = nullptr;
    require(bytes, "bytes");
    require_between(threads, kMostThreads, "threads");
    *model = loaded({static_cast<const std::byte*>(bytes), size}, threads);
  });
}

jcw_status jcw_load_file(const char* path, int threads, jcw_model** model) {
  return guarded([&] {
    require(model, "model");
    *model = nullptr;
    require(path, "path");
    require_between(threads, kMostThreads, "threads");
    const std::vector<std::byte> bytes = contents(path);
    try {
      *model = loaded(bytes, threads);
    } catch (const jcw::FormatError& error) {
      throw jcw::FormatError(std::string(path) + ": " + error.what());
    }
  });
}

jcw_status jcw_shapes(const jcw_model* model, jcw_shape* input, jcw_shape* output) {
  return guarded([&] {
    require(model, "model");
    require(input, "input");
    require(output, "output");
    const jcw::Model& network = model->program.model();
    *input = plain(network.input);
    *output = plain(network.shape(network.output));
  });
}

jcw_status jcw_run(jcw_model* model, const float* images, size_t image_floats, float* outputs, size_t output_floats) {
  return guarded([&] {
    require(model, "model");
    const std::size_t count = image_floats / input_floats(*model);
    require_floats(image_floats, count, input_floats(*model), "image_floats");
    require_floats(output_floats, count, output_floats_of(*model), "output_floats");
    if (!count) return;
    require(images, "images");
    require(outputs, "outputs");
    model->program.run(images, static_cast<std::int64_t>(count), outputs);
  });
}

jcw_status jcw_profile(jcw_model* model, const float* image, size_t image_floats, int rounds, jcw_step* steps,
                       size_t capacity, size_t* count) {
  return guarded([&] {
    require(model, "model");
    require(count, "count");
    const std::vector<jcw::Step>& all = model->program.steps();
    *count = all.size();
    if (!capacity) return;
    require(image, "image");
    require(steps, "steps");
    require_floats(image_floats, 1, input_floats(*model), "image_floats");
    require_between(rounds, kMostRounds, "rounds");
    const std::vector<double> seconds = model->program.profile(image, rounds);
    for (std::size_t i = 0; i < std::min(capacity, all.size()); ++i)
      steps[i] = {layer_of(model->program, all[i]), all[i].kernel.c_str(), all[i].density, all[i].macs, seconds[i]};
  });
}

const char* jcw_error(void) { return last_error; }

void jcw_free(jcw_model* model) { delete model; }

const char* jcw_version(void) { return JCW_VERSION; }
