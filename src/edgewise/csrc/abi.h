// C interface of the kernels: structures that Python fills in. One field per line, as Python parses
// this file.
//
// All arrays are dense in their last axes. Node tensors are [batch, node, head, width] with a stride
// between nodes and one between batch members, in elements, so that slices of a fused projection
// need no copy. Edge tensors are in the caller's edge order. Rows are targets, and edges are sorted
// by row: entry p of a row has the source col[p] and the caller's edge number edge[p]. "Transposed"
// means the same graph sorted by source. Arrays marked A have the accumulation type: float64 for
// float64, else float32.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ew_dtype { EW_F32 = 0, EW_F64 = 1, EW_BF16 = 2, EW_F16 = 3 };
enum ew_score { EW_SCORE_NONE = 0, EW_SCORE_DOT = 1, EW_SCORE_ADDITIVE = 2 };
enum ew_activation { EW_LEAKY = 0, EW_TANH = 1, EW_GELU = 2, EW_SILU = 3 };  // ReLU: slope 0
enum ew_reduce { EW_SUM = 0, EW_MEAN = 1, EW_MAX = 2, EW_MIN = 3 };
enum ew_status { EW_OK = 0, EW_NO_MEMORY = 1, EW_BAD_INDEX = 2, EW_BAD_ARGUMENT = 3 };

// A range of rows that one thread handles at a time, or (slot >= 0) a piece of one very long row.
// Results of pieces go to slots, which are merged afterwards in order.
typedef struct {
  int32_t row_begin;
  int32_t row_end;
  int32_t edge_begin;
  int32_t edge_end;
  int32_t slot;
} ew_chunk;

typedef struct {
  int32_t row;
  int32_t slot_begin;
  int32_t slot_end;
} ew_merge;

typedef struct {
  int64_t rows;
  int64_t cols;
  int64_t edges;
  int64_t chunks;
  int64_t merges;
  int64_t slots;
  int32_t longest;  // edges in the longest chunk row, at most the piece length
  int32_t reserved;
  const int32_t* ptr;   // [rows + 1]
  const int32_t* col;   // [edges]
  const int32_t* edge;  // [edges] the caller's edge number
  const ew_chunk* chunk;
  const ew_merge* merge;
} ew_side;

typedef struct {
  void* data;  // null: absent
  int64_t batch_stride;
  int64_t node_stride;
} ew_nodes;

// Bias or gain: value(edge, head) = data[row(edge) * width + (width == 1 ? 0 : head)], where
// row(edge) is the edge itself or, for a table, index[edge]. The gradient has the layout of data,
// with one copy for each batch member or group.
typedef struct {
  const void* data;
  const void* index;
  void* grad;
  int64_t batch_stride;
  int64_t rows;
  int32_t width;
  int32_t index_bits;  // 0: no table
} ew_term;

// A bias by offset: the class of an edge is index[offset] of the bias term, where the offset is
// source_place[source] - target_place[target], from 0 to `count` - 1. `value` is the bias of each
// offset.
typedef struct {
  const int32_t* target_place;  // [rows], null: the bias is not by offset
  const int32_t* source_place;  // [columns]
  const void* value;            // A [heads, count]
  int64_t count;
} ew_offsets;

// Edge vectors: `full` [edges, heads, width], or features [edges, count] projected by a weight
// [count, heads, width].
typedef struct {
  const void* full;
  void* full_grad;
  const void* features;  // A
  void* features_grad;   // A [batch, edges, count]
  const void* weight;    // A
  void* weight_grad;     // A [groups, count, heads, width]
  int64_t full_batch_stride;
  int64_t features_batch_stride;
  int64_t count;
} ew_vectors;

typedef struct {
  int64_t size;  // sizeof, to detect a library of another version
  int32_t dtype;
  int32_t score;
  int32_t activation;
  int32_t threads;
  int64_t batch;
  int64_t heads;
  int64_t width;
  int64_t value_width;
  int64_t groups;
  double scale;
  double slope;
  uint64_t seed;
  double dropout;
  int64_t first_edge;        // for dropout: number of edge 0 in the whole graph
  const ew_side* by_target;  // null in a backward pass: only gradients of the values
  const ew_side* by_source;  // null: no gradient of key or value
  ew_nodes query;
  ew_nodes key;
  ew_nodes value;
  ew_nodes out;
  ew_nodes grad_out;
  ew_nodes grad_query;
  ew_nodes grad_key;
  ew_nodes grad_value;
  ew_term bias;
  ew_term gain;
  ew_vectors edge_key;
  ew_vectors edge_value;
  const void* score_weight;  // A [heads, width]
  void* score_weight_grad;   // A [groups, heads, width]
  void* lse;                 // A [batch, rows, heads] or null
  void* stats;  // A [batch, rows, 2, heads]: greatest score, and 1 / sum of exp(score - greatest)
  const void* grad_lse;  // A [batch, rows, heads] or null
  void* slots;     // A [batch, slots, heads * (width + value_width + 2)]: results of pieces; the
                   // number of slots is the maximum of both sides
  void* record;    // A [batch, rows, 3, heads]: stats, and the mean of the gradients of the weights
  void* per_edge;  // A [batch, edges, 2, heads]: gradient of the score, and weight after dropout;
                   // null: recomputed
  void* scores;    // A [batch, edges, heads]: output scores, or their gradient as input
} ew_attend_args;

typedef struct {
  int64_t size;
  int32_t dtype;
  int32_t reduce;
  int32_t threads;
  int32_t reserved;
  int64_t batch;
  int64_t heads;
  int64_t width;
  const ew_side* side;
  ew_nodes value;
  ew_nodes out;
  ew_nodes grad_out;
  ew_nodes grad_value;
  const void* weight;  // A [edges, heads] or null
  void* weight_grad;   // A [batch, edges, heads]
  int64_t weight_batch_stride;
  void* share;  // A [batch, rows, heads, width]: gradient of an extreme / number of ties
  void* slots;  // A [batch, slots, heads * width]
} ew_aggregate_args;

typedef struct {
  int64_t size;
  int32_t dtype;  // float32 or float64
  int32_t threads;
  int64_t batch;
  int64_t heads;
  const ew_side* side;
  const void* scores;  // [batch, edges, heads]; backward: weights
  const void* grad;    // null: forward
  void* out;
  void* stats;  // scratch [batch, rows, 2, heads]
  void* slots;  // [batch, slots, 2, heads]
} ew_softmax_args;

// A range of places of sources that a block of targets attends to, from `first` to before `last`.
// Each row from `row_begin` to before `row_end` has a reach; `reach` is the index of the first.
typedef struct {
  int32_t block;
  int32_t first;
  int32_t last;
  int32_t row_begin;
  int32_t row_end;
  int32_t reach;
  int32_t step;  // difference of the edge numbers of neighbouring sources
  int32_t reserved;
} ew_piece;

// The part of a piece that a row attends to: places from begin to before end. `edge` is the number
// of the first edge.
typedef struct {
  int32_t begin;
  int32_t end;
  int32_t edge;
} ew_reach;

// Blocks of targets whose gradients one thread computes at a time, and its visits to tiles.
typedef struct {
  int32_t block_begin;
  int32_t block_end;
  int32_t visit_begin;
  int32_t visit_end;
} ew_tiles_chunk;

// A tile of sources, and the pieces of a chunk's blocks that overlap it, by block. If several chunks
// visit a tile, each writes its gradients to a slot; slots are summed afterwards in order.
typedef struct {
  int32_t tile;
  int32_t use_begin;
  int32_t use_end;
  int32_t slot;  // -1: its only visit
} ew_visit;

// Blocks of targets, each with its pieces. Rows and columns are places: `row` and `column` map them
// to targets and sources.
typedef struct {
  int64_t size;
  int32_t dtype;
  int32_t threads;
  int64_t batch;
  int64_t heads;
  int64_t key_heads;  // heads of key and value, each shared by heads / key_heads heads of queries
  int64_t width;
  int64_t value_width;
  int64_t rows;
  int64_t columns;
  int64_t blocks;
  int64_t pieces;
  int64_t reaches;
  int64_t tiles;
  int64_t chunks;
  int64_t visits;
  int64_t uses;
  int64_t merges;
  int64_t slots;
  int64_t edges;                // of the whole graph, if there is a bias
  const int32_t* row;           // [rows], null: in order
  const int32_t* column;        // [columns], null: in order
  const int32_t* block;         // [blocks + 1] first row of each
  const int32_t* block_piece;   // [blocks + 1] first piece of each
  const ew_piece* piece;        // [pieces]
  const ew_reach* reach;        // [reaches]
  const int32_t* tile;          // [tiles + 1] first column of each
  const ew_tiles_chunk* chunk;  // [chunks]
  const ew_visit* visit;        // [visits]
  const int32_t* use;           // [uses] pieces
  const ew_merge* merge;        // [merges] tiles visited by no chunk, or by several
  double scale;
  double dropout;
  uint64_t seed;
  int64_t first_edge;
  ew_nodes query;
  ew_nodes key;
  ew_nodes value;
  ew_nodes out;
  ew_nodes grad_out;
  ew_nodes grad_query;
  ew_nodes grad_key;
  ew_nodes grad_value;
  ew_term bias;          // gradient: A [batch, rows, heads]; of a table, one for each chunk as well
  ew_offsets offsets;    // of the bias
  void* lse;             // A [batch, rows, heads] or null
  void* stats;           // A [batch, rows, 2, heads]: as in ew_attend_args
  const void* grad_lse;  // A [batch, rows, heads] or null
  void* summed;          // A [batch, key_heads, slots, EW_TILE, width + value_width]
} ew_tiles_args;

enum { EW_BLOCK = 64, EW_TILE = 128 };  // maximum numbers of targets of a block, sources of a tile

#ifdef __cplusplus
}
#endif
