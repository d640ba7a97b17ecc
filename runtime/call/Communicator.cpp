// Communicator and Window: the public interface of CommunicatorState.
#include "kolo/runtime/Communicator.h"

#include "base/Error.h"
#include "call/CommunicatorState.h"

#include <algorithm>
#include <cstring>

namespace kolo::runtime {

Communicator::Communicator(std::unique_ptr<CommunicatorState> joined) : state(std::move(joined)) {}
Communicator::Communicator(Communicator &&) noexcept = default;
Communicator &Communicator::operator=(Communicator &&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return state->peers().rank(); }
int Communicator::size() const { return state->peers().size(); }

static Result<std::unique_ptr<WindowState>> allocateIn(SegmentTable &table, size_t sizeBytes) {
  if (sizeBytes == 0)
    return error(StatusCode::InvalidArgument, "a window cannot have 0 bytes");
  Result<std::unique_ptr<Segment>> segment = table.create(sizeBytes);
  if (!segment.isOk())
    return segment.status();
  (*segment)->keepDescriptor();
  return std::make_unique<WindowState>(WindowState{std::move(segment).value(), sizeBytes});
}

Result<Window> Communicator::allocate(size_t sizeBytes) {
  return guarded([&]() -> Result<Window> {
    Result<std::unique_ptr<WindowState>> window = allocateIn(*state->segmentTable(), sizeBytes);
    return window.isOk() ? Result(Window(std::move(window).value())) : window.status();
  });
}

Result<Window> Communicator::adopt(const Window &window) {
  return guarded([&]() -> Result<Window> {
    const WindowState &other = *window.state;
    return Window(
        std::make_unique<WindowState>(WindowState{state->segmentTable()->adopt(*other.segment), other.sizeBytes}));
  });
}

Status Communicator::barrier() {
  return guarded([&] { return state->barrier(); });
}

Result<uint64_t> Communicator::beginBarrier() {
  return guarded([&] { return state->splitBarrier.begin(); });
}
Result<bool> Communicator::isBarrierOver(uint64_t number) const {
  return guarded([&] { return state->splitBarrier.isOver(number); });
}
Status Communicator::finishBarrier(uint64_t number) const {
  return guarded([&] { return state->splitBarrier.finish(number); });
}

Result<std::vector<RemoteWindow>> Communicator::exchange(const Window &window) {
  return guarded([&] { return state->exchangeWindows(*window.state, ExchangedWindows::OfAll); });
}

Channel Communicator::channel(int peer, int id) { return Channel(state.get(), peer, id); }

Status Communicator::run(const Plugin &plugin, const CallArguments &arguments) {
  return guarded([&] { return state->run(*plugin.state, arguments); });
}

Status Communicator::carries(const Plugin &plugin, const CallArguments &arguments) const {
  return guarded([&] { return state->carries(*plugin.state, arguments); });
}

std::vector<Mesh> Communicator::meshes() const { return meshesOf(state->peers().hosts()); }

Traffic Communicator::traffic() const { return state->traffic(); }

Result<Window> Window::create(size_t sizeBytes) {
  return guarded([&]() -> Result<Window> {
    // A table of its own: until a communicator adopts the memory, nobody looks for it.
    Result<std::unique_ptr<WindowState>> window =
        allocateIn(*std::make_shared<SegmentTable>(RankKind::Processes), sizeBytes);
    return window.isOk() ? Result(Window(std::move(window).value())) : window.status();
  });
}

Result<Window> Window::reserve(size_t sizeBytes) {
  return guarded([&]() -> Result<Window> {
    if (sizeBytes == 0)
      return error(StatusCode::InvalidArgument, "a window cannot have 0 bytes");
    Result<std::unique_ptr<Segment>> segment = std::make_shared<SegmentTable>(RankKind::Processes)->reserve(sizeBytes);
    if (!segment.isOk())
      return segment.status();
    (*segment)->keepDescriptor();
    return Window(std::make_unique<WindowState>(WindowState{std::move(segment).value(), sizeBytes}));
  });
}

Window::Window(std::unique_ptr<WindowState> created) : state(std::move(created)) {}
Window::Window(Window &&) noexcept = default;
Window &Window::operator=(Window &&) noexcept = default;
Window::~Window() = default;
void *Window::data() const { return state->segment->data(); }
size_t Window::sizeBytes() const { return state->sizeBytes; }

RemoteWindow::RemoteWindow(std::shared_ptr<const RemoteWindowState> resolved) : state(std::move(resolved)) {}
int RemoteWindow::rank() const { return state->rank; }
void *RemoteWindow::data() const { return state->data; }
size_t RemoteWindow::sizeBytes() const { return state->sizeBytes; }

} // namespace kolo::runtime
