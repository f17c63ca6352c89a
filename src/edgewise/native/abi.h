// The C interface of the rows engine: what Python fills in and the kernels read.
//
// Every array is dense in its last axes. Node tensors are [batch, node, head, width] with a stride between
// nodes and one between batches (in elements), so a slice of a fused projection needs no copy. Edge tensors are
// in the caller's edge order. Rows are targets, sorted: edge slot p of row i has source col[p] and the caller's
// number edge[p]. "Transposed" is the same graph sorted by source.
#pragma once

#include <cstdint>

extern "C" {

enum ew_dtype { EW_F32 = 0, EW_F64 = 1, EW_BF16 = 2, EW_F16 = 3 };
enum ew_score { EW_SCORE_NONE = 0, EW_SCORE_DOT = 1, EW_SCORE_ADDITIVE = 2 };
enum ew_activation { EW_LEAKY = 0, EW_TANH = 1, EW_GELU = 2, EW_SILU = 3 };  // relu, identity: slopes 0 and 1
enum ew_reduce { EW_SUM = 0, EW_MEAN = 1, EW_MAX = 2, EW_MIN = 3 };
enum ew_status { EW_OK = 0, EW_NO_MEMORY = 1, EW_BAD_INDEX = 2, EW_BAD_ARGUMENT = 3 };

// A run of rows that one thread handles at a time, or (slot >= 0) a piece of one very long row, whose result
// goes to a numbered slot and is merged afterwards, in slot order.
typedef struct {
  int32_t row_begin, row_end, edge_begin, edge_end, slot;
} ew_chunk;

typedef struct {
  int32_t row, slot_begin, slot_end;
} ew_merge;

typedef struct {
  int64_t rows, cols, edges, chunks, merges, slots;
  int32_t longest, reserved;  // edges in the longest chunk row, at most the piece length
  const int32_t* ptr;         // [rows + 1]
  const int32_t* col;         // [edges]
  const int32_t* edge;        // [edges] the caller's edge number
  const ew_chunk* chunk;
  const ew_merge* merge;
} ew_side;

typedef struct {
  void* data;  // null: absent
  int64_t batch_stride, node_stride;
} ew_nodes;

// bias or gain: value(edge, head) = data[row(edge) * width + (width == 1 ? 0 : head)], and row(edge) is the edge
// itself or, for a table, index[edge]. The gradient has the layout of data, and one copy a batch or a group.
typedef struct {
  const void* data;
  const void* index;
  void* grad;
  int64_t batch_stride, rows;
  int32_t width, index_bits;  // index_bits 0: no table
} ew_term;

// Vectors on edges: `full` [edges, heads, width], or features [edges, count] with a weight [heads, width, count].
typedef struct {
  const void* full;
  void* full_grad;
  const void* features;
  void* features_grad;  // accumulator type, [batch, edges, count]
  const void* weight;   // accumulator type
  void* weight_grad;    // accumulator type, [groups, heads, width, count]
  int64_t full_batch_stride, features_batch_stride, count;
} ew_vectors;

typedef struct {
  int64_t size;  // sizeof, so that a library and a caller of different ages notice
  int32_t dtype, score, activation, threads;
  int64_t batch, heads, width, value_width, groups;
  double scale, slope;
  uint64_t seed;
  double dropout;
  int64_t first_edge;  // number of edge 0 in the graph that this one is a part of
  const ew_side* by_target;
  const ew_side* by_source;
  ew_nodes query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  ew_term bias, gain;
  ew_vectors edge_key, edge_value;
  const void* score_weight;  // accumulator type [heads, width]
  void* score_weight_grad;   // [groups, heads, width]
  void* lse;                 // accumulator type [batch, rows, heads]
  void* stats;               // accumulator type [batch, rows, 2, heads]: greatest score, and sum of exp(s - greatest)
  const void* grad_lse;      // accumulator type [batch, rows, heads] or null
  void* slots;               // accumulator type scratch for merges
  void* record;              // accumulator type [batch, rows, 3, heads]: greatest score, 1 / sum, weighted gradient
  void* per_edge;            // accumulator type [batch, edges, 2, heads]: score gradient, kept weight; null: computed again
  void* scores;              // accumulator type [batch, edges, heads]: scores or weights written, or their gradient read
} ew_attend_args;

typedef struct {
  int64_t size;
  int32_t dtype, reduce, threads, reserved;
  int64_t batch, heads, width;
  const ew_side* side;
  ew_nodes value, out, grad_out, grad_value;
  const void* weight;  // accumulator type [edges, heads] or null
  void* weight_grad;   // accumulator type [batch, edges, heads]
  int64_t weight_batch_stride;
  void* share;  // accumulator type [batch, rows, heads, width]: gradient of an extreme over its number of ties
  void* slots;
} ew_aggregate_args;

typedef struct {
  int64_t size;
  int32_t dtype, threads;
  int64_t batch, heads;
  const ew_side* side;
  const void* scores;   // [batch, edges, heads], float32 or float64
  const void* grad;     // null: forward
  void* out;
  void* stats;          // scratch [batch, rows, 2, heads]
  void* slots;
} ew_softmax_args;

// Targets that each read one run of sources: start[i] to stop[i], counted as edges from edge[i].
typedef struct {
  int64_t size;
  int32_t dtype, threads;
  int64_t batch, heads, width, value_width, rows, columns, blocks, units;
  const int32_t* start;  // [rows]
  const int32_t* stop;   // [rows]
  const int64_t* edge;   // [rows]
  const int32_t* block;  // [blocks + 1] first row of each
  const int32_t* unit;   // [units + 1, 2] first block and first source of each; only a unit's rows read its sources
  double scale, dropout;
  uint64_t seed;
  int64_t first_edge;
  ew_nodes query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  void* lse;             // accumulator type [batch, rows, heads]
  void* stats;           // accumulator type [batch, rows, 2, heads]: greatest score, and 1 / sum of exp(s - greatest)
  const void* grad_lse;  // accumulator type [batch, rows, heads] or null
} ew_tiles_args;

}  // extern "C"
