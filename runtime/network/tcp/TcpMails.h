// TcpMails: a fabric's mails, carried by a TcpTransport.
#pragma once

#include "network/Fabric.h"
#include "network/tcp/TcpTransport.h"

namespace kolo::runtime {

class TcpMails : public MailPath {
public:
  /// `transport` must outlive this object.
  explicit TcpMails(tcp::TcpTransport &transport) : tcp(transport) {}
  Status mail(int peer, std::span<const std::byte> text) override { return tcp.mail(peer, text); }
  Status progress() override { return tcp.progress(); }
  Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) override {
    return tcp.idle(counter, target, until);
  }
  Status stateOf(int peer) const override { return tcp.stateOf(peer); }

private:
  tcp::TcpTransport &tcp;
};

} // namespace kolo::runtime
