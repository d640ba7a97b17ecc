// The collectives: what of them may be carried, as far as the arguments of one rank tell.
#include "Group.h"
#include "Own.h"
#include "Process.h"

namespace kolo::nccl {
namespace {

using runtime::CollectiveKind;
using runtime::DataType;
using runtime::Reduction;

// Options of a program's ncclCollConfig_t::ext that are for Kolo; docs/loading.md has them.
constexpr int32_t vendor = 0x4B4F4C4F; // "KOLO"
constexpr int32_t optionProgram = 1;   // text: the program that is to carry the call
constexpr int32_t optionCarry = 2;     // number: 0 has the call forwarded

constexpr DataType types[] = {DataType::I8,  DataType::U8,  DataType::I32, DataType::U32, DataType::I64,
                              DataType::U64, DataType::F16, DataType::F32, DataType::F64, DataType::BF16};
constexpr Reduction reductions[] = {Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min,
                                    Reduction::Average};
constexpr int numTypes = std::size(types), numSmallFloats = 2; // of 8 bits, after the others

/// One call of this rank, with NCCL's own numbers.
struct Request {
  CollectiveKind kind;
  const void *input;
  void *output;
  size_t count;
  int type;
  int operation = redSum;
  int root = 0;
  Comm comm = nullptr;
  Stream stream = nullptr;
  const CollectiveConfig *config = nullptr;
};

/// Why the call is forwarded; null: `shape` is what Kolo may carry.
const char *translate(const Request &request, const Member &member, Shape &shape) {
  bool reduces = runtime::factsOf(request.kind).reduces;
  if (request.type < 0 || request.type >= numTypes + numSmallFloats || request.root < 0 ||
      request.root >= member.size || request.operation < 0)
    return "wrong argument";
  if (request.type >= numTypes && reduces)
    return "other type";
  if (request.operation >= numFixedReductions)
    return "operation of the program";
  if (request.count == 0)
    return "no data";
  shape.kind = request.kind;
  shape.type = request.type < numTypes ? types[request.type] : DataType::U8;
  shape.reduction = reductions[request.operation];
  shape.count = static_cast<int64_t>(request.count);
  shape.root = request.root;
  for (const Extension *each = request.config ? request.config->extensions : nullptr; each; each = each->next) {
    if (each->vendor == vendor && each->option == optionCarry && each->number == 0)
      return "refused by the program";
    if (each->vendor == vendor && each->option == optionProgram && each->text)
      shape.program = each->text;
  }
  return nullptr;
}

template <class Forward> Code carry(const Request &request, Forward forwardIt) {
  Member *member = lookUp(request.comm);
  Shape shape;
  const char *why = !member            ? "communicator that Kolo did not see made"
                    : !member->carrier ? member->whyNot
                                       : translate(request, *member, shape);
  if (why) {
    countForwarded(why);
    return forwardIt();
  }
  std::shared_ptr<Member> keptMember = findMember(request.comm);
  runtime::RankBuffers buffers{request.input, request.output};
  if (isInGroup()) {
    queue({std::move(keptMember), std::move(shape), buffers, request.stream, forwardIt});
    return Code::Success;
  }
  Carrier &carrier = *keptMember->carrier;
  awaitAborted();
  RequestPointer submitted = carrier.submit(keptMember->rank, shape, buffers, request.stream);
  carrier.await(keptMember->rank, submitted);
  std::optional<Code> code = outcome(*keptMember, *submitted);
  return code ? *code : forwardIt();
}

} // namespace

namespace own {

// A collective as ncclX and as ncclXConfig: its parameters, the same as arguments, and the request that they make.
#define KOLO_PARAMETERS(...) __VA_ARGS__
#define KOLO_COLLECTIVE(name, parameters, arguments, ...)                                                              \
  Code name(KOLO_PARAMETERS parameters, Comm comm, Stream stream) {                                                    \
    return carry({__VA_ARGS__, .comm = comm, .stream = stream}, [=] {                                                  \
      return forward(real().functions.name, "nccl" #name, KOLO_PARAMETERS arguments, comm, stream);                    \
    });                                                                                                                \
  }                                                                                                                    \
  Code name##Config(KOLO_PARAMETERS parameters, Comm comm, Stream stream, const CollectiveConfig *config) {            \
    return carry({__VA_ARGS__, .comm = comm, .stream = stream, .config = config}, [=] {                                \
      return forward(real().functions.name##Config, "nccl" #name "Config", KOLO_PARAMETERS arguments, comm, stream,    \
                     config);                                                                                          \
    });                                                                                                                \
  }

#define KOLO_DATA .input = input, .output = output, .count = count, .type = type

KOLO_COLLECTIVE(AllReduce, (const void *input, void *output, size_t count, int type, int operation),
                (input, output, count, type, operation), .kind = CollectiveKind::AllReduce, KOLO_DATA,
                .operation = operation)
KOLO_COLLECTIVE(ReduceScatter, (const void *input, void *output, size_t count, int type, int operation),
                (input, output, count, type, operation), .kind = CollectiveKind::ReduceScatter, KOLO_DATA,
                .operation = operation)
KOLO_COLLECTIVE(Reduce, (const void *input, void *output, size_t count, int type, int operation, int root),
                (input, output, count, type, operation, root), .kind = CollectiveKind::Reduce, KOLO_DATA,
                .operation = operation, .root = root)
KOLO_COLLECTIVE(Broadcast, (const void *input, void *output, size_t count, int type, int root),
                (input, output, count, type, root), .kind = CollectiveKind::Broadcast, KOLO_DATA, .root = root)
KOLO_COLLECTIVE(AllGather, (const void *input, void *output, size_t count, int type), (input, output, count, type),
                .kind = CollectiveKind::AllGather, KOLO_DATA)
KOLO_COLLECTIVE(AlltoAll, (const void *input, void *output, size_t count, int type), (input, output, count, type),
                .kind = CollectiveKind::AllToAll, KOLO_DATA)
KOLO_COLLECTIVE(Gather, (const void *input, void *output, size_t count, int type, int root),
                (input, output, count, type, root), .kind = CollectiveKind::Gather, KOLO_DATA, .root = root)
KOLO_COLLECTIVE(Scatter, (const void *input, void *output, size_t count, int type, int root),
                (input, output, count, type, root), .kind = CollectiveKind::Scatter, KOLO_DATA, .root = root)

Code Bcast(void *memory, size_t count, int type, int root, Comm comm, Stream stream) {
  return carry({.kind = CollectiveKind::Broadcast,
                .input = memory,
                .output = memory,
                .count = count,
                .type = type,
                .root = root,
                .comm = comm,
                .stream = stream},
               [=] { return forward(real().functions.Bcast, "ncclBcast", memory, count, type, root, comm, stream); });
}

} // namespace own
} // namespace kolo::nccl
