// The largest flow between two vertices of a graph: Dinic 1970. No MLIR here.
#pragma once

#include <cstddef>
#include <vector>

namespace kolo::cost {

class MaxFlow {
public:
  explicit MaxFlow(size_t numVertices) : edgesOf(numVertices) {}
  /// Capacities of both directions; infinite ones are allowed.
  void addEdge(size_t from, size_t to, double forth, double back);
  /// Once per graph.
  double run(size_t source, size_t sink);
  /// Once it ran: whether the vertex is on the source's side of a smallest cut.
  bool isOnSourceSide(size_t vertex) const { return distance[vertex] >= 0; }

private:
  struct Edge {
    size_t to;
    double left;
  };

  bool findDistances(size_t source, size_t sink);
  double push(size_t here, size_t sink, double most);

  std::vector<Edge> edges; // an edge and its reverse lie side by side
  std::vector<std::vector<size_t>> edgesOf;
  std::vector<int> distance;
  std::vector<size_t> next;
};

} // namespace kolo::cost
