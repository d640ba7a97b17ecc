// Contended resources that are full at the same rates, because they are alike. Used by FlowKinds.
//
// Resources are in classes: those of a class have the same bandwidth, and as many flows of every color, which take as
// much of them. Flows have the same color if they have the same rate alone, and take the same of the same classes. So
// all resources of a class are full at the same rate, and all flows of a color have the same rate, whatever the rates
// of others are: a class can be shared as one resource that has the bandwidth of all. (Grohe, Kersting, Mladenov and
// Selman, Dimension Reduction via Colour Refinement, ESA 2014.) Colors, and sets of them, are compared by hashes of 64
// bits.
#pragma once

#include "compiler/cost/simulation/ListPool.h"
#include "compiler/cost/simulation/ResourceUse.h"

namespace kolo::cost {

class AlikeResources {
public:
  static constexpr uint32_t none = UINT32_MAX;

  /// The resource's number, from 0 on. It is in no class. Bytes per second.
  uint32_t addResource(double bandwidth);
  /// Into a class of its own. No kind uses it yet.
  void enter(uint32_t resource);
  /// Out of its class. No kind uses it any more.
  void leave(uint32_t resource);

  /// A kind of flows, without flows and uses. Numbers are the caller's, and small. `cap`: the rate of a flow alone.
  void addKind(uint32_t kind, double cap);
  /// One without flows.
  void removeKind(uint32_t kind);
  /// The resource is in a class, and the kind does not use it yet.
  void addUse(uint32_t kind, uint32_t resource, double load);
  void addFlow(uint32_t kind) { changeFlows(kind, 1); }
  void removeFlow(uint32_t kind) { changeFlows(kind, uint32_t(-1)); }
  /// Room for so many kinds.
  void reserve(size_t numKinds);

  /// Parts classes as far as is needed after all this. They do not join.
  void refine();
  /// Finds the largest classes instead.
  void findAnew();

  /// The same for kinds of the same color. Of a new kind: from the next `refine` on.
  uint64_t colorOf(uint32_t kind) const { return kinds[kind].color; }
  /// Replaces `found` by what the kind's flows take of classes.
  void findUses(uint32_t kind, std::vector<ResourceUse> &found) const;
  /// Of all resources of a class together. Bytes per second.
  double bandwidthOf(uint32_t number) const { return classes[number].bandwidth; }

  /// Kinds that got another color since `forget`.
  std::span<const uint32_t> recolored() const { return changedKinds; }
  /// Classes that got or lost resources since then; some are named twice.
  std::span<const uint32_t> resized() const { return changedClasses; }
  /// Numbers of classes that have no resource left may be used again from here on.
  void forget();

private:
  struct Use {
    double load;
    uint32_t resource;
    uint32_t place; // of the kind, among the resource's users
  };
  struct Kind {
    double cap = 0;
    uint64_t color = 0;
    uint32_t numFlows = 0;
    PooledList uses = {};
    bool isWithdrawn = false; // its votes, until it gets a color again
    bool isRecolored = false; // since `forget`
  };
  struct Resource {
    double bandwidth;
    uint64_t signature = 0; // of its flows, where others are in its class: the sum of their votes
    uint32_t inClass = none;
    uint32_t place = 0;    // there
    bool isShared = false; // others are there
    PooledList users = {}; // kinds
  };
  struct Class {
    double bandwidth = 0;
    std::vector<uint32_t> resources = {};
    bool isTouched = false;
  };

  void changeFlows(uint32_t kind, uint32_t more) {
    kinds[kind].numFlows += more;
    if (numShared > 0 && !kinds[kind].isWithdrawn) // resources that are alone in their classes need no votes
      vote(kinds[kind], uint64_t(int32_t(more)));
  }
  void vote(const Kind &kind, uint64_t numFlows);
  void withdraw(uint32_t kind);
  void withdrawUsers(uint32_t resource);
  void recolor();
  void dropUse(const Use &use);
  uint32_t addClass();
  void setShared(uint32_t resource, bool isShared);
  void enterClass(uint32_t resource, uint32_t number);
  void leaveClass(uint32_t resource);
  void splitTouched();

  std::vector<Kind> kinds;
  std::vector<Resource> resources;
  std::vector<Class> classes;
  ListPool<Use> uses;
  ListPool<uint32_t> users;
  std::vector<uint32_t> freeClasses, emptied;
  size_t numShared = 0;            // resources
  std::vector<uint32_t> withdrawn; // kinds
  std::vector<uint32_t> touched;   // classes whose resources may have different flows
  std::vector<uint32_t> changedKinds, changedClasses;
};

} // namespace kolo::cost
