// SPDX-License-Identifier: Apache-2.0
// A user's handlers as they are written against the public headers of jaxlib (xla/ffi/api): the target
// thunkd_test_scale multiplies by `factor`. Built with the headers of two releases, told in three ways.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
// After the headers, whose types it uses.
#include "entry.h"

namespace ffi = xla::ffi;

static ffi::Error Check(std::string_view label, ffi::Span<const int64_t> axes, size_t rank) {
    if (label != "abc") return ffi::Error::InvalidArgument("label is '" + std::string(label) + "', not 'abc'");
    if (axes.size() != rank) return ffi::Error::InvalidArgument("axes do not name all dimensions");
    for (size_t i = 0; i < rank; i++)
        if (axes[i] != static_cast<int64_t>(i)) return ffi::Error::InvalidArgument("axes are out of order");
    return ffi::Error::Success();
}

static ffi::Error Multiply(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float factor) {
    if (x.dimensions().size() != y->dimensions().size()) return ffi::Error::Internal("x and y differ");
    for (size_t i = 0; i < x.element_count(); i++) y->typed_data()[i] = x.typed_data()[i] * factor;
    return ffi::Error::Success();
}

static ffi::Error ScaleImpl(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float factor,
                            std::string_view label, ffi::Span<const int64_t> axes) {
    ffi::Error e = Check(label, axes, x.dimensions().size());
    return e.failure() ? e : Multiply(x, y, factor);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, ScaleImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("factor")
                                  .Attr<std::string_view>("label")
                                  .Attr<ffi::Span<const int64_t>>("axes"));

// The symbol that equals a target.
XLA_FFI_DEFINE_HANDLER_SYMBOL(thunkd_test_scale, ScaleImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("factor")
                                  .Attr<std::string_view>("label")
                                  .Attr<ffi::Span<const int64_t>>("axes"));

// Refuses: the attribute is an f32.
static ffi::Error WrongImpl(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>, double) {
    return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    WrongType, WrongImpl,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<double>("factor"));

static ffi::Error FailImpl(ffi::RemainingArgs, ffi::RemainingRets, ffi::Dictionary) {
    return ffi::Error(ffi::ErrorCode::kDataLoss, "the handler says no");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Fail, FailImpl, ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs());

// A state made once per program, scratch memory, the stream of a host, the thread pool, a future.
struct State {
    static ffi::TypeId id;
    float factor;
    static int alive;
    explicit State(float f) : factor(f) { alive++; }
    ~State() { alive--; }
};
ffi::TypeId State::id = {};
int State::alive = 0;

static ffi::ErrorOr<std::unique_ptr<State>> InstantiateImpl(ffi::Dictionary attrs) {
    ffi::ErrorOr<float> factor = attrs.get<float>("factor");
    if (factor.has_error()) return ffi::Unexpected(factor.error());
    return std::make_unique<State>(*factor);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Instantiate, InstantiateImpl, ffi::Ffi::BindInstantiate().Attrs());

static ffi::Future StatefulImpl(State *state, void *stream, ffi::ScratchAllocator scratch, ffi::ThreadPool pool,
                                int32_t ordinal, ffi::RunId run, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                                ffi::Dictionary) {
    ffi::Promise promise;
    ffi::Future future(promise);
    auto memory = scratch.Allocate(x.size_bytes());
    if (State::alive != 1 || stream || !memory || ordinal || run.run_id <= 0 || pool.num_threads() < 1) {
        promise.SetError(ffi::Error::Internal("the context is not as expected"));
        return future;
    }
    float *tmp = static_cast<float *>(*memory);
    for (size_t i = 0; i < x.element_count(); i++) tmp[i] = x.typed_data()[i] * state->factor;
    for (size_t i = 0; i < x.element_count(); i++) y->typed_data()[i] = tmp[i];
    pool.Schedule(
        [promise = std::make_shared<ffi::Promise>(std::move(promise))]() mutable { promise->SetAvailable(); });
    return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Stateful, StatefulImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<State>>()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::RunId>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attrs());

#if defined(TEST_ENTRY)
static XLA_FFI_TypeInfo kStateInfo = ffi::MakeTypeInfo<State>();
THUNKD_FFI_EXPORT const thunkd_ffi_entry_t *thunkd_ffi_handlers(const thunkd_ffi_api_t *api, size_t *n) {
    static const thunkd_ffi_entry_t entries[] = {
        {sizeof(thunkd_ffi_entry_t), "thunkd_test_scale", TEST_ENTRY, Instantiate, nullptr, nullptr, Stateful}};
    if (ffi::Ffi::RegisterTypeId(api, "scale_state", &State::id, &kStateInfo)) return nullptr;
    *n = 1;
    return entries;
}
#elif defined(TEST_STATIC)
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "thunkd_test_scale", "Host", Scale);
#endif
