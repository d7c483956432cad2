// CUDA's hooks and its device guard, none of which does anything: with them a torch built for processors accepts tensors
// that claim to be on CUDA, and its autograd engine runs their backward pass.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using namespace c10;

struct PretendedGuard final : impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  static Device first() { return Device(DeviceType::CUDA, 0); }
  static Stream stream() { return Stream(Stream::DEFAULT, first()); }
  Device exchangeDevice(Device) const override { return first(); }
  Device getDevice() const override { return first(); }
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream getNewStream(Device, int = 0) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
};
namespace {
C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard)
}

namespace at {
struct PretendedHooks final : CUDAHooksInterface {
  PretendedHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  int getNumGPUs() const override { return 1; }
};
using at::CUDAHooksRegistry;
C10_REGISTER_TYPED_CREATOR(CUDAHooksRegistry, "CUDAHooks", [](CUDAHooksArgs arguments) -> std::unique_ptr<CUDAHooksInterface> {
  return std::make_unique<PretendedHooks>(arguments);
})
}  // namespace at
