// Kernels for one instruction set and one storage type; EW_NS, EW_TABLE, EW_STORAGE and
// EW_ACCUMULATE are defined on the command line of the compiler. This file divides the work between
// threads; the stages in the headers compute.
#include "kernels.h"

#include "aggregate.h"
#include "attend_backward_sources.h"
#include "attend_backward_targets.h"
#include "attend_forward.h"
#include "softmax.h"
#include "tiles_backward.h"
#include "tiles_forward.h"

namespace EW_NS {

// Each thread creates a stage of its own, and takes items of work until none is left.
template <class Stage, class Args, class Body> struct Job {
  const Args& args;
  const Body& body;
  ew::Counter counter;
  i32 status;

  static void work(void* self) {
    Job& job = *static_cast<Job*>(self);
    i64 item = job.counter.claim();
    if (item < 0) return;
    Stage stage(job.args);
    if (!stage.prepare()) {
      __atomic_store_n(&job.status, EW_NO_MEMORY, __ATOMIC_RELAXED);
      return;
    }
    for (; item >= 0; item = job.counter.claim()) job.body(stage, item);
    if (stage.bad_index) __atomic_store_n(&job.status, EW_BAD_INDEX, __ATOMIC_RELAXED);
  }
};
template <class Stage, class Args, class Body>
i32 run(const Args& args, i64 items, const Body& body) {
  Job<Stage, Args, Body> job{args, body, {0, items}, EW_OK};
  ew::run_team(items < args.threads ? int(items) : args.threads, job.work, &job);
  return job.status;
}

template <class Stage> A* slot(Stage& stage, const ew_side& side, i64 batch, i64 number) {
  return stage.slots + (batch * side.slots + number) * stage.result_size;
}
template <class Stage>
EW_OUTLINE void compute_chunk(Stage& stage, const ew_side& side, i64 batch, i64 group,
                              const ew_chunk& chunk) {
  each_row(side, batch, group, chunk, [&](const Row& row) {
    stage.compute(row);
    if (row.whole) stage.finish(batch, row.node);
    else copy(slot(stage, side, batch, chunk.slot), stage.result, stage.result_size);
  });
}
template <class Stage>
EW_OUTLINE void merge_pieces(Stage& stage, const ew_side& side, i64 batch, const ew_merge& pieces) {
  if (!stage.result_size) return;
  const int count = pieces.slot_end - pieces.slot_begin;
  stage.merge({slot(stage, side, batch, pieces.slot_begin), stage.result_size, count});
  stage.finish(batch, pieces.row);
}

// Runs a stage over all rows of all examples of the batch, then merges the pieces of long rows. The
// items of work are chunks. If gradients of parameters are summed, the items are groups of
// consecutive chunks, and each group has its own partial sum. The caller chooses the number of
// groups from the sizes, not from the number of threads.
template <class Stage, class Args>
i32 run_rows(const Args& args, const ew_side& side, i64 most_groups = 0) {
  const i64 chunks = args.batch * side.chunks;
  const i64 groups = most_groups > 0 && most_groups < chunks ? most_groups : chunks;
  const i32 status = run<Stage>(args, groups, [&](Stage& stage, i64 group) {
    for (i64 item = chunks * group / groups; item < chunks * (group + 1) / groups; ++item)
      compute_chunk(stage, side, item / side.chunks, group, side.chunk[item % side.chunks]);
  });
  if (status != EW_OK || !side.merges) return status;
  return run<Stage>(args, args.batch * side.merges, [&](Stage& stage, i64 item) {
    merge_pieces(stage, side, item / side.merges, side.merge[item % side.merges]);
  });
}

static i32 attend(const ew_attend_args* args) {
  return run_rows<AttendForward>(*args, *args->by_target);
}
static i32 attend_grad_rows(const ew_attend_args* args) {
  return run_rows<AttendBackwardTargets>(*args, *args->by_target, args->groups);
}
static i32 attend_grad_columns(const ew_attend_args* args) {
  return run_rows<AttendBackwardSources>(*args, *args->by_source);
}
static i32 edge_scores(const ew_attend_args* args) {
  return run_rows<EdgeScores>(*args, *args->by_target);
}

static i32 softmax(const ew_softmax_args* args) {
  if constexpr (sizeof(T) == sizeof(A)) {
    const i32 status = run_rows<SoftmaxTotals>(*args, *args->side);
    return status == EW_OK ? run_rows<SoftmaxEdges>(*args, *args->side) : status;
  }
  return EW_BAD_ARGUMENT;  // Scores must have the accumulation type.
}

static i32 aggregate(const ew_aggregate_args* args) {
  return run_rows<AggregateForward>(*args, *args->side);
}
// Computes the gradients of weights, over targets. For an extreme, it first computes `share`, which
// the gradients of the values need too.
static i32 aggregate_grad_rows(const ew_aggregate_args* args) {
  if (args->reduce == EW_SUM || args->reduce == EW_MEAN)
    return run_rows<SumWeightGradient>(*args, *args->side);
  const i32 status = run_rows<ExtremeShare>(*args, *args->side);
  if (status != EW_OK || !args->weight_grad) return status;
  return run_rows<ExtremeWeightGradient>(*args, *args->side);
}
// Computes the gradients of an extreme with respect to the values, over sources. For a sum, the
// caller runs `aggregate` instead.
static i32 aggregate_grad_columns(const ew_aggregate_args* args) {
  return run_rows<ExtremeValueGradient>(*args, *args->side);
}

// Runs a stage over all parts (blocks or chunks of targets, or shared tiles), for all heads and all
// examples of the batch.
template <class Stage> i32 run_tiles(const ew_tiles_args& args, i64 heads, i64 parts) {
  return run<Stage>(args, args.batch * heads * parts, [&](Stage& stage, i64 item) {
    stage.compute(item / (heads * parts), int(item / parts % heads), item % parts);
  });
}
static i32 tiles(const ew_tiles_args* args) {
  return run_tiles<TilesForward>(*args, args->heads, args->blocks);
}
static i32 tiles_grad(const ew_tiles_args* args) {
  const i32 status = run_tiles<TilesBackward>(*args, args->key_heads, args->chunks);
  return status == EW_OK ? run_tiles<TilesMerge>(*args, args->key_heads, args->merges) : status;
}

}  // namespace EW_NS

extern const ew::Kernels EW_TABLE;
const ew::Kernels EW_TABLE = {EW_NS::attend,
                              EW_NS::attend_grad_rows,
                              EW_NS::attend_grad_columns,
                              EW_NS::edge_scores,
                              EW_NS::softmax,
                              EW_NS::aggregate,
                              EW_NS::aggregate_grad_rows,
                              EW_NS::aggregate_grad_columns,
                              EW_NS::tiles,
                              EW_NS::tiles_grad};
