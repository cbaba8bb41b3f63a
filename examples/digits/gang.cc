#include "gang.h"

#include <stdexcept>  // gloo/common/error.h needs it and does not include it

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>

#include "output.h"
#include "store_server.h"
#include "tcp_store.h"

namespace digits {
namespace {

// Runs one exchange; an exception becomes a Failure, and the connections are closed so that the
// other ranks need not wait for the timeout to learn of it.
template <class Exchange>
Result<void> attempt(gloo::Context& context, const char* what, Exchange&& exchange) {
  try {
    exchange();
    return {};
  } catch (const std::exception& error) {
    const std::string message = error.what();
    try {
      context.closeConnections();
    } catch (const std::exception&) {
      // they are broken already
    }
    return failed(std::string(what) +
                  " failed, so another rank has probably ended or hangs; its own lines "
                  "say why. Gloo: " +
                  message);
  }
}

template <class Number>
void allreduce(const std::shared_ptr<gloo::Context>& context, std::span<Number> values,
               void (*reduce)(void*, const void*, const void*, std::size_t)) {
  gloo::AllreduceOptions options(context);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction(reduce);
  gloo::allreduce(options);
}

Result<std::shared_ptr<gloo::Context>> connectRanks(const Place& place, TcpStore& store,
                                                    std::chrono::seconds timeout) {
  try {
    gloo::transport::tcp::attr attributes(store.localAddress().c_str());
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(place.rank),
                                                               static_cast<int>(place.worldSize));
    context->setTimeout(timeout);
    context->connectFullMesh(store, device);
    store.bye();
    // Rank 0 serves the store until everyone has all that it needs.
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    return std::shared_ptr<gloo::Context>(std::move(context));
  } catch (const std::exception& error) {
    return failed(std::string("the ranks did not find each other: ") + error.what());
  }
}

}  // namespace

Result<Gang> Gang::join(const Place& place, const Options& options) {
  if (place.worldSize == 1) return Gang(place, nullptr);
  const std::uint64_t print = fingerprint(options);
  const std::chrono::seconds timeout(options.timeoutSeconds);
  printLine(format("rank %zu of %zu: meets the others at %s:%s", place.rank, place.worldSize,
                   place.masterAddr.c_str(), place.masterPort.c_str()));
  std::unique_ptr<StoreServer> server;
  if (place.rank == 0) {
    auto started = StoreServer::start(place, print);
    if (!started) return passOn(started.error());
    server = std::move(*started);
  }
  auto store = TcpStore::connect(place, print, timeout);
  if (!store) return passOn(store.error());
  auto context = connectRanks(place, **store, timeout);
  if (!context) return passOn(context.error());
  return Gang(place, std::move(*context));
}

Result<void> Gang::sum(std::span<float> values) {
  if (!context_) return {};
  return attempt(*context_, "adding up over the ranks",
                 [&] { allreduce(context_, values, &gloo::sum<float>); });
}

Result<void> Gang::broadcast(std::span<float> values) {
  if (!context_) return {};
  return attempt(*context_, "sending the state of rank 0 to all ranks", [&] {
    gloo::BroadcastOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setRoot(0);
    gloo::broadcast(options);
  });
}

Result<bool> Gang::isSameEverywhere(std::uint64_t value) {
  if (!context_) return true;
  std::uint64_t least = value;
  std::uint64_t most = value;
  auto done = attempt(*context_, "comparing the ranks", [&] {
    allreduce(context_, std::span(&least, 1), &gloo::min<std::uint64_t>);
    allreduce(context_, std::span(&most, 1), &gloo::max<std::uint64_t>);
  });
  if (!done) return passOn(done.error());
  return least == most;
}

}  // namespace digits
