// Table of the kernels for one instruction set and one storage type; dispatch.cpp chooses a table.
#pragma once

#include "abi.h"

namespace ew {

struct Kernels {
  int32_t (*attend)(const ew_attend_args*);
  int32_t (*attend_grad_rows)(const ew_attend_args*);
  int32_t (*attend_grad_columns)(const ew_attend_args*);
  int32_t (*edge_scores)(const ew_attend_args*);
  int32_t (*softmax)(const ew_softmax_args*);
  int32_t (*aggregate)(const ew_aggregate_args*);
  int32_t (*aggregate_grad_rows)(const ew_aggregate_args*);
  int32_t (*aggregate_grad_columns)(const ew_aggregate_args*);
  int32_t (*tiles)(const ew_tiles_args*);
  int32_t (*tiles_grad)(const ew_tiles_args*);
};

// Return whether all indices of a layout that a pass uses are in range: tiles_fit for the forward
// pass, tiles_grad_fit for both passes.
bool tiles_fit(const ew_tiles_args& args);
bool tiles_grad_fit(const ew_tiles_args& args);

}  // namespace ew
