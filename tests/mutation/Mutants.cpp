// The list of mutants.
#include "Mutants.h"
#include "Changes.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kolo::mutation {

llvm::StringRef nameOf(MutantKind kind) {
  static constexpr llvm::StringRef names[] = {"DropSignal",       "DropWait",       "DropSemaphore",  "SignalBeforePut",
                                              "LateWait",         "SmallerScratch", "SharedSlot",     "OtherPeer",
                                              "OtherReceiver",    "DoubleReduce",   "DropReduce",     "DropCopy",
                                              "DropPut",          "DropFlush",      "DropDivide",     "ShiftSource",
                                              "ShiftDestination", "DropOnLastRank", "DropForLastRank"};
  static_assert(std::size(names) == numMutantKinds);
  return names[size_t(kind)];
}

static std::string placeOf(Location location) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto file = location->findInstanceOf<FileLineColLoc>())
    stream << file.getFilename().getValue() << ':' << file.getLine();
  else
    stream << location;
  return text;
}

namespace {

class Engine {
public:
  explicit Engine(ProgramOp program) : program(program) {
    program.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<KoloDialect>(op->getDialect()))
        numberOf.try_emplace(op, numberOf.size());
    });
  }

  std::vector<Mutant> run() {
    program.walk<WalkOrder::PreOrder>([&](Operation *op) { mutateOp(op); });
    mutateSemaphores();
    return std::move(mutants);
  }

private:
  /// A change of the copy of an op; false when it does not apply there.
  using Change = llvm::function_ref<bool(Operation *copy)>;

  void add(MutantKind kind, Operation *op, const llvm::Twine &detail, Change change);
  void addDrop(MutantKind kind, Operation *op);
  void addShifts(MoveInterface move);
  void mutateOp(Operation *op);
  void mutateSync(Operation *op);
  void mutateMove(MoveInterface move);
  void mutateScratch(BufferOp buffer);
  void mutateSemaphores();

  ProgramOp program;
  llvm::DenseMap<Operation *, size_t> numberOf;
  std::vector<Mutant> mutants;
};

void Engine::add(MutantKind kind, Operation *op, const llvm::Twine &detail, Change change) {
  IRMapping mapping;
  OwningOpRef<ProgramOp> copy(cast<ProgramOp>(program->clone(mapping)));
  if (!change(op == program ? copy->getOperation() : mapping.lookup(op)))
    return;
  std::string what = (nameOf(kind) + detail + " #" + llvm::Twine(numberOf.lookup(op)) + " " +
                      op->getName().getStringRef() + " (" + placeOf(op->getLoc()) + ")")
                         .str();
  mutants.push_back({kind, std::move(what), std::move(copy)});
}

void Engine::addDrop(MutantKind kind, Operation *op) {
  add(kind, op, "", [](Operation *copy) {
    copy->erase();
    return true;
  });
  if (!isa<SignalOp, WaitOp>(op))
    add(MutantKind::DropOnLastRank, op, "", [](Operation *copy) {
      dropOnLastRank(copy);
      return true;
    });
}

void Engine::mutateOp(Operation *op) {
  if (isa<SignalOp, WaitOp>(op))
    mutateSync(op);
  else if (auto move = dyn_cast<MoveInterface>(op))
    mutateMove(move);
  else if (auto buffer = dyn_cast<BufferOp>(op); buffer && buffer.getRole() == BufferRole::Scratch)
    mutateScratch(buffer);
  else if (isa<FlushOp>(op))
    addDrop(MutantKind::DropFlush, op);
  else if (isa<DivideOp>(op))
    addDrop(MutantKind::DropDivide, op);
}

void Engine::mutateSync(Operation *op) {
  addDrop(isa<SignalOp>(op) ? MutantKind::DropSignal : MutantKind::DropWait, op);
  add(MutantKind::OtherPeer, op, "", shiftPeer);
  if (isa<WaitOp>(op))
    return add(MutantKind::LateWait, op, "", [](Operation *copy) {
      makeLate(cast<WaitOp>(copy));
      return true;
    });
  add(MutantKind::SignalBeforePut, op, "", [](Operation *copy) {
    PutOp put = putBefore(cast<SignalOp>(copy));
    if (put)
      copy->moveBefore(put);
    return bool(put);
  });
}

void Engine::mutateMove(MoveInterface move) {
  addDrop(isa<ChannelReduceOp>(move.getOperation()) ? MutantKind::DropReduce
          : isa<ChannelCopyOp>(move.getOperation()) ? MutantKind::DropCopy
                                                    : MutantKind::DropPut,
          move);
  if (isa<ChannelReduceOp>(move.getOperation()))
    add(MutantKind::DoubleReduce, move, "", [](Operation *copy) {
      OpBuilder(copy).clone(*copy);
      return true;
    });
  add(MutantKind::OtherPeer, move, "", shiftPeer);
  addShifts(move);
}

static bool shiftOffset(Operation *move, OperandRange offsets, size_t dim) {
  OpBuilder builder(move);
  OpOperand &offset = move->getOpOperand(offsets.getBeginOperandIndex() + unsigned(dim));
  offset.set(createAdd(builder, move->getLoc(), offset.get(), createConstant(builder, move->getLoc(), 1)));
  return true;
}

void Engine::addShifts(MoveInterface move) {
  for (size_t dim = 0; dim < move.getSourceOffsets().size(); ++dim)
    add(MutantKind::ShiftSource, move, " dimension " + llvm::Twine(dim),
        [&](Operation *copy) { return shiftOffset(copy, cast<MoveInterface>(copy).getSourceOffsets(), dim); });
  for (size_t dim = 0; dim < move.getDestinationOffsets().size(); ++dim)
    add(MutantKind::ShiftDestination, move, " dimension " + llvm::Twine(dim),
        [&](Operation *copy) { return shiftOffset(copy, cast<MoveInterface>(copy).getDestinationOffsets(), dim); });
}

/// One slot less, but never none.
static bool shrink(BufferOp buffer) {
  if (buffer.getGrid().empty())
    return false;
  OpBuilder builder(buffer);
  Location loc = buffer.getLoc();
  Value one = createConstant(builder, loc, 1);
  Value fewer = createSub(builder, loc, buffer.getGrid().front(), one);
  buffer.getGridMutable()[0].set(arith::MaxSIOp::create(builder, loc, fewer, one));
  return true;
}

/// Lets every access of a slot go to the slot of half its number.
static bool shareSlots(BufferOp buffer) {
  if (buffer.getGrid().empty())
    return false;
  auto halve = [&](Operation *access, OperandRange offsets) {
    OpBuilder builder(access);
    Location loc = access->getLoc();
    OpOperand &offset = access->getOpOperand(offsets.getBeginOperandIndex());
    Value slot = createModulo(builder, loc, offset.get(), buffer.getGrid().front());
    offset.set(arith::FloorDivSIOp::create(builder, loc, slot, createConstant(builder, loc, 2)));
  };
  for (Operation *user : llvm::SetVector<Operation *>(buffer->user_begin(), buffer->user_end())) {
    if (auto divide = dyn_cast<DivideOp>(user)) {
      halve(divide, divide.getOffsets());
      continue;
    }
    auto move = cast<MoveInterface>(user);
    if (move.getSource() == buffer.getResult())
      halve(move, move.getSourceOffsets());
    if (move.getDestination() == buffer.getResult())
      halve(move, move.getDestinationOffsets());
  }
  return true;
}

void Engine::mutateScratch(BufferOp buffer) {
  add(MutantKind::SmallerScratch, buffer, "", [](Operation *copy) { return shrink(cast<BufferOp>(copy)); });
  add(MutantKind::SharedSlot, buffer, "", [](Operation *copy) { return shareSlots(cast<BufferOp>(copy)); });
}

/// All signals and waits of one semaphore.
static SmallVector<Operation *> endsOf(Operation *program, uint64_t semaphore) {
  SmallVector<Operation *> ends;
  program->walk([&](Operation *op) {
    auto signal = dyn_cast<SignalOp>(op);
    auto wait = dyn_cast<WaitOp>(op);
    if ((signal && signal.getSemaphore() == semaphore) || (wait && wait.getSemaphore() == semaphore))
      ends.push_back(op);
  });
  return ends;
}

void Engine::mutateSemaphores() {
  for (uint64_t semaphore = 0; semaphore < program.getSemaphores(); ++semaphore) {
    std::string detail = " of semaphore " + std::to_string(semaphore);
    add(MutantKind::DropSemaphore, program, detail, [&](Operation *copy) {
      SmallVector<Operation *> ends = endsOf(copy, semaphore);
      for (Operation *op : ends)
        op->erase();
      return !ends.empty();
    });
    add(MutantKind::DropForLastRank, program, detail, [&](Operation *copy) {
      SmallVector<Operation *> ends = endsOf(copy, semaphore);
      for (Operation *op : ends)
        dropForLastRank(op);
      return !ends.empty();
    });
    add(MutantKind::OtherReceiver, program, detail,
        [&](Operation *copy) { return shiftReceivers(cast<ProgramOp>(copy), semaphore); });
  }
}

/// The lines of a program's text, and, to compare them, the same without the names of values.
struct Lines {
  std::vector<std::string> text, anonymous;
  explicit Lines(ProgramOp program) {
    std::string all;
    llvm::raw_string_ostream(all) << program;
    for (llvm::StringRef rest = all; !rest.empty();) {
      auto [line, next] = rest.split('\n');
      rest = next;
      text.push_back(line.str());
      anonymous.emplace_back();
      for (size_t i = 0; i < line.size(); ++i) {
        anonymous.back() += line[i];
        if (line[i] == '%')
          while (i + 1 < line.size() && (llvm::isAlnum(line[i + 1]) || line[i + 1] == '_'))
            ++i;
      }
    }
  }
};

} // namespace

std::vector<Mutant> mutantsOf(ProgramOp program) { return Engine(program).run(); }

std::string differenceOf(ProgramOp before, ProgramOp after) {
  Lines a(before), b(after);
  size_t n = a.text.size(), m = b.text.size();
  // common[i][j]: length of the longest common subsequence of the lines from i and from j on.
  std::vector<std::vector<size_t>> common(n + 1, std::vector<size_t>(m + 1));
  for (size_t i = n; i-- > 0;)
    for (size_t j = m; j-- > 0;)
      common[i][j] =
          a.anonymous[i] == b.anonymous[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string result;
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && a.anonymous[i] == b.anonymous[j])
      ++i, ++j;
    else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1]))
      result += "- " + a.text[i++] + "\n";
    else
      result += "+ " + b.text[j++] + "\n";
  }
  return result;
}

} // namespace kolo::mutation
