// Attention of targets that each read one run of sources, as small matrix products.
//
// A block is up to kBlock targets, a tile up to kTile of the sources that they read. Scores of a block and a tile
// are a product in registers, kGroup targets at once, and only over the sources that one of these kGroup reads, so
// that a causal graph costs half of a complete one. Softmax runs along the tiles with a running maximum. Nothing
// as large as the scores of all pairs is ever held.
//
// A unit is a range of targets and the range of sources that they alone may read: a member of a packed batch.
// The backward pass takes a unit and a head at a time, so that every gradient belongs to one thread.
#pragma once

#include "attend.h"

namespace EW_NS {

template <class A> constexpr int kGroup = kVectorBytes == 64 ? 8 : kLanes<A> < 4 ? kLanes<A> : 4;
constexpr int kBlock = 64, kTile = 128;

// ---- products ----------------------------------------------------------------------------------------

// c[r, j] (+)= sum over k of a[r, k] b[k, j] for kGroup rows r and NV vectors of columns j.
template <class A, int NV, bool Add>
EW_INLINE void product_of(const A* a, i64 a_row, i64 a_step, const A* b, i64 ldb, A* c, i64 ldc, int depth) {
  constexpr int L = kLanes<A>, R = kGroup<A>;
  Vec<A, L> sum[R][NV];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < NV; ++v) sum[r][v] = Add ? load<L>(c + r * ldc + v * L) : Vec<A, L>{};
  for (int k = 0; k < depth; ++k) {
    Vec<A, L> row[NV];
    for (int v = 0; v < NV; ++v) row[v] = load<L>(b + k * ldb + v * L);
    for (int r = 0; r < R; ++r) {
      const Vec<A, L> x = splat<A, L>(a[r * a_row + k * a_step]);
      for (int v = 0; v < NV; ++v) sum[r][v] += x * row[v];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < NV; ++v) store<L>(c + r * ldc + v * L, sum[r][v]);
}
// The same for any number of columns, a multiple of the vector.
template <bool Add, class A>
EW_INLINE void product(const A* a, i64 a_row, i64 a_step, const A* b, i64 ldb, A* c, i64 ldc, int columns, int depth) {
  constexpr int L = kLanes<A>;
  int j = 0;
  for (; j + 2 * L <= columns; j += 2 * L) product_of<A, 2, Add>(a, a_row, a_step, b + j, ldb, c + j, ldc, depth);
  if (j < columns) product_of<A, 1, Add>(a, a_row, a_step, b + j, ldb, c + j, ldc, depth);
}

// c += a b without the terms whose a is 0, for a b that is not finite: what is not read must not matter.
template <class A>
void product_of_some(const A* a, i64 a_row, i64 a_step, const A* b, i64 ldb, A* c, i64 ldc, int columns, int depth) {
  for (int r = 0; r < kGroup<A>; ++r)
    for (int k = 0; k < depth; ++k) {
      const A x = a[r * a_row + k * a_step];
      for (int j = 0; x != 0 && j < columns; ++j) c[r * ldc + j] += x * b[k * ldb + j];
    }
}
template <class A>
EW_INLINE void add_product(const A* a, i64 a_row, i64 a_step, const A* b, i64 ldb, A* c, i64 ldc, int columns, int depth, bool finite) {
  if (finite) product<true>(a, a_row, a_step, b, ldb, c, ldc, columns, depth);
  else product_of_some(a, a_row, a_step, b, ldb, c, ldc, columns, depth);
}

// ---- packing -----------------------------------------------------------------------------------------

template <int L, int Half> constexpr int zip_lane(int lane) { return lane / 2 + Half * (L / 2) + (lane % 2) * L; }
template <int L, class V, int... I> EW_INLINE void zip(V a, V b, V* low, V* high, Lanes<I...>) {
  *low = __builtin_shufflevector(a, b, zip_lane<L, 0>(I)...);
  *high = __builtin_shufflevector(a, b, zip_lane<L, 1>(I)...);
}
// L vectors of L lanes, rows for columns.
template <class A, int L, int Left> EW_INLINE void transpose(Vec<A, L>* x) {
  if constexpr (Left > 1) {
    Vec<A, L> y[L];
    for (int i = 0; i < L / 2; ++i) zip<L>(x[i], x[i + L / 2], &y[2 * i], &y[2 * i + 1], typename MakeLanes<L>::type{});
    for (int i = 0; i < L; ++i) x[i] = y[i];
    transpose<A, L, Left / 2>(x);
  }
}

EW_INLINE int up_to(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// One head of `n` nodes.
template <class T> struct HeadRows {
  const T* first;
  i64 stride;
  int n, width;
  const T* row(int i) const { return first + i * stride; }
};

// to[i, d], with zeros up to whole vectors along d and whole groups along i; whether all is finite
template <class T, class A> EW_INLINE bool pack(A* to, int ld, HeadRows<T> x, A scale) {
  constexpr int L = kLanes<A>;
  const int whole = x.width / L * L, rest = x.width - whole;
  Vec<A, L> wrong{};  // x - x is 0, or NaN
  for (int i = 0; i < x.n; ++i, to += ld) {
    for (int d = 0; d < whole; d += L) {
      const Vec<A, L> y = load<L>(x.row(i) + d) * scale;
      store<L>(to + d, y);
      wrong += y - y;
    }
    if (rest) {
      const Vec<A, L> y = load_some<L>(x.row(i) + whole, rest) * scale;
      store<L>(to + whole, y);
      wrong += y - y;
    }
  }
  zero(to, i64(up_to(x.n, kGroup<A>) - x.n) * ld);
  return sum_lanes<L, A>(wrong) == 0;
}
// to[d, i], with zeros up to kTile along i
template <class T, class A> EW_INLINE void pack_transposed(A* to, HeadRows<T> x) {
  constexpr int L = kLanes<A>;
  for (int i = 0; i < x.n; i += L) {
    const int rows = x.n - i < L ? x.n - i : L;
    int d = 0;
    for (; d + L <= x.width; d += L) {
      Vec<A, L> block[L];
      for (int r = 0; r < L; ++r) block[r] = r < rows ? load<L>(x.row(i + r) + d) : Vec<A, L>{};
      transpose<A, L, L>(block);
      for (int r = 0; r < L; ++r) store<L>(to + i64(d + r) * kTile + i, block[r]);
    }
    for (; d < x.width; ++d)
      for (int r = 0; r < L; ++r) to[i64(d) * kTile + i + r] = r < rows ? A(widen(x.row(i + r)[d])) : A(0);
  }
}

// ---- attention ---------------------------------------------------------------------------------------

struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  Range from(int first) const { return {begin - first, end - first}; }
  Range within(int low, int high) const { return {begin > low ? begin : low, end < high ? end : high}; }
};

// Whether no index leads out of its array, and every unit's rows read the unit's sources alone.
static bool fits(const ew_tiles_args& a) {
  if (a.blocks < 0 || a.units < 0 || a.unit[0] || a.unit[1] || a.block[0]) return false;
  if (a.unit[2 * a.units] != a.blocks || a.unit[2 * a.units + 1] != a.columns || a.block[a.blocks] != a.rows) return false;
  for (i64 u = 0; u < a.units; ++u) {
    const i32 *from = a.unit + 2 * u, *to = from + 2;
    if (from[0] > to[0] || from[1] > to[1] || to[0] > a.blocks || to[1] > a.columns) return false;
    for (i32 k = from[0]; k < to[0]; ++k) {
      const i32 begin = a.block[k], end = a.block[k + 1];
      if (begin < 0 || end < begin || end - begin > kBlock || end > a.rows) return false;
      for (i32 i = begin; i < end; ++i)
        if (a.start[i] < a.stop[i] && (a.start[i] < from[1] || a.stop[i] > to[1])) return false;
    }
  }
  return true;
}

template <class T, class A, bool Backward> struct Tiles {
  static constexpr int L = kLanes<A>, R = kGroup<A>;
  const ew_tiles_args& a;
  const int D, Dv, Dp, Vp, H;
  void* memory = nullptr;
  A *query, *key, *key_t, *value, *value_t, *out, *weights, *grads, *grad_key, *grad_value, *grad_query, *delta;
  A *most, *total;
  bool finite_key = true, finite_value = true;  // of the tile at hand

  explicit Tiles(const ew_tiles_args& args)
      : a(args), D(int(a.width)), Dv(int(a.value_width)), Dp(up_to(D, L)), Vp(up_to(Dv, L)), H(int(a.heads)) {}
  ~Tiles() { ew::release(memory); }
  bool failed() const { return false; }

  // Room for both passes; the backward pass also holds one unit's gradient of the query.
  bool prepare() {
    i64 rows = 0;
    for (i64 u = 0; Backward && u < a.units; ++u) {
      const i64 count = a.block[a.unit[2 * u + 2]] - a.block[a.unit[2 * u]];
      rows = count > rows ? count : rows;
    }
    i64 size = 0;
    const auto reserve = [&](i64 count) { const i64 at = size; size += (count + 15) / 16 * 16; return at; };
    const i64 places[] = {reserve(kBlock * Dp), reserve(kTile * Dp), reserve(D * kTile), reserve(kTile * Vp), reserve(Dv * kTile),
                          reserve(kBlock * Vp), reserve(kBlock * kTile), reserve(kBlock * kTile), reserve(kTile * Dp),
                          reserve(kTile * Vp), reserve((rows + R) * Dp), reserve(rows), reserve(kBlock), reserve(kBlock)};
    memory = ew::allocate(size * i64(sizeof(A)));
    if (!memory) return false;
    A** const names[] = {&query, &key, &key_t, &value, &value_t, &out, &weights, &grads, &grad_key, &grad_value, &grad_query, &delta, &most, &total};
    for (int i = 0; i < int(sizeof(places) / sizeof(*places)); ++i) *names[i] = static_cast<A*>(memory) + places[i];
    return true;
  }

  template <class P> P* at(const ew_nodes& x, i64 b, i64 node, int h, int width) const {
    return static_cast<P*>(x.data) + b * x.batch_stride + node * x.node_stride + i64(h) * width;
  }
  HeadRows<T> head(const ew_nodes& x, i64 b, int h, int begin, int end, int width) const {
    return {at<const T>(x, b, begin, h, width), x.node_stride, end - begin, width};
  }
  // the sources that the rows [begin, end) read, and those that lie between
  Range reach(int begin, int end) const {
    Range all{INT32_MAX, 0};
    for (int i = begin; i < end; ++i) {
      if (a.start[i] >= a.stop[i]) continue;
      if (a.start[i] < all.begin) all.begin = a.start[i];
      if (a.stop[i] > all.end) all.end = a.stop[i];
    }
    return all;
  }
  // whole vectors of the sources that are read, counted from the tile's first
  static Range whole(Range r) { return {r.begin / L * L, up_to(r.end, L)}; }
  // which of the L sources from `first` on are in the range
  static EW_INLINE auto is_in(Range r, int first) {
    using I = typename IntOf<A>::type;
    Vec<I, L> place;
    for (int i = 0; i < L; ++i) place[i] = I(i);
    return (place >= I(r.begin - first)) & (place < I(r.end - first));
  }
  // what one row reads of the sources from first to last, counted from first
  Range row_reach(int row, int first, int last) const { return Range{a.start[row], a.stop[row]}.within(first, last).from(first); }
  static bool covers(Range r, int first) { return r.begin <= first && first + L <= r.end; }

  // 1 / (1 - rate) where a weight is kept, 0 where it is dropped
  struct Mask {
    u32 low, head, member, threshold;
    A keep;
    EW_INLINE Vec<A, L> of(u32 edge) const {
      Vec<u32, L> word;
      for (int i = 0; i < L; ++i) word[i] = u32(i);
      word = mix(low ^ mix(word + edge));
      word = mix(mix(word ^ head) ^ member);
      return __builtin_convertvector(word >= threshold, Vec<A, L>) * -keep;
    }
  };
  Mask mask(i64 b, int h) const {
    const bool some = a.dropout < 1;
    return {u32(a.seed), mix(u32(h) + 0x9E3779B9u), mix(u32(b) + u32(a.seed >> 32)),
            some ? u32(a.dropout * 4294967296.0) : 0, some ? A(1) / A(1 - a.dropout) : A(0)};
  }

  // ---- forward ----

  void forward(i64 b, int h, i64 block) {
    const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
    const Range all = reach(begin, end);
    pack(query, Dp, head(a.query, b, h, begin, end, D), A(a.scale));
    zero(out, i64(up_to(n, R)) * Vp);
    for (int i = 0; i < kBlock; ++i) most[i] = -kInf<A>, total[i] = 0;
    for (int first = all.begin; first < all.end; first += kTile) {
      const int last = first + kTile < all.end ? first + kTile : all.end;
      pack_transposed(key_t, head(a.key, b, h, first, last, D));
      finite_value = pack(value, Vp, head(a.value, b, h, first, last, Dv), A(1));
      for (int g = 0; g < n; g += R) forward_group(b, h, begin, g, n - g < R ? n - g : R, first, last, first > all.begin);
    }
    A* const stats = static_cast<A*>(a.stats) + (b * a.rows + begin) * 2 * H + h;
    A* const lse = static_cast<A*>(a.lse) + (b * a.rows + begin) * H + h;
    for (int i = 0; i < n; ++i) {
      const A inverse = total[i] == 0 ? A(0) : 1 / total[i];
      narrow_row(at<T>(a.out, b, begin + i, h, Dv), out + i * Vp, Dv, inverse);
      stats[i64(i) * 2 * H] = most[i] == -kInf<A> ? A(0) : most[i];
      stats[i64(i) * 2 * H + H] = inverse;
      if (a.lse) lse[i64(i) * H] = total[i] == 0 ? -kInf<A> : most[i] + log_of(total[i]);
    }
  }

  void forward_group(i64 b, int h, int begin, int g, int count, int first, int last, bool more) {
    const Range read = reach(begin + g, begin + g + count).within(first, last).from(first), wide = whole(read);
    if (read.empty()) return;
    A* const s = weights + g * kTile;
    product<false>(query + g * Dp, Dp, 1, key_t + wide.begin, kTile, s + wide.begin, kTile, wide.end - wide.begin, D);
    Vec<A, L> lanes[R];
    for (int r = 0; r < R; ++r) {
      const Range own = r < count ? row_reach(begin + g + r, first, last) : Range{0, 0};
      lanes[r] = splat<A, L>(-kInf<A>);
      for (int j = wide.begin; j < wide.end; j += L) {
        Vec<A, L> x = load<L>(s + r * kTile + j);
        if (!covers(own, j)) {
          x = is_in(own, j) ? x : splat<A, L>(-kInf<A>);
          store<L>(s + r * kTile + j, x);
        }
        lanes[r] = x > lanes[r] ? x : lanes[r];
      }
    }
    using Rows = Vec<A, R>;
    const Rows before = load<R>(most + g), here = fold_each<Greater, A, L, R>(lanes), now = here > before ? here : before;
    const Rows shift = now == -kInf<A> ? Rows{} : now, fade = exp_vec<R>(before - shift);
    for (int r = 0; r < R; ++r) {
      lanes[r] = Vec<A, L>{};
      for (int j = wide.begin; j < wide.end; j += L) {
        const Vec<A, L> w = exp_vec<L>(load<L>(s + r * kTile + j) - shift[r]);
        lanes[r] += w;
        store<L>(s + r * kTile + j, w);
      }
    }
    store<R>(most + g, now);
    store<R>(total + g, load<R>(total + g) * fade + fold_each<Plus, A, L, R>(lanes));
    if (a.dropout > 0) drop(b, h, begin + g, count, first, wide, s);
    for (int r = 0; more && r < R; ++r)
      for (int d = 0; d < Vp; d += L) store<L>(out + (g + r) * Vp + d, load<L>(out + (g + r) * Vp + d) * fade[r]);
    add_product(s + read.begin, kTile, 1, value + read.begin * Vp, Vp, out + g * Vp, Vp, Vp, read.end - read.begin, finite_value);
  }
  void drop(i64 b, int h, int row, int count, int first, Range wide, A* s) const {
    const Mask kept = mask(b, h);
    for (int r = 0; r < count; ++r)
      for (int j = wide.begin; j < wide.end; j += L)
        store<L>(s + r * kTile + j, load<L>(s + r * kTile + j) * kept.of(edge(row + r, first + j)));
  }

  // the number of the edge from source j to target i, counted on where there is none
  u32 edge(int i, int j) const { return u32(a.edge[i]) + u32(j - a.start[i]) + u32(a.first_edge); }

  // ---- backward ----

  void backward(i64 b, int h, i64 u) {
    const i64 block_begin = a.unit[2 * u], block_end = a.unit[2 * u + 2];
    const int first_row = a.block[block_begin], last_row = a.block[block_end];
    const int first_column = a.unit[2 * u + 1], last_column = a.unit[2 * u + 3];
    zero(grad_query, i64(last_row - first_row + R) * Dp);
    const A* const grad_lse = static_cast<const A*>(a.grad_lse);
    for (int i = first_row; i < last_row; ++i) {
      const T *o = at<const T>(a.out, b, i, h, Dv), *go = at<const T>(a.grad_out, b, i, h, Dv);
      Vec<A, L> sum{};
      int d = 0;
      for (; d + L <= Dv; d += L) sum += load<L>(o + d) * load<L>(go + d);
      if (d < Dv) sum += load_some<L>(o + d, Dv - d) * load_some<L>(go + d, Dv - d);
      delta[i - first_row] = sum_lanes<L, A>(sum) - (grad_lse ? grad_lse[(b * a.rows + i) * H + h] : A(0));
    }
    for (int first = first_column; first < last_column; first += kTile) {
      const int last = first + kTile < last_column ? first + kTile : last_column;
      backward_tile(b, h, block_begin, block_end, first, last);
    }
    for (int i = first_row; a.grad_query.data && i < last_row; ++i)
      narrow_row(at<T>(a.grad_query, b, i, h, D), grad_query + i64(i - first_row) * Dp, D, A(a.scale));
  }

  void backward_tile(i64 b, int h, i64 block_begin, i64 block_end, int first, int last) {
    const int first_row = a.block[block_begin];
    zero(grad_key, i64(kTile) * Dp);
    zero(grad_value, i64(kTile) * Vp);
    bool packed = false;
    for (i64 block = block_begin; block < block_end; ++block) {
      const int begin = a.block[block], end = a.block[block + 1], n = end - begin;
      if (reach(begin, end).within(first, last).empty()) continue;
      if (!packed) {
        pack_transposed(key_t, head(a.key, b, h, first, last, D));
        pack_transposed(value_t, head(a.value, b, h, first, last, Dv));
        finite_key = pack(key, Dp, head(a.key, b, h, first, last, D), A(1));
        packed = true;
      }
      const bool finite_query = pack(query, Dp, head(a.query, b, h, begin, end, D), A(a.scale));
      const bool finite_grad = pack(out, Vp, head(a.grad_out, b, h, begin, end, Dv), A(1));
      Range read[kBlock / R];
      for (int g = 0; g < n; g += R)
        read[g / R] = backward_group(b, h, begin, g, n - g < R ? n - g : R, first, last, first_row);
      for (int j = 0; j < last - first; j += R) {
        const auto reads = [&](int g) { return read[g / R].begin < j + R && read[g / R].end > j; };
        for (int g = 0, run = 0; g < n; g = run) {  // runs of groups that read some of these sources
          for (run = g + R; run < n && reads(run) == reads(g); run += R) {}
          if (!reads(g)) continue;
          const int depth = (run < n ? run : n) - g;
          add_product(weights + g * kTile + j, 1, kTile, out + g * Vp, Vp, grad_value + j * Vp, Vp, Vp, depth, finite_grad);
          add_product(grads + g * kTile + j, 1, kTile, query + g * Dp, Dp, grad_key + j * Dp, Dp, Dp, depth, finite_query);
        }
      }
    }
    for (int j = first; j < last; ++j) {
      if (a.grad_key.data) narrow_row(at<T>(a.grad_key, b, j, h, D), grad_key + (j - first) * Dp, D, A(1));
      if (a.grad_value.data) narrow_row(at<T>(a.grad_value, b, j, h, Dv), grad_value + (j - first) * Vp, Dv, A(1));
    }
  }

  // Weights after dropout and gradients of the scores of a group, zero where a row does not read; the sources read.
  Range backward_group(i64 b, int h, int begin, int g, int count, int first, int last, int first_row) {
    const Range read = reach(begin + g, begin + g + count).within(first, last).from(first), wide = whole(read);
    if (read.empty()) return {0, 0};
    A *const s = weights + g * kTile, *const ds = grads + g * kTile;
    const int columns = wide.end - wide.begin;
    product<false>(query + g * Dp, Dp, 1, key_t + wide.begin, kTile, s + wide.begin, kTile, columns, D);
    product<false>(out + g * Vp, Vp, 1, value_t + wide.begin, kTile, ds + wide.begin, kTile, columns, Dv);
    const Mask kept = mask(b, h);
    for (int r = 0; r < count; ++r) {
      const int i = begin + g + r;
      const Range own = row_reach(i, first, last);
      const A* const stats = static_cast<const A*>(a.stats) + (b * a.rows + i) * 2 * H + h;
      const A shift = stats[0], inverse = stats[H], mean = delta[i - first_row];
      for (int j = wide.begin; j < wide.end; j += L) {
        Vec<A, L> w = exp_vec<L>(load<L>(s + r * kTile + j) - shift) * inverse, grad = load<L>(ds + r * kTile + j), after = w;
        if (a.dropout > 0) {
          const Vec<A, L> keep = kept.of(edge(i, first + j));
          grad *= keep;
          after *= keep;
        }
        grad = w * (grad - mean);
        if (!covers(own, j)) {
          const auto reads = is_in(own, j);
          after = reads ? after : Vec<A, L>{};
          grad = reads ? grad : Vec<A, L>{};
        }
        store<L>(s + r * kTile + j, after);
        store<L>(ds + r * kTile + j, grad);
      }
    }
    add_product(ds + read.begin, kTile, 1, key + read.begin * Dp, Dp, grad_query + i64(begin - first_row + g) * Dp, Dp, Dp,
                read.end - read.begin, finite_key);
    return read;
  }
};

}  // namespace EW_NS
