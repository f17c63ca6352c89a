// Fused attention over the rows of a graph, forward and backward.
//
// Forward and the gradient by rows own a target each: its score row stays in a small buffer and its sums in
// registers. The gradient by columns owns a source each. Weights are recomputed in the backward pass from the saved
// greatest score and sum, which are kept apart because m + log l loses log l where scores are large.
#pragma once

#include "abi.h"
#include "parallel.h"
#include "rows.h"

namespace EW_NS {

template <class W> EW_INLINE W mix(W word) {  // lowbias32, of one word or a vector; engines/dropout.py's, bit for bit
  word ^= word >> 16;
  word *= 0x7FEB352Du;
  word ^= word >> 15;
  word *= 0x846CA68Bu;
  return word ^ (word >> 16);
}

template <class T, class A> EW_INLINE void widen_row(A* to, const T* from, int n, A scale) {
  constexpr int L = kLanes<A>;
  int i = 0;
  for (; i + L <= n; i += L) store<L>(to + i, load<L>(from + i) * scale);
  for (; i < n; ++i) to[i] = widen(from[i]) * scale;
}
template <class T, class A> EW_INLINE void narrow_row(T* to, const A* from, int n, A scale) {
  int i = 0;
  if constexpr (sizeof(T) == sizeof(A)) {
    constexpr int L = kLanes<A>;
    for (; i + L <= n; i += L) store<L>(to + i, load<L>(from + i) * scale);
  }
  for (; i < n; ++i) to[i] = Narrow<T>::of(from[i] * scale);
}
template <class A> EW_INLINE void zero(A* to, i64 n) { __builtin_memset(to, 0, n * sizeof(A)); }

// Calls f(Const<H>) for common numbers of heads, so that loops over heads unroll, else f(Const<0>).
template <class F> EW_INLINE void with_heads(int heads, F f) {
  if (heads == 8) f(Const<8>{});
  else if (heads == 4) f(Const<4>{});
  else if (heads == 1) f(Const<1>{});
  else if (heads == 16) f(Const<16>{});
  else f(Const<0>{});
}

template <class T> EW_INLINE T* node_row(const ew_nodes& x, i64 batch, i64 node) {
  return static_cast<T*>(x.data) + batch * x.batch_stride + node * x.node_stride;
}

// What the rows of one call share, and the scratch of one thread.
template <class T, class A> struct Attend {
  using Loops = RowLoops<T, A>;
  const ew_attend_args& a;
  const ew_side& side;
  const int H, D, Dv, F, Fv, hp, period;
  const A scale;
  typename Loops::Dot dot, dot_value;
  typename Loops::Axpy axpy, axpy_value;
  typename Loops::Score additive;
  typename Loops::Grad additive_grad;
  A *s, *p, *raw, *kept, *x, *go, *acc, *wide, *ones, *tile_a, *tile_b, *tile_c, *qw, *gw, *sums, *memory = nullptr;
  T* spread = nullptr;   // edge vectors of a few edges, for a projected edge_key under an additive score
  T* spread_grad = nullptr;
  u32* head_word;
  i32* iota;
  bool bad_index = false;

  static constexpr int kSpread = 32;
  static constexpr int kRowsAhead = 4;  // the gathered rows keep the hardware from seeing that these follow each other

  Attend(const ew_attend_args& args, const ew_side& rows)
      : a(args), side(rows), H(int(args.heads)), D(int(args.width)), Dv(int(args.value_width)), F(H * D), Fv(H * Dv),
        hp(padded_heads<A>(H)), period(hp > kLanes<A> ? hp : kLanes<A>), scale(args.score == EW_SCORE_DOT ? A(args.scale) : A(1)),
        dot(Loops::dot(D)), dot_value(Loops::dot(Dv)), axpy(Loops::axpy(D)), axpy_value(Loops::axpy(Dv)),
        additive(Loops::score(D, H, args.activation)), additive_grad(Loops::grad(D, H, args.activation)) {}

  bool prepare() {
    const i64 longest = (i64(side.longest) + 1) * hp + period, most = (F > Fv ? F : Fv) + kLanes<A>;
    const i64 features = a.edge_key.count > a.edge_value.count ? a.edge_key.count : a.edge_value.count;
    const bool expands = a.score == EW_SCORE_ADDITIVE && a.edge_key.features;
    const i64 spread_size = expands ? 2 * i64(kSpread) * F : 0;
    const i64 total = 4 * longest + 5 * most + 3 * period + 3 * (features * period + kLanes<A>);
    const i64 bytes = (total + 16 * 64) * i64(sizeof(A)) + spread_size * i64(sizeof(T)) + (period + kSpread) * 4 + 256;
    memory = static_cast<A*>(ew::allocate(bytes));
    if (!memory) return false;
    A* at = memory;
    auto take = [&](i64 n) {
      A* from = at;
      at += (n + 15) / 16 * 16;  // keeps every buffer on a cache line of its own
      return from;
    };
    s = take(longest), p = take(longest), raw = take(longest), kept = take(longest);
    x = take(most), go = take(most), acc = take(most), wide = take(most), ones = take(most);
    tile_a = take(period), tile_b = take(period), tile_c = take(period);
    qw = take(features * period), gw = take(features * period), sums = take(features * period);
    head_word = reinterpret_cast<u32*>(at);
    iota = reinterpret_cast<i32*>(head_word + period);
    spread = reinterpret_cast<T*>(iota + kSpread);
    spread_grad = spread + spread_size / 2;
    for (i64 i = 0; i < most; ++i) ones[i] = 1;
    for (int h = 0; h < H; ++h) head_word[h] = mix(u32(h) + 0x9E3779B9u);
    for (int i = 0; i < kSpread; ++i) iota[i] = i;
    return true;
  }
  ~Attend() { if (memory) ew::release(memory); }

  // ---- scores ----

  const A* weight() const { return a.score_weight ? static_cast<const A*>(a.score_weight) : ones; }

  Additive<T, A> additive_terms(i64 b, const i32* edge) const {
    const T* full = static_cast<const T*>(a.edge_key.full);
    return {weight(), a.activation, A(a.slope), full ? full + b * a.edge_key.full_batch_stride : nullptr, F, edge};
  }
  const A* features(const ew_vectors& v, i64 b, i32 edge) const {
    return static_cast<const A*>(v.features) + b * v.features_batch_stride + i64(edge) * v.count;
  }

  // Vectors W e of a few edges, for the additive score, which is not linear in them.
  void expand(i64 b, const i32* edge, int n) {
    const int count = int(a.edge_key.count);
    const A* w = static_cast<const A*>(a.edge_key.weight);
    for (int e = 0; e < n; ++e) {
      const A* from = features(a.edge_key, b, edge[e]);
      for (int i = 0; i < F; ++i) {
        A sum = 0;
        for (int f = 0; f < count; ++f) sum += w[i64(i) * count + f] * from[f];
        spread[i64(e) * F + i] = Narrow<T>::of(sum);
      }
    }
  }

  // qw[f, h] = sum over d of row[h, d] W[h, d, f]: a projection moved from the edges to the node.
  void project(A* to, const A* row, const ew_vectors& v, int width) {
    const int count = int(v.count);
    const A* w = static_cast<const A*>(v.weight);
    zero(to, i64(count) * hp);
    for (int h = 0; h < H; ++h)
      for (int d = 0; d < width; ++d, w += count)
        for (int f = 0; f < count; ++f) to[f * hp + h] += row[h * width + d] * w[f];
  }
  // s[e, h] += sum over f of feature[e, f] to[f, h]
  void add_projected(A* to, const A* projected, const ew_vectors& v, i64 b, const i32* edge, int n) {
    for (int e = 0; e < n; ++e) {
      const A* from = features(v, b, edge[e]);
      for (int f = 0; f < v.count; ++f)
        for (int h = 0; h < hp; ++h) to[i64(e) * hp + h] += from[f] * projected[f * hp + h];
    }
  }
  // sums[h, f] = sum over e of w[e, h] feature[e, f]
  void sum_features(const A* w, const ew_vectors& v, i64 b, const i32* edge, int n) {
    const int count = int(v.count);
    zero(sums, i64(H) * count);
    for (int e = 0; e < n; ++e) {
      const A* from = features(v, b, edge[e]);
      for (int h = 0; h < H; ++h)
        for (int f = 0; f < count; ++f) sums[h * count + f] += w[i64(e) * hp + h] * from[f];
    }
  }
  // acc[h, d] += factor sum over f of W[h, d, f] sums[h, f]
  void add_expanded(A* to, const ew_vectors& v, int width, A factor) {
    const int count = int(v.count);
    const A* w = static_cast<const A*>(v.weight);
    for (int h = 0; h < H; ++h)
      for (int d = 0; d < width; ++d, w += count) {
        A sum = 0;
        for (int f = 0; f < count; ++f) sum += w[f] * sums[h * count + f];
        to[h * width + d] += factor * sum;
      }
  }

  i64 term_row(const ew_term& t, i32 edge) {
    if (!t.index_bits) return edge;
    const i64 row = t.index_bits == 32 ? static_cast<const i32*>(t.index)[edge] : static_cast<const i64*>(t.index)[edge];
    if (u64(row) < u64(t.rows)) return row;
    bad_index = true;
    return 0;
  }
  template <bool Multiply> void apply_term(const ew_term& t, i64 b, const i32* edge, int n, A* to) {
    const A* data = static_cast<const A*>(t.data) + b * t.batch_stride;
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e) {
        const A* from = data + term_row(t, edge[e]) * t.width;
        A* row = to + i64(e) * hp;
        if (t.width == 1) {
          for (int h = 0; h < heads; ++h) row[h] = Multiply ? row[h] * from[0] : row[h] + from[0];
        } else {
          for (int h = 0; h < heads; ++h) row[h] = Multiply ? row[h] * from[h] : row[h] + from[h];
        }
      }
    });
  }

  void load_query(i64 b, i64 row) {
    if (a.score != EW_SCORE_NONE) widen_row<T, A>(x, node_row<const T>(a.query, b, row), F, 1);
  }
  // s = score of the row's edges before gain and bias. x holds the row's own vector: the query, and `others` are the
  // keys, or the other way round.
  void raw_scores(i64 b, const ew_nodes& others, Edges edges, const i32* edge) {
    const int n = edges.n;
    if (a.score == EW_SCORE_NONE) {
      zero(s, i64(n) * hp);
      return;
    }
    const T* other = node_row<const T>(others, b, 0);
    if (hp != H)
      for (int e = 0; e < n; ++e)
        for (int h = H; h < hp; ++h) s[i64(e) * hp + h] = 0;
    if (a.score == EW_SCORE_DOT) {
      dot(x, other, others.node_stride, edges, s, H, hp, D, false);
      if (a.edge_key.full) {
        const T* full = static_cast<const T*>(a.edge_key.full) + b * a.edge_key.full_batch_stride;
        dot(x, full, F, {edge, n, edges.limit}, s, H, hp, D, true);
      }
      if (a.edge_key.features) {
        project(qw, x, a.edge_key, D);
        add_projected(s, qw, a.edge_key, b, edge, n);
      }
      // Scaled last, so that an edge's score has the same bits seen from either end.
      for (i64 i = 0; i < i64(n) * hp; ++i) s[i] *= scale;
      return;
    }
    Additive<T, A> f = additive_terms(b, edge);
    if (!a.edge_key.features) return additive(x, other, others.node_stride, edges, f, s, H, hp, D);
    f.on_edge = spread, f.edge_stride = F, f.edge = iota;
    for (int e = 0; e < n; e += kSpread) {
      const int m = n - e < kSpread ? n - e : kSpread;
      expand(b, edge + e, m);
      additive(x, other, others.node_stride, {edges.index + e, m, edges.limit - e}, f, s + i64(e) * hp, H, hp, D);
    }
  }
  void modify(i64 b, const i32* edge, int n) {
    if (a.gain.data && a.score != EW_SCORE_NONE) apply_term<true>(a.gain, b, edge, n, s);
    if (a.bias.data) apply_term<false>(a.bias, b, edge, n, s);
  }

  // ---- softmax over the buffer: heads repeat every `period` numbers ----

  EW_INLINE void fold(A* tile, bool greatest) {
    if (hp == period) return;
    for (int h = 0; h < hp; ++h) {
      A r = tile[h];
      for (int i = h + hp; i < period; i += hp) r = greatest ? (tile[i] > r ? tile[i] : r) : r + tile[i];
      for (int i = h; i < period; i += hp) tile[i] = r;
    }
  }
  EW_INLINE i64 pad(A* to, int n, A with) {
    const i64 used = i64(n) * hp, total = (used + period - 1) / period * period;
    for (i64 i = used; i < total; ++i) to[i] = with;
    return total;
  }
  // p = exp(s - m), tile_a = m (0 where nothing may be read), tile_b = sum of p
  void softmax(int n) {
    constexpr int L = kLanes<A>;
    const i64 total = pad(s, n, -kInf<A>);
    for (int c = 0; c < period; c += L) {
      Vec<A, L> m = splat<A, L>(-kInf<A>);
      for (i64 i = c; i < total; i += period) {
        const Vec<A, L> v = load<L>(s + i);
        m = v > m ? v : m;
      }
      store<L>(tile_a + c, m);
    }
    fold(tile_a, true);
    for (int i = 0; i < period; ++i) tile_a[i] = tile_a[i] == -kInf<A> ? 0 : tile_a[i];
    for (int c = 0; c < period; c += L) {
      const Vec<A, L> m = load<L>(tile_a + c);
      Vec<A, L> sum{};
      for (i64 i = c; i < total; i += period) {
        const Vec<A, L> v = exp_vec<L>(load<L>(s + i) - m);
        store<L>(p + i, v);
        sum += v;
      }
      store<L>(tile_b + c, sum);
    }
    fold(tile_b, false);
  }
  // tile_a = m, tile_b = 1 / l (0 where nothing is read)
  void load_stats(i64 b, i64 row) {
    const A* stats = static_cast<const A*>(a.stats) + (b * side.rows + row) * 2 * H;
    for (int h = 0; h < hp; ++h) {
      const A l = h < H ? stats[H + h] : 0;
      tile_a[h] = h < H ? stats[h] : 0;
      tile_b[h] = l == 0 ? 0 : 1 / l;
    }
    repeat(tile_a);
    repeat(tile_b);
  }
  // The first hp numbers of a tile over all of it.
  EW_INLINE void repeat(A* tile) {
    for (int i = hp; i < period; ++i) tile[i] = tile[i - hp];
  }
  void weights(int n) {
    constexpr int L = kLanes<A>;
    const i64 total = pad(s, n, 0);
    for (int c = 0; c < period; c += L) {
      const Vec<A, L> m = load<L>(tile_a + c), inverse = load<L>(tile_b + c);
      for (i64 i = c; i < total; i += period) store<L>(p + i, exp_vec<L>(load<L>(s + i) - m) * inverse);
    }
  }

  // to[e, h] = 1 / (1 - rate) where a weight is kept, 0 where it is dropped
  void draw_mask(A* to, i64 b, const i32* edge, int n) {
    const u64 threshold = u64(a.dropout * 4294967296.0);
    const A keep = a.dropout < 1 ? A(1) / A(1 - a.dropout) : A(0);
    const u32 low = u32(a.seed), member = mix(u32(b) + u32(a.seed >> 32));
    for (int e = 0; e < n; ++e) {
      const u32 word = mix(low ^ mix(u32(edge[e]) + u32(a.first_edge)));
      for (int h = 0; h < H; ++h) {
        const u32 drawn = mix(mix(word ^ head_word[h]) ^ member);
        to[i64(e) * hp + h] = drawn >= threshold ? keep : 0;
      }
      for (int h = H; h < hp; ++h) to[i64(e) * hp + h] = 0;
    }
  }

  // ---- forward ----

  // acc = sum of p v over the row's edges
  void sum_values(i64 b, Edges edges, const i32* edge) {
    zero(acc, Fv);
    axpy_value(p, hp, node_row<const T>(a.value, b, 0), a.value.node_stride, edges, acc, H, Dv);
    if (a.edge_value.full) {
      const T* full = static_cast<const T*>(a.edge_value.full) + b * a.edge_value.full_batch_stride;
      axpy_value(p, hp, full, Fv, {edge, edges.n, edges.limit}, acc, H, Dv);
    }
    if (a.edge_value.features) {
      sum_features(p, a.edge_value, b, edge, edges.n);
      add_expanded(acc, a.edge_value, Dv, 1);
    }
  }

  // out, lse and stats of a row from m, l and the unnormalised sum
  void finish(i64 b, i64 row, const A* m, const A* l, const A* sum) {
    T* out = node_row<T>(a.out, b, row);
    A* lse = static_cast<A*>(a.lse) + (b * side.rows + row) * H;
    A* stats = static_cast<A*>(a.stats) + (b * side.rows + row) * 2 * H;
    for (int h = 0; h < H; ++h) {
      stats[h] = m[h], stats[H + h] = l[h];
      lse[h] = l[h] == 0 ? -kInf<A> : m[h] + log_of(l[h]);
      narrow_row<T, A>(out + h * Dv, sum + h * Dv, Dv, l[h] == 0 ? 0 : 1 / l[h]);
    }
  }
  void empty_row(i64 b, i64 row) {
    for (int i = 0; i < period; ++i) tile_a[i] = tile_b[i] = 0;
    zero(acc, Fv);
    finish(b, row, tile_a, tile_b, acc);
  }

  // A row's own vectors, some rows before they are read.
  EW_INLINE void own_ahead(const ew_nodes& x, i64 b, i64 row, int n) const {
    if (x.data && row + kRowsAhead < side.rows) prefetch(node_row<const T>(x, b, row + kRowsAhead), n);
  }

  i64 slot_size() const { return 2 * H + F + Fv; }
  A* slot(i64 b, i64 number) const { return static_cast<A*>(a.slots) + (b * side.slots + number) * slot_size(); }

  void forward(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      if (first == last) {
        empty_row(b, row);
        continue;
      }
      const Edges edges{side.col + first, last - first, side.edges - first};
      const i32* edge = side.edge + first;
      own_ahead(a.query, b, row, F);
      load_query(b, row);
      raw_scores(b, a.key, edges, edge);
      modify(b, edge, edges.n);
      softmax(edges.n);
      if (a.dropout > 0) {
        draw_mask(kept, b, edge, edges.n);
        for (i64 i = 0; i < i64(edges.n) * hp; ++i) p[i] *= kept[i];
      }
      sum_values(b, edges, edge);
      if (chunk.slot < 0) {
        finish(b, row, tile_a, tile_b, acc);
        continue;
      }
      A* to = slot(b, chunk.slot);
      __builtin_memcpy(to, tile_a, H * sizeof(A));
      __builtin_memcpy(to + H, tile_b, H * sizeof(A));
      __builtin_memcpy(to + 2 * H, acc, Fv * sizeof(A));
    }
  }
  void merge_forward(i64 b, const ew_merge& merge) {
    constexpr int L = kLanes<A>;
    for (int h = 0; h < H; ++h) {
      A m = -kInf<A>, l = 0;
      for (i32 k = merge.slot_begin; k < merge.slot_end; ++k) {
        const A* part = slot(b, k);
        if (part[H + h] != 0) m = part[h] > m || part[h] != part[h] ? part[h] : m;
      }
      if (m == -kInf<A>) m = 0;
      zero(acc + h * Dv, Dv);
      for (i32 k = merge.slot_begin; k < merge.slot_end; ++k) {
        const A* part = slot(b, k);
        if (part[H + h] == 0) continue;  // nothing to read in this piece
        const A factor = exp_vec<L>(splat<A, L>(part[h] - m))[0];
        l += part[H + h] * factor;
        for (int d = 0; d < Dv; ++d) acc[h * Dv + d] += part[2 * H + h * Dv + d] * factor;
      }
      tile_a[h] = m, tile_b[h] = l;
    }
    finish(b, merge.row, tile_a, tile_b, acc);
  }

  void write_scores(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      if (first == last) continue;
      const i32* edge = side.edge + first;
      load_query(b, row);
      raw_scores(b, a.key, {side.col + first, last - first, side.edges - first}, edge);
      modify(b, edge, last - first);
      for (int e = 0; e < last - first; ++e)
        __builtin_memcpy(static_cast<A*>(a.scores) + (b * side.edges + edge[e]) * H, s + i64(e) * hp, H * sizeof(A));
    }
  }

  // ---- backward, by rows: query, bias, gain, edge vectors, score weight ----

  void load_grad(i64 b, i64 row) { widen_row<T, A>(go, node_row<const T>(a.grad_out, b, row), Fv, 1); }

  // tile_c[h] = sum over the row's edges of w dw, less the gradient of the log-sum-exp. Summed here edge by edge, so
  // that it cancels exactly where a row has one edge; a piece of a long row takes the equal go . out instead.
  void weighted_gradient(i64 b, i64 row, bool piece, i64 total) {
    constexpr int L = kLanes<A>;
    for (int c = 0; c < period; c += L) {
      Vec<A, L> sum{};
      if (!piece)
        for (i64 i = c; i < total; i += period) sum += load<L>(p + i) * load<L>(s + i);
      store<L>(tile_c + c, sum);
    }
    if (piece) {
      widen_row<T, A>(wide, node_row<const T>(a.out, b, row), Fv, 1);
      for (int h = 0; h < H; ++h)
        for (int d = h * Dv; d < (h + 1) * Dv; ++d) tile_c[h] += go[d] * wide[d];
    } else {
      fold(tile_c, false);
    }
    if (a.grad_lse) {
      const A* grad_lse = static_cast<const A*>(a.grad_lse) + (b * side.rows + row) * H;
      for (int h = 0; h < H; ++h) tile_c[h] -= grad_lse[h];
    }
    repeat(tile_c);
  }

  // s becomes the gradient of the scores, kept the weights after dropout
  void score_gradient(i64 b, i64 row, bool piece, Edges edges, const i32* edge) {
    constexpr int L = kLanes<A>;
    const int n = edges.n;
    weights(n);
    if (hp != H) zero(s, i64(n) * hp);
    dot_value(go, node_row<const T>(a.value, b, 0), a.value.node_stride, edges, s, H, hp, Dv, false);
    if (a.edge_value.full) {
      const T* full = static_cast<const T*>(a.edge_value.full) + b * a.edge_value.full_batch_stride;
      dot_value(go, full, Fv, {edge, n, edges.limit}, s, H, hp, Dv, true);
    }
    if (a.edge_value.features) {
      project(gw, go, a.edge_value, Dv);
      add_projected(s, gw, a.edge_value, b, edge, n);
    }
    const i64 total = pad(s, n, 0);
    if (a.dropout > 0) {
      draw_mask(kept, b, edge, n);
      pad(kept, n, 0);
      for (i64 i = 0; i < total; ++i) s[i] *= kept[i];
    }
    weighted_gradient(b, row, piece, total);
    for (int c = 0; c < period; c += L) {
      const Vec<A, L> delta = load<L>(tile_c + c);
      for (i64 i = c; i < total; i += period) {
        const Vec<A, L> weight = load<L>(p + i);
        store<L>(kept + i, a.dropout > 0 ? weight * load<L>(kept + i) : weight);
        store<L>(s + i, weight * (load<L>(s + i) - delta));
      }
    }
  }

  void term_gradient(const ew_term& t, i64 b, i64 group, const i32* edge, int n, const A* by) {
    const i64 copy = t.index_bits ? group * t.rows * t.width : b * side.edges * t.width;
    A* grad = static_cast<A*>(t.grad) + copy;
    for (int e = 0; e < n; ++e) {
      A* to = grad + term_row(t, edge[e]) * t.width;
      const A* from = s + i64(e) * hp;
      const A* times = by ? by + i64(e) * hp : ones;
      A sum = 0;
      for (int h = 0; h < H; ++h) {
        const A g = from[h] * (by ? times[h] : A(1));
        if (t.width == 1) sum += g;
        else if (t.index_bits) to[h] += g;
        else to[h] = g;
      }
      if (t.width == 1) *to = t.index_bits ? *to + sum : sum;
    }
  }

  // Gradients of full edge vectors: w[e, h] row[h]
  void vector_gradient(T* to, const A* w, const A* row, const i32* edge, int n, int width) {
    for (int e = 0; e < n; ++e) {
      T* at = to + i64(edge[e]) * H * width;
      for (int h = 0; h < H; ++h) narrow_row<T, A>(at + h * width, row + h * width, width, w[i64(e) * hp + h]);
    }
  }
  // Gradients of features: grad[e, f] += sum over h of w[e, h] projected[f, h], and of the weight, which needs `sums`.
  void projected_gradient(const ew_vectors& v, const A* w, const A* projected, const A* row, i64 b, i64 group, const i32* edge,
                          int n, int width) {
    const int count = int(v.count);
    if (v.features_grad)
      for (int e = 0; e < n; ++e) {
        A* to = static_cast<A*>(v.features_grad) + (b * side.edges + edge[e]) * count;
        for (int f = 0; f < count; ++f) {
          A sum = 0;
          for (int h = 0; h < H; ++h) sum += w[i64(e) * hp + h] * projected[f * hp + h];
          to[f] += sum;
        }
      }
    if (v.weight_grad) {
      A* to = static_cast<A*>(v.weight_grad) + group * H * width * count;
      for (int h = 0; h < H; ++h)
        for (int d = 0; d < width; ++d, to += count)
          for (int f = 0; f < count; ++f) to[f] += row[h * width + d] * sums[h * count + f];
    }
  }

  void additive_gradients(i64 b, i64 group, Edges edges, const i32* edge) {
    const T* key = node_row<const T>(a.key, b, 0);
    A* da = a.score_weight_grad ? wide : nullptr;  // of this row alone: short sums round less
    if (da) zero(da, F);
    T* dedge = a.edge_key.full_grad ? static_cast<T*>(a.edge_key.full_grad) + b * side.edges * F : nullptr;
    Additive<T, A> f = additive_terms(b, edge);
    if (!a.edge_key.features) {
      additive_grad(x, key, a.key.node_stride, edges, f, s, acc, da, dedge, H, hp, D);
    } else {
      f.on_edge = spread, f.edge_stride = F, f.edge = iota;
      const bool wanted = a.edge_key.features_grad || a.edge_key.weight_grad;
      for (int e = 0; e < edges.n; e += kSpread) {
        const int m = edges.n - e < kSpread ? edges.n - e : kSpread;
        expand(b, edge + e, m);
        additive_grad(x, key, a.key.node_stride, {edges.index + e, m, edges.limit - e}, f, s + i64(e) * hp, acc, da,
                      wanted ? spread_grad : nullptr, H, hp, D);
        if (wanted) unexpand(b, group, edge + e, m);
      }
    }
    if (!da) return;
    A* to = static_cast<A*>(a.score_weight_grad) + group * F;
    for (int i = 0; i < F; ++i) to[i] += da[i];
  }
  // From the gradient of expanded edge vectors to that of the features and the weight.
  void unexpand(i64 b, i64 group, const i32* edge, int n) {
    const int count = int(a.edge_key.count);
    const A* w = static_cast<const A*>(a.edge_key.weight);
    A* dw = a.edge_key.weight_grad ? static_cast<A*>(a.edge_key.weight_grad) + group * F * count : nullptr;
    for (int e = 0; e < n; ++e) {
      const A* from = features(a.edge_key, b, edge[e]);
      A* to = a.edge_key.features_grad ? static_cast<A*>(a.edge_key.features_grad) + (b * side.edges + edge[e]) * count : nullptr;
      for (int i = 0; i < F; ++i) {
        const A g = widen(spread_grad[i64(e) * F + i]);
        for (int f = 0; f < count; ++f) {
          if (to) to[f] += g * w[i64(i) * count + f];
          if (dw) dw[i64(i) * count + f] += g * from[f];
        }
      }
    }
  }

  void value_gradients(i64 b, i64 group, const i32* edge, int n) {
    if (a.edge_value.full_grad)
      vector_gradient(static_cast<T*>(a.edge_value.full_grad) + b * side.edges * Fv, kept, go, edge, n, Dv);
    if (a.edge_value.features_grad || a.edge_value.weight_grad) {
      sum_features(kept, a.edge_value, b, edge, n);
      projected_gradient(a.edge_value, kept, gw, go, b, group, edge, n, Dv);
    }
  }
  // acc += gradient of the query; s is the gradient of the scores before gain and bias
  void score_gradients(i64 b, i64 group, Edges edges, const i32* edge) {
    const int n = edges.n;
    if (a.score == EW_SCORE_ADDITIVE) return additive_gradients(b, group, edges, edge);
    for (i64 i = 0; i < i64(n) * hp; ++i) s[i] *= scale;
    if (a.edge_key.full_grad)
      vector_gradient(static_cast<T*>(a.edge_key.full_grad) + b * side.edges * F, s, x, edge, n, D);
    if (a.edge_key.features) {
      sum_features(s, a.edge_key, b, edge, n);
      if (a.edge_key.features_grad || a.edge_key.weight_grad)
        projected_gradient(a.edge_key, s, qw, x, b, group, edge, n, D);
    }
    if (!a.grad_query.data) return;
    axpy(s, hp, node_row<const T>(a.key, b, 0), a.key.node_stride, edges, acc, H, D);
    if (a.edge_key.full) {
      const T* full = static_cast<const T*>(a.edge_key.full) + b * a.edge_key.full_batch_stride;
      axpy(s, hp, full, F, {edge, n, edges.limit}, acc, H, D);
    }
    if (a.edge_key.features) add_expanded(acc, a.edge_key, D, 1);
  }

  void grad_rows(i64 b, i64 group, const ew_chunk& chunk) {
    const bool given = !a.grad_out.data;  // the gradient of the scores is an argument
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const int n = last - first;
      const Edges edges{side.col + first, n, side.edges - first};
      const i32* edge = side.edge + first;
      zero(acc, F);
      own_ahead(a.query, b, row, F);
      own_ahead(a.grad_out, b, row, Fv);
      if (n) {
        load_query(b, row);
        const bool scored = !given || (a.gain.data && a.gain.grad) || a.edge_key.features;
        if (scored) raw_scores(b, a.key, edges, edge);
        if (a.gain.grad) __builtin_memcpy(raw, s, i64(n) * hp * sizeof(A));
        if (given) {
          for (int e = 0; e < n; ++e) {
            const A* from = static_cast<const A*>(a.scores) + (b * side.edges + edge[e]) * H;
            for (int h = 0; h < hp; ++h) s[i64(e) * hp + h] = h < H ? from[h] : 0;
          }
        } else {
          modify(b, edge, n);
          load_stats(b, row);
          load_grad(b, row);
          score_gradient(b, row, chunk.slot >= 0, edges, edge);
          if (a.record && first == side.ptr[row]) save_record(b, row);
          value_gradients(b, group, edge, n);
        }
        if (a.bias.grad) term_gradient(a.bias, b, group, edge, n, nullptr);
        if (a.gain.grad) term_gradient(a.gain, b, group, edge, n, raw);
        if (a.gain.data && a.score != EW_SCORE_NONE) apply_term<true>(a.gain, b, edge, n, s);
        if (a.score != EW_SCORE_NONE) score_gradients(b, group, edges, edge);
        if (a.per_edge) save_edges(b, edge, n);
      }
      if (!a.grad_query.data) continue;
      if (chunk.slot < 0) narrow_row<T, A>(node_row<T>(a.grad_query, b, row), acc, F, 1);
      else __builtin_memcpy(slot(b, chunk.slot), acc, F * sizeof(A));
    }
  }
  void save_record(i64 b, i64 row) {
    A* to = static_cast<A*>(a.record) + (b * side.rows + row) * 3 * H;
    for (int h = 0; h < H; ++h) to[h] = tile_a[h], to[H + h] = tile_b[h], to[2 * H + h] = tile_c[h];
  }
  void save_edges(i64 b, const i32* edge, int n) {
    A* per_edge = static_cast<A*>(a.per_edge) + b * side.edges * 2 * H;
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e) {
        A* to = per_edge + i64(edge[e]) * 2 * heads;
        for (int h = 0; h < heads; ++h) to[h] = s[i64(e) * hp + h];
        for (int h = 0; h < heads; ++h) to[heads + h] = kept[i64(e) * hp + h];
      }
    });
  }
  void merge_rows(i64 b, const ew_merge& merge) {
    zero(acc, F);
    for (i32 k = merge.slot_begin; k < merge.slot_end; ++k) {
      const A* part = slot(b, k);
      for (int i = 0; i < F; ++i) acc[i] += part[i];
    }
    narrow_row<T, A>(node_row<T>(a.grad_query, b, merge.row), acc, F, 1);
  }

  // ---- backward, by columns: key and value. `side` is the transposed graph: rows are sources. ----

  // Scores, weights and their gradients are computed again, each edge from the other end: that costs arithmetic,
  // which is idle while rows are gathered, and saves an E×H array, its page faults and its cache misses. Only edge
  // vectors, which a dot product takes on one side, come from such an array (`per_edge`).
  void grad_columns(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const int n = last - first;
      const Edges edges{side.col + first, n, side.edges - first};
      const i32* edge = side.edge + first;
      own_ahead(a.key, b, row, F);
      own_ahead(a.value, b, row, Fv);
      if (a.per_edge) load_edges(b, edge, n);
      else if (!a.grad_out.data) load_given(b, edge, n);
      else column_gradient(b, row, edges, edge);
      if (!a.per_edge && a.score == EW_SCORE_DOT)
        for (i64 i = 0; i < i64(n) * hp; ++i) s[i] *= scale;
      if (a.grad_key.data) {
        zero(acc, F);
        key_gradient(b, row, edges, edge);
        if (chunk.slot < 0) narrow_row<T, A>(node_row<T>(a.grad_key, b, row), acc, F, 1);
        else __builtin_memcpy(slot(b, chunk.slot), acc, F * sizeof(A));
      }
      if (a.grad_value.data) {
        zero(acc, Fv);
        axpy_value(p, hp, node_row<const T>(a.grad_out, b, 0), a.grad_out.node_stride, edges, acc, H, Dv);
        if (chunk.slot < 0) narrow_row<T, A>(node_row<T>(a.grad_value, b, row), acc, Fv, 1);
        else __builtin_memcpy(slot(b, chunk.slot) + F, acc, Fv * sizeof(A));
      }
    }
  }
  // s = gradient of the scores before gain and bias, p = weights after dropout
  void column_gradient(i64 b, i64 row, Edges edges, const i32* edge) {
    constexpr int L = kLanes<A>;
    const int n = edges.n;
    const A* record = static_cast<const A*>(a.record) + b * side.cols * 3 * H;
    for (int e = kAhead; e < n + kAhead && e < edges.limit; ++e) prefetch(record + i64(edges.index[e]) * 3 * H, 3 * H);
    if (a.score != EW_SCORE_NONE) widen_row<T, A>(x, node_row<const T>(a.key, b, row), F, 1);
    raw_scores(b, a.query, edges, edge);
    modify(b, edge, n);
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e) {
        const A* from = record + i64(edges.index[e]) * 3 * heads;
        for (int h = 0; h < heads; ++h) s[i64(e) * hp + h] -= from[h];
      }
    });
    const i64 total = pad(s, n, 0);
    for (i64 i = 0; i < total; i += L) store<L>(p + i, exp_vec<L>(load<L>(s + i)));
    if (a.grad_key.data) {
      widen_row<T, A>(go, node_row<const T>(a.value, b, row), Fv, 1);
      dot_value(go, node_row<const T>(a.grad_out, b, 0), a.grad_out.node_stride, edges, s, H, hp, Dv, false);
    }
    if (a.dropout > 0) draw_mask(kept, b, edge, n);
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e) {
        const A* from = record + i64(edges.index[e]) * 3 * heads;
        A *se = s + i64(e) * hp, *pe = p + i64(e) * hp;
        const A* mask = a.dropout > 0 ? kept + i64(e) * hp : ones;
        for (int h = 0; h < heads; ++h) {
          const A weight = pe[h] * from[heads + h];
          se[h] = weight * (se[h] * mask[h] - from[2 * heads + h]);
          pe[h] = weight * mask[h];
        }
      }
    });
    if (a.gain.data && a.score != EW_SCORE_NONE) apply_term<true>(a.gain, b, edge, n, s);
  }
  void load_given(i64 b, const i32* edge, int n) {
    const A* given = static_cast<const A*>(a.scores) + b * side.edges * H;
    for (int e = 0; e < n; ++e)
      for (int h = 0; h < H; ++h) s[i64(e) * hp + h] = given[i64(edge[e]) * H + h];
    if (a.gain.data && a.score != EW_SCORE_NONE) apply_term<true>(a.gain, b, edge, n, s);
  }
  void load_edges(i64 b, const i32* edge, int n) {
    const A* per_edge = static_cast<const A*>(a.per_edge) + b * side.edges * 2 * H;
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e) {
        const A* from = per_edge + i64(edge[e]) * 2 * heads;
        for (int h = 0; h < heads; ++h) s[i64(e) * hp + h] = from[h];
        for (int h = 0; h < heads; ++h) p[i64(e) * hp + h] = from[heads + h];
      }
    });
  }
  void key_gradient(i64 b, i64 row, Edges edges, const i32* edge) {
    const T* query = node_row<const T>(a.query, b, 0);
    if (a.score == EW_SCORE_DOT) return axpy(s, hp, query, a.query.node_stride, edges, acc, H, D);
    widen_row<T, A>(x, node_row<const T>(a.key, b, row), F, 1);
    Additive<T, A> f = additive_terms(b, edge);
    if (!a.edge_key.features)
      return additive_grad(x, query, a.query.node_stride, edges, f, s, acc, nullptr, nullptr, H, hp, D);
    f.on_edge = spread, f.edge_stride = F, f.edge = iota;
    for (int e = 0; e < edges.n; e += kSpread) {
      const int m = edges.n - e < kSpread ? edges.n - e : kSpread;
      expand(b, edge + e, m);
      additive_grad(x, query, a.query.node_stride, {edges.index + e, m, edges.limit - e}, f, s + i64(e) * hp, acc, nullptr, nullptr,
                    H, hp, D);
    }
  }
  void merge_columns(i64 b, const ew_merge& merge) {
    for (int which = 0; which < 2; ++which) {
      const ew_nodes& to = which ? a.grad_value : a.grad_key;
      const int size = which ? Fv : F;
      if (!to.data) continue;
      zero(acc, size);
      for (i32 k = merge.slot_begin; k < merge.slot_end; ++k) {
        const A* part = slot(b, k) + (which ? F : 0);
        for (int i = 0; i < size; ++i) acc[i] += part[i];
      }
      narrow_row<T, A>(node_row<T>(to, b, merge.row), acc, size, 1);
    }
  }
};

}  // namespace EW_NS
