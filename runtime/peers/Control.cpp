#include "peers/Control.h"

#include <algorithm>

namespace kolo::runtime {

void setFailure(Record &record, const Status &status) {
  record.code = status.code();
  size_t length = std::min(status.message().size(), sizeof(record.message) - 1);
  std::copy_n(status.message().data(), length, record.message);
  record.message[length] = 0;
}

bool storeAbort(AbortRecord &record, const Status &cause) {
  AbortState expected = AbortState::None;
  if (!record.state.compare_exchange_strong(expected, AbortState::Claimed, std::memory_order_seq_cst))
    return false;
  record.code = cause.code();
  record.culprit = cause.rank();
  size_t length = std::min(cause.message().size(), sizeof(record.message) - 1);
  std::copy_n(cause.message().data(), length, record.message);
  record.message[length] = 0;
  record.state.store(AbortState::Published, std::memory_order_seq_cst);
  return true;
}

} // namespace kolo::runtime
