// Construction of the layout that tiles.h describes, from ranges of sources ("runs"), and its checks
// before kernels use it.
//
// Neighbouring runs of a block of targets are combined to a piece, in which each target has at most
// one run. Blocks are grouped into chunks for the backward pass, and a chunk visits the tiles of
// sources that its pieces overlap. The layout depends only on the graph, not on the number of
// threads.
#include <stdlib.h>

#include <algorithm>

#include "kernels.h"
#include "parallel.h"

namespace {

constexpr int32_t kGap = 16;    // Maximum number of sources between two runs of a piece.
constexpr int kOpen = 8;        // Maximum number of pieces to which runs are added at a time.
constexpr int64_t kGroup = 8;   // Number of targets computed together, to estimate the cost.
constexpr int64_t kChunk = 16;  // Minimum number of blocks in a chunk.
constexpr int64_t kShare = 3;   // Maximum mean number of slots per tile.

// Array that is freed at the end of its scope.
template <class P> struct Array {
  P* data;
  explicit Array(int64_t count) : data(static_cast<P*>(malloc(size_t(count + 1) * sizeof(P)))) {}
  Array(const Array&) = delete;
  ~Array() { free(data); }
  P& operator[](int64_t i) const { return data[i]; }
};

struct Run {
  int32_t start, stop, row;
  int64_t number;
};

}  // namespace

// Makes the pieces of each block. Row i has the runs ptr[i] to ptr[i + 1] - 1, or only run i if ptr
// is null. `edge` holds the index of each run's first edge, and `step` the difference of the indices
// of its neighbouring edges (1 if null). `counts` gets the numbers of pieces, reaches, pairs
// computed and sources loaded. If `piece` is null, only these are computed.
EW_EXPORT int32_t ew_tiles_pieces(int64_t rows, int64_t columns, int64_t blocks,
                                  const int32_t* block, const int64_t* ptr, const int64_t* start,
                                  const int64_t* stop, const int64_t* edge, const int64_t* step,
                                  int32_t* block_piece, ew_piece* piece, ew_reach* reach,
                                  int64_t* counts) {
  const auto first_of = [&](int64_t row) { return ptr ? ptr[row] : row; };
  int64_t pieces = 0, reaches = 0, pairs = 0, brought = 0, most = 0;
  for (int64_t k = 0; k < blocks; ++k) {
    if (block[k] < 0 || block[k + 1] < block[k] || block[k + 1] > rows) return EW_BAD_INDEX;
    most = std::max(most, first_of(block[k + 1]) - first_of(block[k]));
  }
  Array<Run> run(most);
  Array<int32_t> owner(most);
  Array<ew_piece> made(most);
  Array<uint64_t> taken(most);
  Array<int32_t> span(2 * kGroup * most);  // First and last source + 1, by piece and group.
  if (!run.data || !owner.data || !made.data || !taken.data || !span.data) return EW_NO_MEMORY;
  if (block_piece) block_piece[0] = 0;
  for (int64_t k = 0; k < blocks; ++k) {
    int64_t count = 0;
    for (int64_t row = block[k]; row < block[k + 1]; ++row)
      for (int64_t r = first_of(row); r < first_of(row + 1); ++r) {
        if (start[r] >= stop[r]) continue;
        if (start[r] < 0 || stop[r] > columns) return EW_BAD_INDEX;
        run[count++] = {int32_t(start[r]), int32_t(stop[r]), int32_t(row), r};
      }
    std::sort(run.data, run.data + count, [](const Run& a, const Run& b) {
      return a.start != b.start ? a.start < b.start : a.row < b.row;
    });
    int64_t own = 0;
    int64_t open[kOpen];
    int opened = 0;
    for (int64_t r = 0; r < count; ++r) {
      const Run& x = run[r];
      const uint64_t bit = uint64_t(1) << (x.row - block[k]);
      const int32_t apart = step ? int32_t(step[x.number]) : 1;
      int still = 0;
      for (int i = 0; i < opened; ++i)
        if (x.start <= made[open[i]].last + kGap) open[still++] = open[i];
      opened = still;
      int64_t into = -1;
      for (int i = 0; i < opened && into < 0; ++i)
        if (!(taken[open[i]] & bit) && made[open[i]].step == apart) into = open[i];
      if (into < 0) {
        if (opened == kOpen) {
          for (int i = 1; i < kOpen; ++i) open[i - 1] = open[i];
          --opened;
        }
        into = open[opened++] = own++;
        made[into] = {int32_t(k), x.start, x.stop, x.row, x.row + 1, 0, apart, 0};
        taken[into] = 0;
      }
      ew_piece& p = made[into];
      p.last = std::max(p.last, x.stop);
      p.row_begin = std::min(p.row_begin, x.row), p.row_end = std::max(p.row_end, x.row + 1);
      taken[into] |= bit;
      owner[r] = int32_t(into);
    }
    for (int64_t i = 0; i < own; ++i) {
      ew_piece& p = made[i];
      p.reach = int32_t(reaches);
      reaches += p.row_end - p.row_begin;
      brought += p.last - p.first;
      for (int64_t g = 0; g < kGroup; ++g)
        span[2 * (kGroup * i + g)] = INT32_MAX, span[2 * (kGroup * i + g) + 1] = 0;
      if (!piece) continue;
      piece[pieces + i] = p;
      for (int32_t row = p.row_begin; row < p.row_end; ++row)
        reach[p.reach + row - p.row_begin] = {0, 0, 0};
    }
    for (int64_t r = 0; r < count; ++r) {
      const Run& x = run[r];
      const ew_piece& p = made[owner[r]];
      int32_t* const in = &span[2 * (kGroup * owner[r] + (x.row - block[k]) / kGroup)];
      in[0] = std::min(in[0], x.start), in[1] = std::max(in[1], x.stop);
      if (piece) reach[p.reach + x.row - p.row_begin] = {x.start, x.stop, int32_t(edge[x.number])};
    }
    for (int64_t i = 0; i < kGroup * own; ++i)
      if (span[2 * i] < span[2 * i + 1]) pairs += kGroup * (span[2 * i + 1] - span[2 * i]);
    pieces += own;
    if (block_piece) block_piece[k + 1] = int32_t(pieces);
    if (pieces >= INT32_MAX || reaches >= INT32_MAX) return EW_BAD_ARGUMENT;
  }
  counts[0] = pieces, counts[1] = reaches, counts[2] = pairs, counts[3] = brought;
  return EW_OK;
}

namespace {

// A unit is a range of targets and the range of sources to which only they attend, such as a graph
// of a packed batch. `unit` holds the first block, first tile and first column of each unit, and in
// a last row the total numbers.
struct Units {
  int64_t count;
  const int32_t* unit;
  const int32_t* block_piece;
  const ew_piece* piece;

  // Calls at_chunk(first block, last block + 1) for each chunk, and after each of these calls
  // visit(tile, piece) for all tiles that the pieces of the chunk overlap.
  template <class AtChunk, class Visit>
  void each(int64_t blocks, const AtChunk& at_chunk, const Visit& visit) const {
    for (int64_t u = 0; u < count; ++u) {
      const int32_t *from = unit + 3 * u, *to = from + 3;
      for (int64_t k = from[0]; k < to[0]; k += blocks) {
        const int64_t end = std::min(k + blocks, int64_t(to[0]));
        at_chunk(k, end);
        for (int32_t p = block_piece[k]; p < block_piece[end]; ++p)
          for (int32_t t = (piece[p].first - from[2]) / EW_TILE;
               t <= (piece[p].last - 1 - from[2]) / EW_TILE; ++t)
            visit(from[1] + t, p);
      }
    }
  }
};

}  // namespace

// Makes the chunks, their visits to tiles, the pieces that each visit uses, and the merges.
// `blocks` is the number of blocks per chunk. If it is 0, this number is chosen here and nothing is
// made. `counts` gets the numbers of blocks per chunk, chunks, visits, uses, merges and slots.
EW_EXPORT int32_t ew_tiles_visits(int64_t units, const int32_t* unit, const int32_t* block_piece,
                                  const ew_piece* piece, int64_t blocks, ew_tiles_chunk* chunk,
                                  ew_visit* visit, int32_t* use, ew_merge* merge, int64_t* counts) {
  const Units all{units, unit, block_piece, piece};
  const int64_t tiles = unit[3 * units + 1], total = unit[3 * units];
  Array<int32_t> visitors(tiles), seen(tiles), last(tiles), place(tiles);
  if (!visitors.data || !seen.data || !last.data || !place.data) return EW_NO_MEMORY;
  int64_t chunks, visits, uses, merges, slots;
  const auto count = [&] {
    chunks = visits = uses = merges = slots = 0;
    for (int64_t t = 0; t < tiles; ++t) visitors[t] = 0, last[t] = -1;
    all.each(
        blocks, [&](int64_t, int64_t) { ++chunks; },
        [&](int32_t t, int32_t) {
          ++uses;
          if (last[t] != chunks) last[t] = int32_t(chunks), ++visitors[t], ++visits;
        });
    for (int64_t t = 0; t < tiles; ++t)
      if (visitors[t] != 1) ++merges, slots += visitors[t];
  };
  const bool fill = blocks > 0;
  if (fill) count();
  else
    for (blocks = kChunk; count(), slots > kShare * tiles && blocks < total;) blocks *= 2;
  counts[0] = blocks, counts[1] = chunks, counts[2] = visits, counts[3] = uses;
  counts[4] = merges, counts[5] = slots;
  if (!fill) return EW_OK;

  // Set the first slot of each tile that several chunks visit, and of each merge.
  for (int64_t t = 0, slot = 0, m = 0; t < tiles; ++t) {
    seen[t] = visitors[t] == 1 ? -1 : int32_t(slot);
    if (visitors[t] == 1) continue;
    merge[m++] = {int32_t(t), int32_t(slot), int32_t(slot + visitors[t])};
    slot += visitors[t];
  }
  // Sort the uses within each chunk by tile, with a counting sort.
  Array<int32_t> tile_of(uses), piece_of(uses);
  if (!tile_of.data || !piece_of.data) return EW_NO_MEMORY;
  for (int64_t t = 0; t < tiles; ++t) last[t] = -1, place[t] = 0;
  int64_t c = -1, v = 0, u = 0, first_use = 0;
  const auto finish = [&] {  // Completes the chunk whose uses are first_use to u - 1.
    if (c < 0) return;
    const int64_t first_visit = v;
    for (int64_t i = first_use; i < u; ++i) ++place[tile_of[i]];
    for (int64_t i = first_use; i < u; ++i) {
      const int32_t t = tile_of[i];
      if (last[t] == c) continue;
      last[t] = int32_t(c);
      visit[v++] = {t, 0, 0, seen[t] < 0 ? -1 : seen[t]++};
    }
    std::sort(visit + first_visit, visit + v,
              [](const ew_visit& a, const ew_visit& b) { return a.tile < b.tile; });
    int64_t at = first_use;
    for (int64_t i = first_visit; i < v; ++i) {
      const int32_t t = visit[i].tile;
      visit[i].use_begin = int32_t(at), visit[i].use_end = int32_t(at + place[t]);
      at += place[t];
      place[t] = visit[i].use_begin;
    }
    for (int64_t i = first_use; i < u; ++i) use[place[tile_of[i]]++] = piece_of[i];
    for (int64_t i = first_visit; i < v; ++i) place[visit[i].tile] = 0;
    chunk[c].visit_begin = int32_t(first_visit), chunk[c].visit_end = int32_t(v);
    first_use = u;
  };
  all.each(
      blocks,
      [&](int64_t begin, int64_t end) {
        finish();
        chunk[++c] = {int32_t(begin), int32_t(end), 0, 0};
      },
      [&](int32_t t, int32_t p) { tile_of[u] = t, piece_of[u++] = p; });
  finish();
  return EW_OK;
}

namespace ew {

namespace {

// Returns whether all indices are from 0 to end - 1.
bool all_within(const int32_t* index, int64_t count, int64_t end) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, uint32_t(index[i]));
  return !count || int64_t(most) < end;
}
// Returns whether x goes from 0 to `end`, without decreasing and in steps of at most `step`.
bool rises(const int32_t* x, int64_t count, int64_t end, int64_t step) {
  if (x[0] != 0 || x[count] != end) return false;
  bool good = true;
  for (int64_t i = 0; i < count; ++i) good &= x[i + 1] >= x[i] && int64_t(x[i + 1]) - x[i] <= step;
  return good;
}

}  // namespace

// Returns whether the offset of every pair of a source and a target is in range.
bool offsets_fit(const ew_tiles_args& a) {
  const ew_offsets& x = a.offsets;
  if (!x.target_place || !a.rows || !a.columns) return true;
  int64_t least[2] = {INT32_MAX, INT32_MAX}, most[2] = {INT32_MIN, INT32_MIN};
  const auto look = [&](int side, const int32_t* place, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      least[side] = place[i] < least[side] ? place[i] : least[side];
      most[side] = place[i] > most[side] ? place[i] : most[side];
    }
  };
  look(0, x.target_place, a.rows), look(1, x.source_place, a.columns);
  return least[1] - most[0] >= 0 && most[1] - least[0] < x.count;
}

bool tiles_fit(const ew_tiles_args& a) {
  if (a.key_heads < 1 || a.heads % a.key_heads || !offsets_fit(a)) return false;
  const int64_t sizes[] = {a.rows,   a.columns, a.blocks, a.pieces, a.reaches, a.tiles,
                           a.chunks, a.visits,  a.uses,   a.merges, a.slots};
  for (const int64_t size : sizes)
    if (size < 0 || size > INT32_MAX) return false;
  if (a.row && !all_within(a.row, a.rows, a.rows)) return false;
  if (a.column && !all_within(a.column, a.columns, a.columns)) return false;
  if (!rises(a.block, a.blocks, a.rows, EW_BLOCK)) return false;
  if (!rises(a.block_piece, a.blocks, a.pieces, a.pieces)) return false;
  for (int64_t k = 0; k < a.blocks; ++k)
    for (int32_t i = a.block_piece[k]; i < a.block_piece[k + 1]; ++i) {
      const ew_piece& p = a.piece[i];
      if (p.block != k || p.first < 0 || p.last < p.first || p.last > a.columns) return false;
      if (p.row_begin < a.block[k] || p.row_end < p.row_begin || p.row_end > a.block[k + 1])
        return false;
      if (p.reach < 0 || int64_t(p.reach) + p.row_end - p.row_begin > a.reaches) return false;
      for (int32_t row = 0; row < p.row_end - p.row_begin; ++row) {
        const ew_reach& r = a.reach[p.reach + row];
        if (r.begin >= r.end) continue;
        if (r.begin < p.first || r.end > p.last) return false;
        const int64_t last = r.edge + int64_t(p.step) * (r.end - 1 - r.begin);
        if (a.bias.data && !a.offsets.target_place && (r.edge < 0 || p.step < 0 || last >= a.edges))
          return false;
      }
    }
  return true;
}

bool tiles_grad_fit(const ew_tiles_args& a) {
  if (!tiles_fit(a) || !rises(a.tile, a.tiles, a.columns, EW_TILE)) return false;
  for (int64_t c = 0; c < a.chunks; ++c) {
    const ew_tiles_chunk& x = a.chunk[c];
    if (x.block_begin < 0 || x.block_end < x.block_begin || x.block_end > a.blocks) return false;
    if (x.visit_begin < 0 || x.visit_end < x.visit_begin || x.visit_end > a.visits) return false;
    for (int32_t v = x.visit_begin; v < x.visit_end; ++v) {
      const ew_visit& y = a.visit[v];
      if (y.tile < 0 || y.tile >= a.tiles || y.slot < -1 || y.slot >= a.slots) return false;
      if (y.use_begin < 0 || y.use_end < y.use_begin || y.use_end > a.uses) return false;
      for (int32_t u = y.use_begin; u < y.use_end; ++u) {
        if (a.use[u] < 0 || a.use[u] >= a.pieces) return false;
        const int32_t block = a.piece[a.use[u]].block;
        if (block < x.block_begin || block >= x.block_end) return false;
      }
    }
  }
  for (int64_t m = 0; m < a.merges; ++m) {
    const ew_merge& x = a.merge[m];
    if (x.row < 0 || x.row >= a.tiles || x.slot_begin < 0 || x.slot_end < x.slot_begin ||
        x.slot_end > a.slots)
      return false;
  }
  return true;
}

}  // namespace ew
