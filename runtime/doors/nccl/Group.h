// Group: what this thread has called between ncclGroupStart and ncclGroupEnd.
#pragma once

#include "Members.h"

#include <functional>

namespace kolo::nccl {

/// A call that may be carried, and how to forward it otherwise.
struct QueuedCall {
  std::shared_ptr<Member> member;
  Shape shape;
  runtime::RankBuffers buffers;
  Stream stream = nullptr;
  std::function<Code()> forward;
};

/// A send or a receive, with NCCL's own numbers.
struct Transfer {
  /// Of a call that is many of them, the first one forwards all, and the others nothing.
  enum class Part : uint8_t { None, First, Other };

  std::shared_ptr<Member> member; // null: the real library gets it at once
  uint8_t use;                    // sendsTo or receivesFrom: see GroupBoard.h
  void *memory;
  size_t count;
  int type, peer;
  Comm comm;
  Stream stream;
  Part part = Part::None;
  std::function<Code()> whole = {}; // of the first part: forwards the call

  Code forward() const;
};

bool isInGroup();
void queue(QueuedCall call);
void queue(Transfer transfer);
void queue(Registration registration);
/// As a group of these alone, outside of any.
Code performAlone(std::vector<Transfer> transfers);
/// Waits for the calls of a communicator that is carried: at once, or at the end of the group. Returns their failure.
Code flush(std::shared_ptr<Member> member);
/// The code of what became of a communicator's calls. The first failure of a communicator is said.
Code settle(Member &member, const runtime::Status &status);

/// Makes a communicator: at once, or at the end of the group. `call`: the real library's function.
Code create(Creation creation, const std::function<Code()> &call);
Code create(std::vector<Creation> creations, const std::function<Code()> &call);

/// What a carried call ended with; nothing: forward it.
std::optional<Code> outcome(const Member &member, const CallRequest &request);

} // namespace kolo::nccl
