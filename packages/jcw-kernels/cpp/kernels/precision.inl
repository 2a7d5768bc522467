// What kernels of half precision have beside those of floats: the floats in which they add up and work out what needs more
// digits. The traits of half precision say what these are:
//     Floats            traits of floats, whose width divides theirs
//     load_floats(at)   as many pixels as Floats has lanes
//     widen, narrow     from one vector to several of floats and back, to the nearest number
#pragma once

namespace {

template <class I, class = void>
struct FloatsOf {
  using type = I;
};
template <class I>
struct FloatsOf<I, std::void_t<typename I::Floats>> {
  using type = typename I::Floats;
};

using Floats = FloatsOf<Isa>::type;
constexpr bool kHalf = !std::is_same_v<Floats, Isa>;

template <class I = Isa>
inline Floats::vec load_floats(const typename I::element* at) {
  if constexpr (kHalf)
    return I::load_floats(at);
  else
    return I::load(at);
}

// A vector as one or several of floats.
template <class I = Isa>
struct Wide {
  static constexpr int count = I::width / Floats::width;
  Floats::vec part[count];
};

template <class I>
inline Wide<I> widened(typename I::vec x) {
  Wide<I> wide;
  if constexpr (kHalf)
    I::widen(x, wide.part);
  else
    wide.part[0] = x;
  return wide;
}

template <class I>
inline typename I::vec narrowed(const Wide<I>& wide) {
  if constexpr (kHalf)
    return I::narrow(wide.part);
  else
    return wide.part[0];
}

}  // namespace
