#include "compiler/cost/bounds/MaxFlow.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace kolo::cost {

/// What rounding leaves of a link, in bytes per second.
static constexpr double nothing = 1e-3;

void MaxFlow::addEdge(size_t from, size_t to, double forth, double back) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, forth});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, back});
}

bool MaxFlow::findDistances(size_t source, size_t sink) {
  distance.assign(edgesOf.size(), -1);
  distance[source] = 0;
  for (std::deque<size_t> queue = {source}; !queue.empty(); queue.pop_front())
    for (size_t number : edgesOf[queue.front()])
      if (const Edge &edge = edges[number]; edge.left > nothing && distance[edge.to] < 0) {
        distance[edge.to] = distance[queue.front()] + 1;
        queue.push_back(edge.to);
      }
  return distance[sink] >= 0;
}

double MaxFlow::push(size_t here, size_t sink, double most) {
  if (here == sink)
    return most;
  for (size_t &place = next[here]; place < edgesOf[here].size(); ++place) {
    size_t number = edgesOf[here][place];
    Edge &edge = edges[number];
    if (edge.left <= nothing || distance[edge.to] != distance[here] + 1)
      continue;
    double pushed = push(edge.to, sink, std::min(most, edge.left));
    if (pushed <= nothing)
      continue;
    edge.left -= pushed;
    edges[number ^ 1].left += pushed;
    return pushed;
  }
  return 0;
}

double MaxFlow::run(size_t source, size_t sink) {
  double sum = 0;
  while (findDistances(source, sink)) {
    next.assign(edgesOf.size(), 0);
    while (double pushed = push(source, sink, std::numeric_limits<double>::infinity()))
      sum += pushed;
  }
  return sum;
}

} // namespace kolo::cost
