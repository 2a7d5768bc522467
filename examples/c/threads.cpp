// Runs one image in several threads, each of which has a model of its own:
//
//     threads MODEL IMAGE OUTPUTS COUNT
//
// IMAGE is raw float32 in this machine's byte order; OUTPUTS gets the outputs of all threads, one after the other.
#include <jcw.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// Throws what the library says when a call failed. The message is that of the calling thread.
void check(jcw_status status) {
  if (status != JCW_OK) throw std::runtime_error(jcw_error());
}

std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::size_t size_of(const jcw_shape& shape) { return std::size_t(shape.channels) * shape.height * shape.width; }

// A model that frees itself.
class Model {
 public:
  explicit Model(const std::vector<char>& file) : model_(load(file), jcw_free) {
    jcw_shape input, output;
    check(jcw_shapes(model_.get(), &input, &output));
    inputs_ = size_of(input);
    outputs_ = size_of(output);
  }

  std::vector<float> run(const std::vector<float>& images) {
    std::vector<float> results(images.size() / inputs_ * outputs_);
    check(jcw_run(model_.get(), images.data(), images.size(), results.data(), results.size()));
    return results;
  }

 private:
  static jcw_model* load(const std::vector<char>& file) {
    jcw_model* model = nullptr;
    check(jcw_load(file.data(), file.size(), 1, &model));
    return model;
  }

  std::unique_ptr<jcw_model, void (*)(jcw_model*)> model_;
  std::size_t inputs_ = 0, outputs_ = 0;
};

struct Answer {
  std::vector<float> outputs;
  std::string error;
};

void work(const std::vector<char>& file, const std::vector<float>& image, Answer& answer) try {
  answer.outputs = Model(file).run(image);
} catch (const std::exception& error) {
  answer.error = error.what();
}

void run(const std::string& model, const std::string& images, const std::string& outputs, std::size_t count) {
  const std::vector<char> file = contents(model), bytes = contents(images);
  std::vector<float> image(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), image.size() * sizeof(float), reinterpret_cast<char*>(image.data()));
  std::vector<Answer> answers(count);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) threads.emplace_back([&] { work(file, image, answer); });
  for (std::thread& thread : threads) thread.join();
  std::ofstream out(outputs, std::ios::binary);
  for (const Answer& answer : answers) {
    if (!answer.error.empty()) throw std::runtime_error(answer.error);
    out.write(reinterpret_cast<const char*>(answer.outputs.data()),
              static_cast<std::streamsize>(answer.outputs.size() * sizeof(float)));
  }
  if (!out.flush()) throw std::runtime_error(outputs + ": cannot be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: threads MODEL IMAGE OUTPUTS COUNT");
  run(argv[1], argv[2], argv[3], std::strtoul(argv[4], nullptr, 10));
} catch (const std::exception& error) {
  std::cerr << "threads: " << error.what() << "\n";
  return 1;
}
