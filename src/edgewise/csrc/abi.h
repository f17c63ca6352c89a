// The C interface of the kernels: what Python fills in and the kernels read. One field a line.
//
// Every array is dense in its last axes. Node tensors are [batch, node, head, width] with a stride
// between nodes and one between batches (in elements), so a slice of a fused projection needs no
// copy. Edge tensors are in the caller's edge order. Rows are targets, sorted: edge slot p of row i
// has source col[p] and the caller's number edge[p]. "Transposed" is the same graph sorted by
// source. Arrays of "A" are in the type of accumulation, float32 or (for float64) float64.
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

// A run of rows that one thread handles at a time, or (slot >= 0) a piece of one very long row,
// whose result goes to a numbered slot and is merged afterwards, in slot order.
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

// bias or gain: value(edge, head) = data[row(edge) * width + (width == 1 ? 0 : head)], and
// row(edge) is the edge itself or, for a table, index[edge]. The gradient has the layout of data,
// and one copy a batch or a group.
typedef struct {
  const void* data;
  const void* index;
  void* grad;
  int64_t batch_stride;
  int64_t rows;
  int32_t width;
  int32_t index_bits;  // 0: no table
} ew_term;

// A bias by offset: an edge's class, instead of its number, is source_place[source] less
// target_place[target], which is from 0 to before `count`. `value` has the bias of each; the classes
// of the term that it stands for may be fewer, by its index.
typedef struct {
  const int32_t* target_place;  // [rows], null: the bias is not by offset
  const int32_t* source_place;  // [columns]
  const void* value;            // A [heads, count]
  int64_t count;
} ew_offsets;

// Vectors on edges: `full` [edges, heads, width], or features [edges, count] with a weight
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
  int64_t size;  // sizeof, so that a library and a caller of different ages notice
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
  int64_t first_edge;  // number of edge 0 in the graph that this one is a part of
  const ew_side* by_target;
  const ew_side* by_source;  // null: no gradient of key or value is wanted
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
  void* slots;     // A [batch, slots, heads * (width + value_width + 2)]: results of rows' pieces,
                   // for as many slots as the side with more of them has
  void* record;    // A [batch, rows, 3, heads]: stats, and the average of the weights' gradients
  void* per_edge;  // A [batch, edges, 2, heads]: score gradient, kept weight; null: computed again
  void* scores;    // A [batch, edges, heads]: scores written, or their gradient read
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
  void* share;  // A [batch, rows, heads, width]: gradient of an extreme over its number of ties
  void* slots;  // A [batch, slots, heads * width]
} ew_aggregate_args;

typedef struct {
  int64_t size;
  int32_t dtype;  // float32 or float64
  int32_t threads;
  int64_t batch;
  int64_t heads;
  const ew_side* side;
  const void* scores;  // [batch, edges, heads]; weights, backward
  const void* grad;    // null: forward
  void* out;
  void* stats;  // scratch [batch, rows, 2, heads]
  void* slots;  // [batch, slots, 2, heads]
} ew_softmax_args;

// Neighbouring sources that a block of targets reads, at places from `first` to before `last`. Each
// of the rows from `row_begin` to before `row_end` has a reach, from the number `reach` on.
typedef struct {
  int32_t block;
  int32_t first;
  int32_t last;
  int32_t row_begin;
  int32_t row_end;
  int32_t reach;
  int32_t step;  // of the numbers of edges, from one source to the next
  int32_t reserved;
} ew_piece;

// What a row reads of a piece: sources from begin to before end; `edge` is the number of the first.
typedef struct {
  int32_t begin;
  int32_t end;
  int32_t edge;
} ew_reach;

// Blocks of targets whose gradients one thread computes at a time, and the visits in which it does.
typedef struct {
  int32_t block_begin;
  int32_t block_end;
  int32_t visit_begin;
  int32_t visit_end;
} ew_tiles_chunk;

// A tile of sources, and the pieces of a chunk's blocks that reach into it, by block. Where chunks
// share a tile its gradients go to slots, one for each, and are summed afterwards, in slot order.
typedef struct {
  int32_t tile;
  int32_t use_begin;
  int32_t use_end;
  int32_t slot;  // -1: its only visit
} ew_visit;

// Blocks of targets, each with the pieces that it reads. Rows and columns are places: `row` and
// `column` say which target and source is at each.
typedef struct {
  int64_t size;
  int32_t dtype;
  int32_t threads;
  int64_t batch;
  int64_t heads;
  int64_t key_heads;  // of key and value, each of which `heads / key_heads` queries read
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
  int64_t edges;                // of the whole graph, where there is a bias
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
  const ew_merge* merge;        // [merges] of tiles that not one chunk alone visits
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
  ew_term bias;          // its gradient: A [batch, rows, heads], for a table one for each chunk too
  ew_offsets offsets;    // of the bias
  void* lse;             // A [batch, rows, heads] or null
  void* stats;           // A [batch, rows, 2, heads]: as in ew_attend_args
  const void* grad_lse;  // A [batch, rows, heads] or null
  void* summed;          // A [batch, key_heads, slots, EW_TILE, width + value_width]
} ew_tiles_args;

enum { EW_BLOCK = 64, EW_TILE = 128 };  // targets of a block, sources of a tile, at most

#ifdef __cplusplus
}
#endif
