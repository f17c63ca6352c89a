// One instruction set and one storage type: compiled with EW_NS, EW_TABLE, EW_STORAGE and EW_ACCUMULATE defined.
#include "kernels.h"

#include "aggregate.h"
#include "tiles.h"

namespace EW_NS {

using T = EW_STORAGE;
using A = EW_ACCUMULATE;

// Every thread makes its own state and claims items until none is left. An item is a batch member and a chunk,
// or, where gradients of parameters are summed, a group of consecutive items with a sum of its own: the number of
// groups is given by the caller from the sizes alone.
template <class State, class Args, class Body> struct Job {
  const Args& args;
  const Body& body;
  ew::Counter counter;
  i32 status;

  static void work(void* self) {
    Job& job = *static_cast<Job*>(self);
    i64 item = job.counter.claim();
    if (item < 0) return;
    State state(job.args);
    if (!state.prepare()) {
      __atomic_store_n(&job.status, EW_NO_MEMORY, __ATOMIC_RELAXED);
      return;
    }
    for (; item >= 0; item = job.counter.claim()) job.body(state, item);
    if (state.failed()) __atomic_store_n(&job.status, EW_BAD_INDEX, __ATOMIC_RELAXED);
  }
};
template <class State, class Args, class Body> i32 run(const Args& args, i64 items, int threads, const Body& body) {
  Job<State, Args, Body> job{args, body, {0, items}, EW_OK};
  ew::run_team(items < threads ? int(items) : threads, job.work, &job);
  return job.status;
}

struct ByTarget : Attend<T, A> {
  explicit ByTarget(const ew_attend_args& args) : Attend<T, A>(args, *args.by_target) {}
  bool failed() const { return bad_index; }
};
struct BySource : Attend<T, A> {
  explicit BySource(const ew_attend_args& args) : Attend<T, A>(args, *args.by_source) {}
  bool failed() const { return bad_index; }
};
struct Sum : Aggregate<T, A> {
  explicit Sum(const ew_aggregate_args& args) : Aggregate<T, A>(args) {}
  bool failed() const { return false; }
};
struct Normal : Softmax<A> {
  explicit Normal(const ew_softmax_args& args) : Softmax<A>(args) {}
  bool failed() const { return false; }
};

template <class State, class Args, class Body> i32 each_chunk(const Args& args, const ew_side& side, const Body& body) {
  return run<State>(args, args.batch * side.chunks, args.threads,
                    [&](State& state, i64 item) { body(state, item / side.chunks, side.chunk[item % side.chunks]); });
}
template <class State, class Args, class Body> i32 each_merge(const Args& args, const ew_side& side, i32 status, const Body& body) {
  if (status != EW_OK || !side.merges) return status;
  return run<State>(args, args.batch * side.merges, args.threads,
                    [&](State& state, i64 item) { body(state, item / side.merges, side.merge[item % side.merges]); });
}

static i32 attend(const ew_attend_args* args) {
  const ew_side& side = *args->by_target;
  const i32 status = each_chunk<ByTarget>(*args, side, [](ByTarget& s, i64 b, const ew_chunk& c) { s.forward(b, c); });
  return each_merge<ByTarget>(*args, side, status, [](ByTarget& s, i64 b, const ew_merge& m) { s.merge_forward(b, m); });
}

static i32 attend_grad_rows(const ew_attend_args* args) {
  const ew_side& side = *args->by_target;
  const i64 items = args->batch * side.chunks, groups = args->groups > 0 && args->groups < items ? args->groups : items;
  const i32 status = run<ByTarget>(*args, groups, args->threads, [&](ByTarget& state, i64 group) {
    for (i64 item = items * group / groups; item < items * (group + 1) / groups; ++item)
      state.grad_rows(item / side.chunks, group, side.chunk[item % side.chunks]);
  });
  if (!args->grad_query.data) return status;
  return each_merge<ByTarget>(*args, side, status, [](ByTarget& s, i64 b, const ew_merge& m) { s.merge_rows(b, m); });
}

static i32 attend_grad_columns(const ew_attend_args* args) {
  const ew_side& side = *args->by_source;
  const i32 status = each_chunk<BySource>(*args, side, [](BySource& s, i64 b, const ew_chunk& c) { s.grad_columns(b, c); });
  return each_merge<BySource>(*args, side, status, [](BySource& s, i64 b, const ew_merge& m) { s.merge_columns(b, m); });
}

static i32 edge_scores(const ew_attend_args* args) {
  return each_chunk<ByTarget>(*args, *args->by_target, [](ByTarget& s, i64 b, const ew_chunk& c) { s.write_scores(b, c); });
}

static i32 softmax(const ew_softmax_args* args) {
  const ew_side& side = *args->side;
  i32 status = each_chunk<Normal>(*args, side, [](Normal& s, i64 b, const ew_chunk& c) { s.reduce(b, c); });
  status = each_merge<Normal>(*args, side, status, [](Normal& s, i64 b, const ew_merge& m) { s.merge(b, m); });
  if (status != EW_OK) return status;
  return each_chunk<Normal>(*args, side, [](Normal& s, i64 b, const ew_chunk& c) { s.write(b, c); });
}

static i32 aggregate(const ew_aggregate_args* args) {
  const ew_side& side = *args->side;
  const i32 status = each_chunk<Sum>(*args, side, [](Sum& s, i64 b, const ew_chunk& c) { s.forward(b, c); });
  return each_merge<Sum>(*args, side, status, [](Sum& s, i64 b, const ew_merge& m) { s.merge(b, m); });
}

// For weights, over rows by target. Extremes also need the ties counted first, into `share`.
static i32 aggregate_grad_rows(const ew_aggregate_args* args) {
  const ew_side& side = *args->side;
  if (args->reduce == EW_SUM || args->reduce == EW_MEAN)
    return each_chunk<Sum>(*args, side, [](Sum& s, i64 b, const ew_chunk& c) { s.weight_gradient(b, c); });
  i32 status = each_chunk<Sum>(*args, side, [](Sum& s, i64 b, const ew_chunk& c) { s.count_ties(b, c); });
  status = each_merge<Sum>(*args, side, status, [](Sum& s, i64 b, const ew_merge& m) { s.merge_ties(b, m); });
  if (status != EW_OK || !args->weight_grad) return status;
  return each_chunk<Sum>(*args, side, [](Sum& s, i64 b, const ew_chunk& c) { s.extreme_weight_gradient(b, c); });
}

// For values of an extreme, over the transposed side; a sum is its own gradient there.
static i32 aggregate_grad_columns(const ew_aggregate_args* args) {
  const ew_side& side = *args->side;
  const i32 status = each_chunk<Sum>(*args, side, [](Sum& s, i64 b, const ew_chunk& c) { s.extreme_value_gradient(b, c); });
  return each_merge<Sum>(*args, side, status, [](Sum& s, i64 b, const ew_merge& m) { s.merge_value_gradient(b, m); });
}

// Every part (a block or a unit of targets) of every head of every batch member.
template <bool Backward, class Body> i32 each_part(const ew_tiles_args& args, i64 parts, const Body& body) {
  if (!fits(args)) return EW_BAD_ARGUMENT;
  using State = Tiles<T, A, Backward>;
  const i64 heads = args.heads;
  return run<State>(args, args.batch * heads * parts, args.threads, [&](State& state, i64 item) {
    body(state, item / (heads * parts), int(item / parts % heads), item % parts);
  });
}

static i32 tiles(const ew_tiles_args* args) {
  return each_part<false>(*args, args->blocks, [](auto& s, i64 b, int h, i64 block) { s.forward(b, h, block); });
}

static i32 tiles_grad(const ew_tiles_args* args) {
  return each_part<true>(*args, args->units, [](auto& s, i64 b, int h, i64 unit) { s.backward(b, h, unit); });
}

}  // namespace EW_NS

extern const ew::Kernels EW_TABLE;
const ew::Kernels EW_TABLE = {EW_NS::attend,  EW_NS::attend_grad_rows, EW_NS::attend_grad_columns, EW_NS::edge_scores,
                              EW_NS::softmax, EW_NS::aggregate,        EW_NS::aggregate_grad_rows, EW_NS::aggregate_grad_columns,
                              EW_NS::tiles,   EW_NS::tiles_grad};
