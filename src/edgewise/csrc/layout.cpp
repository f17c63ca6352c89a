// Preparation of a graph for the rows kernels: sorting edges, checking sorted edges before kernels
// use them, and dividing rows into pieces of work.
#include <cstdint>

#include "abi.h"
#include "parallel.h"

// Sorts edges by row with a stable counting sort; ptr has rows + 1 entries.
EW_EXPORT int32_t ew_sort(int64_t rows, int64_t cols, int64_t edges, const int64_t* row,
                          const int64_t* column, int32_t* ptr, int32_t* col, int32_t* edge) {
  for (int64_t i = 0; i <= rows; ++i) ptr[i] = 0;
  bool sorted = true;
  for (int64_t e = 0; e < edges; ++e) {
    if (uint64_t(row[e]) >= uint64_t(rows) || uint64_t(column[e]) >= uint64_t(cols))
      return EW_BAD_INDEX;
    sorted &= e == 0 || row[e] >= row[e - 1];
    ++ptr[row[e] + 1];
  }
  for (int64_t i = 0; i < rows; ++i) ptr[i + 1] += ptr[i];
  if (sorted) {
    for (int64_t e = 0; e < edges; ++e) col[e] = int32_t(column[e]), edge[e] = int32_t(e);
    return EW_OK;
  }
  for (int64_t e = 0; e < edges;
       ++e) {  // ptr[r] is the next free entry of row r here; it is shifted back below.
    const int32_t place = ptr[row[e]]++;
    col[place] = int32_t(column[e]), edge[place] = int32_t(e);
  }
  for (int64_t i = rows; i > 0; --i) ptr[i] = ptr[i - 1];
  ptr[0] = 0;
  return EW_OK;
}

// Returns EW_OK if ptr does not decrease and goes from 0 to `edges`, each column is in [0, cols) and
// each edge index is in [0, edges).
EW_EXPORT int32_t ew_check_side(int64_t rows, int64_t cols, int64_t edges, const int32_t* ptr,
                                const int32_t* col, const int32_t* edge) {
  if (rows < 0 || cols < 0 || edges < 0 || ptr[0] != 0 || ptr[rows] != edges) return EW_BAD_INDEX;
  int32_t bad = 0;
  for (int64_t i = 0; i < rows; ++i) bad |= ptr[i + 1] < ptr[i];
  for (int64_t e = 0; e < edges; ++e)
    bad |= (uint32_t(col[e]) >= uint32_t(cols)) | (uint32_t(edge[e]) >= uint32_t(edges));
  return bad ? EW_BAD_INDEX : EW_OK;
}

// Divides rows into chunks of about `target` edges; an empty row counts as a quarter of an edge. A
// row with more than `target` edges is cut into pieces of this size. The division depends only on
// the graph, not on the number of threads. `counts` gets the numbers of chunks, merges and slots,
// and the length of the longest row in a chunk. If `chunk` is null, only these are computed.
EW_EXPORT void ew_divide(int64_t rows, const int32_t* ptr, int32_t target, ew_chunk* chunk,
                         ew_merge* merge, int64_t* counts) {
  int64_t chunks = 0, merges = 0, slots = 0, longest = 0;
  auto put = [&](int64_t begin, int64_t end, int32_t first, int32_t last, int64_t slot) {
    if (chunk) chunk[chunks] = {int32_t(begin), int32_t(end), first, last, int32_t(slot)};
    ++chunks;
  };
  int64_t begin = 0;
  auto flush = [&](int64_t end) {
    if (end > begin) put(begin, end, ptr[begin], ptr[end], -1);
    begin = end;
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t degree = ptr[row + 1] - ptr[row];
    const int64_t cost = ptr[row] - ptr[begin] + (row - begin) / 4;
    if (degree > target) {
      flush(row);
      const int64_t first = slots;
      for (int32_t e = ptr[row]; e < ptr[row + 1]; e += target)
        put(row, row + 1, e, e + target < ptr[row + 1] ? e + target : ptr[row + 1], slots++);
      if (merge) merge[merges] = {int32_t(row), int32_t(first), int32_t(slots)};
      ++merges;
      longest = target;
      begin = row + 1;
    } else {
      if (cost + degree > target) flush(row);
      if (degree > longest) longest = degree;
    }
  }
  flush(rows);
  counts[0] = chunks, counts[1] = merges, counts[2] = slots, counts[3] = longest;
}

namespace {

constexpr int64_t kBlock = 4096;

template <class A> struct SumJob {
  int64_t copies, n;
  const A* from;
  A* to;
  ew::Counter counter;

  static void work(void* self) {
    SumJob& job = *static_cast<SumJob*>(self);
    for (int64_t item; (item = job.counter.claim()) >= 0;) {
      const int64_t begin = item * kBlock, end = begin + kBlock < job.n ? begin + kBlock : job.n;
      for (int64_t i = begin; i < end; ++i) job.to[i] = 0;
      for (int64_t c = 0; c < job.copies; ++c)
        for (int64_t i = begin; i < end; ++i) job.to[i] += job.from[c * job.n + i];
    }
  }
};
template <class A>
void sum_copies(int32_t threads, int64_t copies, int64_t n, const void* from, void* to) {
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  SumJob<A> job{copies, n, static_cast<const A*>(from), static_cast<A*>(to), {0, blocks}};
  ew::run_team(blocks < threads ? int(blocks) : threads, job.work, &job);
}

}  // namespace

// Sets to[i] to the sum of all copies, always in the same order, for any number of threads.
EW_EXPORT void ew_sum(int32_t is_double, int32_t threads, int64_t copies, int64_t n,
                      const void* from, void* to) {
  if (is_double) sum_copies<double>(threads, copies, n, from, to);
  else sum_copies<float>(threads, copies, n, from, to);
}
