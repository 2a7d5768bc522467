// Lowering: layouts of all tensors, copies between them, operations in order.
#include "lowering/lower.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "lowering/pairing.hpp"

namespace jcw {
namespace {

// Planes that an input is taken apart into: keeps sizes within 64 bits and the time to make them short.
constexpr std::int64_t kMostPlanes = 1 << 20;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Whether no sum of a convolution of whole numbers is beyond those that floats hold.
bool exact_in_floats(const Unit& u) {
  constexpr double kLargest = 1 << 24;
  const std::size_t positions = static_cast<std::size_t>(u.positions());
  for (std::size_t o = 0; o < index(u.out_channels); ++o) {
    double sum = 0;
    for (std::size_t p = 0; p < positions; ++p) sum += std::abs(u.weight[o * positions + p]);
    if (sum * std::max(u.zero, 255 - u.zero) > kLargest) return false;
  }
  return true;
}

class Lowering {
 public:
  Lowering(const Model& model, Pixels pixels, bool together)
      : model_(model), pixels_(pixels), pairs_(together ? pairs_with_next(model) : std::vector<bool>(model.units.size(), false)) {}

  Lowered run() {
    add_tensors();
    for (std::size_t i = 0; i < model_.units.size(); ++i) tie(static_cast<int>(i));
    set_layouts();
    for (std::size_t i = 0; i < model_.units.size(); ++i) emit(static_cast<int>(i));
    result_.output = model_.output ? model_.output : dense(kNoUnit, 0);
    fuse_quantize();
    if (model_.half) halve();
    return std::move(result_);
  }

 private:
  const Unit& unit(int i) const { return model_.units[index(i)]; }
  Tensor& tensor(int i) { return result_.tensors[index(i)]; }

  void add_tensors() {
    result_.tensors.resize(model_.units.size() + 1);
    row_.resize(result_.tensors.size(), 1);
    for (std::size_t i = 0; i < result_.tensors.size(); ++i) {
      Tensor& t = result_.tensors[i];
      t.shape = model_.shape(static_cast<int>(i));
      t.row_class = static_cast<int>(i);
      t.external = i == 0;
      t.flat = one_pixel(t.shape);
      row_[i] = t.shape.width;
    }
  }

  // On the way, halves the path: chains of thousands of sums would make it as long.
  int root(int t) {
    while (tensor(t).row_class != t) {
      tensor(t).row_class = tensor(tensor(t).row_class).row_class;
      t = tensor(t).row_class;
    }
    return t;
  }

  void same_row(int a, int b) {
    if (tensor(a).external || tensor(b).external || tensor(a).flat || tensor(b).flat) return;
    const int to = root(a), from = root(b);
    row_[index(to)] = std::max(row_[index(to)], row_[index(from)]);
    tensor(from).row_class = to;
  }

  void need_row(int t, std::int64_t row) {
    std::int64_t& current = row_[index(root(t))];
    current = std::max(current, row);
  }

  void need_margin(int t, Margin margin) {
    Tensor& in = tensor(t);
    in.pad_rows = std::max(in.pad_rows, margin.rows);
    in.pad_columns = std::max(in.pad_columns, margin.columns);
    need_row(t, in.shape.width + margin.columns);
  }

  void tie(int i) {
    const Unit& u = unit(i);
    const int out = i + 1;
    if (u.residual >= 0) same_row(out, u.residual);
    if (u.op == Op::add || u.op == Op::mul || u.op == Op::activation)
      for (int input : u.inputs) same_row(out, input);
    if (!is_windowed(u) || is_linear(u)) return;
    const Margin margin = margin_of(u);
    switch (access_of(model_, u)) {
      case Access::flat:  // both walk rows of one length
        same_row(out, u.inputs[0]);
        return need_margin(u.inputs[0], margin);
      case Access::by_two: return need_margin(u.inputs[0], plain_margin_of(u));
      case Access::phases: case Access::bands: break;
    }
    if (!tensor(out).flat) need_row(out, divide_up(u.in.width, u.stride.x) + margin.columns);
  }

  void set_layouts() {
    for (std::size_t i = 0; i < result_.tensors.size(); ++i) {
      Tensor& t = result_.tensors[i];
      if (t.external) {
        t.layout = {t.shape.channels, t.shape.height, t.shape.width, t.shape.width, 0, t.shape.pixels()};
      } else if (t.flat) {
        t.layout = Layout::flat(pixels_.block, t.shape.size());
      } else {
        const std::int64_t row = row_[index(root(static_cast<int>(i)))];
        t.layout = Layout::padded(pixels_.block, t.shape.channels, t.shape.height, t.shape.width, row, t.pad_rows, t.pad_columns);
      }
    }
  }

  // A copy of `from` in another layout, made once however many units read it.
  int copy(int i, int from, Pair stride, std::vector<Phase> phases, Tensor made) {
    made.shape = tensor(from).shape;
    made.kind = "copy " + std::to_string(stride.y) + ' ' + std::to_string(stride.x) + (made.fill < 0 ? " -" : " 0") + ' ' +
                std::to_string(made.shape.height) + ' ' + std::to_string(made.shape.width);
    for (const Phase& phase : phases) made.kind += ' ' + std::to_string(phase.y) + ',' + std::to_string(phase.x);
    if (made.flat) made.kind = "";
    const std::string key = std::to_string(from) + ' ' + made.layout.key() + made.kind;
    if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
    result_.tensors.push_back(std::move(made));
    const int to = static_cast<int>(result_.tensors.size()) - 1;
    result_.operations.push_back({Kind::relayout, i, {from}, -1, to, stride, std::move(phases)});
    return copies_[key] = to;
  }

  // `from` with its pixels next to each other, for linear layers.
  int dense(int i, int from) {
    const Tensor& t = tensor(from);
    if (t.flat && !t.external) return from;
    Tensor made;
    made.flat = true;
    made.layout = Layout::flat(pixels_.block, t.shape.size());
    return copy(i, from, {1, 1}, {{0, 0}}, made);
  }

  // `from` with the rows of `like`, for pixel-by-pixel operations.
  int aligned(int i, int from, int like) {
    const Tensor& source = tensor(from);
    const Layout& target = tensor(like).layout;
    if (!source.external && source.layout.row == target.row) return from;
    Tensor made;
    made.flat = tensor(like).flat;
    made.layout = made.flat ? target
                            : Layout::padded(pixels_.block, source.shape.channels, target.height, target.width, target.row, 0, 0);
    return copy(i, from, {1, 1}, {{0, 0}}, made);
  }

  // In order.
  std::vector<Phase> phases_of(const Unit& u) const {
    std::set<int> rows, columns;
    for (int y = 0; y < u.kernel.y; ++y) rows.insert(Tap::of(y * u.dilation.y, u.padding.y, u.stride.y).phase);
    for (int x = 0; x < u.kernel.x; ++x) columns.insert(Tap::of(x * u.dilation.x, u.padding.x, u.stride.x).phase);
    if (static_cast<std::int64_t>(rows.size() * columns.size()) * u.in.channels > kMostPlanes)
      throw DeviceError("unit " + u.name + ": its stride takes the input apart into more than a million planes");
    std::vector<Phase> phases;
    for (const int y : rows)
      for (const int x : columns) phases.push_back({y, x});
    return phases;
  }

  int phased(int i, const std::vector<Phase>& phases) {
    const Unit& u = unit(i);
    if (access_of(model_, u) != Access::phases) return u.inputs[0];
    const Margin margin = margin_of(u);
    const int width = divide_up(u.in.width, u.stride.x);
    Tensor made;
    if (u.op == Op::max_pool) made.fill = -std::numeric_limits<float>::infinity();
    const std::int64_t row = std::max<std::int64_t>(width + margin.columns, tensor(i + 1).flat ? 0 : tensor(i + 1).layout.row);
    made.layout = Layout::padded(pixels_.block, u.in.channels * static_cast<int>(phases.size()),
                                 divide_up(u.in.height, u.stride.y), width, row, margin.rows, margin.columns);
    return copy(i, u.inputs[0], u.stride, phases, made);
  }

  // `from` in whole numbers, all that lies around its pixels included; made once for all who read it alike.
  int quantized(int i, int from) {
    const Unit& u = unit(i);
    Tensor made = tensor(from);
    made.external = made.flat = false;
    const bool floats = !is_linear(u) && (u.depthwise() ? pixels_.taps > 1 : u.taps() < pixels_.taps) && exact_in_floats(u);
    made.bytes = floats ? sizeof(float) : pixels_.bytes;
    made.zero = floats ? 0 : u.zero - pixels_.offset;
    if (!floats) made.kind = "int8 " + std::to_string(u.zero);
    std::uint32_t scale;  // its bits, as text of a float is rounded
    std::memcpy(&scale, &u.input_scale, sizeof scale);
    const std::string key = std::to_string(from) + (floats ? " floats " : " int8 ") + std::to_string(scale) + ' ' + std::to_string(u.zero);
    if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
    result_.tensors.push_back(std::move(made));
    const int to = static_cast<int>(result_.tensors.size()) - 1;
    result_.operations.push_back({Kind::quantize, i, {from}, -1, to, {1, 1}, {}});
    return copies_[key] = to;
  }

  void push(Kind kind, int i, std::vector<int> reads, int residual = -1, std::vector<Phase> phases = {{0, 0}}) {
    result_.operations.push_back({kind, i, std::move(reads), residual, i + 1, unit(i).stride, std::move(phases)});
  }

  void emit(int i) {
    const Unit& u = unit(i);
    const int out = i + 1;
    if (is_linear(u)) {
      const int residual = u.residual >= 0 ? dense(i, u.residual) : -1;
      const int in = dense(i, u.inputs[0]);
      return push(Kind::linear, i, {u.quantized() ? quantized(i, in) : in}, residual);
    }
    if (is_windowed(u)) return emit_windowed(i);
    if (u.op == Op::global_avg_pool) return push(Kind::global_mean, i, {readable(i, u.inputs[0])});
    if (u.portable()) return push(Kind::portable, i, {readable(i, u.inputs[0])});
    if (u.op == Op::flatten || u.op == Op::concat) {
      std::vector<int> reads = u.inputs;
      return push(Kind::concat, i, std::move(reads));
    }
    std::vector<int> reads = {aligned(i, u.inputs[0], out)};
    if (u.inputs.size() == 2)
      reads.push_back(scales(u) ? dense(i, u.inputs[1]) : aligned(i, u.inputs[1], out));
    push(Kind::elementwise, i, std::move(reads));
  }

  bool scales(const Unit& u) const { return model_.shape(u.inputs[1]) != u.in; }

  // The caller's image has no gaps after its planes; reading whole vectors needs them.
  int readable(int i, int from) { return tensor(from).external ? dense(i, from) : from; }

  void emit_windowed(int i) {
    const Unit& u = unit(i);
    const std::vector<Phase> phases = access_of(model_, u) == Access::by_two ? std::vector<Phase>{{0, 0}} : phases_of(u);
    const int pixels = phased(i, phases), in = u.quantized() ? quantized(i, pixels) : pixels;
    const int residual = u.residual >= 0 ? aligned(i, u.residual, i + 1) : -1;
    const bool plain = is_pool(u) || u.depthwise();
    push(plain ? Kind::windowed : Kind::convolution, i, {in}, residual, phases);
    result_.operations.back().access = access_of(model_, u);
    if (i > 0 && pairs_[index(i - 1)]) join();
    if (tensor(i + 1).flat) through_plane(i);
  }

  // The last two operations become one.
  void join() {
    Operation last = std::move(result_.operations.back());
    result_.operations.pop_back();
    last.first.push_back(std::move(result_.operations.back()));
    result_.operations.back() = std::move(last);
  }

  // Kernels write whole vectors; a single pixel per plane takes a detour.
  void through_plane(int i) {
    Tensor made;
    made.shape = unit(i).out;
    made.layout = Layout::padded(pixels_.block, made.shape.channels, 1, 1, 1, 0, 0);
    result_.tensors.push_back(made);
    const int plane = static_cast<int>(result_.tensors.size()) - 1;
    result_.operations.back().write = plane;
    push(Kind::concat, i, {plane});
  }

  // What computes floats makes numbers of them as well, where it can, and these alone where nobody reads the floats.
  void fuse_quantize() {
    std::vector<Operation> kept;
    std::vector<int> writer(result_.tensors.size(), -1), readers(result_.tensors.size(), 0);
    for (Operation& o : result_.operations) {
      const int by = o.kind == Kind::quantize ? writer[index(o.reads[0])] : -1;
      if (by >= 0 && can_quantize(kept[index(by)])) {
        kept[index(by)].numbers = o.write;
        kept[index(by)].reader = o.unit;
        continue;
      }
      for (const int t : o.inputs()) ++readers[index(t)];
      writer[index(o.write)] = static_cast<int>(kept.size());
      kept.push_back(std::move(o));
    }
    ++readers[index(result_.output)];
    for (Operation& o : kept)
      if (o.numbers >= 0 && !readers[index(o.write)]) o.write = o.numbers;
    result_.operations = std::move(kept);
  }

  // All tensors but the caller's image are of half precision, and what reads that reads a copy.
  void halve() {
    Tensor image = tensor(0);
    image.external = false;
    result_.tensors.push_back(std::move(image));
    const int copy = static_cast<int>(result_.tensors.size()) - 1;
    for (std::size_t t = 1; t < result_.tensors.size(); ++t) {
      result_.tensors[t].half = true;
      result_.tensors[t].bytes = sizeof(Half);
    }
    for (Operation& o : result_.operations) std::replace(o.reads.begin(), o.reads.end(), 0, copy);
    const int first = model_.units.empty() ? kNoUnit : 0;
    result_.operations.insert(result_.operations.begin(), {Kind::narrow, first, {0}, -1, copy, {1, 1}, {}});
  }

  bool can_quantize(const Operation& o) const {
    const Unit& u = unit(o.unit);
    const Tensor& written = result_.tensors[index(o.write)];
    // Other forms of convolutions that compute with floats may be faster than what is saved.
    const bool tiles = o.kind == Kind::convolution && (u.quantized() || u.taps() == 1);
    const bool able = tiles || o.kind == Kind::windowed || o.kind == Kind::elementwise;
    return able && clamps(u.activation) && o.numbers < 0 && !written.flat;
  }

  const Model& model_;
  const Pixels pixels_;
  const std::vector<bool> pairs_;
  Lowered result_;
  std::vector<std::int64_t> row_;
  std::map<std::string, int> copies_;
};

}  // namespace

Lowered lower(const Model& model, Pixels pixels, bool together) { return Lowering(model, pixels, together).run(); }

}  // namespace jcw
