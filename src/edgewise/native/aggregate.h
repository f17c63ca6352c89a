// Sums and extremes over the rows of a graph, and the softmax of given scores.
#pragma once

#include "attend.h"

namespace EW_NS {

// aggregate: the engine's `side` is by target in the forward pass. The gradient for values runs the same sum on
// the transposed side, with weights found by edge number; the gradient for weights is a dot product for each edge.
template <class T, class A> struct Aggregate {
  using Loops = RowLoops<T, A>;
  const ew_aggregate_args& a;
  const ew_side& side;
  const int H, D, F, hp;
  typename Loops::Dot dot;
  typename Loops::Axpy axpy;
  A *w = nullptr, *acc, *go, *count;

  explicit Aggregate(const ew_aggregate_args& args)
      : a(args), side(*args.side), H(int(args.heads)), D(int(args.width)), F(H * D), hp(padded_heads<A>(H)), dot(Loops::dot(D)),
        axpy(Loops::axpy(D)) {}

  bool prepare() {
    const i64 buffer = ((i64(side.longest) + 1) * hp + 63) / 16 * 16, row = (F + 63) / 16 * 16;
    w = static_cast<A*>(ew::allocate((buffer + 3 * row) * i64(sizeof(A))));
    if (!w) return false;
    acc = w + buffer, go = acc + row, count = go + row;
    for (i64 i = 0; i < buffer; ++i) w[i] = 1;
    return true;
  }
  ~Aggregate() { if (w) ew::release(w); }

  i64 slot_size() const { return 2 * F; }
  A* slot(i64 b, i64 number) const { return static_cast<A*>(a.slots) + (b * side.slots + number) * slot_size(); }
  const A* weight(i64 b) const { return a.weight ? static_cast<const A*>(a.weight) + b * a.weight_batch_stride : nullptr; }

  void load_weights(i64 b, const i32* edge, int n) {
    const A* from = weight(b);
    if (!from) return;
    with_heads(H, [&](auto known) {
      const int heads = decltype(known)::value ? decltype(known)::value : H;
      for (int e = 0; e < n; ++e)
        for (int h = 0; h < heads; ++h) w[i64(e) * hp + h] = from[i64(edge[e]) * heads + h];
    });
  }
  bool extremes() const { return a.reduce == EW_MAX || a.reduce == EW_MIN; }
  static A better(A x, A y, bool greatest) {  // NaN wins, as in torch.amax
    if (x != x) return x;
    return y != y || (greatest ? y > x : y < x) ? y : x;
  }

  // acc = extreme of w v over the edges
  void extreme(i64 b, Edges edges, const i32* edge) {
    const bool greatest = a.reduce == EW_MAX;
    load_weights(b, edge, edges.n);
    for (int i = 0; i < F; ++i) acc[i] = greatest ? -kInf<A> : kInf<A>;
    for (int e = 0; e < edges.n; ++e) {
      const T* row = node_row<const T>(a.value, b, edges.index[e]);
      if (e + kAhead < edges.limit) prefetch(node_row<const T>(a.value, b, edges.index[e + kAhead]), F);
      for (int h = 0; h < H; ++h) {
        const A weight = w[i64(e) * hp + h];
        for (int d = h * D; d < (h + 1) * D; ++d) acc[d] = better(acc[d], weight * widen(row[d]), greatest);
      }
    }
  }
  void forward(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const Edges edges{side.col + first, last - first, side.edges - first};
      const i32* edge = side.edge + first;
      if (!extremes() || first == last) {
        zero(acc, F);
        load_weights(b, edge, edges.n);
        axpy(w, hp, node_row<const T>(a.value, b, 0), a.value.node_stride, edges, acc, H, D);
      } else {
        extreme(b, edges, edge);
      }
      if (chunk.slot < 0) narrow_row<T, A>(node_row<T>(a.out, b, row), acc, F, row_scale(row));
      else __builtin_memcpy(slot(b, chunk.slot), acc, F * sizeof(A));
    }
  }
  A row_scale(i64 row) const {
    const i32 degree = side.ptr[row + 1] - side.ptr[row];
    return a.reduce == EW_MEAN && degree ? A(1) / degree : A(1);
  }
  void merge(i64 b, const ew_merge& merge) {
    __builtin_memcpy(acc, slot(b, merge.slot_begin), F * sizeof(A));
    for (i32 k = merge.slot_begin + 1; k < merge.slot_end; ++k) {
      const A* part = slot(b, k);
      for (int i = 0; i < F; ++i) acc[i] = extremes() ? better(acc[i], part[i], a.reduce == EW_MAX) : acc[i] + part[i];
    }
    narrow_row<T, A>(node_row<T>(a.out, b, merge.row), acc, F, row_scale(merge.row));
  }

  // weight_grad[e, h] = grad_out[target, h] . value[source, h]
  void weight_gradient(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const i32* edge = side.edge + first;
      widen_row<T, A>(go, node_row<const T>(a.grad_out, b, row), F, 1);
      dot(go, node_row<const T>(a.value, b, 0), a.value.node_stride, {side.col + first, last - first, side.edges - first}, w, H, hp,
          D, false);
      for (int e = 0; e < last - first; ++e)
        __builtin_memcpy(static_cast<A*>(a.weight_grad) + (b * side.edges + edge[e]) * H, w + i64(e) * hp, H * sizeof(A));
    }
  }

  // ---- extremes, backward: the edges that reach the extreme share its gradient evenly ----

  static EW_INLINE bool reaches(A x, T extreme) { return widen(Narrow<T>::of(x)) == widen(extreme); }

  void count_ties(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const T* out = node_row<const T>(a.out, b, row);
      load_weights(b, side.edge + first, last - first);
      zero(acc, F);
      for (i32 e = first; e < last; ++e) {
        const T* from = node_row<const T>(a.value, b, side.col[e]);
        for (int h = 0; h < H; ++h)
          for (int d = h * D; d < (h + 1) * D; ++d) acc[d] += reaches(w[i64(e - first) * hp + h] * widen(from[d]), out[d]);
      }
      if (chunk.slot < 0) write_share(b, row);
      else __builtin_memcpy(slot(b, chunk.slot), acc, F * sizeof(A));
    }
  }
  void write_share(i64 b, i64 row) {
    A* to = static_cast<A*>(a.share) + (b * side.rows + row) * F;
    const T* grad = node_row<const T>(a.grad_out, b, row);
    for (int i = 0; i < F; ++i) to[i] = acc[i] == 0 ? 0 : widen(grad[i]) / acc[i];
  }
  void merge_ties(i64 b, const ew_merge& merge) {
    zero(acc, F);
    for (i32 k = merge.slot_begin; k < merge.slot_end; ++k)
      for (int i = 0; i < F; ++i) acc[i] += slot(b, k)[i];
    write_share(b, merge.row);
  }
  void extreme_weight_gradient(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const T* out = node_row<const T>(a.out, b, row);
      const A* share = static_cast<const A*>(a.share) + (b * side.rows + row) * F;
      load_weights(b, side.edge + first, last - first);
      for (i32 e = first; e < last; ++e) {
        const T* from = node_row<const T>(a.value, b, side.col[e]);
        for (int h = 0; h < H; ++h) {
          A sum = 0;
          for (int d = h * D; d < (h + 1) * D; ++d) {
            const A v = widen(from[d]);
            if (reaches(w[i64(e - first) * hp + h] * v, out[d])) sum += share[d] * v;
          }
          static_cast<A*>(a.weight_grad)[(b * side.edges + side.edge[e]) * H + h] = sum;
        }
      }
    }
  }
  // `side` is the transposed graph here: a row is a source, its columns are targets.
  void extreme_value_gradient(i64 b, const ew_chunk& chunk) {
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const T* value = node_row<const T>(a.value, b, row);
      load_weights(b, side.edge + first, last - first);
      zero(acc, F);
      for (i32 e = first; e < last; ++e) {
        const T* out = node_row<const T>(a.out, b, side.col[e]);
        const A* share = static_cast<const A*>(a.share) + (b * side.cols + side.col[e]) * F;
        for (int h = 0; h < H; ++h) {
          const A weight = w[i64(e - first) * hp + h];
          for (int d = h * D; d < (h + 1) * D; ++d) acc[d] += reaches(weight * widen(value[d]), out[d]) ? weight * share[d] : 0;
        }
      }
      if (chunk.slot < 0) narrow_row<T, A>(node_row<T>(a.grad_value, b, row), acc, F, 1);
      else __builtin_memcpy(slot(b, chunk.slot), acc, F * sizeof(A));
    }
  }
  void merge_value_gradient(i64 b, const ew_merge& merge) {
    zero(acc, F);
    for (i32 k = merge.slot_begin; k < merge.slot_end; ++k)
      for (int i = 0; i < F; ++i) acc[i] += slot(b, k)[i];
    narrow_row<T, A>(node_row<T>(a.grad_value, b, merge.row), acc, F, 1);
  }
};

// edge_softmax, in two passes over the edges so that a row of any length is cut into pieces: first the greatest
// score and the sum of a row (or, backward, the sum of weight times gradient), then every edge.
template <class A> struct Softmax {
  const ew_softmax_args& a;
  const ew_side& side;
  const int H;
  A* tile = nullptr;

  explicit Softmax(const ew_softmax_args& args) : a(args), side(*args.side), H(int(args.heads)) {}
  bool prepare() { return (tile = static_cast<A*>(ew::allocate((2 * H + 32) * i64(sizeof(A))))); }
  ~Softmax() { if (tile) ew::release(tile); }

  A* slot(i64 b, i64 number) const { return static_cast<A*>(a.slots) + (b * side.slots + number) * 2 * H; }
  A* stats(i64 b, i64 row) const { return static_cast<A*>(a.stats) + (b * side.rows + row) * 2 * H; }
  const A* scores(i64 b) const { return static_cast<const A*>(a.scores) + b * side.edges * H; }
  const A* grad(i64 b) const { return static_cast<const A*>(a.grad) + b * side.edges * H; }

  static EW_INLINE A exp_one(A x) { return exp_vec<kLanes<A>>(splat<A, kLanes<A>>(x))[0]; }

  void reduce(i64 b, const ew_chunk& chunk) {
    const A* s = scores(b);
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      A* to = chunk.slot < 0 ? stats(b, row) : slot(b, chunk.slot);
      for (int h = 0; h < H; ++h) to[h] = a.grad ? 0 : -kInf<A>, to[H + h] = 0;
      if (a.grad) {
        const A* g = grad(b);
        for (i32 e = first; e < last; ++e)
          for (int h = 0; h < H; ++h) to[h] += s[i64(side.edge[e]) * H + h] * g[i64(side.edge[e]) * H + h];
        continue;
      }
      for (i32 e = first; e < last; ++e)
        for (int h = 0; h < H; ++h) {
          const A v = s[i64(side.edge[e]) * H + h];
          to[h] = v > to[h] ? v : to[h];
        }
      for (int h = 0; h < H; ++h) to[h] = to[h] == -kInf<A> ? 0 : to[h];
      for (i32 e = first; e < last; ++e) add_exp(to + H, s + i64(side.edge[e]) * H, to);
    }
  }
  EW_INLINE void add_exp(A* sum, const A* s, const A* m) {
    constexpr int L = kLanes<A>;
    for (int h = 0; h < H; h += L) {
      const int n = H - h < L ? H - h : L;
      store_some<L>(sum + h, load_up_to<L, A, A>(sum + h, n) + exp_vec<L>(load_up_to<L, A, A>(s + h, n) - load_up_to<L, A, A>(m + h, n)), n);
    }
  }
  void merge(i64 b, const ew_merge& merge) {
    A* to = stats(b, merge.row);
    for (int h = 0; h < H; ++h) {
      A m = a.grad ? 0 : -kInf<A>, l = 0;
      for (i32 k = merge.slot_begin; k < merge.slot_end; ++k) {
        const A* part = slot(b, k) + h;
        if (a.grad) m += part[0];
        else if (part[H] != 0) m = part[0] > m ? part[0] : m;
      }
      if (m == -kInf<A>) m = 0;
      if (!a.grad)
        for (i32 k = merge.slot_begin; k < merge.slot_end; ++k)
          if (slot(b, k)[H + h] != 0) l += slot(b, k)[H + h] * exp_one(slot(b, k)[h] - m);
      to[h] = m, to[H + h] = l;
    }
  }
  // out = exp(s - m) / l; backward (scores are weights then): out = w (g - sum of w g)
  void write(i64 b, const ew_chunk& chunk) {
    constexpr int L = kLanes<A>;
    const A* s = scores(b);
    A* out = static_cast<A*>(a.out) + b * side.edges * H;
    for (i64 row = chunk.row_begin; row < chunk.row_end; ++row) {
      const i32 first = chunk.slot < 0 ? side.ptr[row] : chunk.edge_begin, last = chunk.slot < 0 ? side.ptr[row + 1] : chunk.edge_end;
      const A* row_stats = stats(b, row);
      for (int h = 0; h < H; ++h) tile[h] = row_stats[h], tile[H + h] = row_stats[H + h] == 0 ? 0 : 1 / row_stats[H + h];
      for (i32 e = first; e < last; ++e) {
        const i64 at = i64(side.edge[e]) * H;
        for (int h = 0; h < H; h += L) {
          const int n = H - h < L ? H - h : L;
          const Vec<A, L> v = load_up_to<L, A, A>(s + at + h, n), m = load_up_to<L, A, A>(tile + h, n);
          Vec<A, L> r;
          if (a.grad) r = v * (load_up_to<L, A, A>(grad(b) + at + h, n) - m);
          else r = exp_vec<L>(v - m) * load_up_to<L, A, A>(tile + H + h, n);
          store_some<L>(out + at + h, r, n);
        }
      }
    }
  }
};

}  // namespace EW_NS
