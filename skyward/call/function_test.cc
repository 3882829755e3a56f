#include "skyward/call/function.h"

#include <gtest/gtest.h>

#include <cereal/types/deque.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/polymorphic.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "skyward/call/error.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/thrown_type.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"

namespace skyward {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square : Shape {
  double side = 0;
  double area() const override { return side * side; }
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(side);
  }
};

}  // namespace skyward

CEREAL_REGISTER_TYPE(skyward::Square);
CEREAL_REGISTER_POLYMORPHIC_RELATION(skyward::Shape, skyward::Square);

namespace skyward {

namespace {
// remote_error_test.cc has another type of this name.
struct Twin : std::runtime_error {
  using std::runtime_error::runtime_error;
};
const ThrownType<Twin> twin;
}  // namespace

double scale(const std::vector<double>& values, double factor) {
  return factor * std::accumulate(values.begin(), values.end(), 0.0);
}

struct Settings {
  int epochs = 0;
  std::string optimizer;
  std::map<std::string, std::vector<float>> weights;

  bool operator==(const Settings&) const = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epochs, optimizer, weights);
  }
};

// No serialize: a plain struct.
struct Layer {
  std::string name;
  std::vector<double> weights;
  bool operator==(const Layer&) const = default;
};
struct Network {
  std::vector<Layer> layers;
  std::optional<Layer> head;
  Settings settings;
  std::map<std::string, Layer> more;
  bool operator==(const Network&) const = default;
};
struct Empty {};
enum class Colour { red, green };

class NotSendable {
 public:
  const int* where() const { return where_; }

 private:
  const int* where_ = nullptr;
};
struct AlsoNotSendable {
  int here = 0;
  NotSendable inside;
};

// Is made of no other type, whatever that converts to.
struct Exact {
  Exact() = default;
  template <typename T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Exact>)
  Exact(T&&) = delete;  // NOLINT(bugprone-forwarding-reference-overload): copies do not take it
  int number = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(number);
  }
};
struct BeginsWithExact {
  Exact first;
  int second = 0;
};

// An aggregate whose own words count, outside of it.
struct Versioned {
  int number = 0;
};
template <typename Archive>
void serialize(Archive& archive, Versioned& value) {
  int version = 1;
  archive(version, value.number);
}

namespace {

Settings doubled(Settings settings) {
  settings.epochs *= 2;
  return settings;
}
int add(int a, int b) noexcept { return a + b; }
int negate(int value) { return -value; }
std::string negate(const std::string& text) { return "-" + text; }
double first_plus_last(std::span<const double> values) { return values.front() + values.back(); }
std::size_t length(std::string_view text) { return text.size(); }
void nothing(std::optional<int>) {}
void count_up(Sink<int>& out, int count) {
  for (int i = 0; i < count; ++i) out.put(i);
}
std::vector<double> zeros(std::size_t count) { return std::vector<double>(count); }
std::vector<double> reversed(std::vector<double>&& values) {
  return {values.rbegin(), values.rend()};
}

// A sink that counts what goes out of band.
struct Store {
  int blobs = 0;
  wire::Blob operator()(ByteView bytes) {
    ++blobs;
    auto memory = io::SharedMemory::create(bytes.size()).value();
    io::copy_bytes(memory->data(), bytes);
    const int descriptor = memory->descriptor();
    return {.id = {}, .size = bytes.size(), .descriptor = descriptor, .storage = memory};
  }
};

// What happens between the two ends of a call, in one process.
template <typename R>
R carry_out(const Pending<R>& pending, int* argument_blobs = nullptr) {
  Store store;
  const Call call = pending.to_call({.put = std::ref(store)});
  if (argument_blobs != nullptr) *argument_blobs = store.blobs;
  const RegisteredFunction* function = find_function(as_text(call.function->bytes.bytes.view));
  EXPECT_NE(function, nullptr);
  ArchiveReader arguments(call.arguments, &map_blob);
  ArchiveWriter written({.put = std::ref(store)});
  function->invoke(arguments, written);
  const wire::Payload payload = written.finish();
  if constexpr (!std::is_void_v<R>) {
    R result{};
    ArchiveReader reader(payload, &map_blob);
    reader(result);
    return result;
  }
}

TEST(Function, ValuesGoThereAndBack) {
  EXPECT_EQ(carry_out(compute<&scale>({1, 2, 3}, 2)), 12);
  EXPECT_EQ(carry_out(compute<add>(2, 40)), 42);
  EXPECT_EQ(carry_out(compute<[](int x) { return x * x; }>(7)), 49);
  carry_out(compute<nothing>(std::nullopt));
  const Settings settings{.epochs = 21, .optimizer = "sgd", .weights = {{"bias", {1.5F}}}};
  EXPECT_EQ(carry_out(compute<doubled>(settings)), doubled(settings));
}

Network echo_network(Network network) { return network; }
Colour other(Colour colour) { return colour == Colour::red ? Colour::green : Colour::red; }
Versioned next_version(Versioned value) { return {value.number + 1}; }
Empty empty(Empty value) { return value; }

TEST(Function, PlainStructsNeedNoWords) {
  const Layer layer{.name = "dense", .weights = {1, 2}};
  const Network network{.layers = {layer, {}},
                        .head = layer,
                        .settings = {.epochs = 3, .optimizer = "adam", .weights = {}},
                        .more = {{"x", layer}}};
  EXPECT_EQ(carry_out(compute<echo_network>(network)), network);
  EXPECT_EQ(carry_out(compute<other>(Colour::red)), Colour::green);
  EXPECT_EQ(carry_out(compute<next_version>({4})).number, 5);
  carry_out(compute<empty>({}));
}

double area_of(const std::shared_ptr<Shape>& shape) { return shape->area(); }

TEST(Function, PointersToRegisteredTypesCarryWhatTheyPointTo) {
  const auto square = std::make_shared<Square>();
  square->side = 3;
  EXPECT_EQ(carry_out(compute<area_of>(square)), 9);
}

TEST(Function, LocalCallsTheFunctionItself) {
  constexpr auto scale_function = compute<scale>;
  EXPECT_EQ(scale_function.local({1, 2}, 3), 9);
}

TEST(Function, NameIsTheOneInTheSource) {
  EXPECT_EQ(compute<scale>({}, 1).name(), "skyward::scale");
  EXPECT_EQ(compute<add>(1, 2).name(), "skyward::add");
  EXPECT_EQ(compute<count_up>(3).to_call({}).function->name, "skyward::count_up");
}

TEST(Function, OverloadsAreDifferentFunctions) {
  const auto number = compute<static_cast<int (*)(int)>(negate)>;
  const auto text = compute<static_cast<std::string (*)(const std::string&)>(negate)>;
  EXPECT_EQ(carry_out(number(3)), -3);
  EXPECT_EQ(carry_out(text("x")), "-x");
}

TEST(Function, SameSymbolInTwoFilesIsNumbered) {
  const auto invoke = [](ArchiveReader&, ArchiveWriter&) {};
  static const RegisteredFunction first("test-symbol", "[with auto F = twice]", invoke);
  static const RegisteredFunction second("test-symbol", "[with auto F = twice]", invoke);
  EXPECT_EQ(find_function("test-symbol"), &first);
  EXPECT_EQ(find_function(second.symbol()), &second);
  EXPECT_NE(first.symbol(), second.symbol());
  EXPECT_EQ(second.name(), "twice");
}

TEST(Function, LargeVectorsTravelApart) {
  std::vector<double> small(8, 1.0);
  std::vector<double> large(kBlobThresholdBytes / sizeof(double), 1.0);
  large.back() = 5;
  int blobs = -1;
  EXPECT_EQ(carry_out(compute<scale>(small, 1), &blobs), 8);
  EXPECT_EQ(blobs, 0);
  EXPECT_EQ(carry_out(compute<scale>(large, 1), &blobs), static_cast<double>(large.size()) + 4);
  EXPECT_EQ(blobs, 1);
  EXPECT_EQ(carry_out(compute<reversed>(large)).front(), 5);
  EXPECT_EQ(carry_out(compute<zeros>(std::size_t{100'000})).size(), 100'000U);
}

TEST(Function, ViewsReadWhatTheCallerGave) {
  std::vector<double> values(kBlobThresholdBytes, 0.0);
  values.front() = 1;
  values.back() = 2;
  EXPECT_EQ(carry_out(compute<first_plus_last>(values)), 3);
  EXPECT_EQ(carry_out(compute<first_plus_last>({4, 5})), 9);
  EXPECT_EQ(carry_out(compute<length>("four")), 4U);
  EXPECT_EQ(carry_out(compute<length>(std::string(kBlobThresholdBytes, 'x'))), kBlobThresholdBytes);
}

std::vector<std::vector<float>> echo(std::vector<std::vector<float>> rows) { return rows; }

double sum_of(Array<double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST(Array, IsStoredOncePerPool) {
  const Array<double> values(std::vector<double>(kBlobThresholdBytes, 1.0));
  Store store;
  const auto send = [&](std::uint64_t id) {
    const Call call = compute<first_plus_last>(values).to_call({.put = std::ref(store), .id = id});
    return call.arguments.buffers.at(1).blob.descriptor;
  };
  const int first = send(1);
  EXPECT_EQ(send(1), first);
  EXPECT_EQ(store.blobs, 1);
  EXPECT_NE(send(2), first);
  EXPECT_EQ(store.blobs, 2);
}

TEST(Array, IsParameterAndResult) {
  EXPECT_EQ(carry_out(compute<sum_of>({1, 2, 3})), 6);
  const std::vector<double> large(kBlobThresholdBytes, 2.0);
  EXPECT_EQ(carry_out(compute<sum_of>(large)), 2.0 * static_cast<double>(large.size()));
  constexpr auto echo_array = compute<[](Array<double> one) { return one; }>;
  EXPECT_EQ(carry_out(echo_array(large)), Array<double>(large));
}

TEST(Array, HasItsElementsAfterAMove) {
  Array<double> values{1, 2, 3};
  const Array<double> moved = std::move(values);
  // NOLINTNEXTLINE(bugprone-use-after-move): that it may be used is the point.
  EXPECT_EQ(values.size(), 3U);
  EXPECT_EQ(values, moved);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), 6);
  EXPECT_EQ(carry_out(compute<sum_of>(values)), 6);
}

TEST(Function, MoreLargeVectorsThanDescriptorsFitAMessage) {
  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < 2 * kMaxFrameDescriptors; ++i) {
    rows.emplace_back(kBlobThresholdBytes / sizeof(float), static_cast<float>(i));
  }
  int blobs = 0;
  EXPECT_EQ(carry_out(compute<echo>(rows), &blobs), rows);
  EXPECT_LE(blobs, static_cast<int>(kMaxFrameDescriptors));
}

TEST(Function, ExceptionsPassThroughInvoke) {
  constexpr auto fails = compute<[](int x) -> int { throw std::out_of_range(std::to_string(x)); }>;
  EXPECT_THROW(carry_out(fails(3)), std::out_of_range);
}

TEST(Archive, BytesThatEndEarlyAreRefused) {
  ArchiveWriter archive({});
  archive(std::int32_t{7});
  const wire::Payload payload = archive.finish();
  ArchiveReader reader(payload, &map_blob);
  std::int64_t number = 0;
  EXPECT_THROW(reader(number), SerializationError);
}

TEST(Archive, BytesThatNobodyReadsAreRefused) {
  ArchiveWriter archive({});
  archive(std::int32_t{7}, std::int32_t{8});
  const wire::Payload payload = archive.finish();
  ArchiveReader reader(payload, &map_blob);
  std::int32_t number = 0;
  reader(number);
  EXPECT_THROW(reader.expect_end(), SerializationError);
  reader(number);
  EXPECT_NO_THROW(reader.expect_end());
}

// What another machine sends may begin with any count of elements.
template <typename T>
class HostileCount : public testing::Test {
 protected:
  // Reads a T that begins with this count, with 16 bytes behind it.
  static void read(std::uint64_t count) {
    ArchiveWriter archive({});
    archive(count, std::uint64_t{0}, std::uint64_t{0});
    const wire::Payload payload = archive.finish();
    ArchiveReader reader(payload, &map_blob);
    T value;
    reader(value);
  }
};
using Containers =
    testing::Types<std::string, std::vector<double>, std::vector<std::string>, std::vector<bool>,
                   std::vector<Empty>, std::deque<int>, std::unordered_map<int, int>, Array<float>>;
TYPED_TEST_SUITE(HostileCount, Containers);

TYPED_TEST(HostileCount, IsRefusedBeforeMemoryIsTakenForIt) {
  for (const std::uint64_t count : {std::uint64_t{17}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    EXPECT_THROW(this->read(count), SerializationError) << count;
  }
}

std::vector<Empty> as_many(std::vector<Empty> values) { return values; }

TEST(Archive, ElementsWithoutFieldsCanBeCounted) {
  EXPECT_EQ(carry_out(compute<as_many>(std::vector<Empty>(1000))).size(), 1000U);
}

TEST(Pending, OptionsAreOfTheCopy) {
  const auto call = compute<add>(1, 2);
  const auto limited = call.with_timeout(std::chrono::seconds(3)).on_node(2);
  EXPECT_EQ(call.to_call({}).options.timeout, Duration{});
  EXPECT_EQ(limited.to_call({}).options.timeout, std::chrono::seconds(3));
  EXPECT_EQ(limited.to_call({}).options.node, NodeId{2});
  EXPECT_EQ(call.with_retries(1000).to_call({}).options.retries, 1000U);
  EXPECT_EQ(call.to_call({}).options.retries, 0U);
  EXPECT_THROW((void)call.with_retries(-1), ConfigurationError);
  EXPECT_THROW((void)call.with_retries(1001), ConfigurationError);
}

TEST(Pending, BatchesAreFlatAndTyped) {
  const auto one = compute<add>(1, 2);
  const auto two = compute<length>("ab");
  const auto three = compute<nothing>(1);
  static_assert(std::is_same_v<decltype(one & two & three), Batch<int, std::size_t, void>>);
  static_assert(std::is_same_v<decltype(one & (two & three)), Batch<int, std::size_t, void>>);
  static_assert(
      std::is_same_v<decltype((one & two) & (one & three)), Batch<int, std::size_t, int, void>>);
  static_assert(std::is_same_v<decltype(gather(one, two)), Batch<int, std::size_t>>);
  static_assert(std::is_same_v<decltype(gather(std::vector{one, one})), Gathered<int>>);
  const auto limited = (one & two).with_timeout(std::chrono::seconds(1));
  EXPECT_EQ(std::get<1>(limited.calls()).to_call({}).options.timeout, std::chrono::seconds(1));
}

TEST(Sendable, KnowsWhatCanTravel) {
  static_assert(IsSendable<int>::value);
  static_assert(IsSendable<std::vector<std::pair<std::string, double>>>::value);
  static_assert(IsSendable<std::map<std::string, Settings>>::value);
  static_assert(IsSendable<std::tuple<int, std::optional<float>>>::value);
  static_assert(!IsSendable<NotSendable>::value);
  static_assert(!IsSendable<std::vector<NotSendable>>::value);
  static_assert(!IsSendable<std::pair<int, NotSendable>>::value);
  static_assert(!IsSendable<int*>::value);
  static_assert(IsSendable<Network>::value);
  static_assert(IsSendable<Versioned>::value);
  static_assert(IsSendable<Colour>::value);
  static_assert(!IsSendable<AlsoNotSendable>::value);
  static_assert(IsSendable<Exact>::value);
  static_assert(!IsSendable<BeginsWithExact>::value);  // its fields cannot be counted
}

}  // namespace
}  // namespace skyward
